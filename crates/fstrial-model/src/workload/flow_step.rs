//! One step of a [`Flow`](super::Flow), and its line of text.
//!
//! ```text
//! create SET [as H]      open SET [as H]        close [on H]
//! read [N] [FILE]        read-at N [FILE]       read-next N [FILE]
//! write [N] [FILE]       write-at N [FILE]      write-next N [FILE]     append N [random] [FILE]
//! fsync [FILE]           fdatasync [FILE]       fsync-dir [on H]        syncfs SET
//! stat ENTRY             delete ENTRY           rename ENTRY to SET     rename ENTRY over SET
//! mkdir SET              rmdir SET              readdir SET             delay TIME
//! COUNTx STEP            COUNTx (STEP, STEP, …)
//!
//! FILE   nothing: the file opened last without a name · on H: the one opened `as H` · in SET: one of the files
//!        of SET, which each thread keeps open from before the clock starts
//! ENTRY  SET: a file of it · nothing or on H: the file that was opened so, whether it is still open or not
//! ```

use crate::units::{Bytes, Nanos, serde_as_text};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// The handle of a step that names none.
const UNNAMED: &str = "file";
/// Words of the language, which cannot be names.
pub(super) const RESERVED: [&str; 7] = ["as", "on", "in", "to", "over", "random", UNNAMED];
/// Size of the requests in which whole files are read and written if none is given (filebench).
const WHOLE: Bytes = Bytes::mib(1);
/// Repeats inside repeats at most.
const MAX_DEPTH: usize = 4;
/// Times of a repeat at most.
const MAX_TIMES: u32 = 4096;
/// Every verb, for errors.
const VERBS: &str = "create, open, close, read, read-at, read-next, write, write-at, write-next, append, fsync, \
                     fdatasync, fsync-dir, syncfs, stat, delete, rename, mkdir, rmdir, readdir, delay, and `10x STEP`";

/// The FILE of a step in the list above, open at the time of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenFile {
    /// A file opened under this name by an earlier step.
    On(String),
    /// A file of this set, kept open by each thread from before the clock starts.
    In(String),
}

/// A file that need not be open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepFile {
    /// One of this set, chosen by the set's order.
    Set(String),
    /// A file opened or created under this name by an earlier step.
    On(String),
}

/// One step of a turn. Its text and its meaning are in the list above; offsets of the `-at` steps are uniformly random
/// multiples of the request's size, those of the `-next` steps go through the file and start again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowStep {
    /// Makes a file at a free place of a set and leaves it open.
    Create {
        /// Set that the file becomes part of.
        set: String,
        /// Name of the file in later steps.
        handle: String,
    },
    /// Opens a file of a set.
    Open {
        /// Set that the file is taken from.
        set: String,
        /// Name of the file in later steps.
        handle: String,
    },
    /// Closes a file.
    Close {
        /// Handle from the step that opened the file; `file` if that step names none.
        handle: String,
    },
    /// Reads a whole file, to its end.
    Read {
        /// The file, which is open.
        file: OpenFile,
        /// Size of the requests.
        request: Bytes,
    },
    /// Reads once at a random place.
    ReadAt {
        /// Open file to read from.
        file: OpenFile,
        /// Size.
        request: Bytes,
    },
    /// Reads once where the last such step ended.
    ReadNext {
        /// Open file to read from.
        file: OpenFile,
        /// Size.
        request: Bytes,
    },
    /// Writes a whole file of the size that its place has.
    Write {
        /// The file, which is open.
        file: OpenFile,
        /// Size of the requests; the last one may be shorter.
        request: Bytes,
    },
    /// Writes once at a random place.
    WriteAt {
        /// Open file to write to.
        file: OpenFile,
        /// Size.
        request: Bytes,
    },
    /// Writes once where the last such step ended.
    WriteNext {
        /// Open file to write to.
        file: OpenFile,
        /// Size.
        request: Bytes,
    },
    /// Writes once at the end of a file.
    Append {
        /// The file, which is open.
        file: OpenFile,
        /// Maximum size.
        request: Bytes,
        /// Uniformly random from 0 to `request` - 2, and nothing at all for 0, as filebench does; otherwise exactly.
        random: bool,
    },
    /// `fsync` of a file: its data and all its metadata.
    Fsync {
        /// Open file to sync.
        file: OpenFile,
    },
    /// `fdatasync` of a file: its data, and only the metadata needed to read them.
    Fdatasync {
        /// Open file to sync.
        file: OpenFile,
    },
    /// `fsync` of the directory that a file is in.
    FsyncDir {
        /// The file.
        handle: String,
    },
    /// `syncfs`: all of the filesystem.
    Syncfs {
        /// A set on it.
        set: String,
    },
    /// Reads attributes.
    Stat {
        /// Its file.
        target: StepFile,
    },
    /// Deletes a file.
    Delete {
        /// The file or directory.
        target: StepFile,
    },
    /// Renames a file to a free place, or over another file.
    Rename {
        /// The file or directory.
        target: StepFile,
        /// The set it comes to.
        to: String,
        /// Over an existing file of that set.
        over: bool,
    },
    /// Makes an empty directory.
    Mkdir {
        /// Set that gets the directory; its entries are directories.
        set: String,
    },
    /// Removes an empty directory.
    Rmdir {
        /// Set that loses the directory; its entries are directories.
        set: String,
    },
    /// Lists a directory of a set, to its end.
    Readdir {
        /// Set with the directory to list.
        set: String,
    },
    /// Waits.
    Delay {
        /// Duration.
        time: Nanos,
    },
    /// Does steps several times.
    Repeat {
        /// Repetitions, 1 to 4096.
        times: u32,
        /// Repeated steps.
        steps: Vec<FlowStep>,
    },
}

