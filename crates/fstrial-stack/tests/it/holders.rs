//! The matrix of ways to use a block device: each is set up, and the device is refused, with the name of who uses it;
//! then it is taken back, and the device is accepted. Rows are *live* (on this kernel) or *recorded* (`recorded.rs`).
//! The table is printed, and docs/safety.md has the same.

use crate::{
    dress,
    recorded::{RECORDED, Tree},
    support::{Background, Lab, MountGuard, ends_of, isolated, run, skip, wait_until, write_at},
};
use fstrial_model::units::Bytes;
use fstrial_stack::{
    StackError,
    command::{self, Program},
    device::{Permission, disk::Disk},
    device_number::DeviceNumber,
    holders::{Holder, Host},
};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags},
    mount::MountFlags,
};
use std::{
    any::Any,
    fmt::Write as _,
    fs,
    io::Write as _,
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

/// Every signature may be erased: the only reason left to refuse is that a process or driver uses the device.
const SIGNATURES: [&str; 12] = [
    "ext4",
    "xfs",
    "btrfs",
    "swap",
    "dos",
    "jbd",
    "xfs_external_log",
    "bcachefs",
    "LVM2_member",
    "linux_raid_member",
    "zfs_member",
    "bcache",
];
const SIZE_MIB: u64 = 400;

/// A row on this kernel: by whom the device is used, how, and how that is set up.
type Live = (&'static str, &'static str, fn(&Stage) -> Result<Held, String>);

/// A blank disk: a loop device that no process holds open.
struct Stage {
    lab: Lab,
    device: Attached,
    image: PathBuf,
}

/// The text that the refusal must contain, and the guard that keeps the device in use.
struct Held {
    says: Vec<String>,
    _guards: Vec<Box<dyn Any>>,
}

/// A loop device as `losetup` attaches it.
struct Attached(PathBuf);

impl Attached {
    fn to(file: &Path, options: &[&str]) -> Self {
        let words = [&["--find", "--show"], options, &[file.to_str().unwrap()]].concat();
        let device = Self(run("losetup", &words).stdout.trim().into());
        // A device keeps this setting when its file is detached, no matter who made it.
        run("blockdev", &["--setrw", device.0.to_str().unwrap()]);
        device
    }

    fn name(&self) -> String {
        self.0.file_name().unwrap().to_str().unwrap().to_owned()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = Program::new("losetup").args(["--detach", self.0.to_str().unwrap()]).run();
    }
}

/// A command that is run at the end.
struct AtEnd(&'static str, Vec<String>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let _ = Program::new(self.0).args(self.1.clone()).run();
    }
}

impl Stage {
    fn new() -> Self {
        let lab = Lab::new();
        let image = lab.file("image", SIZE_MIB);
        Self { device: Attached::to(&image, &["--partscan"]), lab, image }
    }

    fn path(&self) -> &Path {
        &self.device.0
    }

    fn text(&self) -> &str {
        self.path().to_str().unwrap()
    }

    /// Retries while a `losetup` of another test has the device open: it picked the same free number and lost the race.
    fn accept(&self) -> Result<Disk, StackError> {
        let erase_signatures = SIGNATURES.map(str::to_owned).to_vec();
        let permission = Permission { erase: Some(self.path().into()), erase_signatures };
        let mut answer = None;
        wait_until("no losetup has it open", || {
            let requested = Disk::accept(self.path(), Bytes::mib(1), &permission);
            let message = requested.as_ref().map_or_else(ToString::to_string, |_| String::new());
            answer = Some(requested);
            // One that has ended since has no name.
            !["(losetup) has it open", "() has it open"].iter().any(|other| message.contains(other))
        });
        answer.unwrap()
    }

