//! Foreign ledgers and homes: they must not cause changes outside, and one bad entry must not keep the others from
//! being undone.

use super::Case;
use crate::{
    child::{self, Ended},
    lab::Lab,
};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
    process::Stdio,
    time::Duration,
};

pub(super) const CASES: [Case; 17] = [
    ("zram-device-of-somebody-else", other_zram),
    ("attribute-outside-sysfs", outside_sysfs),
    ("attribute-of-another-kind", other_attribute),
    ("attribute-at-the-start-of-a-trial", at_the_start),
    ("folder-of-another-name", |lab| other_folder(lab, "precious")),
    ("folder-through-a-link", folder_through_a_link),
    ("group-of-another-name", other_group),
    ("half-an-entry", |lab| beside_another(lab, br#"{"owner":{"pid":1"#)),
    ("entry-of-a-newer-version", |lab| beside_another(lab, entry(r#""undo":"make-coffee""#).as_bytes())),
    ("entry-that-is-no-text", |lab| beside_another(lab, &[0xff; 300])),
    ("entry-that-is-a-fifo", |lab| special(lab, |path| child::tool("mkfifo", &[path]).map(drop))),
    ("entry-that-leads-to-zeroes", |lab| {
        special(lab, |path| symlink("/dev/zero", path).map_err(|e| e.to_string()))
    }),
    ("entry-that-is-a-folder", |lab| special(lab, |path| fs::create_dir(path).map_err(|e| e.to_string()))),
    ("home-of-somebody-else", |lab| not_believed(lab, |home| chown(home, Some(65534), None))),
    ("home-that-all-may-write", |lab| {
        not_believed(lab, |home| fs::set_permissions(home, fs::Permissions::from_mode(0o777)))
    }),
    ("files-of-the-home-that-are-links", links_in_the_home),
    ("trial-of-another-process-namespace", another_namespace),
];

/// An entry of a process of this boot that is gone.
fn entry(undo: &str) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace = namespace.to_string_lossy().replace("pid:[", "").replace(']', "");
    let owner = format!(
        r#"{{"pid":4194303,"started":1,"boot":"{}","namespace":{namespace},"machine":"here"}}"#,
        boot.trim()
    );
    format!(r#"{{"owner":{owner},"at":1,{undo}}}"#)
}

/// Puts an entry into the ledger.
fn plant(lab: &Lab, name: &str, text: impl AsRef<[u8]>) {
    fs::create_dir_all(lab.home().join("ledger")).expect("a folder can be made");
    fs::set_permissions(lab.home(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    lab.write(&format!("home/ledger/{name}"), text);
}

fn cleaned(lab: &Lab) -> Result<Ended, String> {
    let ended =
        child::run(&mut lab.behind(&["prlimit", "--as=1073741824"], "clean"), Duration::from_secs(30));
    match ended.fault() {
        Some(fault) => Err(fault),
        None => Ok(ended),
    }
}

/// A restored attribute may not be a file anywhere else, even if its path begins like one of the kernel's.
fn outside_sysfs(lab: &Lab) -> Result<(), String> {
    let victim = lab.write("victim", "before");
    let undo = format!(r#""undo":"restore-attribute","path":"/sys/..{}","value":"after""#, victim.display());
    plant(lab, "1-1-1-1.json", entry(&undo));
    cleaned(lab)?;
    unchanged(&victim)
}

fn unchanged(victim: &Path) -> Result<(), String> {
    match fs::read_to_string(victim).as_deref() {
        Ok("before") => Ok(()),
        other => Err(format!("a file outside was written: {other:?}")),
    }
}

fn at_the_start(lab: &Lab) -> Result<(), String> {
    let victim = lab.write("victim", "before");
    let undo = format!(r#""undo":"restore-attribute","path":"/sys/..{}","value":"after""#, victim.display());
    plant(lab, "1-1-1-1.json", entry(&undo));
    let words = "compare a=dir:dirs/a b=dir:dirs/b --workload random-write --set workload.file_size=1MiB --threads 1 --duration 50ms \
                 --set workload.warmup=20ms --rounds 1 --json --no-page";
    let ended = lab.run(words);
    unchanged(&victim)?;
    ended.fault().map_or(Ok(()), Err)
}

/// Only settings that the program changes are restored.
fn other_attribute(lab: &Lab) -> Result<(), String> {
    let disk = lab.disk("disk.img", 8)?;
    let attribute = crate::lab::sysfs(&disk.path).join("queue/max_sectors_kb");
    let before = fs::read_to_string(&attribute).map_err(|e| e.to_string())?;
    let undo = format!(r#""undo":"restore-attribute","path":"{}","value":"64""#, attribute.display());
    plant(lab, "1-1-1-1.json", entry(&undo));
    cleaned(lab)?;
    let after = fs::read_to_string(&attribute).map_err(|e| e.to_string())?;
    if after == before { Ok(()) } else { Err(format!("{} was {before}, is {after}", attribute.display())) }
}

fn other_folder(lab: &Lab, name: &str) -> Result<(), String> {
    let victim = lab.write(&format!("{name}/file"), "before");
    let undo = format!(r#""undo":"remove-folder","path":"{}""#, lab.path(name).display());
    plant(lab, "1-1-1-1.json", entry(&undo));
    cleaned(lab)?;
    unchanged(&victim)
}

fn folder_through_a_link(lab: &Lab) -> Result<(), String> {
    let victim = lab.write("precious/file", "before");
    let link = lab.path("fstrial-run-9");
    symlink(lab.path("precious"), &link).map_err(|e| e.to_string())?;
    let undo = format!(r#""undo":"remove-folder","path":"{}""#, link.display());
    plant(lab, "1-1-1-1.json", entry(&undo));
    cleaned(lab)?;
    unchanged(&victim)
}

fn other_group(lab: &Lab) -> Result<(), String> {
    let undo = format!(r#""undo":"remove-group","path":"{}""#, lab.path("dirs/a").display());
    plant(lab, "1-1-1-1.json", entry(&undo));
    cleaned(lab)?;
    if lab.path("dirs/a").is_dir() { Ok(()) } else { Err("a folder that is not a group was removed".into()) }
}

/// A device that another process added and has not set up yet, long after the author of the entry has died.
fn other_zram(lab: &Lab) -> Result<(), String> {
    let control = Path::new("/sys/class/zram-control");
    let existing: Vec<String> = crate::lab::names_in(Path::new("/sys/block"))
        .iter()
        .filter_map(|name| name.strip_prefix("zram").map(str::to_owned))
        .collect();
    let added = fs::read_to_string(control.join("hot_add")).map_err(super::skipped)?;
    let device = Path::new("/sys/block").join(format!("zram{}", added.trim()));
    let undo = format!(r#""undo":"remove-unused-zram","existing":[{}],"moment":1"#, existing.join(","));
    plant(lab, "1-1-1-1.json", entry(&undo));
    let cleaned = cleaned(lab);
    let is_there = device.exists();
    if is_there {
        fs::write(control.join("hot_remove"), added.trim()).map_err(|e| e.to_string())?;
    }
    cleaned?;
    if is_there { Ok(()) } else { Err("it was removed".into()) }
}

/// A folder to be deleted, in an entry next to an unreadable one.
fn good_entry(lab: &Lab) -> std::path::PathBuf {
    let folder = lab.path("dirs/a/fstrial-run-7");
    fs::create_dir_all(&folder).expect("a folder can be made");
    plant(lab, "0-0-0-0.json", entry(&format!(r#""undo":"remove-folder","path":"{}""#, folder.display())));
    folder
}

/// The others are undone, and the exit code reports the incomplete undo.
fn others_are_undone(lab: &Lab, folder: &Path) -> Result<(), String> {
    let ended = cleaned(lab)?;
    if folder.exists() {
        return Err(format!("nothing else was undone ({}): {}", ended.status, ended.last_words()));
    }
    match ended.code() {
        Some(13) => Ok(()),
        code => Err(format!("what was left alone ends with {code:?}: {}", ended.last_words())),
    }
}

fn beside_another(lab: &Lab, bad: &[u8]) -> Result<(), String> {
    let folder = good_entry(lab);
    plant(lab, "1-1-1-1.json", bad);
    others_are_undone(lab, &folder)
}

fn special(lab: &Lab, make: fn(&str) -> Result<(), String>) -> Result<(), String> {
    let folder = good_entry(lab);
    make(&lab.home().join("ledger/1-1-1-1.json").display().to_string())?;
    others_are_undone(lab, &folder)
}

/// Anyone who may write the home could have root do anything: it is not worked with.
fn not_believed(lab: &Lab, spoil: fn(&Path) -> std::io::Result<()>) -> Result<(), String> {
    let folder = good_entry(lab);
    spoil(&lab.home()).map_err(|e| e.to_string())?;
    let ended = cleaned(lab)?;
    if !folder.exists() {
        return Err("a ledger writable by others was trusted".into());
    }
    if ended.code() == Some(0) { Err("it ended as if all were well".into()) } else { Ok(()) }
}

fn links_in_the_home(lab: &Lab) -> Result<(), String> {
    fs::create_dir_all(lab.home()).map_err(|e| e.to_string())?;
    for name in ["lock", "results.db"] {
        symlink(lab.path(&format!("elsewhere-{name}")), lab.home().join(name)).map_err(|e| e.to_string())?;
    }
    let words = "compare a=dir:dirs/a b=dir:dirs/b --workload random-write --set workload.file_size=1MiB --threads 1 --duration 50ms \
                 --set workload.warmup=20ms --rounds 1 --json --no-page";
    let ended = lab.run(words);
    for name in ["lock", "results.db"] {
        if lab.path(&format!("elsewhere-{name}")).exists() {
            return Err(format!("a file was made where the link {name} leads"));
        }
    }
    ended.fault().map_or(Ok(()), Err)
}

/// A trial in a separate process namespace: its process numbers mean nothing here, but it is alive.
fn another_namespace(lab: &Lab) -> Result<(), String> {
    let words = "compare a=dir:dirs/a b=dir:dirs/b --workload random-write --set workload.file_size=4MiB --threads 1 --duration 30s \
                 --rounds 2 --budget 1m --json --no-page";
    let mut command = lab.behind(&["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"], words);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(super::skipped)?;
    // Arms are inspected first, in short-lived folders; that of a run is there for half a minute.
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let result = match lines.find(|line| line.contains(r#""stage":"load""#)) {
        None => Err(super::skipped("no trial could be started in a process namespace")),
        Some(_) => {
            let folders = || ["dirs/a", "dirs/b"].map(|name| crate::lab::names_in(&lab.path(name))).concat();
            let before = folders();
            let cleaned = lab.run("clean");
            match !before.is_empty() && folders() == before {
                true => Ok(()),
                false => Err(format!("the folder of a live trial was deleted: {}", cleaned.last_words())),
            }
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    // It takes down its work itself, and its death is unknown to others.
    for name in ["dirs/a", "dirs/b"] {
        child::eventually(Duration::from_secs(5), || {
            fs::remove_dir_all(lab.path(name)).is_ok() || !lab.path(name).exists()
        });
    }
    result
}