/// A text that is not a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a step: {problem}")]
pub struct FlowStepError {
    /// The input (at most 60 characters of it).
    pub text: String,
    /// The problem, and the alternatives.
    pub problem: String,
}

impl FlowStep {
    /// Appends this step to `all`, repeats written out.
    pub(super) fn write_out<'a>(&'a self, all: &mut Vec<&'a Self>) {
        match self {
            Self::Repeat { times, steps } => {
                (0..*times).for_each(|_| steps.iter().for_each(|step| step.write_out(all)));
            }
            _ => all.push(self),
        }
    }

    /// Steps with all repeats written out.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Repeat { times, steps } => {
                let inner = steps.iter().fold(0_usize, |sum, step| sum.saturating_add(step.length()));
                inner.saturating_mul(*times as usize)
            }
            _ => 1,
        }
    }

    /// The open file that it works on.
    pub(super) fn file(&self) -> Option<&OpenFile> {
        match self {
            Self::Read { file, .. }
            | Self::ReadAt { file, .. }
            | Self::ReadNext { file, .. }
            | Self::Write { file, .. }
            | Self::WriteAt { file, .. }
            | Self::WriteNext { file, .. }
            | Self::Append { file, .. }
            | Self::Fsync { file }
            | Self::Fdatasync { file } => Some(file),
            _ => None,
        }
    }

    /// The named files it works on.
    pub(super) fn targets(&self) -> Vec<StepFile> {
        match self {
            Self::Create { set, .. }
            | Self::Open { set, .. }
            | Self::Syncfs { set }
            | Self::Mkdir { set }
            | Self::Rmdir { set }
            | Self::Readdir { set } => vec![StepFile::Set(set.clone())],
            Self::Close { handle } | Self::FsyncDir { handle } => vec![StepFile::On(handle.clone())],
            Self::Stat { target } | Self::Delete { target } => vec![target.clone()],
            Self::Rename { target, to, .. } => vec![target.clone(), StepFile::Set(to.clone())],
            _ => Vec::new(),
        }
    }

    /// The size of its requests.
    pub(super) fn request(&self) -> Option<Bytes> {
        match self {
            Self::Read { request, .. }
            | Self::ReadAt { request, .. }
            | Self::ReadNext { request, .. }
            | Self::Write { request, .. }
            | Self::WriteAt { request, .. }
            | Self::WriteNext { request, .. }
            | Self::Append { request, .. } => Some(*request),
            _ => None,
        }
    }

    /// True if it writes into a file.
    pub(super) fn writes(&self) -> bool {
        matches!(
            self,
            Self::Write { .. } | Self::WriteAt { .. } | Self::WriteNext { .. } | Self::Append { .. }
        )
    }

    /// True if it syncs a file's data.
    pub(super) fn syncs(&self) -> bool {
        matches!(self, Self::Fsync { .. } | Self::Fdatasync { .. } | Self::Syncfs { .. })
    }
}

impl fmt::Display for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(handle) if handle == UNNAMED => Ok(()),
            Self::On(handle) => write!(f, " on {handle}"),
            Self::In(set) => write!(f, " in {set}"),
        }
    }
}