    /// A node of the device in the lab.
    fn node(&self) -> PathBuf {
        let node = self.lab.path("a node elsewhere");
        let number = fs::metadata(self.path()).unwrap().rdev();
        rustix::fs::mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number).unwrap();
        node
    }

    fn format(&self, kind: &str) {
        let options: &[&str] = if kind == "ext4" { &["-q", "-F"] } else { &["-q", "-f"] };
        dress::with(self.path(), &format!("mkfs.{kind}"), options);
    }

    fn mount(&self, device: &Path) -> (PathBuf, MountGuard) {
        let point = self.lab.folder("point");
        let guard = MountGuard::mount(device, &point);
        (point, guard)
    }

    /// A partition of 16 MiB, made without a table.
    fn partition(&self) -> Result<(PathBuf, AtEnd), String> {
        Program::new("addpart").args([self.text(), "1", "2048", "32768"]).run().map_err(|e| e.to_string())?;
        let partition = PathBuf::from(format!("{}p1", self.text()));
        wait_until("the partition has a node", || partition.exists());
        Ok((partition, AtEnd("delpart", vec![self.text().into(), "1".into()])))
    }

    /// Another filesystem's device: the same, in size.
    fn other(&self) -> Attached {
        Attached::to(&self.lab.file("other", SIZE_MIB), &[])
    }
}

/// Why a driver cannot be used: it is not in the kernel, or not loaded, which shows at a path, or its tool is not there.
fn require_driver(name: &str, shows: &str, tool: &str) -> Result<(), String> {
    command::find(tool).ok_or_else(|| format!("{tool} is not installed"))?;
    Path::new(shows).exists().then_some(()).ok_or_else(|| format!("{name} is not loaded"))
}

/// Takes a device of the device mapper away.
fn removed(name: String) -> AtEnd {
    AtEnd("dmsetup", vec!["remove".into(), "--retry".into(), name])
}

fn held(says: impl Into<String>, guards: Vec<Box<dyn Any>>) -> Result<Held, String> {
    Ok(Held { says: vec![says.into()], _guards: guards })
}

/// A process that has done something with a device by system calls, and sleeps.
fn perl(device: &Path, calls: &str, says: &str) -> Result<Held, String> {
    command::find("perl").ok_or("perl is not installed")?;
    let script = format!(
        "exec perl -e '$| = 1; open F, \"+<\", $ARGV[0] or die; {calls} print \"ready\\n\"; sleep 60' \"$0\""
    );
    let process = Background::start(false, &script, &[device]);
    Ok(Held {
        says: vec![format!("process {} (perl) {says}", process.pid())],
        _guards: vec![Box::new(process)],
    })
}

/// A process that has registered something with an io_uring: operation, number and, packed, the argument (io_uring_register(2)).
fn ring(device: &Path, [operation, number]: [u32; 2], argument: &str, says: &str) -> Result<Held, String> {
    if fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|text| text.trim() == "2") {
        return Err("io_uring is switched off".into());
    }
    let calls = format!(
        "$p = \"\\0\" x 120; $r = syscall({}, 4, $p); die if $r < 0; $a = pack({argument}); \
         die if syscall({}, $r, {operation}, $a, {number}) < 0; close F;",
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_register,
    );
    perl(device, &calls, says)
}

/// Makes a btrfs of this device and another one.
fn btrfs_of_two(stage: &Stage) -> Attached {
    let other = stage.other();
    run("mkfs.btrfs", &["-q", "-f", other.0.to_str().unwrap(), stage.text()]);
    other
}

