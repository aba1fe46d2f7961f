//! Kernels other than the host's: arms are built under them, in guests that leave nothing.

use crate::support::{self, Ended, Lab, PATIENCE, skip};
use fstrial_model::{layer::Layer, place::Clock};
use fstrial_run::place::boot::Boot;
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

const QEMU: &str = "qemu-system-x86_64";
/// A machine without KVM.
const NO_KVM: &str =
    r#"case "$*" in *"-accel kvm"*) echo 'no KVM for a test' >&2; exit 1;; esac; exec $real "$@""#;
/// A fake QEMU that claims KVM: its processors are emulated all the same.
const AS_IF_KVM: &str = r#"for word do
    shift
    case "$word" in kvm) word=tcg,thread=multi;; host) word=max;; esac
    set -- "$@" "$word"
done
exec $real "$@""#;

/// The folder in which fetched kernels are kept between runs of the tests.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")
}

/// A lab with these kernels, fetched at first; none, with a skip, where they cannot be.
fn lab(test: &str, names: &[&str]) -> Option<Lab> {
    if !support::is_root(test, "agents work as root") {
        return None;
    }
    if fstrial_stack::command::find(QEMU).is_none() {
        skip(test, &format!("needs {QEMU}"));
        return None;
    }
    let lab = Lab::new();
    fs::create_dir_all(cache()).unwrap();
    fs::create_dir_all(lab.home()).unwrap();
    symlink(cache(), lab.home().join("kernels")).unwrap();
    // The same everywhere.
    lab.wrap(QEMU, NO_KVM);
    for name in names {
        if cache().join(name).join("release").exists() {
            continue;
        }
        // Another test may have had it fetched in the meantime; then it is fetched again.
        let got = lab.run(&format!("kernels get {name}"));
        if got.code() != 0 {
            skip(test, &format!("the kernel {name} could not be fetched: {}", got.stderr.trim()));
            return None;
        }
    }
    Some(lab)
}

/// The processes that are guests of a lab.
fn guest_processes(lab: &Lab) -> Vec<u32> {
    let root = lab.root().display().to_string();
    let is_guest = |pid: &u32| {
        let line = support::command_line(*pid);
        line.contains("qemu") && line.contains(&root)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_guest).collect()
}

/// Their command lines.
fn guests(lab: &Lab) -> Vec<String> {
    guest_processes(lab).into_iter().map(support::command_line).collect()
}

const WORDS: &str = "-w create-files --threads 1 --duration 500ms --set workload.warmup=100ms --set device.size=512MiB --device image";

fn compared(lab: &Lab, arms: &str, more: &str) -> Ended {
    lab.start(&format!("compare {arms} {WORDS} {more} --json")).end(3 * PATIENCE)
}

