//! Power cuts: the possible contents of a device whose power fails.
//!
//! A recording holds every request since it began, in the order of the device. A flush covers the writes that were
//! complete before it began, and no others. After a cut the device holds everything that a completed flush covers; any
//! other write is lost, kept, or torn into sectors. So an image is: the covered writes, in their order, and a random
//! part of the rest. Promises are entries of the same log, so that no clocks are compared.
//!
//! Successive images share their covered blocks: each is a map of changed blocks above one file, which only ever
//! advances. So cuts are made in ascending order.

use crate::{
    backing::Backing,
    server::Server,
    simulator::Request,
    write_log::{EntryKind, SECTOR, Source, WriteLog},
};
use fstrial_model::receipt::Uncovered;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
};

/// Unit that a write is torn into: a device writes a sector whole or not at all.
const TORN: u64 = SECTOR;
/// Unit in which an image differs from the covered contents.
const BLOCK: usize = 4096;
/// Unit in which a write log has the contents with which a recording began; whole blocks.
const CHUNK: u64 = 64 << 10;
/// Bytes that a log entry takes in addition to its data.
const ENTRY: u64 = size_of::<Entry>() as u64;

/// A line to the control file of a device. The answer is read from the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order")]
pub enum Order {
    /// Record from now on, and forget an earlier recording; the present contents count as covered. No answer.
    Begin(Settings),
    /// Note an event of the client. No answer; `ENOSPC` if the recording has stopped at its limit.
    Mark {
        /// Its number, chosen by the client.
        number: u64,
        /// The event.
        event: Event,
    },
    /// Stop recording. Answer: [`Recorded`].
    End,
    /// Cut the power: the image file shows the contents after it. Answer: [`CutImage`].
    Cut {
        /// Number of log entries before the cut; not less than at the last cut.
        at: usize,
        /// Outcome of uncovered writes.
        uncovered: Uncovered,
        /// Seed of the random part.
        seed: u64,
    },
    /// Answer: the write log of the ended recording up to the last cut, in the format of dm-log-writes: the initial contents up
    /// to the mark `begin`, flushes and marks, then after the mark `cut` the complete writes that no flush covered, and after
    /// `in-flight` the others.
    Log,
}

/// An event among the requests, with its name in a write log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A change begins, which ends earlier promises: `change`.
    Change,
    /// A sync was acknowledged: `sync N`, the number of those so far.
    Sync,
    /// A commit was acknowledged: `commit N`, its own number.
    Commit,
}

/// Settings of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of the log after which recording stops.
    pub limit: u64,
    /// The cache survives a power cut: a write is covered once it is complete.
    pub protected: bool,
    /// Keep the initial contents for [`Order::Log`]: a second copy in memory.
    pub keeps_start: bool,
}

/// Summary of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Number of log entries; a cut is possible before the first, after the last, and between any two.
    pub entries: usize,
    /// Number of writes and discards.
    pub writes: usize,
    /// True if recording stopped early at its limit.
    pub is_full: bool,
    /// Position and number of each mark.
    pub promises: Vec<(usize, u64)>,
    /// Position of each beginning of a flush.
    pub flushes: Vec<usize>,
    /// In ascending order: the numbers of entries after which there are uncovered writes.
    pub at_stake: Vec<usize>,
}

/// An image, as a cut left it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutImage {
    /// Writes that no completed flush covered.
    pub uncovered: usize,
    /// Number of those writes that were kept at least in part.
    pub kept: usize,
}

/// The recording of a device and the image of its last cut.
#[derive(Default)]
pub struct Cuts {
    /// True while a device is recorded. Held while a request changes the contents of one that is not, so that
    /// none is only partly in the contents with which a recording begins.
    is_recording: RwLock<bool>,
    state: Mutex<Option<Recording>>,
}

struct Recording {
    log: Vec<Entry>,
    settings: Settings,
    left: u64,
    is_full: bool,
    next_id: u64,
    /// Contents covered at the cursor.
    covered: Backing,
    cursor: Cursor,
    /// The initial contents, if they are kept.
    start: Option<Backing>,
    /// Blocks of the image that differ from the covered contents; `None` is zeroes.
    image: HashMap<u64, Option<Box<[u8; BLOCK]>>>,
    answer: Answer,
}

enum Answer {
    Text(Vec<u8>),
    Log(WriteLog),
}

