//! The one list of all parsers of text or bytes from outside, with their invariants.
//!
//! A target is a function of bytes that panics at an error. Accepted input must print and parse back the same; an error
//! must be printable.

use fstrial::cli::fuzzing as commands;
use fstrial_device::{
    serve::{Offer, Reply},
    simulator::{Kind, Request, Simulator},
};
use fstrial_model::{
    arm::Arm,
    claim::{
        CellName, Level, Machine, Need,
        era::{Rules, Version},
    },
    device::Raid,
    device_model::DeviceModel,
    fio::{Key, Surroundings, Treatment, inspect, output::FioOutput, understand},
    job::{Job, WorkerMessage},
    problem::TrialError,
    profile::Profile,
    state::State,
    trial::{Files, NamedFileError, Trial},
    units::{Bandwidth, Bytes, Nanos, Percent},
    workload::{
        Distribution, Entry, FlowStep, InputFile, Program, Rate, RateTarget, Size,
        metric::{MetricEntry, OneOrMany, Output, Take},
    },
};
use fstrial_run::{attached::Content, latencies::Latencies};
use fstrial_stack::{fuzzing as texts, kernel_log, ledger::Ledger};
use fstrial_store::{Filter, Store, TrialId};
use std::{
    cell::RefCell,
    fmt::{Debug, Display},
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    str::FromStr,
    sync::LazyLock,
};

/// Something that reads input from outside.
pub(crate) struct FuzzTarget {
    /// Its name on the command line and in the folder of findings.
    pub(crate) name: &'static str,
    /// Takes an input; panics if something is wrong.
    pub(crate) takes: fn(&[u8]),
    /// Sources of its examples: folders and files below the workspace, and texts.
    pub(crate) examples: Examples,
}

/// Raw material of inputs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Examples {
    /// All files of these folders with this suffix.
    Files(&'static [(&'static str, &'static str)]),
    /// Words and lines.
    Texts(&'static [&'static str]),
}

use Examples::{Files as In, Texts};

const fn target(name: &'static str, takes: fn(&[u8]), examples: Examples) -> FuzzTarget {
    FuzzTarget { name, takes, examples }
}