#[test]
fn compares_two_kernels_by_device_bytes() {
    let Some(lab) = lab("compares_two_kernels_by_device_bytes", &["6.1", "6.12"]) else { return };
    // A scheduler that is a module there.
    let arms = "old=ext4@6.1:scheduler=bfq new=ext4@6.12";
    let ended = compared(&lab, arms, "--decide-on device-bytes --rounds 1");
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    let document = ended.document();
    assert_eq!(document["arms"][0]["facts"]["facts"]["scheduler"], "bfq", "{document}");
    let kernels: Vec<&str> = document["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| place["kernel"].as_str().unwrap())
        .collect();
    assert!(kernels[0].starts_with("6.1.") && kernels[1].starts_with("6.12."), "{kernels:?}");
    let metrics: Vec<&Value> = document["workloads"][0]["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| &verdict["metric"])
        .collect();
    assert_eq!(metrics, ["device-bytes"], "no verdict on time");
    let cell = &document["workloads"][0]["cells"][0];
    assert!(cell["rate"].is_null() && cell["latency_ns"].is_null(), "{cell}");
    assert!(cell["device_bytes_per_operation"].as_f64().unwrap() > 0.0, "{cell}");
    assert!(document["warnings"].to_string().contains("PROCESSORS ARE EMULATED"), "{document}");
    assert_eq!(guests(&lab), Vec::<String>::new());
    lab.assert_nothing_left("after guests");
}

/// Where guests can use KVM, times are compared; elsewhere a trial that needs it is refused.
#[test]
fn compares_times_of_kvm_guests() {
    let test = "compares_times_of_kvm_guests";
    let Some(lab) = lab(test, &["6.1"]) else { return };
    if !Path::new("/dev/kvm").exists() {
        return skip(test, "needs /dev/kvm");
    }
    lab.wrap(QEMU, AS_IF_KVM);
    let saved = || lab.run(&format!("compare ext4@6.1 xfs@6.1 {WORDS} --rounds 1 --save - --dry-run"));
    let mut first = saved();
    if first.code() != 0 {
        // Emulated all the same, its first word comes too late on a busy machine. Then it counts as if it had come.
        let kept = lab.home().join("kvm.json");
        let tried = fs::read(&kept).unwrap_or_else(|error| panic!("{error}: {first:?}"));
        let mut tried: Value = serde_json::from_slice(&tried).unwrap();
        assert_eq!(tried["problem"], "a guest sent nothing for 20 s", "{first:?}");
        tried["problem"] = Value::Null;
        fs::write(&kept, tried.to_string()).unwrap();
        first = saved();
    }
    let trial = first.stdout;
    assert!(trial.contains("kvm = true"), "{trial}");
    lab.write("trial.toml", &trial);
    let mut running = lab.start("run trial.toml --json");
    assert!(running.wait_for("run-started"));
    let cpus = std::thread::available_parallelism().unwrap();
    assert!(guests(&lab)[0].contains(&format!("-smp {cpus} ")), "{:?}", guests(&lab));
    let ended = running.end(PATIENCE);
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    let document = ended.document();
    let workload = &document["workloads"][0];
    assert_eq!(workload["verdicts"][0]["metric"], "throughput", "{workload}");
    assert!(workload["cells"][0]["rate"].as_f64() > Some(0.0), "{workload}");
    assert!(document["warnings"].to_string().contains("ARMS RAN IN GUESTS"), "{document}");

    lab.wrap(QEMU, NO_KVM);
    let refused = lab.run("run trial.toml");
    assert_eq!(refused.code(), 10, "{refused:?}");
    for message in ["guests: KVM cannot be used here", "no KVM for a test", "may leave kvm = true out"] {
        assert!(refused.stderr.contains(message), "{message}: {}", refused.stderr);
    }
    let steps = lab.run("run trial.toml --dry-run").stdout;
    assert!(steps.contains("This cannot run here: guests: KVM cannot be used here"), "{steps}");
    lab.assert_nothing_left("after guests by KVM");
}

#[test]
fn rejects_trials_unsuited_to_emulation() {
    let Some(lab) = lab("rejects_trials_unsuited_to_emulation", &["6.1"]) else { return };
    for (arms, more, message) in [
        ("ext4@6.1 xfs@6.1", "", "throughput of an arm in a guest"),
        ("ext4@6.1 xfs@6.1", "--decide-on p99", "p99 of an arm in a guest"),
        ("ext4@6.1 ext4", "--decide-on device-bytes", "is built on a machine"),
        ("ext4@6.1 ext4@6.l", "--decide-on device-bytes", "`6.l` is neither a kernel nor a place"),
        ("ext4@6.1 xfs@6.1", "--decide-on device-bytes -w random-write", "depend on the emulator's speed"),
    ] {
        let refused = compared(&lab, arms, more);
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr.contains(message), "{message}: {}", refused.stderr);
    }
    for (words, message) in [
        (
            "ext4@6.1:lvm --set workload.file_size=400MiB --set device.size=512MiB",
            "too much for the volume of `lvm`",
        ),
        ("ext4@6.1:crypt --device ramdisk", "cannot be compressed"),
        ("xfs@6.1 --device ramdisk -w op-freeze", "runs programs, whose files come from outside a guest"),
    ] {
        let refused = lab
            .run(&format!("compare ext4@6.1 {words} -w append-fsync --threads 1 --decide-on device-bytes"));
        assert!(refused.stderr.contains(message), "{message}: {}", refused.stderr);
    }
    if fstrial_stack::mapped::require_mapper(Layer::Lvm).is_ok() {
        return skip("rejects_trials_unsuited_to_emulation", "this kernel has a device mapper");
    }
    let refused = lab.run("compare ext4 ext4:lvm");
    assert!(refused.code() == 10 && refused.stderr.contains("no device mapper"), "{refused:?}");
    let stored = lab.run("results list --all --json");
    assert_eq!(stored.stdout, "", "no trial was begun");
    assert_eq!(guests(&lab), Vec::<String>::new());
}

/// A separate home: the kernels of other tests must not change.
#[test]
fn a_kernel_of_ones_own_is_taken_replaced_and_removed() {
    let test = "a_kernel_of_ones_own_is_taken_replaced_and_removed";
    let Some(cached) = lab(test, &["6.1", "6.12"]) else { return };
    let lab = Lab::new();
    let [kernel, other] = ["kernels/6.1", "kernels/6.12"].map(|name| cached.home().join(name));
    let release = fs::read_to_string(kernel.join("release")).unwrap();
    let modules = kernel.join("lib/modules").join(&release);
    let adding = |name: &str, image: &Path, modules: &Path| {
        let (image, modules) = (image.display(), modules.display());
        lab.run(&format!("kernels add {name} --vmlinuz {image} --modules {modules}"))
    };
    for (name, image, modules, message) in [
        (".mine", &kernel.join("vmlinux"), &modules, "cannot name a kernel"),
        ("../mine", &kernel.join("vmlinux"), &modules, "the name of a kernel is"),
        ("6.12", &kernel.join("vmlinux"), &modules, "is the distribution's"),
        ("mine", &kernel.join("vmlinux"), &kernel.join("lib/modules"), "such as lib/modules/"),
        ("mine", &other.join("vmlinux"), &modules, "is not the kernel of the modules"),
        ("mine", &PathBuf::from("/etc/hostname"), &modules, "name the vmlinuz or bzImage"),
        ("mine", &kernel.join("vmlinux"), &PathBuf::from("/nonexistent"), "/nonexistent"),
    ] {
        let refused = adding(name, image, modules);
        assert_ne!(refused.code(), 0, "{refused:?}");
        assert!(refused.stderr.contains(message), "{message}: {}", refused.stderr);
    }
    let listed = || lab.run("kernels list --json").json()[0]["kernels"].to_string();
    assert_eq!(listed(), "[]");
    for _ in 0..2 {
        let added = adding("mine", &kernel.join("vmlinux"), &modules);
        assert_eq!(added.stdout, format!("mine is {release}\n"), "{}", added.stderr);
    }
    assert_eq!(listed(), format!(r#"[{{"name":"mine","release":"{release}"}}]"#));

    let dry = |arms: &str| lab.run(&format!("compare {arms} {WORDS} --decide-on device-bytes --dry-run"));
    let steps = dry("a=ext4@mine b=ext4@6.12").stdout;
    assert!(steps.contains("boot a guest under the kernel mine"), "{steps}");
    assert!(
        steps.contains("This cannot run here: there is no kernel `6.12`; get it: `fstrial kernels get 6.12`"),
        "{steps}"
    );
    assert!(!steps.contains("current folder") && !steps.contains("--place"), "{steps}");

    let mut running =
        lab.start(&format!("compare a=ext4@6.1 b=xfs@6.1 {WORDS} --decide-on device-bytes --json"));
    assert!(running.wait_for("run-started"), "a kernel is found by its version");
    let refused = lab.run("kernels remove mine");
    assert!(refused.stderr.contains("a guest runs under the kernel mine"), "{}", refused.stderr);
    running.signal(Signal::INT);
    assert_eq!(running.end(PATIENCE).code(), 130);
    let ended = lab.run("report 1 --format text");
    assert!(
        ended.stdout.contains("fstrial resume 1") && !ended.stdout.contains("--place"),
        "{}",
        ended.stdout
    );
    assert_eq!(lab.run("kernels remove mine").code(), 0);
    assert_eq!(listed(), "[]");
    lab.assert_nothing_left("after a kernel of one's own");
}

/// The setup of another crate's tests, where the matrix of uses of a device is: on hosts whose kernels have the
/// drivers.
#[test]
fn device_held_by_guest_drivers_is_refused() {
    let test = "device_held_by_guest_drivers_is_refused";
    let Some(lab) = lab(test, &["6.1"]) else { return };
    let name = "holders::disk_in_kernel_specific_use_is_refused";
    let Some(program) = tests_of_the_stack(name) else {
        return skip(test, "fstrial-stack's tests are not built, or older than its sources");
    };
    // Its last words take a moment to the host.
    let script = format!(
        "exec >&2; export TMPDIR=/run/disk; modprobe -a dm_mod dm_crypt raid1; '{}' --exact {name} --nocapture; sleep 1",
        program.display()
    );
    let message = in_a_guest(&lab, "6.1", &script);
    assert!(message.contains("1 passed"), "{message}");
    for line in message.lines().filter(|line| line.contains("SKIPPED ")) {
        assert!(line.ends_with(" is not installed"), "{message}");
        skip(test, line);
    }
    lab.assert_nothing_left("after uses of a device");
}

/// The newest program of fstrial-stack's tests from outside, if it has a test and is newer than the sources.
fn tests_of_the_stack(test: &str) -> Option<PathBuf> {
    let folder = std::env::current_exe().unwrap().parent()?.to_owned();
    let built = |entry: &fs::DirEntry| entry.metadata().and_then(|result| result.modified()).ok();
    let mut programs: Vec<_> = fs::read_dir(folder).unwrap().flatten().collect();
    programs.retain(|entry| entry.file_name().to_string_lossy().starts_with("it-"));
    programs.retain(|entry| entry.path().extension().is_none());
    programs.sort_by_key(built);
    let has_it = |path: &PathBuf| {
        let listed = support::command(path).arg("--list").output();
        listed.is_ok_and(|listed| String::from_utf8_lossy(&listed.stdout).contains(test))
    };
    let program = programs.iter().rev().map(fs::DirEntry::path).find(has_it)?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fstrial-stack");
    let newer = ["-name", "*.rs", "-newer", program.to_str()?];
    support::tool("find", &[&[sources.to_str()?], &newer[..]].concat()).is_empty().then_some(program)
}

/// A file as the kernel unpacks it (cpio, newc).
fn in_archive(name: &str, mode: u32, text: &str) -> String {
    let numbers = [1, mode, 0, 0, 1, 0, text.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    let mut file = numbers.iter().fold("070701".to_owned(), |head, number| format!("{head}{number:08X}"));
    for part in [&format!("{name}\0"), text] {
        file += part;
        file += &"\0".repeat(file.len().next_multiple_of(4) - file.len());
    }
    file
}

/// The console output of a script that runs as the only program of a guest.
fn in_a_guest(lab: &Lab, kernel: &str, script: &str) -> String {
    let [file, more, all] = ["script", "more.cpio", "all.cpio"].map(|name| lab.path(name));
    fs::write(&file, script).unwrap();
    let release = fs::read_to_string(cache().join(kernel).join("release")).unwrap();
    let modules = fs::canonicalize(cache().join(kernel).join("lib/modules").join(release)).unwrap();
    let orders = format!("{}\nfalse\n/bin/sh\n{}\n", modules.display(), file.display());
    // Of two files of one name in the first files the later one stays.
    let files = [
        ("guest/orders", 0o100_644, orders.as_str()),
        ("guest/libraries", 0o100_644, ""),
        ("TRAILER!!!", 0, ""),
    ];
    fs::write(&more, files.map(|(name, mode, text)| in_archive(name, mode, text)).concat()).unwrap();
    let words = r#"for word do
    shift
    case "$before" in
    -initrd) cat "$word" MORE >ALL; set -- "$@" ALL;;
    *) set -- "$@" "$word";;
    esac
    before=$word
done
exec $real "$@""#;
    let [more, all] = [&more, &all].map(|path| path.display().to_string());
    lab.wrap(QEMU, &words.replace("MORE", &more).replace("ALL", &all));
    let boot = serde_json::to_string(&Boot { clock: Clock::Emulator, ..Boot::default() }).unwrap();
    let ended = lab.start(&format!("kernels boot {kernel} {boot}")).end(2 * PATIENCE);
    format!("{}{}", ended.stdout, ended.stderr)
}

#[test]
fn guests_need_no_root() {
    let test = "guests_need_no_root";
    let Some(cached) = lab(test, &["6.1"]) else { return };
    let kernel = cached.home().join("kernels/6.1");
    let release = fs::read_to_string(kernel.join("release")).unwrap();
    let lab = Lab::new();
    let (image, modules) = (kernel.join("vmlinux"), kernel.join("lib/modules").join(release));
    let adding = format!("kernels add own --vmlinuz {} --modules {}", image.display(), modules.display());
    let added = match lab.run_as_nobody(&adding) {
        Ok(added) => added,
        Err(reason) => return skip(test, &reason),
    };
    assert_eq!(added.code(), 0, "{added:?}");
    let words = format!("compare ext4@own xfs@own {WORDS} --decide-on device-bytes --rounds 1 --json");
    let ended = lab.run_as_nobody(&words).unwrap();
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    for cell in ended.document()["workloads"][0]["cells"].as_array().unwrap() {
        assert!(cell["device_bytes_per_operation"].as_f64() > Some(0.0), "{cell}");
    }
    assert_eq!(guests(&lab), Vec::<String>::new());
    lab.assert_nothing_left("after a guest of a user");
}

/// Filesystems that Debian's kernels have, each with its mkfs.
const FILESYSTEMS: [(&str, &str); 12] = [
    ("ext2", "mkfs.ext2"),
    ("ext3", "mkfs.ext3"),
    ("ext4", "mkfs.ext4"),
    ("xfs", "mkfs.xfs"),
    ("btrfs", "mkfs.btrfs"),
    ("jfs", "mkfs.jfs"),
    ("reiserfs", "mkfs.reiserfs"),
    ("f2fs", "mkfs.f2fs"),
    ("nilfs2", "mkfs.nilfs2"),
    ("exfat", "mkfs.exfat"),
    ("udf", "mkfs.udf"),
    ("vfat", "mkfs.vfat"),
];

#[test]
fn every_filesystem_runs_under_supporting_kernel() {
    filesystems_run_under("every_filesystem_runs_under_supporting_kernel", "6.1");
}

#[test]
#[ignore = "takes minutes: `cargo xtask long tests`"]
fn every_filesystem_runs_under_5_10_too() {
    filesystems_run_under("every_filesystem_runs_under_5_10_too", "5.10");
}

#[test]
#[ignore = "takes minutes: `cargo xtask long tests`"]
fn every_filesystem_runs_under_6_12_too() {
    filesystems_run_under("every_filesystem_runs_under_6_12_too", "6.12");
}

#[test]
#[ignore = "takes minutes: `cargo xtask long tests`"]
fn every_filesystem_runs_under_the_current_kernel_too() {
    filesystems_run_under("every_filesystem_runs_under_the_current_kernel_too", "current");
}

/// The programs that observe a load are loaded by the kernel of the guest, whose small memory soon has too many dirty pages.
#[test]
#[ignore = "takes minutes: `cargo xtask long tests`"]
fn throttling_by_dirty_pages_is_named_in_a_guest() {
    let Some(lab) = lab("throttling_by_dirty_pages_is_named_in_a_guest", &["6.1"]) else { return };
    let workload = |name: &str, size: &str| {
        format!(
            "[[workload]]\nuse = 'sequential-write'\nname = '{name}'\ndirect = false\nfile_size = '{size}'\nthreads = [2]\n\
             warmup = '500ms'\nduration = '1s'\n"
        )
    };
    let trial = format!(
        "[trial]\nrounds = 8\nbudget = '40m'\nexplain = 8\ncompare = 'workloads'\n\
         [device]\nkind = 'model'\nmodel = 'hdd-7200'\nsize = '1GiB'\n[[place]]\nname = 'old'\nkernel = '6.1'\n\
         [[arm]]\nfilesystem = 'ext4'\nplace = 'old'\n{}{}",
        workload("small", "8MiB"),
        workload("large", "256MiB")
    );
    lab.write("dirty.toml", &trial);
    let document = lab.start("run dirty.toml --json").end(10 * PATIENCE).document();
    let explanation = &document["explanations"][0];
    assert!(explanation["missing"].is_null(), "{document}");
    assert_eq!(explanation["conclusion"], "because", "{document}");
    assert_eq!(explanation["parts"][0]["category"], "throttling", "{document}");
    let cause = explanation["parts"][0]["causes"][0]["cause"]["what"].as_str().unwrap();
    assert!(cause.contains("balance_dirty_pages"), "{document}");
    lab.assert_nothing_left("after throttling in a guest");
}

/// Made, mounted, loaded and checked, also those that this host's kernel has not.
fn filesystems_run_under(test: &str, kernel: &str) {
    let Some(lab) = lab(test, &[kernel]) else { return };
    let is_here = |(_, mkfs): &&(&str, &str)| fstrial_stack::command::find(mkfs).is_some();
    let has_it = |(name, _): &&(&str, &str)| *name != "reiserfs" || kernel != "current";
    let (here, missing): (Vec<_>, Vec<_>) = FILESYSTEMS.iter().filter(has_it).partition(is_here);
    for (name, mkfs) in missing {
        skip(test, &format!("{name} needs {mkfs}"));
    }
    let more = "--decide-on device-bytes --rounds 1 --baseline ext4 --json";
    let checked = |names: &[&str], words: &str| -> Value {
        let arms: Vec<String> = names.iter().map(|name| format!("{name}={name}@{kernel}")).collect();
        let ended = lab.start(&format!("compare {} {words} {more}", arms.join(" "))).end(3 * PATIENCE);
        assert_eq!(ended.code(), 3, "{kernel}: {}", ended.stderr);
        let document = ended.document();
        assert_eq!(document["failures"].as_array().map(Vec::len), Some(0), "{document}");
        for arm in document["arms"].as_array().unwrap() {
            let barriers = if arm["name"] == "jfs" { "OFF" } else { "on" };
            assert_eq!(arm["facts"]["facts"]["barriers"], barriers, "{arm}");
        }
        document
    };
    let idle = |document: &Value| -> Vec<String> {
        let cells = document["workloads"][0]["cells"].as_array().unwrap();
        assert!(cells.iter().all(|cell| cell["runs"] == 1), "{cells:?}");
        let wrote = |cell: &&Value| cell["device_bytes_per_operation"].as_f64() > Some(0.0);
        let idle = cells.iter().filter(|cell| !wrote(cell));
        idle.map(|cell| cell["arm"].as_str().unwrap().to_owned()).collect()
    };
    let names: Vec<&str> = here.iter().map(|(name, _)| *name).collect();
    let document = checked(&names, WORDS);
    assert_eq!(document["workloads"][0]["cells"].as_array().map(Vec::len), Some(names.len()));
    // On a busy machine half a second may be over before anything is written.
    for name in idle(&document) {
        let other = if name == "ext4" { "xfs" } else { name.as_str() };
        let again = checked(&["ext4", other], &WORDS.replace("500ms", "10s"));
        assert!(!idle(&again).contains(&name), "{name} wrote nothing under {kernel}: {again}");
    }
    lab.assert_nothing_left("after every filesystem");
}

/// The first of these programs that is not installed.
fn missing_tool<'p>(programs: &[&'p str]) -> Option<&'p str> {
    programs.iter().copied().find(|program| fstrial_stack::command::find(program).is_none())
}

