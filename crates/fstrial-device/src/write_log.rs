//! The write log of a recording, in the format of dm-log-writes (the kernel's
//! Documentation/admin-guide/device-mapper/log-writes.rst): replayed on an empty device it gives the contents at each of its
//! entries.
//!
//! As there, a write is logged with the flush that covers it, so that every flush of the log ends a durable state. Between two
//! flushes dm-log-writes orders writes by their completion, and this log by their submission, because a modelled device has
//! the data from then on.

use std::io;

/// Unit of the log: of its entries, and of addresses in them.
pub(crate) const SECTOR: u64 = 512;
/// "jsfwshr".
const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// xfstests' replay-log leaves out longer discards on a file.
const MAX_DISCARD: u64 = 128 << 20;

/// The kinds of entries, by their flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Write = 0,
    /// Covers the writes before it, and has no data.
    Flush = 1,
    /// Durable once it is complete.
    DurableWrite = 2,
    Discard = 4,
    Mark = 8,
}

/// Location of data in the recording.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// An offset of the device, with the contents before the recording.
    Start(u64),
    /// The position of a write.
    Write(usize),
}

#[derive(Debug)]
enum Part {
    Entry { kind: EntryKind, sector: u64, sectors: u64, mark: String },
    Data(Source),
}

/// A log by its parts; data are read from the recording on demand.
#[derive(Debug)]
pub(crate) struct WriteLog {
    /// With the offset of each in the log, ascending.
    parts: Vec<(u64, Part)>,
    length: u64,
    entries: u64,
}

impl WriteLog {
    pub(crate) fn new() -> Self {
        Self { parts: Vec::new(), length: SECTOR, entries: 0 }
    }

    /// Adds a write of whole sectors to an offset of the device.
    pub(crate) fn write(&mut self, kind: EntryKind, offset: u64, length: u64, source: Source) {
        self.entry(kind, offset, length, String::new());
        self.add(Part::Data(source), length);
    }

    pub(crate) fn discard(&mut self, offset: u64, length: u64) {
        for from in (0..length).step_by(MAX_DISCARD as usize) {
            self.entry(EntryKind::Discard, offset + from, MAX_DISCARD.min(length - from), String::new());
        }
    }

    pub(crate) fn flush(&mut self) {
        self.entry(EntryKind::Flush, 0, 0, String::new());
    }

    pub(crate) fn mark(&mut self, mark: String) {
        self.entry(EntryKind::Mark, 0, 0, mark);
    }

    fn entry(&mut self, kind: EntryKind, offset: u64, length: u64, mark: String) {
        self.entries += 1;
        self.add(Part::Entry { kind, sector: offset / SECTOR, sectors: length / SECTOR, mark }, SECTOR);
    }

    fn add(&mut self, part: Part, length: u64) {
        self.parts.push((self.length, part));
        self.length += length;
    }

    /// Reads up to this many bytes of the log; none beyond its end. `data` gives bytes of a source, from an offset in it on.
    ///
    /// # Errors
    /// Those of `data`.
    pub(crate) fn read(
        &self,
        mut offset: u64,
        length: usize,
        data: impl Fn(Source, u64, usize) -> io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let end = self.length.min(offset.saturating_add(length as u64));
        let mut read = Vec::new();
        while offset < end {
            let next = self.parts.partition_point(|(begin, _)| *begin <= offset);
            let until = self.parts.get(next).map_or(self.length, |(begin, _)| *begin).min(end);
            let wanted = usize::try_from(until - offset).expect("at most the requested length");
            let (begin, sector) = match next.checked_sub(1).map(|index| &self.parts[index]) {
                Some((begin, Part::Data(source))) => {
                    read.extend(data(*source, offset - begin, wanted)?);
                    offset = until;
                    continue;
                }
                Some((begin, Part::Entry { kind, sector, sectors, mark })) => {
                    (*begin, entry_sector(*kind, *sector, *sectors, mark))
                }
                None => (0, self.superblock()),
            };
            let from = usize::try_from(offset - begin).expect("inside of a sector");
            read.extend_from_slice(&sector[from..from + wanted]);
            offset = until;
        }
        Ok(read)
    }

    fn superblock(&self) -> [u8; SECTOR as usize] {
        let words = [MAGIC, VERSION, self.entries].into_iter().flat_map(u64::to_le_bytes);
        padded(words.chain((SECTOR as u32).to_le_bytes()))
    }
}

fn entry_sector(kind: EntryKind, sector: u64, sectors: u64, mark: &str) -> [u8; SECTOR as usize] {
    let words = [sector, sectors, kind as u64, mark.len() as u64].into_iter().flat_map(u64::to_le_bytes);
    padded(words.chain(mark.bytes()))
}

fn padded(bytes: impl Iterator<Item = u8>) -> [u8; SECTOR as usize] {
    let mut sector = [0; SECTOR as usize];
    sector.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    sector
}
