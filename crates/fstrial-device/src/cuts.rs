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
    write_log::{Content, Kind, WriteLog},
};
use fstrial_model::receipt::Uncovered;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap, hash_map},
    io,
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
};

/// Unit that a write is torn into: a device writes a sector whole or not at all.
const SECTOR: usize = 512;
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
    Begin {
        /// Bytes of the log after which recording stops.
        limit: u64,
        /// The cache survives a power cut: a write is covered once it is complete.
        protected: bool,
        /// Remember the contents with which it begins, for [`Order::Log`]: as many bytes as are changed.
        keeps_start: bool,
    },
    /// A promise was made. No answer; `ENOSPC` if the recording has stopped at its limit.
    Promise {
        /// Its number, chosen by the client.
        number: u64,
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
    /// Answer: the write log of the recording up to the last cut, in the format of dm-log-writes. It begins with the contents
    /// at the beginning; promises and the cut are marks in it, and the writes after the latter are those that it may lose.
    Log,
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
    /// Position and number of each promise.
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
    left: u64,
    is_full: bool,
    protected: bool,
    next_id: u64,
    /// Contents covered at the cursor.
    covered: Backing,
    cursor: Cursor,
    /// Blocks of the image that differ from the covered contents.
    image: Blocks,
    /// Blocks in which the contents at the beginning differed from the covered ones, if they are remembered.
    start: Option<Blocks>,
    answer: Answer,
}

/// Contents of blocks, by their numbers; `None` is zeroes.
type Blocks = HashMap<u64, Option<Box<[u8; BLOCK]>>>;

enum Answer {
    Text(Vec<u8>),
    Log(WriteLog),
}