/// Drivers that this host's kernel need not have: volumes of the device mapper, and an array of md, each over images in a guest.
#[test]
fn layers_and_arrays_are_made_and_taken_down_in_guests() {
    let test = "layers_and_arrays_are_made_and_taken_down_in_guests";
    let Some(lab) = lab(test, &["6.1"]) else { return };
    let decide = "--decide-on device-bytes --rounds 1";
    if let Some(missing) = missing_tool(&["lvm", "thin_check", "cryptsetup", "dmsetup"]) {
        return skip(test, &format!("needs {missing}"));
    }
    // On one device, one after the other: each run starts from the state that the previous one left.
    let arms = "plain=ext4@6.1 lvm=ext4@6.1:lvm thin=xfs@6.1:thin crypt=btrfs@6.1:crypt";
    // On a busy machine a guest makes one file in half a second.
    let words = WORDS.replace("500ms", "3s");
    let ended = lab.start(&format!("compare {arms} {words} {decide} --json")).end(3 * PATIENCE);
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    let document = ended.document();
    assert_eq!(document["failures"].as_array().map(Vec::len), Some(0), "{document}");
    for (arm, message) in document["arms"].as_array().unwrap().iter().zip([
        None,
        Some("linear"),
        Some("thin"),
        Some("crypt aes-xts-plain64"),
    ]) {
        assert_eq!(arm["facts"]["facts"]["layer"].as_str(), message, "{arm}");
        assert_eq!(arm["facts"]["facts"]["device-discards"], "not accepted", "{arm}");
    }
    for cell in document["workloads"][0]["cells"].as_array().unwrap() {
        assert!(cell["runs"] == 1 && cell["device_bytes_per_operation"].as_f64() > Some(4096.0), "{cell}");
    }
    if missing_tool(&["mdadm"]).is_some() {
        return skip(test, "an array needs mdadm");
    }
    let members = "--set device.members=4 --set device.raid=raid10";
    let ended = compared(&lab, "a=ext4@6.1 b=ext4@6.1:crypt", &format!("{members} {decide}"));
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    let document = ended.document();
    assert_eq!(document["failures"].as_array().map(Vec::len), Some(0), "{document}");
    let members = document["arms"][0]["facts"]["facts"]["members"].as_str().unwrap();
    assert!(members.starts_with("md raid10 of 4"), "{members}");
    lab.assert_nothing_left("after layers");
}

