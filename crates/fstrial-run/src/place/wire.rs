//! The protocol between a trial and the agent at a place: lines of JSON, and nothing else. No descriptor, path or
//! process number of one host is valid on the other.

use super::JobOutcome;
use crate::environment::Environment;
use fstrial_model::{
    bounded,
    job::{Job, WorkerMessage},
    units::Bytes,
    workload::{ContentDigest, Data},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{BufRead, BufReader, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// Raised when an order or an answer changes its meaning; an agent refuses other versions. The content of a job has a
/// separate number.
pub(super) const WIRE: u32 = 2;
/// Interval of both sides' heartbeat.
pub(super) const PULSE: Duration = Duration::from_secs(1);
/// Limit of a side's silence before the other one considers it gone.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
const _: () = assert!(SILENCE.as_secs() > 10 * PULSE.as_secs());
/// The longest line: a measurement with its histograms and rates.
const MAX_LINE: u64 = 16 << 20;
/// Received messages not yet processed; the other side waits.
const HEARD: usize = 4;
/// Messages waiting to be sent. A side that reads nothing while this many come is gone.
const SAID: usize = 4096;

/// From the trial to the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub(crate) enum AgentOrder {
    /// Nothing has happened.
    Alive,
    /// Make the devices of a trial. Comes once, and first.
    Open {
        /// [`WIRE`] of the sender.
        wire: u32,
        /// Its version: the load generator must be the same everywhere.
        fstrial: String,
        /// The place's name in the trial.
        place: String,
        /// The trial as a file.
        trial: String,
        seed: u64,
        /// Processors of the host of the trial, which decide default levels.
        cpus: u16,
    },
    /// Take a part of an input that jobs name; the parts of each come one after the other.
    Put {
        /// Digest of the whole.
        digest: ContentDigest,
        /// The part, in Base64.
        part: String,
        is_last: bool,
    },
    /// Run a job.
    Run { job: Box<Job> },
    /// End the current work and restore everything.
    Interrupt,
    /// Release the devices and end. As the first order: only undo an earlier agent's leftovers.
    Close,
}

/// From the agent to the trial.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub(super) enum AgentAnswer {
    /// Nothing has happened.
    Alive,
    /// Progress of the device.
    Preparing {
        done: Bytes,
        /// Bytes in all.
        total: Bytes,
    },
    /// The devices are there.
    Opened {
        /// The machine, and its device.
        environment: Box<Environment>,
        /// Suitable content of files on it.
        data: Data,
    },
    /// A part was taken.
    Taken,
    /// A message of a worker.
    Worker { message: Box<WorkerMessage> },
    /// A job has ended, and no part of it is left.
    Ended {
        ended: JobOutcome,
        /// Warnings on the device's behaviour so far, for the reader.
        #[serde(deserialize_with = "bounded::texts")]
        warnings: Vec<String>,
    },
    /// Everything is given up. The last line.
    Closed,
    /// The request cannot be met. The last line.
    Refused {
        /// The problem.
        what: String,
        /// The remedy.
        hint: Option<String>,
        /// The exit code of a command that fails so.
        code: u8,
    },
}

/// Sends messages on a separate thread: a peer that does not read blocks nothing.
pub(crate) struct Voice<T> {
    messages: mpsc::SyncSender<T>,
    ended: mpsc::Receiver<()>,
    /// A message was lost: no later one is sent.
    is_lost: Arc<AtomicBool>,
}

impl<T: Serialize + Send + 'static> Voice<T> {
    /// Starts sending to the other side, with `alive` whenever a pulse passed without a message.
    pub(crate) fn to(mut to: impl Write + Send + 'static, pulse: Duration, alive: fn() -> T) -> Self {
        let (messages, queued) = mpsc::sync_channel(SAID);
        let (at_end, ended) = mpsc::channel();
        let is_lost = Arc::new(AtomicBool::new(false));
        let was_lost = Arc::clone(&is_lost);
        thread::spawn(move || {
            let _at_end: mpsc::Sender<()> = at_end;
            loop {
                let message = match queued.recv_timeout(pulse) {
                    Ok(message) => message,
                    Err(mpsc::RecvTimeoutError::Timeout) => alive(),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                };
                if was_lost.load(Ordering::Relaxed) || write_line(&mut to, &message).is_err() {
                    break;
                }
            }
        });
        Self { messages, ended, is_lost }
    }

    /// Sends a message. If the peer is gone, no answer comes either.
    pub(crate) fn say(&self, message: T) {
        if let Err(mpsc::TrySendError::Full(_)) = self.messages.try_send(message) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }

    /// Sends the remaining messages, for at most `patience`.
    pub(super) fn end(self, patience: Duration) {
        drop(self.messages);
        let _ = self.ended.recv_timeout(patience);
    }
}