/// Every parser of the workspace of foreign input.
pub(crate) const TARGETS: [FuzzTarget; 40] = [
    target("trial", trial, In(&[("trials/agreement", ".toml"), ("claims", ".toml"), ("docs", ".md")])),
    target("claim", claim, In(&[("claims", ".toml")])),
    target("eras", eras, In(&[("claims", "eras.toml")])),
    target("workload", workload, In(&[("workloads", ".toml")])),
    target("device-model", device_model, In(&[("models", ".toml")])),
    target("fio-job", fio_job, In(&[("fixtures/fio", ".fio")])),
    target("fio-output", fio_output, In(&[("fixtures/fio", "output-randrw.txt")])),
    target("metric-rule", metric_rule, In(&[("workloads", ".toml"), ("fixtures/fio", ".txt")])),
    target("arm", reads_back::<Arm>, Texts(&ARMS)),
    target("flow-step", reads_back::<FlowStep>, Texts(&FLOW_STEPS)),
    target("bytes", reads_back::<Bytes>, Texts(&["64MiB", "4k", "1.5GiB", "900TiB", "0", "12 KiB", "7e3"])),
    target("nanos", reads_back::<Nanos>, Texts(&["10m", "150ms", "1h30m", "4m30s", "0.5us", "7ns", "1d"])),
    target("percent", reads_back::<Percent>, Texts(&["3%", "0.5%", "100%", "12", "1e-3%"])),
    target("bandwidth", reads_back::<Bandwidth>, Texts(&["100MiB/s", "1GB/s", "4k/s", "20MB"])),
    target(
        "distribution",
        reads_back::<Distribution>,
        Texts(&["uniform", "zipf:1.1", "latest:0.9", "hotspot:0.2,0.8", "special:1,75,12"]),
    ),
    target("size", reads_back::<Size>, Texts(&["16KiB", "gamma 16KiB", "1KiB..64KiB"])),
    target("rate", reads_back::<Rate>, Texts(&["1000/s", "300 /s poisson", "0.5/s constant"])),
    target("rate-target", reads_back::<RateTarget>, Texts(&["p99<10ms", "p99.9 < 1ms", "p99.9999<3us"])),
    target("profile", reads_back::<Profile>, Texts(&["raid1", "single", "raid10", "dup", "raid0/raid1"])),
    target(
        "state",
        reads_back::<State>,
        Texts(&["fresh", "filled:80%", "aged:60%:turnovers=2:file_size=8KiB"]),
    ),
    target(
        "need",
        reads_back::<Need>,
        Texts(&["workload:oltp", "kernel:a patch", "program:mkfs.jfs", "device:a disk"]),
    ),
    target("level", reads_back::<Level>, Texts(&["4", "cpus", "1", "2×cpus", "1024"])),
    target(
        "cell-name",
        reads_back::<CellName>,
        Texts(&["xfs@4", "xfs/random-write@2×cpus", "a/random-write:load@1"]),
    ),
    target("version", parses::<Version>, Texts(&["6.12", "2.6.30", "6.18.0-rc3", "5"])),
    target("raid", reads_back::<Raid>, Texts(&["raid10", "raid0,chunk=64KiB", "raid1"])),
    target("job", job, Texts(&[JOB])),
    target("message", message, Texts(&MESSAGES)),
    target("device-protocol", device_protocol, Texts(&DEVICE_PROTOCOL)),
    target("place-lines", place_lines, Texts(&PLACE_LINES)),
    target("environment", environment, Texts(&[ENVIRONMENT])),
    target("command-line", command_line, Texts(&COMMAND_LINES)),
    target("judge", judge, Texts(&JUDGED)),
    target("latencies", latencies, Texts(&HISTOGRAMS)),
    target("kernel-log", kernel_complaints, Texts(&KERNEL_LOG)),
    target("mountinfo", mountinfo, Texts(&MOUNTS)),
    target("kernel-values", kernel_values, Texts(&KERNEL_VALUES)),
    target("signatures", signatures, Texts(&SIGNATURES)),
    target("tools", tools, Texts(&TOOLS)),
    target("ledger", ledger, Texts(&LEDGER)),
    target("store", store, In(&[("fixtures/store", ".db")])),
];

