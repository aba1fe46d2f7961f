//! Arms at another place: an agent in its own mount, PID, network and host-name namespaces, which sees neither the
//! trial's folders nor its processes, with its own home and devices. Only bytes cross a socket.

use crate::{
    kill::{Heard, Killed, Moment, RUN, Tally, wait_until},
    support::{self, Dice, FSTRIAL, Lab, PATIENCE, SMALL},
};
use fstrial_model::{
    arm::Arm,
    job::{DeviceBinding, Job, PROTOCOL, PlacedJob, Setup},
    units::Bytes,
};
use fstrial_run::attached::Content;
use fstrial_store::{Store, TrialId};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    process::Stdio,
    time::Duration,
};

/// Kills of agents.
const AGENT_KILLS: usize = 24;

/// The flags of a trial with the place `box`, whose agent has the home `there`.
fn with_place(lab: &Lab) -> String {
    let [root, home, images] = [lab.root(), lab.home(), lab.images()].map(|path| path.display().to_string());
    std::fs::create_dir_all(lab.home()).unwrap();
    let script = lab.write(
        "box.sh",
        &format!(
            "#!/bin/sh\nexec unshare --mount --pid --net --uts --fork --mount-proc --propagation private sh -c '\
             mount -t tmpfs none {home} && mount -t tmpfs none {images} && hostname elsewhere && \
             cd / && exec {FSTRIAL} agent --home {root}/there'\n"
        ),
    );
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("--place box={}", script.display())
}

/// The agent below a process, once it is that.
fn agent_below(pid: u32) -> Option<u32> {
    let is_agent = |pid: &u32| support::command_line(*pid).contains("fstrial agent");
    let children = support::children_of(pid);
    children.iter().copied().find(is_agent).or_else(|| children.into_iter().find_map(agent_below))
}

/// Nothing that the agent wrote down is left to be done.
fn clean_there(lab: &Lab) {
    let cleaned = lab.run(&format!("clean --home {}", lab.path("there").display()));
    assert_eq!(cleaned.code(), 0, "{cleaned:?}");
    assert_eq!(support::names_in(&lab.path("there/ledger")), Vec::<String>::new(), "{}", cleaned.stdout);
}

#[test]
fn arms_at_two_places_are_one_trial() {
    let name = "arms_at_two_places_are_one_trial";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let place = with_place(&lab);
    let ended = lab.run(&format!(
        "compare ext4 ext4@box xfs@box:state=filled:30% {SMALL} {place} --device image:images --rounds 4 --json"
    ));
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.document();
    let names: Vec<&str> =
        document["arms"].as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ext4", "ext4-box", "xfs-box-state-filled-30-"]);
    assert_eq!(
        (&document["places"][0]["place"], &document["places"][0]["host"]),
        (&"box".into(), &"elsewhere".into())
    );
    let there = lab.path("there").display().to_string();
    assert!(document["places"][0]["device"].as_str().unwrap().ends_with(&there), "{}", document["places"]);
    let audit = document["audit"].to_string();
    assert!(audit.contains("machine (as requested): ") && audit.contains("elsewhere ("), "{audit}");

    // Every run names its place, and its job has no path of one host only.
    let store = Store::open_read_only(lab.home().join("results.db")).unwrap();
    let runs = store.runs(TrialId(1)).unwrap();
    assert_eq!(runs.len(), 12);
    for run in runs {
        let environment: Value = serde_json::from_str(&run.environment).unwrap();
        let is_there = run.arm != "ext4";
        assert_eq!(environment["place"].as_str(), is_there.then_some("box"), "{}", run.arm);
        assert_eq!(environment["host"] == "elsewhere", is_there, "{}", run.arm);
        assert!(run.outcome.is_ok() && !run.job.contains("/proc/"), "{run:?}");
    }
    let again = lab.run("report 1 --format json");
    assert_eq!(again.document(), document, "the same, whenever it is asked for");
    let shown = lab.run("report 1 --format markdown").stdout;
    assert!(
        shown.contains("box (elsewhere): fstrial") && shown.contains("kernel") | shown.contains("machine"),
        "{shown}"
    );
    let post = lab.run("report 1 --format lkml").stdout;
    assert!(post.contains("Place:    box (elsewhere)") && post.matches("Kernel:").count() == 2, "{post}");
    lab.assert_nothing_left("after the trial");
    clean_there(&lab);
}

