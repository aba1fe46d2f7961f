//! Signatures that make other devices depend on a device, whether those are in use or not.

use super::{Holder, Search};
use crate::error::StackError;
use std::{fs::File, io, os::unix::fs::FileExt};

/// Kinds of signature, by libblkid's names, of devices that are useless alone: members of arrays, of volumes and pools
/// (all named `…_member`), and these. The journal of an ext filesystem and the log of an XFS may be on a separate
/// device; losing them loses the filesystem on the other device.
const OF_A_GROUP: [&str; 8] = [
    "jbd",
    "xfs_external_log",
    "bcache",
    "drbd",
    "stratis",
    "ceph_bluestore",
    "DM_snapshot_cow",
    "DM_verity_hash",
];

/// Offset of the btrfs superblock, and the offsets of the relevant fields (`struct btrfs_super_block`).
const BTRFS: u64 = 64 << 10;
const BTRFS_FLAGS: u64 = BTRFS + 0x38;
const BTRFS_MAGIC: u64 = BTRFS + 0x40;
const BTRFS_DEVICES: u64 = BTRFS + 0x88;
/// Other filesystems are grown from this one, and read its data.
const BTRFS_SEEDING: u64 = 1 << 32;
/// The same of bcachefs (`struct bch_sb`).
const BCACHEFS: u64 = 4 << 10;
const BCACHEFS_MAGIC: u64 = BCACHEFS + 24;
const BCACHEFS_DEVICES: u64 = BCACHEFS + 123;
/// The older of the two is also bcache's, whose superblock is at the same place and counts no devices there.
const BCACHEFS_MAGICS: [[u8; 16]; 2] = [
    [0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9, 0xD9, 0x6A, 0x60, 0xCF, 0x80, 0x3D, 0xF7, 0xEF],
    [0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA, 0x82, 0x65, 0xF5, 0x7F, 0x48, 0xBA, 0x6D, 0x81],
];

/// True if a signature makes other devices depend on its carrier.
pub fn is_of_a_group(kind: &str) -> bool {
    let kind = kind.to_lowercase();
    kind.ends_with("_member") || OF_A_GROUP.iter().any(|known| kind == known.to_lowercase())
}

/// Filesystems of several devices: their signature is the same as that of a filesystem of one.
pub(super) fn group(search: &Search<'_>) -> Result<Option<Holder>, StackError> {
    if !search.host.is_live {
        return Ok(None);
    }
    let node = &search.target.node;
    let opened = File::open(node).map_err(|e| StackError::io("open", node, e))?;
    let result = group_on(&opened).map_err(|e| StackError::io("read the superblocks of", node, e))?;
    Ok(result.map(|kind| Holder::Group { kind }))
}

fn group_on(device: &File) -> io::Result<Option<String>> {
    if read(device, BTRFS_MAGIC)? == Some(*b"_BHRfS_M") {
        let number = |at| Ok::<_, io::Error>(u64::from_le_bytes(read(device, at)?.unwrap_or_default()));
        let devices = number(BTRFS_DEVICES)?;
        if devices > 1 {
            return Ok(Some(format!("btrfs of {devices} devices")));
        }
        if number(BTRFS_FLAGS)? & BTRFS_SEEDING != 0 {
            return Ok(Some("btrfs that others are grown from".into()));
        }
    }
    if read(device, BCACHEFS_MAGIC)?.is_some_and(|magic| BCACHEFS_MAGICS.contains(&magic)) {
        let [devices] = read(device, BCACHEFS_DEVICES)?.unwrap_or_default();
        if devices > 1 {
            return Ok(Some(format!("bcachefs of {devices} devices")));
        }
    }
    Ok(None)
}

/// Bytes at an offset; none if the device ends before.
fn read<const N: usize>(device: &File, at: u64) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match device.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with bytes at offsets.
    fn device(size: u64, written: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in written {
            file.write_all_at(bytes, *at).unwrap();
        }
        file
    }

    #[test]
    fn detects_multi_device_filesystems() {
        let magic: (u64, &[u8]) = (BTRFS_MAGIC, b"_BHRfS_M");
        let btrfs = |devices: u64, flags: u64| {
            let (devices, flags) = (devices.to_le_bytes(), flags.to_le_bytes());
            group_on(&device(1 << 20, &[magic, (BTRFS_DEVICES, &devices), (BTRFS_FLAGS, &flags)])).unwrap()
        };
        assert_eq!(btrfs(1, 0), None);
        assert_eq!(btrfs(2, 0).unwrap(), "btrfs of 2 devices");
        assert_eq!(btrfs(1, BTRFS_SEEDING | 1).unwrap(), "btrfs that others are grown from");
        for known in &BCACHEFS_MAGICS {
            let bcachefs = |devices: u8| {
                let devices: &[u8] = &[devices];
                group_on(&device(1 << 20, &[(BCACHEFS_MAGIC, known), (BCACHEFS_DEVICES, devices)])).unwrap()
            };
            assert_eq!(bcachefs(1), None);
            assert_eq!(bcachefs(3).unwrap(), "bcachefs of 3 devices");
        }
        // Without the magic the numbers mean nothing, and a small device ends before them.
        assert_eq!(
            group_on(&device(1 << 20, &[(BTRFS_DEVICES, &[2]), (BCACHEFS_DEVICES, &[2])])).unwrap(),
            None
        );
        assert_eq!(group_on(&device(1 << 10, &[])).unwrap(), None);
    }

    #[test]
    fn signatures_of_groups_are_known_in_any_case() {
        for kind in [
            "LVM2_member",
            "linux_raid_member",
            "zfs_member",
            "ddf_raid_member",
            "jbd",
            "JBD",
            "xfs_external_log",
        ] {
            assert!(is_of_a_group(kind), "{kind}");
        }
        for kind in ["ext4", "btrfs", "xfs", "swap", "gpt", "member", "crypto_LUKS"] {
            assert!(!is_of_a_group(kind), "{kind}");
        }
    }
}
