//! The kernel's messages during a run: `/dev/kmsg` from the moment it is opened, and the complaints among them.
//!
//! Each read of `/dev/kmsg` yields one record, `priority,sequence,microseconds,flags[,…];message`, with further lines
//! that begin with a space (Documentation/ABI/testing/dev-kmsg). Only messages of the kernel itself count: programs
//! that write to `/dev/kmsg` get another facility, regardless of the requested one (`devkmsg_write`).
//!
//! A complaint that names a block device is for anyone who uses that device to judge. One that names none (a warning
//! with a stack trace, a hung task) may come from anything on the machine; a figure from a kernel in that condition is
//! worthless.
//!
//! ```text
//! 3,1201,35998779837,-;XFS (loop65): Log I/O Error (0x6) detected at xfs_fs_goingdown+0x63/0xb0. …   of loop65
//! 4,1202,35998779900,-;WARNING: CPU: 0 PID: 71 at fs/ext4/inode.c:3520 ext4_…                         of no device
//! 6,1203,35998781893,-;EXT4-fs (loop64): mounted filesystem …                                         no complaint
//! ```

use crate::error::StackError;
use fstrial_model::filesystem::FILESYSTEMS;
use std::{
    fs::File,
    io::{ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
};

const PATH: &str = "/dev/kmsg";
/// Room for a record with its further lines: a read into less fails. The kernel's own limit is 8 KiB.
const RECORD: usize = 16 << 10;
/// Limit of records per call, so that a kernel that never stops logging blocks nothing.
const MAX_RECORDS: usize = 100_000;
/// Characters of a complaint that are kept.
const MAX_CHARACTERS: usize = 200;

/// The kernel's unread messages since this was opened.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
    buffer: Vec<u8>,
}

/// A message about an unhealthy kernel, filesystem or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The text, without control characters, cut if it is long.
    pub message: String,
    /// The block device it names, as the kernel calls it there: `loop64`, of a journal also `loop64-8`.
    pub device: Option<String>,
}

impl KernelLog {
    /// Listens from here on.
    ///
    /// # Errors
    /// There is no `/dev/kmsg`, or no permission: it takes root, or `kernel.dmesg_restrict=0` and leave to read it.
    pub fn open() -> Result<Self, StackError> {
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(PATH);
        let mut file = opened.map_err(|e| StackError::io("open", PATH, e))?;
        file.seek(SeekFrom::End(0)).map_err(|e| StackError::io("go to the end of", PATH, e))?;
        Ok(Self { file, buffer: vec![0; RECORD] })
    }

    /// The complaints among the messages since the last call.
    pub fn complaints(&mut self) -> Vec<Complaint> {
        let mut result = Vec::new();
        self.hear(&mut |record| result.extend(complaint(record)));
        result
    }

    /// Every record since the last call.
    fn hear(&mut self, visit: &mut dyn FnMut(&str)) {
        for _ in 0..MAX_RECORDS {
            match self.file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(length) => visit(&String::from_utf8_lossy(&self.buffer[..length])),
                // Records were overwritten before they were read (EPIPE): on with the oldest that is left.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                // EAGAIN: no more records. Any other error means that none can be read.
                Err(_) => break,
            }
        }
    }
}

impl Complaint {
    /// True if it is relevant to users of these devices: it names one of them, or none at all.
    pub fn concerns(&self, devices: &[String]) -> bool {
        self.device.is_none() || self.names_one_of(devices)
    }