/// A trial of a program that is given a file and checks its content, here and at a place.
const ATTACHED: &str = r#"
[trial]
rounds = 2
[device]
kind = "image"
size = "320MiB"
[[place]]
name = "box"
[[arm]]
filesystem = "ext4"
[[arm]]
name = "there"
filesystem = "ext4"
place = "box"
[[workload]]
name = "check"
kind = "program"
threads = [1]
command = ["sh", "-c", "sha256sum < {input:rows} | grep -q ^{parameter:expected}"]
[workload.inputs]
rows = { file = "data/rows" }
[workload.parameters]
expected = "EXPECTED"
[[workload.metric]]
name = "wall"
measure = "wall"
"#;

#[test]
fn inputs_of_programs_are_put_at_every_place() {
    let name = "inputs_of_programs_are_put_at_every_place";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let place = with_place(&lab);
    std::fs::create_dir_all(lab.path("data")).unwrap();
    // Of three parts, and not text.
    let rows: Vec<u8> = (0..5 << 19).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(lab.path("data/rows"), &rows).unwrap();
    let digest = Content::of(rows.clone()).digest.to_string();
    let expected = digest.trim_start_matches("sha256:");
    let trial = lab.write("trial.toml", &ATTACHED.replace("EXPECTED", expected));
    let run = |file: &str| lab.run(&format!("run {file} {place} --json"));
    let ended = run("trial.toml");
    assert_eq!(ended.code(), 3, "{ended:?}");
    let store = Store::open_read_only(lab.home().join("results.db")).unwrap();
    let runs = store.runs(TrialId(1)).unwrap();
    assert_eq!(runs.len(), 4);
    for run in &runs {
        assert!(run.outcome.is_ok(), "{run:?}");
        assert!(run.job.contains(&digest) && !run.job.contains("data/rows"), "{}", run.job);
    }
    // The stored trial names the file, and takes no other one.
    let stored = lab.run("results export 1 --format toml").stdout;
    lab.write("stored.toml", &stored);
    assert_eq!(run("stored.toml").code(), 3);
    std::fs::write(lab.path("data/rows"), &rows[1..]).unwrap();
    let changed = run("stored.toml");
    assert_eq!(changed.code(), 2, "{changed:?}");
    assert!(changed.stderr.contains("data/rows is not the file that the trial began with"), "{changed:?}");
    // Nothing outside the folder of a trial file is read.
    for outside in ["../rows", "/etc/hostname", "data"] {
        let text = std::fs::read_to_string(&trial).unwrap().replace("data/rows", outside);
        lab.write("outside.toml", &text);
        let refused = run("outside.toml");
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains("is not read"), "{outside}: {}", refused.stderr);
    }
    lab.assert_nothing_left("after the trial");
    clean_there(&lab);
}

/// Programs of ordinary users are in another user namespace than their command.
#[test]
fn inputs_of_programs_are_there_without_root() {
    let name = "inputs_of_programs_are_there_without_root";
    if !support::is_root(name, "to become somebody else") {
        return;
    }
    let lab = Lab::new();
    let arms = ["a", "b"].map(|arm| {
        let folder = lab.path(arm);
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).unwrap();
        format!("[[arm]]\nname = \"{arm}\"\nfilesystem = \"dir\"\npath = \"{}\"\n", folder.display())
    });
    lab.write("rows", &"a row\n".repeat(100_000));
    let work = ATTACHED.split_once("[[workload]]").unwrap().1.replace("data/rows", "rows");
    let digest = Content::of("a row\n".repeat(100_000).into_bytes()).digest.to_string();
    let work = work.replace("EXPECTED", digest.trim_start_matches("sha256:"));
    lab.write("trial.toml", &format!("[trial]\nrounds = 2\n{}[[workload]]{work}", arms.concat()));
    match lab.run_as_nobody(&format!("run {} --json", lab.path("trial.toml").display())) {
        Ok(ended) => {
            assert_eq!(ended.code(), 3, "{ended:?}");
            assert_eq!(ended.document()["rounds"], 2, "{ended:?}");
            assert_eq!(ended.document()["failures"], serde_json::json!([]), "{ended:?}");
        }
        Err(why) => support::skip(name, &why),
    }
}

