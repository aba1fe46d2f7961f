//! Slurm: a job for each host, by `sbatch`. Which nodes fit, when a job begins, its time limit and its requeueing are Slurm's matter.

use super::{Folder, JobState, Scheduler, lines::CampaignOrder};
use crate::{error::ExpectedError, numbers::hex};
use fstrial_model::units::Nanos;
use fstrial_stack::command;
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
    process::{Command, Output},
};

/// States of a job that has not begun, or begins again.
const WAITING: [&str; 6] =
    ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"];
/// Final states of a job. Any other counts as alive.
const ENDED: [&str; 10] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
];
/// Parts of the state of a node that takes no job soon.
const UNFIT: [&str; 9] = ["down", "drain", "fail", "maint", "unk", "inval", "future", "power", "*"];
/// Words for sbatch that a job of a campaign has for itself.
const OURS: [&str; 14] = [
    "array",
    "chdir",
    "clusters",
    "error",
    "input",
    "job-name",
    "nodelist",
    "nodes",
    "ntasks",
    "output",
    "parsable",
    "test-only",
    "wait",
    "wrap",
];
/// The same in one letter.
const OUR_LETTERS: &str = "aDMeiJwNnoW";
/// Jobs per call of squeue: the length of an argument is limited.
const ASKED: usize = 1000;

pub struct Slurm {
    /// Words for sbatch: `--partition=nvme`.
    words: Vec<String>,
    /// Words of the command of a job, `{host}` in them for the node.
    job: Vec<String>,
    /// The time limit of a job.
    limit: Nanos,
    /// Prefix of the names of its jobs.
    name: String,
}

impl Slurm {
    /// Jobs of the campaign in this folder.
    ///
    /// # Errors
    /// Slurm's commands are not installed, or a word is one that jobs have for themselves.
    pub fn new(
        words: Vec<String>,
        job: Vec<String>,
        limit: Nanos,
        folder: &Path,
    ) -> Result<Self, ExpectedError> {
        if command::find("sbatch").is_none() {
            return Err(ExpectedError::usage(
                "sbatch is not installed here",
                "start the trial on a login node of the cluster, or use --on 'command …'",
            ));
        }
        let is_ours = |word: &&String| match word.strip_prefix("--") {
            Some(long) => OURS.contains(&long.split('=').next().unwrap_or_default()),
            None => word
                .strip_prefix('-')
                .and_then(|rest| rest.chars().next())
                .is_some_and(|c| OUR_LETTERS.contains(c)),
        };
        if let Some(word) = words.iter().find(is_ours) {
            return Err(ExpectedError::usage(
                format!("{word} is set by fstrial for each job"),
                format!("leave {word} out; --hosts names nodes"),
            ));
        }
        let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
        Ok(Self { words, job, limit, name: format!("fstrial-{}", hex(&digest[..4])) })
    }

    /// The nodes that may take a job, idle ones first.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn nodes(&self) -> Result<Vec<String>, ExpectedError> {
        let mut words: Vec<String> =
            ["--noheader", "--Node", "--format=%N|%T"].iter().map(|word| (*word).to_owned()).collect();
        let is_partition = |word: &&String| word.starts_with("--partition=") || word.starts_with("-p");
        words.extend(self.words.iter().filter(is_partition).cloned());
        let result = call("sinfo", &words)?;
        let all: Vec<(&str, &str)> = result.lines().filter_map(|line| line.trim().split_once('|')).collect();
        let is_fit = |state: &str| !UNFIT.iter().any(|unfit| state.contains(unfit));
        // A node is listed once for each of its partitions.
        let mut known = HashSet::new();
        let mut nodes: Vec<String> = Vec::new();
        for is_first in [true, false] {
            let chosen = all.iter().filter(|(_, state)| is_fit(state) && (*state == "idle") == is_first);
            nodes
                .extend(chosen.map(|(node, _)| (*node).to_owned()).filter(|node| known.insert(node.clone())));
        }
        Ok(nodes)
    }

    fn name_of(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }
}