/// A guest stands in for the host: its kernel has the device mapper even where this host's kernel lacks it.
#[test]
fn layers_of_a_host_are_removed_whenever_their_command_is_killed() {
    let test = "layers_of_a_host_are_removed_whenever_their_command_is_killed";
    let Some(lab) = lab(test, &["6.1"]) else { return };
    if let Some(missing) = missing_tool(&["lvm", "thin_check", "cryptsetup", "dmsetup"]) {
        return skip(test, &format!("needs {missing}"));
    }
    let message = in_a_guest(&lab, "6.1", &LAYERS_OF_A_HOST.replace("FSTRIAL", support::FSTRIAL));
    for line in [
        "ended 3",
        "after the end: none",
        "killed thin: fstrial_-arm fstrial_-pool fstrial_-pool-tpool fstrial_-pool_tdata fstrial_-pool_tmeta",
        "after thin: none",
        "killed crypt: fstrial_",
        "after crypt: none",
    ] {
        assert!(message.lines().any(|message| message.trim_end() == line), "{line}: {message}");
    }
    lab.assert_nothing_left("after layers of a host");
}

const LAYERS_OF_A_HOST: &str = r#"exec >&2
export TMPDIR=/run/disk
cd /run/disk
modprobe -a loop dm_mod
words="-w create-files --threads 1 --set workload.warmup=100ms --set device.size=512MiB --device image --budget 30m --home home --json"
[ ! -x /lib/systemd/systemd-udevd ] || /lib/systemd/systemd-udevd --daemon
# The digits of a name are random.
volumes() { dmsetup ls | sed -n 's/\(fstrial_\)[0-9a-f]*\([^[:space:]]*\).*/\1\2/p' | sort | tr '\n' ' '; }
traces() { find /dev/mapper/fstrial* /dev/fstrial* /run/lvm/*_online/* /run/lock/lvm/V_* /run/cryptsetup/*; ipcs -s | grep 0x; }
left() { left="$(volumes)$(traces 2>/dev/null)$(losetup -a)$(ls home/ledger)"; echo "after $1: ${left:-none}"; }
FSTRIAL compare ext4 ext4:lvm $words --duration 500ms --rounds 1 >ended
echo "ended $?"
left 'the end'
for layer in thin crypt; do
    FSTRIAL compare ext4:$layer xfs:$layer $words --duration 60s >killed &
    case $layer in
    thin) while kill -0 $! && ! grep -q '"stage":"load"' killed; do sleep 0.5; done;;
    # While it is made.
    crypt) while kill -0 $! && [ -z "$(volumes)" ]; do :; done;;
    esac
    # As the host does when the group's device changes.
    activated=$(lvm vgchange -aay --autoactivation event)
    kill -9 $!
    wait
    echo "killed $layer: $(volumes)$activated"
    FSTRIAL clean --home home
    left $layer
done
sleep 1
"#;

/// A snapshot of LVM freezes the filesystem on it, and disappears with it when abandoned.
#[test]
fn volumes_snapshot_filesystems_without_snapshots() {
    let test = "volumes_snapshot_filesystems_without_snapshots";
    let Some(lab) = lab(test, &["6.1"]) else { return };
    if let Some(missing) = missing_tool(&["lvm", "dmsetup"]) {
        return skip(test, &format!("needs {missing}"));
    }
    let claim = r#"
[claim]
id = "snapshots"
statement = "Volumes have snapshots."
author = "nobody"
date = "2026-11"
where = "a test"
fixed = "2026-11-28"
setup = "none"
said = "so"
[[claim.expect]]
says = "volumes have"
works = ["lvm: create", "lvm: delete", "thin: create"]
[[claim.expect]]
says = "ext4 has not"
fails = ["plain: create"]
[trial]
budget = "10m"
rounds = 1
[device]
kind = "image"
size = "1GiB"
[[place]]
name = "6.1"
kernel = "6.1"
[[arm]]
name = "plain"
filesystem = "ext4"
place = "6.1"
[[arm]]
name = "lvm"
filesystem = "ext4"
place = "6.1"
layer = "lvm"
[[arm]]
name = "thin"
filesystem = "xfs"
place = "6.1"
layer = "thin"
[[workload]]
use = "op-snapshot"
threads = [1]
repeat = 2
tree = { files = 50 }
"#;
    lab.write("snapshots.toml", claim);
    let checked = lab.run("claims check snapshots.toml");
    assert!(checked.stdout.contains("snapshots  confirmed"), "{checked:?}");
    assert!(checked.stdout.contains("this speaks for Linux 6.1."), "{checked:?}");
    lab.assert_nothing_left("after snapshots of volumes");
}

/// In virtual time a model has the same meaning in a guest as on a machine: the winner, the ratio, and the speed of
/// each arm.
#[test]
#[ignore = "takes minutes: `cargo xtask long tests`"]
fn a_modelled_disk_is_as_fast_in_virtual_time_as_on_this_machine() {
    let Some(lab) = lab("a_modelled_disk_is_as_fast_in_virtual_time_as_on_this_machine", &["6.1"]) else {
        return;
    };
    let rates = |arms: &str| {
        let ended = lab.run(&format!(
            "compare {arms} -w append-fsync --threads 1 --duration 3s --set workload.warmup=100ms --set workload.file_size=16MiB \
             --set device.size=320MiB --device hdd-7200 --rounds 2 --json"
        ));
        assert_eq!(ended.code(), 3, "{}", ended.stderr);
        let document = ended.document();
        assert_eq!(document["workloads"][0]["verdicts"][0]["metric"], "throughput", "{document}");
        let cells = document["workloads"][0]["cells"].as_array().unwrap();
        let rates: Vec<f64> = cells.iter().map(|cell| cell["rate"].as_f64().unwrap()).collect();
        (rates, document)
    };
    let (guests, document) = rates("ext4@6.1 xfs@6.1");
    assert!(document["warnings"].to_string().contains("TIME IS VIRTUAL"), "{document}");
    assert!(document["places"][0]["clocksource"].as_str().unwrap().starts_with("virtual"), "{document}");
    let (machine, _) = rates("ext4 xfs");
    // One to some 30 ms an operation: the way of this machine's loop device and processors is little of it.
    for (guest, machine) in guests.iter().zip(&machine) {
        assert!((guest / machine).ln().abs() < 0.25, "{guests:?} {machine:?}");
    }
    lab.assert_nothing_left("after virtual time");
}

/// A filesystem against itself, in two guests that boot for themselves: one waits, stopped, while the other is busy.
#[test]
fn virtual_time_is_the_same_in_two_guests_of_one_kernel() {
    let Some(lab) = lab("virtual_time_is_the_same_in_two_guests_of_one_kernel", &["6.1"]) else { return };
    let place = |name: &str| format!("[[place]]\nname = '{name}'\nkernel = '6.1'\n");
    let arm = |name: &str| format!("[[arm]]\nname = '{name}'\nfilesystem = 'ext4'\nplace = '{name}'\n");
    let workload = "[[workload]]\nuse = 'append-fsync'\nthreads = [1]\nduration = '50ms'\nwarmup = '10ms'\nfile_size = '4MiB'\n";
    let trial = format!(
        "[trial]\nrounds = 2\nbudget = '15m'\n[device]\nkind = 'ramdisk'\nsize = '64MiB'\n{}{}{}{}{workload}",
        place("a"),
        place("b"),
        arm("a"),
        arm("b")
    );
    lab.write("boots.toml", &trial);
    let mut running = lab.start("run boots.toml --json");
    assert!(running.wait_for("run-started"));
    let is_in_state = |pid: &u32, state: char| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(state))
    };
    let stopped = || guest_processes(&lab).iter().filter(|pid| is_in_state(pid, 'T')).count();
    assert!(support::eventually(PATIENCE, || stopped() == 1), "one runs");
    let first = guest_processes(&lab);
    let is_new = || guest_processes(&lab).iter().all(|pid| !first.contains(pid));
    assert!(support::eventually(PATIENCE, is_new), "they boot again for the second round");
    let trial = running.pid();
    let is_reaped = || !support::children_of(trial).iter().any(|pid| is_in_state(pid, 'Z'));
    assert!(support::eventually(support::SETTLE, is_reaped), "those that ended are gone");
    let ended = running.end(PATIENCE);
    let document = ended.document();
    assert_eq!(document["rounds"], 2, "{document}");
    let cells = document["workloads"][0]["cells"].as_array().unwrap();
    let [a, b] = [0, 1].map(|at| cells[at]["rate"].as_f64().unwrap());
    // First runs after a boot differ by up to 5 %.
    assert!((a / b).ln().abs() < 0.1, "{cells:?}");
    assert_eq!(guests(&lab), Vec::<String>::new());
    lab.assert_nothing_left("after two guests");
}

/// The host serves it: its model's numbers are reported, and its process ends with the guest.
#[test]
fn a_modelled_device_of_a_guest_is_served_by_the_host() {
    let Some(lab) = lab("a_modelled_device_of_a_guest_is_served_by_the_host", &["6.1"]) else { return };
    // Long enough for more than a few operations of a guest that has half a processor.
    let words = "-w append-fsync --threads 1 --duration 5s --set workload.warmup=100ms --set workload.file_size=16MiB --set device.size=512MiB \
                 --device sata-ssd --decide-on device-bytes";
    let saved = lab.run(&format!("compare ext4@6.1 xfs@6.1 {words} --rounds 1 --save - --dry-run")).stdout;
    // With data in a file time is not virtual.
    let folder = lab.root().join("data");
    fs::create_dir(&folder).unwrap();
    let in_file = format!("[device]\npath = '{}'\n", folder.display());
    lab.write("served.toml", &saved.replace("[device]\n", &in_file));
    let ended = lab.run("run served.toml --json");
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    let document = ended.document();
    assert_eq!(document["failures"].as_array().map(Vec::len), Some(0), "{document}");
    let device = document["places"][0]["device"].as_str().unwrap();
    assert!(device.contains("modelled: sata-ssd") && device.ends_with("of the guest's host"), "{device}");
    for cell in document["workloads"][0]["cells"].as_array().unwrap() {
        // 4 KiB of data, and a journal or log.
        assert!(cell["device_bytes_per_operation"].as_f64().unwrap() > 4096.0, "{cell}");
    }
    // Neither the guest's disk nor its agent's orders are answered any more: the run or the agent is lost, and nothing
    // hangs.
    for stage in ["mkfs", "load"] {
        kill_the_device_of_a_guest(&lab, "run served.toml --json", stage);
    }
    lab.clean();
    lab.assert_nothing_left("after a modelled device of a guest");
}

fn kill_the_device_of_a_guest(lab: &Lab, command: &str, stage: &str) {
    let mut running = lab.start(command);
    assert!(running.wait_for("run-started"));
    while running.event().expect("the run goes on")["stage"] != stage {}
    let [guest] = guest_processes(lab)[..] else { panic!("one guest") };
    let servers: Vec<u32> = support::children_of(guest)
        .into_iter()
        .filter(|pid| support::command_line(*pid).contains("device-server"))
        .collect();
    let [server] = servers[..] else { panic!("{servers:?}") };
    support::kill(server);
    running.wait_for("run-ended");
    running.signal(Signal::INT);
    running.end(PATIENCE);
    assert_eq!(guests(lab), Vec::<String>::new(), "{stage}");
}

/// The guest notices that its port is closed, and powers off.
#[test]
fn guest_exits_when_trial_is_killed() {
    let Some(lab) = lab("guest_exits_when_trial_is_killed", &["6.1"]) else { return };
    for event in ["run-stage", "run-started"] {
        let mut running =
            lab.start(&format!("compare a=ext4@6.1 b=ext4@6.1 {WORDS} --decide-on device-bytes --json"));
        assert!(running.wait_for(event), "{event}");
        assert_eq!(guests(&lab).len(), 1);
        running.signal(Signal::KILL);
        assert!(running.end(PATIENCE).is_killed());
        assert!(support::eventually(PATIENCE, || guests(&lab).is_empty()), "killed at {event}");
    }
    let running =
        lab.start(&format!("compare a=ext4@6.1 b=ext4@6.1 {WORDS} --decide-on device-bytes --json"));
    assert!(support::eventually(PATIENCE, || guests(&lab).len() == 1));
    running.signal(Signal::KILL);
    assert!(running.end(PATIENCE).is_killed());
    // Its kernel boots, and does not notice the closed port.
    assert!(support::eventually(Duration::from_secs(2), || guests(&lab).is_empty()), "killed while it boots");
    lab.clean();
    lab.assert_nothing_left("after guests that were left alone");
}
