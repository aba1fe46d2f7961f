//! Sets of files: where each file's place is, which places hold a file, and which one a thread takes next.
//!
//! A set is a table of places that never grows. Its shape (directories, sizes) follows from the settings, the set's
//! name and the load's seed alone, so a later phase finds the same places again and only looks which hold a file.
//!
//! Threads share one word for each place (a file is there; a thread is busy with it; how many have it open) and three
//! rotors. They are the one exception to "no cache line of another thread": the choice of a free file is shared in the
//! modelled programs as well. A pick is one compare-and-swap on the place and, in circular order, one more atomic
//! operation on a rotor; there is no lock, and no thread waits unless every fitting file is busy. A search examines one
//! place after the other, about a nanosecond each: it shows only if a set of many thousand places is nearly full (for
//! `create`) or nearly empty (for the rest).

use crate::{
    EngineError,
    error::layout,
    files::{Writer, open_directory},
    generator::{Generator, Stream},
};
use fstrial_model::workload::{FileTree, Names, Order, Size};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::{
    collections::BTreeMap,
    ffi::CStr,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// Directories inside each other at most, so that a path keeps below the kernel's limit.
const MAX_DEPTH: usize = 32;
/// Longest path inside a set: every directory has 8 digits and a slash; then a name and the zero byte.
const MAX_PATH: usize = MAX_DEPTH * 9 + 256;
/// Shape of all gamma distributions (filebench's default).
const GAMMA_SHAPE: f64 = 1.5;
/// Random tries before a search goes through the places in order.
const TRIES: usize = 32;

/// The place holds a file.
const EXISTS: u32 = 1 << 31;
/// A thread is about to change that.
const BUSY: u32 = 1 << 30;
/// The rest counts the threads that have the file open.
const OPENED: u32 = BUSY - 1;

/// A circular counter, on a separate cache line. It counts up without end; places are its remainders.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Rotor(AtomicU64);

/// A set of files.
#[derive(Debug)]
pub(crate) struct Tree {
    settings: FileTree,
    path: PathBuf,
    /// Derived from its name: separates its random streams from those of other sets.
    number: u32,
    /// Paths inside the set, each with a slash at the end; the first is empty. Parents come before their children.
    directories: Vec<String>,
    /// The directory of each place; empty if all are in the first.
    directory_of: Vec<u32>,
    /// The size of each place's file; empty if all are the same.
    sizes: Vec<u64>,
    states: Vec<AtomicU32>,
    existing: Rotor,
    free: Rotor,
    listing: Rotor,
}

/// A path inside a set, without the heap.
#[derive(Debug)]
pub(crate) struct PathBuffer(Vec<u8>);

impl PathBuffer {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(MAX_PATH))
    }
}

/// A gamma-distributed number of shape 1.5: the sum of an exponential one (shape 1) and half the square of a normal
/// one (shape 1/2).
fn gamma(mean: f64, generator: &mut Generator) -> f64 {
    // In (0, 1]: the logarithm is finite.
    let mut uniform = || ((generator.next() >> 11) + 1) as f64 / 2_f64.powi(53);
    let exponential = -uniform().ln();
    let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    mean / GAMMA_SHAPE * (exponential + normal * normal / 2.0)
}

/// FNV-1a.
fn number_of(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A permutation of all 32-bit numbers (the finalizer of MurmurHash3), and its inverse.
fn scramble(mut key: u32) -> u32 {
    key ^= key >> 16;
    key = key.wrapping_mul(0x85eb_ca6b);
    key ^= key >> 13;
    key = key.wrapping_mul(0xc2b2_ae35);
    key ^ key >> 16
}

fn unscramble(mut key: u32) -> u32 {
    key ^= key >> 16;
    key = key.wrapping_mul(0x7ed1_b41d);
    key ^= key >> 13 ^ key >> 26;
    key = key.wrapping_mul(0xa5cb_9243);
    key ^ key >> 16
}

/// Characters of the name that begins with these digits.
fn length_of(set: &FileTree, key: u32) -> u32 {
    u32::from(set.name_length) + scramble(key ^ 0x9e37_79b9) % (u32::from(set.name_spread) + 1)
}

/// Appends the name of a place: 8 hexadecimal digits, and letters that depend on them.
fn push_name(set: &FileTree, file: u32, out: &mut Vec<u8>) {
    let key = if set.names == Names::Scrambled { scramble(file) } else { file };
    out.extend((0..8).rev().map(|digit| b"0123456789abcdef"[(key >> (4 * digit)) as usize & 15]));
    let mut more = u64::from(scramble(key ^ 0x5bd1_e995)) << 32 | u64::from(scramble(key));
    for _ in 8..length_of(set, key) {
        out.push(b'a' + (more % 26) as u8);
        more = more.rotate_right(7) ^ 0x9e37;
    }
}

/// The place that a name belongs to.
fn place_of(set: &FileTree, name: &[u8]) -> Option<u32> {
    let key = u32::from_str_radix(std::str::from_utf8(name.get(..8)?).ok()?, 16).ok()?;
    if name.len() != length_of(set, key) as usize {
        return None;
    }
    Some(if set.names == Names::Scrambled { unscramble(key) } else { key })
}

/// Directories, and which one each file is in.
struct Shape<'a> {
    settings: &'a FileTree,
    generator: Generator,
    mean_depth: f64,
    directories: Vec<String>,
    directory_of: Vec<u32>,
}

