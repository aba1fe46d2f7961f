//! Shortages: memory, descriptors, space, the kernel's files, a reader. The program reports the shortage, with its exit
//! code, and leaves nothing behind.

use crate::{
    child::{self, Ended},
    lab::{Lab, PATIENCE, Subject},
    table::Area,
};
use fstrial_store::Store;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    panic::{self, AssertUnwindSafe},
    process::{Command, Stdio},
    time::Duration,
};

const SHORT: &str = "compare a=dir:dirs/a b=dir:dirs/b --workload random-write --set workload.file_size=1MiB --threads 1 \
                     --duration 50ms --set workload.warmup=20ms --rounds 2 --json --no-page";
const LONG: &str = "compare a=dir:dirs/a b=dir:dirs/b --workload random-write --set workload.file_size=1MiB --threads 1 \
                    --duration 200ms --set workload.warmup=20ms --rounds 12 --json --no-page";
const IMAGE: &str = "compare a=ext4 b=ext4 --workload random-write --set workload.file_size=1MiB --threads 1 --set device.size=64MiB \
                     --device image:images --duration 50ms --set workload.warmup=20ms --rounds 2 --json --no-page";

/// A case beyond a scene.
type Case = (&'static str, fn(&Lab) -> Result<(), String>);

/// A scene: the command started before the program (`{lab}` is the folder), the arguments, and the allowed exit codes.
struct Scene {
    name: &'static str,
    before: &'static [&'static str],
    words: &'static str,
    codes: &'static [i32],
}

/// `before` may be a shell in a mount namespace that sets the scene.
const fn scene(
    name: &'static str,
    before: &'static [&'static str],
    words: &'static str,
    codes: &'static [i32],
) -> Scene {
    Scene { name, before, words, codes }
}

const SCENES: [Scene; 21] = [
    // Of its data, in MiB: the code of a build without optimisation is 60 MiB and grows with every command.
    scene("memory-16-list", &["prlimit", "--data=16777216"], "results list", &[0, 2, 10, 11, 14]),
    scene("memory-16-plan", &["prlimit", "--data=16777216"], "compare ext4 xfs --dry-run", &[0, 2, 10, 11]),
    scene("memory-24-trial", &["prlimit", "--data=25165824"], SHORT, &[0, 2, 3, 10, 11, 14]),
    scene("descriptors-8", &["prlimit", "--nofile=8"], SHORT, &[0, 2, 3, 10, 11, 14]),
    scene("descriptors-12", &["prlimit", "--nofile=12"], SHORT, &[0, 2, 3, 10, 11, 14]),
    scene("descriptors-16-image", &["prlimit", "--nofile=16"], IMAGE, &[0, 2, 3, 10, 11, 14]),
    scene("file-size-16k", &["prlimit", "--fsize=16384"], SHORT, &[14]),
    scene("file-size-512k", &["prlimit", "--fsize=524288"], SHORT, &[10, 11, 14]),
    scene(
        "no-core-no-locks",
        &["prlimit", "--core=0", "--memlock=0", "--stack=1048576"],
        SHORT,
        &[0, 3, 10, 11],
    ),
    scene(
        "home-full",
        &[
            "unshare",
            "--mount",
            "sh",
            "-c",
            "mkdir -p home && mount -t tmpfs -o size=64k,mode=700 none home && exec \"$0\" \"$@\"",
        ],
        SHORT,
        &[14],
    ),
    scene(
        "home-fills",
        &[
            "unshare",
            "--mount",
            "sh",
            "-c",
            "mkdir -p home && mount -t tmpfs -o size=400k,mode=700 none home && exec \"$0\" \"$@\"",
        ],
        LONG,
        &[0, 3, 14],
    ),
    scene(
        "home-read-only",
        &[
            "unshare",
            "--mount",
            "sh",
            "-c",
            "mkdir -p home && mount -t tmpfs -o ro,mode=700 none home && exec \"$0\" \"$@\"",
        ],
        SHORT,
        &[2, 10, 11],
    ),
    scene(
        "no-proc",
        &["unshare", "--mount", "sh", "-c", "umount -l /proc && exec \"$0\" \"$@\""],
        SHORT,
        &[0, 2, 3, 10, 11],
    ),
    scene(
        "no-proc-image",
        &["unshare", "--mount", "sh", "-c", "umount -l /proc && exec \"$0\" \"$@\""],
        IMAGE,
        &[2, 10, 11],
    ),
    scene(
        "no-sys-image",
        &["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /sys && exec \"$0\" \"$@\""],
        IMAGE,
        &[2, 10, 11, 12],
    ),
    scene(
        "no-loop-control",
        &["unshare", "--mount", "sh", "-c", "mount --bind /dev/null /dev/loop-control && exec \"$0\" \"$@\""],
        IMAGE,
        &[2, 10, 11],
    ),
    scene(
        "no-tools",
        &[
            "unshare",
            "--mount",
            "sh",
            "-c",
            "mount -t tmpfs none /usr/sbin; mount -t tmpfs none /sbin; exec \"$0\" \"$@\"",
        ],
        IMAGE,
        &[2, 10, 11],
    ),
    scene("nobody-listens-full", &["sh", "-c", "exec \"$0\" \"$@\" > /dev/full"], SHORT, &[15]),
    scene("nobody-listens-closed", &["sh", "-c", "exec \"$0\" \"$@\" >&-"], SHORT, &[15]),
    scene("no-standard-error", &["sh", "-c", "exec \"$0\" \"$@\" 2>&-"], SHORT, &[0, 3]),
    scene("no-environment", &["env", "-i", "PATH=/nowhere"], "results list", &[0, 2, 10, 11, 14]),
];

