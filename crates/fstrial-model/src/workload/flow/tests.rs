//! Steps and programs: their parsing, and refusals with their texts.

use super::*;
use crate::units::Nanos;
use proptest::{collection::vec, prelude::*};

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,8}".prop_filter("not a word of the language", |name| is_name(name))
}

fn handle() -> impl Strategy<Value = String> {
    prop_oneof![Just("file".to_owned()), name()]
}

fn file() -> impl Strategy<Value = OpenFile> {
    prop_oneof![handle().prop_map(OpenFile::On), name().prop_map(OpenFile::In)]
}

fn target() -> impl Strategy<Value = StepFile> {
    prop_oneof![name().prop_map(StepFile::Set), handle().prop_map(StepFile::On)]
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![(0_u64..1 << 40).prop_map(Bytes), (0_u64..64).prop_map(Bytes::mib)]
}

fn simple() -> impl Strategy<Value = FlowStep> {
    let data =
        (0_u8..9, file(), bytes(), any::<bool>()).prop_map(|(verb, file, request, random)| match verb {
            0 => FlowStep::Read { file, request },
            1 => FlowStep::ReadAt { file, request },
            2 => FlowStep::ReadNext { file, request },
            3 => FlowStep::Write { file, request },
            4 => FlowStep::WriteAt { file, request },
            5 => FlowStep::WriteNext { file, request },
            6 => FlowStep::Append { file, request, random },
            7 => FlowStep::Fsync { file },
            _ => FlowStep::Fdatasync { file },
        });
    let entry =
        (0_u8..5, name(), handle(), target(), any::<bool>()).prop_map(|(verb, set, handle, target, over)| {
            match verb {
                0 => FlowStep::Create { set, handle },
                1 => FlowStep::Open { set, handle },
                2 => FlowStep::Stat { target },
                3 => FlowStep::Delete { target },
                _ => FlowStep::Rename { target, to: set, over },
            }
        });
    let other = (0_u8..7, name(), handle(), 0_u64..1 << 50).prop_map(|(verb, set, handle, ns)| match verb {
        0 => FlowStep::Close { handle },
        1 => FlowStep::FsyncDir { handle },
        2 => FlowStep::Syncfs { set },
        3 => FlowStep::Mkdir { set },
        4 => FlowStep::Rmdir { set },
        5 => FlowStep::Readdir { set },
        _ => FlowStep::Delay { time: Nanos(ns) },
    });
    prop_oneof![data, entry, other]
}

fn step() -> impl Strategy<Value = FlowStep> {
    simple().prop_recursive(3, 20, 4, |inner| {
        (1_u32..=4096, vec(inner, 1..4)).prop_map(|(times, steps)| FlowStep::Repeat { times, steps })
    })
}

proptest! {
    #[test]
    fn display_output_parses_back(step in step()) {
        prop_assert_eq!(step.to_string().parse::<FlowStep>().unwrap(), step);
    }

    #[test]
    fn accepted_step_text_round_trips(text in "[a-z0-9x(), -]{0,60}|.{0,60}") {
        if let Ok(step) = text.parse::<FlowStep>() {
            prop_assert_eq!(step.to_string().parse::<FlowStep>().unwrap(), step);
        }
    }

    #[test]
    fn sizes_round_trip(low in 0_u64..1 << 40, high in 0_u64..1 << 40) {
        let (low, high) = (Bytes(low), Bytes(high));
        for size in [Size::Fixed(low), Size::Uniform { low, high }, Size::Gamma { mean: high }] {
            prop_assert_eq!(size.to_string().parse::<Size>().unwrap(), size);
        }
    }
}

