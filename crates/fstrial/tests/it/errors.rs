//! Error messages as users see them: exit code and text, as snapshots without the parts that differ between machines.
//! `INSTA_UPDATE=always cargo test -p fstrial --test it errors` updates them.

use crate::support::{self, Ended, FSTRIAL, Lab, PATIENCE, Running, SMALL};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// The terminal output and the exit code.
fn shown(lab: &Lab, words: &str, ended: &Ended) -> String {
    let mut text = format!("$ fstrial {words}\n{}", ended.stderr.trim_end());
    if !ended.stdout.is_empty() {
        text.push_str(&format!("\n[stdout]\n{}", ended.stdout.trim_end()));
    }
    lab.redact(&format!("{text}\n[exit {}]\n", ended.code()))
}

/// Runs a command that must fail with this code and leave nothing behind; returns its output.
fn fails(lab: &Lab, code: i32, words: &str) -> String {
    let ended = lab.run(words);
    assert_eq!(ended.code(), code, "{ended:?}");
    lab.assert_nothing_left(words);
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
    shown(lab, words, &ended)
}

/// A snapshot with this name.
fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The messages of other programs, quoted in ours, differ with their version.
fn without_the_programs_words(text: &str) -> String {
    let Some((before, rest)) = text.split_once("(exit status: ") else { return text.to_owned() };
    let (_, after) = rest.split_once("\ntry:").unwrap_or(("", ""));
    format!("{before}(exit status: …): [ITS WORDS]\ntry:{after}")
}

/// For cases where only the text is fixed.
fn without_the_code(text: &str) -> String {
    text.split_once("\n[exit").map_or(text, |(words, _)| words).to_owned()
}

/// A small trial on an image of this lab, valid except for these words.
fn compare(words: &str) -> String {
    format!("compare {words} {SMALL} --device image:images -q")
}

#[test]
fn wrong_flags_and_lines_of_a_file() {
    let lab = Lab::new();
    let flags = "--workload random-write";
    for (name, words) in [
        ("unknown-flag", format!("compare ext4 xfs {flags} --bugdet 1m")),
        ("set-without-a-section", format!("compare ext4 xfs {flags} --set members=4")),
        ("set-an-unknown-section", format!("compare ext4 xfs {flags} --set devices.members=4")),
        ("set-an-unknown-key", format!("compare ext4 xfs {flags} --set device.member=4")),
        ("set-what-is-a-flag", format!("compare ext4 xfs {flags} --set trial.rounds=4")),
        ("set-a-key-without-its-section", format!("compare ext4 xfs {flags} --set memory=1GiB")),
        ("home-before-the-command", "--home folder compare ext4 xfs".to_owned()),
        ("key-as-a-flag", format!("compare ext4 xfs {flags} --rate 500/s")),
        ("set-a-device", format!("compare ext4 xfs {flags} --set device.path=/dev/null")),
        (
            "set-a-wrong-value",
            format!("compare ext4 xfs {flags} --set device.members=4 --set device.raid=raid5"),
        ),
    ] {
        snapshot(name, &fails(&lab, 2, &words));
    }
}

