//! What crosses between a trial and the agent at a place: lines of JSON, and nothing else. No descriptor, path or process
//! number of one host means anything on the other.

use super::JobOutcome;
use crate::run::environment::Environment;
use fstrial_model::{
    job::{Job, WorkerMessage},
    units::Bytes,
    workload::Data,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{BufRead, BufReader, Read, Write},
    sync::mpsc,
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
/// The longest line: a measurement with its histograms.
const MAX_LINE: u64 = 64 << 20;

/// From the trial to the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub(super) enum Order {
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
        message: WorkerMessage,
    },
    /// A job has ended, and no part of it is left.
    Ended {
        /// How.
        ended: JobOutcome,
        /// What a reader should know about how the device did so far.
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
pub(super) struct Voice<T> {
    messages: mpsc::Sender<T>,
    ended: mpsc::Receiver<()>,
}

impl<T: Serialize + Send + 'static> Voice<T> {
    /// Speaks to the other side, and says `alive` whenever there was nothing else to say for a pulse.
    pub(super) fn to(mut to: impl Write + Send + 'static, alive: fn() -> T) -> Self {
        let (messages, said) = mpsc::channel();
        let (at_end, ended) = mpsc::channel();
        thread::spawn(move || {
            let _at_end: mpsc::Sender<()> = at_end;
            loop {
                let message = match said.recv_timeout(PULSE) {
                    Ok(message) => message,
                    Err(mpsc::RecvTimeoutError::Timeout) => alive(),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                };
                if write_line(&mut to, &message).is_err() {
                    break;
                }
            }
        });
        Self { messages, ended }
    }

    /// Says something. If nobody is there any more, no answer comes either.
    pub(super) fn say(&self, message: T) {
        let _ = self.messages.send(message);
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

/// The messages that come, as they come; a line that is not one as its text. No more when the other side is gone.
pub(super) fn receive<T: DeserializeOwned + Send + 'static>(
    from: impl Read + Send + 'static,
) -> mpsc::Receiver<Result<T, String>> {
    let (sender, messages) = mpsc::channel();
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
    fn a_side_that_does_not_read_holds_nobody_up_and_hears_all_when_it_does() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let voice = Voice::to(near, || Order::Alive);
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