enum Entry {
    Write { id: u64, offset: u64, change: Change },
    Flush { id: u64 },
    Complete { id: u64 },
    Mark { number: u64, event: Event },
}

#[derive(Clone)]
enum Change {
    Data(Box<[u8]>),
    Zeroes(u64),
}

/// The device at a position of the log.
#[derive(Default)]
struct Cursor {
    at: usize,
    /// Writes that are not covered, by their number: in their order. Position of the write, and of its completion.
    uncovered: BTreeMap<u64, (usize, Option<usize>)>,
    /// Flushes under way, with the positions of their beginnings.
    flushes: HashMap<u64, usize>,
}

impl Cursor {
    /// Takes the next entry; the positions of the writes that are covered with it, and true if it completes a flush.
    fn step(&mut self, entry: &Entry, protected: bool) -> (Vec<usize>, bool) {
        let position = self.at;
        self.at += 1;
        match *entry {
            Entry::Write { id, .. } => drop(self.uncovered.insert(id, (position, None))),
            Entry::Flush { id } => drop(self.flushes.insert(id, position)),
            Entry::Mark { .. } => {}
            Entry::Complete { id } => {
                if let Some(begun) = self.flushes.remove(&id) {
                    let is_covered = |at: &Option<usize>| at.is_some_and(|at| at < begun);
                    let covered = self.uncovered.extract_if(.., |_, (_, completed)| is_covered(completed));
                    return (covered.map(|(_, (position, _))| position).collect(), true);
                }
                if protected {
                    let covered = self.uncovered.remove(&id).map(|(position, _)| position);
                    return (covered.into_iter().collect(), false);
                }
                if let Some((_, completed)) = self.uncovered.get_mut(&id) {
                    *completed = Some(position);
                }
            }
        }
        (Vec::new(), false)
    }
}

impl Cuts {
    fn lock(&self) -> MutexGuard<'_, Option<Recording>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the device, and records it; the request for [`Server::submit`], and the number for
    /// [`complete`](Self::complete).
    ///
    /// # Errors
    /// As [`Server::write`].
    pub fn write(&self, server: &Server, offset: u64, data: &[u8]) -> io::Result<(Request, u64)> {
        self.change(offset, || Change::Data(data.into()), || server.write(offset, data))
    }

    /// Discards on the device, and records it as a write of zeroes.
    ///
    /// # Errors
    /// As [`Server::discard`].
    pub fn discard(&self, server: &Server, offset: u64, length: u64) -> io::Result<(Request, u64)> {
        self.change(offset, || Change::Zeroes(length), || server.discard(offset, length))
    }

    fn change(
        &self,
        offset: u64,
        change: impl FnOnce() -> Change,
        perform: impl FnOnce() -> io::Result<Request>,
    ) -> io::Result<(Request, u64)> {
        let is_recording = self.is_recording.read().unwrap_or_else(PoisonError::into_inner);
        if !*is_recording {
            return Ok((perform()?, 0));
        }
        // The contents and the log change together.
        let mut state = self.lock();
        let request = perform()?;
        let id = state.as_mut().map_or(0, |recording| recording.note_write(offset, change()));
        Ok((request, id))
    }

    /// Records the beginning of a flush; its number.
    pub fn flush(&self) -> u64 {
        if !*self.is_recording.read().unwrap_or_else(PoisonError::into_inner) {
            return 0;
        }
        self.lock().as_mut().map_or(0, |recording| recording.note(0, |id| Entry::Flush { id }))
    }

    /// Records the completion of a request, before its answer is sent.
    pub fn complete(&self, id: u64) {
        if id != 0
            && let Some(recording) = self.lock().as_mut()
        {
            recording.note(0, |_| Entry::Complete { id });
        }
    }

