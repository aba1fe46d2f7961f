//! Starting programs, with limits on their use of the machine and on the wait for them.

use std::{
    ffi::OsStr,
    io::{self, Read},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A program with a plain environment, not yet started.
#[expect(clippy::disallowed_methods, reason = "the one place where the attack starts programs")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

#[expect(clippy::disallowed_methods, reason = "it waits for a moment in the life of another process")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// Waits until something holds; false if it does not in time.
pub(crate) fn eventually(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + patience;
    while !holds() {
        if Instant::now() > until {
            return false;
        }
        pause(Duration::from_millis(10));
    }
    true
}

/// The end of a program, and its last output.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Bytes that it wrote to both, kept or not.
    pub(crate) written: u64,
    pub(crate) time: Duration,
    /// It did not end, and was killed.
    pub(crate) hung: bool,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Faulty ends of the program: a panic, a death, a hang.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.hung {
            return Some(format!("did not end within {:.0?}", self.time));
        }
        if self.stderr.contains("panicked at") {
            let line = self.stderr.lines().find(|line| line.contains("panicked at")).unwrap_or_default();
            return Some(line.to_owned());
        }
        match (self.code(), self.signal()) {
            (_, Some(signal)) => Some(format!("died of signal {signal}: {}", self.last_words())),
            (Some(101), _) => Some(format!("exit code 101: {}", self.last_words())),
            _ => None,
        }
    }

    pub(crate) fn last_words(&self) -> String {
        let message = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let last: Vec<&str> = message.lines().rev().filter(|line| !line.trim().is_empty()).take(2).collect();
        last.into_iter().rev().collect::<Vec<_>>().join(" / ").chars().take(300).collect()
    }
}

/// Most of a stream that is kept.
const KEPT: u64 = 4 << 20;

/// Keeps the beginning of a stream and reads on to its end.
fn reader(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<(String, u64)> {
    thread::spawn(move || {
        let (mut kept, mut further) = (Vec::new(), 0);
        if let Some(mut stream) = stream {
            let _ = stream.by_ref().take(KEPT).read_to_end(&mut kept);
            further = io::copy(&mut stream, &mut io::sink()).unwrap_or(0);
        }
        (String::from_utf8_lossy(&kept).into_owned(), kept.len() as u64 + further)
    })
}

/// Runs a program to its end, or kills it when it takes too long.
///
/// # Panics
/// It cannot be started.
pub(crate) fn run(command: &mut Command, patience: Duration) -> Ended {
    try_run(command, patience).unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"))
}

fn try_run(command: &mut Command, patience: Duration) -> io::Result<Ended> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    Ok(finish(child, patience))
}

/// Reads a child's output, if that is piped, and waits for its end; kills it when it takes too long.
pub(crate) fn finish(mut child: Child, patience: Duration) -> Ended {
    let began = Instant::now();
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let (status, hung) = wait(&mut child, patience);
    let [(stdout, printed), (stderr, complained)] =
        [stdout, stderr].map(|all| all.join().unwrap_or_default());
    Ended { status, stdout, stderr, written: printed + complained, time: began.elapsed(), hung }
}

/// Waits for a child; kills it when it takes too long, and reports that.
pub(crate) fn wait(child: &mut Child, patience: Duration) -> (ExitStatus, bool) {
    let mut status = None;
    let ended = eventually(patience, || {
        status = child.try_wait().expect("it is our child");
        status.is_some()
    });
    if !ended {
        let _ = child.kill();
    }
    (status.unwrap_or_else(|| child.wait().expect("it is our child")), !ended)
}

/// Runs a tool that must succeed; its output otherwise.
pub(crate) fn tool(program: &str, words: &[&str]) -> Result<String, String> {
    let ended = try_run(command(program).args(words), Duration::from_secs(60));
    let ended = ended.map_err(|error| format!("{program} cannot be started: {error}"))?;
    match ended.code() {
        Some(0) => Ok(ended.stdout.trim().to_owned()),
        _ => Err(format!("{program} {}: {}", words.join(" "), ended.last_words())),
    }
}
