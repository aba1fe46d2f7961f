//! The tool's operations: test vectors from its system calls, and its own report if it is installed.

use super::*;
use crate::testing::{count, directory, files_below, load_to_end, run_to_end};
use fstrial_model::{measurement::OperationKind, units::Bytes, workload::Pattern};
use std::collections::BTreeMap;

/// Everything that a pool draws, in order, both halves of transactions apart.
fn actions(settings: Postmark) -> (Vec<Action>, Pool) {
    let (mut pool, _) = Pool::new(settings, 0);
    let all = std::iter::from_fn(|| pool.next(PostmarkPart::All)).flatten();
    let all = all.filter(|action| *action != Action::Nothing).collect();
    (all, pool)
}

fn text(action: &Action) -> String {
    let name = |file: &File| Name::new(file).as_c_str().to_str().unwrap().to_owned();
    match action {
        Action::Create(file) => format!("create {} {}", name(file), file.size),
        Action::Read(file) => format!("read {} {}", name(file), file.size),
        Action::Append(file, added) => format!("append {} +{added}", name(file)),
        Action::Delete(file) => format!("delete {}", name(file)),
        Action::Nothing => "nothing".to_owned(),
    }
}

fn texts(actions: &[Action]) -> Vec<String> {
    actions.iter().map(text).collect()
}

#[test]
fn twister_matches_reference_sequence() {
    let mut random = Twister::new(42);
    let first: Vec<u32> = (0..5).map(|_| random.next()).collect();
    assert_eq!(first, [4_179_544_424, 615_236_124, 4_165_290_828, 3_119_652_344, 1_623_863_471]);
    let state = random.at;
    assert_eq!(random.below(0), 0);
    assert_eq!(random.at, state, "nothing is drawn");
}

#[test]
fn twister_matches_recurrence_beyond_first_block() {
    // The recurrence, written the slow way: a list that grows.
    let mut random = Twister::new(7);
    let mut words = random.state.clone();
    for n in 0..2000 {
        let mixed = (words[n] & 0x8000_0000) | (words[n + 1] & 0x7fff_ffff);
        let twist = if mixed % 2 == 1 { 0x9908_b0df } else { 0 };
        words.push(words[n + 397] ^ (mixed / 2) ^ twist);
        let mut word = words[n + 624];
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^= word >> 18;
        assert_eq!(random.next(), word, "{n}");
    }
}

#[test]
fn default_run_is_the_tools() {
    let (actions, pool) = actions(Postmark::default());
    let texts = texts(&actions);
    assert_eq!(texts[..4], ["create 1 1390", "create 2 4732", "create 3 3583", "create 4 6507"]);
    assert_eq!(
        texts[500..505],
        ["append 222 +9", "delete 140", "append 454 +4156", "delete 143", "read 154 6736"]
    );
    let counters = Counters {
        created: 764,
        read: 243,
        appended: 257,
        deleted: 764,
        bytes_read: 1_430_770,
        bytes_written: 4_662_068,
    };
    assert_eq!(pool.counters, counters);
    let last = texts.iter().rev().take_while(|text| text.starts_with("delete")).count();
    assert!(last >= 528, "528 are deleted alone");
}

#[test]
fn long_run_has_the_tools_counters() {
    let settings = Postmark { number: 2000, transactions: 20_000, ..Postmark::default() };
    let (mut pool, _) = Pool::new(settings, 0);
    pool.skip_to(PostmarkPart::Delete);
    assert_eq!(pool.counters.created - pool.counters.deleted, 1908);
    while pool.next(PostmarkPart::Delete).is_some() {}
    let counters = Counters {
        created: 11_954,
        read: 9_992,
        appended: 9_931,
        deleted: 11_954,
        bytes_read: 66_494_124,
        bytes_written: 79_608_029,
    };
    assert_eq!(pool.counters, counters);
    assert_eq!(20_000 - counters.read - counters.appended, 77, "appends to full files");
}

#[test]
fn subdirectories_are_drawn_before_sizes() {
    let settings = Postmark { number: 5, transactions: 30, subdirectories: 3, ..Postmark::default() };
    let (actions, _) = actions(settings);
    let expected = [
        "create s0/1 4732",
        "create s1/2 6507",
        "create s0/3 8219",
        "create s2/4 2341",
        "create s2/5 6128",
        "append s2/5 +2702",
        "delete s0/1",
        "append s2/4 +2038",
        "delete s1/2",
        "read s2/4 4379",
        "create s1/6 9744",
    ];
    assert_eq!(texts(&actions)[..11], expected);
}

#[test]
fn parts_one_after_the_other_are_the_whole() {
    let whole = Postmark { number: 40, transactions: 300, subdirectories: 4, ..Postmark::default() };
    let mut joined = Vec::new();
    for part in [PostmarkPart::Create, PostmarkPart::Transactions, PostmarkPart::Delete] {
        let (mut pool, _) = Pool::new(whole, 0);
        pool.skip_to(part);
        joined.extend(std::iter::from_fn(|| pool.next(part)).flatten());
    }
    joined.retain(|action| *action != Action::Nothing);
    assert_eq!(joined, actions(whole).0);
}