#[test]
fn rejects_invalid_arguments() {
    let lab = Lab::new();
    let flags = "--workload random-write";
    for (name, words) in [
        ("unknown-filesystem", format!("compare ext4 xsf {flags}")),
        ("unknown-device", format!("compare ext4 xfs {flags} --device imgae")),
        ("unknown-workload", "compare ext4 xfs --workload random-wriet".to_owned()),
        ("one-arm", format!("compare ext4 {flags}")),
        ("same-name-twice", format!("compare a=ext4 a=xfs {flags}")),
        ("bad-size", format!("compare ext4 xfs {flags} --set device.size=3parsecs")),
        ("too-short-a-run", format!("compare ext4 xfs {flags} --duration 1ms")),
        ("unknown-baseline", format!("compare ext4 xfs {flags} --baseline btrfs")),
        ("mkfs-option-that-reads-a-folder", format!("compare ext4 ext4:-dclass {flags}")),
        ("mkfs-word-that-names-a-file", format!("compare ext4 xfs:-dagcount=4\\,file {flags}")),
        ("mount-option-that-panics", format!("compare ext4 ext4:errors=panic {flags}")),
        ("discards-into-an-image", format!("compare ext4 xfs:discard=on {flags}")),
        ("log-without-a-device", format!("compare ext4 xfs:log=external {flags}")),
        ("log-of-btrfs", format!("compare ext4 btrfs:log=external {flags} --set log_device.kind=ramdisk")),
        ("log-device-without-a-log", format!("compare ext4 xfs {flags} --set log_device.kind=ramdisk")),
        (
            "log-device-too-large",
            format!(
                "compare ext4 xfs:log=external {flags} --set log_device.kind=ramdisk --set log_device.size=2GiB"
            ),
        ),
        ("members-and-ext4", format!("compare ext4 btrfs {flags} --set device.members=4")),
        (
            "profile-of-too-few",
            format!("compare btrfs a=btrfs:profile=raid10 {flags} --set device.members=2"),
        ),
        (
            "array-of-too-few",
            format!("compare ext4 xfs {flags} --set device.members=2 --set device.raid=raid10"),
        ),
        ("precondition-of-an-image", format!("compare ext4 xfs {flags} --precondition")),
        ("erase-of-an-image", format!("compare ext4 xfs {flags} --erase /dev/null")),
        (
            "signature-of-a-ramdisk",
            format!("compare ext4 xfs {flags} --device ramdisk --erase-signature ext4 --dry-run"),
        ),
        (
            "scheduler-of-a-ramdisk",
            format!("compare ext4 a=ext4:scheduler=none {flags} --device ramdisk --dry-run"),
        ),
        ("stalls-that-are-too-rare", format!("compare ext4 xfs {flags} --set trial.stalls=0.5%")),
        ("erase-of-a-claim", "claims check closson-2012 --erase /dev/null --dry-run".to_owned()),
        ("model-without-its-word", format!("compare ext4 xfs {flags} --device gp3-300")),
        ("disk-without-its-word", format!("compare ext4 xfs {flags} --device /dev/null")),
        ("filesystem-that-is-not-made", format!("compare ext4 zfs {flags}")),
        ("filesystem-of-the-future", format!("compare ext4 ext5 {flags}")),
        ("folder-without-its-word", format!("compare images xfs {flags}")),
        ("arms-in-one-word", format!("compare ext4,xfs {flags}")),
        ("number-for-a-file", "run 4".to_owned()),
        ("word-for-a-number", "resume abc".to_owned()),
        ("no-threads", format!("compare ext4 xfs {flags} --threads 0")),
        ("threads-in-words", format!("compare ext4 xfs {flags} --threads abc")),
        ("state-that-is-none", format!("compare ext4 xfs {flags} --state old:50%")),
        ("directories-on-a-ramdisk", format!("compare a=dir:images b=dir:images {flags} --device ramdisk")),
        ("directory-that-is-missing", format!("compare dir:images dir:nosuch {flags}")),
        ("unknown-application", "compare ext4 xfs --workload postgras".to_owned()),
        ("rate-of-a-program", "compare ext4 xfs -w random-read,postmark --find-rate p99<5ms".to_owned()),
        (
            "members-of-a-model",
            format!("compare ext4 xfs {flags} --device model:gp3-3000 --set device.members=4"),
        ),
        ("check-of-directories", format!("compare a=dir:images b=dir:images {flags} --set trial.fsck=true")),
        ("save-and-answer", format!("compare ext4 xfs {flags} --save -")),
        ("disk-without-erase", format!("compare ext4 xfs {flags} --device disk")),
        ("directory-among-filesystems", format!("compare ext4 dir:images {flags}")),
    ] {
        snapshot(name, &fails(&lab, 2, &words));
    }
    assert!(!lab.home().exists(), "what is wrong in itself touches nothing");
}

#[test]
fn rejects_filesystem_missing_from_kernel() {
    let name = "rejects_filesystem_missing_from_kernel";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    if fs::read_to_string("/proc/filesystems").unwrap().contains("nilfs2") {
        return support::skip(name, "this kernel has nilfs2");
    }
    snapshot("filesystem-unknown-to-the-kernel", &fails(&lab, 10, &compare("ext4 nilfs2")));
}

