//! Files, standard output and stores that commands name, and the exit codes when writing or reading them fails.

use crate::support::{self, Ended, FSTRIAL, Lab, PATIENCE, Running, command};
use rustix::fs::FlockOperation;
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::PathBuf,
    time::Duration,
};

/// A trial of two directories that needs no root.
const TRIAL: &str = "compare a=dir:one b=dir:two --workload random-write --threads 1 --set workload.file_size=2MiB --duration 200ms \
                     --set workload.warmup=10ms --rounds 1 --quiet --no-page";

fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir(lab.path("one")).unwrap();
    fs::create_dir(lab.path("two")).unwrap();
    lab
}

#[track_caller]
fn ends(lab: &Lab, words: &str, code: i32, message: &[&str]) -> Ended {
    let ended = lab.run(words);
    is(&ended, code, message);
    ended
}

#[track_caller]
fn is(ended: &Ended, code: i32, message: &[&str]) {
    assert_eq!(ended.code(), code, "{ended:?}");
    for words in message {
        assert!(ended.stderr.contains(words), "`{words}` is not said: {ended:?}");
    }
}

/// Runs `fstrial`, which a script calls `$F`, in a shell.
fn shell(lab: &Lab, script: &str) -> Ended {
    let mut shell = lab.prepare("bash");
    shell.args(["-c", script]).env("F", FSTRIAL);
    Running::start(shell).end(PATIENCE)
}

#[test]
fn every_command_writes_files_in_the_same_way() {
    let lab = lab();
    ends(&lab, TRIAL, 3, &[]);
    let save = format!("{TRIAL} --save FILE");
    let commands = [
        save.as_str(),
        "report 1 --format text --out FILE",
        "results export --out FILE",
        "results export --format store --out FILE",
        "claims new FILE",
        "device fit /dev/null --out FILE",
    ];
    fs::write(lab.path("precious"), "kept").unwrap();
    symlink("precious", lab.path("link")).unwrap();
    symlink("nowhere", lab.path("dangling")).unwrap();
    support::tool("mkfifo", &[lab.path("fifo").to_str().unwrap()]);
    for command in commands {
        let to = |name: &str| command.replace("FILE", name);
        ends(&lab, &to("precious"), 2, &["precious exists already", "--force"]);
        for (name, kind) in [
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("fifo", "a FIFO"),
            ("one", "a folder"),
            ("/dev/null", "a device"),
        ] {
            let forced = to(name) + " --force";
            ends(&lab, &forced, 2, &[&format!("{name} is {kind} and was not touched")]);
        }
        assert_eq!(fs::read_to_string(lab.path("precious")).unwrap(), "kept", "{command}");
        // No device is there to be fitted without root.
        if command.starts_with("device fit") {
            continue;
        }
        fs::write(lab.path("old"), "old").unwrap();
        let replaced = lab.run(&(to("old") + " --force"));
        assert!([0, 3].contains(&replaced.code()), "{command}: {replaced:?}");
        assert_ne!(fs::read(lab.path("old")).unwrap(), b"old", "{command}");
    }
    assert!(!lab.path("nowhere").exists());
    assert!(!support::names_in(&lab.root()).iter().any(|name| name.ends_with(".part")));
}

#[test]
fn folders_of_files_are_written_in_the_same_way() {
    let lab = lab();
    ends(&lab, TRIAL, 3, &[]);
    fs::write(lab.path("precious"), "kept").unwrap();
    for (command, file) in [
        ("generate man out", "out/fstrial.1"),
        ("results export --format fio --out out", "out/round-1/a/random-write-1.json"),
    ] {
        ends(&lab, command, 0, &[]);
        ends(&lab, command, 2, &["exists already", "--force"]);
        ends(&lab, &format!("{command} --force"), 0, &[]);
        fs::remove_file(lab.path(file)).unwrap();
        symlink(lab.path("precious"), lab.path(file)).unwrap();
        ends(&lab, &format!("{command} --force"), 2, &["a symbolic link"]);
    }
    // Nor is a folder on the way a link.
    fs::remove_dir_all(lab.path("out/round-1/a")).unwrap();
    symlink(lab.path("one"), lab.path("out/round-1/a")).unwrap();
    ends(&lab, "results export --format fio --out out --force", 2, &["out/round-1/a"]);
    assert_eq!(support::names_in(&lab.path("one")), Vec::<String>::new());
    assert_eq!(fs::read_to_string(lab.path("precious")).unwrap(), "kept");
}

