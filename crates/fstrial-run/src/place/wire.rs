//! What crosses between a trial and the agent at a place: lines of JSON, and nothing else. No descriptor, path or process
//! number of one host means anything on the other.

use super::JobOutcome;
use crate::environment::Environment;
use fstrial_model::{
    bounded,
    job::{Job, WorkerMessage},
    units::Bytes,
    workload::Data,
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

/// Raised when an order or an answer changes its meaning; an agent refuses another version than its own. What is in a job
/// has a number of its own.
pub(super) const WIRE: u32 = 1;
/// How often either side says that it is alive.
pub(super) const PULSE: Duration = Duration::from_secs(1);
/// How long a side may say nothing before the other one takes it for gone.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
const _: () = assert!(SILENCE.as_secs() > 10 * PULSE.as_secs());
/// The longest line: a measurement with its histograms and rates.
const MAX_LINE: u64 = 16 << 20;
/// Messages that were read and not yet heard; the other side waits.
const HEARD: usize = 4;
/// Messages that are to be said. A side that reads nothing while this many come is gone.
const SAID: usize = 4096;

/// From the trial to the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub(crate) enum Order {
    /// Nothing has happened.
    Alive,
    /// Make the devices of a trial. Comes once, and first.
    Open {
        /// [`WIRE`] of the sender.
        wire: u32,
        /// Its version: what generates the load must be the same everywhere.
        fstrial: String,
        /// What the trial calls the place.
        place: String,
        /// The trial as a file.
        trial: String,
        /// Its seed.
        seed: u64,
        /// Processors of the host of the trial, which decide default levels.
        cpus: u16,
    },
    /// Run a job.
    Run {
        /// What is done.
        job: Box<Job>,
    },
    /// End what is being done and put everything back.
    Interrupt,
    /// Give the devices up and end. As the first order: only put back what an agent before has left.
    Close,
}

/// From the agent to the trial.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub(super) enum Answer {
    /// Nothing has happened.
    Alive,
    /// How far the device is.
    Preparing {
        /// Bytes done.
        done: Bytes,
        /// Bytes in all.
        total: Bytes,
    },
    /// The devices are there.
    Opened {
        /// What the machine is, and its device.
        environment: Box<Environment>,
        /// What files should hold on it.
        data: Data,
    },
    /// What a worker says.
    Worker {
        /// Its message.
        message: Box<WorkerMessage>,
    },
    /// A job has ended, and no part of it is left.
    Ended {
        /// How.
        ended: JobOutcome,
        /// What a reader should know about how the device did so far.
        #[serde(deserialize_with = "bounded::texts")]
        warnings: Vec<String>,
    },
    /// Everything is given up. The last line.
    Closed,
    /// What was asked for cannot be done. The last line.
    Refused {
        /// What is wrong.
        what: String,
        /// What to try.
        hint: Option<String>,
        /// The exit code of a command that fails so.
        code: u8,
    },
}

/// Says messages from a thread of its own: anyone who does not read holds nobody up.
pub(crate) struct Voice<T> {
    messages: mpsc::SyncSender<T>,
    ended: mpsc::Receiver<()>,
    /// Something could not be said: nothing after it is.
    is_lost: Arc<AtomicBool>,
}

impl<T: Serialize + Send + 'static> Voice<T> {
    /// Speaks to the other side, and says `alive` whenever there was nothing else to say for a pulse.
    pub(crate) fn to(mut to: impl Write + Send + 'static, pulse: Duration, alive: fn() -> T) -> Self {
        let (messages, said) = mpsc::sync_channel(SAID);
        let (at_end, ended) = mpsc::channel();
        let is_lost = Arc::new(AtomicBool::new(false));
        let was_lost = Arc::clone(&is_lost);
        thread::spawn(move || {
            let _at_end: mpsc::Sender<()> = at_end;
            loop {
                let message = match said.recv_timeout(pulse) {
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

    /// Says something. If nobody is there any more, no answer comes either.
    pub(crate) fn say(&self, message: T) {
        if let Err(mpsc::TrySendError::Full(_)) = self.messages.try_send(message) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }

    /// Says what is still to be said, for as long as `patience`.
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

/// The next line of somebody who complains, whatever it holds: what is too long of it is left out.
pub(crate) fn next_line(from: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = from.by_ref().take(bounded::MAX_TEXT as u64).read_until(b'\n', &mut line).ok()?;
    if read > 0 && !line.ends_with(b"\n") {
        from.skip_until(b'\n').ok()?;
    }
    (read > 0).then(|| String::from_utf8_lossy(&line).into_owned())
}

/// The messages that come, as they come; a line that is not one as its text. No more when the other side is gone.
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
    while let Some(order) = read_line::<Order>(&mut orders) {
        std::hint::black_box(order.is_ok());
    }
    while let Some(answer) = read_line::<Answer>(&mut answers) {
        std::hint::black_box(answer.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent_and_what_is_none_comes_as_text() {
        let mut lines = Vec::new();
        write_line(&mut lines, &Order::Interrupt).unwrap();
        lines.extend(b"Last login: today\n");
        write_line(&mut lines, &Order::Close).unwrap();
        let received: Vec<Result<Order, String>> = receive(std::io::Cursor::new(lines)).iter().collect();
        assert!(
            matches!(&received[..], [Ok(Order::Interrupt), Err(text), Ok(Order::Close)] if text == "Last login: today"),
            "{received:?}"
        );
    }

    #[test]
    fn what_is_too_long_of_a_complaint_is_left_out() {
        let mut lines = vec![b'x'; 1 << 20];
        lines.extend(b"\nshort\xff\nlast");
        let mut from = lines.as_slice();
        assert_eq!(next_line(&mut from).unwrap().len(), bounded::MAX_TEXT);
        assert_eq!(next_line(&mut from).unwrap(), "short\u{fffd}\n");
        assert_eq!((next_line(&mut from).as_deref(), next_line(&mut from)), (Some("last"), None));
    }

    #[test]
    fn nothing_is_queued_without_end() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let voice = Voice::to(near, PULSE, || Order::Alive);
        // More than the queue and the socket hold.
        for _ in 0..3 * SAID {
            let place = "x".repeat(1000);
            let (fstrial, trial) = (String::new(), String::new());
            voice.say(Order::Open { wire: WIRE, fstrial, place, trial, seed: 0, cpus: 1 });
        }
        let orders = receive::<Order>(far);
        assert!(orders.iter().take(3 * SAID).count() < 3 * SAID, "it ends where something could not be said");
    }

    #[test]
    fn a_side_that_does_not_read_holds_nobody_up_and_hears_all_when_it_does() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let voice = Voice::to(near, PULSE, || Order::Alive);
        let place = "x".repeat(1 << 20);
        for seed in 0..8 {
            let (fstrial, trial) = (String::new(), String::new());
            voice.say(Order::Open { wire: WIRE, fstrial, place: place.clone(), trial, seed, cpus: 1 });
        }
        let orders = receive::<Order>(far);
        for wanted in 0..8 {
            let order = orders.recv().unwrap().unwrap();
            assert!(matches!(order, Order::Open { seed, .. } if seed == wanted));
        }
        assert!(matches!(orders.recv().unwrap().unwrap(), Order::Alive), "nothing else was said");
        voice.end(PULSE);
        assert!(orders.iter().all(|order| matches!(order, Ok(Order::Alive))));
    }
}