impl Scheduler for Slurm {
    fn start(&mut self, order: &CampaignOrder, folder: &Folder) -> Result<String, ExpectedError> {
        let host = &order.host;
        // In these paths % begins a pattern.
        let file = |ending: &str| {
            let path = folder.dir().path().join(format!("{host}.{ending}"));
            path.display().to_string().replace('%', "%%")
        };
        let words = self.job.iter().map(|word| command::quoted(&word.replace("{host}", host)));
        // A folder for temporary files that the login node has may be another disk on a node, or none.
        let job = format!("unset TMPDIR; exec {}", words.collect::<Vec<_>>().join(" "));
        let minutes = self.limit.0.div_ceil(Nanos::secs(60).0);
        let mut all: Vec<String> = vec![
            "--parsable".into(),
            format!("--job-name={}", self.name_of(host)),
            "--nodes=1".into(),
            format!("--nodelist={host}"),
            "--exclusive".into(),
            "--mem=0".into(),
            "--requeue".into(),
            "--propagate=NONE".into(),
            "--chdir=/".into(),
            "--open-mode=append".into(),
            format!("--time={minutes}"),
            format!("--input={}", file("order")),
            format!("--output={}", file("out")),
            format!("--error={}", file("log")),
        ];
        // The user's own come last, and count: their time limit, their memory.
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

    fn lost_job(&mut self, host: &str) -> Option<String> {
        let words =
            ["--noheader".to_owned(), "--format=%i".to_owned(), format!("--name={}", self.name_of(host))];
        let printed = call("squeue", &words).ok()?;
        printed.lines().next().map(|job| job.trim().to_owned()).filter(|job| !job.is_empty())
    }

    fn states(&mut self, jobs: &[String]) -> Option<Vec<JobState>> {
        let mut listed: HashMap<String, JobState> = HashMap::new();
        for some in jobs.chunks(ASKED) {
            let words = [
                "--noheader".to_owned(),
                "--states=all".to_owned(),
                "--format=%i|%T|%r|%j".to_owned(),
                format!("--jobs={}", some.join(",")),
            ];
            let done = output("squeue", &words).ok()?;
            // Called for a single forgotten job it fails; of several it lists the others.
            if !done.status.success() && !String::from_utf8_lossy(&done.stderr).contains("Invalid job id") {
                return None;
            }
            for line in String::from_utf8_lossy(&done.stdout).lines() {
                let parts: Vec<&str> = line.trim().splitn(4, '|').collect();
                let [job, state, reason, name] = parts[..] else { continue };
                // A number may be another job's, after the controller has lost its state.
                if name.starts_with(&self.name) {
                    listed.insert(job.to_owned(), state_of(state, reason));
                }
            }
        }
        let unknown = || JobState::Gone("Slurm does not know its job any more".into());
        Some(jobs.iter().map(|job| listed.remove(job).unwrap_or_else(unknown)).collect())
    }

    /// First only the program of a job is signalled, so that it can restore its node; then all of its processes.
    fn cancel(&mut self, jobs: &[String], again: bool) {
        for some in jobs.chunks(ASKED) {
            let with = |words: &[&str]| -> Vec<String> {
                words.iter().map(|word| (*word).to_owned()).chain(some.iter().cloned()).collect()
            };
            // Those that fail are tried again.
            let _ = output("scancel", &with(&["--state=PENDING"]));
            let _ = match again {
                false => output("scancel", &with(&["--batch", "--signal=TERM"])),
                true => output("scancel", &with(&[])),
            };
        }
    }

    fn how_to_cancel(&self, jobs: &[String]) -> String {
        format!("end it by `scancel {}`", jobs.join(" "))
    }

    fn outlives(&self) -> bool {
        true
    }
}

fn state_of(state: &str, reason: &str) -> JobState {
    match state {
        // Its turn never comes.
        _ if WAITING.contains(&state) && reason.ends_with("TimeLimit") => JobState::Waiting(format!(
            "{reason}: its time limit is longer than the partition allows; end it by Ctrl-C, then add --budget or 'slurm --time=…'"
        )),
        _ if WAITING.contains(&state) => JobState::Waiting(reason.to_owned()),
        _ if ENDED.contains(&state) => JobState::Gone(format!("its job ended as {state}")),
        _ => JobState::Running,
    }
}

/// Asks the controller for nothing.
///
/// # Errors
/// It does not answer, or there is none.
pub fn require() -> Result<(), ExpectedError> {
    call("sinfo", &["--noheader".to_owned()]).map(drop)
}

/// Runs a command of Slurm's, with the user's environment, which locates its configuration.
fn output(program: &str, words: &[String]) -> std::io::Result<Output> {
    #[expect(clippy::disallowed_methods, reason = "the scheduler is configured by the user's environment")]
    Command::new(program).args(words).stdin(std::process::Stdio::null()).output()
}

/// The same, returning its output.
fn call(program: &str, words: &[String]) -> Result<String, ExpectedError> {
    let hint = "see that the cluster works, and that SLURM_CONF leads to its configuration if that is elsewhere: sinfo";
    let done = output(program, words)
        .map_err(|error| ExpectedError::usage(format!("{program} could not be started: {error}"), hint))?;
    if !done.status.success() {
        let message = String::from_utf8_lossy(&done.stderr);
        // It repeats its name before each line.
        let lines =
            message.lines().map(|line| line.trim().trim_start_matches(&format!("{program}: ")).trim());
        let lines: Vec<&str> = lines.map(|line| line.trim_start_matches("error: ")).collect();
        return Err(ExpectedError::usage(format!("{program}: {}", lines.join("; ")), hint));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