impl fmt::Display for StepFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(handle) if handle == UNNAMED => Ok(()),
            Self::On(handle) => write!(f, " on {handle}"),
            Self::Set(set) => write!(f, " {set}"),
        }
    }
}

/// ` as b`, or nothing.
fn named(handle: &str) -> String {
    if handle == UNNAMED { String::new() } else { format!(" as {handle}") }
}

/// ` 64KiB`, or nothing for whole files in requests of the usual size.
fn whole(request: Bytes) -> String {
    if request == WHOLE { String::new() } else { format!(" {request}") }
}

impl fmt::Display for FlowStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { set, handle } => write!(f, "create {set}{}", named(handle)),
            Self::Open { set, handle } => write!(f, "open {set}{}", named(handle)),
            Self::Close { handle } => write!(f, "close{}", StepFile::On(handle.clone())),
            Self::Read { file, request } => write!(f, "read{}{file}", whole(*request)),
            Self::ReadAt { file, request } => write!(f, "read-at {request}{file}"),
            Self::ReadNext { file, request } => write!(f, "read-next {request}{file}"),
            Self::Write { file, request } => write!(f, "write{}{file}", whole(*request)),
            Self::WriteAt { file, request } => write!(f, "write-at {request}{file}"),
            Self::WriteNext { file, request } => write!(f, "write-next {request}{file}"),
            Self::Append { file, request, random } => {
                write!(f, "append {request}{}{file}", if *random { " random" } else { "" })
            }
            Self::Fsync { file } => write!(f, "fsync{file}"),
            Self::Fdatasync { file } => write!(f, "fdatasync{file}"),
            Self::FsyncDir { handle } => write!(f, "fsync-dir{}", StepFile::On(handle.clone())),
            Self::Syncfs { set } => write!(f, "syncfs {set}"),
            Self::Stat { target } => write!(f, "stat{target}"),
            Self::Delete { target } => write!(f, "delete{target}"),
            Self::Rename { target, to, over } => {
                write!(f, "rename{target} {} {to}", if *over { "over" } else { "to" })
            }
            Self::Mkdir { set } => write!(f, "mkdir {set}"),
            Self::Rmdir { set } => write!(f, "rmdir {set}"),
            Self::Readdir { set } => write!(f, "readdir {set}"),
            Self::Delay { time } => write!(f, "delay {time}"),
            Self::Repeat { times, steps } => {
                if let [step] = steps.as_slice() {
                    return write!(f, "{times}x {step}");
                }
                let steps: Vec<String> = steps.iter().map(Self::to_string).collect();
                write!(f, "{times}x ({})", steps.join(", "))
            }
        }
    }
}

