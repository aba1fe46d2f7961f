//! An operation of the filesystem as the load of a run: populate, settle, the operation under the clock, its numbers.
//!
//! ```text
//! can it? ─► (make it smaller) ─► populate ─► settle ─► [operation, timed] × repeat ─► median ─► numbers
//!    └─ no ─► an answer: "unsupported on ext4: …"
//! ```
//! Trees are laid out by the engine, as for any workload. Times are of the monotonic clock: around the tool, from its
//! start to its end, or around the call. Repetitions in a run give their median, so that one odd repetition does not
//! make the run; verdicts depend on runs, as everywhere.

mod check;
mod defragment;
mod delete_tree;
mod files;
mod fill;
mod find;
mod freeze;
mod grow;
mod mkfs;
mod mount;
mod recovery;
mod reflink_copy;
mod repair;
mod shrink;
mod snapshot;
mod space;

use super::failure::engine_failure;
use fstrial_engine::{Site, Target as Place};
use fstrial_model::{
    ability::Ability,
    arm::CheckedArm,
    counter::Counters,
    job::{FailureKind, Load, OperationTask, RunFailure},
    measurement::{PhaseResult, Reading, Stage, Value},
    units::{Bytes, Nanos, Percent},
    workload::{FileTree, Flow, Operation, Pattern, ResultKind, TREE, Until},
};
use fstrial_stack::{
    StackError,
    command::CommandOutput,
    ledger::Ledger,
    operation::{Places, TOOL_DEADLINE},
    stack::ReadyArm,
};
use std::{io, path::PathBuf};

/// Bytes per second below which populating counts as hung.
const MIN_BYTES_PER_SECOND: u64 = 2 << 20;
/// Allowance for the steps around an operation.
const AROUND: Nanos = Nanos::secs(300);

/// The operation, and its objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationRequest<'a> {
    /// The operation.
    pub task: &'a OperationTask,
    /// The level.
    pub threads: u16,
    pub arm: CheckedArm<'a>,
    /// Ledger of freezes.
    pub ledger: &'a Ledger,
}

/// A message of an operation to its worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OperationEvent {
    /// A stage begins, which may take this long at most.
    Enter(Stage, Nanos),
    /// From here on kernel complaints about the arm's devices are expected…
    Provokes,
    /// …up to here.
    Provoked,
}

/// Performs an operation on a ready arm, and returns its numbers. `tell` receives each step. The arm is mounted again
/// when this returns without an error.
///
/// # Errors
/// The filesystem cannot do it (an answer), a tool is missing or fails, or there is too little space.
pub(crate) fn run(
    order: OperationRequest<'_>,
    ready_arm: &mut ReadyArm,
    tell: &mut dyn FnMut(OperationEvent),
) -> Result<Vec<PhaseResult>, RunFailure> {
    let operation = order.task.timed.operation;
    let mut run = Run { order, ready_arm, tell, stage: Stage::Layout };
    match operation.ability(&order.arm) {
        Ability::Unsupported(reason) => return Err(run.unsupported(reason)),
        Ability::Call(name) => run.ready_arm.note_call(name),
        Ability::Program(..) => {}
    }
    let values = routine(operation)(&mut run)?;
    let results: Vec<_> = operation.results().collect();
    assert_eq!(results.len(), values.len(), "{operation} returns one number for each of its results");
    let result = |(kind, value): (ResultKind, f64)| PhaseResult {
        name: kind.name,
        reading: Reading::Value(Value { value, unit: kind.unit, less_is_better: kind.less_is_better }),
        counters: Counters::default(),
    };
    Ok(results.into_iter().zip(values).map(result).collect())
}

/// The table: how each operation is done.
fn routine(operation: Operation) -> fn(&mut Run<'_>) -> Numbers {
    match operation {
        Operation::Mkfs => mkfs::perform,
        Operation::Mount => mount::perform,
        Operation::Recovery => recovery::perform,
        Operation::Check => check::perform,
        Operation::Repair => repair::perform,
        Operation::Freeze => freeze::perform,
        Operation::Snapshot => snapshot::perform,
        Operation::Defragment => defragment::perform,
        Operation::ReflinkCopy => reflink_copy::perform,
        Operation::Space => space::perform,
        Operation::Fill => fill::perform,
        Operation::DeleteTree => delete_tree::perform,
        Operation::Find => find::perform,
        Operation::Grow => grow::perform,
        Operation::Shrink => shrink::perform,
    }
}

/// An operation being done.
struct Run<'a> {
    order: OperationRequest<'a>,
    ready_arm: &'a mut ReadyArm,
    tell: &'a mut dyn FnMut(OperationEvent),
    stage: Stage,
}