const LIVE: [Live; 27] = [
    ("mount", "ext4", |stage| {
        stage.format("ext4");
        let (point, guard) = stage.mount(stage.path());
        held(format!("it is mounted at {}", point.display()), vec![Box::new(guard)])
    }),
    ("mount", "btrfs, which has a virtual device number", |stage| {
        stage.format("btrfs");
        let (point, guard) = stage.mount(stage.path());
        held(format!("it is mounted at {}", point.display()), vec![Box::new(guard)])
    }),
    ("mount", "in another mount namespace", |stage| {
        stage.format("xfs");
        let point = stage.lab.folder("point");
        let script = "mount -i -n \"$0\" \"$1\" && echo ready && exec sleep 60";
        let process = Background::start(true, script, &[stage.path(), &point]);
        let says = format!(
            "it is mounted at {} in the mount namespace of process {} (",
            point.display(),
            process.pid()
        );
        held(says, vec![Box::new(process)])
    }),
    ("mount", "in another mount namespace, by a node elsewhere, btrfs", |stage| {
        stage.format("btrfs");
        let (node, point) = (stage.node(), stage.lab.folder("point"));
        let script = "mount -i -n \"$0\" \"$1\" && echo ready && exec sleep 60";
        let process = Background::start(true, script, &[&node, &point]);
        held(format!("in the mount namespace of process {} (", process.pid()), vec![Box::new(process)])
    }),
    ("mount", "in a mount namespace that no process is in", |stage| {
        stage.format("ext4");
        let (point, file) = (stage.lab.folder("point"), stage.lab.file("namespace", 0));
        let namespace = format!("--mount={}", file.display());
        let mount = ["--propagation", "private", "mount", "-i", "-n", stage.text(), point.to_str().unwrap()];
        let words = [&[namespace.as_str()], &mount[..]].concat();
        // unshare may keep the namespace before it has made it (EINVAL), if the machine is busy.
        wait_until("the namespace is kept", || Program::new("unshare").args(words.clone()).run().is_ok());
        held("it is held exclusively", vec![Box::new(MountGuard::of(&file))])
    }),
    ("mount", "unmounted lazily, with a file open", |stage| {
        stage.format("ext4");
        let (point, guard) = stage.mount(stage.path());
        let script = "exec 3>\"$0/file\"; umount -l \"$0\"; echo ready; exec sleep 60";
        let process = Background::start(false, script, &[&point]);
        held("it is held exclusively", vec![Box::new(process), Box::new(guard)])
    }),
    ("mount", "of a partition", |stage| {
        let (partition, gone) = stage.partition()?;
        dress::with(&partition, "mkfs.ext4", &["-q", "-F"]);
        let (point, guard) = stage.mount(&partition);
        held(format!("it is mounted at {}", point.display()), vec![Box::new(guard), Box::new(gone)])
    }),
    ("filesystem of several devices", "btrfs, mounted by its other device", |stage| {
        let other = btrfs_of_two(stage);
        run("btrfs", &["device", "scan", stage.text()]);
        let (_, guard) = stage.mount(&other.0);
        held("it is a device of the mounted btrfs ", vec![Box::new(guard), Box::new(other)])
    }),
    ("filesystem of several devices", "btrfs, not mounted", |stage| {
        let other = btrfs_of_two(stage);
        held("part of a group of devices (btrfs of 2 devices)", vec![Box::new(other)])
    }),
    ("filesystem of several devices", "btrfs, a seed that others are grown from", |stage| {
        stage.format("btrfs");
        command::find("btrfstune").ok_or("btrfstune is not installed")?;
        run("btrfstune", &["-f", "-S", "1", stage.text()]);
        held("part of a group of devices (btrfs that others are grown from)", Vec::new())
    }),
    ("filesystem of several devices", "journal of an ext4 elsewhere", |stage| {
        run("mke2fs", &["-q", "-F", "-O", "journal_dev", stage.text()]);
        held("part of a group of devices (jbd)", Vec::new())
    }),
    ("filesystem of several devices", "log of an XFS elsewhere", |stage| {
        let other = stage.other();
        let log = format!("logdev={}", stage.text());
        run("mkfs.xfs", &["-q", "-f", "-l", &log, other.0.to_str().unwrap()]);
        held("part of a group of devices (xfs_external_log)", vec![Box::new(other)])
    }),
    ("swap", "the whole device", |stage| {
        dress::with(stage.path(), "mkswap", &["-q"]);
        let on = Program::new("swapon").args(["--priority", "0", stage.text()]).run();
        on.map_err(|error| error.to_string())?;
        held("it is in use as swap", vec![Box::new(AtEnd("swapoff", vec![stage.text().into()]))])
    }),
    ("loop device", "over the device, at an offset, mounted", |stage| {
        let upper = Attached::to(stage.path(), &["--offset", "128MiB"]);
        dress::with(&upper.0, "mkfs.ext4", &["-q", "-F"]);
        let (_, guard) = stage.mount(&upper.0);
        let says = format!(
            "{} uses the same data: it is on {}, from byte {}",
            upper.name(),
            stage.text(),
            128 << 20
        );
        held(says, vec![Box::new(guard), Box::new(upper)])
    }),
    ("loop device", "over the device, nothing on it", |stage| {
        let upper = Attached::to(stage.path(), &[]);
        let says = format!("{} uses the same data: it is on {}, from byte 0", upper.name(), stage.text());
        held(says, vec![Box::new(upper)])
    }),
    ("loop device", "over a node of the device elsewhere", |stage| {
        let upper = Attached::to(&stage.node(), &["--read-only"]);
        held(format!("{} uses the same data", upper.name()), vec![Box::new(upper)])
    }),
    ("loop device", "over a partition", |stage| {
        let (partition, gone) = stage.partition()?;
        let upper = Attached::to(&partition, &[]);
        held(format!("{} uses the same data", upper.name()), vec![Box::new(upper), Box::new(gone)])
    }),
    ("loop device", "over the backing file of the device", |stage| {
        let upper = Attached::to(&stage.image, &[]);
        held(format!("{} uses the same data", upper.name()), vec![Box::new(upper)])
    }),
    ("loop device", "over that file by another name, at an offset", |stage| {
        let name = stage.lab.path("another name");
        fs::hard_link(&stage.image, &name).unwrap();
        let upper = Attached::to(&name, &["--offset", "64MiB", "--sizelimit", "64MiB"]);
        let says = format!("{} uses the same data: it is on {}, from byte", upper.name(), name.display());
        held(says, vec![Box::new(upper)])
    }),
    ("partition", "unused", |stage| {
        let (partition, gone) = stage.partition()?;
        let name = partition.file_name().unwrap().to_str().unwrap();
        held(format!("it has partitions ({name} …)"), vec![Box::new(gone)])
    }),
    ("process", "descriptor", |stage| perl(stage.path(), "", "has it open")),
    ("process", "descriptor by a node elsewhere", |stage| perl(&stage.node(), "", "has it open")),
    ("process", "descriptor by a node that is deleted", |stage| {
        perl(&stage.node(), "unlink $ARGV[0] or die;", "has it open")
    }),
    ("process", "descriptor of the backing file of the device", |stage| {
        perl(&stage.image, "", "has it open")
    }),
    ("process", "map, its descriptor closed", |stage| {
        perl(stage.path(), &mapping(), "has it mapped into its memory")
    }),
    ("process", "map by a node that is deleted", |stage| {
        let calls = format!("{} unlink $ARGV[0] or die;", mapping());
        perl(&stage.node(), &calls, "has it mapped into its memory")
    }),
    ("claim", "of a process that may have it open", |stage| {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        let claim = rustix::fs::open(stage.path(), flags, Mode::empty()).unwrap();
        held("it is held exclusively", vec![Box::new(claim)])
    }),
];

