//! XFS.

use super::{
    Character, ExternalLog, Filesystem, FreeSpaceReader, LogReader, LogShape, Observation, PLAIN, bytes,
    log::big, number,
};
use crate::{
    ability::{Abilities, Ability, CLONE, Unclean},
    counter::{Counter, Counters},
    mkfs_options::MkfsOptions,
    state::FreeSpace,
    units::Bytes,
};

pub(super) const XFS: Filesystem = Filesystem {
    name: "xfs",
    kernel: "xfs",
    module: "xfs",
    mkfs: "mkfs.xfs",
    mkfs_options: &OPTIONS,
    mkfs_base: &["-f", "-K"],
    mkfs_words: &[
        (
            "-d",
            &["agcount", "agsize", "su", "sw", "sunit", "swidth", "extszinherit", "daxinherit", "cowextsize"],
        ),
        ("-m", &["crc", "finobt", "reflink", "rmapbt", "bigtime", "inobtcount"]),
        ("-i", &["maxpct", "attr", "sparse", "nrext64"]),
        ("-l", &["lazy-count"]),
    ],
    version_by_v: &["xfs_repair", "xfs_fsr", "xfs_growfs"],
    external_log: Ok(ExternalLog {
        made_by: None,
        mkfs: ["-l", "logdev="],
        mount: "logdev=",
        check: "-l",
        contradicts: |_| false,
    }),
    fsck: Some(("xfs_repair", &["-n"])),
    abilities: &ABILITIES,
    correct,
    complaint,
    free_space: Some(FreeSpaceReader {
        program: "xfs_db",
        words: &["-r", "-c", "sb 0", "-c", "print blocksize", "-c", "freesp -s"],
        read: free_space,
    }),
    log: Some(LogReader {
        file: "/sys/fs/xfs/{device}/stats/stats",
        external: "/sys/fs/xfs/{device}/stats/stats",
        shape: log_shape,
        count: log_count,
    }),
    min_size_mib: 300,
    packages: ["xfsprogs", "xfsprogs", "xfsprogs", "xfsprogs"],
    journal: "metadata",
    checksums: "metadata",
    lazy: "inodes are allocated on demand by design",
    ..PLAIN
};

/// Options of mkfs.xfs.
const OPTIONS: MkfsOptions = MkfsOptions {
    alone: "Kq",
    valued: "bdilmnrs",
    long: &[],
    lists: &[
        (
            'd',
            &[
                "agcount",
                "agsize",
                "size",
                "su",
                "sw",
                "sunit",
                "swidth",
                "noalign",
                "sectsize",
                "sectlog",
                "extszinherit",
                "daxinherit",
                "rtinherit",
                "cowextsize",
                "concurrency",
            ],
        ),
        (
            'l',
            &[
                "agnum",
                "concurrency",
                "internal",
                "lazy-count",
                "sectlog",
                "sectsize",
                "size",
                "su",
                "sunit",
                "version",
            ],
        ),
        ('r', &["concurrency", "extsize", "noalign", "reserved", "size", "start", "zoned"]),
    ],
};

/// Operations of XFS.
const ABILITIES: Abilities = Abilities {
    sized: &["-d", "size={bytes}", "{device}"],
    repair: Ability::Program("xfs_repair", &["{device}"]),
    unclean: Ok(Unclean::Shutdown("XFS_IOC_GOINGDOWN")),
    snapshot: Ability::Unsupported("XFS has no snapshots"),
    delete_snapshot: Ability::Unsupported("XFS has no snapshots"),
    defragment: Ability::Program("xfs_fsr", &["{files}"]),
    reflink: CLONE,
    grow: Ability::Program("xfs_growfs", &["-d", "{directory}"]),
    shrink: Ability::Unsupported("XFS has no online shrink, except of unused space at its end"),
};

/// mkfs reports whether it made checksums; the mount reports the log's device and the stripe, in sectors.
fn correct(observed: &Observation<'_>, character: &mut Character) {
    if observed.mkfs_output.contains("crc=0") {
        character.checksums = "none".into();
    }
    if observed.value("logdev=").is_some() {
        character.journal_on_another_device();
    }
    let sectors = |name: &str| observed.value(name)?.parse::<u64>().ok();
    if let Some((unit, width)) = sectors("sunit=").zip(sectors("swidth=")) {
        let human = |sectors: u64| Bytes(sectors.saturating_mul(512)).human();
        character.stripe = Some(format!("{}, {} in all", human(unit), human(width)));
    }
}

/// `XFS (loop0): Internal error …`. XFS has no word that is in all of them.
fn complaint(message: &str) -> Option<Option<&str>> {
    let (device, output) = message.strip_prefix("XFS (")?.split_once("): ")?;
    let words = [
        "internal error",
        "corruption",
        "i/o error",
        "shut down",
        "shutting down",
        "shutdown",
        "assertion failed",
        "writeback error",
        "failing async write",
    ];
    let output = output.to_ascii_lowercase();
    words.iter().any(|word| output.contains(word)).then_some(Some(device))
}