    /// Carries out a line of the control file.
    ///
    /// # Errors
    /// `EINVAL`: not an order, or one that does not apply now; no memory.
    pub fn order(&self, server: &Server, line: &[u8]) -> io::Result<()> {
        let order = serde_json::from_slice(line).map_err(|_| Errno::INVAL)?;
        match order {
            Order::Begin(settings) => return self.begin(server, settings),
            Order::End => *self.is_recording.write().unwrap_or_else(PoisonError::into_inner) = false,
            // It reads the whole device.
            Order::Log if *self.is_recording.read().unwrap_or_else(PoisonError::into_inner) => {
                return Err(Errno::INVAL.into());
            }
            // They do not wait for the requests under way.
            Order::Mark { .. } | Order::Cut { .. } | Order::Log => {}
        }
        let mut state = self.lock();
        let recording = state.as_mut().ok_or(Errno::INVAL)?;
        match order {
            Order::Begin(_) => {}
            Order::Mark { number, event } => {
                if recording.note(0, |_| Entry::Mark { number, event }) == 0 {
                    return Err(Errno::NOSPC.into());
                }
            }
            Order::End => {
                recording.answer = Answer::Text(serde_json::to_vec(&recording.summary())?);
            }
            Order::Cut { at, uncovered, seed } => {
                let image = recording.cut(at, uncovered, seed)?;
                recording.answer = Answer::Text(serde_json::to_vec(&image)?);
            }
            Order::Log => recording.answer = Answer::Log(recording.write_log()?),
        }
        Ok(())
    }

    fn begin(&self, server: &Server, settings: Settings) -> io::Result<()> {
        let mut is_recording = self.is_recording.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        // Completions of requests that an earlier recording knows must not be those of this one's.
        let first_id = state.take().map_or(1, |earlier| earlier.next_id);
        let copy = || server.copy().map_err(|_| Errno::NOMEM);
        let start = settings.keeps_start.then(copy).transpose()?;
        *state = Some(Recording::new(copy()?, start, settings, first_id));
        *is_recording = true;
        Ok(())
    }

    /// The answer to the last order, from an offset on.
    ///
    /// # Errors
    /// Those of reading the contents.
    pub fn answer(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let state = self.lock();
        let Some(recording) = state.as_ref() else { return Ok(Vec::new()) };
        match &recording.answer {
            Answer::Text(text) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                Ok(text[from..].iter().copied().take(length).collect())
            }
            Answer::Log(log) => {
                log.read(offset, length, |content, from, wanted| recording.data(content, from, wanted))
            }
        }
    }

    /// Reads from the image.
    ///
    /// # Errors
    /// `EINVAL` beyond its end or without a cut.
    pub fn read_image(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.lock().as_ref().ok_or(Errno::INVAL)?.read(offset, length)
    }

    /// Writes to the image, as recovery and checks do.
    ///
    /// # Errors
    /// `ENOSPC` beyond its end, `EINVAL` without a cut.
    pub fn write_image(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.lock().as_mut().ok_or(Errno::INVAL)?.write(offset, data)
    }

    /// Makes a range of the image read as zeroes.
    ///
    /// # Errors
    /// As [`write_image`](Self::write_image).
    pub fn zero_image(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut state = self.lock();
        let recording = state.as_mut().ok_or(Errno::INVAL)?;
        recording.zero(offset, length)
    }
}

impl Recording {
    fn new(covered: Backing, start: Option<Backing>, settings: Settings, next_id: u64) -> Self {
        Self {
            log: Vec::new(),
            settings,
            left: settings.limit,
            is_full: false,
            next_id,
            covered,
            cursor: Cursor::default(),
            start,
            image: HashMap::new(),
            answer: Answer::Text(Vec::new()),
        }
    }

    /// Appends an entry of `bytes` of data under a new number. A recording that is full records nothing, completions
    /// included: 0.
    fn note(&mut self, bytes: u64, entry: impl FnOnce(u64) -> Entry) -> u64 {
        self.is_full |= bytes + ENTRY > self.left;
        if self.is_full {
            return 0;
        }
        self.left -= bytes + ENTRY;
        let id = self.next_id;
        self.next_id += 1;
        self.log.push(entry(id));
        id
    }

    fn note_write(&mut self, offset: u64, change: Change) -> u64 {
        let bytes = match &change {
            Change::Data(data) => data.len() as u64,
            Change::Zeroes(_) => 0,
        };
        self.note(bytes, |id| Entry::Write { id, offset, change })
    }

    fn summary(&self) -> Recorded {
        let mut summary = Recorded { entries: self.log.len(), is_full: self.is_full, ..Recorded::default() };
        let mut cursor = Cursor::default();
        for (position, entry) in self.log.iter().enumerate() {
            cursor.step(entry, self.settings.protected);
            if !cursor.uncovered.is_empty() {
                summary.at_stake.push(position + 1);
            }
            match entry {
                Entry::Write { .. } => summary.writes += 1,
                Entry::Flush { .. } => summary.flushes.push(position),
                Entry::Mark { number, .. } => summary.promises.push((position, *number)),
                Entry::Complete { .. } => {}
            }
        }
        summary
    }

