//! The write log of a recording, in the format of dm-log-writes (the kernel's
//! Documentation/admin-guide/device-mapper/log-writes.rst): replayed on an empty device it gives the contents at each of its
//! entries.
//!
//! As there, a write is logged with the flush that covers it, so that every flush of the log ends a state that is durable.

use std::io;

/// Unit of the log: of its entries, and of addresses in them.
const SECTOR: usize = 512;
/// "jsfwshr".
const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;

/// Kinds of entries, by their flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Without data, as the writes that it covers come before it.
    Flush = 1,
    /// A write that is durable once it is complete.
    DurableWrite = 2,
    Discard = 4,
    /// A text.
    Mark = 8,
    Write = 0,
}

/// A part of the log.
#[derive(Debug)]
pub(crate) enum Content {
    /// An entry, padded.
    Header(Box<[u8; SECTOR]>),
    /// The contents with which the recording began, from an offset of the device on.
    Start(u64),
    /// Data of the write at a position of the recording.
    Write(usize),
}

/// A log, by its parts: data are read from the recording as they are asked for.
#[derive(Debug)]
pub(crate) struct WriteLog {
    /// With the offset of each in the log, ascending.
    parts: Vec<(u64, Content)>,
    length: u64,
    entries: u64,
}

impl WriteLog {
    pub(crate) fn new() -> Self {
        Self { parts: Vec::new(), length: SECTOR as u64, entries: 0 }
    }

    /// Adds the data of a write to an offset of the device, of this many bytes.
    pub(crate) fn write(&mut self, kind: Kind, offset: u64, length: u64, content: Content) {
        self.entry(kind, offset, length, "");
        self.add(content, length);
    }

    pub(crate) fn discard(&mut self, offset: u64, length: u64) {
        self.entry(Kind::Discard, offset, length, "");
    }

    pub(crate) fn flush(&mut self) {
        self.entry(Kind::Flush, 0, 0, "");
    }

    /// Adds a mark of at most 480 bytes.
    pub(crate) fn mark(&mut self, text: &str) {
        self.entry(Kind::Mark, 0, 0, text);
    }

    fn entry(&mut self, kind: Kind, offset: u64, length: u64, text: &str) {
        let sectors = |bytes: u64| bytes / SECTOR as u64;
        let words = [sectors(offset), sectors(length), kind as u64, text.len() as u64];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).chain(text.bytes());
        self.entries += 1;
        self.add(Content::Header(padded(bytes)), SECTOR as u64);
    }

    fn add(&mut self, content: Content, length: u64) {
        self.parts.push((self.length, content));
        self.length += length;
    }

    /// Reads up to this many bytes of the log; none beyond its end. `data` gives bytes of the contents of a part, from an
    /// offset in it on.
    ///
    /// # Errors
    /// Those of `data`.
    pub(crate) fn read(
        &self,
        mut offset: u64,
        length: usize,
        data: impl Fn(&Content, u64, usize) -> io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let end = self.length.min(offset.saturating_add(length as u64));
        let mut read = Vec::new();
        while offset < end {
            let next = self.parts.partition_point(|(begin, _)| *begin <= offset);
            let until = self.parts.get(next).map_or(self.length, |(begin, _)| *begin).min(end);
            let wanted = usize::try_from(until.saturating_sub(offset)).expect("at most the length asked for");
            match next.checked_sub(1).map(|part| &self.parts[part]) {
                None => read.extend_from_slice(part(&self.superblock(), offset, wanted)),
                Some((begin, Content::Header(header))) => {
                    read.extend_from_slice(part(header, offset - begin, wanted));
                }
                Some((begin, content)) => read.extend(data(content, offset - begin, wanted)?),
            }
            offset = until;
        }
        Ok(read)
    }

    fn superblock(&self) -> Box<[u8; SECTOR]> {
        let words = [MAGIC, VERSION, self.entries].into_iter().flat_map(u64::to_le_bytes);
        padded(words.chain((SECTOR as u32).to_le_bytes()))
    }
}

fn part(sector: &[u8; SECTOR], from: u64, length: usize) -> &[u8] {
    let from = usize::try_from(from).expect("it is in the sector");
    &sector[from..from + length]
}

fn padded(bytes: impl Iterator<Item = u8>) -> Box<[u8; SECTOR]> {
    let mut sector = Box::new([0; SECTOR]);
    sector.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    sector
}