/// Rows that take a driver which this kernel need not have, or that kernels show in different ways. They are run in a
/// guest, too, by the tests of the program.
const OF_KERNELS: [Live; 5] = [
    ("process", "file registered with an io_uring, its descriptor closed", |stage| {
        ring(stage.path(), [2, 1], "\"l\", fileno F", "has it registered with an io_uring")
    }),
    ("LVM", "a volume", |stage| {
        require_driver("dm_mod", "/sys/class/misc/device-mapper", "lvm")?;
        let group = format!("fstrial_test_{}", stage.device.name());
        // Of all devices of the machine it may look at this one.
        let lvm = |words: &[&str]| {
            let only = format!(
                "devices{{use_devicesfile=0 filter=[\"a|^{}$|\",\"r|.*|\"]}} backup{{backup=0 archive=0}}",
                stage.text()
            );
            let words = words.iter().map(ToString::to_string);
            Program::new("lvm").args(words).args(["--config".into(), only]).run().unwrap();
        };
        lvm(&["vgcreate", "--yes", "--quiet", &group, stage.text()]);
        // Without udev there may be no node of it to write zeros to.
        let blank = ["--zero", "n", "--wipesignatures", "n"];
        lvm(&[
            &["lvcreate", "--yes", "--quiet", "--extents", "50%VG", "--name", "volume", &group],
            &blank[..],
        ]
        .concat());
        held(format!("(LVM {group}-volume)"), vec![Box::new(removed(format!("{group}-volume")))])
    }),
    ("md", "the whole device", |stage| {
        require_driver("raid1", "/sys/module/raid1", "mdadm")?;
        let array = format!("/dev/md/fstrial_test_{}", stage.device.name());
        // Without a superblock, from which a host would assemble it again.
        run("mdadm", &["--build", &array, "--level=1", "--raid-devices=2", stage.text(), "missing"]);
        held("(md raid1)", vec![Box::new(AtEnd("mdadm", vec!["--stop".into(), array]))])
    }),
    ("device mapper", "linear", |stage| {
        require_driver("dm_mod", "/sys/class/misc/device-mapper", "dmsetup")?;
        let name = format!("fstrial_test_{}", stage.device.name());
        let table = format!("0 2048 linear {} 2048", stage.text());
        run("dmsetup", &["create", &name, "--table", &table]);
        held(format!("(device mapper {name})"), vec![Box::new(removed(name))])
    }),
    ("device mapper", "dm-crypt", |stage| {
        require_driver("dm_crypt", "/sys/module/dm_crypt", "cryptsetup")?;
        let (name, key) = (format!("fstrial_test_{}", stage.device.name()), stage.lab.path("key"));
        fs::write(&key, [7; 32]).unwrap();
        let key = format!("--key-file={}", key.display());
        let words = ["open", "--type=plain", "--cipher=aes-xts-plain64", "--key-size=256", &key];
        run("cryptsetup", &[&words[..], &[stage.text(), &name]].concat());
        let end = AtEnd("cryptsetup", vec!["close".into(), name.clone()]);
        held(format!("(dm-crypt {name})"), vec![Box::new(end)])
    }),
];