/// Sets every scene.
pub(crate) fn attack(subject: &Subject) -> Area {
    let mut area = Area::of("starve", subject);
    if !rustix::process::geteuid().is_root() {
        area.skip("all", "needs root");
        return area.finish();
    }
    for scene in SCENES.iter().filter(|scene| subject.wants(scene.name)) {
        let (lab, ended) = ends(subject, scene);
        let again = format!("cargo xtask attack starve --only {}", scene.name);
        area.tried(scene.name, fares_well(&ended, scene.codes, &lab), &again);
    }
    let cases: [Case; 4] = [
        // The first takes half a minute.
        ("store-locked", store_locked),
        ("store-deleted", store_deleted),
        ("home-deleted", home_deleted),
        ("disk-image-does-not-fit", does_not_fit),
    ];
    for (name, case) in
        cases.into_iter().filter(|(name, _)| subject.wants(name)).skip(usize::from(subject.small))
    {
        let result = panic::catch_unwind(AssertUnwindSafe(|| case(&Lab::new(subject))));
        let result = result.unwrap_or_else(|_| Err("the attack itself failed".into()));
        area.tried(name, result, &format!("cargo xtask attack starve --only {name}"));
    }
    area.finish()
}

/// The end of a scene. If the disk does nothing for a whole run, as on a busy machine, it is repeated.
fn ends(subject: &Subject, scene: &Scene) -> (Lab, Ended) {
    let once = || {
        let lab = Lab::new(subject);
        let ended = child::run(&mut lab.behind(scene.before, scene.words), PATIENCE);
        (lab, ended)
    };
    let is_stall = |(_, ended): &(Lab, Ended)| ended.stdout.contains("no operation was completed in");
    let first = once();
    if is_stall(&first) { once() } else { first }
}

/// It ended with one of these codes, gave a reason if it failed, and its leftovers can be cleaned.
fn fares_well(ended: &Ended, codes: &[i32], lab: &Lab) -> Result<(), String> {
    if let Some(fault) = ended.fault() {
        return Err(fault);
    }
    let code = ended.code().unwrap_or(-1);
    if !codes.contains(&code) {
        return Err(format!("exit code {code}: {}", ended.last_words()));
    }
    if ![0, 3].contains(&code) && !ended.stderr.contains("error") {
        return Err(format!("ends with {code} and does not say why: {}", ended.last_words()));
    }
    let clean = || lab.run("clean").code() == Some(0) && lab.ledger().is_empty();
    match child::eventually(Duration::from_secs(30), clean) {
        true => Ok(()),
        false => Err(format!("left: {:?}", lab.ledger())),
    }
}

/// Starts a trial, waits until a run has ended, does something, and waits for its end.
fn in_flight(lab: &Lab, act: impl FnOnce()) -> Ended {
    let began = std::time::Instant::now();
    let mut command: Command = lab.fstrial(LONG);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let stderr = child.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let _ = lines.find(|line| line.contains("\"run-ended\""));
    act();
    let stdout = std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
    let complaints = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let (status, hung) = child::wait(&mut child, PATIENCE);
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), complaints.join().unwrap_or_default());
    let written = (stdout.len() + stderr.len()) as u64;
    Ended { status, stdout, stderr, written, time: began.elapsed(), hung }
}

/// Results that are gone at the end are reported as lost.
fn store_deleted(lab: &Lab) -> Result<(), String> {
    let home = lab.home();
    let ended = in_flight(lab, || {
        for ending in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(home.join(format!("results.db{ending}")));
        }
    });
    fares_well(&ended, &[14], lab)
}

fn home_deleted(lab: &Lab) -> Result<(), String> {
    let home = lab.home();
    let ended = in_flight(lab, || drop(fs::rename(&home, home.with_file_name("gone"))));
    let result = fares_well(&ended, &[12, 14], lab);
    let _ = fs::remove_dir_all(&home);
    let _ = fs::rename(home.with_file_name("gone"), &home);
    result
}

/// The store is locked for longer than the limit: that is not a fault of the program.
fn store_locked(lab: &Lab) -> Result<(), String> {
    fs::create_dir_all(lab.home()).map_err(|e| e.to_string())?;
    let path = lab.home().join("results.db");
    drop(Store::open(&path).map_err(|e| e.to_string())?);
    let holder = rusqlite::Connection::open(&path).map_err(|e| e.to_string())?;
    holder.execute_batch("BEGIN EXCLUSIVE").map_err(|e| e.to_string())?;
    let ended = lab.run(SHORT);
    drop(holder);
    fares_well(&ended, &[14], lab)
}

fn does_not_fit(lab: &Lab) -> Result<(), String> {
    File::create(lab.path("x")).map_err(|e| e.to_string())?;
    fares_well(&lab.run(&IMAGE.replace("64MiB", "900TiB")), &[2, 10, 11], lab)
}