#[test]
fn biases_leave_their_half_out() {
    let of = |bias_read, bias_create| {
        actions(Postmark { bias_read, bias_create, number: 50, ..Postmark::default() }).1.counters
    };
    let reads_only = of(10, -1);
    assert_eq!((reads_only.read, reads_only.appended, reads_only.created), (500, 0, 50));
    let creates_only = of(-1, 10);
    assert_eq!((creates_only.read + creates_only.appended, creates_only.created), (0, 100), "a full table");
    assert_eq!(of(-1, 0).deleted, 50, "out of files");
}

/// The files after an action, kept in a plain map.
fn apply(files: &mut BTreeMap<String, u64>, action: &Action) {
    let name = |file: &File| Name::new(file).as_c_str().to_str().unwrap().to_owned();
    match action {
        Action::Create(file) => assert_eq!(files.insert(name(file), file.size), None),
        Action::Read(file) => assert_eq!(files[&name(file)], file.size),
        Action::Append(file, added) => *files.get_mut(&name(file)).unwrap() += added,
        Action::Delete(file) => assert!(files.remove(&name(file)).is_some()),
        Action::Nothing => {}
    }
}

#[test]
fn files_after_each_part_are_those_of_a_plain_model() {
    for (buffering, request) in [(true, 512), (false, 512), (false, 5000)] {
        let settings = Postmark {
            number: 60,
            transactions: 400,
            subdirectories: 3,
            size_high: Bytes(9000),
            buffering,
            read: Bytes(request),
            write: Bytes(request),
            ..Postmark::default()
        };
        let (directory, mut model) = (directory(), [BTreeMap::new(), BTreeMap::new()]);
        for part in [PostmarkPart::Create, PostmarkPart::Transactions, PostmarkPart::Delete] {
            let settings = Postmark { part, ..settings };
            let load = load_to_end(Pattern::Postmark(settings), 2);
            let result = run_to_end(&load, directory.path());
            assert_eq!(result.first_error, None);
            let mut expected = 0;
            for (thread, files) in model.iter_mut().enumerate() {
                let (mut pool, _) = Pool::new(settings, thread as u16);
                pool.skip_to(part);
                while let Some(actions) = pool.next(part) {
                    expected += 1;
                    actions.iter().for_each(|action| apply(files, action));
                }
                let below = files_below(&directory.path().join(format!("postmark-{thread:04}")));
                let below: BTreeMap<_, _> =
                    below.into_iter().filter(|(name, _)| !name.ends_with('/')).collect();
                assert_eq!(&below, files);
            }
            assert_eq!(result.operations, expected);
        }
        assert!(model.iter().all(BTreeMap::is_empty));
    }
}

#[test]
fn bytes_and_kinds_are_the_tools_counters() {
    for buffering in [true, false] {
        let directory = directory();
        let settings = Postmark { buffering, ..Postmark::default() };
        let result = run_to_end(&load_to_end(Pattern::Postmark(settings), 1), directory.path());
        assert_eq!(result.first_error, None);
        assert_eq!(result.bytes, 1_430_770 + 4_662_068);
        assert_eq!(result.operations, 500 + 500 + 528);
        let kinds = [
            (OperationKind::new("create"), 764),
            (OperationKind::READ, 243),
            (OperationKind::new("append"), 257),
            (OperationKind::new("delete"), 764),
        ];
        kinds
            .into_iter()
            .for_each(|(kind, expected)| assert_eq!(count(&result, kind.clone()), expected, "{kind}"));
    }
}

#[test]
fn missing_pool_files_count_as_errors() {
    let directory = directory();
    let settings = Postmark { part: PostmarkPart::Create, ..Postmark::default() };
    run_to_end(&load_to_end(Pattern::Postmark(settings), 1), directory.path());
    let gone = directory.path().join("postmark-0000");
    for file in std::fs::read_dir(&gone).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let settings = Postmark { part: PostmarkPart::Delete, ..settings };
    let result = run_to_end(&load_to_end(Pattern::Postmark(settings), 1), directory.path());
    assert_eq!((result.operations, result.errors), (0, 16));
    assert!(result.first_error.unwrap().starts_with("delete in "));
}

/// The first number of the line that has `word` in it.
fn reported(report: &str, word: &str) -> u64 {
    let line = report.lines().find(|line| line.contains(word)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "runs the tool itself, with its settings on standard input")]
fn the_real_tool_reports_the_same_counters() {
    use std::process::{Command, Stdio};
    let directory = directory();
    let mut tool = match Command::new("postmark").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
        Ok(tool) => tool,
        Err(error) => {
            let line = format!(
                "SKIPPED postmark::tests::the_real_tool_reports_the_same_counters: postmark: {error}\n"
            );
            return std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
    };
    let location = directory.path().display();
    let commands = format!(
        "set size 700 3000\nset number 137\nset transactions 911\nset seed 7\nset subdirectories 5\nset bias read 3\n\
         set bias create 6\nset location {location}\nrun\nquit\n"
    );
    tool.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let settings = Postmark {
        size_low: Bytes(700),
        size_high: Bytes(3000),
        number: 137,
        transactions: 911,
        seed: 7,
        subdirectories: 5,
        bias_read: 3,
        bias_create: 6,
        ..Postmark::default()
    };
    let (_, pool) = actions(settings);
    for (word, expected) in [
        (" created (", pool.counters.created),
        (" read (", pool.counters.read),
        (" appended (", pool.counters.appended),
        (" deleted (", pool.counters.deleted),
    ] {
        assert_eq!(reported(&report, word), expected, "{word} in {report}");
    }
}