#[test]
fn reports_refused_mkfs_and_mount_options() {
    let name = "reports_refused_mkfs_and_mount_options";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    for (name, arms, its_words) in [
        ("mount-option-refused", "ext4 xfs:nonsense", "Unknown parameter 'nonsense'"),
        ("mount-option-misspelt", "xfs ext4:noatim", "did you mean `noatime`?"),
        ("mount-option-with-a-bad-value", "xfs ext4:data=jornal", "did you mean `data=journal`?"),
        ("mkfs-value-refused", "ext4 ext4:-Nmany", "inodes"),
        ("mkfs-option-refused", "ext4 xfs:-mbogus=1", "bogus"),
    ] {
        let text = fails(&lab, 11, &compare(arms));
        assert!(text.contains(its_words), "the user learns why: {text}");
        snapshot(name, &without_the_programs_words(&text));
    }
    snapshot("unknown-scheduler", &fails(&lab, 11, &compare("ext4 xfs:scheduler=nonesuch")));
}

#[test]
fn rejects_oversized_images_and_short_budgets() {
    let name = "rejects_oversized_images_and_short_budgets";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let large = "compare ext4 xfs --workload random-write --set device.size=900TiB --device image:images";
    snapshot("image-too-large", &fails(&lab, 11, large));
    let nowhere = "compare ext4 xfs --workload random-write --set device.size=320MiB --device image:nowhere";
    let ended = lab.run(nowhere);
    assert!([2, 11].contains(&ended.code()), "{ended:?}");
    snapshot("image-folder-missing", &shown(&lab, nowhere, &ended));
    snapshot("budget-too-short-for-a-verdict", &fails(&lab, 2, &compare("ext4 xfs --budget 1s")));
    let short = lab.run(&compare("ext4 xfs --budget 1s --anyway"));
    assert_eq!(short.code(), 3, "{short:?}");
    assert!(short.stdout.contains("use --budget"), "it says what would do: {short:?}");
    lab.assert_nothing_left("after a budget that was too small");
}

#[test]
fn refuses_to_erase_unsafe_disks() {
    let name = "refuses_to_erase_unsafe_disks";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let image = lab.path("disk.img");
    fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
    let device = Losetup::attach(&image);
    let path = device.0.clone();
    support::tool("mkfs.ext4", &["-q", &path]);
    let words = format!(
        "compare ext4 xfs --workload random-write --set workload.file_size=16MiB --device disk --erase {path}"
    );
    let signed = lab.run(&words);
    assert_eq!(signed.code(), 2, "{signed:?}");
    snapshot("disk-with-a-signature", &shown(&lab, &words, &signed));
    let point = lab.path("point");
    fs::create_dir(&point).unwrap();
    support::tool("mount", &[&path, point.to_str().unwrap()]);
    fs::write(point.join("precious"), "data").unwrap();
    let mounted = lab.run(&format!("{words} --erase-signature ext4"));
    let kept = fs::read_to_string(point.join("precious"));
    support::unmount(&point);
    assert_eq!(mounted.code(), 2, "{mounted:?}");
    assert_eq!(kept.unwrap(), "data");
    snapshot("disk-that-is-mounted", &shown(&lab, &words, &mounted));
    for (name, wrong) in
        [("disk-that-is-a-file", image.display().to_string()), ("disk-missing", "/dev/nonesuch".into())]
    {
        let words = format!("compare ext4 xfs --workload random-write --device disk --erase {wrong}");
        let refused = lab.run(&words);
        assert!([2, 11].contains(&refused.code()), "{refused:?}");
        snapshot(name, &shown(&lab, &words, &refused));
    }
    drop(device);
    let result = support::tool("blkid", &["-p", "-o", "value", "-s", "TYPE", image.to_str().unwrap()]);
    assert_eq!(result.trim(), "ext4", "nothing was erased");
}