/// The numbers of an operation, in the order of its row.
type Numbers = Result<Vec<f64>, RunFailure>;

/// A tool with its words.
type Tool = (&'static str, Vec<&'static str>);

/// Common steps of operations.
impl Run<'_> {
    fn enter(&mut self, stage: Stage, deadline: Nanos) {
        self.stage = stage;
        (self.tell)(OperationEvent::Enter(stage, deadline));
    }

    /// Enters the stage of the operation itself.
    fn begin(&mut self) {
        let repeat = u64::from(self.order.task.timed.repeat);
        // Each may take as long as its tool is given.
        self.enter(Stage::Load, Nanos(TOOL_DEADLINE.0.saturating_mul(2 * repeat).saturating_add(AROUND.0)));
    }

    /// Everything written out, caches dropped. Part of the operation's stage when it is repeated.
    fn settle(&mut self) -> Result<(), RunFailure> {
        self.ready_arm.settle().map_err(|e| self.failed(&e))
    }

    /// Does something as often as requested, and gives the median of the times.
    fn repeat(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<Nanos, RunFailure>,
    ) -> Result<Nanos, RunFailure> {
        let times = (0..self.order.task.timed.repeat).map(|_| one(self));
        times.collect::<Result<Vec<_>, _>>().map(median)
    }

    /// A path in the arm's directory.
    fn path(&self, name: &str) -> Result<PathBuf, RunFailure> {
        Ok(self.ready_arm.directory().map_err(|e| self.failed(&e))?.join(name))
    }

    fn tree(&self) -> Result<&FileTree, RunFailure> {
        let tree = self.order.task.timed.tree.as_ref();
        tree.ok_or_else(|| self.refused("the operation has no tree", "write tree = { files = 1000 }"))
    }

    fn used(&self) -> Result<u64, RunFailure> {
        self.ready_arm.space_used().map(|used| used.0).map_err(|e| self.failed(&e))
    }

    /// The tree, laid out by the engine and synced.
    fn populate(&mut self) -> Result<(), RunFailure> {
        let task = self.order.task;
        let needed = task.timed.space_needed(self.order.threads).0;
        self.enter(Stage::Layout, Nanos(AROUND.0 + Nanos::secs(needed / MIN_BYTES_PER_SECOND).0));
        let steps = format!("stat {TREE}").parse().expect("a step of a flow");
        let flow = Flow {
            sets: vec![self.tree()?.clone()],
            steps: vec![steps],
            turns: Some(1),
            fsync_at_end: false,
        };
        let load = Load {
            pattern: Pattern::Flow(flow),
            set: TREE.parse().expect("it is plain"),
            threads: 1,
            warmup: Nanos(0),
            duration: Nanos::secs(3600),
            until: Until::Done,
            seed: task.seed,
            data: task.data,
            rate: None,
            handicap: Percent(0.0),
        };
        let directory = self.ready_arm.directory().map_err(|e| self.failed(&e))?;
        // Preparation only lays files out, without a run; its descriptors are closed here.
        let prepared = Site::new(Place::Directory(directory)).prepare(&[load]);
        prepared.map(drop).map_err(|e| engine_failure(Stage::Layout, &e))
    }

    /// The size of a filesystem smaller than the device: as requested, or half of the device. It must satisfy `fits`
    /// with the device's.
    fn part(&mut self, fits: fn(&Bytes, &Bytes) -> bool) -> Result<Bytes, RunFailure> {
        let device = self.ready_arm.device_size().map_err(|e| self.failed(&e))?;
        let row = self.order.arm.row().expect("it has a device");
        let least = Bytes::mib(row.min_size_mib);
        let half = Bytes((device.0 / 2) >> 20 << 20).max(least);
        let size = self.order.task.timed.filesystem_size.unwrap_or(half);
        if size < least {
            let what = format!("{size} is too small for {}, which takes at least {least}", row.name);
            return Err(self.refused(&what, "use a larger filesystem_size"));
        }
        if !fits(&size, &device) {
            let what =
                format!("a filesystem of {size} on a device of {device} leaves no room for it to change");
            return Err(self.refused(&what, "use a larger device (its size), or a smaller filesystem_size"));
        }
        Ok(size)
    }

    /// Makes the filesystem again, smaller than its device.
    fn rebuild(&mut self, size: Bytes) -> Result<(), RunFailure> {
        let arm = self.order.arm;
        if arm.row().is_some_and(|row| row.abilities.sized.is_empty()) {
            return Err(self.unsupported("its mkfs has no option to make it smaller than its device"));
        }
        self.ready_arm.set_down().map_err(|e| self.failed(&e))?;
        let made = self.ready_arm.make_again(arm, Some(size));
        made.and_then(|_| self.ready_arm.set_up(arm)).map(drop).map_err(|e| self.failed(&e))
    }

    /// The program that does the operation.
    fn tool(&self) -> Result<Tool, RunFailure> {
        self.words_of(self.order.task.timed.operation.ability(&self.order.arm))
    }

    /// Makes the tree and begins: the program that works on it, and its places.
    fn begin_on_tree(&mut self) -> Result<(Tool, Places), RunFailure> {
        self.populate()?;
        self.settle()?;
        self.begin();
        let places = Places { tree: self.path(TREE)?, ..Places::default() };
        Ok((self.tool()?, places))
    }

    fn words_of(&self, ability: Ability) -> Result<Tool, RunFailure> {
        match ability {
            Ability::Program(name, words) => Ok((name, words.to_vec())),
            Ability::Call(name) => Err(self.refused(&format!("{name} is not a program"), "please report it")),
            Ability::Unsupported(reason) => Err(self.unsupported(reason)),
        }
    }

    fn finish(&mut self, (name, words): &Tool, places: &Places) -> Result<CommandOutput, RunFailure> {
        let done = self.ready_arm.finish_tool(&self.order.arm, (name, words), places);
        done.map_err(|e| self.failed(&e))
    }

    /// Checks that a tool succeeded.
    fn succeeded(&self, done: CommandOutput) -> Result<CommandOutput, RunFailure> {
        if done.status.success() {
            return Ok(done);
        }
        let (status, last_lines) = (done.status.to_string(), done.last_lines());
        Err(self.failed(&StackError::Command { line: done.line, status, last_lines }))
    }

    /// Runs a tool that must succeed and gives the time it took.
    fn must(&mut self, tool: &Tool, places: &Places) -> Result<Nanos, RunFailure> {
        let done = self.finish(tool, places)?;
        Ok(self.succeeded(done)?.wall)
    }

    fn failure(&self, kind: FailureKind, what: impl Into<String>, hint: Option<String>) -> RunFailure {
        RunFailure { kind, stage: self.stage, what: what.into(), hint }
    }

    fn unsupported(&self, reason: &str) -> RunFailure {
        self.failure(FailureKind::Unsupported, reason, None)
    }

    fn refused(&self, what: &str, hint: &str) -> RunFailure {
        self.failure(FailureKind::LoadRefused, what, Some(hint.into()))
    }

    fn arm_failed(&self, what: impl Into<String>) -> RunFailure {
        self.failure(FailureKind::ArmFailed, what, Some("see the kernel log (dmesg)".into()))
    }

    fn failed(&self, error: &StackError) -> RunFailure {
        self.failure(kind_of(error), error.to_string(), error.hint())
    }

    /// A call that the filesystem does not know is an answer.
    fn unless_unsupported(&self, call: &str, error: &StackError) -> RunFailure {
        match error {
            StackError::Io { source, .. } if is_unsupported(source) => {
                self.unsupported(&format!("the filesystem has no {call} ({source})"))
            }
            other => self.failed(other),
        }
    }
}