#[test]
fn dry_run_writes_nothing() {
    let lab = lab();
    let before = support::names_in(&lab.root());
    fs::write(lab.path("precious"), "kept").unwrap();
    ends(&lab, &format!("{TRIAL} --dry-run --save t.toml"), 0, &["would write t.toml"]);
    ends(&lab, &format!("{TRIAL} --dry-run --save precious"), 2, &["exists already"]);
    ends(&lab, &format!("{TRIAL} --dry-run --save precious --force"), 0, &["would write precious"]);
    assert_eq!(fs::read_to_string(lab.path("precious")).unwrap(), "kept");
    fs::remove_file(lab.path("precious")).unwrap();
    assert_eq!(support::names_in(&lab.root()), before);
    let printed = ends(&lab, &format!("{TRIAL} --dry-run --save -"), 0, &[]).stdout;
    lab.write("t.toml", &printed);
    let steps = ends(&lab, "run t.toml --dry-run", 0, &[]).stdout;
    // Only the seed differs.
    let of_flags = ends(&lab, &format!("{TRIAL} --dry-run"), 0, &[]).stdout;
    assert_eq!(steps.lines().next(), of_flags.lines().next());
}

#[test]
fn undelivered_answer_has_exit_code() {
    let lab = lab();
    let stored = |id: u32| format!("fstrial report {id} --format text");
    is(&shell(&lab, &format!("$F {TRIAL} >/dev/full")), 15, &["standard output", &stored(1)]);
    is(&shell(&lab, &format!("$F {TRIAL} --json >&-")), 15, &["it is closed", &stored(2)]);
    is(&shell(&lab, &format!("$F {TRIAL} | true; exit ${{PIPESTATUS[0]}}")), 15, &[&stored(3)]);
    assert_eq!(lab.trials().len(), 3, "they are stored all the same");
    for words in [
        "results list",
        "report --format text",
        "report --format json",
        "results export",
        "results export --format json --out -",
        "results export --format openmetrics",
        "results export --format parquet --out -",
        "report --format lkml",
        "claims list",
        "claims new",
        "workloads list",
        "device list",
        "device show gp3-3000",
        "generate schema",
        "generate completions bash",
        "compare ext4 xfs --dry-run",
        "clean",
        "--help",
        "compare --help",
        "--version",
    ] {
        is(&shell(&lab, &format!("$F {words} >/dev/full")), 15, &["could not write the answer"]);
        is(&shell(&lab, &format!("$F {words} >&-")), 15, &["could not write the answer"]);
        // A reader that has enough is nothing to complain about.
        let left = shell(&lab, &format!("$F {words} | true; exit ${{PIPESTATUS[0]}}"));
        assert_eq!((left.code(), left.stderr.as_str()), (0, ""), "{words}");
        let received = shell(&lab, &format!("$F {words} 1<>/dev/null"));
        assert_eq!(received.code(), 0, "{words}: {received:?}");
    }
    // The more severe exit code is kept.
    is(&shell(&lab, "$F report 99 --format text >/dev/full"), 2, &["no trial 99"]);
}