/// A filesystem mounted from a loop device over the disk, at an offset beyond the signatures at the disk's beginning.
#[test]
fn refuses_to_erase_disk_under_loop_device() {
    let name = "refuses_to_erase_disk_under_loop_device";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let image = lab.path("disk.img");
    fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
    let disk = Losetup::attach(&image);
    let upper = Losetup::with(&["--find", "--show", "--offset", "128MiB", &disk.0]);
    support::tool("mkfs.ext4", &["-q", &upper.0]);
    let point = lab.path("point");
    fs::create_dir(&point).unwrap();
    support::tool("mount", &[&upper.0, point.to_str().unwrap()]);
    fs::write(point.join("precious"), "data".repeat(100_000)).unwrap();
    // Mounted so that it writes nothing itself.
    support::unmount(&point);
    support::tool("mount", &["-o", "ro,noload", &upper.0, point.to_str().unwrap()]);
    let before = fs::read(&image).unwrap();
    let path = &disk.0;
    let ended = lab.run(&format!(
        "compare ext4 xfs --workload random-write --set workload.file_size=16MiB --rounds 1 --device disk --erase {path}"
    ));
    let is_unchanged = fs::read(&image).unwrap() == before;
    let kept = fs::read_to_string(point.join("precious"));
    support::unmount(&point);
    assert!(is_unchanged, "the disk was written to: {ended:?}");
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert_eq!(kept.unwrap(), "data".repeat(100_000));
    let says =
        format!("{} uses the same data: it is on {path}, from byte 134217728", upper.0.replace("/dev/", ""));
    assert!(ended.stderr.contains(&says), "{ended:?}");
    assert!(ended.stderr.contains(&format!("losetup --detach {}", upper.0)), "{ended:?}");
    drop(upper);
    support::tool("fsck.ext4", &["-fn", &format!("{}?offset={}", image.display(), 128 << 20)]);
    drop(disk);
    lab.assert_nothing_left(name);
}

/// A loop device that no process holds open, like a disk; an open descriptor is another reason to refuse it.
struct Losetup(String);

impl Losetup {
    fn attach(file: &Path) -> Self {
        Self::with(&["--find", "--show", file.to_str().unwrap()])
    }

    fn with(words: &[&str]) -> Self {
        let device = Self(support::tool("losetup", words).trim().to_owned());
        // A device keeps this setting when its file is detached, no matter who made it.
        support::tool("blockdev", &["--setrw", &device.0]);
        device
    }
}

impl Drop for Losetup {
    fn drop(&mut self) {
        support::tool("losetup", &["--detach", &self.0]);
    }
}

#[test]
fn rejects_invalid_trial_and_workload_files() {
    let lab = Lab::new();
    let arms =
        "[[arm]]\nname = \"a\"\nfilesystem = \"ext4\"\n\n[[arm]]\nname = \"b\"\nfilesystem = \"xfs\"\n";
    for (name, text) in [
        ("file-with-a-wrong-key", format!("[trial]\nname = \"x\"\nbuget = \"1m\"\n\n{arms}")),
        ("file-with-a-wrong-filesystem", arms.replace("xfs", "xsf")),
        ("file-with-a-wrong-value", format!("[trial]\nbudget = \"soon\"\n\n{arms}")),
        ("file-with-a-wrong-workload", format!("{arms}\n[[workload]]\nuse = \"random-wriet\"\n")),
        ("file-that-is-not-toml", "arms: [ext4, xfs]\n".to_owned()),
        ("file-that-is-empty", String::new()),
    ] {
        lab.write("trial.toml", &text);
        snapshot(name, &fails(&lab, 2, "run trial.toml"));
    }
    snapshot("file-that-is-missing", &fails(&lab, 2, "run nowhere.toml"));
    for (name, text) in [
        ("workload-file-with-a-wrong-key", "kind = \"io\"\nblok_size = \"4KiB\"\n"),
        ("workload-file-with-a-wrong-type", "kind = \"io\"\nthreads = \"4\"\n"),
        ("workload-file-with-a-wrong-value", "kind = \"io\"\n\n# as many as there are\nthreads = [0]\n"),
    ] {
        lab.write("w.toml", text);
        snapshot(name, &fails(&lab, 2, "compare ext4 xfs --workload w.toml"));
    }
}

