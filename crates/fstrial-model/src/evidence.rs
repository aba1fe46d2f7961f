//! Evidence of a run: the time of its threads by what they did. It comes from separate runs, which are never timed for a verdict.

use crate::{
    counter::{Counter, Counters},
    filesystem::waits::{self, Category, Cause},
    units::Nanos,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Modes of time on a processor.
const USER: &str = "in user mode";
const KERNEL: &str = "in the kernel";
/// The mode of time without samples.
const ANYWHERE: &str = "in the kernel or in user mode";

/// Measured time of threads, by what they did in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The measured time.
    pub duration: Nanos,
    /// Threads of the run, by the names of their groups: a thread's own without numbers.
    pub threads: Vec<Activity>,
    /// Other threads of the machine that ran, most of them the kernel's.
    pub other_threads: Vec<Activity>,
    /// Times of requests and commits in it, as far as this kernel gives them.
    #[serde(default)]
    pub counters: Counters,
    /// Amounts that had no room in the kernel's tables. The shares below 100 % are then too small.
    pub lost: u64,
    /// Processor time of the programs of the observation, for events of all threads of the machine; none if the kernel does not
    /// count it.
    pub cost: Option<Nanos>,
    /// Its gaps and their reason, if it is of /proc; none if it is of programs in the kernel.
    #[serde(default)]
    pub missing: Option<String>,
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
    /// Times that one of them ran on another processor than before.
    #[serde(default)]
    pub migrated: u64,
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

/// Time of a group of threads at one place of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent<'a> {
    /// Functions, the innermost first; none in user mode, and while no processor is free.
    pub frames: &'a [String],
    /// The cause of the time.
    pub cause: Cause,
    /// Time in nanoseconds; of a place on a processor its part of the samples.
    pub time: f64,
    /// Number of waits or samples.
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

    /// Adds the amounts of another run.
    pub fn add(&mut self, other: &Self) {
        let Self { duration, threads, other_threads, counters, lost, cost, missing } = other;
        self.duration.0 += duration.0;
        self.lost += lost;
        self.missing = self.missing.take().or_else(|| missing.clone());
        self.counters = std::mem::take(&mut self.counters).plus(counters);
        self.cost = match (self.cost, cost) {
            (Some(cost), Some(other)) => Some(Nanos(cost.0 + other.0)),
            (cost, other) => cost.or(*other),
        };
        for (groups, others) in [(&mut self.threads, threads), (&mut self.other_threads, other_threads)] {
            for other in others {
                match groups.iter_mut().find(|group| group.name == other.name) {
                    Some(group) => group.add(other),
                    None => groups.push(other.clone()),
                }
            }
        }
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

    /// Its switches of threads.
    pub fn switches(&self) -> Counters {
        let waits = self.waits.iter().map(|wait| wait.count).sum();
        let known = Counters::of(Counter::Waits, waits).with(Counter::Preemptions, Some(self.preempted));
        known.with(Counter::Migrations, Some(self.migrated))
    }

    /// Its time by place. Time on a processor is divided by the samples, and time until another of these threads has done the same work
    /// by the causes of the waits in that work.
    pub fn spent(&self) -> Vec<Spent<'_>> {
        let whole = |category, what: &str, time: Nanos, count| {
            let cause = Cause { category, what: what.to_owned() };
            Spent { frames: &[], cause, time: time.0 as f64, count }
        };
        let mut all = vec![whole(Category::Runnable, "a processor", self.runnable, self.preempted)];
        for Wait { frames, time, count } in &self.waits {
            let parts = self.parts(frames);
            let of_parts: f64 = parts.iter().map(|(_, part)| part).sum();
            let part = |(cause, part)| {
                let time = time.0 as f64 * part / of_parts;
                Spent { frames, cause, time, count: *count }
            };
            all.extend(parts.into_iter().map(part));
        }
        let samples: u64 = self.samples.iter().map(|sample| sample.count).sum();
        if samples == 0 {
            all.push(whole(Category::Processor, ANYWHERE, self.running, 0));
        }
        all.extend(self.samples.iter().map(|sample| Spent {
            frames: &sample.frames,
            cause: sample.cause(),
            time: self.running.0 as f64 * sample.count as f64 / samples as f64,
            count: sample.count,
        }));
        all
    }

    /// Its time by cause, in nanoseconds.
    pub fn by_cause(&self) -> BTreeMap<Cause, f64> {
        let mut causes = BTreeMap::new();
        for spent in self.spent() {
            *causes.entry(spent.cause).or_default() += spent.time;
        }
        causes
    }

    /// Adds the amounts of the same group in another run.
    fn add(&mut self, other: &Self) {
        let Self { name: _, running, runnable, preempted, migrated, waits, samples } = other;
        self.running.0 += running.0;
        self.runnable.0 += runnable.0;
        self.preempted += preempted;
        self.migrated += migrated;
        for wait in waits {
            match self.waits.iter_mut().find(|known| known.frames == wait.frames) {
                Some(known) => {
                    (known.time.0, known.count) = (known.time.0 + wait.time.0, known.count + wait.count)
                }
                None => self.waits.push(wait.clone()),
            }
        }
        for sample in samples {
            match self.samples.iter_mut().find(|known| known.frames == sample.frames) {
                Some(known) => known.count += sample.count,
                None => self.samples.push(sample.clone()),
            }
        }
    }

    /// The causes of waits at a place, with weights: its own, or those of the work of another thread that it waits for.
    fn parts(&self, frames: &[String]) -> Vec<(Cause, f64)> {
        let own = |wait: &&Wait, work| {
            waits::is_in(&wait.frames, work) && waits::joins(&wait.frames).is_none() && wait.time.0 > 0
        };
        // Not those that queue for it: they are more than the one that works.
        let is_work = |(cause, _): &(Cause, f64)| cause.category != Category::Lock;
        let of_work = |work| {
            let waits = self.waits.iter().filter(|wait| own(wait, work));
            waits.map(|wait| (cause(&wait.frames), wait.time.0 as f64)).filter(is_work).collect()
        };
        let parts: Vec<(Cause, f64)> = waits::joins(frames).map(of_work).unwrap_or_default();
        if parts.is_empty() { vec![(cause(frames), 1.0)] } else { parts }
    }
}