#[test]
fn steps_read_as_people_write_them() {
    for text in [
        "create mail",
        "open mail as b",
        "close on b",
        "read",
        "read 64KiB on b",
        "read-at 4KiB in data",
        "read-next 256KiB",
        "write",
        "write 16KiB on b",
        "write-at 2KiB in data",
        "append 16KiB random",
        "append 16KiB in log",
        "fsync",
        "fdatasync on b",
        "fsync-dir",
        "syncfs mail",
        "stat mail",
        "stat",
        "delete on a",
        "rename fresh to mail",
        "rename to mail",
        "rename on a over mail",
        "mkdir dirs",
        "rmdir dirs",
        "readdir mail",
        "delay 10s",
        "10x (open web, read, close)",
        "4x delete mail",
        "2x (3x (open a, close), stat b)",
    ] {
        assert_eq!(text.parse::<FlowStep>().unwrap().to_string(), text);
    }
    let loose = " 2x(  open   mail ,close ) ".parse::<FlowStep>().unwrap();
    assert_eq!(loose.to_string(), "2x (open mail, close)");
}

#[test]
fn step_errors_suggest_valid_input() {
    for (text, words) in [
        ("", "it is empty; use one of create, open"),
        ("crate mail", "there is no `crate`; use one of create"),
        ("create", "the name of a set is missing"),
        ("create as b", "expected the name of a set, found `as`"),
        ("append", "a size such as 16KiB is missing"),
        ("append 16KB", "write KiB"),
        ("read-at", "a size"),
        ("rename a b", "rename SET to SET"),
        ("open mail b", "`b` is too much; as far as it goes it reads `open mail`"),
        ("0x open mail", "use 1 to 4096"),
        ("9x 9x 9x 9x 9x stat a", "more than 4 repeats"),
        ("2x (open mail, )", "it is empty"),
        ("delay soon", "a length of time"),
    ] {
        let error = text.parse::<FlowStep>().unwrap_err().to_string();
        assert!(error.contains(words), "{error} / {words}");
    }
}

/// A program as written in a file.
fn flow(text: &str) -> Flow {
    toml::from_str(text).unwrap()
}

const VARMAIL: &str = r#"
    sets = [{ name = "mail", files = 1000, size = "gamma 16KiB", width = 1000000, present = "80%" }]
    steps = ["delete mail", "create mail", "append 16KiB random", "fsync", "close",
             "open mail", "read", "append 16KiB random", "fsync", "close", "open mail", "read", "close"]
"#;

#[test]
fn a_program_reads_from_toml_and_through_json() {
    let varmail = flow(VARMAIL);
    varmail.check().unwrap();
    assert_eq!(varmail.sets[0].size, Size::Gamma { mean: Bytes::kib(16) });
    assert_eq!(varmail.written_out().len(), 13);
    assert!(!varmail.ends() && !varmail.is_buffered_write());
    assert_eq!(varmail.largest_request(), Bytes::mib(1));
    let pattern = Pattern::Flow(varmail);
    let json = serde_json::to_string(&pattern).unwrap();
    assert_eq!(serde_json::from_str::<Pattern>(&json).unwrap(), pattern);
    let text = toml::to_string(&pattern).unwrap();
    assert_eq!(toml::from_str::<Pattern>(&text).unwrap(), pattern);
}

#[test]
fn detects_terminating_programs() {
    let of = |order: &str, steps: &str| {
        flow(&format!("sets = [{{ name = \"a\", files = 9, order = \"{order}\" }}]\nsteps = [{steps}]"))
    };
    assert!(of("own", "\"stat a\"").ends());
    assert!(of("next", "\"delete a\"").ends());
    assert!(of("next", "\"open a as h\", \"close on h\", \"delete on h\"").ends());
    assert!(!of("next", "\"stat a\"").ends());
    assert!(!of("random", "\"delete a\", \"create a\"").ends());
    assert!(!of("random", "\"rename a to a\"").ends());
    assert!(Flow { turns: Some(3), ..of("random", "\"stat a\"") }.ends());
}