/// A hundred megabytes of garbage are refused immediately, in little memory.
#[test]
fn garbage_as_a_trial_file_is_refused_fast() {
    let lab = Lab::new();
    let mut noise = Vec::with_capacity(200 << 20);
    let mut dice = support::Dice::new(6);
    while noise.len() < 200 << 20 {
        noise.extend_from_slice(&dice.below(u64::MAX).to_le_bytes());
    }
    let text = vec![b'a'; 200 << 20];
    let brackets = vec![b'['; 1 << 20];
    for (name, bytes) in [("garbage-binary", noise), ("garbage-text", text), ("garbage-brackets", brackets)] {
        fs::write(lab.path("garbage.toml"), bytes).unwrap();
        let began = Instant::now();
        // Far below the size of the file: address space counts the program itself, too.
        let mut limited = lab.prepare("prlimit");
        limited.args(["--as=134217728", FSTRIAL, "run", "garbage.toml"]);
        let ended = Running::start(limited).end(PATIENCE);
        assert_eq!(ended.code(), 2, "{name}: {}", ended.stderr);
        assert!(began.elapsed() < Duration::from_secs(60), "{name}: {:?}", began.elapsed());
        assert!(
            name == "garbage-brackets" || ended.stderr.len() < 4096,
            "{name}: an error is a page at most: {} bytes",
            ended.stderr.len()
        );
        if name != "garbage-brackets" {
            snapshot(name, &shown(&lab, "run garbage.toml", &ended));
        }
    }
}

#[test]
fn job_files_of_trial_files() {
    let lab = Lab::new();
    let arm = |name: &str| format!("[[arm]]\nname = \"{name}\"\nfilesystem = \"dir\"\npath = \"images\"\n\n");
    let arms = arm("a") + &arm("b");
    lab.write("t.toml", &format!("{arms}[[workload]]\nfio = \"job.fio\"\n"));
    lab.write("w.toml", "fio = \"job.fio\"\n");
    for link in ["link.fio", "link.toml"] {
        std::os::unix::fs::symlink("/etc/passwd", lab.path(link)).unwrap();
    }
    snapshot("trial-with-a-missing-job-file", &fails(&lab, 2, "run t.toml"));
    for (file, key) in
        [("/etc/passwd", "fio"), ("../job.fio", "fio"), ("link.fio", "fio"), ("link.toml", "model")]
    {
        let section = if key == "fio" {
            "[[workload]]"
        } else {
            "[[workload]]\nuse = \"append-fsync\"\n[device]\nkind = \"model\""
        };
        lab.write("elsewhere.toml", &format!("{arms}{section}\n{key} = \"{file}\"\n"));
        let message = fails(&lab, 2, "run elsewhere.toml --dry-run");
        assert!(message.contains("is not read: ") && !message.contains("root:"), "{message}");
    }
    support::tool("mkfifo", &[lab.path("job.fio").to_str().unwrap()]);
    snapshot("trial-with-a-pipe-for-a-job-file", &fails(&lab, 2, "run t.toml"));
    fs::remove_file(lab.path("job.fio")).unwrap();
    fs::write(lab.path("job.fio"), vec![b';'; 2 << 20]).unwrap();
    snapshot("trial-with-a-huge-job-file", &fails(&lab, 2, "run t.toml"));
    lab.write("job.fio", "[a]\nrw=write\nsize=1m\nexec_prerun=touch /tmp/x\n");
    snapshot("trial-with-a-refused-job-file", &fails(&lab, 2, "run t.toml"));
    snapshot("workload-file-with-a-job-file", &fails(&lab, 2, "compare ext4 xfs --workload w.toml"));
    assert!(lab.trials().is_empty());
}

#[test]
fn reports_missing_homes_stores_and_trials() {
    let lab = Lab::new();
    snapshot("results-without-a-store", &fails(&lab, 2, "results"));
    fs::create_dir_all(lab.home()).unwrap();
    drop(fstrial_store::Store::open(lab.home().join("results.db")).unwrap());
    snapshot("resume-without-anything-to-resume", &fails(&lab, 2, "resume"));
    for (name, words) in
        [("resume-of-an-unknown-trial", "resume 77"), ("show-of-an-unknown-trial", "report 77 --format text")]
    {
        let ended = lab.run(words);
        assert_ne!(ended.code(), 0, "{ended:?}");
        snapshot(name, &without_the_code(&shown(&lab, words, &ended)));
    }
    let words = "compare dir:images dir:/tmp --home /proc/nothing";
    let ended = lab.run(words);
    assert!([1, 2, 10].contains(&ended.code()), "{ended:?}");
    snapshot("home-that-cannot-be-made", &shown(&lab, words, &ended));
    fs::create_dir_all(lab.home()).unwrap();
    for end in ["results.db-wal", "results.db-shm"] {
        let _ = fs::remove_file(lab.home().join(end));
    }
    lab.write("home/results.db", "this is not a database, but what somebody else keeps here");
    let ended = lab.run("results");
    assert_ne!(ended.code(), 0);
    snapshot("store-that-is-none", &without_the_code(&shown(&lab, "results", &ended)));
    let kept = fs::read_to_string(lab.path("home/results.db")).unwrap();
    assert!(kept.starts_with("this is not a database"), "it is not touched");
}

