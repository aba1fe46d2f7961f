//! Dresses a device as something: partition tables and members of groups, written by hand byte by byte.

use crate::support::{run, write_at};
use std::path::Path;

/// CRC-32 (polynomial of IEEE 802.3, reflected), without the final inversion.
fn crc32(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
        crc
    })
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A DOS partition table with one partition, of 16 MiB at 1 MiB.
pub(crate) fn as_dos(device: &Path) {
    write_at(device, 0, &boot_record(0x83, 2048, 32768));
}

/// A boot record with one partition.
fn boot_record(kind: u8, start: u32, sectors: u32) -> [u8; 512] {
    let mut record = [0; 512];
    record[446 + 4] = kind;
    put(&mut record, 446 + 8, &start.to_le_bytes());
    put(&mut record, 446 + 12, &sectors.to_le_bytes());
    put(&mut record, 510, &[0x55, 0xAA]);
    record
}

/// A GUID partition table without partitions, with its protective boot record.
pub(crate) fn as_gpt(device: &Path, mib: u64) {
    let last = (mib << 20) / 512 - 1;
    write_at(device, 0, &boot_record(0xEE, 1, u32::try_from(last).unwrap()));
    let entries = vec![0_u8; 128 * 128];
    for (own, other, table) in [(1, last, 2), (last, 1, last - 32)] {
        let mut header = [0_u8; 512];
        put(&mut header, 0, b"EFI PART");
        put(&mut header, 8, &0x0001_0000_u32.to_le_bytes());
        put(&mut header, 12, &92_u32.to_le_bytes());
        put(&mut header, 24, &u64::to_le_bytes(own));
        put(&mut header, 32, &u64::to_le_bytes(other));
        put(&mut header, 40, &34_u64.to_le_bytes());
        put(&mut header, 48, &(last - 33).to_le_bytes());
        put(&mut header, 56, b"fstrial test gpt");
        put(&mut header, 72, &u64::to_le_bytes(table));
        put(&mut header, 80, &128_u32.to_le_bytes());
        put(&mut header, 84, &128_u32.to_le_bytes());
        put(&mut header, 88, &(!crc32(!0, &entries)).to_le_bytes());
        let crc = !crc32(!0, &header[..92]);
        put(&mut header, 16, &crc.to_le_bytes());
        write_at(device, own * 512, &header);
        write_at(device, table * 512, &entries);
    }
}

/// A physical volume of LVM (`struct label_header`, lib/label/label.h of LVM2).
pub(crate) fn as_lvm2(device: &Path) {
    let mut label = [0; 512];
    put(&mut label, 0, b"LABELONE");
    put(&mut label, 8, &1_u64.to_le_bytes());
    put(&mut label, 20, &32_u32.to_le_bytes());
    put(&mut label, 24, b"LVM2 001");
    put(&mut label, 32, b"0123456789abcdefghijABCDEFGHIJ01");
    let crc = crc32(0xF597_A6CF, &label[20..]);
    put(&mut label, 16, &crc.to_le_bytes());
    write_at(device, 512, &label);
}

/// A member of a Linux RAID with metadata 1.2 (`struct mdp_superblock_1`).
pub(crate) fn as_raid(device: &Path) {
    let mut block = [0; 256];
    put(&mut block, 0, &0xA92B_4EFC_u32.to_le_bytes());
    put(&mut block, 4, &1_u32.to_le_bytes());
    put(&mut block, 16, b"fstrial test set");
    put(&mut block, 72, &1_u32.to_le_bytes());
    put(&mut block, 92, &2_u32.to_le_bytes());
    put(&mut block, 144, &8_u64.to_le_bytes());
    put(&mut block, 168, b"fstrial test dev");
    let sum: u64 = block.chunks(4).map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap()))).sum();
    let folded = u32::try_from((sum & 0xFFFF_FFFF) + (sum >> 32)).unwrap();
    put(&mut block, 216, &folded.to_le_bytes());
    write_at(device, 4096, &block);
}

/// A member of a ZFS pool: the uberblocks of its first label.
pub(crate) fn as_zfs(device: &Path) {
    for number in 0..16_u64 {
        let mut block = [0; 1024];
        put(&mut block, 0, &0x00BA_B10C_u64.to_le_bytes());
        put(&mut block, 8, &5000_u64.to_le_bytes());
        put(&mut block, 16, &(number + 1).to_le_bytes());
        write_at(device, (128 << 10) + number * 1024, &block);
    }
}

/// A device of a bcachefs of two (`struct bch_sb` of fs/bcachefs/bcachefs_format.h).
pub(crate) fn as_bcachefs(device: &Path) {
    let mut block = [0; 512];
    put(
        &mut block,
        24,
        &[0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9, 0xD9, 0x6A, 0x60, 0xCF, 0x80, 0x3D, 0xF7, 0xEF],
    );
    put(&mut block, 40, b"fstrial test set");
    put(&mut block, 123, &[2]);
    write_at(device, 4096, &block);
}

/// A filesystem, or swap.
pub(crate) fn with(device: &Path, mkfs: &str, options: &[&str]) {
    let mut words = options.to_vec();
    words.push(device.to_str().unwrap());
    run(mkfs, &words);
}