#[test]
fn a_sync_at_the_end_needs_an_end() {
    let of = |order: &str| {
        flow(&format!(
            "sets = [{{ name = \"a\", files = 9, order = \"{order}\" }}]\nsteps = [\"stat a\"]\nfsync_at_end = true"
        ))
    };
    of("own").check().unwrap();
    assert_eq!(of("next").check().unwrap_err().key, "fsync_at_end");
}

#[test]
fn impossible_programs_are_refused_with_reason() {
    let sets = r#"sets = [
        { name = "a", files = 9, size = "4KiB" },
        { name = "dirs", files = 9, directories = true },
        { name = "ro", files = 9, read_only = true },
        { name = "listed", files = 9, order = "readdir" },
        { name = "own", files = 9, per_thread = true },
    ]"#;
    for (steps, words) in [
        ("", "a turn cannot have 0 steps"),
        ("\"stat b\"", "there is no set `b`"),
        ("\"read\"", "no step before it opens or creates `file`"),
        ("\"open a as x\", \"read\"", "opens or creates `file`"),
        ("\"open a\", \"read 17MiB\"", "the size of its request is out of range"),
        ("\"open a\", \"append 0B\"", "the size of its request is out of range"),
        ("\"open a\", \"close\", \"read\"", "closed by then"),
        ("\"open dirs\"", "the wrong kind of set"),
        ("\"mkdir a\"", "the wrong kind of set"),
        ("\"open ro\", \"write\"", "the set is read only"),
        ("\"create listed\"", "does not list files that are not there"),
        ("\"delete a\", \"read-at 4KiB in a\"", "cannot come and go"),
        ("\"rename a to dirs\"", "cannot become one of `dirs`"),
        ("\"rename a to own\"", "cannot become one of `own`"),
        ("\"rename a over a\"", "replace itself"),
        ("\"4096x 2x stat a\"", "a turn cannot have 8192 steps"),
    ] {
        let error = flow(&format!("{sets}\nsteps = [{steps}]")).check().unwrap_err();
        assert!(error.problem.contains(words), "{} / {words}", error.problem);
        assert!(error.hint.is_some());
    }
    for (set, words) in [
        ("name = \"A\", files = 1", "cannot be called `A`"),
        ("name = \"on\", files = 1", "cannot be called `on`"),
        ("name = \"a\", files = 0", "files = 0"),
        ("name = \"a\", files = 1, width = 1", "width 1"),
        ("name = \"a\", files = 1, even = true", "width 0"),
        ("name = \"a\", files = 1, size = \"2B..1B\"", "from 2B down to 1B"),
        ("name = \"a\", files = 1, name_length = 7", "names of 7"),
        ("name = \"a\", files = 1, name_length = 250, name_spread = 6", "names of up to 250 + 6"),
    ] {
        let error = flow(&format!("sets = [{{ {set} }}]\nsteps = [\"stat a\"]")).check().unwrap_err();
        assert!(error.problem.contains(words), "{} / {words}", error.problem);
    }
    let unknown = toml::from_str::<Flow>("sets = []\nsteps = []\nturn = 1").unwrap_err().to_string();
    assert!(unknown.contains("turns"), "{unknown}");
    let step = toml::from_str::<Flow>("sets = []\nsteps = [\"crate a\"]").unwrap_err().to_string();
    assert!(step.contains("there is no `crate`"), "{step}");
}

/// The blocks of a page that hold TOML.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn every_block_of_the_documentation_is_a_workload() {
    use crate::workload::Entry;
    let blocks = blocks(include_str!("../../../../../docs/file-programs.md"));
    assert!(blocks.len() > 25, "{}", blocks.len());
    for block in blocks {
        let entry: Entry = toml::from_str(block).unwrap_or_else(|error| panic!("{error}\n{block}"));
        let workload = entry.resolve(4).unwrap_or_else(|error| panic!("{error:?}\n{block}"));
        assert!(workload.space_needed(4).0 < 16 << 30, "{block}");
        assert_eq!(toml::from_str::<Entry>(&toml::to_string(&entry).unwrap()).unwrap(), entry);
    }
}