#[test]
fn judge_rejects_invalid_rows() {
    let lab = Lab::new();
    for (name, text) in [
        ("judge-without-a-header", "1,a,2\n1,b,3\n"),
        ("judge-with-a-word-for-a-value", "round,arm,value\n1,a,many\n"),
        ("judge-with-a-negative-value", "round,arm,value\n1,a,1\n1,b,-1\n"),
        ("judge-with-a-value-twice", "round,arm,value\n1,a,1\n1,a,2\n"),
        ("judge-with-one-arm", "round,arm,value\n1,a,1\n2,a,2\n"),
        ("judge-with-nothing", ""),
    ] {
        lab.write("pairs.csv", text);
        snapshot(name, &fails(&lab, 2, "judge pairs.csv"));
    }
    snapshot("judge-of-a-missing-file", &fails(&lab, 2, "judge nowhere.csv"));
}

#[test]
fn without_root_the_way_out_is_named() {
    let name = "without_root_the_way_out_is_named";
    if !support::is_root(name, "to become somebody else") {
        return;
    }
    let lab = Lab::new();
    let words = compare("ext4 xfs");
    let ended = match lab.run_as_nobody(&words) {
        Ok(ended) => ended,
        Err(reason) => return support::skip(name, &reason),
    };
    assert_eq!(ended.code(), 10, "{ended:?}");
    assert!(ended.stderr.contains("sudo") && ended.stderr.contains("dir:"), "{ended:?}");
    snapshot("without-root", &shown(&lab, &words, &ended));
}

/// A filesystem that fills up under load is an outcome of its arm: the others go on.
#[test]
fn full_arm_fails_without_stopping_others() {
    let name = "full_arm_fails_without_stopping_others";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    lab.write(
        "w.toml",
        "kind = \"files\"\nfiles = 10\nfile_size = \"4KiB\"\nsteps = [\"create\", \"write\"]\n",
    );
    // Room for so few inodes that the load uses them up.
    lab.write(
        "t.toml",
        "[trial]\nrounds = 3\n\n[device]\nkind = \"image\"\npath = \"images\"\nsize = \"320MiB\"\n\n\
         [[arm]]\nname = \"few\"\nfilesystem = \"ext4\"\nmkfs = [\"-N\", \"64\"]\n\n\
         [[arm]]\nname = \"many\"\nfilesystem = \"ext4\"\n\n[[arm]]\nname = \"xfs\"\nfilesystem = \"xfs\"\n\n\
         [[workload]]\nname = \"w\"\nkind = \"files\"\nfiles = 10\nfile_size = \"4KiB\"\nsteps = [\"create\", \"write\"]\n\
         threads = [1]\nduration = \"100ms\"\nwarmup = \"20ms\"\n",
    );
    let ended = lab.run("run t.toml --json");
    assert_eq!(ended.code(), 11, "{ended:?}");
    let document = ended.document();
    let failed: Vec<_> = document["failures"].as_array().unwrap().clone();
    assert!(failed.len() == 1 && failed[0].as_str().unwrap().contains("No space left"), "{failed:?}");
    for cell in document["workloads"][0]["cells"].as_array().unwrap() {
        assert_eq!(cell["failed"], cell["arm"] == "few", "{cell}");
        let runs = cell["runs"].as_u64().unwrap();
        assert!(if cell["arm"] == "few" { runs == 0 } else { runs == 3 }, "{cell}");
    }
    // And with --workload FILE, as people see it.
    let small = "--set device.size=320MiB --duration 100ms --set workload.warmup=20ms --threads 1 --rounds 2 --device image:images -q";
    let mut command = lab.prepare(FSTRIAL);
    command.args(["compare", "few=ext4:-N 64", "xfs", "--workload", "w.toml"]).args(small.split_whitespace());
    let ended = Running::start(command).end(PATIENCE);
    assert_eq!(ended.code(), 11, "{ended:?}");
    assert!(ended.stdout.contains("FAILED") && ended.stdout.contains("No space left"), "{ended:?}");
    lab.assert_nothing_left("after an arm without space");
    assert_eq!(lab.ledger_entries(), Vec::<String>::new());
}