#[test]
fn interrupted_trial_leaves_nothing_at_places() {
    let name = "interrupted_trial_leaves_nothing_at_places";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let mut dice = Dice::new(11);
    let lab = Lab::new();
    let place = with_place(&lab);
    let large = SMALL.replace("320MiB", "1GiB");
    let mut making = lab.start(&format!("compare ext4@box xfs@box {large} {place} --json"));
    while making.event().expect("it makes its device")["event"] != "device-progress" {}
    making.signal(Signal::INT);
    let ended = making.end(PATIENCE);
    assert_eq!(ended.code(), 130, "while the agent makes a device: {ended:?}");
    clean_there(&lab);
    for (id, stage) in (1..).zip(["mkfs", "load", "unmount"]) {
        let mut running = lab.start(&format!("compare ext4@box xfs@box {SMALL} {place} --rounds 150 --json"));
        let mut received = Heard::default();
        let delay = Duration::from_millis(dice.below(60));
        assert!(wait_until(&mut running, &mut received, Moment::Running(stage), 1, delay));
        let agent = agent_below(running.pid()).unwrap();
        running.signal(Signal::INT);
        // The trial signals it as well; that is not a second signal, at which it would end immediately.
        support::pause(Duration::from_millis(dice.below(200)));
        support::send(agent, Signal::TERM);
        let ended = running.end(PATIENCE);
        assert_eq!(ended.code(), 130, "{stage}: {ended:?}");
        assert_eq!(support::names_in(&lab.path("there/ledger")), Vec::<String>::new(), "{stage}");
        let shown = lab.run(&format!("report {id} --format text")).stdout;
        assert!(shown.contains(&format!("fstrial resume {id} --place box=COMMAND")), "{shown}");
        lab.assert_nothing_left(stage);
        clean_there(&lab);
    }
}

