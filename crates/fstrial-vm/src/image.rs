//! The kernel inside an image. QEMU starts an ELF file with a PVH note directly, which saves the guest from unpacking it: 1 to 2.5 s
//! of 4 under emulation.
//!
//! Offsets are those of the boot protocol (Linux, Documentation/arch/x86/boot.rst): `setup_sects` at 0x1f1, the magic `HdrS` at 0x202,
//! the version at 0x206, `payload_offset` and `payload_length` at 0x248 and 0x24c, from version 2.08 on.

use std::io::{self, Read};

/// The most bytes of a kernel that is unpacked.
const MAX_KERNEL: u64 = 1 << 30;
const ELF: &[u8] = b"\x7fELF";
const SECTOR: usize = 512;

/// Why an image has no kernel that can be started.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Neither an ELF file nor a bzImage.
    #[error("it is not a kernel for x86: neither an ELF file nor a bzImage")]
    NotAKernel,
    /// The header announces more data than there are.
    #[error("it is cut short")]
    Truncated,
    /// Compressed in a way that is not read here.
    #[error(
        "its kernel is compressed with {0}; unpack it with extract-vmlinux, which comes with the kernel's sources"
    )]
    Compression(&'static str),
    /// The compressed part cannot be read.
    #[error("its compressed kernel is damaged: {0}")]
    Damaged(#[from] io::Error),
}

/// The ELF file in an image of a kernel; the image itself if it is one.
///
/// # Errors
/// It is not an image, is cut short or damaged, or is compressed with something else than gzip, xz or zstd.
pub fn vmlinux(image: &[u8]) -> Result<Vec<u8>, ImageError> {
    if image.starts_with(ELF) {
        return Ok(image.to_vec());
    }
    let payload = payload(image)?;
    let kernel = match payload {
        [0x1f, 0x8b, ..] => read(flate2::read::GzDecoder::new(payload))?,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => read(lzma_rust2::XzReader::new(payload, false))?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => read(zstd(payload)?)?,
        [0x02, 0x21, 0x4c, 0x18, ..] => return Err(ImageError::Compression("LZ4")),
        [0x89, b'L', b'Z', b'O', ..] => return Err(ImageError::Compression("LZO")),
        [b'B', b'Z', b'h', ..] => return Err(ImageError::Compression("bzip2")),
        _ => return Err(ImageError::NotAKernel),
    };
    if kernel.starts_with(ELF) { Ok(kernel) } else { Err(ImageError::NotAKernel) }
}

/// The compressed kernel of a bzImage. Its length is that of the compressed stream with four bytes for the kernel's own size.
fn payload(image: &[u8]) -> Result<&[u8], ImageError> {
    let version = image.get(0x206..0x208).ok_or(ImageError::NotAKernel)?;
    if image.get(0x202..0x206) != Some(b"HdrS") || u16::from_le_bytes([version[0], version[1]]) < 0x208 {
        return Err(ImageError::NotAKernel);
    }
    let word = |at: usize| {
        let bytes: [u8; 4] = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let sectors = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let place = || {
        let begin = ((sectors + 1) * SECTOR).checked_add(word(0x248)?)?;
        image.get(begin..begin.checked_add(word(0x24c)?)?)
    };
    place().ok_or(ImageError::Truncated)
}

/// Unpacks compressed kernels or modules; other bytes stay as they are.
///
/// # Errors
/// It is damaged.
pub fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    match &bytes[..] {
        [0x1f, 0x8b, ..] => read(flate2::read::GzDecoder::new(&bytes[..])),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => read(lzma_rust2::XzReader::new(&bytes[..], false)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => read(zstd(&bytes)?),
        _ => Ok(bytes),
    }
}

/// The loadable part of a program (a 64-bit ELF file): symbols and other trailing data are cut off. Other bytes stay as
/// they are.
///
/// Offsets are those of the System V ABI: `e_phoff` at 32, `e_phentsize` and `e_phnum` at 54 and 56, and of each program header `p_offset`
/// at 8 and `p_filesz` at 32.
pub fn loaded(program: &[u8]) -> &[u8] {
    fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
        let mut word = [0; 8];
        word[..length].copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    }
    let end = || {
        let table = number(program, 32, 8)?;
        let (size, count) = (number(program, 54, 2)?, number(program, 56, 2)?);
        let end_of = |index: usize| {
            let at = table.checked_add(index * size)?;
            number(program, at.checked_add(8)?, 8)?.checked_add(number(program, at.checked_add(32)?, 8)?)
        };
        let ends: Option<Vec<usize>> = (0..count).map(end_of).collect();
        ends?.into_iter().chain([table + count * size]).max()
    };
    let end = if program.starts_with(ELF) { end() } else { None };
    &program[..end.unwrap_or(program.len()).min(program.len())]
}

fn zstd(bytes: &[u8]) -> io::Result<impl Read> {
    ruzstd::decoding::StreamingDecoder::new(bytes).map_err(io::Error::other)
}

fn read(from: impl Read) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    from.take(MAX_KERNEL).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;
    use std::io::Write;

    const KERNEL: &[u8] = b"\x7fELF and the rest of a kernel";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// An image as `make bzImage` lays it out: setup code, its length in sectors, then other code with the payload in it.
    fn image(setup_sectors: u8, payload: &[u8]) -> Vec<u8> {
        let begin = (usize::from(if setup_sectors == 0 { 4 } else { setup_sectors }) + 1) * SECTOR;
        let mut image = vec![0; begin + 100];
        image[0x1f1] = setup_sectors;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&100_u32.to_le_bytes());
        // The compressor's output, and the size of its content.
        image[0x24c..0x250].copy_from_slice(&(u32::try_from(payload.len()).unwrap() + 4).to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(&u32::try_from(KERNEL.len()).unwrap().to_le_bytes());
        image.extend_from_slice(b"code after it");
        image
    }

    #[test]
    fn program_runs_without_unloaded_sections() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let part = loaded(&whole);
        assert!(part.len() < whole.len(), "at least its section headers are cut off");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, part).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        #[expect(clippy::disallowed_methods, reason = "this very program")]
        let ended = std::process::Command::new(&path).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&ended.stdout).contains("program_runs_without"), "{ended:?}");
        assert_eq!(loaded(b"#!/bin/sh"), b"#!/bin/sh");
        assert_eq!(loaded(&whole[..60]), &whole[..60]);
    }

    #[test]
    fn extracts_kernel_from_image() {
        for sectors in [0, 4, 31] {
            assert_eq!(vmlinux(&image(sectors, &gzip(KERNEL))).unwrap(), KERNEL);
        }
        assert_eq!(vmlinux(KERNEL).unwrap(), KERNEL);
        assert_eq!(unpacked(gzip(b"a module")).unwrap(), b"a module");
        assert_eq!(unpacked(b"plain".to_vec()).unwrap(), b"plain");
    }

    #[test]
    fn invalid_kernel_image_error_names_reason() {
        let message = |bytes: &[u8]| vmlinux(bytes).unwrap_err().to_string();
        assert!(message(b"#!/bin/sh\n").contains("neither an ELF file nor a bzImage"));
        assert!(message(&image(4, &gzip(b"not ELF"))).contains("neither"));
        assert!(message(&image(4, &[0x02, 0x21, 0x4c, 0x18, 0])).contains("LZ4"));
        let whole = image(4, &gzip(KERNEL));
        assert!(message(&whole[..whole.len() - 40]).contains("cut short"));
        let mut damaged = image(4, &gzip(KERNEL));
        let middle = damaged.len() - 40;
        damaged[middle] ^= 0xff;
        assert!(message(&damaged).contains("damaged"));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_bad(bytes in proptest::collection::vec(any::<u8>(), 0..2000), is_image: bool) {
            let mut bytes = bytes;
            if is_image && bytes.len() > 0x250 {
                bytes[0x202..0x206].copy_from_slice(b"HdrS");
            }
            let _ = vmlinux(&bytes);
            let _ = unpacked(bytes);
        }
    }
}