/// `sb_magicnum`, `sb_blocksize` and `sb_logblocks` (fs/xfs/libxfs/xfs_format.h).
fn log_shape(superblock: &[u8]) -> Option<LogShape> {
    let block = big(superblock, 4).filter(|_| superblock.starts_with(b"XFSB"))?;
    Some(LogShape { size: Some(Bytes(big(superblock, 96)? * block)), block: Bytes(block) })
}

/// `log 2054 4135 0 2058 2063`: writes to the log since the mount, how many sectors of 512 bytes they had, times that no buffer was
/// free for it, forces, and sleeps until a buffer was written.
fn log_count(stats: &str, _: LogShape) -> Option<Counters> {
    let line = stats.lines().find_map(|line| line.strip_prefix("log "))?;
    let number = |index: usize| line.split_whitespace().nth(index)?.parse::<u64>().ok();
    let written = Counters::of(Counter::LogWritten, number(1)?.checked_mul(512)?);
    Some(written.with(Counter::LogForces, number(3)).with(Counter::LogSleeps, number(4)))
}

/// A histogram (`from to extents blocks pct`) whose last row begins with a lower bound of the largest extent, then
/// `total free extents 4`, `average free extent size 63000`.
fn free_space(tool: &str, printed: &str) -> Option<FreeSpace> {
    let block = number(printed, "blocksize")?;
    let row = |line: &str| {
        let fields: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        (fields.len() == 5).then(|| fields[0])
    };
    let largest = printed.lines().filter_map(row).fold(0.0, f64::max);
    Some(FreeSpace::Known {
        tool: tool.into(),
        extents: bytes(number(printed, "total free extents")?)?.0,
        mean: bytes(number(printed, "average free extent size")? * block)?,
        largest: bytes(largest * block)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xfs_db_is_understood() {
        let text = "blocksize = 4096\n   from      to extents  blocks    pct\n      1       1       3       3   0.00\n\
                    \x20  16384   32767       1   20000  99.99\ntotal free extents 4\ntotal free blocks 20003\n\
                    average free extent size 5000.75\n";
        let known = FreeSpace::Known {
            tool: "tool".into(),
            extents: 4,
            mean: Bytes(20_483_072),
            largest: Bytes::mib(64),
        };
        assert_eq!(free_space("tool", text), Some(known));
        assert_eq!(free_space("tool", "xfs_db: not an XFS filesystem"), None);
    }

    /// From Linux 6.18, after synced appends to a log of 64 MiB.
    #[test]
    fn parses_log_statistics_and_log_size() {
        let stats = "extent_alloc 1 513 0 0\ntrans 0 2055 0\nlog 2054 4135 0 2058 2063\npush_ail 4112 0 0 0 0 0 0 0 0 0\n";
        let counted = Counters::of(Counter::LogWritten, 4135 * 512);
        let counted = counted.with(Counter::LogForces, Some(2058)).with(Counter::LogSleeps, Some(2063));
        assert_eq!(log_count(stats, LogShape::default()), Some(counted));
        for damaged in ["", "log 2054", "log 1 x", "log 1 18446744073709551615", "logs 1 2"] {
            assert_eq!(log_count(damaged, LogShape::default()), None, "{damaged}");
        }
        let mut superblock = vec![0; 512];
        superblock[..8].copy_from_slice(b"XFSB\x00\x00\x10\x00");
        superblock[96..100].copy_from_slice(&[0, 0, 0x40, 0]);
        let shape = LogShape { size: Some(Bytes::mib(64)), block: Bytes(4096) };
        assert_eq!(log_shape(&superblock), Some(shape));
        assert_eq!(log_shape(&superblock[..98]), None);
        superblock[0] = 0;
        assert_eq!(log_shape(&superblock), None);
    }

    #[test]
    fn mkfs_and_the_mount_correct_the_defaults() {
        let options = ["logdev=/dev/loop1", "sunit=128", "swidth=512"].map(str::to_owned);
        let result =
            XFS.character(&Observation { options: &options, mkfs_output: "crc=0  finobt=0", header: "" });
        assert_eq!(
            (result.journal.as_str(), result.checksums.as_str()),
            ("metadata, on the log device", "none")
        );
        assert_eq!(result.stripe.as_deref(), Some("64 KiB, 256 KiB in all"));
        let plain = XFS.character(&Observation { options: &[], mkfs_output: "crc=1", header: "" });
        assert_eq!((plain.journal.as_str(), plain.checksums.as_str()), ("metadata", "metadata"));
    }
}
