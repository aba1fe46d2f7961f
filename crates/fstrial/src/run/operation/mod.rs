//! An operation of the filesystem as the load of a run: populate, settle, the operation under the clock, its numbers.
//!
//! ```text
//! can it? ─► (make it smaller) ─► populate ─► settle ─► [operation, timed] × repeat ─► median ─► numbers
//!    └─ no ─► an answer: "ext4 cannot: …"
//! ```
//! Trees are laid out by the engine, as for any workload. Times are of the monotonic clock: around the tool, from its
//! start to its end, or around the call. What is repeated in a run gives its median, so that one odd repetition does not
//! make the run; runs are what verdicts rest on, as everywhere.

mod files;
mod fill;
mod freeze;

use super::failure::engine_failure;
use files::content;
use fstrial_engine::{Site, Target as Place};
use fstrial_model::{
    ability::{Ability, ability},
    arm::Arm,
    job::{FailureKind, Load, OperationTask, RunFailure},
    measurement::{PhaseResult, Reading, Stage, Value},
    units::{Bytes, Nanos, Percent},
    workload::{FileTree, Flow, Operation, Pattern, ResultKind, TREE, Unclean, Until},
};
use fstrial_stack::{
    StackError,
    command::Finished,
    host::has_resource_capability,
    ledger::Ledger,
    operation::{Places, TOOL_DEADLINE, try_to_clone},
    stack::Standing,
};
use std::{fs, io, path::PathBuf, time::Instant};

/// Bytes per second below which populating counts as hung.
const SLOWEST: u64 = 2 << 20;
/// Time for what surrounds an operation.
const AROUND: Nanos = Nanos::secs(300);
/// Files made last before an unclean stop, at least: there must be something to recover.
const LEAST_UNCLEAN: u32 = 20;

/// What is to be done, on what.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The operation.
    pub task: &'a OperationTask,
    /// The level.
    pub threads: u16,
    /// The arm.
    pub arm: &'a Arm,
    /// Where a freeze is written down.
    pub ledger: &'a Ledger,
}

/// What an operation tells its worker while it is done.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A stage begins, which may take this long at most.
    Enter(Stage, Nanos),
    /// From here on what the kernel complains of about the arm's devices is provoked on purpose…
    Provokes,
    /// …up to here.
    Provoked,
}

/// Does an operation on an arm that stands, and gives its numbers. `tell` hears each step. The arm stands mounted again
/// when this returns without an error.
///
/// # Errors
/// The filesystem cannot do it (an answer), a tool is missing or fails, or there is too little space.
pub fn run(
    order: Order<'_>,
    standing: &mut Standing,
    tell: &mut dyn FnMut(Step),
) -> Result<Vec<PhaseResult>, RunFailure> {
    let operation = order.task.timed.operation;
    let mut run = Run { order, standing, tell, stage: Stage::Layout };
    match ability(order.arm, operation) {
        Ability::Cannot(reason) => return Err(run.cannot(reason)),
        Ability::Call(name) => run.standing.note_call(name),
        Ability::Program(..) => {}
    }
    let values = run.numbers()?;
    let results: Vec<_> = operation.results().collect();
    assert_eq!(results.len(), values.len(), "{operation} yields what it says");
    let result = |(kind, value): (ResultKind, f64)| PhaseResult {
        name: kind.name,
        reading: Reading::Value(Value { value, unit: kind.unit, less_is_better: kind.less_is_better }),
        cpu_machine: None,
        device_written: None,
    };
    Ok(results.into_iter().zip(values).map(result).collect())
}

/// An operation being done.
struct Run<'a> {
    order: Order<'a>,
    standing: &'a mut Standing,
    tell: &'a mut dyn FnMut(Step),
    stage: Stage,
}

type Numbers = Result<Vec<f64>, RunFailure>;

