//! The tutorials: every command in them runs, in the order of the page, with small budgets.
//!
//! The commands are the blocks marked `sh`. They run in one shell with their own folder and home, where `fstrial` is a
//! script that makes trials short, and `sudo` only starts the command after it. Blocks marked otherwise are not run.

use crate::support::{self, Ended, FSTRIAL, Lab, Running};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

/// The longest that a tutorial may take here.
const LONGEST: Duration = Duration::from_secs(150);

/// `fstrial` for a reader in a hurry: trials end after seconds, and undecided is an answer too. The server ends as by Ctrl-C.
const HURRIED: &str = r#"#!/bin/sh
case "$1" in
compare) short="--quick --budget 6s --anyway" ;;
# A trend takes trials of three rounds, and on a busy disk a round may last six seconds.
run) short="--budget 20s" ;;
resume)
    # A fast machine may have decided in those seconds.
    said=$(PROGRAM resume --budget 6s 2>&1)
    code=$?
    echo "$said"
    case "$code:$said" in 0:* | 3:* | 2:*"all that are stored are decided"*) exit 0 ;; esac
    exit "$code"
    ;;
serve)
    timeout --signal INT 2 PROGRAM "$@" --listen 127.0.0.1:0
    [ $? = 124 ]
    exit
    ;;
*) exec PROGRAM "$@" ;;
esac
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    case "$word" in
    --budget) shift; left=$((left - 1)) ;;
    *) set -- "$@" "$word" ;;
    esac
done
PROGRAM "$@" $short
code=$?
if [ "$code" = 3 ]; then exit 0; else exit "$code"; fi
"#;

/// The contents of the blocks marked `sh`, in order.
fn commands(page: &str) -> String {
    let mut result = String::new();
    let mut runs = false;
    for line in page.lines() {
        match line {
            "```sh" => runs = true,
            _ if line.starts_with("```") => runs = false,
            _ if runs => result.push_str(&format!("{line}\n")),
            _ => {}
        }
    }
    result
}

fn page(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorials");
    fs::read_to_string(folder.join(name)).unwrap()
}

fn program(lab: &Lab, name: &str, text: &str) {
    fs::create_dir_all(lab.path("bin")).unwrap();
    let path = lab.write(&format!("bin/{name}"), text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a page to its end; each command must succeed.
fn follow(lab: &Lab, name: &str) -> Ended {
    program(lab, "fstrial", &HURRIED.replace("PROGRAM", FSTRIAL));
    program(lab, "sudo", "#!/bin/sh\nexec \"$@\"\n");
    let commands = commands(&page(name));
    assert!(commands.matches("fstrial ").count() >= 5, "{name}: {commands}");
    let script = lab.write("tutorial.sh", &commands);
    let mut shell = lab.prepare("sh");
    let path = format!("{}:{}", lab.path("bin").display(), std::env::var("PATH").unwrap());
    shell.arg("-eux").arg(script).env("PATH", path);
    let began = Instant::now();
    let ended = Running::start(shell).end(support::PATIENCE);
    assert_eq!(ended.code(), 0, "{name}: {ended:?}");
    assert!(began.elapsed() < LONGEST, "{name} took {:?}", began.elapsed());
    ended
}

#[test]
fn the_one_for_a_database_can_be_followed() {
    if !support::is_root_with_loop_devices("tutorials::the_one_for_a_database_can_be_followed") {
        return;
    }
    let lab = Lab::new();
    let ended = follow(&lab, "database.md");
    assert!(ended.stdout.contains("gp3-3000"), "{}", ended.stdout);
    // Where a round takes longer than the short budget, that message is the answer.
    let answers = ["In short", "No round was completed"];
    assert!(answers.iter().any(|words| ended.stdout.contains(words)), "{}", ended.stdout);
    assert!(lab.path("answer.html").exists());
    lab.assert_nothing_left("after the tutorial");
}

#[test]
fn the_one_for_a_developer_can_be_followed() {
    if !support::is_root_with_loop_devices("tutorials::the_one_for_a_developer_can_be_followed") {
        return;
    }
    let lab = Lab::new();
    let ended = follow(&lab, "developer.md");
    // The verdict on the numbers that are in the page does not depend on this machine.
    assert!(ended.stdout.contains("patched is 1.059× plain"), "{}", ended.stdout);
    let post = fs::read_to_string(lab.path("post.txt")).unwrap();
    // The command and the trial file are for programs: their lines are as long as they are.
    let (text, reproducer) = post.split_once("Reproducer").unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(reproducer.contains("compare without=xfs:rmapbt=0"), "{reproducer}");
    lab.assert_nothing_left("after the tutorial");
}

#[test]
fn the_one_without_root_can_be_followed() {
    let lab = Lab::new();
    let ended = follow(&lab, "without-root.md");
    assert!(ended.stdout.contains("http://127.0.0.1:"), "{}", ended.stdout);
    assert!(lab.trials().len() >= 2);
    lab.assert_nothing_left("after the tutorial");
}

#[test]
fn only_blocks_of_commands_are_run() {
    let page = "```sh\none\ntwo\n```\nno\n```text\nno\n```\n```sh\nthree\n```\n";
    assert_eq!(commands(page), "one\ntwo\nthree\n");
}