impl<'a> Shape<'a> {
    fn new(settings: &'a FileTree, generator: Generator) -> Self {
        let (files, width) = (settings.files, settings.width);
        let mean_depth = f64::from(files).ln() / f64::from(width.max(2)).ln();
        let mut shape =
            Self { settings, generator, mean_depth, directories: Vec::new(), directory_of: Vec::new() };
        match (width, settings.even) {
            (0, _) => shape.directories.push(String::new()),
            (_, true) => {
                shape.directories.push(String::new());
                shape.directories.extend((0..files.div_ceil(width)).map(|n| format!("{n:08}/")));
                shape.directory_of.extend((0..files).map(|file| 1 + file / width));
            }
            (_, false) => shape.grow(String::new(), 1),
        }
        shape
    }

    /// Fills a directory as filebench does: it is at the bottom when its depth reaches a random one, and then has a
    /// random number of files, otherwise of directories. The first directory has as many directories as it takes.
    fn grow(&mut self, path: String, depth: usize) {
        let own = self.directories.len() as u32;
        let bottom = gamma(self.mean_depth, &mut self.generator).trunc().max(1.0);
        let width = gamma(f64::from(self.settings.width), &mut self.generator);
        let is_root = depth == 1;
        let is_leaf = depth as f64 >= bottom || depth == MAX_DEPTH;
        self.directories.push(path.clone());
        let mut serial = 1_u32;
        while self.directory_of.len() < self.settings.files as usize
            && (is_root || f64::from(serial) < width + 1.0)
        {
            if is_leaf && !is_root {
                self.directory_of.push(own);
            } else {
                self.grow(format!("{path}{serial:08}/"), depth + 1);
            }
            serial += 1;
        }
    }
}

fn sizes(settings: &FileTree, generator: &mut Generator) -> Vec<u64> {
    let draw = |generator: &mut Generator| match settings.size {
        Size::Fixed(size) => size.0,
        Size::Uniform { low, high } => low.0 + generator.below(high.0 - low.0 + 1),
        Size::Gamma { mean } => gamma(mean.0 as f64, generator) as u64,
    };
    let places = if matches!(settings.size, Size::Fixed(_)) { 0 } else { settings.files };
    (0..places).map(|_| draw(generator)).collect()
}

fn shuffle(list: &mut [u32], generator: &mut Generator) {
    for n in (1..list.len()).rev() {
        list.swap(n, generator.below(n as u64 + 1) as usize);
    }
}

/// The name of a set's directory.
fn name_of(settings: &FileTree, thread: Option<usize>) -> String {
    match thread {
        Some(thread) => format!("{}-{thread:04}", settings.name),
        None => settings.name.clone(),
    }
}

/// The sets of a load by the names of their directories. Concurrent programs share those of the same name, and if the
/// collection is kept, a later phase finds an earlier one's files without listing them.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    known: BTreeMap<String, Arc<Tree>>,
    /// Another process makes those that all threads share.
    pub(crate) is_made_elsewhere: bool,
    /// Those that were left have a file in each place.
    pub(crate) are_whole: bool,
}

