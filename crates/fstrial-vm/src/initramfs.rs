//! The first files of a guest: an archive as the kernel unpacks it (cpio, newc).

use cpio::newc::{self, Builder};
use std::{
    collections::BTreeSet,
    io::{self, Write},
};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;

/// A growing archive. Parent folders of added files are included.
#[derive(Debug)]
pub struct Archive<W: Write> {
    out: W,
    entries: u32,
    known: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// One without anything.
    pub fn new(out: W) -> Self {
        Self { out, entries: 0, known: BTreeSet::new() }
    }

    /// A folder; nothing happens if it is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || self.known.contains(path) {
            return Ok(());
        }
        self.entry(path, FOLDER, &[])
    }

    /// A file with these permissions; a path that is there already stays as it is.
    ///
    /// # Errors
    /// It cannot be written, or is larger than 4 GiB.
    pub fn file(&mut self, path: &str, permissions: u32, bytes: &[u8]) -> io::Result<()> {
        self.entry(path, FILE | permissions, bytes)
    }

    /// A symbolic link.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, LINK, target.as_bytes())
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let path = path.trim_matches('/');
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above)?;
        }
        if !self.known.insert(path.to_owned()) {
            return Ok(());
        }
        self.entries += 1;
        let links = if mode == FOLDER { 2 } else { 1 };
        let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut writer =
            Builder::new(path).ino(self.entries).mode(mode).nlink(links).write(&mut self.out, size);
        writer.write_all(bytes)?;
        writer.finish()?;
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> io::Result<W> {
        newc::trailer(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::Reader;
    use std::io::Read;

    #[test]
    fn folders_precede_contents_and_appear_once() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/lib/modules/a.ko", 0o644, b"module").unwrap();
        archive.folder("lib").unwrap();
        archive.file("init", 0o755, b"program").unwrap();
        archive.file("init", 0o755, b"another").unwrap();
        archive.link("lib64/ld.so", "../lib/ld.so").unwrap();
        let bytes = archive.finish().unwrap();
        let (mut rest, mut result) = (&bytes[..], Vec::new());
        loop {
            let mut reader = Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            result.push((reader.entry().name().to_owned(), reader.entry().mode(), text));
            rest = reader.finish().unwrap();
        }
        let entry = |name: &str, mode, text: &str| (name.to_owned(), mode, text.to_owned());
        assert_eq!(
            result,
            [
                entry("lib", 0o040_755, ""),
                entry("lib/modules", 0o040_755, ""),
                entry("lib/modules/a.ko", 0o100_644, "module"),
                entry("init", 0o100_755, "program"),
                entry("lib64", 0o040_755, ""),
                entry("lib64/ld.so", 0o120_777, "../lib/ld.so"),
            ]
        );
    }
}
