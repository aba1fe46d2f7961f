//! Homes that root trusts: homes writable by another user are refused and stay as they are, a damaged ledger stops
//! nothing, processes in a container are left alone, and a home below a folder covered by workers loses no undo.

use crate::support::{self, FSTRIAL, Lab, NOBODY, PATIENCE, Running};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Makes a home one that is not to be believed.
type Spoil = fn(&Path);

const DIRECTORIES: &str = "compare dir:dirs/a dir:dirs/b --workload random-write --set workload.file_size=4MiB --threads 1 --rounds 1 --json";

/// A lab with two directories to compare.
fn lab() -> Lab {
    let lab = Lab::new();
    ["dirs/a", "dirs/b"].iter().for_each(|folder| fs::create_dir_all(lab.path(folder)).unwrap());
    lab
}

/// An entry of the ledger as a run that is gone leaves it, with another undo.
fn entry(lab: &Lab, undo: &Value) -> Value {
    let mut running = lab.start(&format!("{DIRECTORIES} --duration 30s"));
    let mut written = None;
    let result = support::eventually(PATIENCE, || {
        let read = |name| fs::read(lab.ledger().join::<String>(name)).ok();
        let mut entries = lab.ledger_entries().into_iter().filter(|name| name.ends_with(".json"));
        written = entries.find_map(read).and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        written.is_some()
    });
    assert!(result, "a run in a directory writes its folder down");
    let mut worker = None;
    support::eventually(PATIENCE, || {
        worker = support::worker_of(running.pid());
        worker.is_some() || running.is_over()
    });
    support::signal_group(worker.expect("a worker is at work"), Signal::KILL);
    running.signal(Signal::KILL);
    running.end(PATIENCE);
    lab.assert_nothing_left("before the ledger is cleaned");
    lab.clean();
    let mut entry = written.unwrap();
    let fields = entry.as_object_mut().unwrap();
    fields.retain(|key, _| ["owner", "at"].contains(&key.as_str()));
    fields.extend(undo.as_object().unwrap().clone());
    entry
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for name in support::names_in(folder) {
        let path = folder.join(name);
        let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if path.is_dir() && !path.is_symlink() {
            all.extend(contents(&path));
        }
        all.push((path, bytes));
    }
    all.sort();
    all
}