impl Run<'_> {
    fn numbers(&mut self) -> Numbers {
        match self.order.task.timed.operation {
            Operation::Mkfs => self.mkfs(),
            Operation::Mount => self.mount(),
            Operation::Recovery => self.recovery(),
            Operation::Check | Operation::Repair => self.check(),
            Operation::Freeze => self.freeze(),
            Operation::Snapshot => self.snapshot(),
            Operation::Defragment => self.defragment(),
            Operation::ReflinkCopy => self.reflink_copy(),
            Operation::Space => self.space(),
            Operation::Fill => self.fill(),
            Operation::DeleteTree => self.delete_tree(),
            Operation::Find => self.find(),
            Operation::Grow => self.grow(),
            Operation::Shrink => self.shrink(),
        }
    }

    fn mkfs(&mut self) -> Numbers {
        self.begin();
        self.standing.set_down().map_err(|e| self.failed(&e))?;
        let arm = self.order.arm;
        self.standing.note_tool(arm.row().map_or("", |row| row.mkfs));
        let made = self.repeat(|run| {
            run.settle()?;
            run.standing.make_again(arm, None).map_err(|e| run.failed(&e))
        })?;
        self.standing.set_up(arm).map_err(|e| self.failed(&e))?;
        Ok(vec![ns(made)])
    }

    fn mount(&mut self) -> Numbers {
        self.populate()?;
        self.begin();
        self.standing.set_down().map_err(|e| self.failed(&e))?;
        let arm = self.order.arm;
        let mut unmounted = Vec::new();
        let mounted = self.repeat(|run| {
            run.settle()?;
            let took = run.standing.set_up(arm).map_err(|e| run.failed(&e))?;
            unmounted.push(run.standing.set_down().map_err(|e| run.failed(&e))?);
            Ok(took)
        })?;
        self.standing.set_up(arm).map_err(|e| self.failed(&e))?;
        Ok(vec![ns(mounted), ns(median(unmounted))])
    }

    fn recovery(&mut self) -> Numbers {
        let size = self.part()?.ok_or_else(|| self.refused("no size", "give filesystem_size"))?;
        let arm = self.order.arm;
        let unclean = arm.row().map_or(Err("it has no filesystem of its own"), |row| row.abilities.unclean);
        let unclean = unclean.map_err(|reason| self.cannot(reason))?;
        let device = self.standing.device_size().map_err(|e| self.failed(&e))?;
        if unclean == Unclean::Image && size.0.saturating_mul(2) > device.0 {
            return Err(self.refused(
                &format!("{size} of filesystem and a copy of it do not fit on a device of {device}"),
                "use a larger --size, or a smaller filesystem_size",
            ));
        }
        self.rebuild(size)?;
        self.populate()?;
        self.settle()?;
        self.begin();
        let last = self.tree()?.files.div_ceil(10).max(LEAST_UNCLEAN);
        let content = content(self.order.task.data, self.order.task.seed, 4096);
        let folder = self.path("last")?;
        files::write_durably(&folder, last, &content).map_err(|e| self.failed(&e))?;
        match unclean {
            Unclean::Shutdown(call) => {
                // The filesystem says that it was shut down, and that its journal cannot be written any more.
                (self.tell)(Step::Provokes);
                self.standing.shut_down(call).map_err(|e| self.unless_unsupported(call, &e))?;
                self.standing.set_down().map_err(|e| self.failed(&e))?;
                (self.tell)(Step::Provoked);
            }
            Unclean::Image => {
                self.standing.keep_image(size).map_err(|e| self.failed(&e))?;
                self.standing.set_down().map_err(|e| self.failed(&e))?;
                self.standing.put_image_back(size).map_err(|e| self.failed(&e))?;
            }
        }
        self.settle()?;
        let recovered = self.standing.set_up(arm).map_err(|e| self.failed(&e))?;
        // What was synced must be there: a mount that loses it has recovered nothing.
        let found = files::count(&folder).map_err(|e| self.failed(&e))?;
        if found != u64::from(last) {
            let what = format!("{found} of {last} files that were synced before the stop are there after it");
            return Err(self.arm_failed(what));
        }
        self.standing.set_down().map_err(|e| self.failed(&e))?;
        self.settle()?;
        let clean = self.standing.set_up(arm).map_err(|e| self.failed(&e))?;
        Ok(vec![ns(recovered), ns(clean)])
    }

    /// The full check, read-only or not, of what was unmounted.
    fn check(&mut self) -> Numbers {
        self.populate()?;
        self.begin();
        self.standing.set_down().map_err(|e| self.failed(&e))?;
        self.settle()?;
        let tool = self.tool()?;
        let done = self.finish(&tool, &Places::default())?;
        if !done.status.success() {
            let corrupt = StackError::Corrupt { last_lines: done.last_lines(), line: done.line };
            return Err(self.failed(&corrupt));
        }
        self.standing.set_up(self.order.arm).map_err(|e| self.failed(&e))?;
        Ok(vec![ns(done.wall)])
    }

    fn freeze(&mut self) -> Numbers {
        let Order { task, threads, arm, ledger } = self.order;
        let content = content(task.data, task.seed, freeze::REQUEST);
        let folder = self.path("writers")?;
        self.enter(Stage::Layout, AROUND);
        let writers = freeze::lay_out(&folder, threads, &content).map_err(|e| self.failed(&e))?;
        self.settle()?;
        let freezer = self.standing.freezer(arm, ledger).map_err(|e| self.failed(&e))?;
        let timed = &task.timed;
        let longest = timed.duration.0 + u64::from(timed.repeat) * timed.hold.0;
        self.enter(Stage::Load, Nanos(longest + AROUND.0));
        let seen = freeze::measure(freezer, &writers, timed, &content);
        let seen = seen.map_err(|e| self.unless_unsupported("FIFREEZE", &e))?;
        Ok(vec![ns(median(seen.freeze)), ns(median(seen.thaw)), ns(median(seen.stall))])
    }

    fn snapshot(&mut self) -> Numbers {
        self.populate()?;
        self.begin();
        let create = self.tool()?;
        let delete = self.order.arm.row().map(|row| row.abilities.delete_snapshot);
        let delete = self.words_of(delete.unwrap_or(Ability::Cannot("it has no snapshots")))?;
        let (mut number, mut deleted) = (0, Vec::new());
        let created = self.repeat(|run| {
            run.settle()?;
            number += 1;
            let snapshot = run.path(&format!("snapshot-{number}"))?;
            let places = Places { snapshot, ..Places::default() };
            let created = run.must(&create, &places)?;
            deleted.push(run.must(&delete, &places)?);
            Ok(created)
        })?;
        Ok(vec![ns(created), ns(median(deleted))])
    }

    fn defragment(&mut self) -> Numbers {
        let tree = self.tree()?.clone();
        let folder = self.path(TREE)?;
        let bytes = tree.size.mean().0.saturating_mul(tree.files.into());
        self.enter(Stage::Layout, Nanos(AROUND.0 + Nanos::secs(bytes / SLOWEST).0));
        let content = content(self.order.task.data, self.order.task.seed, 1 << 20);
        let paths = files::append_in_turn(&folder, tree.files, tree.size.mean(), &content);
        let paths = paths.map_err(|e| self.failed(&e))?;
        self.settle()?;
        self.begin();
        let count = |run: &Self| -> Result<u64, RunFailure> {
            let each = paths.iter().map(|path| {
                let failed = |e| StackError::io("ask for the extents of", path, e);
                fstrial_engine::pieces(path).map_err(failed)
            });
            each.sum::<Result<u64, _>>().map_err(|e| run.unless_unsupported("FIEMAP", &e))
        };
        let before = (count(self)?, self.read(&paths)?);
        self.settle()?;
        let tool = self.tool()?;
        // Its version is asked for before the clock starts.
        self.standing.note_tool(tool.0);
        let places = Places { tree: folder, files: paths.clone(), ..Places::default() };
        let began = Instant::now();
        self.must(&tool, &places)?;
        self.standing.sync().map_err(|e| self.failed(&e))?;
        let took: Nanos = began.elapsed().into();
        let after = (count(self)?, self.read(&paths)?);
        Ok(vec![ns(took), number(before.0), number(after.0), before.1, after.1])
    }

    fn reflink_copy(&mut self) -> Numbers {
        let directory = self.standing.directory().map_err(|e| self.failed(&e))?.to_owned();
        try_to_clone(&directory).map_err(|e| self.unless_unsupported("FICLONE", &e))?;
        self.populate()?;
        self.settle()?;
        self.begin();
        let used = self.used()?;
        let places = Places { tree: self.path(TREE)?, copy: self.path("copy")?, ..Places::default() };
        let tool = self.tool()?;
        let copied = self.must(&tool, &places)?;
        self.standing.sync().map_err(|e| self.failed(&e))?;
        Ok(vec![ns(copied), number(self.used()?.saturating_sub(used).max(1))])
    }

    fn space(&mut self) -> Numbers {
        self.settle()?;
        let used = self.used()?;
        self.populate()?;
        self.settle()?;
        self.begin();
        let taken = self.used()?.saturating_sub(used).max(1);
        Ok(vec![number(taken) / f64::from(self.tree()?.files)])
    }

    fn fill(&mut self) -> Numbers {
        if let Some(size) = self.part()? {
            self.rebuild(size)?;
        }
        let size = self.standing.device_size().map_err(|e| self.failed(&e))?;
        self.settle()?;
        self.enter(Stage::Load, Nanos(AROUND.0 + Nanos::secs(size.0 / SLOWEST).0));
        let content = content(self.order.task.data, self.order.task.seed, 1 << 20);
        let folder = self.path("fill")?;
        let filled = fill::fill(&folder, &content).map_err(|e| self.failed(&e))?;
        let began = Instant::now();
        let deleted = fs::remove_file(&filled.first).map_err(|e| StackError::io("delete", &filled.first, e));
        // Too little space to delete is an outcome of the filesystem, not of the size asked for.
        let deleted = deleted.and_then(|()| self.standing.sync());
        deleted.map_err(|e| self.arm_failed(format!("full, and then: {e}")))?;
        let took: Nanos = began.elapsed().into();
        Ok(vec![number(filled.bytes), filled.rate, filled.rate_nearly_full, ns(took)])
    }

    fn delete_tree(&mut self) -> Numbers {
        self.populate()?;
        self.settle()?;
        self.begin();
        let places = Places { tree: self.path(TREE)?, ..Places::default() };
        let tool = self.tool()?;
        let deleted = self.must(&tool, &places)?;
        let began = Instant::now();
        self.standing.sync().map_err(|e| self.failed(&e))?;
        let synced: Nanos = began.elapsed().into();
        Ok(vec![ns(deleted), ns(Nanos(deleted.0 + synced.0))])
    }

    fn find(&mut self) -> Numbers {
        self.populate()?;
        self.settle()?;
        self.begin();
        let places = Places { tree: self.path(TREE)?, ..Places::default() };
        let tool = self.tool()?;
        let cold = self.must(&tool, &places)?;
        let warm = self.must(&tool, &places)?;
        Ok(vec![ns(cold), ns(warm)])
    }

    fn grow(&mut self) -> Numbers {
        let size = self.part()?.ok_or_else(|| self.refused("no size", "give filesystem_size"))?;
        self.rebuild(size)?;
        self.resize(&Places::default(), |before, after| after > before)
    }

    fn shrink(&mut self) -> Numbers {
        let size = self.part()?.ok_or_else(|| self.refused("no size", "give filesystem_size"))?;
        self.resize(&Places { size, ..Places::default() }, |before, after| after < before)
    }

    /// Changes the size of a populated filesystem while it is mounted, and looks whether it has.
    fn resize(&mut self, places: &Places, has_changed: fn(Bytes, Bytes) -> bool) -> Numbers {
        self.populate()?;
        self.settle()?;
        self.begin();
        let before = self.standing.total_space().map_err(|e| self.failed(&e))?;
        let tool = self.tool()?;
        let done = self.finish(&tool, places)?;
        if is_forbidden(&done) && !has_resource_capability() {
            return Err(self.cannot(&format!(
                "{} needs the capability CAP_SYS_RESOURCE here, which this process has not (a container?): {}",
                tool.0,
                done.last_lines().lines().last().unwrap_or_default()
            )));
        }
        let took = self.succeeded(done)?.wall;
        let after = self.standing.total_space().map_err(|e| self.failed(&e))?;
        if !has_changed(before, after) {
            let what = format!("{} succeeded, and the size went from {before} to {after}", tool.0);
            return Err(self.arm_failed(what));
        }
        Ok(vec![ns(took)])
    }
}

