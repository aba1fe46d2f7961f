//! Disks that must not be erased, and options that reach out of their arm.

use super::{Case, has_refused, skipped};
use crate::{
    child,
    lab::{Disk, Lab, Undone},
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Stdio,
    time::Duration,
};

/// Size of the disks: as small as the trials here can do with, for each is read twice.
const MIB: u64 = 64;

pub(super) const CASES: [Case; 27] = [
    ("blank-disk-is-taken", blank_is_taken),
    ("disk-unnamed", |lab| refused(lab, &blank(lab)?, "--device disk")),
    ("disk-named-by-a-file", named_by_a_file),
    ("signature", |lab| refused(lab, &signed(lab)?, "--device disk --erase {disk}")),
    ("signature-named-wrongly", |lab| {
        refused(lab, &signed(lab)?, "--device disk --erase {disk} --erase-signature xfs")
    }),
    ("mounted", |lab| mounted(lab, &[])),
    ("mounted-elsewhere", mounted_elsewhere),
    ("mounted-through-a-loop-device", |lab| mounted_through(lab, true)),
    ("held-by-a-loop-device", |lab| mounted_through(lab, false)),
    ("same-file-mounted-by-another-loop-device", same_file),
    ("swap", swap),
    ("open-to-read", |lab| open(lab, |path| fs::File::open(path))),
    ("open-to-write", |lab| open(lab, |path| fs::File::options().write(true).open(path))),
    ("open-by-a-node-elsewhere", open_by_another_node),
    ("mapped", mapped),
    ("read-only", read_only),
    ("member-of-a-btrfs", btrfs_member),
    ("member-of-an-array", array_member),
    ("listed-in-fstab", fstab),
    ("regular-file", |lab| not_a_disk(lab, &lab.write("file", [7; 4096]))),
    ("folder", |lab| not_a_disk(lab, &lab.path("dirs/a"))),
    ("character-device", |lab| not_a_disk(lab, Path::new("/dev/null"))),
    ("missing-device", |lab| not_a_disk(lab, Path::new("/dev/nonesuch"))),
    ("empty-name", |lab| has_refused(&lab.run("compare a=ext4 b=ext4 --device disk --erase="))),
    ("link-to-a-signed-disk", link),
    ("erase-with-an-image", |lab| {
        refused(lab, &blank(lab)?, "--set device.size=64MiB --device image:images --erase {disk}")
    }),
    ("image-on-a-device", |lab| refused(lab, &blank(lab)?, "--set device.size=64MiB --device image:{disk}")),
];

/// Options that name something outside their arm, or take a guard away.
pub(super) const OPTIONS: [&str; 26] = [
    "ext4:-d class",
    "xfs:-p class",
    "btrfs:-r class",
    "btrfs:--rootdir class",
    "btrfs:--rootdir=class",
    "ext4:-z undo",
    "xfs:-c options=x",
    "ext4:-F",
    "ext4:-FF",
    "xfs:-f",
    "btrfs:-f",
    "btrfs:--force",
    "xfs:-l logdev=/dev/sda",
    "xfs:-r rtdev=/dev/sda",
    "ext4:-J device=/dev/sda",
    "ext4:-l badblocks",
    "xfs:-d name=disk",
    "xfs:-d file=1",
    "ext4:loop=/dev/loop0",
    "ext4:remount",
    "ext4:bind",
    "ext4:journal_path=x",
    "btrfs:device=/dev/sda",
    "ext4:-L /etc",
    "xfs:logdev=sda",
    "ext4:../x",
];

const WORDS: &str = "compare a=ext4 b=ext4 --workload random-write --set workload.file_size=1MiB --threads 1 --duration 100ms --rounds 1 --no-page";

/// An option is refused before anything is touched.
pub(super) fn option(lab: &Lab, option: &str) -> Result<(), String> {
    let mut command = lab.fstrial("compare ext4 --set device.size=640MiB --device image:images --dry-run");
    command.arg(format!("x={option}"));
    has_refused(&child::run(&mut command, crate::lab::PATIENCE))
}