#[test]
fn home_writable_by_others_is_refused_and_unchanged() {
    if !support::is_root("home_writable_by_others_is_refused_and_unchanged", "") {
        return;
    }
    let lab = lab();
    let precious = lab.write("precious", "kept");
    let climbing = format!("/sys/..{}", precious.display());
    let hostile = json!({"undo": "restore-attribute", "path": climbing, "value": "overwritten"});
    let entry = entry(&lab, &hostile).to_string();
    let made: [(&str, Spoil); 4] = [
        ("belongs to user 65534", |home| chown(home, Some(NOBODY), None).unwrap()),
        ("every user may write", |home| {
            fs::set_permissions(home, fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("belongs to user 65534", |home| chown(home.join("ledger"), Some(NOBODY), None).unwrap()),
        ("symbolic link", |home| {
            fs::rename(home.join("ledger"), home.join("real")).unwrap();
            symlink("real", home.join("ledger")).unwrap();
        }),
    ];
    for (why, make) in made {
        let _ = fs::remove_dir_all(lab.home());
        fs::create_dir_all(lab.ledger()).unwrap();
        fs::write(lab.ledger().join("1-1-0-1-1.json"), &entry).unwrap();
        make(&lab.home());
        let before = contents(&lab.home());
        for words in ["clean", "clean --dry-run", DIRECTORIES] {
            let refused = lab.run(words);
            assert_eq!(refused.code(), 2, "{words}: {refused:?}");
            assert!(refused.stderr.contains(why), "{words}: {refused:?}");
        }
        assert_eq!(contents(&lab.home()).len(), before.len() + usize::from(lab.home().join("lock").exists()));
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
    }
    chown(lab.home(), Some(NOBODY), None).unwrap();
    for words in ["results list", "report", "trend xfs/ext4", "claims", "watch"] {
        let refused = lab.run(words);
        assert_eq!(refused.code(), 2, "{words}: {refused:?}");
        assert!(refused.stderr.contains("/var/lib/fstrial"), "the remedy names root's own: {refused:?}");
    }
}

#[test]
fn symlinks_in_home_are_not_followed() {
    if !support::is_root("symlinks_in_home_are_not_followed", "") {
        return;
    }
    let lab = lab();
    for name in ["lock", "results.db"] {
        fs::create_dir_all(lab.home()).unwrap();
        symlink(lab.path("elsewhere"), lab.home().join(name)).unwrap();
        let refused = lab.run(DIRECTORIES);
        assert_eq!(refused.code(), 2, "{name}: {refused:?}");
        assert!(refused.stderr.contains("symbolic link"), "{name}: {refused:?}");
        assert!(!lab.path("elsewhere").exists(), "{name} was followed");
        fs::remove_dir_all(lab.home()).unwrap();
    }
}

#[test]
fn unreadable_ledger_entry_is_named_but_not_fatal() {
    let lab = lab();
    fs::create_dir_all(lab.ledger()).unwrap();
    let entry = lab.ledger().join("1-1-0-1-1.json");
    for text in ["{\"owner\": ", "{\"undo\": \"of a newer version\"}", "\0\0\0"] {
        fs::write(&entry, text).unwrap();
        let ended = lab.run(&format!("{DIRECTORIES} --duration 200ms --set workload.warmup=10ms"));
        assert!([0, 3].contains(&ended.code()), "{ended:?}");
        assert!(ended.stderr.contains("1-1-0-1-1.json"), "a trial says what it leaves: {ended:?}");
        let cleaned = lab.run("clean");
        assert_eq!(cleaned.code(), 13, "{cleaned:?}");
        assert!(cleaned.stdout.contains("left alone: it is not an entry of the ledger"), "{cleaned:?}");
        assert!(cleaned.stdout.contains("1-1-0-1-1.json") && entry.exists(), "{cleaned:?}");
    }
    fs::remove_file(entry).unwrap();
}

#[test]
fn clean_in_container_leaves_outside_trial_alone() {
    let name = "clean_in_container_leaves_outside_trial_alone";
    if !support::is_root(name, "") {
        return;
    }
    let lab = lab();
    let inside = |words: &[&str]| {
        let mut command = lab.prepare("unshare");
        command.args(["--pid", "--fork", "--mount-proc", FSTRIAL]).args(words);
        Running::start(command).end(PATIENCE)
    };
    if !support::command("unshare").args(["--pid", "--fork", "true"]).status().is_ok_and(|s| s.success()) {
        return support::skip(name, "process namespaces cannot be made here");
    }
    let mut running = lab.start(&format!("{DIRECTORIES} --duration 30s --set workload.warmup=10ms"));
    let folder = || {
        let names = ["dirs/a", "dirs/b"].map(|folder| support::names_in(&lab.path(folder))).concat();
        names.into_iter().find(|name| name.starts_with("fstrial-run-"))
    };
    assert!(running.wait_for("run-started") && support::eventually(PATIENCE, || folder().is_some()));
    let cleaned = inside(&["clean"]);
    assert_eq!(cleaned.code(), 13, "{cleaned:?}");
    assert!(cleaned.stdout.contains("another process namespace"), "{cleaned:?}");
    assert!(folder().is_some(), "the folder of a live run was deleted");
    assert!(!running.is_over());
    // Seen from its own namespace, it is running.
    let cleaned = lab.run("clean");
    assert_eq!(cleaned.code(), 13, "{cleaned:?}");
    assert!(cleaned.stdout.contains("which is running"), "{cleaned:?}");
    // Leftovers of dead commands are undone only by the command that holds the lock.
    let dead = plant_for_the_dead(&lab);
    let cleaned = lab.run("clean");
    assert_eq!(cleaned.code(), 13, "{cleaned:?}");
    assert!(cleaned.stdout.contains("another command works with this home"), "{cleaned:?}");
    assert!(dead.iter().all(|path| path.exists()), "{dead:?} was undone during a trial");
    // After a kill, the command inside cleans up: the lock is free.
    support::signal_group(support::worker_of(running.pid()).expect("a worker"), Signal::KILL);
    running.signal(Signal::KILL);
    running.end(PATIENCE);
    let cleaned = inside(&["clean"]);
    assert_eq!(cleaned.code(), 0, "{cleaned:?}");
    assert!(cleaned.stdout.contains("done: delete the folder") && folder().is_none(), "{cleaned:?}");
}

/// An entry of a process that is gone, for a folder that is there: both paths.
fn plant_for_the_dead(lab: &Lab) -> [PathBuf; 2] {
    let entries = support::names_in(&lab.ledger());
    let ours = |name: &&String| name.ends_with(".json");
    let text = fs::read_to_string(lab.ledger().join(entries.iter().find(ours).unwrap())).unwrap();
    let mut entry: Value = serde_json::from_str(&text).unwrap();
    let folder = lab.path("dirs/a/fstrial-run-of-the-dead");
    fs::create_dir(&folder).unwrap();
    entry["owner"]["pid"] = json!(u32::MAX - 1);
    entry["path"] = json!(folder);
    entry["made"] = json!(null);
    let path = lab.ledger().join("4294967294-1-1-1-1.json");
    fs::write(&path, entry.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    [folder, path]
}

/// A mount namespace in which `/mnt` is another filesystem, as with a data disk mounted there.
struct Elsewhere(Running);

impl Elsewhere {
    fn new(lab: &Lab) -> Self {
        let mut command = lab.prepare("unshare");
        let script = "mount -t tmpfs -o mode=755 tmpfs /mnt && echo ready && exec sleep 600";
        command.args(["--mount", "sh", "-c", script]);
        let mut held = Running::start(command);
        assert_eq!(held.line().as_deref(), Some("ready"));
        Self(held)
    }

    /// A command in it, with its home below `/mnt`.
    fn prepare(&self, lab: &Lab, words: &str) -> Command {
        let mut command = lab.prepare("nsenter");
        command.args([
            "--mount",
            &format!("--wd={}", lab.root().display()),
            "--target",
            &self.0.pid().to_string(),
        ]);
        command.arg(FSTRIAL).args(words.split_whitespace()).env("FSTRIAL_HOME", "/mnt/data/home");
        command
    }

    /// The ledger, seen from outside.
    fn ledger(&self) -> PathBuf {
        format!("/proc/{}/root/mnt/data/home/ledger", self.0.pid()).into()
    }
}

#[test]
fn freeze_is_recorded_in_home_covered_by_workers() {
    let name = "freeze_is_recorded_in_home_covered_by_workers";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let elsewhere = Elsewhere::new(&lab);
    lab.write("op.toml", "use = 'op-freeze'\nduration = '50ms'\nhold = '50s'\nrepeat = 1\nthreads = [2]");
    let words = "compare a=ext4 b=ext4 --workload op.toml --device image:images --set device.size=640MiB --rounds 1 --json";
    let running = Running::start(elsewhere.prepare(&lab, words));
    let is_frozen = || {
        let texts = support::names_in(&elsewhere.ledger()).into_iter();
        let mut texts = texts.filter_map(|name| fs::read_to_string(elsewhere.ledger().join(name)).ok());
        texts.any(|text| text.contains("\"thaw\""))
    };
    assert!(support::eventually(PATIENCE, is_frozen), "the freeze is not in the ledger");
    support::pause(Duration::from_secs(2));
    let outer = support::worker_of(running.pid()).expect("a worker");
    support::kill(running.pid());
    support::signal_group(outer, Signal::KILL);
    assert!(running.end(PATIENCE).is_killed());
    support::pause(Duration::from_secs(1));
    assert!(!lab.loop_devices().is_empty(), "it was not frozen, and this test says nothing");
    let cleaned = Running::start(elsewhere.prepare(&lab, "clean")).end(PATIENCE);
    assert_eq!(cleaned.code(), 0, "{cleaned:?}");
    assert!(cleaned.stdout.contains("done: thaw"), "{cleaned:?}");
    let is_clean = || lab.loop_devices().is_empty() && support::names_in(&lab.images()).is_empty();
    assert!(support::eventually(support::SETTLE, is_clean), "{:?} left", lab.loop_devices());
    assert_eq!(support::names_in(&elsewhere.ledger()), Vec::<String>::new());
    support::kill(elsewhere.0.pid());
}

#[test]
fn the_home_of_root_does_not_come_from_the_environment() {
    if !support::is_root("the_home_of_root_does_not_come_from_the_environment", "") {
        return;
    }
    let lab = Lab::new();
    let mut command = lab.prepare(FSTRIAL);
    // The variables that `sudo -E` keeps. No file is made: the folder is only printed.
    command.args(["results", "list"]).env_remove("FSTRIAL_HOME").env("HOME", lab.root());
    command.env("XDG_DATA_HOME", lab.path("data"));
    let listed = Running::start(command).end(PATIENCE);
    let named = listed.stderr.contains("/var/lib/fstrial") || listed.code() == 0;
    assert!(named && !listed.stderr.contains(&lab.root().display().to_string()), "{listed:?}");
}

#[test]
fn a_users_filesystem_is_not_filled() {
    let lab = lab();
    let words = "compare dir:dirs/a dir:dirs/b --workload random-write --threads 1 --rounds 1 --set";
    let ended = lab.run(&format!("{words} workload.file_size=900TiB"));
    assert_eq!(ended.code(), 11, "{ended:?}");
    assert!(ended.stderr.contains("the load's files take 900 TiB"), "{ended:?}");
    assert!(ended.stderr.contains("a tenth is left free"), "{ended:?}");
}

#[test]
fn directory_error_names_arm_path_not_proc_path() {
    if !support::is_root("directory_error_names_arm_path_not_proc_path", "") {
        return;
    }
    let lab = lab();
    // There is room for bytes, and for no file.
    let script =
        "for d in a b; do mount -t tmpfs -o nr_inodes=4 none dirs/$d || exit 77; done; exec \"$0\" \"$@\"";
    let mut command = lab.prepare("unshare");
    command.args(["--mount", "sh", "-c", script, FSTRIAL]);
    command.args("compare dir:dirs/a dir:dirs/b --workload create-files --threads 1 --rounds 1".split(' '));
    let ended = Running::start(command).end(PATIENCE);
    if ended.code() == 77 {
        return support::skip("directory_error_names_arm_path_not_proc_path", "no namespace with tmpfs");
    }
    assert_eq!(ended.code(), 11, "{ended:?}");
    let named =
        ["a", "b"].map(|name| format!("{}/fstrial-run-", lab.path(&format!("dirs/{name}")).display()));
    assert!(named.iter().any(|path| ended.stderr.contains(path)), "{ended:?}");
    assert!(!ended.stderr.contains("/proc/"), "{ended:?}");
}

/// A disk that its owner unmounts while a trial runs can be taken out: no worker keeps it mounted.
#[test]
fn outside_unmount_propagates_to_workers() {
    let name = "outside_unmount_propagates_to_workers";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let disk = lab.path("disk");
    fs::create_dir(&disk).unwrap();
    let script = "mount -t tmpfs none \"$0\" && exec \"$@\"";
    let mut command = lab.prepare("unshare");
    command.args(["--mount", "--propagation", "shared", "sh", "-c", script, disk.to_str().unwrap(), FSTRIAL]);
    command.args(format!("compare ext4 xfs {} --rounds 2 --json", support::SMALL).split_whitespace());
    let mut running = Running::start(command);
    while running.event().is_some_and(|event| event["stage"] != "load") {}
    let mut workers = vec![running.pid()];
    for next in 0.. {
        let Some(pid) = workers.get(next) else { break };
        workers.extend(support::children_of(*pid));
    }
    assert!(workers.len() > 2, "a worker and what started it: {workers:?}");
    let has_it = |pid: &u32| {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        table.contains(disk.to_str().unwrap())
    };
    assert!(workers.iter().all(has_it), "they began with it");
    let outside = running.pid().to_string();
    support::tool("nsenter", &["--mount", "--target", &outside, "umount", disk.to_str().unwrap()]);
    assert!(!workers.iter().any(has_it));
    // A mount at the workers' mount points does not cover them.
    for folder in ["/mnt", "/media", "/srv"].into_iter().filter(|folder| Path::new(folder).is_dir()) {
        support::tool("nsenter", &["--mount", "--target", &outside, "mount", "-t", "tmpfs", "none", folder]);
    }
    let ended = running.end(PATIENCE);
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert_eq!(ended.document()["failures"], json!([]), "{ended:?}");
    lab.assert_nothing_left(name);
}

/// A root that is not a mount point, as in a chroot, with the host's mounts that a trial needs below it.
const IN_CHROOT: &str = "set -e; root=$1; shift; \
    for folder in usr etc dev proc sys work mnt; do mkdir -p \"$root/$folder\"; done; \
    for link in bin sbin lib lib64; do [ -L /$link ] && ln -s usr/$link \"$root/$link\"; done; \
    for folder in usr etc dev proc sys; do mount --rbind /$folder \"$root/$folder\"; done; \
    mount --bind \"$2\" \"$root/work\"; cp \"$1\" \"$root/fstrial\"; shift 2; \
    exec chroot \"$root\" /fstrial \"$@\"";

#[test]
fn trial_runs_when_root_is_not_mount_point() {
    if !support::is_root_with_loop_devices("trial_runs_when_root_is_not_mount_point") {
        return;
    }
    if !["/bin", "/sbin", "/lib"].iter().all(|link| Path::new(link).is_symlink()) {
        return support::skip("trial_runs_when_root_is_not_mount_point", "this system has no merged /usr");
    }
    let lab = Lab::new();
    let (root, work) = (lab.path("root"), lab.path("work"));
    for folder in [&root, &work] {
        fs::create_dir(folder).unwrap();
    }
    let mut command = lab.prepare("unshare");
    command.args(["--mount", "--propagation", "slave", "--", "sh", "-c", IN_CHROOT, "sh"]);
    command.args([root.as_path(), Path::new(FSTRIAL), &work]).args([
        "compare",
        "ext4",
        "b=ext4",
        "--workload",
        "random-write",
        "--set",
        "workload.file_size=16MiB",
        "--threads",
        "1",
        "--duration",
        "50ms",
        "--set",
        "workload.warmup=10ms",
        "--set",
        "device.size=64MiB",
        "--device",
        "image:/work",
        "--rounds",
        "2",
        "--home",
        "/work/home",
        "--no-page",
        "--json",
    ]);
    // The tests of clusters make named network namespaces at any time, and `ip` mounts their folder.
    let mounts = || {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().filter(|line| !line.contains(" /run/netns")).map(String::from).collect::<Vec<_>>()
    };
    let before = mounts();
    let ended = Running::start(command).end(PATIENCE);
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    assert_eq!(ended.document()["rounds"], 2);
    assert_eq!(mounts(), before, "its mounts show outside");
}