fn write_line(to: &mut impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_string(message).expect("orders and answers are plain data");
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// A line that was read; none at the end.
fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<Result<T, String>> {
    let mut line = String::new();
    match from.by_ref().take(MAX_LINE).read_line(&mut line) {
        Ok(0) | Err(_) => None,
        // The other side died while it wrote.
        Ok(_) if !line.ends_with('\n') => None,
        Ok(_) => Some(serde_json::from_str(&line).map_err(|_| line.trim_end().chars().take(200).collect())),
    }
}

/// The next line of a standard error stream, with any content; the excess of a long one is dropped.
pub(crate) fn next_line(from: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = from.by_ref().take(bounded::MAX_TEXT as u64).read_until(b'\n', &mut line).ok()?;
    if read > 0 && !line.ends_with(b"\n") {
        from.skip_until(b'\n').ok()?;
    }
    (read > 0).then(|| String::from_utf8_lossy(&line).into_owned())
}

/// The messages as they come; an invalid line as its text. Ends when the other side is gone.
pub(super) fn receive<T: DeserializeOwned + Send + 'static>(
    from: impl Read + Send + 'static,
) -> mpsc::Receiver<Result<T, String>> {
    let (sender, messages) = mpsc::sync_channel(HEARD);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        while let Some(message) = read_line(&mut from) {
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    messages
}

/// Reads every line as either side would: an entrance for the fuzzer.
pub fn read_all(lines: &[u8]) {
    let (mut orders, mut answers) = (lines, lines);
    while let Some(order) = read_line::<AgentOrder>(&mut orders) {
        std::hint::black_box(order.is_ok());
    }
    while let Some(answer) = read_line::<AgentAnswer>(&mut answers) {
        std::hint::black_box(answer.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_other_lines_become_text() {
        let mut lines = Vec::new();
        write_line(&mut lines, &AgentOrder::Interrupt).unwrap();
        lines.extend(b"Last login: today\n");
        write_line(&mut lines, &AgentOrder::Close).unwrap();
        let received: Vec<Result<AgentOrder, String>> = receive(std::io::Cursor::new(lines)).iter().collect();
        assert!(
            matches!(&received[..], [Ok(AgentOrder::Interrupt), Err(text), Ok(AgentOrder::Close)] if text == "Last login: today"),
            "{received:?}"
        );
    }

    #[test]
    fn overlong_line_is_truncated() {
        let mut lines = vec![b'x'; 1 << 20];
        lines.extend(b"\nshort\xff\nlast");
        let mut from = lines.as_slice();
        assert_eq!(next_line(&mut from).unwrap().len(), bounded::MAX_TEXT);
        assert_eq!(next_line(&mut from).unwrap(), "short\u{fffd}\n");
        assert_eq!((next_line(&mut from).as_deref(), next_line(&mut from)), (Some("last"), None));
    }

    #[test]
    fn send_queue_is_bounded() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let voice = Voice::to(near, PULSE, || AgentOrder::Alive);
        // More than the queue and the socket hold.
        for _ in 0..3 * SAID {
            let place = "x".repeat(1000);
            let (fstrial, trial) = (String::new(), String::new());
            voice.say(AgentOrder::Open { wire: WIRE, fstrial, place, trial, seed: 0, cpus: 1 });
        }
        let orders = receive::<AgentOrder>(far);
        assert!(orders.iter().take(3 * SAID).count() < 3 * SAID, "it ends where something could not be said");
    }

    #[test]
    fn slow_reader_receives_all_without_blocking_sender() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let voice = Voice::to(near, PULSE, || AgentOrder::Alive);
        let place = "x".repeat(1 << 20);
        for seed in 0..8 {
            let (fstrial, trial) = (String::new(), String::new());
            voice.say(AgentOrder::Open { wire: WIRE, fstrial, place: place.clone(), trial, seed, cpus: 1 });
        }
        let orders = receive::<AgentOrder>(far);
        for wanted in 0..8 {
            let order = orders.recv().unwrap().unwrap();
            assert!(matches!(order, AgentOrder::Open { seed, .. } if seed == wanted));
        }
        assert!(matches!(orders.recv().unwrap().unwrap(), AgentOrder::Alive), "nothing else was said");
        voice.end(PULSE);
        assert!(orders.iter().all(|order| matches!(order, Ok(AgentOrder::Alive))));
    }
}