const ARMS: [&str; 10] = [
    "ext4",
    "xfs:agcount=16,noatime",
    "fast=ext4:state=filled:80%,scheduler=none",
    "x=xfs:-K,nobarrier,log=external",
    "few=ext4:-N 64",
    "btrfs:profile=raid10",
    "dir:/srv/a",
    "a=dir:images/a",
    "raw",
    "j=ext4:-O ^has_journal,discard=on",
];
const FLOW_STEPS: [&str; 6] = [
    "create served",
    "10x (open web, read, close)",
    "append 16KiB random in log",
    "open served as a",
    "read-at 4KiB on a",
    "delay 5ms",
];
const JOB: &str = r#"{"protocol":3,"arm":{"name":"xfs","filesystem":"xfs"},"device":{"kind":"loop","file":"/proc/16897/fd/4","size":"512MiB","direct_io":true},"task":{"threads":2,"phases":[{"settle":false,"groups":[{"result":"","figure":"operations","load":{"pattern":{"kind":"files","files":200,"file_size":"4KiB","steps":["create","write","fsync","delete"]},"set":"load","threads":2,"warmup":"150ms","duration":"500ms","until":"time","seed":5560799019258484778,"data":"random"}}]}]},"fsck":false,"coordinator":16897,"ledger":"/root/.local/share/fstrial/ledger"}"#;
const MESSAGES: [&str; 5] = [
    r#"{"message":"stage","stage":"attach","deadline":"1m"}"#,
    r#"{"message":"facts","facts":{"facts":{"journal":"metadata"},"durability":{"flushes":true},"tools":{"mkfs.xfs":"6.1.0"},"notes":[]},"commands":["mkfs.xfs -f /dev/loop64"],"space":{"used":"44MiB","available":"404MiB"}}"#,
    r#"{"message":"measured","measurement":{"results":[{"name":"","counters":{"cpu-machine":960000000},"reading":{"load":["operations",{"duration":"500ms","operations":430,"histograms":{"operation":"HISTEw"},"windows":[21,19]}]}}]}}"#,
    r#"{"message":"failed","failure":{"kind":"lost","stage":"load","what":"x","hint":"y"}}"#,
    r#"{"message":"progress","deadline":"5m"}"#,
];
const DEVICE_PROTOCOL: [&str; 3] = [
    r#"{"model":{"name":"x"},"size":"64MiB","folder":null,"name":"a"}"#,
    r#"{"answer":"ready","descriptor":7}"#,
    r#"{"answer":"failed","why":"no memory"}"#,
];
const PLACE_LINES: [&str; 3] = [
    "{\"order\":\"open\",\"wire\":1,\"place\":\"n\",\"trial\":\"[[arm]]\",\"seed\":1,\"cpus\":2}\n{\"order\":\"interrupt\"}\n",
    "{\"order\":\"run\",\"job\":{\"protocol\":4,\"arm\":{\"filesystem\":\"xfs\"},\"task\":null,\"fsck\":false}}\n",
    "{\"answer\":\"alive\"}\n{\"answer\":\"ended\",\"ended\":\"interrupted\",\"warnings\":[]}\n",
];
const ENVIRONMENT: &str = r#"{"fstrial":"0.1.0","host":"lab1","kernel":"6.12.0 x86_64","distribution":"Debian","processor":"CPU","cpus":4,"memory":"16GiB","clocksource":"tsc","governor":null,"virtual_machine":false,"load_average":"0.00","device":"image","device_notes":[],"generator_loop_ns":30}"#;
const COMMAND_LINES: [&str; 6] = [
    "compare\next4\nxfs:agcount=16,noatime\n--workload\nrandom-write\n--threads\n1,4,16\n--device\nramdisk\n--budget\n10m",
    "compare\nraw\next4\n--device\ndisk\n--erase\n/dev/x\n--erase-signature\next4\n--state\naged:60%",
    "results\nlist\n--since\n2026-01-31\n--until\n2026-01-31T18:00:00+01:00\n--status\ndecided\n--name\na*[b-c]?",
    "results\nexport\n--format\nparquet\n--out\nx",
    "trend\nxfs/ext4\n--fail-if-worse\n5%\n--kernel\n6.1",
    "run\ntrial.toml\n--fail-if\nxfs<ext4*0.9\n--practical\n3%\n--seed\n0x1f",
];
const JUDGED: [&str; 9] = [
    "round,arm,value,order,cv\n1,a,100,1,0.01\n1,b,110,2,0.01\n2,a,101,2,0.02\n2,b,111,1,0.02\n3,a,99,1,0.01\n3,b,112,2,0.01\n",
    "round,arm,value\n1,x,1e3\n1,y,2e3\n2,x,1.1e3\n2,y,2.2e3\n",
    "# a comment\nround, arm, value\n18446744073709551615, a, 1e-300\n18446744073709551615, b, 1e300\n",
    "ext4;xfs\n1.5;2.5\n1.25;\n1;3e2\n",
    "trial,run,round,slot,arm,workload,threads,phase,metric,value,unit\n1,1,1,0,a,w,4,,failed,0.0,1\n1,1,1,0,a,w,4,,throughput,99.5,op/s\n1,2,1,1,b,w,4,,throughput,101.5,op/s\n",
    "{\"results\":[{\"command\":\"a\",\"times\":[1.5,1.25],\"exit_codes\":[0,1]},{\"command\":\"b\",\"times\":[2]}]}",
    "Unit op/s better=higher\nBenchmarkX/arm=a-8 \t 10 \t 12.5 ns/op \t 0 B/op\nBenchmarkX/arm=b-8 10 13 ns/op 5 op/s\n",
    "pgbench (15.14)\nlatency average = 7.553 ms\ntps = 529.6 (without initial connection time)\n",
    "sysbench 1.0.20\n    reads/s:   0.00\n    writes/s:  5120.33\n    transactions:  5290   (529.60 per sec.)\n  avg:  0.09\n",
];
const HISTOGRAMS: [&str; 2] = [
    "HISTEwAAAAoAAAAAAAAAAwAAAAAAAAABAAADRjC4oAA/8AAAAAAAAMknAu0yBA==",
    "HISTEwAAAAMAAAAAAAAAAwAAAAAAAAABAAADRjC4oAA/8AAAAAAAAAAC",
];
const KERNEL_LOG: [&str; 6] = [
    "3,1201,35998779837,-;XFS (loop65): Log I/O Error (0x6) detected at xfs_fs_goingdown+0x63/0xb0.",
    "4,1202,35998779900,-;WARNING: CPU: 0 PID: 71 at fs/ext4/inode.c:3520 ext4_x",
    "3,1,2,-;EXT4-fs error (device loop0): ext4_lookup:1: inode #2: comm x",
    "2,1,2,-;BTRFS: error (device loop0 state EA) in btrfs_x: errno=-5 IO failure",
    "3,1,2,-,caller=T1;JBD2: I/O error when updating journal superblock for loop0-8.",
    "3,1,2,-;I/O error, dev loop0, sector 8 op 0x1:(WRITE) flags 0x800",
];
const MOUNTS: [&str; 2] = [
    "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n",
    "1 1 0:45 / / rw - tmpfs tmpfs rw\n22 1 7:64 / /mnt/arm rw,relatime - xfs /dev/loop64 rw,attr2\n",
];
const KERNEL_VALUES: [&str; 6] = [
    "none [mq-deadline] kyber",
    "7:blkio:/user\n0::/user.slice\n",
    "    1234 0 5678 90 12 3 45678 90 0 1 2 3 4 5 6\n",
    "7:64 rbps=max wbps=1000\n7:64 rbps=max wbps=1000 riops=max",
    "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    "67108864",
];
const SIGNATURES: [&str; 2] = [
    r#"{"signatures":[{"device":"loop0","offset":"0x438","type":"ext4","uuid":"x","label":null}]}"#,
    r#"{"signatures":[{"type":"LVM2_member","uuid":null,"label":"a"},{"type":"gpt"}]}"#,
];
const TOOLS: [&str; 3] = [
    "mke2fs 1.47.0 (5-Feb-2023)\n",
    "Min. free extent: 4 KB\nMax. free extent: 1020 KB\nAvg. free extent: 12 KB\nNum. free extent: 7\n",
    "blocksize = 4096\n from to extents blocks pct\n 1 1 2 2 0.01\n 8 15 1 9 0.1\ntotal free extents 4\naverage free extent size 63000\n",
];
const LEDGER: [&str; 5] = [
    r#"{"owner":{"pid":1,"started":7,"boot":"b"},"undo":"remove-loop","index":64,"file":"/x"}"#,
    r#"{"owner":{"pid":4294967294,"started":7,"boot":"b"},"undo":"restore-attribute","path":"/sys/../x","value":"v"}"#,
    r#"{"owner":{"pid":0,"started":7,"boot":"b"},"undo":"thaw","device":"/dev/loop64","diskseq":1,"filesystem":"xfs"}"#,
    r#"{"owner":{"pid":2,"started":7,"boot":"b"},"undo":"remove-unused-zram","existing":[0,1]}"#,
    r#"{"owner":{"pid":2,"started":7,"boot":"b"},"undo":"remove-folder","path":"/x/fstrial-run-1"}"#,
];