/// Maps the first page, shared, and closes the descriptor.
fn mapping() -> String {
    format!("die if syscall({}, 0, 4096, 3, 1, fileno(F), 0) < 0; close F;", libc::SYS_mmap)
}

/// A row whose superblock is written byte by byte on a device of this machine: its user, the function that writes it,
/// and the kind of group.
type Written = (&'static str, fn(&Path), &'static str);

const WRITTEN: [Written; 4] = [
    ("LVM", dress::as_lvm2, "LVM2_member"),
    ("md", dress::as_raid, "linux_raid_member"),
    ("ZFS", dress::as_zfs, "zfs_member"),
    ("filesystem of several devices", dress::as_bcachefs, "bcachefs of 2 devices"),
];

/// The table of docs/safety.md: for each way the cases tested live, and those tested on recorded hosts.
fn matrix() -> String {
    let live = LIVE.iter().chain(&OF_KERNELS).map(|(by, case, _)| (*by, *case, 0));
    let written = WRITTEN.iter().map(|(by, ..)| (*by, "superblock of a member", 1));
    let recorded = RECORDED.iter().map(|(by, case, _)| (*by, *case, 1));
    let mut ways: Vec<(&str, [Vec<&str>; 2])> = Vec::new();
    for (by, case, column) in live.chain(written).chain(recorded) {
        let at = ways.iter().position(|(way, _)| *way == by).unwrap_or_else(|| {
            ways.push((by, Default::default()));
            ways.len() - 1
        });
        ways[at].1[column].push(case);
    }
    ways.iter().fold("| used by | live | recorded |\n|---|---|---|\n".to_owned(), |mut table, (by, cases)| {
        writeln!(table, "| {by} | {} | {} |", cases[0].join("; "), cases[1].join("; ")).unwrap();
        table
    })
}

#[test]
fn the_matrix_is_in_the_manual() {
    let matrix = matrix();
    // In one write, past the capture of libtest.
    std::io::stderr().write_all(matrix.as_bytes()).unwrap();
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/safety.md")).unwrap();
    assert!(manual.contains(&matrix), "docs/safety.md has another table than this:\n{matrix}");
}