#[test]
fn invalid_place_is_refused_with_hint() {
    let lab = Lab::new();
    for (words, message) in [
        ("xfs@box", "--place box='ssh "),
        ("xfs@box --place bix=true", "did you mean `box`?"),
        ("xfs@b/x --place box=true", "letters, digits, dots, dashes"),
        ("xfs@box --place box=true --place box=false", "two places are called `box`"),
        ("xfs@box --place box=true --device disk --erase /dev/null", "a disk is of this host only"),
        ("xfs@box --place box=/nowhere/program", "could not start"),
        ("xfs@box --place box=false", "the agent at box is gone: exit status: 1"),
        ("xfs@box --place", "a value is required"),
        ("xfs@box --place box", "there is no ="),
    ] {
        let words =
            format!("compare ext4@box --place {words}").replace("ext4@box --place xfs", "ext4@box xfs");
        let ended = lab.run(&words);
        assert_eq!(ended.code(), 2, "{words}: {ended:?}");
        assert!(ended.stderr.contains(message), "{words}: {}", ended.stderr);
    }
    // A process left behind by the command holds its socket and its standard error.
    let pid = lab.path("left.pid");
    let script = lab.write(
        "left.sh",
        &format!("#!/bin/sh\nsleep 300 &\necho $! >{}\necho no such host >&2\nexit 255\n", pid.display()),
    );
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let began = std::time::Instant::now();
    let ended = lab.run(&format!("compare ext4@box xfs@box --place box={}", script.display()));
    assert!(
        ended.stderr.contains("the agent at box is gone: exit status: 255: no such host"),
        "{}",
        ended.stderr
    );
    assert!(began.elapsed() < Duration::from_secs(250), "it was waited for: {:?}", began.elapsed());
    support::kill(std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap());
    for (command, message) in [
        ("echo Last login", "no agent answers at box, but \"Last login\""),
        // The home of the trial, which is at work there.
        (&format!("{FSTRIAL} agent"), "at the place box: another trial is running with the results in"),
    ] {
        let mut comparing = lab.prepare(FSTRIAL);
        comparing.args(["compare", "ext4@box", "xfs@box", "--place", &format!("box={command}")]);
        let ended = support::Running::start(comparing).end(PATIENCE);
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
    lab.assert_nothing_left("after refusals");
}

/// A trial, a claim and a store may name a place; the command that reaches it comes only from the command line.
#[test]
fn place_command_comes_only_from_command_line() {
    let lab = Lab::new();
    let mark = lab.path("mark");
    let trial = |command: &str, claim: &str| {
        format!(
            "{claim}\n[trial]\nrounds = 1\n[device]\nkind = \"ramdisk\"\nsize = \"320MiB\"\n[[place]]\nname = \"box\"\n{command}\n\
             [[arm]]\nname = \"ext4\"\nfilesystem = \"ext4\"\nplace = \"box\"\n[[arm]]\nname = \"xfs\"\nfilesystem = \"xfs\"\nplace = \"box\"\n\
             [[workload]]\nuse = \"append-fsync\"\nthreads = [1]\n"
        )
    };
    let claim = "[claim]\nid = \"me-2026-box\"\nstatement = \"s\"\nauthor = \"me\"\ndate = \"2026-11\"\nwhere = \"here\"\nsetup = \"none\"\n\
                 said = \"so\"\ntags = [\"xfs\"]\n[[claim.expect]]\nratio = [\"xfs\", \"ext4\"]\nabove = 1";
    let touch = format!("command = [\"touch\", \"{}\"]", mark.display());
    for (command, message) in [(touch.as_str(), "its command comes from --place"), ("", "--place box='ssh ")]
    {
        lab.write("trial.toml", &trial(command, ""));
        lab.write("claim.toml", &trial(command, claim));
        for words in ["run trial.toml", "claims check claim.toml"] {
            let ended = lab.run(words);
            assert_eq!(ended.code(), 2, "{words}: {ended:?}");
            assert!(ended.stderr.contains(message), "{words}: {}", ended.stderr);
        }
    }
    for (words, message) in
        [("box=true", "no arm is at the place `box`"), ("box='sh -c true'", "backslashes mean nothing")]
    {
        let mut comparing = lab.prepare(FSTRIAL);
        comparing.args(["compare", "ext4", "xfs", "--dry-run", "--place", words]);
        let ended = support::Running::start(comparing).end(PATIENCE);
        assert!(ended.code() == 2 && ended.stderr.contains(message), "{ended:?}");
    }
    for (device, words, message) in [
        ("", "bix=true", "did you mean `box`?"),
        ("device = { kind = \"ramdisk\" }", "box=true", "give it agent = true"),
    ] {
        lab.write("trial.toml", &trial(device, ""));
        let ended = lab.run(&format!("run trial.toml --dry-run --place {words}"));
        assert!(ended.code() == 2 && ended.stderr.contains(message), "{ended:?}");
    }
    // The trial in a store is parsed as a trial file is.
    if support::is_root_with_loop_devices("place_command_comes_only_from_command_line") {
        let place = with_place(&lab);
        let ended =
            lab.run(&format!("compare ext4@box xfs@box {SMALL} --device image:images --rounds 1 {place}"));
        assert_eq!(ended.code(), 3, "{ended:?}");
        let theirs = lab.home().join("results.db");
        let stored = Store::open_read_only(&theirs).unwrap().trial(TrialId(1)).unwrap().toml;
        assert!(stored.contains("name = \"box\"") && !stored.contains("box.sh"), "{stored}");
        let resumed = lab.run("resume");
        assert!(resumed.code() == 2 && resumed.stderr.contains("--place box='ssh "), "{resumed:?}");
        let with_command = stored.replace("name = \"box\"", &format!("name = \"box\"\n{touch}"));
        let update = format!("UPDATE trial SET toml = '{}'", with_command.replace('\'', "''"));
        support::tool("sqlite3", &[&theirs.display().to_string(), &update]);
        let resumed = lab.run("resume");
        assert!(
            resumed.code() != 0 && resumed.stderr.contains("its command comes from --place"),
            "{resumed:?}"
        );
        lab.assert_nothing_left("after refusals");
    }
    assert!(!mark.exists(), "a file started a command");
}

/// A worker builds an arm that a trial could have, whoever sent the job.
#[test]
fn worker_refuses_arm_with_unsafe_mkfs_options() {
    if !support::is_root_with_loop_devices("worker_refuses_arm_with_unsafe_mkfs_options") {
        return;
    }
    let lab = Lab::new();
    std::fs::create_dir_all(lab.ledger()).unwrap();
    let (image, other) = (lab.write("image", ""), lab.write("other", "precious"));
    for (filesystem, mkfs) in
        [("btrfs", ["-f", "OTHER"]), ("ext4", ["-z", "OTHER"]), ("xfs", ["-l", "logdev=OTHER"])]
    {
        std::fs::File::options().write(true).open(&image).unwrap().set_len(512 << 20).unwrap();
        let mkfs = mkfs.map(|word| word.replace("OTHER", &other.display().to_string())).to_vec();
        let arm = Arm { mkfs, ..Arm::plain(filesystem) };
        let job = Job { protocol: PROTOCOL, arm, task: None, state: None, memory: None, fsck: false };
        let device = DeviceBinding::Loop {
            file: image.clone(),
            size: Bytes::mib(512),
            direct_io: true,
            discards: false,
        };
        let (coordinator, ledger) = (std::process::id(), lab.ledger());
        let placed = PlacedJob { job, device, setup: Setup::default(), base: None, coordinator, ledger };
        let mut worker = lab.prepare(FSTRIAL);
        let mut worker = worker.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut orders = worker.stdin.take().unwrap();
        writeln!(orders, "{}", serde_json::to_string(&placed).unwrap()).unwrap();
        let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines().map(Result::unwrap);
        let failure = lines.find(|line| line.contains("arm-refused")).expect("it says so");
        assert!(failure.contains("could reach outside the arm"), "{failure}");
        drop(orders);
        worker.wait().unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "precious");
    }
    lab.assert_nothing_left("after the worker");
}