/// A real shell with the script of `generate completions`.
#[test]
fn completion_offers_known_words_and_stored_trials() {
    let lab = lab();
    ends(&lab, &format!("{TRIAL} --tag nightly"), 3, &[]);
    let offered = |words: &str| {
        let last = words.split(' ').count() - 1;
        let script = format!(
            "PATH=$(dirname $F):$PATH; source <($F generate completions bash); COMP_WORDS=({words}); COMP_CWORD={last}; \
             _clap_complete_fstrial fstrial \"${{COMP_WORDS[{last}]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let message = shell(&lab, &script);
        message.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(offered("fstrial compare ext4 -w postgresql-t"), ["postgresql-tpcb"]);
    assert_eq!(offered("fstrial compare ext4 -w postgresql,random-w"), ["postgresql,random-write"]);
    assert_eq!(offered("fstrial compare ext4 xf"), ["xfs"]);
    assert_eq!(offered("fstrial compare ext4 xfs --device gp3"), ["gp3-3000"]);
    assert_eq!(offered("fstrial resume ''")[0], "1");
    assert_eq!(offered("fstrial run t.toml --tag night"), ["nightly"]);
    assert_eq!(offered("fstrial wo"), ["workloads"], "what is hidden is not offered");
}

#[test]
fn unusable_store_has_exit_code() {
    let lab = lab();
    is(&shell(&lab, &format!("ulimit -f 4; $F {TRIAL}")), 14, &["home/results.db", "ulimit -f"]);
    ends(&lab, TRIAL, 3, &[]);
    // SQLite waits for others as long as it does for a run to be written.
    let store = File::options().read(true).write(true).open(lab.path("home/results.db")).unwrap();
    rustix::fs::fcntl_lock(&store, FlockOperation::NonBlockingLockExclusive).unwrap();
    ends(&lab, "results tag 1 +x", 14, &["home/results.db", "another process holds the store"]);
    drop(store);
    ends(&lab, "results tag 1 +x", 0, &[]);
}

#[test]
fn full_store_keeps_existing_results() {
    let name = "full_store_keeps_existing_results";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = lab();
    fs::create_dir(lab.home()).unwrap();
    let _mounted = Mounted::tmpfs(lab.home(), "size=1m,mode=700");
    let many = TRIAL.replace("--rounds 1", "--rounds 500 --json");
    let mut running = lab.start(&many);
    assert!(running.wait_for("run-ended"));
    assert!(running.wait_for("run-ended"));
    // With any amount of free space, to the last page.
    let filler = fs::write(lab.home().join("filler"), vec![0; 1 << 20]).unwrap_err();
    assert_eq!(filler.kind(), std::io::ErrorKind::StorageFull);
    is(&running.end(PATIENCE), 14, &["home/results.db", "full", "free space"]);
    ends(&lab, &TRIAL.replace("--rounds 1", "--rounds 2"), 14, &["home/results.db", "free space"]);
    fs::remove_file(lab.home().join("filler")).unwrap();
    lab.check_store();
    assert!(lab.trials()[0]["runs"].as_u64().unwrap() >= 2, "{:?}", lab.trials());
    ends(&lab, TRIAL, 3, &[]);
}

#[test]
fn full_folder_for_a_loss_keeps_the_answer() {
    if !support::is_root_with_loop_devices("full_folder_for_a_loss_keeps_the_answer") {
        return;
    }
    let lab = lab();
    let folder = lab.path("small");
    fs::create_dir(&folder).unwrap();
    let _mounted = Mounted::tmpfs(folder.clone(), "size=1m");
    let words = "durability nb=ext4:barrier=0 --runs 1 --cuts 6 --seed 7 --keep small --json";
    let arm = lab.run(words).json().pop().unwrap()["arms"][0].take();
    assert_eq!((&arm["lossy_runs"], &arm["kept"]), (&1.into(), &serde_json::Value::Null), "{arm}");
    assert!(arm["each"][0]["unkept"].as_str().unwrap().contains("No space left"), "{arm}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

/// A filesystem that is unmounted when this value is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(folder: PathBuf, options: &str) -> Self {
        support::tool("mount", &["-t", "tmpfs", "-o", options, "tmpfs", folder.to_str().unwrap()]);
        Self(folder)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = command("umount").arg(&self.0).status();
    }
}

#[test]
fn deleted_store_ends_its_trial() {
    for gone in ["home", "home/results.db", "home/results.db-wal"] {
        let lab = lab();
        let mut running = lab.start(&TRIAL.replace("--rounds 1", "--rounds 500 --json"));
        assert!(running.wait_for("run-ended"));
        let path = lab.path(gone);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        let ended = running.end(Duration::from_secs(60));
        is(&ended, 14, &["home/results.db was deleted or replaced", "is lost", "try"]);
        assert!(support::names_in(&lab.path("one")).is_empty(), "no part of the run is left");
    }
}

#[test]
fn file_size_limit_is_reported() {
    let lab = lab();
    let large = TRIAL.replace("--set workload.file_size=2MiB", "--set workload.file_size=16MiB");
    let ended = shell(&lab, &format!("ulimit -f 8000; $F {large}"));
    is(&ended, 11, &["ulimit -f"]);
    // As the limit is inherited, so is a program that ignores its signal.
    is(&shell(&lab, &format!("trap '' XFSZ; ulimit -f 8000; $F {large}")), 11, &["ulimit -f"]);
    if support::is_root_with_loop_devices("file_size_limit_is_reported") {
        let image =
            "compare ext4 xfs --workload random-write --set device.size=400MiB --device image:images -q";
        is(&shell(&lab, &format!("ulimit -f 8000; $F {image}")), 11, &["400 MiB", "ulimit -f"]);
        lab.assert_nothing_left("an image beyond the limit");
    }
}

#[test]
fn input_size_is_bounded() {
    let lab = lab();
    let pairs = "round,arm,value\n1,a,1\n1,b,2\n";
    let large = File::create(lab.path("large.toml")).unwrap();
    large.set_len(1 << 30).unwrap();
    support::tool("mkfifo", &[lab.path("fifo.toml").to_str().unwrap()]);
    symlink("/dev/zero", lab.path("zero.toml")).unwrap();
    for name in ["large.toml", "large.fio"] {
        if name != "large.toml" {
            fs::hard_link(lab.path("large.toml"), lab.path(name)).unwrap();
        }
    }
    fs::hard_link(lab.path("fifo.toml"), lab.path("fifo.fio")).unwrap();
    symlink("/dev/zero", lab.path("zero.fio")).unwrap();
    for (words, end) in [
        ("judge", "toml"),
        ("run", "toml"),
        ("claims check", "toml"),
        ("claims show", "toml"),
        ("device show", "toml"),
        ("device check", "toml"),
        ("compare ext4 xfs --workload", "toml"),
        ("compare ext4 xfs --workload", "fio"),
        ("compare ext4 xfs --device model:", "toml"),
        ("workloads explain", "fio"),
    ] {
        let gap = if words.ends_with(':') { "" } else { " " };
        let large = if words == "judge" { "has a line of more than" } else { "is larger than" };
        for (name, message) in [("large", large), ("fifo", "is a FIFO"), ("zero", "is a device")] {
            let mut limited = lab.prepare("prlimit");
            limited.args(["--as=268435456", FSTRIAL]);
            limited.args(format!("{words}{gap}{name}.{end}").split_whitespace());
            let ended = Running::start(limited).end(Duration::from_secs(20));
            is(&ended, 2, &[&format!("{name}.{end} {message}"), "try"]);
        }
    }
    // Pipes are read to their end, however slow their writer is.
    let piped = shell(&lab, &format!("$F judge <(sleep 0.3; printf '{}')", pairs.replace('\n', "\\n")));
    is(&piped, 3, &[]);
    let piped = shell(&lab, &format!("printf '{}' | $F judge -", pairs.replace('\n', "\\n")));
    is(&piped, 3, &[]);
    is(&shell(&lab, "$F judge - </dev/zero"), 2, &["a line of more than 64KiB"]);
    is(&shell(&lab, "yes '# x' | $F judge -"), 2, &["is larger than 64MiB"]);
}

#[test]
fn figures_beyond_reason_are_refused_and_odd_ones_judged() {
    let lab = lab();
    // A column that is not known is not looked at.
    lab.write("odd.csv", "round,arm,value,cv\n1,a,1e308,x\n1,b,1e-308,\n2,a,1,0\n2,b,2,0\n");
    ends(&lab, "judge odd.csv", 3, &[]);
    ends(&lab, "judge odd.csv --practical 0%", 2, &["--practical 0%", "1%"]);
    let arms: String = (0..200_000).map(|arm| format!("1,arm-{arm},1\n")).collect();
    lab.write("arms.csv", &format!("round,arm,value\n{arms}"));
    ends(&lab, "judge arms.csv", 2, &["more than 64 arms"]);
}

#[test]
fn a_trial_takes_a_bounded_number_of_tags() {
    let lab = lab();
    let tags = |count: usize| (0..count).map(|tag| format!(" --tag t{tag}")).collect::<String>();
    ends(&lab, &format!("{TRIAL}{}", tags(101)), 2, &["101 tags", "at most 100"]);
    ends(&lab, &format!("{TRIAL}{}", tags(100)), 3, &[]);
    ends(&lab, "results tag 1 +more", 2, &["trial 1 would have more than 100 tags", "results tag"]);
    let listed = ends(&lab, "results list", 0, &[]).stdout;
    assert!(listed.contains("t0 t1 t10") && listed.contains('…') && !listed.contains("t99"), "{listed}");
    ends(&lab, "results tag 1 -t0 +more", 0, &[]);
}