/// Puts the device in use and checks the refusal and that the device is unchanged.
fn assert_refused_while(row: &str, stage: &Stage, held: Held) {
    let before = ends_of(stage.path());
    match stage.accept() {
        Err(StackError::Refused { device, reason, hint }) => {
            assert_eq!(device, stage.path(), "{row}");
            for says in &held.says {
                assert!(reason.contains(says), "{row}: it says `{reason}`, not `{says}`");
            }
            assert!(!hint.is_empty(), "{row}");
        }
        Err(other) => panic!("{row}: not a refusal: {other}"),
        Ok(_) => panic!("{row}: the device was accepted"),
    }
    assert!(before == ends_of(stage.path()), "{row}: a refused device was changed");
    drop(held);
    wait_until(&format!("it is free again after: {row}"), || {
        // Not every version of wipefs knows everything that we look for.
        write_at(stage.path(), 0, &[0; 1 << 20]);
        stage.accept().is_ok()
    });
}

/// Sets up each row and checks the refusal before, during and after the use.
fn assert_refused(test: &str, rows: &[Live]) {
    for (by, case, set_up) in rows {
        let (row, stage) = (format!("{by}, {case}"), Stage::new());
        stage.accept().unwrap_or_else(|error| panic!("before {row}: {error}"));
        match set_up(&stage) {
            Ok(held) => assert_refused_while(&row, &stage, held),
            Err(reason) => skip(&format!("{test} ({row})"), &reason),
        }
    }
}

#[test]
fn a_used_device_is_refused_on_this_kernel() {
    isolated(|| assert_refused("holders::a_used_device_is_refused_on_this_kernel", &LIVE));
}

#[test]
fn disk_in_kernel_specific_use_is_refused() {
    isolated(|| assert_refused("holders::disk_in_kernel_specific_use_is_refused", &OF_KERNELS));
}

#[test]
fn a_member_of_a_group_is_refused() {
    isolated(|| {
        for (by, dress, kind) in WRITTEN {
            let stage = Stage::new();
            dress(stage.path());
            let says = vec![format!("it is part of a group of devices ({kind})")];
            assert_refused_while(by, &stage, Held { says, _guards: Vec::new() });
        }
    });
}

/// The kernel names no file whose path is longer than a page: such descriptors of other processes do not block the
/// check, and a device node is still recognised.
#[test]
fn descriptors_with_overlong_paths_are_checked() {
    isolated(|| {
        let name = "holders::descriptors_with_overlong_paths_are_checked";
        let stage = Stage::new();
        if command::find("perl").is_none() {
            return skip(name, "needs perl");
        }
        let number = fs::metadata(stage.path()).unwrap().rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        for (what, made, is_refused) in
            [("a file", String::new(), false), ("the disk", format!("b {major} {minor}"), true)]
        {
            let script = format!(
                "cd \"$0\" && exec perl -e '$| = 1; for (1 .. 30) {{ $d = \"d\" x 200; mkdir $d; chdir $d or die; }} \
                 if (\"{made}\") {{ system(\"mknod n {made}\") and die }} else {{ open N, \">n\" }} \
                 open F, \"<n\" or die; print \"ready\\n\"; sleep 60'"
            );
            let folder = stage.lab.folder(what);
            let process = Background::start(false, &script, &[&folder]);
            let accepted = stage.accept();
            assert_eq!(accepted.is_err(), is_refused, "{what}: {:?}", accepted.err());
            if let Err(error) = accepted {
                assert!(
                    error.to_string().contains(&format!("process {} (perl) has it open", process.pid())),
                    "{error}"
                );
            }
        }
    });
}