/// Attribution of an error in an operation.
fn kind_of(error: &StackError) -> FailureKind {
    match error {
        StackError::MissingProgram { .. }
        | StackError::UnknownToKernel { .. }
        | StackError::Lacking { .. } => FailureKind::HostLacks,
        StackError::Interrupted => FailureKind::Lost,
        StackError::Unable { .. } | StackError::Refused { .. } | StackError::Untrusted { .. } => {
            FailureKind::LoadRefused
        }
        StackError::Io { source, .. } => match source.kind() {
            io::ErrorKind::PermissionDenied => FailureKind::HostLacks,
            io::ErrorKind::StorageFull => FailureKind::LoadRefused,
            _ => FailureKind::ArmFailed,
        },
        StackError::Command { .. } | StackError::Deadline { .. } | StackError::Corrupt { .. } => {
            FailureKind::ArmFailed
        }
    }
}

/// True if a filesystem reports an unknown call. EINVAL does not count: it reports a wrong call.
fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let known = [Errno::NOTTY, Errno::OPNOTSUPP, Errno::XDEV, Errno::NOSYS];
    error.raw_os_error().is_some_and(|errno| known.contains(&Errno::from_raw_os_error(errno)))
}

/// The middle of some times, the lower one of two.
fn median(mut times: Vec<Nanos>) -> Nanos {
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// A time as a number to compare, which 0 is not.
fn ns(time: Nanos) -> f64 {
    number(time.0.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "bytes, extents and nanoseconds far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}