    /// Makes the image of a cut.
    fn cut(&mut self, at: usize, outcome: Uncovered, seed: u64) -> io::Result<CutImage> {
        if at < self.cursor.at || at > self.log.len() {
            return Err(Errno::INVAL.into());
        }
        self.image.clear();
        self.advance(at)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let writes: Vec<usize> = self.cursor.uncovered.values().map(|(position, _)| *position).collect();
        let mut made = CutImage { uncovered: writes.len(), kept: 0 };
        for position in writes {
            made.kept += usize::from(self.keep(position, outcome, &mut random)?);
        }
        Ok(made)
    }

    /// Puts the random part of an uncovered write into the image; true if anything was kept of it.
    fn keep(&mut self, position: usize, outcome: Uncovered, random: &mut ChaCha8Rng) -> io::Result<bool> {
        let Entry::Write { offset, change, .. } = &self.log[position] else { return Ok(false) };
        let unit = match (outcome, change) {
            (Uncovered::Lost, _) => return Ok(false),
            (Uncovered::Half, _) => change.length(),
            (Uncovered::Torn, Change::Data(_)) => TORN,
            (Uncovered::Torn, Change::Zeroes(_)) => BLOCK as u64,
        };
        let (offset, change) = (*offset, change.clone());
        let mut any = false;
        let mut from = 0;
        while from < change.length() {
            let to = (from + unit).min(change.length());
            if random.next_u32() & 1 == 0 {
                any = true;
                match &change {
                    Change::Data(data) => self.write(offset + from, &data[from as usize..to as usize])?,
                    Change::Zeroes(_) => self.zero(offset + from, to - from)?,
                }
            }
            from = to;
        }
        Ok(any)
    }

    /// Advances the covered contents to a position of the log.
    fn advance(&mut self, to: usize) -> io::Result<()> {
        while self.cursor.at < to {
            let (covered, _) = self.cursor.step(&self.log[self.cursor.at], self.settings.protected);
            self.cover(&covered)?;
        }
        Ok(())
    }

    /// Writes at these positions are covered, in their order.
    fn cover(&mut self, positions: &[usize]) -> io::Result<()> {
        for position in positions {
            let Entry::Write { offset, change, .. } = &self.log[*position] else { continue };
            match change {
                Change::Data(data) => self.covered.write(*offset, data)?,
                Change::Zeroes(length) => self.covered.discard(*offset, *length)?,
            }
        }
        Ok(())
    }

    fn write_log(&self) -> io::Result<WriteLog> {
        let start = self.start.as_ref().ok_or(Errno::INVAL)?;
        let mut log = WriteLog::new();
        // As large as a loop device shows it.
        let size = self.covered.size() / SECTOR * SECTOR;
        for offset in (0..size).step_by(CHUNK as usize) {
            let length = CHUNK.min(size - offset);
            if start.read(offset, length as usize)?.iter().any(|byte| *byte != 0) {
                log.write(EntryKind::Write, offset, length, Source::Start(offset));
            }
        }
        log.flush();
        log.mark("begin".into());
        let (mut cursor, mut syncs) = (Cursor::default(), 0_u64);
        let kind = if self.settings.protected { EntryKind::DurableWrite } else { EntryKind::Write };
        for entry in &self.log[..self.cursor.at] {
            let (covered, is_flush) = cursor.step(entry, self.settings.protected);
            covered.into_iter().try_for_each(|position| self.log_write(&mut log, kind, position))?;
            match entry {
                Entry::Mark { event: Event::Change, .. } => log.mark("change".into()),
                Entry::Mark { event: Event::Sync, .. } => {
                    syncs += 1;
                    log.mark(format!("sync {syncs}"));
                }
                Entry::Mark { number, event: Event::Commit } => log.mark(format!("commit {number}")),
                _ if is_flush => log.flush(),
                _ => {}
            }
        }
        for (mark, is_complete) in [("cut", true), ("in-flight", false)] {
            log.mark(mark.into());
            let mut uncovered = cursor.uncovered.values();
            uncovered.try_for_each(|(position, completed)| match completed.is_some() == is_complete {
                true => self.log_write(&mut log, EntryKind::Write, *position),
                false => Ok(()),
            })?;
        }
        Ok(log)
    }

