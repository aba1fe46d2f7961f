//! Programs on real directories against slow, obvious models, and the programs of the tools they stand for.

use super::*;
use crate::testing::{count, directory, files_below, io, load_of, load_to_end, run_to_end};
use fstrial_model::{
    job::Load,
    measurement::{LoadResult, OperationKind},
    units::Nanos,
    workload::Pattern,
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A program as written in a file.
fn flow(text: &str) -> Flow {
    let flow: Flow = toml::from_str(text).unwrap();
    flow.check().unwrap_or_else(|error| panic!("{error:?}"));
    flow
}

fn run_in(text: &str, threads: u16, directory: &Path) -> LoadResult {
    run_to_end(&load_to_end(Pattern::Flow(flow(text)), threads), directory)
}

/// Runs without an error.
fn run(text: &str, threads: u16, directory: &Path) -> LoadResult {
    let result = run_in(text, threads, directory);
    assert_eq!(result.first_error, None, "{text}");
    result
}

/// Files without directories.
fn files(directory: &Path) -> BTreeMap<String, u64> {
    files_below(directory).into_iter().filter(|(name, _)| !name.ends_with('/')).collect()
}

#[test]
fn own_parts_are_worked_through_once_phase_by_phase() {
    for (order, names, extra) in [
        ("own", "ordered", ""),
        ("shuffled", "scrambled", "name_length = 22, width = 7, even = true"),
        ("readdir", "scrambled", "width = 5"),
        ("own", "ordered", "per_thread = true, name_length = 40"),
    ] {
        let directory = directory();
        let per_thread = extra.contains("per_thread");
        let all = if per_thread { 3 * 100 } else { 100 };
        let run = |order: &str, state: &str, steps: &str| {
            let set = format!(
                "{{ name = \"f\", files = 100, size = \"3000B\", names = \"{names}\", order = \"{order}\", {state}{} {extra} }}",
                if extra.is_empty() { "" } else { "," }
            );
            run(&format!("sets = [{set}]\nsteps = [{steps}]"), 3, directory.path())
        };
        let first = if order == "readdir" { "own" } else { order };
        let created = run(first, "present = \"0%\"", "\"create f\", \"write 1KiB\", \"fsync\", \"close\"");
        assert_eq!(created.operations, all);
        assert_eq!(created.bytes, all * 3000);
        assert_eq!(count(&created, OperationKind::new("create")), all);
        assert_eq!(count(&created, OperationKind::FSYNC), all);
        let made = files(directory.path());
        assert_eq!(made.len() as u64, all);
        assert!(made.values().all(|size| *size == 3000));

        let stat = run(order, "existing = true", "\"stat f\", \"open f\", \"read\", \"close\"");
        assert_eq!((stat.operations, count(&stat, OperationKind::new("stat"))), (all, all));
        assert_eq!(stat.bytes, all * 3000);
        assert_eq!(files(directory.path()), made);

        let deleted = run(order, "existing = true", "\"delete f\"");
        assert_eq!((deleted.operations, files(directory.path()).len()), (all, 0));
    }
}

/// bonnie++ 2.00 times one `sync` at the end of making and of deleting its small files.
#[test]
fn fsync_at_end_syncs_once_per_thread() {
    let directory = directory();
    let set = |state| format!("sets = [{{ name = \"f\", files = 40, order = \"own\", {state} }}]\n");
    let made = set("present = \"0%\"") + "steps = [\"create f\", \"close\"]\nfsync_at_end = true";
    let made = run(&made, 2, directory.path());
    assert_eq!((made.operations, count(&made, OperationKind::FSYNC)), (40, 2), "one of each thread");
    let turns = set("existing = true") + "steps = [\"stat f\"]\nturns = 3\nfsync_at_end = true";
    let looked = run(&turns, 1, directory.path());
    assert_eq!((looked.operations, count(&looked, OperationKind::FSYNC)), (3, 1));
}

#[test]
fn directories_are_made_looked_at_and_removed() {
    let directory = directory();
    let set = |state: &str| {
        format!("sets = [{{ name = \"d\", files = 50, directories = true, order = \"own\", {state} }}]\n")
    };
    let made = run(&(set("present = \"0%\"") + "steps = [\"mkdir d\"]"), 2, directory.path());
    assert_eq!((made.operations, files_below(directory.path()).len()), (50, 51));
    let stat = run(&(set("existing = true") + "steps = [\"stat d\"]"), 2, directory.path());
    assert_eq!(count(&stat, OperationKind::new("stat")), 50);
    let removed = run(&(set("existing = true") + "steps = [\"rmdir d\"]"), 2, directory.path());
    assert_eq!((removed.operations, files_below(directory.path()).len()), (50, 1));
}

/// The steps of random programs: on set a or b.
#[derive(Debug, Clone, Copy)]
enum Plain {
    Create(bool),
    Delete(bool),
    DeleteOpen,
    Append(bool),
    Rename(bool),
    RenameOver,
}

fn plain() -> impl Strategy<Value = Plain> {
    prop_oneof![
        any::<bool>().prop_map(Plain::Create),
        any::<bool>().prop_map(Plain::Delete),
        Just(Plain::DeleteOpen),
        any::<bool>().prop_map(Plain::Append),
        any::<bool>().prop_map(Plain::Rename),
        Just(Plain::RenameOver),
    ]
}

/// A set as a plain vector of sizes, and the two places where searches go on.
struct Model {
    files: Vec<Option<u64>>,
    at: [usize; 2],
}

impl Model {
    /// The next place in the circle, which is left alone.
    fn next(&mut self, existing: bool) -> Option<usize> {
        let n = self.files.len();
        let at = &mut self.at[usize::from(existing)];
        let place = (0..n).map(|k| (*at + k) % n).find(|place| self.files[*place].is_some() == existing)?;
        *at = (place + 1) % n;
        Some(place)
    }
}

/// Does steps until one finds nothing; gives the turns that were whole.
fn play(sets: &mut [Model; 2], steps: &[Plain], turns: u64) -> u64 {
    for turn in 0..turns {
        for step in steps {
            let mut one = || -> Option<()> {
                match *step {
                    Plain::Create(set) => {
                        let place = sets[usize::from(set)].next(false)?;
                        sets[usize::from(set)].files[place] = Some(100);
                    }
                    Plain::Delete(set) => {
                        let place = sets[usize::from(set)].next(true)?;
                        sets[usize::from(set)].files[place] = None;
                    }
                    Plain::DeleteOpen => {
                        let place = sets[0].next(true)?;
                        sets[0].files[place] = None;
                    }
                    Plain::Append(set) => {
                        let place = sets[usize::from(set)].next(true)?;
                        *sets[usize::from(set)].files[place].as_mut().unwrap() += 777;
                    }
                    Plain::Rename(to) => {
                        let from = sets[0].next(true)?;
                        // Busy while the goal is looked for: neither free nor there.
                        let size = sets[0].files[from];
                        let goal = sets[usize::from(to)].next(false)?;
                        sets[0].files[from] = None;
                        sets[usize::from(to)].files[goal] = size;
                    }
                    Plain::RenameOver => {
                        let from = sets[0].next(true)?;
                        let goal = sets[1].next(true)?;
                        sets[1].files[goal] = sets[0].files[from].take();
                    }
                }
                Some(())
            };
            if one().is_none() {
                return turn;
            }
        }
    }
    turns
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn files_after_n_turns_are_those_of_a_plain_model(
        steps in proptest::collection::vec(plain(), 1..8),
        files_each in 1_u32..12,
        turns in 1_u64..30,
    ) {
        let letter = |set: bool| if set { "b" } else { "a" };
        let text: Vec<String> = steps.iter().map(|step| match *step {
            Plain::Create(set) => format!("1x (create {}, write 64B, close)", letter(set)),
            Plain::Delete(set) => format!("delete {}", letter(set)),
            Plain::DeleteOpen => "1x (open a as h, delete on h, close on h)".to_owned(),
            Plain::Append(set) => format!("1x (open {}, append 777B, close)", letter(set)),
            Plain::Rename(to) => format!("rename a to {}", letter(to)),
            Plain::RenameOver => "rename a over b".to_owned(),
        }).collect();
        let program = format!(
            "turns = {turns}\nsets = [{{ name = \"a\", files = {files_each}, size = \"100B\" }}, \
             {{ name = \"b\", files = 9, size = \"100B\", present = \"0%\" }}]\nsteps = {text:?}"
        );
        let directory = directory();
        let mut sets = [
            Model { files: vec![Some(100); files_each as usize], at: [0; 2] },
            Model { files: vec![None; 9], at: [0; 2] },
        ];
        let result = run_in(&program, 1, directory.path());
        prop_assert_eq!(result.first_error, None);
        prop_assert_eq!(result.operations, play(&mut sets, &steps, turns), "{}", program);
        let expected: BTreeMap<String, u64> = ["a", "b"]
            .iter()
            .zip(&sets)
            .flat_map(|(name, set)| {
                set.files.iter().enumerate().filter_map(move |(n, size)| Some((format!("{name}/{n:08x}"), (*size)?)))
            })
            .collect();
        prop_assert_eq!(files(directory.path()), expected, "{}", program);
    }
}

const VARMAIL: &str = r#"
    turns = 60
    sets = [{ name = "mail", files = 200, size = "gamma 16KiB", width = 1000000, present = "80%" }]
    steps = ["delete mail", "create mail", "append 16KiB random", "fsync", "close",
             "open mail", "read", "append 16KiB random", "fsync", "close", "open mail", "read", "close"]
"#;

const FILESERVER: &str = r#"
    turns = 40
    sets = [{ name = "served", files = 300, size = "gamma 20KiB", width = 20, present = "80%" }]
    steps = ["create served", "write", "close", "open served", "append 16KiB random", "close",
             "open served", "read", "close", "delete served", "stat served"]
"#;

const WEBSERVER: &str = r#"
    turns = 30
    sets = [{ name = "web", files = 100, size = "gamma 16KiB", width = 20, read_only = true },
            { name = "log", files = 1 }]
    steps = ["10x (open web, read, close)", "append 16KiB random in log"]
"#;

const SORTED: &str = r#"
    turns = 12
    sets = [{ name = "fresh", files = 16, size = "64KiB", present = "0%" },
            { name = "sorted", files = 64, size = "64KiB", present = "50%" }]
    steps = ["create fresh", "write", "fsync", "close", "rename to sorted", "fsync-dir",
             "open sorted as a", "open sorted as b", "read on a", "read on b", "close on a", "close on b",
             "create sorted", "write", "fsync", "close", "delete on a", "delete on b"]
"#;

const OLTP: &str = r#"
    turns = 50
    sets = [{ name = "data", files = 10, size = "256KiB", sync = true },
            { name = "log", files = 1, size = "256KiB", sync = true }]
    steps = ["read-at 2KiB in data", "write-at 2KiB in data", "write-next 64KiB in log", "fdatasync in log"]
"#;

#[test]
fn programs_of_the_tools_run_clean_with_several_threads() {
    for (text, steps) in [(VARMAIL, 13), (FILESERVER, 11), (WEBSERVER, 31), (SORTED, 18), (OLTP, 4)] {
        for threads in [1, 4] {
            let directory = directory();
            let turns = flow(text).turns.unwrap();
            assert_eq!(flow(text).written_out().len(), steps);
            let result = run(text, threads, directory.path());
            assert_eq!(result.operations, turns * u64::from(threads), "{text}");
            let kinds = result.histograms.keys().filter(|kind| **kind != OperationKind::OPERATION);
            let parts: u64 = kinds.map(|kind| count(&result, kind.clone())).sum();
            assert_eq!(parts, result.operations * steps as u64, "every step is recorded: {text}");
        }
    }
}

#[test]
fn sets_in_balance_keep_their_number_of_files() {
    for order in ["next", "random"] {
        let directory = directory();
        let text = format!(
            "turns = 200\nsets = [{{ name = \"a\", files = 64, size = \"10B\", present = \"50%\", order = \"{order}\" }}]\n\
             steps = [\"delete a\", \"create a\", \"write\", \"close\"]"
        );
        let load = load_to_end(Pattern::Flow(flow(&text)), 4);
        // How many files there are at first depends on the seed alone.
        let before = {
            let other = crate::testing::directory();
            let stat = text.replace("\"delete a\", \"create a\", \"write\", \"close\"", "\"stat a\"");
            run(&stat, 4, other.path());
            files(other.path()).len()
        };
        assert!((16..48).contains(&before), "about half of 64: {before}");
        let result = run_to_end(&load, directory.path());
        assert_eq!((result.operations, result.first_error), (800, None));
        let after = files(directory.path());
        assert!(after.values().all(|size| *size == 10));
        assert_eq!(after.len(), before);
    }
}

/// A thread that is slow between its open and its close once filled the set: every time round, its file was not deleted
/// and another was created.
#[test]
fn long_open_file_does_not_fill_set() {
    for order in ["next", "random"] {
        let directory = directory();
        let text = format!(
            "turns = 20\nsets = [{{ name = \"a\", files = 10, present = \"50%\", order = \"{order}\" }}]\n\
             steps = [\"open a as slow\", \"20x (delete a, create a as new, close on new)\", \"close on slow\"]"
        );
        let result = run(&text, 1, directory.path());
        assert_eq!((result.operations, result.first_error), (20, None), "{order}");
    }
}

#[test]
fn same_seed_does_the_same() {
    let state = |text: &str, seed| {
        let directory = directory();
        let mut load = load_to_end(Pattern::Flow(flow(text)), 1);
        load.seed = seed;
        assert_eq!(run_to_end(&load, directory.path()).errors, 0);
        let names = files(directory.path());
        names
            .into_keys()
            .map(|name| (std::fs::read(directory.path().join(&name)).unwrap(), name))
            .collect::<Vec<_>>()
    };
    let random = VARMAIL.replace("present =", "order = \"random\", present =");
    for text in [VARMAIL, FILESERVER, &random] {
        assert!(state(text, 1) == state(text, 1));
        assert!(state(text, 1) != state(text, 2));
    }
}

#[test]
fn sole_open_file_is_not_deleted() {
    let directory = directory();
    let set = "sets = [{ name = \"a\", files = 1 }]\nturns = 5\n";
    let result = run(&format!("{set}steps = [\"open a\", \"delete a\", \"close\"]"), 1, directory.path());
    assert_eq!((result.operations, count(&result, OperationKind::new("delete"))), (5, 5));
    assert_eq!(files(directory.path()).len(), 1);
}

#[test]
fn requests_cover_files_in_order_and_at_random() {
    let directory = directory();
    let text = "turns = 16\nsets = [{ name = \"a\", files = 2, size = \"16KiB\", present = \"100%\" }]\n";
    let before = files_of(&directory, &format!("{text}steps = [\"stat a\"]"));
    // 16 requests of 1 KiB go to each of two files in turn: 8 of 16 KiB each.
    let other = crate::testing::directory();
    let after = files_of(&other, &format!("{text}steps = [\"write-next 1KiB in a\"]"));
    for name in ["a/00000000", "a/00000001"] {
        assert!(before[name][..8192] != after[name][..8192]);
        assert!(before[name][8192..] == after[name][8192..]);
        assert!((0..8).all(|n| before[name][n * 1024..][..1024] != after[name][n * 1024..][..1024]));
    }
    let third = crate::testing::directory();
    let random = files_of(&third, &format!("{text}steps = [\"write-at 1KiB in a\"]"));
    let changed: BTreeSet<(usize, usize)> = (0..32)
        .map(|n| (n / 16, n % 16))
        .filter(|(file, block)| {
            let name = format!("a/{file:08x}");
            before[&name][block * 1024..][..1024] != random[&name][block * 1024..][..1024]
        })
        .collect();
    assert!((6..=16).contains(&changed.len()), "{changed:?}");
}

/// Content of the files after a program of one thread.
fn files_of(directory: &tempfile::TempDir, text: &str) -> BTreeMap<String, Vec<u8>> {
    run(text, 1, directory.path());
    let names = files(directory.path());
    names
        .into_keys()
        .map(|name| (name.clone(), std::fs::read(directory.path().join(name)).unwrap()))
        .collect()
}

#[test]
fn listing_and_waiting_are_steps() {
    let directory = directory();
    let text = "turns = 6\nsets = [{ name = \"a\", files = 700, width = 300, even = true }]\n\
                steps = [\"readdir a\", \"delay 1ms\", \"syncfs a\"]";
    let result = run(text, 2, directory.path());
    assert_eq!((result.operations, count(&result, OperationKind::new("readdir"))), (12, 12));
    assert_eq!(count(&result, OperationKind::FSYNC), 12);
}

#[test]
fn empty_set_fails_but_full_set_ends_load() {
    let set = "sets = [{ name = \"a\", files = 5, present = \"0%\", order = \"random\" }]\n";
    let open = directory();
    let result = run_in(&format!("{set}steps = [\"stat a\"]"), 1, open.path());
    assert_eq!((result.operations, result.errors), (0, 1));
    let first = result.first_error.unwrap();
    assert!(first.starts_with("pick in ") && first.ends_with("/a: no file is left in it"), "{first}");
    let filling = directory();
    let result = run(&format!("{set}steps = [\"create a\", \"close\"]"), 2, filling.path());
    assert_eq!((result.operations, files(filling.path()).len()), (5, 5));
}

#[test]
fn failed_steps_are_reported_in_result() {
    let directory = directory();
    let text =
        "sets = [{ name = \"a\", files = 50, order = \"random\" }]\nsteps = [\"open a as h\", \"stat a\"]";
    let load = load_to_end(Pattern::Flow(flow(text)), 2);
    let work = crate::prepare(&load, crate::Target::Directory(directory.path())).unwrap().groups.remove(0).1;
    std::fs::remove_dir_all(directory.path().join("a")).unwrap();
    let result = crate::testing::run_work(&load, work);
    assert_eq!((result.operations, result.errors), (0, 32), "16 for each of two threads");
    let first = result.first_error.unwrap();
    assert!(first.starts_with("open in ") && first.contains("No such file"), "{first}");
}

#[test]
fn flow_with_unmet_preconditions_is_refused() {
    let directory = directory();
    let text = "sets = [{ name = \"a\", files = 5, existing = true }]\nsteps = [\"stat a\"]";
    let load = load_to_end(Pattern::Flow(flow(text)), 1);
    let error = crate::prepare(&load, crate::Target::Directory(directory.path())).unwrap_err();
    assert!(error.to_string().starts_with("failed to list ") && !error.is_refusal(), "{error}");
    let twice = text.replace(", existing = true", "");
    run(&(twice.clone() + "\nturns = 1"), 1, directory.path());
    let again = load_to_end(Pattern::Flow(flow(&twice)), 1);
    let error = crate::prepare(&again, crate::Target::Directory(directory.path())).unwrap_err();
    assert!(error.hint().unwrap().contains("never overwrites"), "{error}");
    let wrong = Flow { steps: Vec::new(), ..flow(text) };
    let error = crate::validate(&load_to_end(Pattern::Flow(wrong), 1), false).unwrap_err();
    assert!(error.is_refusal() && error.to_string().contains("a turn cannot have 0 steps"), "{error}");
}

#[test]
fn a_full_device_is_an_outcome() {
    let Some(mount) = crate::tests::TinyMount::new() else { return };
    let text = "sets = [{ name = \"a\", files = 60, size = \"100KiB\", present = \"0%\" }]\n\
                steps = [\"create a\", \"write 10000B\", \"fsync\", \"close\"]";
    // The places would take 6 MiB, and there are 4.
    let result = run_in(text, 2, mount.0.path());
    assert!((30..42).contains(&result.operations), "{}", result.operations);
    let first = result.first_error.unwrap();
    assert!(result.errors > 1 && (first.contains("No space left") || first.contains("only ")), "{first}");
    let full = text
        .replace("present = \"0%\"", "present = \"100%\"")
        .replace("\"a\"", "\"b\"")
        .replace(" a\"", " b\"");
    let load = load_to_end(Pattern::Flow(flow(&full)), 1);
    let error = crate::prepare(&load, crate::Target::Directory(mount.0.path())).unwrap_err();
    assert!(matches!(error, EngineError::NoSpace { .. }), "{error}");
}

#[test]
fn every_program_runs_for_a_time_too() {
    use fstrial_model::{
        units::{Bytes, Nanos},
        workload::{Flush, Log, Postmark},
    };
    let endless = |text: &str| Pattern::Flow(Flow { turns: None, ..flow(text) });
    let flush = Flush { file_size: Bytes::mib(1), direct: false, ..Flush::default() };
    for pattern in [
        endless(VARMAIL),
        endless(WEBSERVER),
        // Two that delete one file take one away and have made two: it grows with time.
        endless(&SORTED.replace(
            "files = 64, size = \"64KiB\", present = \"50%\"",
            "files = 6400, size = \"64KiB\", present = \"1%\"",
        )),
        endless(OLTP),
        Pattern::Postmark(Postmark { transactions: 1_000_000, ..Postmark::default() }),
        Pattern::Log(Log { file_size: Bytes::mib(1), ..Log::default() }),
        Pattern::Flush(flush),
    ] {
        let directory = directory();
        let (warmup, duration) = (Nanos::millis(10), Nanos::millis(150));
        let load = Load { warmup, duration, ..load_to_end(pattern, 3) };
        let prepared = crate::prepare(&load, crate::Target::Directory(directory.path())).unwrap();
        let result = prepared.run(&mut |_| {}).unwrap();
        assert_eq!(result.first_error, None, "{:?}", load.pattern);
        assert_eq!(count(&result, OperationKind::OPERATION), result.operations);
        assert_eq!(result.windows.iter().sum::<u64>(), result.operations);
        let error = crate::validate(&load, true).unwrap_err();
        assert!(error.to_string().contains("a bare device holds no files"), "{error}");
    }
}

#[test]
fn first_turn_completes_beyond_load_duration() {
    let directory = directory();
    // Nothing writes 512 MiB in 20 ms.
    let program = flow(
        "sets = [{ name = \"f\", files = 10, size = \"512MiB\", present = \"0%\" }]
        steps = [\"create f\", \"write 64KiB\", \"close\", \"delete f\"]",
    );
    let short = Load { warmup: Nanos(0), duration: Nanos::millis(20), ..load_of(io(), 1) };
    let load = Load { pattern: Pattern::Flow(program), ..short };
    let result = run_to_end(&load, directory.path());
    assert_eq!((result.operations, result.errors), (1, 0), "{:?}", result.first_error);
    assert!(result.duration > load.duration, "{}", result.duration);
    assert_eq!(count(&result, OperationKind::OPERATION), 1);
}