    /// True if it names one of these devices.
    pub fn names_one_of(&self, devices: &[String]) -> bool {
        let Some(named) = &self.device else { return false };
        devices.iter().any(|device| {
            // A journal is called by its device and the number of its inode.
            named
                .strip_prefix(device.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_number))
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The complaint in a record of `/dev/kmsg`, if it is one.
pub fn complaint(record: &str) -> Option<Complaint> {
    let (prefix, rest) = record.split_once(';')?;
    let priority: u32 = prefix.split(',').next()?.parse().ok()?;
    // Below the 3 bits of the level: the facility. 0 is the kernel, and no program can have it.
    if priority >> 3 != 0 {
        return None;
    }
    let message = rest.lines().next()?;
    let device = match of_device(message) {
        Some(device) => device.map(str::to_owned),
        None if is_of_the_kernel(message) => None,
        None => return None,
    };
    let plain = message.chars().filter(|c| !c.is_control());
    let mut kept: String = plain.clone().take(MAX_CHARACTERS).collect();
    if plain.count() > MAX_CHARACTERS {
        kept.push('…');
    }
    Some(Complaint { message: kept, device })
}

/// True if a message reports that the kernel itself is unhealthy.
fn is_of_the_kernel(message: &str) -> bool {
    let begins = |with: &[&str]| with.iter().any(|start| message.starts_with(start));
    let has = |words: &[&str]| words.iter().all(|word| message.contains(word));
    // lockdep warns without the word CPU. A warning about a program or a module that taints is none.
    let lockdep = [
        "WARNING: possible ",
        "WARNING: suspicious RCU usage",
        "WARNING: inconsistent lock state",
        "WARNING: bad unlock balance",
    ];
    begins(&["BUG: ", "kernel BUG at ", "Oops", "Internal error: ", "general protection fault"])
        || begins(&["Unable to handle kernel ", "Kernel panic"])
        || begins(&lockdep)
        || (begins(&["WARNING: "]) && (has(&["CPU: "]) || has(&["CPU#"])))
        || (begins(&["INFO: task "]) && has(&[" blocked ", "for more than"]))
        || has(&["soft lockup - CPU#"])
        || has(&["hard LOCKUP"])
        || has(&["INFO: rcu", "stall"])
}

/// The subject of a complaint about a filesystem or block device: its device, if it names one. None if it is not such a
/// complaint.
fn of_device(message: &str) -> Option<Option<&str>> {
    let of_a_filesystem = FILESYSTEMS.iter().find_map(|row| (row.complaint)(message));
    of_a_filesystem.or_else(|| block(message).map(Some))
}

/// `I/O error, dev loop0, sector 8 op 0x1:(WRITE) …` and its like for other reasons; `Buffer I/O error on dev loop0, …`.
fn block(message: &str) -> Option<&str> {
    let buffer = ["Buffer I/O error on dev ", "Buffer I/O error on device "];
    if let Some(rest) = buffer.iter().find_map(|start| message.strip_prefix(start)) {
        return rest.split([',', ' ']).next();
    }
    let (reason, rest) = message.split_once(" error, dev ")?;
    // A device that cannot discard or write zeroes natively reports it this way; the caller falls back.
    let harmless =
        ["operation not supported", "nonblocking retry"].iter().any(|ending| reason.ends_with(ending))
            || [":(DISCARD)", ":(WRITE_ZEROES)", ":(SECURE_ERASE)"]
                .iter()
                .any(|requested| rest.contains(requested));
    rest.split([',', ' ']).next().filter(|_| !harmless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, io::Write as _};

    /// The device that a complaint of the kernel names; `-` if it names none. None if it is not a complaint.
    fn named(message: &str) -> Option<String> {
        let result = complaint(&format!("4,1201,35998779837,-;{message}\n"))?;
        Some(result.device.unwrap_or_else(|| "-".into()))
    }

    #[test]
    fn generic_kernel_complaints_name_no_device() {
        for message in [
            "INFO: task kworker/u8:2:1234 blocked for more than 122 seconds.",
            "INFO: task fsync:1234 blocked in I/O wait for more than 122 seconds.",
            "WARNING: CPU: 1 PID: 26761 at fs/ext4/inode.c:3520 ext4_iomap_begin+0x1b1/0x2a0",
            "WARNING: fs/xfs/xfs_log.c:12 at xlog_write+0x1/0x2, CPU#3: fsync/12",
            "WARNING: possible circular locking dependency detected",
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "BUG: KASAN: slab-use-after-free in ext4_find_extent+0x1/0x2",
            "kernel BUG at fs/ext4/extents.c:3181!",
            "Oops: 0000 [#1] PREEMPT SMP NOPTI",
            "Oops: general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP",
            "general protection fault: 0000 [#1] SMP PTI",
            "Internal error: Oops: 0000000096000004 [#1] SMP",
            "Unable to handle kernel paging request at virtual address ffff0000",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [fstrial:26761]",
            "watchdog: Watchdog detected hard LOCKUP on cpu 0",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "rcu: INFO: rcu_sched self-detected stall on CPU",
            "INFO: rcu_sched self-detected stall on CPU { 1}",
            "JBD2: IO error reading journal superblock",
        ] {
            assert_eq!(named(message).as_deref(), Some("-"), "{message}");
        }
    }

    #[test]
    fn filesystem_and_device_complaints_name_device() {
        for (message, device) in [
            ("EXT4-fs error (device loop64): trigger_test_error:129: comm cp: hello", "loop64"),
            ("EXT4-fs error (device dm-0) in ext4_reserve_inode_write:5764: Journal has aborted", "dm-0"),
            ("EXT4-fs error (device nvme0n1p2): ext4_lookup:1855: inode #2: comm ls: bad", "nvme0n1p2"),
            ("EXT2-fs (loop7): error: ext2_lookup: deleted inode referenced: 12", "loop7"),
            ("JBD2: I/O error when updating journal superblock for loop64-8.", "loop64-8"),
            ("JBD2: Error -5 detected when updating journal superblock for dm-0-8.", "dm-0-8"),
            ("JBD2: Detected IO errors while flushing file data on loop64-8", "loop64-8"),
            ("Aborting journal on device loop64-8.", "loop64-8"),
            (
                "XFS (loop65): Internal error xfs_trans_cancel at line 954 of file fs/xfs/xfs_trans.c.",
                "loop65",
            ),
            (
                "XFS (loop65): Corruption of in-memory data (0x8) detected at xfs_x+0x1/0x2. Shutting down",
                "loop65",
            ),
            (
                "XFS (loop65): Metadata corruption detected at xfs_agf_verify+0x1/0x2, xfs_agf block 0x1",
                "loop65",
            ),
            ("XFS (sda1): metadata I/O error in \"xfs_buf_ioend+0x1\" at daddr 0x10 len 8 error 5", "sda1"),
            ("XFS (loop65): log I/O error -5", "loop65"),
            (
                "XFS (loop65): Log I/O Error (0x6) detected at xfs_fs_goingdown+0x63/0xb0 \
                 (fs/xfs/xfs_fsops.c:475).  Shutting down filesystem.",
                "loop65",
            ),
            ("XFS (loop65): User initiated shutdown received.", "loop65"),
            ("XFS (loop65): Filesystem has been shut down due to log error (0x2).", "loop65"),
            (
                "BTRFS error (device loop64): bdev /dev/loop64 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0",
                "loop64",
            ),
            ("BTRFS error (device loop64 state EA): parent transid verify failed on 1 wanted 2", "loop64"),
            ("BTRFS critical (device sdb): corrupt leaf: root=2 block=30408704 slot=0", "sdb"),
            ("BTRFS: error (device loop64) in btrfs_commit_transaction:2418: errno=-5 IO failure", "loop64"),
            (
                "BTRFS: error (device loop64 state A) in cleanup_transaction:2014: errno=-5 IO failure",
                "loop64",
            ),
            (
                "I/O error, dev loop64, sector 586 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2",
                "loop64",
            ),
            ("blk_update_request: I/O error, dev sda, sector 2048", "sda"),
            ("critical medium error, dev sdb, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1", "sdb"),
            ("Buffer I/O error on dev loop64, logical block 0, lost async page write", "loop64"),
            ("Buffer I/O error on device loop64, logical block 12", "loop64"),
        ] {
            assert_eq!(named(message).as_deref(), Some(device), "{message}");
        }
    }

    #[test]
    fn routine_messages_are_not_complaints() {
        for message in [
            "",
            "exe (26761): drop_caches: 3",
            "loop64: detected capacity change from 0 to 1310720",
            "EXT4-fs (loop64): mounted filesystem 3e5c97e2 r/w with ordered data mode. Quota mode: none.",
            "EXT4-fs warning (device loop64): ext4_resize_begin:82: There are errors in the filesystem",
            "EXT4-fs (loop64): shut down requested (2)",
            "EXT4-fs (loop64): recovery complete",
            "XFS (loop65): Mounting V5 Filesystem 2965fd96-cee4-430d-8875-cc648365e457",
            "XFS (loop65): Starting recovery (logdev: internal)",
            "XFS (loop65): Ending clean mount",
            "XFS (loop65): Please unmount the filesystem and rectify the problem(s)",
            "BTRFS info (device loop64): first mount of filesystem 2908601a",
            "BTRFS warning (device loop64): read-write for sector size 4096 with page size 65536",
            "BTRFS: device fsid 2908601a devid 1 transid 6 /dev/loop64 (7:64) scanned by mount (26872)",
            "JBD2: no valid journal superblock found",
            "operation not supported error, dev loop64, sector 586 op 0x9:(WRITE_ZEROES) flags 0x20000800 phys_seg 0",
            "critical target error, dev sda, sector 2048 op 0x3:(DISCARD) flags 0x0 phys_seg 1 prio class 2",
            "blk_print_req_error: 88 callbacks suppressed",
            "traps: prog[123] general protection fault ip:401000 sp:7ffd error:0 in prog[401000+1000]",
            "WARNING: module x is not signed",
            "INFO: NMI handler took too long to run",
            "EXT",
            "EXT4-fs",
            "XFS (",
            "BTRFS error",
        ] {
            assert_eq!(named(message), None, "{message}");
        }
    }

    #[test]
    fn accepts_only_kernel_facility_records() {
        let output = |priority: u32| complaint(&format!("{priority},1,2,-;BUG: something"));
        assert!(output(1).is_some() && output(7).is_some());
        // Facility 1: a program's write to /dev/kmsg.
        assert_eq!(output(12), None);
        for record in ["", ";", "4;", "x,1,2,-;BUG: x", "4,1,2,- BUG: no end of the prefix"] {
            assert_eq!(complaint(record), None, "{record}");
        }
        let with_lines = "3,1,2,-,caller=T12;BUG: bad page\n SUBSYSTEM=block\n DEVICE=b7:64\n";
        assert_eq!(complaint(with_lines).unwrap().message, "BUG: bad page");
    }

    #[test]
    fn message_is_truncated_without_control_characters() {
        let long = complaint(&format!("4,1,2,-;BUG: \u{1b}[31m{}", "ä".repeat(1000))).unwrap().message;
        assert!(long.starts_with("BUG: [31mä") && long.ends_with("ä…"), "{long}");
        assert_eq!(long.chars().count(), MAX_CHARACTERS + 1);
    }

    #[test]
    fn other_peoples_devices_do_not_concern_a_run() {
        let own = ["loop6".to_owned(), "dm-0".to_owned()];
        let of = |device: Option<&str>| {
            let complaint = Complaint { message: String::new(), device: device.map(str::to_owned) };
            (complaint.concerns(&own), complaint.names_one_of(&own))
        };
        assert_eq!(of(None), (true, false));
        for named in ["loop6", "loop6-8", "dm-0", "dm-0-12"] {
            assert_eq!(of(Some(named)), (true, true), "{named}");
        }
        for named in ["loop64", "loop6p1", "loop6-", "loop6-x", "loop", "dm-01", "dm-1", ""] {
            assert_eq!(of(Some(named)), (false, false), "{named}");
        }
    }

    #[test]
    fn kmsg_records_after_open_are_read_once() {
        // As a program's; the kernel does not take it for its own.
        let marked = format!("fstrial test {}: BUG: not the kernel's", std::process::id());
        let opened = KernelLog::open();
        let (Ok(mut earlier), Ok(())) = (opened, fs::write(PATH, format!("<4>{marked}\n"))) else {
            let name = "kernel_log::tests::kmsg_records_after_open_are_read_once";
            let line = format!("SKIPPED {name}: needs to read and write {PATH}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return;
        };
        let mut later = KernelLog::open().unwrap();
        let times = |log: &mut KernelLog| {
            let mut result = Vec::new();
            log.hear(&mut |record| result.extend(record.contains(&marked).then(|| complaint(record))));
            result
        };
        assert_eq!(times(&mut earlier), [None], "heard once, and no complaint");
        assert!(times(&mut earlier).is_empty() && times(&mut later).is_empty());
    }
}