/// An error that has a place can be drawn.
fn shown(error: &TrialError) {
    let mut shown = String::new();
    let report = miette::GraphicalReportHandler::new();
    report.render_report(&mut shown, error).expect("an error can be shown");
    assert!(!shown.is_empty());
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Words that print themselves.
fn reads_back<T: FromStr<Err: Display> + Display + PartialEq + Debug>(bytes: &[u8]) {
    match text(bytes).parse::<T>() {
        Ok(read) => {
            let printed = read.to_string();
            let again = printed.parse::<T>();
            let again = again.unwrap_or_else(|e| panic!("printed as `{printed}`, which is refused: {e}"));
            assert_eq!(read, again, "printed as `{printed}`");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Words that only are read.
fn parses<T: FromStr<Err: Display>>(bytes: &[u8]) {
    if let Err(error) = text(bytes).parse::<T>() {
        assert!(!error.to_string().is_empty());
    }
}

/// Treats the names in `fio` and `model` as the text of the file.
struct NamesAreTexts;

fn refused(place: Box<TrialError>) -> NamedFileError {
    NamedFileError { message: "it is refused".into(), hint: None, place: Some(place) }
}

fn host() -> Surroundings {
    let variables = [("SIZE".to_owned(), "64m".to_owned())].into();
    Surroundings { cpus: 4, memory_mib: 2048, page_bytes: 4096, variables }
}

impl Files for NamesAreTexts {
    fn workload_of(&mut self, job_file: &str) -> Result<Entry, NamedFileError> {
        Ok(understand("job.fio", job_file, &host()).map_err(refused)?.entry("job"))
    }
    fn model_of(&mut self, model: &str) -> Result<DeviceModel, NamedFileError> {
        DeviceModel::parse("model.toml", model.trim_end_matches(".toml")).map_err(refused)
    }
    fn input_of(&mut self, path: &Path) -> Result<InputFile, NamedFileError> {
        Ok(InputFile { file: path.to_owned(), digest: Some(Content::of(Vec::new()).digest) })
    }
}

fn trial(bytes: &[u8]) {
    const MACHINE: Machine =
        Machine { cpus: 2, memory: Bytes::gib(8), kernel: Version(6, 12, 0), quick: false };
    match Trial::parse_with_files("trial.toml", &text(bytes), &mut NamesAreTexts, &MACHINE) {
        Ok(trial) => {
            let again = Trial::parse("again.toml", &trial.to_toml()).expect("accepted input parses again");
            assert_eq!(trial, again);
        }
        Err(error) => shown(&error),
    }
}

fn claim(bytes: &[u8]) {
    static RULES: LazyLock<Rules> = LazyLock::new(Rules::shipped);
    let text = text(bytes);
    let claim = match Trial::read_claim("claim.toml", &text) {
        Ok(claim) => claim,
        Err(error) => return shown(&error),
    };
    for (cpus, kernel) in [(1, Version(2, 6, 30)), (2, Version(6, 18, 0)), (64, Version(6, 12, 0))] {
        let machine = Machine { cpus, memory: Bytes::gib(4), kernel, quick: cpus == 2 };
        let mut fitted = claim.clone();
        if fitted.fit(&machine, &RULES).is_err() {
            continue;
        }
        match fitted.checked("claim.toml", &text) {
            Ok(trial) => {
                let again =
                    Trial::parse("again.toml", &trial.to_toml()).expect("accepted input parses again");
                assert_eq!(trial, again);
            }
            Err(error) => shown(&error),
        }
    }
}

fn eras(bytes: &[u8]) {
    if let Err(error) = Rules::parse("eras.toml", &text(bytes)) {
        shown(&error);
    }
}

fn workload(bytes: &[u8]) {
    if let Ok(entry) = toml::from_str::<Entry>(&text(bytes)) {
        match entry.resolve(4) {
            Ok(workload) => {
                let stored = serde_json::to_string(&workload).expect("it is plain data");
                let again: fstrial_model::workload::Workload =
                    serde_json::from_str(&stored).expect("settled input parses again");
                assert_eq!(again, workload);
            }
            Err(error) => assert!(!error.problem.is_empty()),
        }
    }
}

/// A model prints itself, reads back, and completes every request, once and not before it came.
fn device_model(bytes: &[u8]) {
    const SIZE: Bytes = Bytes(3 * (1 << 20) + 4096);
    const REQUESTS: u64 = 100;
    let model = match DeviceModel::parse("model.toml", &text(bytes)) {
        Ok(model) => model,
        Err(error) => return shown(&error),
    };
    let again = toml::to_string(&model).expect("a model is plain data");
    assert_eq!(DeviceModel::parse("again.toml", &again).expect("it was accepted"), model);
    let mut device = Simulator::new(&model, SIZE, 1);
    let mut complete = Vec::new();
    for id in 0..REQUESTS {
        let kind = Kind::ALL[usize::from(id.wrapping_mul(0x9E37_79B9).to_le_bytes()[0]) % 4];
        let length = (1 + id % 40) * 4096;
        let offset = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (SIZE.0 - length) / 512 * 512;
        device.submit(id * 1000, id, Request { kind, offset, length });
    }
    let mut steps = 0;
    while let Some(at) = device.next_event() {
        device.advance(at, &mut complete);
        steps += 1;
        assert!(steps < 1_000_000, "it comes to an end");
    }
    complete.sort_by_key(|done| done.id);
    assert_eq!(complete.len() as u64, REQUESTS);
    assert!(complete.iter().all(|done| done.at >= done.id * 1000));
}

/// An accepted job is explained, and rewritten to an acceptable one. fio's input names no path but the arm's directory.
/// Text after a NUL is the included file.
fn fio_job(bytes: &[u8]) {
    let text = text(bytes);
    let (job, included) = text.split_once('\0').unwrap_or((&text, ""));
    let mut files = |path: &str| {
        assert!(
            !path.starts_with('/') && path.split('/').all(|part| !["", ".", ".."].contains(&part)),
            "{path}"
        );
        Ok(included.to_owned())
    };
    let understanding = match inspect("job.fio", job, &host(), &mut files).outcome {
        Ok(understanding) => understanding,
        Err(error) => return shown(&error),
    };
    assert!(!understanding.explain().is_empty());
    let given = understanding.jobs.render("/arm", 7).expect("a plain directory can be given");
    for line in given.lines().filter(|line| *line != "directory=/arm") {
        let value = line.split_once('=').map_or("", |(_, value)| value);
        let key = line.split('=').next().and_then(Key::find);
        let is_ours = ["randrepeat=0", "randseed=7", "verify_state_save=0"].contains(&line);
        let is_given = |key: &Key| key.treatment == Treatment::Passed || is_ours;
        assert!(key.is_none_or(is_given), "{line}");
        let is_path = ["filename", "directory", "name"].iter().any(|key| line.starts_with(key));
        assert!(!(is_path && value.contains('/')), "{line}");
        assert!(
            !value.contains("${") && !line.starts_with("include") && !line.starts_with("exec_"),
            "{line}"
        );
    }
    // Everything but the directory is a possible user's text.
    understand("again.fio", &given, &host()).unwrap_or_else(|e| panic!("{}: {given}", e.message));
}

fn fio_output(bytes: &[u8]) {
    if let Ok(output) = FioOutput::parse(&text(bytes)) {
        for value in output.jobs.iter().flat_map(|job| job.values.values()) {
            assert!(value.value.is_finite() && value.value >= 0.0);
        }
    }
}

fn is_a_measurement(picked: Result<f64, String>) {
    match picked {
        Ok(value) => assert!(value.is_finite() && value > 0.0, "{value}"),
        Err(error) => assert!(!error.is_empty()),
    }
}

/// A rule over a tool's output. The first line of the input is the rule, the rest is the output.
fn metric_rule(bytes: &[u8]) {
    const TAKES: [Option<Take>; 6] =
        [None, Some(Take::Only), Some(Take::First), Some(Take::Last), Some(Take::Sum), Some(Take::P50)];
    static PRESETS: LazyLock<Vec<Program>> = LazyLock::new(|| {
        let entries = super::corpus::files(&[("workloads", ".toml")])
            .into_iter()
            .filter_map(|file| toml::from_str::<Entry>(&String::from_utf8(file).ok()?).ok()?.program().ok());
        entries.collect()
    });
    let [kind, take, rest @ ..] = bytes else { return };
    let (rule, printed) = rest.split_at(rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    let (rule, printed) = (text(rule).into_owned(), text(printed).into_owned());
    let output = Output { stdout: printed.clone(), stderr: printed, ..Output::default() };
    let mut entry = MetricEntry {
        name: "m".into(),
        unit: Some("op/s".into()),
        take: TAKES[usize::from(*take) % TAKES.len()],
        ..MetricEntry::default()
    };
    match kind % 4 {
        0 => entry.pattern = Some(rule),
        1 => entry.pointer = Some(OneOrMany::Many(rule.split(' ').map(str::to_owned).collect())),
        2 => entry.column = Some(rule.len().try_into().unwrap_or(u32::MAX)),
        _ => {
            for rule in &PRESETS[rule.len() % PRESETS.len()].metrics {
                is_a_measurement(
                    rule.pick(&output).map(|picked| picked.value).map_err(|error| error.to_string()),
                );
            }
            return;
        }
    }
    let entry = Entry { command: Some(vec!["x".into()]), metrics: Some(vec![entry]), ..Entry::default() };
    match entry.program() {
        Ok(program) => {
            let picked = program.pick(&output);
            is_a_measurement(picked.map(|picked| picked[0].value).map_err(|error| error.to_string()));
        }
        Err(error) => assert!(!error.problem.is_empty()),
    }
}

/// A job that is read must be one that the engine accepts or refuses.
fn job(bytes: &[u8]) {
    let Ok(job) = serde_json::from_slice::<Job>(bytes) else { return };
    let again = serde_json::to_string(&job).expect("a job is plain data");
    assert_eq!(serde_json::from_str::<Job>(&again).expect("it was read before"), job);
    for group in job.task.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.groups) {
        let _ = black_box(fstrial_engine::validate(&group.load, false));
    }
}

fn message(bytes: &[u8]) {
    let _ = black_box(serde_json::from_slice::<WorkerMessage>(bytes));
}

fn device_protocol(bytes: &[u8]) {
    let _ = black_box((serde_json::from_slice::<Offer>(bytes), serde_json::from_slice::<Reply>(bytes)));
}

fn place_lines(bytes: &[u8]) {
    commands::place_lines(bytes);
}

fn environment(bytes: &[u8]) {
    commands::environment(&text(bytes));
}

fn command_line(bytes: &[u8]) {
    commands::command_line(&text(bytes).replace('\0', " "));
}

/// A folder for targets that read files: in memory, if a worker has `TMPDIR` set so.
fn folder() -> PathBuf {
    thread_local! {
        static FOLDER: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
    }
    FOLDER.with(|folder| {
        let mut folder = folder.borrow_mut();
        let made = folder.get_or_insert_with(|| {
            tempfile::Builder::new().prefix("fstrial-attack-").tempdir().expect("room in memory")
        });
        made.path().to_owned()
    })
}

fn judge(bytes: &[u8]) {
    let file = folder().join("pairs.csv");
    fs::write(&file, bytes).expect("room in memory");
    commands::judge(&file);
}

fn latencies(bytes: &[u8]) {
    if let Ok(mut latencies) = Latencies::decode(&text(bytes)) {
        let other = latencies.clone();
        latencies.add(&other);
        for share in [0.0, 0.5, 0.999, 1.0] {
            black_box(latencies.quantile(share));
        }
    }
}

fn kernel_complaints(bytes: &[u8]) {
    if let Some(complaint) = kernel_log::complaint(&text(bytes)) {
        black_box(complaint.concerns(&["loop0".to_owned()]));
    }
}

fn mountinfo(bytes: &[u8]) {
    texts::mountinfo(&text(bytes));
}

fn kernel_values(bytes: &[u8]) {
    texts::kernel_values(&text(bytes));
}

fn signatures(bytes: &[u8]) {
    texts::signatures(&text(bytes));
}

fn tools(bytes: &[u8]) {
    texts::tools(&text(bytes));
}

/// Entries are only looked at here: nothing is undone.
fn ledger(bytes: &[u8]) {
    let folder = folder().join("ledger");
    fs::create_dir_all(&folder).expect("room in memory");
    fs::write(folder.join("1-1-1-7.json"), bytes).expect("room in memory");
    let _ = black_box(Ledger::open(&folder, 1).expect("room in memory").left_over());
}

/// A damaged store is reported, or read to the end.
fn store(bytes: &[u8]) {
    let file = folder().join("results.db");
    fs::write(&file, bytes).expect("room in memory");
    let Ok(store) = Store::open_read_only(&file) else { return };
    let Ok(trials) = store.find_trials(&Filter::default()) else { return };
    for id in trials.iter().take(4).map(|trial| trial.id).chain([TrialId(1)]) {
        let _ = black_box(store.trial(id));
        let _ = store.for_each_run(id, |run| drop(black_box(run.parse_job())));
        let _ = black_box(store.metric_rows(id));
    }
}