/// A silent worker is killed after its deadline of half a minute, and replaced.
#[test]
fn hung_worker_is_killed_and_replaced() {
    let name = "hung_worker_is_killed_and_replaced";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    for _ in 0..5 {
        let mut running = lab.start(&compare("ext4 xfs --json"));
        let stopped = loop {
            if running.is_over() {
                break None;
            }
            // It must be caught before its first word; the shorter deadline is that of its start.
            if let Some(worker) = support::worker_of(running.pid()) {
                support::stop(worker);
                break Some(worker);
            }
        };
        support::pause(Duration::from_secs(1));
        if stopped.is_none_or(|worker| !Path::new(&format!("/proc/{worker}")).exists()) {
            // Too late: the inner worker was at work already, and the command did not need the outer one any more.
            running.signal(rustix::process::Signal::INT);
            running.end(PATIENCE);
            continue;
        }
        let mut replaced = None;
        while let Some(event) = running.event() {
            match event["event"].as_str() {
                Some("worker-replaced") => replaced = event["failure"]["what"].as_str().map(str::to_owned),
                Some("arm-inspected") => running.signal(rustix::process::Signal::INT),
                _ => {}
            }
        }
        let ended = running.end(Duration::from_secs(60));
        assert_eq!(ended.code(), 130, "{}", ended.stderr);
        let replaced = replaced.expect("the loss was told");
        assert!(replaced.contains("hung in the stage `attach`"), "{replaced}");
        lab.assert_nothing_left("after a worker that hung");
        return;
    }
    support::skip(name, "the worker could not be stopped before its first word");
}

#[test]
fn dry_run_reports_missing_directories_and_programs() {
    let lab = Lab::new();
    let refused = lab.run("compare dir:nosuch dir:. --dry-run");
    assert!(refused.code() == 2 && refused.stderr.contains("does not exist"), "{refused:?}");
    let own =
        "kind = 'program'\ncommand = ['no-such-program']\n[[metric]]\nname = 'wall'\nmeasure = 'wall'\n";
    lab.write("own.toml", own);
    let planned = lab.run("compare ext4 b=ext4:noatime --workload own.toml --dry-run");
    let missing = "This cannot run here: no-such-program is not installed; check the spelling";
    assert!(planned.code() == 0 && planned.stdout.contains(missing), "{planned:?}");
    let missing = lab.run("compare ext4 b=ext4:noatime --workload own.toml --dry-run --json").json();
    assert!(missing[0]["missing"][0].as_str().unwrap().starts_with("no-such-program is not"), "{missing:?}");
}

#[test]
fn report_names_error_of_failed_trial() {
    let lab = Lab::new();
    for name in ["a", "b"] {
        fs::create_dir(lab.path(name)).unwrap();
    }
    let own =
        "kind = 'program'\ncommand = ['no-such-program']\n[[metric]]\nname = 'wall'\nmeasure = 'wall'\n";
    // Nothing is made for a program that is not there; a path may be one that an earlier command makes.
    lab.write("own.toml", own);
    let refused = lab.run("compare dir:a dir:b --workload own.toml");
    assert!(
        refused.code() == 10 && refused.stderr.contains("own: no-such-program is not inst"),
        "{refused:?}"
    );
    assert_eq!(lab.run("results list --json").stdout, "", "{refused:?}");
    lab.write("own.toml", &own.replace("no-such", "/opt/no-such"));
    let failed = lab.run("compare dir:a dir:b --workload own.toml");
    assert!(failed.code() == 10 && failed.stderr.contains("no-such-program"), "{failed:?}");
    for format in ["text", "markdown", "lkml"] {
        let shown = lab.run(&format!("report 1 --format {format}"));
        let message = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = "this trial failed before its end: ";
        assert!(message.contains(why) && message.contains("no-such-program"), "{format}: {shown:?}");
    }
    let document = lab.run("report 1 --format json").document();
    assert!(document["ended_by"].as_str().unwrap().contains("no-such-program"), "{document}");
    assert_eq!(document["warnings"].to_string().matches("no-such-program").count(), 0, "{document}");
}
