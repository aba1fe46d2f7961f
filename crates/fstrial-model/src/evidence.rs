//! Evidence of a run: the time of its threads by what they did. It comes from separate runs, which are never timed for a verdict.

use crate::{
    filesystem::waits::{self, Category, Cause},
    units::Nanos,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Measured time of threads, by what they did in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The measured time.
    pub duration: Nanos,
    /// Threads of the run, by the names of their groups: a thread's own without numbers.
    pub threads: Vec<Activity>,
    /// Threads of the kernel that ran, for any reason.
    pub kernel_threads: Vec<Activity>,
    /// Amounts that had no room in the kernel's tables. The shares below 100 % are then too small.
    pub lost: u64,
}

/// The time of a group of threads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Name of the group.
    pub name: String,
    /// Time on a processor, interrupts included.
    pub running: Nanos,
    /// Time runnable, and not on a processor.
    pub runnable: Nanos,
    /// Times that a processor was taken from one of them.
    pub preempted: u64,
    /// Waits, by the kernel's stack; most time first.
    pub waits: Vec<Wait>,
    /// Samples of `running`, by the kernel's stack; empty frames are those of user mode. Most first.
    pub samples: Vec<Sample>,
}

/// Waits at one place of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Functions, the innermost first.
    pub frames: Vec<String>,
    /// Time of all of them.
    pub time: Nanos,
    /// Their number.
    pub count: u64,
}

/// Samples of one place of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Functions, the innermost first.
    pub frames: Vec<String>,
    /// Their number.
    pub count: u64,
}

impl Evidence {
    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<&Activity> {
        self.threads.iter().find(|group| group.name == name)
    }
}

impl Activity {
    /// Time of all its waits.
    pub fn waiting(&self) -> Nanos {
        Nanos(self.waits.iter().map(|wait| wait.time.0).sum())
    }

    /// All time that is accounted for: running, runnable and waiting.
    pub fn accounted(&self) -> Nanos {
        Nanos(self.running.0 + self.runnable.0 + self.waiting().0)
    }

    /// Its time by cause, in nanoseconds. Time on a processor is divided by the samples, and time until another of these threads has
    /// done the same work by the causes of the waits in that work.
    pub fn by_cause(&self) -> BTreeMap<Cause, f64> {
        let mut causes = BTreeMap::new();
        let mut add = |category, what: &str, time: f64| {
            *causes.entry(Cause { category, what: what.to_owned() }).or_default() += time;
        };
        add(Category::Runnable, "a processor", self.runnable.0 as f64);
        for wait in &self.waits {
            let time = wait.time.0 as f64;
            let work = waits::joins(&wait.frames).map(|work| self.waits_in(work)).unwrap_or_default();
            let whole: f64 = work.iter().map(|(_, time)| time).sum();
            for (cause, part) in &work {
                add(cause.category, &cause.what, time * part / whole);
            }
            if work.is_empty() {
                let cause = wait.cause();
                add(cause.category, &cause.what, time);
            }
        }
        let all: u64 = self.samples.iter().map(|sample| sample.count).sum();
        for sample in &self.samples {
            let time = self.running.0 as f64 * sample.count as f64 / all as f64;
            match waits::spins(&sample.frames) {
                Some(cause) => add(cause.category, &cause.what, time),
                None if sample.frames.is_empty() => add(Category::User, "", time),
                None => add(Category::Kernel, "", time),
            }
        }
        if all == 0 {
            add(Category::Kernel, "", self.running.0 as f64);
        }
        causes
    }

    /// Waits in a function, of threads that do not wait for each other, with their times.
    fn waits_in(&self, function: &str) -> Vec<(Cause, f64)> {
        let is_own =
            |wait: &&Wait| waits::is_in(&wait.frames, function) && waits::joins(&wait.frames).is_none();
        let waits = self.waits.iter().filter(is_own).filter(|wait| wait.time.0 > 0);
        waits.map(|wait| (wait.cause(), wait.time.0 as f64)).collect()
    }
}

impl Wait {
    /// The reason for it, or the place if that is not known.
    pub fn cause(&self) -> Cause {
        let unknown = || Cause { category: Category::Unknown, what: waits::place(&self.frames).to_owned() };
        waits::cause(&self.frames).unwrap_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_add_up_to_the_time_of_a_group() {
        let frames = |stack: &str| stack.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        let wait = |stack, time| Wait { frames: frames(stack), time: Nanos(time), count: 1 };
        let sample = |stack, count| Sample { frames: frames(stack), count };
        let group = Activity {
            name: "load".into(),
            running: Nanos(1000),
            runnable: Nanos(30),
            preempted: 0,
            waits: vec![
                wait("__schedule schedule jbd2_log_wait_commit ext4_sync_file", 500),
                wait("schedule jbd2_log_wait_commit ext4_force_commit", 70),
                wait("__schedule schedule new_wait vfs_write", 4),
            ],
            samples: vec![
                sample("", 1),
                sample("copy_user vfs_write", 2),
                sample("osq_lock down_write vfs_write", 1),
            ],
        };
        let causes = group.by_cause();
        let of = |category| {
            causes.iter().filter(|(it, _)| it.category == category).map(|(_, time)| time).sum::<f64>()
        };
        let parts = [Category::User, Category::Kernel, Category::Lock, Category::Journal, Category::Unknown];
        assert_eq!(parts.map(of), [250.0, 500.0, 250.0, 570.0, 4.0]);
        assert_eq!(of(Category::Runnable), 30.0);
        assert_eq!(causes.values().sum::<f64>(), group.accounted().0 as f64);
        assert_eq!(causes.len(), 6);
    }

    /// A thread that waits for another's work waits for what that one waits for.
    #[test]
    fn time_for_the_work_of_another_thread_is_divided_as_that_work() {
        let wait = |stack: &str, time| Wait {
            frames: stack.split_whitespace().map(str::to_owned).collect(),
            time: Nanos(time),
            count: 1,
        };
        let join = wait("__schedule schedule wait_log_commit btrfs_sync_log btrfs_sync_file", 800);
        let tick = wait("__schedule schedule schedule_timeout btrfs_sync_log btrfs_sync_file", 300);
        let supers =
            wait("schedule io_schedule_timeout wait_for_completion_io write_all_supers btrfs_sync_log", 100);
        let of = |waits: &[&Wait], category| {
            let waits = waits.iter().map(|wait| (*wait).clone()).collect();
            let causes = Activity { waits, ..Activity::default() }.by_cause();
            causes.iter().filter(|(it, _)| it.category == category).map(|(_, time)| time).sum::<f64>()
        };
        assert_eq!(of(&[&join, &tick, &supers], Category::Sleep), 900.0);
        assert_eq!(of(&[&join, &tick, &supers], Category::Journal), 300.0);
        assert_eq!(of(&[&join], Category::Journal), 800.0);
    }
}
