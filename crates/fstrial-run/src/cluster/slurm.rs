//! Slurm: a job for each host, by `sbatch`. Which nodes fit, when a job begins, its time limit and its requeueing are Slurm's matter.

use super::{JobState, Scheduler, lines::Order};
use crate::error::ExpectedError;
use fstrial_model::units::Nanos;
use fstrial_stack::{command, private_dir::PrivateDir};
use std::process::{Command, Output};

/// States of a job that has not begun, or begins again.
const WAITING: [&str; 6] =
    ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"];
const RUNNING: [&str; 6] = ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"];
/// Parts of the state of a node that takes no job soon.
const UNFIT: [&str; 6] = ["down", "drain", "fail", "maint", "unk", "*"];

pub struct Slurm {
    /// Words for sbatch: `--partition=nvme`.
    words: Vec<String>,
    /// What runs the job: words of a command.
    job: Vec<String>,
    /// The time limit of a job.
    limit: Nanos,
}

impl Slurm {
    /// `job`: the command of a job, `{host}` in it for the node.
    ///
    /// # Errors
    /// Slurm's commands are not installed.
    pub fn new(words: Vec<String>, job: Vec<String>, limit: Nanos) -> Result<Self, ExpectedError> {
        if command::find("sbatch").is_none() {
            return Err(ExpectedError::usage(
                "sbatch is not installed here",
                "start the trial on a login node of the cluster, or use --on 'command …'",
            ));
        }
        Ok(Self { words, job, limit })
    }

    /// The nodes that may take a job, idle ones first.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn nodes(&self) -> Result<Vec<String>, ExpectedError> {
        let found = call("sinfo", &["--noheader".into(), "--Node".into(), "--format=%N|%T".into()])?;
        let all: Vec<(&str, &str)> = found.lines().filter_map(|line| line.trim().split_once('|')).collect();
        let is_fit = |state: &str| !UNFIT.iter().any(|unfit| state.contains(unfit));
        let mut nodes: Vec<String> = Vec::new();
        for is_first in [true, false] {
            let chosen = all.iter().filter(|(_, state)| is_fit(state) && (*state == "idle") == is_first);
            for (node, _) in chosen {
                // A node is listed once for each of its partitions.
                if !nodes.iter().any(|known| known == node) {
                    nodes.push((*node).to_owned());
                }
            }
        }
        Ok(nodes)
    }
}

impl Scheduler for Slurm {
    fn start(&mut self, host: &str, order: &Order, folder: &PrivateDir) -> Result<String, ExpectedError> {
        let input =
            serde_json::to_string(&Order { host: Some(host.to_owned()), holds: false, ..order.clone() });
        let input = input.expect("an order is plain data") + "\n";
        super::keep(folder, &format!("{host}.order"), input.as_bytes())?;
        let file = |ending: &str| folder.path().join(format!("{host}.{ending}")).display().to_string();
        let words = self.job.iter().map(|word| command::quoted(&word.replace("{host}", host)));
        let job = format!("exec {}", words.collect::<Vec<_>>().join(" "));
        let minutes = self.limit.0.div_ceil(Nanos::secs(60).0);
        let mut all: Vec<String> = vec![
            "--parsable".into(),
            "--job-name=fstrial".into(),
            "--nodes=1".into(),
            format!("--nodelist={host}"),
            "--exclusive".into(),
            "--requeue".into(),
            "--open-mode=append".into(),
            format!("--time={minutes}"),
            format!("--input={}", file("order")),
            format!("--output={}", file("out")),
            format!("--error={}", file("log")),
        ];
        // The user's own come last: they count.
        all.extend(self.words.iter().cloned());
        all.push(format!("--wrap={job}"));
        let printed = call("sbatch", &all)?;
        let job = printed.trim().split(';').next().unwrap_or_default().to_owned();
        if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ExpectedError::usage(
                format!("sbatch names no job: {}", printed.trim()),
                "leave out words after --on that change its output",
            ));
        }
        Ok(job)
    }

    fn states(&mut self, jobs: &[String]) -> Option<Vec<JobState>> {
        if jobs.is_empty() {
            return Some(Vec::new());
        }
        let words = [
            "--noheader".to_owned(),
            "--states=all".to_owned(),
            "--format=%i|%T|%r".to_owned(),
            format!("--jobs={}", jobs.join(",")),
        ];
        let done = output("squeue", &words).ok()?;
        let said = String::from_utf8_lossy(&done.stderr);
        // Of a single job that it has forgotten; of several it lists the others.
        if !done.status.success() && !said.contains("Invalid job id") {
            return None;
        }
        let listed = String::from_utf8_lossy(&done.stdout).into_owned();
        let state = |job: &String| {
            let of_job = |line: &&str| line.split('|').next() == Some(job.as_str());
            let Some(line) = listed.lines().map(str::trim).find(of_job) else {
                return JobState::Gone("Slurm does not know its job any more".into());
            };
            let mut parts = line.split('|').skip(1);
            let (state, reason) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            match state {
                _ if WAITING.contains(&state) => JobState::Waiting(reason.to_owned()),
                _ if RUNNING.contains(&state) => JobState::Running,
                _ => JobState::Gone(format!("its job ended as {state}")),
            }
        };
        Some(jobs.iter().map(state).collect())
    }

    fn cancel(&mut self, jobs: &[String]) {
        if !jobs.is_empty() {
            let _ = output("scancel", jobs);
        }
    }

    fn outlives(&self) -> bool {
        true
    }
}

/// Runs a command of Slurm's, with the user's environment, which says where its configuration is.
fn output(program: &str, words: &[String]) -> std::io::Result<Output> {
    #[expect(clippy::disallowed_methods, reason = "the scheduler is configured by the user's environment")]
    Command::new(program).args(words).stdin(std::process::Stdio::null()).output()
}

/// The same, and what it printed.
fn call(program: &str, words: &[String]) -> Result<String, ExpectedError> {
    let hint = "see that the cluster works: sinfo";
    let done = output(program, words)
        .map_err(|error| ExpectedError::usage(format!("{program} could not be started: {error}"), hint))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(ExpectedError::usage(format!("{program}: {}", said.trim()), hint));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