/// The words of a step that are not read yet.
struct Words<'a> {
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    /// Takes the next word if it is `word`.
    fn take(&mut self, word: &str) -> bool {
        self.words.next_if(|next| *next == word).is_some()
    }

    /// The next word, which is to be a name.
    fn name(&mut self, what: &str) -> Result<String, String> {
        match self.words.next() {
            Some(name) if !RESERVED.contains(&name) => Ok(name.to_owned()),
            Some(word) => Err(format!("expected {what}, found `{word}`")),
            None => Err(format!("{what} is missing")),
        }
    }

    fn set(&mut self) -> Result<String, String> {
        self.name("the name of a set")
    }

    fn handle_after(&mut self, word: &str) -> Result<String, String> {
        if self.take(word) { self.name("the name of an open file") } else { Ok(UNNAMED.to_owned()) }
    }

    fn file(&mut self) -> Result<OpenFile, String> {
        if self.take("in") {
            return self.set().map(OpenFile::In);
        }
        self.handle_after("on").map(OpenFile::On)
    }

    fn target(&mut self) -> Result<StepFile, String> {
        match self.words.peek() {
            None | Some(&("on" | "to" | "over")) => self.handle_after("on").map(StepFile::On),
            Some(_) => self.set().map(StepFile::Set),
        }
    }

    fn request(&mut self) -> Result<Bytes, String> {
        let word = self.words.next().ok_or("a size such as 16KiB is missing")?;
        word.parse::<Bytes>().map_err(|error| error.to_string())
    }

    /// A size, if the next word begins with a digit.
    fn maybe_request(&mut self) -> Result<Bytes, String> {
        match self.words.peek() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => self.request(),
            _ => Ok(WHOLE),
        }
    }

    fn step(&mut self) -> Result<FlowStep, String> {
        let verb = self.words.next().ok_or_else(|| format!("it is empty; use one of {VERBS}"))?;
        Ok(match verb {
            "create" => FlowStep::Create { set: self.set()?, handle: self.handle_after("as")? },
            "open" => FlowStep::Open { set: self.set()?, handle: self.handle_after("as")? },
            "close" => FlowStep::Close { handle: self.handle_after("on")? },
            "read" => FlowStep::Read { request: self.maybe_request()?, file: self.file()? },
            "read-at" => FlowStep::ReadAt { request: self.request()?, file: self.file()? },
            "read-next" => FlowStep::ReadNext { request: self.request()?, file: self.file()? },
            "write" => FlowStep::Write { request: self.maybe_request()?, file: self.file()? },
            "write-at" => FlowStep::WriteAt { request: self.request()?, file: self.file()? },
            "write-next" => FlowStep::WriteNext { request: self.request()?, file: self.file()? },
            "append" => {
                FlowStep::Append { request: self.request()?, random: self.take("random"), file: self.file()? }
            }
            "fsync" => FlowStep::Fsync { file: self.file()? },
            "fdatasync" => FlowStep::Fdatasync { file: self.file()? },
            "fsync-dir" => FlowStep::FsyncDir { handle: self.handle_after("on")? },
            "syncfs" => FlowStep::Syncfs { set: self.set()? },
            "stat" => FlowStep::Stat { target: self.target()? },
            "delete" => FlowStep::Delete { target: self.target()? },
            "rename" => {
                let target = self.target()?;
                let over = match self.words.next() {
                    Some("to") => false,
                    Some("over") => true,
                    _ => return Err("write `rename SET to SET` or `rename SET over SET`".to_owned()),
                };
                FlowStep::Rename { target, over, to: self.set()? }
            }
            "mkdir" => FlowStep::Mkdir { set: self.set()? },
            "rmdir" => FlowStep::Rmdir { set: self.set()? },
            "readdir" => FlowStep::Readdir { set: self.set()? },
            "delay" => {
                let time: Vec<_> = self.words.by_ref().collect();
                let time = time.join(" ").parse::<Nanos>().map_err(|error| error.to_string())?;
                FlowStep::Delay { time }
            }
            _ => return Err(format!("there is no `{verb}`; use one of {VERBS}")),
        })
    }
}

/// The parts of a list, divided at the commas that are not in brackets.
fn divide(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

/// The count of `10x open mail`, and the rest.
fn repeated(text: &str) -> Option<(&str, &str)> {
    let (count, rest) = text.split_once('x')?;
    let digits = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
    (digits && rest.starts_with([' ', '('])).then(|| (count, rest.trim()))
}

fn parse(text: &str, depth: usize) -> Result<FlowStep, String> {
    let text = text.trim();
    if let Some((count, rest)) = repeated(text) {
        let times = count.parse().ok().filter(|n| (1..=MAX_TIMES).contains(n));
        let times = times.ok_or_else(|| format!("it is repeated {count} times; use 1 to {MAX_TIMES}"))?;
        if depth == MAX_DEPTH {
            return Err(format!("it nests more than {MAX_DEPTH} repeats"));
        }
        let list = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let steps = match list {
            Some(list) => {
                divide(list).into_iter().map(|part| parse(part, depth + 1)).collect::<Result<_, _>>()?
            }
            None => vec![parse(rest, depth + 1)?],
        };
        return Ok(FlowStep::Repeat { times, steps });
    }
    let mut words = Words { words: text.split_whitespace().peekable() };
    let step = words.step()?;
    match words.words.next() {
        None => Ok(step),
        Some(word) => Err(format!("`{word}` is too much; as far as it goes it reads `{step}`")),
    }
}

impl FromStr for FlowStep {
    type Err = FlowStepError;
    fn from_str(text: &str) -> Result<Self, FlowStepError> {
        parse(text, 0).map_err(|problem| FlowStepError { text: text.chars().take(60).collect(), problem })
    }
}

serde_as_text!(
    FlowStep,
    "^([0-9]+x.*|(create|open|close|read|read-at|read-next|write|write-at|write-next|append|fsync|fdatasync|fsync-dir|syncfs|stat|delete|rename|mkdir|rmdir|readdir|delay)( .*)?)$",
    "a step of a turn: create mail, write, append 16KiB random, fsync, close, 10x (open mail, read, close)"
);
