//! Jobs by any command that starts a program on a host: ssh, kubectl, a script that submits to another scheduler.

use super::{Folder, JobState, Scheduler, lines::CampaignOrder};
use crate::error::ExpectedError;
use fstrial_stack::confined;
use rustix::{
    fs::OFlags,
    process::{Pid, Signal},
};
use std::{
    collections::HashMap,
    io::Write,
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

/// Time limit for a command to end after the end of its input.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command for each host.
pub struct Commands {
    /// The words of the command, `{host}` in them for the host.
    words: Vec<String>,
    jobs: HashMap<String, Job>,
}

struct Job {
    child: Child,
    /// Open as long as the job is to run.
    input: Option<ChildStdin>,
    cancelled: Option<Instant>,
}

impl Commands {
    pub fn new(words: Vec<String>) -> Self {
        Self { words, jobs: HashMap::new() }
    }
}

impl Scheduler for Commands {
    fn start(&mut self, order: &CampaignOrder, folder: &Folder) -> Result<String, ExpectedError> {
        let host = &order.host;
        let words: Vec<String> = self.words.iter().map(|word| word.replace("{host}", host)).collect();
        let (program, words) = words.split_first().expect("there is a command");
        let file = |ending: &str| {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND;
            let file = folder.dir().file(format!("{host}.{ending}"), flags)?;
            Ok::<_, ExpectedError>(file.map_or_else(Stdio::null, Stdio::from))
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the user's own command, which lives as long as the campaign"
        )]
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(file("out")?).stderr(file("log")?);
        // Ctrl-C is for us: we notify the job.
        let mut child = confined::in_own_session(&mut command).spawn().map_err(|error| {
            ExpectedError::usage(
                format!("{program} could not be started: {error}"),
                "check the words after --on",
            )
        })?;
        let order = CampaignOrder { holds: true, ..order.clone() };
        let mut input = child.stdin.take();
        let line = serde_json::to_string(&order).expect("an order is plain data") + "\n";
        // One that has ended already is detected later.
        if let Some(input) = &mut input {
            let _ = input.write_all(line.as_bytes());
        }
        self.jobs.insert(host.clone(), Job { child, input, cancelled: None });
        Ok(host.clone())
    }

    fn lost_job(&mut self, _: &str) -> Option<String> {
        None
    }

    fn states(&mut self, jobs: &[String]) -> Option<Vec<JobState>> {
        let state = |job: &String| match self.jobs.get_mut(job) {
            None => JobState::Gone("its command was not started".into()),
            Some(job) => match job.child.try_wait() {
                Ok(Some(status)) => {
                    JobState::Gone(format!("its command ended ({status}) without an answer of fstrial"))
                }
                Ok(None) if job.cancelled.is_some_and(|since| since.elapsed() > PATIENCE) => {
                    // It leads a session: its children end with it.
                    let _ = rustix::process::kill_process_group(Pid::from_child(&job.child), Signal::KILL);
                    JobState::Running
                }
                _ => JobState::Running,
            },
        };
        Some(jobs.iter().map(state).collect())
    }

    fn cancel(&mut self, jobs: &[String], _: bool) {
        for job in jobs {
            if let Some(job) = self.jobs.get_mut(job) {
                job.input = None;
                job.cancelled.get_or_insert_with(Instant::now);
            }
        }
    }

    fn how_to_cancel(&self, jobs: &[String]) -> String {
        format!("see the jobs on {}", jobs.join(", "))
    }

    fn outlives(&self) -> bool {
        false
    }
}