/// Files that root may not even look at, and that are on no disk.
#[test]
fn another_users_fuse_filesystem_is_in_nobodys_way() {
    isolated(|| {
        let name = "holders::another_users_fuse_filesystem_is_in_nobodys_way";
        let (stage, nobody) = (Stage::new(), "65534");
        let Ok(fuse) = fs::File::options().read(true).write(true).open("/dev/fuse") else {
            return skip(name, "needs FUSE");
        };
        if command::find("perl").is_none() || command::find("setpriv").is_none() {
            return skip(name, "needs perl and setpriv");
        }
        let point = stage.lab.folder("point");
        fs::set_permissions(stage.lab.home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let options = format!("fd={},rootmode=40000,user_id={nobody},group_id={nobody}", fuse.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        rustix::mount::mount("test", &point, "fuse", MountFlags::NODEV, options.as_c_str()).unwrap();
        let guard = MountGuard::of(&point);
        // Only opened with O_PATH, and examined with a call that does not touch the filesystem, because its server
        // never answers. Descriptors inherited by the tests are closed first, so that the number is known.
        let script = format!(
            "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec setpriv --reuid {nobody} --regid {nobody} --clear-groups perl -e \
             '$| = 1; die $! if syscall({}, -100, $ARGV[0], {}) != 3; print \"ready\\n\"; sleep 60' \"$0\"",
            libc::SYS_openat,
            libc::O_PATH,
        );
        let process = Background::start(false, &script, &[&point]);
        let opened = format!("/proc/{}/fd/3", process.pid());
        assert_eq!(fs::read_link(&opened).unwrap(), point);
        assert_eq!(fs::metadata(&opened).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
        stage.accept().unwrap_or_else(|error| panic!("{error}"));
        drop((process, guard));
    });
}

/// The users of a disk of a recorded host, of major number 8.
fn holder_in(tree: &Tree, name: &str, minor: u32) -> Result<Option<Holder>, StackError> {
    let node = Path::new("/dev").join(name);
    Host::recorded(tree.root()).holder_of(&node, DeviceNumber { major: 8, minor }, &[])
}

#[test]
fn a_used_device_is_refused_on_recorded_hosts() {
    if !fstrial_stack::host::is_root() {
        return skip("holders::a_used_device_is_refused_on_recorded_hosts", "needs root to make nodes");
    }
    let free = Tree::new();
    assert_eq!(holder_in(&free, "sdb", 16).unwrap(), None, "others that look like it are in use");
    assert!(holder_in(&free, "sda", 0).unwrap().is_some());
    for (by, case, set_up) in RECORDED {
        let (row, tree) = (format!("{by}, {case}"), Tree::new());
        let says = set_up(&tree);
        let result = holder_in(&tree, "sdb", 16).unwrap_or_else(|error| panic!("{row}: {error}"));
        let Some(holder) = result else { panic!("{row}: the device was accepted") };
        assert!(holder.to_string().contains(says), "{row}: it says `{holder}`, not `{says}`");
        assert!(!holder.remedy().is_empty(), "{row}");
        let other = holder_in(&tree, "sdc", 32).unwrap_or_else(|error| panic!("{row}: {error}"));
        assert_eq!(other, None, "{row}: another disk is in use as well");
    }
}

#[test]
fn disk_is_refused_if_holders_cannot_be_read() {
    if !fstrial_stack::host::is_root() {
        return skip("holders::disk_is_refused_if_holders_cannot_be_read", "needs root to make nodes");
    }
    type Spoil = fn(&Tree);
    let cases: [(&str, Spoil, &str); 9] = [
        ("no /proc", |tree| tree.remove("proc"), "could not list"),
        (
            "an empty /proc",
            |tree| ["1", "40"].map(|id| tree.remove(&format!("proc/{id}"))).map(drop).into_iter().collect(),
            "could not find processes",
        ),
        ("no /sys/block", |tree| tree.remove("sys/block"), "could not list"),
        (
            "mounts of an unknown form",
            |tree| tree.append("proc/1/task/1/mountinfo", "8:16 is mounted\n"),
            "could not make sense of",
        ),
        (
            "a number of an unknown form",
            |tree| tree.write("sys/block/loop1/dev", "seven\n"),
            "`seven` is not a device number",
        ),
        ("an export of what is gone", |tree| tree.namespace("nqn", 1, "/dev/gone", "1"), "could not find"),
        (
            "a zram device on what is gone",
            |tree| tree.write("sys/block/zram1/backing_dev", "/dev/gone\n"),
            "could not find",
        ),
        (
            "a loop device on what is gone",
            |tree| tree.looped("loop3", 3, "/dev/gone", 0),
            "could not look at",
        ),
        (
            "a partition without a number",
            |tree| tree.write("sys/block/sdb/sdb1/partition", "1\n"),
            "could not read",
        ),
    ];
    for (case, spoil, says) in cases {
        let tree = Tree::new();
        spoil(&tree);
        let error = holder_in(&tree, "sdb", 16).err().unwrap_or_else(|| panic!("{case}: accepted"));
        assert!(error.to_string().contains(says), "{case}: {error}");
    }
    let tree = Tree::new();
    tree.remove("sys/kernel/config");
    assert_eq!(holder_in(&tree, "sdb", 16).unwrap(), None, "neither nvmet nor LIO is there");
    tree.write("sys/module/nvmet/refcnt", "1\n");
    let holder = holder_in(&tree, "sdb", 16).unwrap().unwrap();
    assert!(holder.to_string().contains("the module nvmet may use it"), "{holder}");
    assert!(holder.remedy().contains("mount -t configfs"), "{}", holder.remedy());
    // The count, and no file: newer kernels write both under one lock, or neither.
    for (release, shown, is_known) in [
        ("6.1.0-51-amd64", "UserFiles:\t2\n    0: <none>\n    1: <none>\nUserBufs:\t0\n", true),
        ("6.1.0-51-amd64", "UserFiles:\t2\nUserBufs:\t0\n", false),
        ("6.9.0", "UserFiles:\t2\nUserBufs:\t0\n", false),
        ("6.14.3", "UserFiles:\t2\nUserBufs:\t0\n", false),
        ("of somebody's own", "UserFiles:\t2\nUserBufs:\t0\n", false),
        ("6.18.5", "UserFiles:\t2\nUserBufs:\t0\n", true),
        ("7.2-rc1", "UserFiles:\t2\nUserBufs:\t0\n", true),
        ("7.2-rc1", "flags:\t02\n", false),
    ] {
        let tree = Tree::new();
        tree.write("proc/sys/kernel/osrelease", &format!("{release}\n"));
        tree.ring(77, shown);
        let says = holder_in(&tree, "sdb", 16).unwrap().map(|holder| holder.to_string());
        let is_busy =
            says.as_ref().is_some_and(|says| says.contains("process 77 (ring) keeps an io_uring busy"));
        assert_eq!((is_busy, says.is_some()), (!is_known, !is_known), "{release}, {shown}: {says:?}");
    }
}

/// liburing reserves slots for files before it has any.
#[test]
fn a_ring_without_files_is_in_nobodys_way() {
    let test = "holders::a_ring_without_files_is_in_nobodys_way";
    if !fstrial_stack::host::is_root() {
        return skip(test, "needs root for loop devices");
    }
    let stage = Stage::new();
    match ring(stage.path(), [13, 32], "\"LLQQQ\", 16, 1, 0, 0, 0", "") {
        Ok(_held) => drop(stage.accept().unwrap_or_else(|error| panic!("{error}"))),
        Err(why) => skip(test, &why),
    }
}

#[test]
fn generic_devices_of_nvme_are_those_of_the_same_namespace() {
    if !fstrial_stack::host::is_root() {
        return skip(
            "holders::generic_devices_of_nvme_are_those_of_the_same_namespace",
            "needs root to make nodes",
        );
    }
    let tree = Tree::new();
    for index in [1, 11] {
        tree.disk(&format!("nvme0n{index}"), 259, index);
        tree.link(&format!("sys/block/nvme0n{index}/device"), "../../class/nvme/nvme0");
        tree.write(&format!("sys/class/nvme/nvme0/ng0n{index}/dev"), &format!("244:{index}\n"));
        tree.node(&format!("dev/ng0n{index}"), FileType::CharacterDevice, 244, index);
    }
    tree.descriptor(40, 40, 9, "dev/ng0n11");
    let holder = |minor| {
        let node = PathBuf::from(format!("/dev/nvme0n{minor}"));
        Host::recorded(tree.root()).holder_of(&node, DeviceNumber { major: 259, minor }, &[]).unwrap()
    };
    assert_eq!(holder(1), None);
    assert_eq!(holder(11).unwrap().to_string(), "process 40 (cat) has it open");
}