impl Trees {
    /// A set: a known one of that name, an existing one that is looked for, or a new one that is laid out. Also returns
    /// the order in which its directories list it, if requested.
    pub(crate) fn get(
        &mut self,
        settings: &FileTree,
        directory: &Path,
        seed: u64,
        thread: Option<usize>,
        writer: &mut Writer,
    ) -> Result<(Arc<Tree>, Vec<u32>), EngineError> {
        let name = name_of(settings, thread);
        let tree = match self.known.get(&name) {
            Some(tree) if tree.is_described_by(settings) => Arc::clone(tree),
            Some(_) => {
                return Err(EngineError::Impossible {
                    problem: format!("two programs describe the set `{name}` differently"),
                    hint: "give it the same files, size, width and names in both, or another name",
                });
            }
            None => {
                let tree = Tree::new(settings, directory, seed, thread);
                let is_made = self.is_made_elsewhere && thread.is_none() && !settings.existing;
                // A complete set needs no look, which would fetch the metadata to be measured.
                let is_whole = settings.existing && self.are_whole || is_made && settings.present.0 >= 100.0;
                if is_whole {
                    tree.states.iter().for_each(|state| state.store(EXISTS, Ordering::Relaxed));
                } else if settings.existing || is_made {
                    tree.look()?;
                } else {
                    tree.lay_out(seed, writer)?;
                }
                let tree = Arc::new(tree);
                self.known.insert(name, Arc::clone(&tree));
                tree
            }
        };
        let listed = if settings.order == Order::Readdir { tree.look()? } else { Vec::new() };
        Ok((tree, listed))
    }
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// A place, which is busy now and has to be released.
    Place(u32),
    /// Nothing now, but some places are busy.
    Wait,
    /// There is nothing.
    Nothing,
    /// The thread has gone through its part.
    Done,
}

impl Tree {
    /// A set whose places follow from the settings and the seed. Nothing is made or examined yet; `directory` is the
    /// future parent of the set's directory, `thread` its owner if each thread has its own.
    pub(crate) fn new(settings: &FileTree, directory: &Path, seed: u64, thread: Option<usize>) -> Self {
        let name = name_of(settings, thread);
        let number = number_of(&name);
        let generator = Generator::new(seed, Stream::Tree(number));
        let mut shape = Shape::new(settings, generator);
        let sizes = sizes(settings, &mut shape.generator);
        Self {
            path: directory.join(&name),
            number,
            directories: shape.directories,
            directory_of: shape.directory_of,
            sizes,
            states: (0..settings.files).map(|_| AtomicU32::new(0)).collect(),
            settings: settings.clone(),
            existing: Rotor::default(),
            free: Rotor::default(),
            listing: Rotor::default(),
        }
    }

    /// True if `settings` describe the same places.
    fn is_described_by(&self, settings: &FileTree) -> bool {
        let shape = |set: &FileTree| {
            (
                (set.files, set.size, set.width, set.even, set.directories),
                (set.names, set.name_length, set.name_spread),
            )
        };
        shape(&self.settings) == shape(settings)
    }

    /// Makes the directories and those files that are present at the start.
    pub(crate) fn lay_out(&self, seed: u64, writer: &mut Writer) -> Result<(), EngineError> {
        let make = |path: &Path, writer: &Writer| {
            mkdirat(CWD, path, Mode::RWXU).map_err(|errno| writer.error("make the directory", path, errno))
        };
        for directory in &self.directories {
            make(&self.path.join(directory), writer)?;
        }
        let root = self.open_root()?;
        let mut generator = Generator::new(seed, Stream::Tree(!self.number));
        let mut order: Vec<u32> = (0..self.settings.files).collect();
        if self.settings.width > 0 && !self.settings.even {
            // As filebench, so that neighbours in the tree are not neighbours on the device.
            shuffle(&mut order, &mut generator);
        }
        let share = (self.settings.present.fraction() * 2_f64.powi(64)) as u128;
        let mut there: Vec<bool> = order.iter().map(|_| u128::from(generator.next()) < share).collect();
        // Of a few files none may be drawn, and then nothing could be picked.
        if share > 0
            && !there.contains(&true)
            && let Some(first) = there.first_mut()
        {
            *first = true;
        }
        let mut buffer = PathBuffer::new();
        for (file, _) in order.into_iter().zip(there).filter(|(_, is_there)| *is_there) {
            let path = self.path_of(file, &mut buffer);
            let full = || self.path.join(path.to_string_lossy().as_ref());
            if self.settings.directories {
                make(&full(), writer)?;
            } else {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let fd = openat(&root, path, flags, Mode::from_raw_mode(0o666))
                    .map_err(|errno| writer.error("create", &full(), errno))?;
                writer.write(&fd, &self.path, self.size(file))?;
            }
            self.states[file as usize].store(EXISTS, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Finds the files that an earlier phase left; gives them in the order in which the directories list them.
    pub(crate) fn look(&self) -> Result<Vec<u32>, EngineError> {
        let mut listed = Vec::new();
        for (number, directory) in self.directories.iter().enumerate() {
            let path = self.path.join(directory);
            let failed = |source| EngineError::Layout { operation: "list", path: path.clone(), source };
            for entry in std::fs::read_dir(&path).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                if let Some(file) = place_of(&self.settings, name.as_encoded_bytes())
                    && let Some(state) = self.states.get(file as usize)
                    && self.directory_of(file) == number
                {
                    state.store(EXISTS, Ordering::Relaxed);
                    listed.push(file);
                }
            }
        }
        Ok(listed)
    }

    pub(crate) fn open_root(&self) -> Result<OwnedFd, EngineError> {
        open_directory(&self.path)
    }

    /// Path of the set.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file of a place.
    pub(crate) fn size(&self, file: u32) -> u64 {
        match self.settings.size {
            Size::Fixed(size) => size.0,
            _ => self.sizes[file as usize],
        }
    }

    fn directory_of(&self, file: u32) -> usize {
        self.directory_of.get(file as usize).map_or(0, |directory| *directory as usize)
    }

    /// The path of a place inside the set.
    pub(crate) fn path_of<'a>(&self, file: u32, buffer: &'a mut PathBuffer) -> &'a CStr {
        buffer.0.clear();
        buffer.0.extend_from_slice(self.directories[self.directory_of(file)].as_bytes());
        push_name(&self.settings, file, &mut buffer.0);
        finish(buffer)
    }