    fn log_write(&self, log: &mut WriteLog, kind: EntryKind, position: usize) -> io::Result<()> {
        let Entry::Write { offset, change, .. } = &self.log[position] else { return Ok(()) };
        if offset % SECTOR != 0 || change.length() % SECTOR != 0 {
            return Err(Errno::INVAL.into());
        }
        match change {
            Change::Data(data) => log.write(kind, *offset, data.len() as u64, Source::Write(position)),
            Change::Zeroes(length) => log.discard(*offset, *length),
        }
        Ok(())
    }

    /// Bytes of a part of the write log, from an offset in it on.
    fn data(&self, source: Source, from: u64, length: usize) -> io::Result<Vec<u8>> {
        match source {
            Source::Start(offset) => self.start.as_ref().ok_or(Errno::INVAL)?.read(offset + from, length),
            Source::Write(position) => match &self.log[position] {
                Entry::Write { change: Change::Data(data), .. } => {
                    Ok(data[from as usize..from as usize + length].to_vec())
                }
                _ => Err(Errno::INVAL.into()),
            },
        }
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if !self.covered.holds(offset, length as u64) {
            return Err(Errno::INVAL.into());
        }
        let mut data = self.covered.read(offset, length)?;
        for (block, range, from) in pieces(offset, length) {
            if let Some(changed) = self.image.get(&block) {
                let length = range.len();
                match changed {
                    Some(changed) => data[range].copy_from_slice(&changed[from..from + length]),
                    None => data[range].fill(0),
                }
            }
        }
        Ok(data)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !self.covered.holds(offset, data.len() as u64) {
            return Err(Errno::NOSPC.into());
        }
        for (block, range, from) in pieces(offset, data.len()) {
            let length = range.len();
            if !self.image.contains_key(&block) {
                let mut old = Box::new([0; BLOCK]);
                let start = block * BLOCK as u64;
                let inside =
                    usize::try_from(self.covered.size() - start).map_or(BLOCK, |left| left.min(BLOCK));
                old[..inside].copy_from_slice(&self.covered.read(start, inside)?);
                self.image.insert(block, Some(old));
            }
            let changed = self.image.get_mut(&block).expect("it was inserted above");
            let changed = changed.get_or_insert_with(|| Box::new([0; BLOCK]));
            changed[from..from + length].copy_from_slice(&data[range]);
        }
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> io::Result<()> {
        if !self.covered.holds(offset, length) {
            return Err(Errno::NOSPC.into());
        }
        for (block, range, _) in pieces(offset, usize::try_from(length).map_err(|_| Errno::NOSPC)?) {
            match range.len() {
                BLOCK => drop(self.image.insert(block, None)),
                part => self.write(offset + range.start as u64, &[0; BLOCK][..part])?,
            }
        }
        Ok(())
    }
}

impl Change {
    fn length(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Zeroes(length) => *length,
        }
    }
}