/// The reason for a wait, or the place if that is not known.
fn cause(frames: &[String]) -> Cause {
    let unknown = || Cause { category: Category::Unknown, what: waits::place(frames).to_owned() };
    waits::cause(frames).unwrap_or_else(unknown)
}

impl Sample {
    /// The reason for the time on a processor: a lock, if the thread spins for it.
    fn cause(&self) -> Cause {
        let mode = if self.frames.is_empty() { USER } else { KERNEL };
        let running = || Cause { category: Category::Processor, what: mode.into() };
        waits::spins(&self.frames).unwrap_or_else(running)
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
            ..Activity::default()
        };
        let causes = group.by_cause();
        let of = |category| {
            causes.iter().filter(|(it, _)| it.category == category).map(|(_, time)| time).sum::<f64>()
        };
        let parts = [Category::Processor, Category::Lock, Category::Journal, Category::Unknown];
        assert_eq!(parts.map(of), [750.0, 250.0, 570.0, 4.0]);
        assert_eq!(causes[&Cause { category: Category::Processor, what: USER.into() }], 250.0);
        assert_eq!(of(Category::Runnable), 30.0);
        assert_eq!(causes.values().sum::<f64>(), group.accounted().0 as f64);
        assert_eq!(causes.len(), 6);
        // Two runs together are twice one.
        let run = Evidence {
            duration: Nanos(7),
            threads: vec![group],
            cost: Some(Nanos(2)),
            ..Evidence::default()
        };
        let mut sum = Evidence::default();
        sum.add(&run);
        sum.add(&run);
        assert_eq!((sum.duration, sum.cost, sum.threads.len()), (Nanos(14), Some(Nanos(4)), 1));
        let doubled = causes.into_iter().map(|(cause, time)| (cause, 2.0 * time)).collect();
        assert_eq!(sum.threads[0].by_cause(), doubled);
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
        // Threads that queue for the work do not do it.
        let queue = wait("schedule __mutex_lock btrfs_sync_log", 5000);
        assert_eq!(of(&[&join, &tick, &supers, &queue], Category::Sleep), 900.0);
        let whole = Activity { waits: vec![join, tick, supers], ..Activity::default() };
        assert_eq!(whole.spent().iter().map(|spent| spent.time).sum::<f64>(), 1200.0);
    }
}