enum Entry {
    Write { id: u64, offset: u64, change: Change },
    Flush { id: u64 },
    Complete { id: u64 },
    Promise { number: u64 },
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
    /// Takes the next entry; the positions of the writes that are covered with it.
    fn step(&mut self, entry: &Entry, protected: bool) -> Vec<usize> {
        let position = self.at;
        self.at += 1;
        match *entry {
            Entry::Write { id, .. } => drop(self.uncovered.insert(id, (position, None))),
            Entry::Flush { id } => drop(self.flushes.insert(id, position)),
            Entry::Promise { .. } => {}
            Entry::Complete { id } => {
                if let Some(begun) = self.flushes.remove(&id) {
                    let is_covered = |at: &Option<usize>| at.is_some_and(|at| at < begun);
                    let covered = self.uncovered.extract_if(.., |_, (_, completed)| is_covered(completed));
                    return covered.map(|(_, (position, _))| position).collect();
                }
                if protected {
                    return self.uncovered.remove(&id).map(|(position, _)| position).into_iter().collect();
                }
                if let Some((_, completed)) = self.uncovered.get_mut(&id) {
                    *completed = Some(position);
                }
            }
        }
        Vec::new()
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
            Order::Begin { limit, protected, keeps_start } => {
                return self.begin(server, |covered, first_id| {
                    Recording::new(covered, limit, protected, keeps_start, first_id)
                });
            }
            Order::End => *self.is_recording.write().unwrap_or_else(PoisonError::into_inner) = false,
            // They do not wait for the requests under way.
            Order::Promise { .. } | Order::Cut { .. } | Order::Log => {}
        }
        let mut state = self.lock();
        let recording = state.as_mut().ok_or(Errno::INVAL)?;
        match order {
            Order::Begin { .. } => {}
            Order::Promise { number } => {
                if recording.note(0, |_| Entry::Promise { number }) == 0 {
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

    fn begin(&self, server: &Server, fresh: impl FnOnce(Backing, u64) -> Recording) -> io::Result<()> {
        let mut is_recording = self.is_recording.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        // Completions of requests that an earlier recording knows must not be those of this one's.
        let first_id = state.take().map_or(1, |earlier| earlier.next_id);
        let covered = server.copy().map_err(|_| Errno::NOMEM)?;
        *state = Some(fresh(covered, first_id));
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
    fn new(covered: Backing, limit: u64, protected: bool, keeps_start: bool, next_id: u64) -> Self {
        Self {
            log: Vec::new(),
            left: limit,
            is_full: false,
            protected,
            next_id,
            covered,
            cursor: Cursor::default(),
            image: HashMap::new(),
            start: keeps_start.then(HashMap::new),
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
            cursor.step(entry, self.protected);
            if !cursor.uncovered.is_empty() {
                summary.at_stake.push(position + 1);
            }
            match entry {
                Entry::Write { .. } => summary.writes += 1,
                Entry::Flush { .. } => summary.flushes.push(position),
                Entry::Promise { number } => summary.promises.push((position, *number)),
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
            (Uncovered::Torn, Change::Data(_)) => SECTOR as u64,
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
            let covered = self.cursor.step(&self.log[self.cursor.at], self.protected);
            self.cover(&covered)?;
        }
        Ok(())
    }

    /// Writes at these positions are covered, in their order.
    fn cover(&mut self, positions: &[usize]) -> io::Result<()> {
        for position in positions {
            let Entry::Write { offset, change, .. } = &self.log[*position] else { continue };
            if let Some(start) = &mut self.start {
                let length = usize::try_from(change.length()).map_err(|_| Errno::NOSPC)?;
                for (block, _, _) in pieces(*offset, length) {
                    if let hash_map::Entry::Vacant(place) = start.entry(block) {
                        let old = block_of(&self.covered, block)?;
                        place.insert(old.iter().any(|byte| *byte != 0).then_some(old));
                    }
                }
            }
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
        for offset in (0..self.covered.size()).step_by(CHUNK as usize) {
            let length = CHUNK.min(self.covered.size() - offset);
            if self.read_over(start, offset, length as usize)?.iter().any(|byte| *byte != 0) {
                log.write(Kind::Write, offset, length, Content::Start(offset));
            }
        }
        log.flush();
        log.mark("begin");
        let mut cursor = Cursor::default();
        for entry in &self.log[..self.cursor.at] {
            let is_flush = matches!(entry, Entry::Complete { id } if cursor.flushes.contains_key(id));
            let kind = if self.protected && !is_flush { Kind::DurableWrite } else { Kind::Write };
            cursor
                .step(entry, self.protected)
                .into_iter()
                .for_each(|position| self.log_write(&mut log, kind, position));
            match entry {
                Entry::Promise { number } => log.mark(&format!("promise {number}")),
                _ if is_flush => log.flush(),
                _ => {}
            }
        }
        log.mark("cut");
        cursor.uncovered.values().for_each(|(position, _)| self.log_write(&mut log, Kind::Write, *position));
        Ok(log)
    }

    fn log_write(&self, log: &mut WriteLog, kind: Kind, position: usize) {
        match &self.log[position] {
            Entry::Write { offset, change: Change::Data(data), .. } => {
                log.write(kind, *offset, data.len() as u64, Content::Write(position));
            }
            Entry::Write { offset, change: Change::Zeroes(length), .. } => log.discard(*offset, *length),
            Entry::Flush { .. } | Entry::Complete { .. } | Entry::Promise { .. } => {}
        }
    }

    /// Bytes of a part of the write log, from an offset in it on.
    fn data(&self, content: &Content, from: u64, length: usize) -> io::Result<Vec<u8>> {
        match (content, &self.start) {
            (Content::Start(offset), Some(start)) => self.read_over(start, offset + from, length),
            (Content::Write(position), _) => match &self.log[*position] {
                Entry::Write { change: Change::Data(data), .. } => {
                    Ok(data[from as usize..from as usize + length].to_vec())
                }
                _ => Err(Errno::INVAL.into()),
            },
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if !self.covered.holds(offset, length as u64) {
            return Err(Errno::INVAL.into());
        }
        self.read_over(&self.image, offset, length)
    }

    /// Reads the covered contents with other blocks over them.
    fn read_over(&self, blocks: &Blocks, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut data = self.covered.read(offset, length)?;
        for (block, range, from) in pieces(offset, length) {
            if let Some(changed) = blocks.get(&block) {
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
                self.image.insert(block, Some(block_of(&self.covered, block)?));
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

/// A block of the contents; zeroes beyond their end.
fn block_of(contents: &Backing, block: u64) -> io::Result<Box<[u8; BLOCK]>> {
    let mut data = Box::new([0; BLOCK]);
    let start = block * BLOCK as u64;
    let inside = usize::try_from(contents.size() - start).map_or(BLOCK, |left| left.min(BLOCK));
    data[..inside].copy_from_slice(&contents.read(start, inside)?);
    Ok(data)
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

    const SIZE: u64 = 64 << 10;

    fn server() -> Arc<Server> {
        Server::start(DeviceModel::default(), Backing::in_memory(Bytes(SIZE)).unwrap())
    }

    fn order(cuts: &Cuts, server: &Server, order: Order) {
        cuts.order(server, &serde_json::to_vec(&order).unwrap()).unwrap();
    }

    fn recording(server: &Server, protected: bool) -> Cuts {
        let cuts = Cuts::default();
        order(&cuts, server, Order::Begin { limit: 1 << 20, protected, keeps_start: true });
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
        order(&cuts, &server, Order::Promise { number: 7 });
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
        let sectors: Vec<u8> = data.chunks(SECTOR).map(|sector| sector[0]).collect();
        assert!(data.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        let kept = sectors.iter().filter(|byte| **byte == 5).count();
        assert!((40..90).contains(&kept), "about half of 128: {kept}");
    }

    /// The write log after the last cut, replayed as its format says up to a mark: the contents, and the texts of its marks.
    fn replayed(cuts: &Cuts, server: &Server, until: &str) -> (Vec<u8>, Vec<String>) {
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
        let (mut contents, mut marks, mut at) = (vec![0; SIZE as usize], Vec::new(), 512);
        for _ in 0..word(16) {
            let [sector, sectors, flags, text] = [0, 8, 16, 24].map(|field| word(at + field) as usize);
            let range = sector * 512..(sector + sectors) * 512;
            marks.extend(
                (flags == 8).then(|| String::from_utf8(log[at + 32..at + 32 + text].to_vec()).unwrap()),
            );
            at += 512;
            match flags {
                4 => contents[range].fill(0),
                _ => contents[range].copy_from_slice(&log[at..at + sectors * 512]),
            }
            at += if flags == 4 { 0 } else { sectors * 512 };
            if marks.last().is_some_and(|mark| mark == until) {
                return (contents, marks);
            }
        }
        assert_eq!(at, log.len());
        (contents, marks)
    }

    #[test]
    fn write_log_has_the_start_and_the_writes_at_stake() {
        let model = DeviceModel { discard: Some(Service::default()), ..DeviceModel::default() };
        let server = Server::start(model, Backing::in_memory(Bytes(SIZE)).unwrap());
        server.write(3 * BLOCK as u64, &[9; 2 * BLOCK]).unwrap();
        for protected in [false, true] {
            let cuts = recording(&server, protected);
            let first = write(&cuts, &server, 3, 1);
            cuts.complete(first);
            flush(&cuts);
            order(&cuts, &server, Order::Promise { number: 7 });
            cuts.discard(&server, 4 * BLOCK as u64, BLOCK as u64).unwrap();
            after_cut(&cuts, &server, 6, Uncovered::Torn);
            let blocks = |until| {
                let (contents, marks) = replayed(&cuts, &server, until);
                ([3, 4].map(|block| contents[block * BLOCK]), marks)
            };
            assert_eq!(blocks("begin"), ([9, 9], vec!["begin".into()]));
            assert_eq!(blocks("promise 7").0, [1, 9]);
            assert_eq!(blocks("cut").0, [1, 9]);
            assert_eq!(blocks("nothing"), ([1, 0], ["begin", "promise 7", "cut"].map(Into::into).to_vec()));
            server.write(3 * BLOCK as u64, &[9; 2 * BLOCK]).unwrap();
        }
        let cuts = Cuts::default();
        order(&cuts, &server, Order::Begin { limit: 1 << 20, protected: false, keeps_start: false });
        after_cut(&cuts, &server, 0, Uncovered::Lost);
        assert!(cuts.order(&server, br#"{"order":"log"}"#).is_err(), "it does not know the beginning");
    }

    #[test]
    fn full_recording_stops_and_says_so() {
        let server = server();
        let cuts = Cuts::default();
        order(
            &cuts,
            &server,
            Order::Begin { limit: 2 * (BLOCK as u64 + ENTRY), protected: false, keeps_start: false },
        );
        for block in 0..4 {
            write(&cuts, &server, block, 1);
        }
        let promise = cuts.order(&server, &serde_json::to_vec(&Order::Promise { number: 0 }).unwrap());
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
        fn lost_image_matches_slow_model(steps in prop::collection::vec(step(), 1..60)) {
            let server = server();
            let cuts = recording(&server, false);
            // Block, content, completed, covered; and the flush under way with the writes that it will cover.
            let mut writes: Vec<(u64, u8, bool, bool, u64)> = Vec::new();
            let mut flushing: Option<(u64, Vec<usize>)> = None;
            let mut length = 0;
            for step in steps {
                match step {
                    // The kernel does not write a block twice at a time: that would have no order.
                    Step::Write(block) if writes.iter().all(|write| write.0 != block || write.2) => {
                        let content = u8::try_from(writes.len() + 1).unwrap();
                        let id = write(&cuts, &server, block, content);
                        writes.push((block, content, false, false, id));
                        length += 1;
                    }
                    Step::Complete(index) if index < writes.len() && !writes[index].2 => {
                        writes[index].2 = true;
                        cuts.complete(writes[index].4);
                        length += 1;
                    }
                    Step::BeginFlush if flushing.is_none() => {
                        let complete = (0..writes.len()).filter(|index| writes[*index].2).collect();
                        flushing = Some((cuts.flush(), complete));
                        length += 1;
                    }
                    Step::EndFlush => {
                        if let Some((id, covered)) = flushing.take() {
                            covered.iter().for_each(|index| writes[*index].3 = true);
                            cuts.complete(id);
                            length += 1;
                        }
                    }
                    Step::Write(_) | Step::Complete(_) | Step::BeginFlush => {}
                }
            }
            let expected: Vec<u8> = (0..4)
                .map(|block| {
                    let covered = writes.iter().filter(|write| write.0 == block && write.3);
                    covered.map(|write| write.1).next_back().unwrap_or(0)
                })
                .collect();
            let got = after_cut(&cuts, &server, length, Uncovered::Lost);
            prop_assert_eq!(&got, &expected);
            let (contents, _) = replayed(&cuts, &server, "cut");
            prop_assert_eq!([0, 1, 2, 3].map(|block| contents[block * BLOCK]).to_vec(), expected);
        }
    }
}