/// The blocks of a range: number of the block, the part of the range in it, and where that begins in the block.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let from = usize::try_from(at % BLOCK as u64).expect("less than a block");
        let part = (BLOCK - from).min(length - done);
        let range = done..done + part;
        done += part;
        Some((at / BLOCK as u64, range, from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{
        device_model::{DeviceModel, Service},
        units::Bytes,
    };
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Ends inside of a block, and of a chunk of a log.
    const SIZE: u64 = (200 << 10) + 512;

    fn server() -> Arc<Server> {
        let model = DeviceModel { discard: Some(Service::default()), ..DeviceModel::default() };
        Server::start(model, Backing::in_memory(Bytes(SIZE)).unwrap())
    }

    fn order(cuts: &Cuts, server: &Server, order: Order) {
        cuts.order(server, &serde_json::to_vec(&order).unwrap()).unwrap();
    }

    fn settings(protected: bool) -> Settings {
        Settings { limit: 1 << 20, protected, keeps_start: true }
    }

    fn recording(server: &Server, protected: bool) -> Cuts {
        let cuts = Cuts::default();
        order(&cuts, server, Order::Begin(settings(protected)));
        cuts
    }

    fn write(cuts: &Cuts, server: &Server, block: u64, content: u8) -> u64 {
        cuts.write(server, block * BLOCK as u64, &[content; BLOCK]).unwrap().1
    }

    fn flush(cuts: &Cuts) {
        let id = cuts.flush();
        cuts.complete(id);
    }

    /// First bytes of the first blocks after a cut that loses everything uncovered.
    fn after_cut(cuts: &Cuts, server: &Server, at: usize, uncovered: Uncovered) -> Vec<u8> {
        order(cuts, server, Order::Cut { at, uncovered, seed: 1 });
        (0..4).map(|block| cuts.read_image(block * BLOCK as u64, 1).unwrap()[0]).collect()
    }

    fn entries(cuts: &Cuts, server: &Server) -> Recorded {
        order(cuts, server, Order::End);
        serde_json::from_slice(&cuts.answer(0, 1 << 20).unwrap()).unwrap()
    }

    #[test]
    fn flush_covers_only_writes_completed_before_it_began() {
        let server = server();
        server.write(3 * BLOCK as u64, &[9; BLOCK]).unwrap();
        let cuts = recording(&server, false);
        let first = write(&cuts, &server, 0, 1);
        cuts.complete(first);
        let during = write(&cuts, &server, 1, 2);
        let id = cuts.flush();
        cuts.complete(during);
        order(&cuts, &server, Order::Mark { number: 7, event: Event::Sync });
        cuts.complete(id);
        let recorded = entries(&cuts, &server);
        assert_eq!((recorded.entries, recorded.writes, recorded.flushes.len()), (7, 2, 1));
        assert_eq!(recorded.promises, [(5, 7)]);
        assert_eq!(after_cut(&cuts, &server, 6, Uncovered::Lost), [0, 0, 0, 9], "the flush is under way");
        assert_eq!(after_cut(&cuts, &server, 7, Uncovered::Lost), [1, 0, 0, 9]);
        assert!(
            cuts.order(&server, br#"{"order":"cut","at":6,"uncovered":"lost","seed":1}"#).is_err(),
            "back"
        );
        assert!(cuts.order(&server, b"rubbish").is_err());
    }

    #[test]
    fn protected_cache_keeps_every_completed_write() {
        let server = server();
        let cuts = recording(&server, true);
        let id = write(&cuts, &server, 0, 1);
        cuts.complete(id);
        write(&cuts, &server, 1, 2);
        assert_eq!(after_cut(&cuts, &server, 3, Uncovered::Lost), [1, 0, 0, 0]);
    }

    #[test]
    fn recovery_writes_do_not_reach_later_images() {
        let server = server();
        let cuts = recording(&server, false);
        let id = write(&cuts, &server, 0, 1);
        cuts.complete(id);
        flush(&cuts);
        assert_eq!(after_cut(&cuts, &server, 4, Uncovered::Lost)[0], 1);
        cuts.write_image(100, &[8; 5000]).unwrap();
        assert_eq!(cuts.read_image(98, 4).unwrap(), [1, 1, 8, 8]);
        cuts.zero_image(0, SIZE).unwrap();
        assert_eq!(cuts.read_image(0, 1).unwrap(), [0]);
        assert_eq!(after_cut(&cuts, &server, 4, Uncovered::Lost)[0], 1);
        assert!(cuts.write_image(SIZE - 1, &[0; 2]).is_err() && cuts.read_image(SIZE, 1).is_err());
        assert_eq!(server.read(0, 1).unwrap().1, [1], "the device itself is unchanged");
    }

    #[test]
    fn torn_writes_keep_whole_sectors() {
        let server = server();
        let cuts = recording(&server, false);
        cuts.write(&server, 0, &[5; 16 * BLOCK]).unwrap();
        order(&cuts, &server, Order::Cut { at: 1, uncovered: Uncovered::Torn, seed: 3 });
        let data = cuts.read_image(0, 16 * BLOCK).unwrap();
        let sectors: Vec<u8> = data.chunks(SECTOR as usize).map(|sector| sector[0]).collect();
        assert!(data.chunks(SECTOR as usize).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        let kept = sectors.iter().filter(|byte| **byte == 5).count();
        assert!((40..90).contains(&kept), "about half of 128: {kept}");
    }

    /// A write log after the last cut, replayed as its format says.
    #[derive(Default)]
    struct Replayed {
        /// First bytes of the first blocks after each flush.
        flushes: Vec<Vec<u8>>,
        /// The marks, each with the contents at it.
        marks: Vec<(String, Vec<u8>)>,
        /// All of the contents at the end.
        contents: Vec<u8>,
    }

    impl Replayed {
        fn at(&self, mark: &str) -> &[u8] {
            &self.marks.iter().find(|(known, _)| known == mark).unwrap().1
        }
    }

    fn replayed(cuts: &Cuts, server: &Server) -> Replayed {
        entries(cuts, server);
        order(cuts, server, Order::Log);
        // In pieces that end anywhere.
        let mut log = Vec::new();
        loop {
            let piece = cuts.answer(log.len() as u64, 1000).unwrap();
            if piece.is_empty() {
                break;
            }
            log.extend(piece);
        }
        let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
        assert_eq!((word(0), word(8), log[24..28].to_vec()), (0x006a_7366_7773_6872, 1, vec![0, 2, 0, 0]));
        let mut replayed = Replayed { contents: vec![0; SIZE as usize], ..Replayed::default() };
        let mut at = 512;
        for _ in 0..word(16) {
            let [sector, sectors, flags, text] = [0, 8, 16, 24].map(|field| word(at + field) as usize);
            let (range, header) = (sector * 512..(sector + sectors) * 512, &log[at + 32..at + 512]);
            at += 512;
            assert!(header[text..].iter().all(|byte| *byte == 0) && (flags == 8) == (text > 0));
            let blocks = |replayed: &Replayed| -> Vec<u8> {
                (0..4).map(|block| replayed.contents[block * BLOCK]).collect()
            };
            match flags {
                0 | 2 => {
                    assert!(sectors > 0, "replay-log calls it malformed");
                    replayed.contents[range].copy_from_slice(&log[at..at + sectors * 512]);
                    at += sectors * 512;
                }
                1 => replayed.flushes.push(blocks(&replayed)),
                4 => replayed.contents[range].fill(0),
                8 => {
                    let mark = String::from_utf8(header[..text].to_vec()).unwrap();
                    replayed.marks.push((mark, blocks(&replayed)));
                }
                _ => panic!("{flags}"),
            }
        }
        assert_eq!(at, log.len());
        replayed
    }

    #[test]
    fn write_log_has_the_start_and_the_writes_at_stake() {
        let server = server();
        for protected in [false, true] {
            server.write(2 * BLOCK as u64, &[9; 2 * BLOCK]).unwrap();
            server.write(SIZE - 512, &[8; 512]).unwrap();
            let cuts = recording(&server, protected);
            let first = write(&cuts, &server, 2, 1);
            cuts.complete(first);
            flush(&cuts);
            for (number, event) in [(6, Event::Change), (7, Event::Sync), (3, Event::Commit)] {
                order(&cuts, &server, Order::Mark { number, event });
            }
            cuts.discard(&server, 3 * BLOCK as u64, BLOCK as u64).unwrap();
            let last = write(&cuts, &server, 0, 5);
            cuts.complete(last);
            after_cut(&cuts, &server, 3, Uncovered::Lost);
            after_cut(&cuts, &server, 10, Uncovered::Torn);
            cuts.write_image(0, &[77; 9000]).unwrap();
            let replayed = replayed(&cuts, &server);
            let covered = if protected { 5 } else { 0 };
            for (mark, blocks) in [
                ("begin", [0, 0, 9, 9]),
                ("change", [0, 0, 1, 9]),
                ("sync 1", [0, 0, 1, 9]),
                ("commit 3", [0, 0, 1, 9]),
                ("cut", [covered, 0, 1, 9]),
                ("in-flight", [5, 0, 1, 9]),
            ] {
                assert_eq!(replayed.at(mark), blocks, "{mark}");
            }
            assert_eq!(replayed.marks.len(), 6);
            assert_eq!([3 * BLOCK, SIZE as usize - 1].map(|at| replayed.contents[at]), [0, 8]);
            server.write(0, &[0; BLOCK]).unwrap();
        }
        let cuts = Cuts::default();
        order(&cuts, &server, Order::Begin(Settings { keeps_start: false, ..settings(false) }));
        after_cut(&cuts, &server, 0, Uncovered::Lost);
        assert!(cuts.order(&server, br#"{"order":"log"}"#).is_err(), "it is recording");
        entries(&cuts, &server);
        assert!(cuts.order(&server, br#"{"order":"log"}"#).is_err(), "it does not know the beginning");
    }

    #[test]
    fn long_discards_are_split_for_replay() {
        let mut log = WriteLog::new();
        log.discard(512, (256 << 20) + 512);
        let entries = log.read(0, 4096, |_, _, _| unreachable!("no data")).unwrap();
        let word = |at: usize| u64::from_le_bytes(entries[at..at + 8].try_into().unwrap());
        let each: Vec<[u64; 3]> =
            (1..=3).map(|entry| [0, 8, 16].map(|field| word(entry * 512 + field))).collect();
        assert_eq!((entries.len(), word(16)), (4 * 512, 3));
        assert_eq!(each, [[1, 262_144, 4], [262_145, 262_144, 4], [524_289, 1, 4]]);
    }

    #[test]
    fn full_recording_stops_and_says_so() {
        let server = server();
        let cuts = Cuts::default();
        order(
            &cuts,
            &server,
            Order::Begin(Settings { limit: 2 * (BLOCK as u64 + ENTRY), ..settings(false) }),
        );
        for block in 0..4 {
            write(&cuts, &server, block, 1);
        }
        let promise =
            cuts.order(&server, &serde_json::to_vec(&Order::Mark { number: 0, event: Event::Sync }).unwrap());
        assert_eq!(promise.unwrap_err().raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        let recorded = entries(&cuts, &server);
        assert!(recorded.is_full && recorded.writes == 2, "{recorded:?}");
    }

    /// What happens on the device, for a property.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Write(u64),
        Complete(usize),
        BeginFlush,
        EndFlush,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4_u64).prop_map(Step::Write),
            (0..8_usize).prop_map(Step::Complete),
            Just(Step::BeginFlush),
            Just(Step::EndFlush),
        ]
    }

    proptest! {
        /// An image without uncovered writes has, in each block, the last write that a completed flush covers.
        #[test]
        fn lost_image_matches_slow_model(
            steps in prop::collection::vec(step(), 1..60),
            protected in prop::bool::ANY,
        ) {
            let server = server();
            let cuts = recording(&server, protected);
            // Block, content, completed, covered; and the flush under way with the writes that it will cover.
            let mut writes: Vec<(u64, u8, bool, bool, u64)> = Vec::new();
            let mut flushing: Option<(u64, Vec<usize>)> = None;
            let covered = |writes: &[(u64, u8, bool, bool, u64)]| -> Vec<u8> {
                let last = |block: u64| writes.iter().rfind(|write| write.0 == block && write.3);
                (0..4).map(|block| last(block).map_or(0, |write| write.1)).collect()
            };
            // After that of the start.
            let mut flushes = vec![vec![0; 4]];
            let mut length = 0;
            for step in steps {
                match step {
                    // The kernel does not write a block twice at a time: that would have no order.
                    Step::Write(block) if writes.iter().all(|write| write.0 != block || write.2) => {
                        // Every fifth is a discard.
                        let content = u8::try_from((writes.len() + 1) % 5 * (writes.len() + 1)).unwrap();
                        let id = match content {
                            0 => cuts.discard(&server, block * BLOCK as u64, BLOCK as u64).unwrap().1,
                            content => write(&cuts, &server, block, content),
                        };
                        writes.push((block, content, false, false, id));
                        length += 1;
                    }
                    Step::Complete(index) if index < writes.len() && !writes[index].2 => {
                        (writes[index].2, writes[index].3) = (true, protected);
                        cuts.complete(writes[index].4);
                        length += 1;
                    }
                    Step::BeginFlush if flushing.is_none() => {
                        let complete = (0..writes.len()).filter(|index| writes[*index].2).collect();
                        flushing = Some((cuts.flush(), complete));
                        length += 1;
                    }
                    Step::EndFlush => {
                        if let Some((id, complete)) = flushing.take() {
                            complete.iter().for_each(|index| writes[*index].3 = true);
                            cuts.complete(id);
                            length += 1;
                            flushes.push(covered(&writes));
                        }
                    }
                    Step::Write(_) | Step::Complete(_) | Step::BeginFlush => {}
                }
            }
            let expected = covered(&writes);
            let got = after_cut(&cuts, &server, length, Uncovered::Lost);
            prop_assert_eq!(&got, &expected);
            let replayed = replayed(&cuts, &server);
            prop_assert_eq!(replayed.at("cut"), expected);
            prop_assert_eq!(replayed.flushes, flushes);
        }
    }
}
