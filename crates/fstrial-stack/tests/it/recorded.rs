//! Recorded hosts: the contents of `/proc`, `/sys` and `/dev` on machines with drivers that this one lacks (md, device
//! mapper, LVM, ZFS, nvmet, LIO …), written from the kernel's documentation and sources. Device nodes have the numbers
//! of those machines; no test opens them.

use fstrial_stack::device_number::DeviceNumber;
use rustix::fs::{CWD, FileType, Mode};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// The mounts that every process sees. A name that looks like a number is not one.
const MOUNTS: &str = "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      25 24 65:160 / /data rw,relatime - xfs /dev/sdaa rw\n\
                      26 24 0:45 / /srv rw - btrfs /dev/sda2 rw\n\
                      27 24 0:46 / /run/8:16 rw - tmpfs 8:16 rw\n";

/// A row of the matrix: the user of `sdb`, the kind of use, and the setup, which returns the text of the refusal.
pub(crate) type Recorded = (&'static str, &'static str, fn(&Tree) -> &'static str);

pub(crate) const RECORDED: [Recorded; 34] = [
    ("mount", "of a partition, in another mount namespace", |tree| {
        tree.partition("sdb", 1, 17);
        tree.task_with_mount(77, "4026532201", "30 24 8:17 / /mnt/here rw - ext4 /dev/sdb1 rw");
        "it is mounted at /mnt/here in the mount namespace of process 77 (container)"
    }),
    ("mount", "in a namespace whose first process has another root", |tree| {
        tree.task(77, 77, "chrooted", "4026532201", "");
        tree.turn("proc/77/task/77/root", "../../../../srv");
        tree.task_with_mount(78, "4026532201", "30 24 8:16 / /mnt/here rw - ext4 /dev/sdb rw");
        "it is mounted at /mnt/here in the mount namespace of process 78 (container)"
    }),
    ("mount", "in a namespace of one thread", |tree| {
        tree.task(77, 77, "server", "4026531841", MOUNTS);
        tree.task(77, 78, "thread", "4026532201", "30 24 0:70 / /mnt/here rw - btrfs /dev/sdb rw\n");
        "it is mounted at /mnt/here in the mount namespace of process 77 (thread)"
    }),
    ("filesystem of several devices", "bcachefs, mounted", |tree| {
        tree.link("sys/fs/bcachefs/2a5b3c1e/dev-0/block", "../../../../block/sdaa");
        tree.link("sys/fs/bcachefs/2a5b3c1e/dev-1/block", "../../../../block/sdb");
        "it is a device of the mounted bcachefs 2a5b3c1e"
    }),
    ("swap", "a partition", |tree| {
        tree.partition("sdb", 2, 18);
        tree.append("proc/swaps", "/dev/sdb2                               partition\t1048572\t\t0\t\t-2\n");
        "it is in use as swap"
    }),
    ("md", "the whole device", |tree| {
        tree.holder("sdb", "md127");
        tree.write("sys/block/md127/md/level", "raid1\n");
        "it is held by md127 (md raid1)"
    }),
    ("md", "a partition", |tree| {
        tree.partition("sdb", 1, 17);
        tree.holder("sdb/sdb1", "md0");
        tree.write("sys/block/md0/md/level", "raid5\n");
        "it is held by md0 (md raid5)"
    }),
    ("device mapper", "linear", |tree| {
        tree.mapped_over("sdb", "scratch", "");
        "it is held by dm-0 (device mapper scratch)"
    }),
    ("device mapper", "dm-crypt", |tree| {
        tree.mapped_over("sdb", "secret", "CRYPT-LUKS2-0e1fa5b0c3d24e5f8a97b6c5d4e3f201-secret");
        "it is held by dm-0 (dm-crypt secret)"
    }),
    ("device mapper", "multipath", |tree| {
        tree.mapped_over("sdb", "mpatha", "mpath-3600508b400105e210000900000490000");
        "it is held by dm-0 (multipath mpatha)"
    }),
    ("LVM", "a volume", |tree| {
        tree.mapped_over(
            "sdb",
            "vg0-root",
            "LVM-p8bYtXf2mQ7nAqk4hV3rJw9sZc1dLe6uG5oKi0TxNyBvRaHmSgPjCfWEqUDzMlO7",
        );
        "it is held by dm-0 (LVM vg0-root)"
    }),
    ("DRBD", "the whole device", |tree| {
        tree.holder("sdb", "drbd0");
        "it is held by drbd0"
    }),
    ("bcache", "the whole device", |tree| {
        tree.write("sys/block/sdb/bcache/state", "clean\n");
        "it is held by bcache"
    }),
    ("ZFS", "a whole disk, which it divides", |tree| {
        tree.partition("sdb", 1, 17);
        tree.partition("sdb", 9, 25);
        "it has partitions (sdb"
    }),
    ("loop device", "over a link to the device", |tree| {
        tree.link("dev/disk/by-id/ata-DISK", "../../sdb");
        tree.looped("loop3", 3, "/dev/disk/by-id/ata-DISK", 1 << 20);
        "loop3 uses the same data: it is on /dev/disk/by-id/ata-DISK, from byte 1048576"
    }),
    ("loop device", "over a partition, by its name alone", |tree| {
        tree.partition("sdb", 1, 17);
        tree.looped("loop3", 3, "/dev/sdb1", 0);
        "loop3 uses the same data: it is on /dev/sdb1, from byte 0"
    }),
    ("zram", "backing device", |tree| {
        tree.write("sys/block/zram2/backing_dev", "/dev/sdb\n");
        "it is in use by zram2 (backing device)"
    }),
    ("zram", "backing device, a partition", |tree| {
        tree.partition("sdb", 3, 19);
        tree.write("sys/block/zram0/backing_dev", "/dev/sdb3\n");
        "it is in use by zram0 (backing device)"
    }),
    ("nvmet", "a namespace", |tree| {
        tree.namespace("nqn.2014-08.org.example:disks", 1, "/dev/sdb", "1");
        "it is in use by nvmet (subsystem nqn.2014-08.org.example:disks, namespace 1)"
    }),
    ("nvmet", "a namespace that is switched off, by a link", |tree| {
        tree.link("dev/disk/by-id/ata-DISK", "../../sdb");
        tree.namespace("nqn.2014-08.org.example:disks", 7, "/dev/disk/by-id/ata-DISK", "0");
        "it is in use by nvmet (subsystem nqn.2014-08.org.example:disks, namespace 7)"
    }),
    ("LIO", "iblock", |tree| {
        tree.backstore("iblock_0", "disk", "/dev/sdb", "Major: 8 Minor: 16  CLAIMED: IBLOCK");
        "it is in use by the SCSI target (LIO, backstore iblock_0/disk)"
    }),
    ("LIO", "iblock, by a path that leads nowhere now", |tree| {
        tree.backstore("iblock_0", "disk", "/dev/disk/by-path/gone", "Major: 8 Minor: 16  CLAIMED: IBLOCK");
        "it is in use by the SCSI target (LIO, backstore iblock_0/disk)"
    }),
    ("LIO", "iblock, not yet enabled", |tree| {
        tree.backstore("iblock_0", "disk", "/dev/sdb", "Major: 0 Minor: 0");
        "it is in use by the SCSI target (LIO, backstore iblock_0/disk)"
    }),
    ("LIO", "fileio", |tree| {
        let says = "TCM FILEIO ID: 0        File: /dev/sdb  Size: 419430400  Mode: O_DSYNC Async: 0";
        tree.backstore("fileio_1", "file", "/dev/sdb", says);
        "it is in use by the SCSI target (LIO, backstore fileio_1/file)"
    }),
    ("LIO", "pscsi", |tree| {
        tree.backstore(
            "pscsi_2",
            "lun",
            "/dev/sdb",
            "SCSI Device Bus Location: Channel ID: 0 Target ID: 0 LUN: 0",
        );
        "it is in use by the SCSI target (LIO, backstore pscsi_2/lun)"
    }),
    ("SCST", "a device", |tree| {
        tree.write("sys/kernel/scst_tgt/devices/disk1/filename", "/dev/sdb\n[key]\n");
        "it is in use by the SCSI target (SCST, device disk1)"
    }),
    ("USB gadget", "mass storage", |tree| {
        tree.write("sys/kernel/config/usb_gadget/g1/functions/mass_storage.0/lun.0/file", "/dev/sdb\n");
        "it is in use by a USB gadget (g1, function mass_storage.0, LUN 0)"
    }),
    ("process", "descriptor of a thread, the first thread has ended", |tree| {
        tree.task(77, 77, "leader", "4026531841", MOUNTS);
        tree.task(77, 79, "thread", "4026531841", MOUNTS);
        tree.descriptor(77, 79, 5, "dev/sdb");
        "process 77 (thread) has it open"
    }),
    ("process", "descriptor of a partition", |tree| {
        tree.partition("sdb", 1, 17);
        tree.task(77, 77, "reader", "4026531841", MOUNTS);
        tree.descriptor(77, 77, 5, "dev/sdb1");
        "process 77 (reader) has it open"
    }),
    ("process", "descriptor of the SCSI generic device", |tree| {
        tree.write("sys/block/sdb/device/scsi_generic/sg1/dev", "21:1\n");
        tree.node("dev/sg1", FileType::CharacterDevice, 21, 1);
        tree.task(77, 77, "qemu", "4026531841", MOUNTS);
        tree.descriptor(77, 77, 5, "dev/sg1");
        "process 77 (qemu) has it open"
    }),
    ("process", "file registered with an io_uring, of a kernel that shows its name only", |tree| {
        tree.write("sys/block/sdb/device/scsi_generic/sg1/dev", "21:1\n");
        tree.ring(77, "UserFiles:\t3\n    0: sda\n    1: <none>\n    2: sg1\nUserBufs:\t0\n");
        "process 77 (ring) has it registered with an io_uring"
    }),
    ("process", "file registered with an io_uring, its node deleted", |tree| {
        tree.ring(77, "UserFiles:\t2\na name\n    1: /gone/sdb\\040(deleted)\nUserBufs:\t0\n");
        "process 77 (ring) has it registered with an io_uring"
    }),
    ("process", "map of memory at a low address", |tree| {
        tree.task(77, 77, "mapper", "4026531841", MOUNTS);
        tree.mapped(77, "00400000-00401000", "dev/sdb");
        "process 77 (mapper) has it mapped into its memory"
    }),
    ("process", "map of a thread, the first thread has ended", |tree| {
        tree.task(77, 76, "leader", "4026531841", MOUNTS);
        tree.task(77, 77, "mapper", "4026531841", MOUNTS);
        tree.mapped(77, "7f0000000000-7f0000001000", "dev/sdb");
        "process 77 (mapper) has it mapped into its memory"
    }),
];

/// A host on which `sda` and `sdaa` are in use in every way, and `sdb` and `sdc` are free.
pub(crate) struct Tree(TempDir);

impl Tree {
    pub(crate) fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (name, minor) in [("sda", 0), ("sdb", 16), ("sdc", 32)] {
            tree.disk(name, 8, minor);
        }
        tree.disk("sdaa", 65, 160);
        tree.partition("sda", 1, 1);
        tree.partition("sda", 2, 2);
        tree.write("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
        tree.task(1, 1, "systemd", "4026531841", MOUNTS);
        tree.task(40, 40, "cat", "4026531841", MOUNTS);
        tree.link("proc/self", "1/task/1");
        tree.in_use_elsewhere();
        tree
    }

    /// Applies every use of the matrix to other devices whose names and numbers resemble those of `sdb`.
    fn in_use_elsewhere(&self) {
        self.append("proc/swaps", "/dev/sdaa                               partition\t1048572\t\t0\t\t-2\n");
        self.holder("sdaa", "md7");
        self.looped("loop1", 1, "/dev/sdaa", 0);
        self.looped("loop2", 2, "/srv/sdb", 8192);
        self.write("srv/sdb", "an image by that name");
        self.write("sys/block/zram0/backing_dev", "none\n");
        self.write("sys/block/zram1/backing_dev", "/dev/sdaa\n");
        self.namespace("nqn.2014-08.org.example:other", 16, "/dev/sdaa", "1");
        self.namespace("nqn.2014-08.org.example:unset", 1, "(null)", "0");
        self.backstore("iblock_8", "sdb", "/dev/sdaa", "Major: 65 Minor: 160  CLAIMED: IBLOCK");
        self.backstore("iblock_9", "look-alike", "/dev/sda1", "Major: 81 Minor: 6  CLAIMED: IBLOCK");
        self.backstore("rd_mcp_0", "memory", "", "");
        self.node("dev/tty8:16", FileType::CharacterDevice, 8, 16);
        self.node("srv/node of sda1", FileType::BlockDevice, 8, 1);
        self.descriptor(40, 40, 3, "dev/tty8:16");
        self.descriptor(40, 40, 4, "srv/node of sda1");
        self.mapped(40, "7f0000000000-7f0000001000", "dev/sdaa");
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    fn place(&self, path: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.place(path), text).unwrap();
    }

    pub(crate) fn append(&self, path: &str, text: &str) {
        let before = fs::read_to_string(self.at(path)).unwrap();
        self.write(path, &(before + text));
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_dir_all(self.at(path)).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.place(path)).unwrap();
    }

    /// Makes a link lead elsewhere.
    fn turn(&self, path: &str, target: &str) {
        fs::remove_file(self.at(path)).unwrap();
        self.link(path, target);
    }

    pub(crate) fn node(&self, path: &str, kind: FileType, major: u32, minor: u32) {
        let number = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(CWD, self.place(path), kind, Mode::RUSR, number).unwrap();
    }

    pub(crate) fn disk(&self, name: &str, major: u32, minor: u32) {
        self.write(&format!("sys/block/{name}/dev"), &format!("{}\n", DeviceNumber { major, minor }));
        fs::create_dir(self.at(&format!("sys/block/{name}/holders"))).unwrap();
        self.link(&format!("sys/dev/block/{major}:{minor}"), &format!("../../block/{name}"));
        self.node(&format!("dev/{name}"), FileType::BlockDevice, major, minor);
    }

    /// A partition of a disk of major number 8.
    pub(crate) fn partition(&self, disk: &str, index: u32, minor: u32) {
        let name = format!("{disk}{index}");
        self.write(&format!("sys/block/{disk}/{name}/partition"), &format!("{index}\n"));
        self.write(&format!("sys/block/{disk}/{name}/dev"), &format!("8:{minor}\n"));
        self.node(&format!("dev/{name}"), FileType::BlockDevice, 8, minor);
    }

    /// A process with an io_uring, and its entries in `/proc`.
    pub(crate) fn ring(&self, process: u32, shown: &str) {
        self.task(process, process, "ring", "4026531841", MOUNTS);
        self.link(&format!("proc/{process}/task/{process}/fd/3"), "anon_inode:[io_uring]");
        self.write(&format!("proc/{process}/task/{process}/fdinfo/3"), &format!("pos:\t0\n{shown}"));
    }

    /// A link in `holders` of a device (`sdb`, `sdb/sdb1`).
    pub(crate) fn holder(&self, device: &str, name: &str) {
        self.link(&format!("sys/block/{device}/holders/{name}"), &format!("../../{name}"));
    }

    /// A device of device mapper over a device.
    pub(crate) fn mapped_over(&self, device: &str, name: &str, uuid: &str) {
        self.holder(device, "dm-0");
        self.write("sys/block/dm-0/dm/name", &format!("{name}\n"));
        self.write("sys/block/dm-0/dm/uuid", &format!("{uuid}\n"));
    }

    pub(crate) fn looped(&self, name: &str, minor: u32, file: &str, offset: u64) {
        self.disk(name, 7, minor);
        self.write(&format!("sys/block/{name}/loop/backing_file"), &format!("{file}\n"));
        self.write(&format!("sys/block/{name}/loop/offset"), &format!("{offset}\n"));
    }

    /// A namespace of nvmet (drivers/nvme/target/configfs.c).
    pub(crate) fn namespace(&self, subsystem: &str, number: u32, path: &str, enable: &str) {
        let folder = format!("sys/kernel/config/nvmet/subsystems/{subsystem}/namespaces/{number}");
        self.write(&format!("{folder}/device_path"), &format!("{path}\n"));
        self.write(&format!("{folder}/enable"), &format!("{enable}\n"));
    }

    /// A backstore of LIO (drivers/target/target_core_iblock.c, target_core_file.c).
    pub(crate) fn backstore(&self, hba: &str, name: &str, path: &str, says: &str) {
        let folder = format!("sys/kernel/config/target/core/{hba}/{name}");
        let status = "Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512  HwMaxSectors: 32768";
        self.write(&format!("{folder}/info"), &format!("{status}\n        {says}\n"));
        self.write(&format!("{folder}/udev_path"), &format!("{path}\n"));
        self.write(&format!("{folder}/enable"), "1\n");
    }

    pub(crate) fn task(&self, process: u32, id: u32, name: &str, namespace: &str, mounts: &str) {
        let folder = format!("proc/{process}/task/{id}");
        for (file, text) in
            [("comm", format!("{name}\n")), ("maps", String::new()), ("mountinfo", mounts.into())]
        {
            self.write(&format!("{folder}/{file}"), &text);
        }
        self.link(&format!("{folder}/ns/mnt"), &format!("mnt:[{namespace}]"));
        self.link(&format!("{folder}/root"), "../../../..");
        fs::create_dir_all(self.at(&format!("{folder}/fd"))).unwrap();
    }

    /// A task with its own mount next to the mounts of the others.
    pub(crate) fn task_with_mount(&self, process: u32, namespace: &str, mount: &str) {
        self.task(process, process, "container", namespace, &format!("{MOUNTS}{mount}\n"));
    }

    /// A descriptor on a file of the tree.
    pub(crate) fn descriptor(&self, process: u32, task: u32, number: u32, path: &str) {
        self.link(&format!("proc/{process}/task/{task}/fd/{number}"), &format!("../../../../../{path}"));
    }

    /// A map of a file of the tree; `maps` shows the device number of the filesystem that holds the node.
    pub(crate) fn mapped(&self, process: u32, range: &str, path: &str) {
        let line = format!("{range} rw-s 00000000 00:06 {}                         /{path}\n", path.len());
        self.append(&format!("proc/{process}/task/{process}/maps"), &line);
        // `maps` pads addresses with zeros, `map_files` does not.
        let bare: Vec<&str> = range.split('-').map(|address| address.trim_start_matches('0')).collect();
        self.link(&format!("proc/{process}/map_files/{}", bare.join("-")), &format!("../../../{path}"));
    }
}