/// An agent exits when its orders end, and on an order that it cannot parse.
#[test]
fn an_agent_without_a_trial_ends() {
    let name = "an_agent_without_a_trial_ends";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let ended = lab.run("agent");
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(ended.stdout.contains("received no trial"), "{ended:?}");
    lab.assert_nothing_left("after the agent");
}

#[test]
fn a_killed_agent_costs_one_run() {
    let name = "a_killed_agent_costs_one_run";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let mut dice = Dice::new(12);
    let arms = format!("ext4@box xfs@box ext4 {SMALL} --device image:images");
    let killed = Killed::with(&arms, with_place);
    let (mut running, before) = killed.session("--budget 1h");
    let (mut received, mut tally) = (Heard::default(), Tally::default());
    let mut lost_in_a_row: BTreeMap<String, u32> = BTreeMap::new();
    let (mut strikes, mut lost) = (0, 0);
    let mut target: Option<(&str, Duration)> = None;
    while let Some(event) = running.event() {
        received.hear(&event);
        let arm = event["arm"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str() {
            Some("run-started")
                if arm != "ext4"
                    && strikes < AGENT_KILLS
                    && lost_in_a_row.get(&arm).is_none_or(|n| *n < 2) =>
            {
                let (stage, longest) = RUN[strikes % RUN.len()];
                target = Some((stage, Duration::from_micros(dice.below(longest * 1000))));
            }
            Some("run-stage") if target.is_some_and(|(stage, _)| event["stage"] == stage) => {
                support::pause(target.take().unwrap().1);
                if let Some(agent) = agent_below(running.pid()) {
                    support::kill(agent);
                    strikes += 1;
                    tally.add(received.place());
                }
            }
            Some("run-ended") if event["failure"].is_null() => drop(lost_in_a_row.remove(&arm)),
            Some("run-ended") if support::is_stall(&event["failure"]) => {
                *lost_in_a_row.entry(arm).or_default() += 1;
            }
            Some("run-ended") => {
                assert_eq!(event["failure"]["kind"], "lost", "{event}");
                assert!(
                    event["failure"]["what"].as_str().unwrap().contains("the agent at box is gone"),
                    "{event}"
                );
                *lost_in_a_row.entry(arm).or_default() += 1;
                lost += 1;
            }
            Some("round-started") if strikes >= AGENT_KILLS => running.signal(Signal::INT),
            _ => {}
        }
        if event["event"] == "run-ended" {
            target = None;
        }
    }
    let ended = running.end(PATIENCE);
    assert_eq!(ended.code(), 130, "{ended:?}");
    assert!(lost > 0 && lost <= strikes, "{lost} runs were lost to {strikes} kills");
    assert_eq!(
        support::names_in(&killed.lab.path("there/ledger")),
        Vec::<String>::new(),
        "another agent puts back what the last one left"
    );
    killed.check(&before, &received, "after the kills");
    clean_there(&killed.lab);
    tally.say(name);
}

/// Two devices of this host in one trial: arms are compared on each, and their leads with each other.
#[test]
fn leads_on_two_devices_are_compared() {
    let name = "places::leads_on_two_devices_are_compared";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let words =
        format!("compare ext4 xfs {SMALL} --device image:images --device model:ideal --rounds 2 --json -q");
    let ended = lab.run(&words);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.json().pop().unwrap();
    let section = &document["workloads"][0];
    let compared = |of: &str| -> Vec<String> {
        let all = section[of].as_array().unwrap().iter();
        let throughput = all.filter(|verdict| verdict["metric"] == "throughput");
        throughput
            .map(|verdict| {
                format!("{} over {}", verdict["a"].as_str().unwrap(), verdict["b"].as_str().unwrap())
            })
            .collect()
    };
    assert_eq!(compared("verdicts"), ["xfs image over ext4 image", "xfs ideal over ext4 ideal"]);
    assert_eq!(compared("leads"), ["xfs / ext4 at ideal over xfs / ext4 at image"]);
    // The lead is computed from both ratios of each round; with two rounds it is near their quotient.
    let ratio = |of: &str, index: usize| section[of][index]["ratio"].as_f64().unwrap();
    let leads = section["leads"].as_array().unwrap();
    let lead = leads.iter().position(|verdict| verdict["metric"] == "throughput").unwrap();
    let quotient = ratio("verdicts", 1) / ratio("verdicts", 0);
    assert!((ratio("leads", lead) / quotient).ln().abs() < 0.01, "{section}");
    let devices: Vec<&str> = document["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| place["device"].as_str().unwrap())
        .collect();
    for kind in ["image", "modelled"] {
        assert!(devices.iter().any(|device| device.starts_with(kind)), "{devices:?}");
    }
    lab.assert_nothing_left("after two devices");
    // It is judged again from the store, and repeated from its file.
    let again = lab.run("report --format text").stdout;
    assert!(again.contains("xfs / ext4 at ideal is"), "{again}");
    let refused =
        lab.run(&format!("compare ext4@box xfs {SMALL} --device image --device ramdisk --place box=x"));
    assert!(refused.stderr.contains("cannot be combined with several --device"), "{refused:?}");
    let disk =
        lab.run(&format!("compare ext4 xfs {SMALL} --device image --device disk --erase /dev/nothing"));
    assert!(disk.stderr.contains("a place cannot have a separate disk"), "{disk:?}");
}

#[test]
fn killed_command_leaves_nothing_at_places() {
    let name = "killed_command_leaves_nothing_at_places";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let mut dice = Dice::new(13);
    let killed = Killed::with(&format!("ext4@box xfs@box {SMALL}"), with_place);
    let mut tally = Tally::default();
    for (attempt, (moment, longest)) in Moment::all().into_iter().enumerate() {
        let delay = Duration::from_micros(dice.below(longest * 1000));
        let when = format!("kill {attempt}: {delay:?} after {moment:?}");
        let (mut running, before) = killed.session("");
        let mut received = Heard::default();
        if wait_until(&mut running, &mut received, moment, 1 + dice.below(2), delay) {
            // Every other time the agent dies with it, and no process is left to restore settings.
            let agent = agent_below(running.pid()).filter(|_| attempt % 2 == 0);
            support::kill(running.pid());
            agent.into_iter().for_each(support::kill);
            tally.add(received.place());
        }
        while let Some(line) = running.line() {
            if let Ok(event) = serde_json::from_str(&line) {
                received.hear(&event);
            }
        }
        let ended = running.end(PATIENCE);
        assert!(ended.is_killed() || received.stalled, "{when}: {ended:?}");
        killed.check(&before, &received, &when);
        if attempt % 3 == 0 {
            clean_there(&killed.lab);
        }
    }
    clean_there(&killed.lab);
    tally.say(name);
}

/// Two boots of this host, which the kernel's boot id tells apart; a namespace has another id mounted there.
#[test]
fn boots_of_this_host_are_the_parts_of_a_round() {
    let test = "boots_of_this_host_are_the_parts_of_a_round";
    if !support::is_root_with_loop_devices(test) {
        return;
    }
    let lab = Lab::new();
    let number = lab.path("boot_id");
    let words = r#"mount --bind "$BOOT" /proc/sys/kernel/random/boot_id
[ "$(cat "$BOOT")" != elsewhere ] || hostname elsewhere
exec "$@""#;
    let in_boot = |boot: &str, line: &str| {
        std::fs::write(&number, boot).unwrap();
        let ended = support::command("unshare")
            .args(["-m", "-u", "sh", "-ec", words, "sh"])
            .arg(FSTRIAL)
            .args(line.split(' '))
            .env("BOOT", &number)
            .env("FSTRIAL_HOME", lab.home())
            .output()
            .unwrap();
        (
            ended.status.code(),
            String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr),
        )
    };
    let begin = "compare ext4@old ext4@new -w append-fsync --threads 1 --duration 300ms --rounds 2 --seed 2 --json --device ramdisk --as-arm";
    let (code, message) = in_boot("1", &format!("{begin} middle"));
    assert!(code == Some(2) && message.contains("no arm is at the boot `middle`"), "{code:?}: {message}");
    // By this seed the new one comes first, then the old one twice.
    let (code, message) = in_boot("1", &format!("{begin} old"));
    assert!(code == Some(3) && message.contains(r#""next_boot":"new""#), "{code:?}: {message}");
    // Its device is not made for that.
    assert!(
        message.contains("the next part of a round is for new") && !message.contains("device-ready"),
        "{message}"
    );
    assert!(message.contains("--rounds 2 decides nothing: a verdict takes at least 7 rounds"), "{message}");
    let (code, message) = in_boot("elsewhere", "resume 1 --as-arm new");
    assert!(code == Some(2) && message.contains("and this is elsewhere"), "{code:?}: {message}");
    let (_, message) = in_boot("1", "resume 1");
    assert!(message.contains("--as-arm old or --as-arm new"), "{message}");
    for (boot, name, next, rounds) in [
        ("2", "new", Some("old"), 0),
        ("2", "new", Some("old"), 0),
        ("3", "old", Some("old"), 1),
        ("3", "old", Some("old"), 1),
        ("4", "old", Some("new"), 1),
        ("5", "new", None, 2),
    ] {
        let (code, message) = in_boot(boot, &format!("resume 1 --json --as-arm {name}"));
        assert_eq!(code, Some(3), "{message}");
        let last = message.lines().rev().find(|line| line.contains("schema_version")).unwrap();
        let document: Value = serde_json::from_str(last).unwrap();
        assert_eq!(document["next_boot"].as_str(), next, "boot {boot}: {last}");
        assert_eq!(document["rounds"], rounds, "boot {boot}: {last}");
        let of = |arm: usize| document["arms"][arm]["facts"].is_object();
        assert_eq!((of(0), of(1)), (rounds > 0, true), "boot {boot}: {last}");
        let listed = lab.run("results list").stdout;
        assert!(next.is_none_or(|next| listed.contains(&format!("waits for the boot {next}"))), "{listed}");
        let other = if name == "new" { "old" } else { "new" };
        let (code, message) = in_boot(boot, &format!("resume 1 --as-arm {other}"));
        let why = if next.is_some() { "this boot has run as" } else { "there is nothing to resume" };
        assert!(code == Some(2) && message.contains(why), "{code:?}: {message}");
    }
    let document = lab.run("report 1 --format json").json()[0].clone();
    assert_eq!(document["workloads"][0]["verdicts"][0]["rounds"], 2);
    assert!(
        document["warnings"].to_string().contains("the boots old, new had the same kernel"),
        "{document}"
    );
    lab.assert_nothing_left("after boots");
}