/// A tool with its words.
type Tool = (&'static str, Vec<&'static str>);

/// What operations have in common.
impl Run<'_> {
    fn enter(&mut self, stage: Stage, deadline: Nanos) {
        self.stage = stage;
        (self.tell)(Step::Enter(stage, deadline));
    }

    /// Enters the stage of the operation itself.
    fn begin(&mut self) {
        let repeat = u64::from(self.order.task.timed.repeat);
        // Each may take as long as its tool is given.
        self.enter(Stage::Load, Nanos(TOOL_DEADLINE.0.saturating_mul(2 * repeat).saturating_add(AROUND.0)));
    }

    /// Everything written out, caches dropped. Part of the operation's stage when it is repeated.
    fn settle(&mut self) -> Result<(), RunFailure> {
        self.standing.settle().map_err(|e| self.failed(&e))
    }

    /// Does something as often as asked, and gives the median of the times.
    fn repeat(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<Nanos, RunFailure>,
    ) -> Result<Nanos, RunFailure> {
        let times = (0..self.order.task.timed.repeat).map(|_| one(self));
        times.collect::<Result<Vec<_>, _>>().map(median)
    }

    /// A path in the arm's directory.
    fn path(&self, name: &str) -> Result<PathBuf, RunFailure> {
        Ok(self.standing.directory().map_err(|e| self.failed(&e))?.join(name))
    }

    fn tree(&self) -> Result<&FileTree, RunFailure> {
        let tree = self.order.task.timed.tree.as_ref();
        tree.ok_or_else(|| self.refused("the operation has no tree", "write tree = { files = 1000 }"))
    }

    fn used(&self) -> Result<u64, RunFailure> {
        self.standing.space_used().map(|used| used.0).map_err(|e| self.failed(&e))
    }

    /// The tree, laid out by the engine and synced.
    fn populate(&mut self) -> Result<(), RunFailure> {
        let task = self.order.task;
        let needed = task.timed.space_needed(self.order.threads).0;
        self.enter(Stage::Layout, Nanos(AROUND.0 + Nanos::secs(needed / SLOWEST).0));
        let steps = format!("stat {TREE}").parse().expect("a step of a flow");
        let flow = Flow {
            sets: vec![self.tree()?.clone()],
            steps: vec![steps],
            turns: Some(1),
            fsync_at_end: false,
        };
        let load = Load {
            pattern: Pattern::Flow(flow),
            set: TREE.into(),
            threads: 1,
            warmup: Nanos(0),
            duration: Nanos::secs(3600),
            until: Until::Done,
            seed: task.seed,
            data: task.data,
            rate: None,
            handicap: Percent(0.0),
        };
        let directory = self.standing.directory().map_err(|e| self.failed(&e))?;
        // What is prepared is only laid out, never run; its descriptors are closed here.
        let prepared = Site::new(Place::Directory(directory)).prepare(&[load]);
        prepared.map(drop).map_err(|e| engine_failure(Stage::Layout, &e))
    }

    /// The size that the filesystem is to have for this operation, where it is not that of the device: as asked for, or
    /// half of the device where it has to be smaller.
    fn part(&mut self) -> Result<Option<Bytes>, RunFailure> {
        let timed = &self.order.task.timed;
        let Some(row) = self.order.arm.row() else { return Ok(None) };
        let device = self.standing.device_size().map_err(|e| self.failed(&e))?;
        let least = Bytes::mib(row.min_size_mib);
        let half = Bytes((device.0 / 2) >> 20 << 20).max(least);
        let size = match timed.operation {
            Operation::Fill => timed.filesystem_size,
            _ => Some(timed.filesystem_size.unwrap_or(half)),
        };
        let Some(size) = size else { return Ok(None) };
        let changes = matches!(timed.operation, Operation::Grow | Operation::Shrink);
        if size < least {
            let what = format!("{size} is too small for {}, which takes at least {least}", row.name);
            return Err(self.refused(&what, "use a larger filesystem_size"));
        }
        if size > device || (changes && size == device) {
            let what =
                format!("a filesystem of {size} on a device of {device} leaves no room for it to change");
            return Err(self.refused(&what, "use a larger --size, or a smaller filesystem_size"));
        }
        if row.abilities.sized.is_empty() && timed.operation != Operation::Shrink {
            return Err(self.cannot("fstrial does not know how its mkfs makes it smaller than its device"));
        }
        Ok(Some(size))
    }

    /// Makes the filesystem again, smaller than its device.
    fn rebuild(&mut self, size: Bytes) -> Result<(), RunFailure> {
        let arm = self.order.arm;
        self.standing.set_down().map_err(|e| self.failed(&e))?;
        let made = self.standing.make_again(arm, Some(size));
        made.and_then(|_| self.standing.set_up(arm)).map(drop).map_err(|e| self.failed(&e))
    }

    /// The program that does the operation.
    fn tool(&self) -> Result<Tool, RunFailure> {
        let operation = self.order.task.timed.operation;
        let mut tool = self.words_of(ability(self.order.arm, operation))?;
        if operation == Operation::Check {
            tool.1.push("{device}");
        }
        Ok(tool)
    }

    fn words_of(&self, ability: Ability) -> Result<Tool, RunFailure> {
        match ability {
            Ability::Program(name, words) => Ok((name, words.to_vec())),
            Ability::Call(name) => Err(self.refused(&format!("{name} is no program"), "please report it")),
            Ability::Cannot(reason) => Err(self.cannot(reason)),
        }
    }

    fn finish(&mut self, (name, words): &Tool, places: &Places) -> Result<Finished, RunFailure> {
        let done = self.standing.finish_tool(self.order.arm, (name, words), places);
        done.map_err(|e| self.failed(&e))
    }

    /// What a tool did that must succeed.
    fn succeeded(&self, done: Finished) -> Result<Finished, RunFailure> {
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

    /// Reads files in order and gives the rate in bytes per second. The first read after a settle is cold.
    fn read(&mut self, paths: &[PathBuf]) -> Result<f64, RunFailure> {
        self.settle()?;
        let began = Instant::now();
        let bytes = files::read(paths).map_err(|e| self.failed(&e))?;
        Ok(number(bytes) / began.elapsed().as_secs_f64().max(1e-9))
    }

    fn failure(&self, kind: FailureKind, what: impl Into<String>, hint: Option<String>) -> RunFailure {
        RunFailure { kind, stage: self.stage, what: what.into(), hint }
    }

    fn cannot(&self, reason: &str) -> RunFailure {
        self.failure(FailureKind::Cannot, reason, None)
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
                self.cannot(&format!("the filesystem has no {call} ({source})"))
            }
            other => self.failed(other),
        }
    }
}

/// Whose fault an error in an operation is.
fn kind_of(error: &StackError) -> FailureKind {
    match error {
        StackError::MissingProgram { .. } | StackError::UnknownToKernel { .. } => FailureKind::HostLacks,
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

/// Whether a tool failed because the kernel does not let it; anything else is a failure of the arm.
fn is_forbidden(done: &Finished) -> bool {
    let refusals = ["Permission denied", "Operation not permitted"];
    let said = |text: &str| refusals.iter().any(|refusal| text.contains(refusal));
    !done.status.success() && (said(&done.stdout) || said(&done.stderr))
}

/// Whether a filesystem says that it does not know a call. EINVAL is not among it: that is what a wrong call gets.
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