/// A command is refused, and the disk is as it was.
fn refused(lab: &Lab, disk: &Disk, words: &str) -> Result<(), String> {
    let before = disk.sum()?;
    let words = format!("{WORDS} {}", words.replace("{disk}", &disk.path));
    let message = has_refused(&lab.run(&words));
    if disk.sum()? != before {
        return Err(format!("the disk was overwritten; {message:?}"));
    }
    message
}

const ERASE: &str = "--device disk --erase {disk} --erase-signature ext4";

fn blank(lab: &Lab) -> Result<Disk, String> {
    lab.disk("disk.img", MIB)
}

/// The refusals below are not due to the size, or another common property.
fn blank_is_taken(lab: &Lab) -> Result<(), String> {
    let disk = blank(lab)?;
    let mut last = String::new();
    // A search for a free loop device has each of them open for a moment.
    let is_taken = child::eventually(Duration::from_secs(10), || {
        let ended = lab.run(&format!("{WORDS} {}", ERASE.replace("{disk}", &disk.path)));
        last = format!("{}: {}", ended.status, ended.last_words());
        matches!(ended.code(), Some(0 | 3))
    });
    if is_taken { Ok(()) } else { Err(last) }
}

fn signed(lab: &Lab) -> Result<Disk, String> {
    let disk = blank(lab)?;
    child::tool("mkfs.ext4", &["-q", &disk.path])?;
    Ok(disk)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn named_by_a_file(lab: &Lab) -> Result<(), String> {
    let disk = blank(lab)?;
    let before = disk.sum()?;
    let trial = format!(
        "[device]\nkind = \"disk\"\npath = \"{}\"\n[[arm]]\nname = \"a\"\nfilesystem = \"ext4\"\n\
         [[arm]]\nname = \"b\"\nfilesystem = \"ext4\"\n[[workload]]\nuse = \"random-write\"\nfile_size = \"1MiB\"\n",
        disk.path
    );
    lab.write("trial.toml", trial);
    has_refused(&lab.run("run trial.toml"))?;
    has_refused(&lab.run("run trial.toml --erase /dev/nonesuch"))?;
    if disk.sum()? == before { Ok(()) } else { Err("the disk was overwritten".into()) }
}

fn mount(lab: &Lab, device: &str) -> Result<Undone, String> {
    let point = text(&lab.path("point"));
    let _ = fs::create_dir(&point);
    let mounted = Undone::after(&["mount", device, &point], &["umount", &point])?;
    fs::write(lab.path("point/precious"), "data").map_err(|e| e.to_string())?;
    Ok(mounted)
}

/// The command is refused, and a file on the mounted filesystem is still there.
fn refused_and_kept(lab: &Lab, disk: &Disk) -> Result<(), String> {
    let message = has_refused(&lab.run(&format!("{WORDS} {}", ERASE.replace("{disk}", &disk.path))));
    let dropped = fs::write("/proc/sys/vm/drop_caches", "2");
    let kept = fs::read_to_string(lab.path("point/precious"));
    if kept.as_deref().ok() != Some("data") {
        return Err(format!("the file on it is gone: {kept:?}, {dropped:?}; {message:?}"));
    }
    message
}

fn mounted(lab: &Lab, _: &[&str]) -> Result<(), String> {
    let disk = signed(lab)?;
    let _mounted = mount(lab, &disk.path)?;
    refused_and_kept(lab, &disk)
}

/// In another mount namespace, which a process keeps alive. A mounted filesystem writes to its disk at times of its
/// choice, so only a file on it shows whether another program wrote there.
fn mounted_elsewhere(lab: &Lab) -> Result<(), String> {
    let disk = signed(lab)?;
    let point = text(&lab.path("dirs/a"));
    let script = format!(
        "mount {} {point} && echo data > {point}/precious && sync && echo mounted && read line && cat {point}/precious",
        disk.path
    );
    let mut command = child::command("unshare");
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().map_err(skipped)?;
    let mut out = BufReader::new(holder.stdout.take().expect("it is piped"));
    let mut message = String::new();
    let read_line = out.read_line(&mut message);
    if message != "mounted\n" {
        let _ = holder.wait();
        return Err(skipped(format!("no mount in a namespace: {read_line:?}")));
    }
    let refusal = has_refused(&lab.run(&format!("{WORDS} {}", ERASE.replace("{disk}", &disk.path))));
    let dropped = fs::write("/proc/sys/vm/drop_caches", "2");
    let written = holder.stdin.take().map(|mut line| line.write_all(b"\n"));
    let mut kept = String::new();
    let read = out.read_line(&mut kept);
    let _ = holder.wait();
    if kept != "data\n" {
        return Err(format!(
            "the file on it is gone: {kept:?}, {read:?}, {dropped:?}, {written:?}; {refusal:?}"
        ));
    }
    refusal
}

fn mounted_through(lab: &Lab, with_filesystem: bool) -> Result<(), String> {
    let disk = blank(lab)?;
    let inner = Disk::attach(Path::new(&disk.path), &["--offset", "33554432"])?;
    if !with_filesystem {
        return refused(lab, &disk, ERASE);
    }
    child::tool("mkfs.ext4", &["-q", &inner.path])?;
    let _mounted = mount(lab, &inner.path)?;
    refused_and_kept(lab, &disk)
}

fn same_file(lab: &Lab) -> Result<(), String> {
    let disk = signed(lab)?;
    let other = Disk::attach(&lab.path("disk.img"), &[])?;
    let _mounted = mount(lab, &other.path)?;
    refused_and_kept(lab, &disk)
}

fn swap(lab: &Lab) -> Result<(), String> {
    let disk = blank(lab)?;
    child::tool("mkswap", &[&disk.path])?;
    let _on = Undone::after(&["swapon", "--priority", "0", &disk.path], &["swapoff", &disk.path])
        .map_err(skipped)?;
    has_refused(&lab.run(&format!("{WORDS} --device disk --erase {0} --erase-signature swap", disk.path)))
}

fn open(lab: &Lab, open: fn(&Path) -> std::io::Result<fs::File>) -> Result<(), String> {
    let disk = blank(lab)?;
    let held = open(Path::new(&disk.path)).map_err(|e| e.to_string())?;
    let result = refused(lab, &disk, ERASE);
    drop(held);
    result
}

/// The numbers of a device, as `mknod` wants them.
fn numbers(disk: &Disk) -> Result<(String, String), String> {
    let text = fs::read_to_string(crate::lab::sysfs(&disk.path).join("dev")).map_err(|e| e.to_string())?;
    let (major, minor) = text.trim().split_once(':').ok_or("a device has numbers")?;
    Ok((major.to_owned(), minor.to_owned()))
}

fn open_by_another_node(lab: &Lab) -> Result<(), String> {
    let disk = blank(lab)?;
    let (major, minor) = numbers(&disk)?;
    let node = text(&lab.path("node"));
    child::tool("mknod", &[&node, "b", &major, &minor]).map_err(skipped)?;
    let held = fs::File::open(&node).map_err(skipped)?;
    let result = refused(lab, &disk, ERASE);
    drop(held);
    result
}

/// A process that has it mapped, and its descriptor closed.
fn mapped(lab: &Lab) -> Result<(), String> {
    let disk = blank(lab)?;
    // Python keeps a separate descriptor for each map; that is closed, too.
    let script = "import mmap, os, sys\nf = os.open(sys.argv[1], os.O_RDWR)\nm = mmap.mmap(f, 4096)\n\
                  os.closerange(3, 256)\nprint('mapped', flush=True)\nsys.stdin.readline()\nm[:1]";
    let mut command = child::command("python3");
    command.args(["-c", script, &disk.path]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().map_err(skipped)?;
    // A line may come in pieces.
    let mut message = String::new();
    let mut out = BufReader::new(holder.stdout.take().expect("it is piped"));
    let result = match out.read_line(&mut message) {
        Ok(_) if message == "mapped\n" => refused(lab, &disk, ERASE),
        other => Err(skipped(format!("nothing was mapped: {other:?}"))),
    };
    drop(holder.stdin.take());
    let _ = holder.wait();
    result
}

fn read_only(lab: &Lab) -> Result<(), String> {
    let disk = blank(lab)?;
    // Anyone who gets the number next would have it read-only, too.
    let _set = Undone::after(&["blockdev", "--setro", &disk.path], &["blockdev", "--setrw", &disk.path])?;
    refused(lab, &disk, ERASE)
}

fn btrfs_member(lab: &Lab) -> Result<(), String> {
    let (disk, other) = (lab.disk("disk.img", 128)?, lab.disk("other.img", 128)?);
    child::tool("mkfs.btrfs", &["-q", "-f", "-d", "single", &disk.path, &other.path]).map_err(skipped)?;
    refused(lab, &disk, "--device disk --erase {disk} --erase-signature btrfs")
}

/// The superblock of md, version 1.2, as far as libblkid looks at it.
fn array_member(lab: &Lab) -> Result<(), String> {
    let disk = blank(lab)?;
    let made = child::tool(
        "mdadm",
        &["--create", "/dev/md127", "--run", "--level=1", "--raid-devices=2", &disk.path, "missing"],
    );
    if made.is_ok() {
        let _ = child::tool("mdadm", &["--stop", "/dev/md127"]);
    } else {
        // Version 0.90 has no checksum that matters to libblkid: magic, version, sizes.
        let at = (MIB << 20) - (64 << 10);
        let mut block = vec![0_u8; 4096];
        for (word, value) in [(0, 0xa92b_4efc_u32), (1, 0), (2, 90), (4, 0), (6, 1)] {
            block[word * 4..][..4].copy_from_slice(&value.to_le_bytes());
        }
        let mut file = fs::File::options().write(true).open(&disk.path).map_err(|e| e.to_string())?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(at)).map_err(|e| e.to_string())?;
        file.write_all(&block).map_err(|e| e.to_string())?;
    }
    let matched = child::tool("wipefs", &["--noheadings", "--output", "TYPE", &disk.path])?;
    if !matched.contains("linux_raid_member") {
        return Err(skipped(format!("no signature of an array could be made: {matched}")));
    }
    refused(lab, &disk, "--device disk --erase {disk} --erase-signature linux_raid_member")
}

/// In a mount namespace with another fstab.
fn fstab(lab: &Lab) -> Result<(), String> {
    let disk = blank(lab)?;
    let before = disk.sum()?;
    lab.write("fstab", format!("# x\n{} /data ext4 noauto 0 0\n", disk.path));
    if !Path::new("/etc/fstab").exists() {
        return Err(skipped("there is no /etc/fstab to cover"));
    }
    let script = format!(
        "mount --bind {} /etc/fstab && exec {} {WORDS} {}",
        text(&lab.path("fstab")),
        lab.program(),
        ERASE.replace("{disk}", &disk.path)
    );
    let mut command = child::command("unshare");
    command.args(["--mount", "sh", "-c", &script]).env("FSTRIAL_HOME", lab.home());
    has_refused(&child::run(&mut command, crate::lab::PATIENCE))?;
    if disk.sum()? == before { Ok(()) } else { Err("the disk was overwritten".into()) }
}

fn not_a_disk(lab: &Lab, path: &Path) -> Result<(), String> {
    let before = fs::read(lab.path("file")).ok();
    has_refused(&lab.run(&format!("{WORDS} --device disk --erase {}", path.display())))?;
    if fs::read(lab.path("file")).ok() == before { Ok(()) } else { Err("the file was overwritten".into()) }
}

fn link(lab: &Lab) -> Result<(), String> {
    let disk = signed(lab)?;
    let before = disk.sum()?;
    std::os::unix::fs::symlink(&disk.path, lab.path("link")).map_err(|e| e.to_string())?;
    has_refused(&lab.run(&format!("{WORDS} --device disk --erase {}", lab.path("link").display())))?;
    if disk.sum()? == before { Ok(()) } else { Err("the disk was overwritten".into()) }
}