    /// The path of a directory inside the set.
    pub(crate) fn path_of_directory<'a>(&self, directory: usize, buffer: &'a mut PathBuffer) -> &'a CStr {
        buffer.0.clear();
        buffer.0.extend_from_slice(self.directories[directory].as_bytes());
        buffer.0.push(b'.');
        finish(buffer)
    }

    /// The directory that the file of a place is in.
    pub(crate) fn path_of_parent<'a>(&self, file: u32, buffer: &'a mut PathBuffer) -> &'a CStr {
        self.path_of_directory(self.directory_of(file), buffer)
    }

    /// Takes a place that holds a file, or does not; it is busy until it is released.
    fn claim(&self, file: u32, exists: bool, idle: bool) -> Result<(), u32> {
        let (state, wanted) = (&self.states[file as usize], if exists { EXISTS } else { 0 });
        let mut seen = state.load(Ordering::Relaxed);
        loop {
            if seen & (EXISTS | BUSY) != wanted || (idle && seen & OPENED != 0) {
                return Err(seen);
            }
            match state.compare_exchange_weak(seen, seen | BUSY, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the place of a file if the file is still there and no other thread is busy with it.
    pub(crate) fn claim_existing(&self, file: u32) -> bool {
        self.claim(file, true, false).is_ok()
    }

    /// Gives a busy place back: whether it holds a file now, and how many more threads have it open.
    pub(crate) fn release(&self, file: u32, exists: bool, opened: i32) {
        let state = &self.states[file as usize];
        let mut seen = state.load(Ordering::Relaxed);
        loop {
            let count = (seen & OPENED).saturating_add_signed(opened);
            let next = count | if exists { EXISTS } else { 0 };
            match state.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// A thread has closed a file.
    pub(crate) fn closed(&self, file: u32) {
        self.states[file as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// True if some thread has the file open.
    pub(crate) fn is_open(&self, file: u32) -> bool {
        self.states[file as usize].load(Ordering::Relaxed) & OPENED != 0
    }

    /// Searches for a file without open descriptors if `idle`; an open one is the fallback.
    fn search_idle_first(
        &self,
        start: u64,
        exists: bool,
        idle: bool,
        held: Option<u32>,
    ) -> Result<(u64, u32), Pick> {
        match self.search(start, exists, idle, held) {
            Err(Pick::Nothing) if idle => self.search(start, exists, false, held),
            result => result,
        }
    }

    /// Goes through all places once, from `start` on, and takes the first that fits; `start` counts as rotors do. The
    /// thread does not wait for the place `held`, which it has taken itself.
    fn search(&self, start: u64, exists: bool, idle: bool, held: Option<u32>) -> Result<(u64, u32), Pick> {
        let places = self.states.len() as u64;
        let (mut file, mut busy) = (start % places, false);
        for passed in 0..places {
            match self.claim(file as u32, exists, idle) {
                Ok(()) => return Ok((start + passed, file as u32)),
                Err(seen) => busy |= seen & BUSY != 0 && held != Some(file as u32),
            }
            file += 1;
            if file == places {
                file = 0;
            }
        }
        Err(if busy { Pick::Wait } else { Pick::Nothing })
    }

    fn pick_next(&self, exists: bool, idle: bool, held: Option<u32>) -> Pick {
        let rotor = if exists { &self.existing.0 } else { &self.free.0 };
        match self.search_idle_first(rotor.load(Ordering::Relaxed), exists, idle, held) {
            Ok((at, file)) => {
                rotor.fetch_max(at + 1, Ordering::Relaxed);
                Pick::Place(file)
            }
            Err(nothing) => nothing,
        }
    }

    /// A few tries hit if many places fit. Otherwise the first that fits after a random place: nearly uniform, as
    /// places that fit are then spread thinly.
    fn pick_random(&self, exists: bool, idle: bool, held: Option<u32>, choices: &mut Generator) -> Pick {
        let places = self.states.len() as u64;
        for _ in 0..TRIES {
            let file = choices.below(places) as u32;
            if self.claim(file, exists, idle).is_ok() {
                return Pick::Place(file);
            }
        }
        let result = self.search_idle_first(choices.below(places), exists, idle, held);
        result.map_or_else(|nothing| nothing, |(_, file)| Pick::Place(file))
    }

    /// Numbers of the places that hold a file.
    #[cfg(test)]
    pub(crate) fn present(&self) -> Vec<u32> {
        let exists = |file: &u32| self.states[*file as usize].load(Ordering::Relaxed) & EXISTS != 0;
        (0..self.settings.files).filter(exists).collect()
    }
}

fn finish(buffer: &mut PathBuffer) -> &CStr {
    buffer.0.push(0);
    CStr::from_bytes_with_nul(&buffer.0).expect("one zero byte, at the end")
}

/// The kinds of steps that go through a set, each on its own where each file is taken once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Walk {
    Create,
    Open,
    Stat,
    Delete,
    RenameFrom,
    RenameTo,
    List,
    Kept,
}

const WALKS: usize = 8;

/// One thread's view of a set. It has separate descriptors: a shared one's reference count would be a shared cache
/// line.
#[derive(Debug)]
pub(crate) struct View {
    /// The set as this thread's program describes it: another may take its files in another order.
    pub(crate) settings: FileTree,
    pub(crate) tree: Arc<Tree>,
    pub(crate) root: OwnedFd,
    /// Files that are kept open, and where the next sequential request on each goes.
    pub(crate) kept: Vec<OwnedFd>,
    pub(crate) places: Vec<u64>,
    /// This thread's part of the places, and of the directories.
    part: Range<u32>,
    directories: Range<usize>,
    /// The part in another order than its own.
    list: Option<Vec<u32>>,
    walked: [u32; WALKS],
}

/// The `thread`-th of `threads` nearly equal parts of `0..n`.
fn part_of(n: usize, thread: usize, threads: usize) -> Range<usize> {
    n * thread / threads..n * (thread + 1) / threads
}

impl View {
    /// The view of `thread`, one of `threads` that share the set. `listed` is the order in which directories list it.
    pub(crate) fn new(
        settings: &FileTree,
        tree: &Arc<Tree>,
        listed: &[u32],
        seed: u64,
        (thread, threads): (usize, usize),
    ) -> Result<Self, EngineError> {
        let part = part_of(tree.states.len(), thread, threads);
        let part = part.start as u32..part.end as u32;
        let list = match settings.order {
            Order::Shuffled => {
                let name = tree.number.wrapping_add(1 + thread as u32);
                let mut list: Vec<u32> = part.clone().collect();
                shuffle(&mut list, &mut Generator::new(seed, Stream::Tree(name)));
                Some(list)
            }
            Order::Readdir => Some(listed[part_of(listed.len(), thread, threads)].to_vec()),
            Order::Next | Order::Random | Order::Own => None,
        };
        Ok(Self {
            settings: settings.clone(),
            root: tree.open_root()?,
            kept: Vec::new(),
            places: Vec::new(),
            part,
            directories: part_of(tree.directories.len(), thread, threads),
            list,
            walked: [0; WALKS],
            tree: Arc::clone(tree),
        })
    }

    /// The directory of the set, and the files that are kept open.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(&self.root).chain(&self.kept).map(AsFd::as_fd)
    }

    /// Opens every file, to be kept open.
    pub(crate) fn keep(&mut self, flags: OFlags) -> Result<(), EngineError> {
        let mut buffer = PathBuffer::new();
        for file in 0..self.tree.settings.files {
            let path = self.tree.path_of(file, &mut buffer);
            let fd = openat(&self.root, path, flags, Mode::empty()).map_err(|errno| {
                layout("open", self.tree.path.join(path.to_string_lossy().as_ref()), errno)
            })?;
            self.kept.push(fd);
            self.places.push(0);
        }
        Ok(())
    }

    /// A place that holds a file (`exists`), or one that does not, taken for this thread, which may hold one already.
    pub(crate) fn pick(
        &mut self,
        walk: Walk,
        exists: bool,
        held: Option<u32>,
        choices: &mut Generator,
    ) -> Pick {
        // A file that another thread has open would not go away.
        let idle = matches!(walk, Walk::Delete);
        match self.settings.order {
            Order::Next => self.tree.pick_next(exists, idle, held),
            Order::Random => self.tree.pick_random(exists, idle, held, choices),
            Order::Own | Order::Shuffled | Order::Readdir => loop {
                let Some(file) = self.step(walk) else { return Pick::Done };
                if self.tree.claim(file, exists, false).is_ok() {
                    return Pick::Place(file);
                }
            },
        }
    }

    /// The next place of this thread's part.
    fn step(&mut self, walk: Walk) -> Option<u32> {
        let at = self.walked[walk as usize];
        self.walked[walk as usize] += 1;
        match &self.list {
            Some(list) => list.get(at as usize).copied(),
            None => self.part.start.checked_add(at).filter(|file| self.part.contains(file)),
        }
    }

    /// A file of those kept open; not taken, as they are never made or deleted.
    pub(crate) fn pick_kept(&mut self, choices: &mut Generator) -> Option<u32> {
        let files = self.kept.len() as u64;
        match self.settings.order {
            Order::Next => Some((self.tree.existing.0.fetch_add(1, Ordering::Relaxed) % files) as u32),
            Order::Random => Some(choices.below(files) as u32),
            Order::Own | Order::Shuffled | Order::Readdir => self.step(Walk::Kept),
        }
    }

    /// A directory of the set.
    pub(crate) fn pick_directory(&mut self, choices: &mut Generator) -> Option<usize> {
        let directories = self.tree.directories.len() as u64;
        match self.settings.order {
            Order::Next => Some((self.tree.listing.0.fetch_add(1, Ordering::Relaxed) % directories) as usize),
            Order::Random => Some(choices.below(directories) as usize),
            Order::Own | Order::Shuffled | Order::Readdir => {
                let at = self.directories.start + self.walked[Walk::List as usize] as usize;
                self.walked[Walk::List as usize] += 1;
                self.directories.contains(&at).then_some(at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::units::{Bytes, Percent};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn tree(settings: &FileTree, seed: u64) -> Tree {
        Tree::new(settings, Path::new("/nowhere"), seed, None)
    }

    fn set(files: u32) -> FileTree {
        FileTree::new("a", files, Bytes(10))
    }

    fn with_files(settings: &FileTree, present: &[u32]) -> Tree {
        let tree = tree(settings, 1);
        present.iter().for_each(|file| tree.states[*file as usize].store(EXISTS, Ordering::Relaxed));
        tree
    }

    proptest! {
        #[test]
        fn names_are_different_valid_and_read_back(
            file: u32, other: u32, name_length in 8_u8..=235, name_spread in 0_u8..=20, scrambled: bool,
        ) {
            let names = if scrambled { Names::Scrambled } else { Names::Ordered };
            let set = FileTree { names, name_length, name_spread, ..set(10) };
            let name = |file| {
                let mut name = Vec::new();
                push_name(&set, file, &mut name);
                name
            };
            let lengths = usize::from(name_length)..=usize::from(name_length) + usize::from(name_spread);
            prop_assert!(lengths.contains(&name(file).len()));
            prop_assert!(name(file).iter().all(u8::is_ascii_alphanumeric));
            prop_assert_eq!(place_of(&set, &name(file)), Some(file));
            prop_assert_eq!(name(file) == name(other), file == other);
            let short = &name(file)[..name(file).len() - 1];
            prop_assert_eq!(place_of(&set, short), None);
        }

        #[test]
        fn names_have_every_length(name_spread in 1_u8..30) {
            let set = FileTree { name_length: 10, name_spread, ..set(10) };
            let mut name = Vec::new();
            let mut of = |file| {
                name.clear();
                push_name(&set, file, &mut name);
                name.len()
            };
            let seen: BTreeSet<usize> = (0..2000).map(&mut of).collect();
            prop_assert_eq!(seen.len(), usize::from(name_spread) + 1);
        }

        #[test]
        fn trees_have_every_file_once_and_parents_first(files in 1_u32..3000, width in 2_u32..50, seed: u64, even: bool) {
            let settings = FileTree { width, even, ..set(files) };
            let tree = tree(&settings, seed);
            prop_assert_eq!(tree.directory_of.len(), files as usize);
            prop_assert_eq!(&tree.directories[0], "");
            let mut seen = BTreeSet::new();
            for path in &tree.directories {
                let parent = path.trim_end_matches('/').rsplit_once('/').map_or(String::new(), |p| format!("{}/", p.0));
                prop_assert!(path.is_empty() || seen.contains(&parent));
                prop_assert!(seen.insert(path.clone()));
            }
            let mut buffer = PathBuffer::new();
            let capacity = buffer.0.capacity();
            let paths: BTreeSet<_> = (0..files).map(|file| tree.path_of(file, &mut buffer).to_owned()).collect();
            prop_assert_eq!(paths.len(), files as usize);
            prop_assert_eq!(buffer.0.capacity(), capacity, "no allocation");
            if even {
                prop_assert!((0..files).all(|file| tree.directory_of(file) == 1 + (file / width) as usize));
            }
        }

        #[test]
        fn pick_next_matches_circular_list_model(
            present in proptest::collection::vec(any::<bool>(), 1..40),
            picks in proptest::collection::vec(any::<bool>(), 0..100),
        ) {
            // The slow model: a vector and two positions.
            let files: Vec<u32> = (0..present.len() as u32).filter(|n| present[*n as usize]).collect();
            let tree = with_files(&set(present.len() as u32), &files);
            let (mut model, mut at) = (present.clone(), [0_usize; 2]);
            for delete in picks {
                let n = model.len();
                let expected = (0..n).map(|k| (at[usize::from(delete)] + k) % n).find(|place| model[*place] == delete);
                let got = tree.pick_next(delete, false, None);
                match expected {
                    None => prop_assert_eq!(got, Pick::Nothing),
                    Some(place) => {
                        prop_assert_eq!(got, Pick::Place(place as u32));
                        at[usize::from(delete)] = (place + 1) % n;
                        model[place] = !delete;
                        tree.release(place as u32, !delete, 0);
                    }
                }
            }
            let left: Vec<u32> = (0..model.len() as u32).filter(|n| model[*n as usize]).collect();
            prop_assert_eq!(tree.present(), left);
        }

        #[test]
        fn parts_are_whole_and_apart(n in 0_usize..100_000, threads in 1_usize..100) {
            let parts: Vec<usize> = (0..threads).flat_map(|thread| part_of(n, thread, threads)).collect();
            prop_assert!(parts.into_iter().eq(0..n));
        }
    }

    #[test]
    fn gamma_has_expected_mean_and_variance() {
        let mut generator = Generator::new(3, Stream::Layout);
        let draws: Vec<f64> = (0..400_000).map(|_| gamma(16384.0, &mut generator)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        // Five standard errors: sd / sqrt(n) = 16384 / sqrt(1.5) / 632 = 21.
        assert!((mean - 16384.0).abs() < 105.0, "{mean}");
        let expected = 16384.0_f64.powi(2) / GAMMA_SHAPE;
        assert!((variance / expected - 1.0).abs() < 0.03, "{}", variance / expected);
        // Below 2/3 of the mean is the share of chi-squared with 3 degrees of freedom below 2: 42.76 %.
        let below = draws.iter().filter(|x| **x < 16384.0 * 2.0 / 3.0).count() as f64 / draws.len() as f64;
        assert!((below - 0.4276).abs() < 0.005, "{below}");
    }

    #[test]
    fn filebench_trees_have_their_width() {
        // varmail: 1000 files, a width of a million: one directory below the first.
        let mail = tree(&FileTree { width: 1_000_000, ..set(1000) }, 1);
        assert!(mail.directories.len() <= 3, "{:?}", mail.directories);
        // fileserver: 10000 files, width 20: mean depth 3.07.
        let served = tree(&FileTree { width: 20, ..set(10_000) }, 1);
        let mut leaves = BTreeMap::new();
        served.directory_of.iter().for_each(|d| *leaves.entry(*d).or_insert(0_u32) += 1);
        let mean = 10_000.0 / leaves.len() as f64;
        assert!((15.0..27.0).contains(&mean), "{mean} files in a directory");
        let depth = served.directories.iter().map(|d| d.matches('/').count()).max().unwrap();
        assert!((3..=MAX_DEPTH).contains(&depth), "{depth}");
    }

    #[test]
    fn busy_places_are_passed_over_and_waited_for() {
        let tree = with_files(&set(3), &[0, 1]);
        assert_eq!(tree.pick_next(true, false, None), Pick::Place(0));
        assert_eq!(tree.pick_next(true, false, None), Pick::Place(1));
        assert_eq!(tree.pick_next(true, false, None), Pick::Wait);
        tree.release(0, true, 1);
        assert!(tree.is_open(0));
        assert_eq!(tree.pick_next(true, false, None), Pick::Place(0));
        tree.release(0, false, 0);
        tree.closed(0);
        tree.release(1, true, 0);
        assert_eq!(tree.present(), [1]);
        assert!(!tree.claim_existing(0) && tree.claim_existing(1));
    }

    #[test]
    fn random_deletes_prefer_closed_files() {
        let tree = with_files(&set(2), &[0, 1]);
        assert!(tree.claim_existing(0));
        tree.release(0, true, 1);
        let mut choices = Generator::new(1, Stream::Requests(0));
        assert_eq!(tree.pick_random(true, true, None, &mut choices), Pick::Place(1));
        tree.release(1, false, 0);
        assert_eq!(tree.pick_random(true, true, None, &mut choices), Pick::Place(0), "rather than none");
    }

    #[test]
    fn concurrent_picks_never_collide() {
        let tree = with_files(&set(500), &(0..500).collect::<Vec<_>>());
        let taken = std::thread::scope(|scope| {
            let pick = || -> Vec<u32> {
                std::iter::from_fn(|| match tree.pick_next(true, false, None) {
                    Pick::Place(file) => Some(file),
                    _ => None,
                })
                .collect()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(pick)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(taken.len(), 500);
        assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 500);
    }

    /// Half of a few files may be none of them by the draw; anyone who deletes one first would find nothing.
    #[test]
    fn a_set_with_files_at_the_start_has_one() {
        let load = crate::testing::load_of(crate::testing::io(), 1);
        for seed in 0..40 {
            let directory = tempfile::tempdir().unwrap();
            let (mut trees, mut writer) = (Trees::default(), Writer::new(&load));
            let settings = FileTree { present: Percent(5.0), ..set(4) };
            let (tree, _) = trees.get(&settings, directory.path(), seed, None, &mut writer).unwrap();
            assert!(!tree.present().is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn programs_share_identically_described_sets() {
        let directory = tempfile::tempdir().unwrap();
        let load = crate::testing::load_of(crate::testing::io(), 1);
        let (mut trees, mut writer) = (Trees::default(), Writer::new(&load));
        let mut get =
            |settings: &FileTree, thread| trees.get(settings, directory.path(), 1, thread, &mut writer);
        let first = get(&set(5), None).unwrap().0;
        let random = FileTree { order: Order::Random, existing: true, ..set(5) };
        assert!(Arc::ptr_eq(&first, &get(&random, None).unwrap().0));
        let listed = get(&FileTree { order: Order::Readdir, ..set(5) }, None).unwrap().1;
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 3, 4]));
        assert!(!Arc::ptr_eq(&first, &get(&set(5), Some(0)).unwrap().0), "a thread's own");
        let error = get(&set(6), None).unwrap_err();
        assert!(error.is_refusal() && error.to_string().contains("`a` differently"), "{error}");
    }

    #[test]
    fn finite_orders_take_every_file_once() {
        for order in [Order::Own, Order::Shuffled, Order::Readdir] {
            let settings = FileTree { order, present: Percent(100.0), ..set(100) };
            let directory = tempfile::tempdir().unwrap();
            std::fs::create_dir(directory.path().join("a")).unwrap();
            let tree = Arc::new(Tree::new(&settings, directory.path(), 1, None));
            tree.states.iter().for_each(|state| state.store(EXISTS, Ordering::Relaxed));
            let listed: Vec<u32> = (0..100).rev().collect();
            let mut choices = Generator::new(1, Stream::Requests(0));
            let mut taken = Vec::new();
            for thread in 0..3 {
                let mut view = View::new(&settings, &tree, &listed, 1, (thread, 3)).unwrap();
                while let Pick::Place(file) = view.pick(Walk::Stat, true, None, &mut choices) {
                    tree.release(file, true, 0);
                    taken.push(file);
                }
                assert_eq!(view.pick(Walk::Stat, true, None, &mut choices), Pick::Done);
            }
            assert_eq!(taken.is_sorted(), order == Order::Own, "{taken:?}");
            assert_eq!(taken.is_sorted_by(|a, b| a > b), order == Order::Readdir);
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..100), "{order:?}");
        }
    }
}
