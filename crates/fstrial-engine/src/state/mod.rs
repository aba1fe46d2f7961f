//! Brings a new filesystem into a state: filled, aged or populated, and reports its actual figures.
//!
//! All files are in one folder, [`FOLDER`], next to those of the load.

mod ageing;
mod layout;
#[cfg(test)]
mod tests;
mod writer;

use crate::{
    EngineError,
    error::layout as failed,
    generator::{Generator, Stream},
};
use ageing::{Ageing, lognormal};
use fstrial_model::{
    state::{Layout, Populated, State},
    units::{Bytes, Percent},
    workload::Data,
};
use layout::Score;
use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat},
    io::Errno,
};
use std::{fs, io, os::fd::AsFd, path::Path};
use writer::Writer;

/// The folder of a state's files.
const FOLDER: &str = "state";
/// Most files that the figures look at.
const LOOKED_AT: u64 = 20_000;
/// This part of the requested share is filled at first; the rest after a remount, so that all arms end at that share,
/// regardless of the overhead of their files.
const FIRST_PART: f64 = 0.97;
/// Filler for the rest: files of this name and size, which are not part of the layout score.
const BALLAST: &str = "ballast";
const BALLAST_SIZE: Bytes = Bytes::mib(64);
/// A share is reached when it is this near.
const NEAR: f64 = 0.002;

/// Inputs of a state.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// The state to make.
    pub state: State,
    /// Seed of names, sizes and choices.
    pub seed: u64,
    /// Content of the files.
    pub data: Data,
    /// Space that every arm has when it is fresh.
    pub room: Bytes,
}

/// Result of making a state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Made {
    /// Bytes written after the first fill, as multiples of the files' bytes.
    pub turnovers: f64,
    /// True if the requested layout score was reached.
    pub layout_score_reached: Option<bool>,
}

/// Final figures of a state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateSummary {
    /// Files in it.
    pub files: u64,
    /// Share of the space in use, in per cent.
    pub utilisation: f64,
    /// Bytes that a user can still fill.
    pub available: Bytes,
    /// Layout of the files' blocks, if it is known.
    pub layout: Option<Layout>,
}

/// Callback for progress: bytes done, of at most this many in all.
pub(crate) type Tell<'a> = dyn FnMut(Bytes, Bytes) + 'a;

/// Makes a state in the folder where a new filesystem is mounted, and syncs it. Its final figures are only known after
/// a remount: see [`finish_state`].
///
/// # Errors
/// It does not fit, or a call fails.
pub fn make_state(
    mounted: &Path,
    recipe: &Recipe,
    tell: &mut dyn FnMut(Bytes, Bytes),
) -> Result<Made, EngineError> {
    if holds_none(recipe.state) {
        return Ok(Made::default());
    }
    let root = mounted.join(FOLDER);
    rustix::fs::mkdir(&root, Mode::RWXU).map_err(|e| failed("make", &root, e))?;
    let mut writer = Writer::new(&root, recipe.data, recipe.seed)?;
    let made = match recipe.state {
        State::Fresh | State::Loaded(_) => Made::default(),
        State::Filled(filled) => {
            let most = Percent(filled.utilisation.0 * FIRST_PART);
            fill_up(&mut writer, "filled", most, filled.file_size, tell)?;
            Made::default()
        }
        State::Aged(aged) => {
            let share = aged.utilisation.fraction() * FIRST_PART;
            let target = Bytes((recipe.room.0 as f64 * share) as u64);
            let mut ageing = Ageing::new(aged, target, recipe.seed, &mut writer)?;
            let (turnovers, layout_score_reached) = ageing.run(tell)?;
            Made { turnovers, layout_score_reached }
        }
        State::Populated(tree) => {
            populate(&mut writer, tree, recipe.seed, tell)?;
            Made::default()
        }
    };
    writer.sync()?;
    Ok(made)
}

/// True if nothing is made for a state here: it is as mkfs leaves it, or it is loaded elsewhere.
fn holds_none(state: State) -> bool {
    matches!(state, State::Fresh | State::Loaded(_))
}

/// Fills a state up to the requested share, and examines it. The filesystem was unmounted since [`make_state`]: space
/// it had reserved for growing files (XFS), or had not freed yet, is free now.
///
/// # Errors
/// A call fails.
pub fn finish_state(mounted: &Path, recipe: &Recipe) -> Result<StateSummary, EngineError> {
    let root = if holds_none(recipe.state) { mounted.to_owned() } else { mounted.join(FOLDER) };
    let mut writer = Writer::new(&root, recipe.data, recipe.seed.rotate_left(32))?;
    let share = match recipe.state {
        State::Filled(filled) => Some(filled.utilisation),
        State::Aged(aged) => Some(aged.utilisation),
        State::Fresh | State::Populated(_) | State::Loaded(_) => None,
    };
    if let Some(share) = share {
        fill_up(&mut writer, BALLAST, share, BALLAST_SIZE, &mut |_, _| {})?;
    }
    writer.sync()?;
    let (files, layout) = if recipe.state.is_fresh() { (0, None) } else { look_at(&root, &writer)? };
    let space = writer.space()?;
    Ok(StateSummary {
        files,
        utilisation: space.utilisation() * 100.0,
        available: Bytes(space.available),
        layout,
    })
}

/// Counts all files, and looks at the layout of at most [`LOOKED_AT`] of those that were not just filled up with.
fn look_at(root: &Path, writer: &Writer) -> Result<(u64, Option<Layout>), EngineError> {
    let (mut files, mut plain) = (0_u64, 0_u64);
    for_each_file(root, &mut |_, name| {
        files += 1;
        plain += u64::from(!name.starts_with(BALLAST));
        Ok(())
    })?;
    let step = plain.div_ceil(LOOKED_AT).max(1);
    let mut score = Score::new(writer.space()?.block);
    let mut number = 0;
    for_each_file(root, &mut |path, name| {
        if name.starts_with(BALLAST) {
            return Ok(());
        }
        number += 1;
        if number % step != 0 {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = openat(CWD, path, flags, Mode::empty());
        score.look_at(fd.map_err(|e| failed("open", path, e))?.as_fd()).map_err(|e| failed("map", path, e))
    })?;
    Ok((files, score.figures()))
}

/// Calls with the path and the name of every regular file below a folder. Other entries left by a program are skipped:
/// opening a link or a device as root could reach anything, and opening a pipe would wait.
fn for_each_file(
    root: &Path,
    visit: &mut dyn FnMut(&Path, &str) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let io = |operation, e: &io::Error| {
            failed(operation, &folder, Errno::from_io_error(e).unwrap_or(Errno::IO))
        };
        for entry in fs::read_dir(&folder).map_err(|e| io("list", &e))? {
            let entry = entry.map_err(|e| io("list", &e))?;
            let kind = entry.file_type().map_err(|e| io("look into", &e))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                visit(&entry.path(), &entry.file_name().to_string_lossy())?;
            }
        }
    }
    Ok(())
}

/// Writes files one after the other until a share of the space is in use; returns their number.
fn fill_up(
    writer: &mut Writer,
    name: &str,
    share: Percent,
    file_size: Bytes,
    tell: &mut Tell<'_>,
) -> Result<(), EngineError> {
    let mut files = 0_u64;
    // The overhead of files is only known once they exist: approach step by step.
    for _ in 0..16 {
        writer.sync()?;
        let space = writer.space()?;
        let missing = space.missing(share.fraction());
        if (missing as f64) < NEAR * (space.used + space.available) as f64 {
            break;
        }
        let total = writer.written + missing;
        let mut rest = (missing as f64 * 0.99) as u64;
        while rest > 0 {
            let size = rest.min(file_size.0);
            let file = format!("{name}-{files:06}");
            let open = writer.create(&file)?;
            writer.write(&open, 0, size)?;
            writer.push_out(&open)?;
            rest -= size;
            files += 1;
            tell(Bytes(writer.written), Bytes(total));
        }
    }
    Ok(())
}

fn populate(writer: &mut Writer, tree: Populated, seed: u64, tell: &mut Tell<'_>) -> Result<(), EngineError> {
    let needed = State::Populated(tree).space(Bytes(0));
    let available = Bytes(writer.space()?.available);
    if needed > available {
        return Err(EngineError::NoSpace { path: writer.path(""), needed, source: Errno::NOSPC.into() });
    }
    let mut generator = Generator::new(seed, Stream::Layout);
    for directory in 1..tree.directories() {
        let name = directory_path(tree, directory);
        mkdirat(writer.folder(), &name, Mode::RWXU).map_err(|e| failed("make", writer.path(&name), e))?;
    }
    for file in 0..tree.files {
        let name = file_path(tree, file);
        let open = writer.create(&name)?;
        let size = (tree.file_size.0 as f64 * lognormal(&mut generator)) as u64;
        writer.write(&open, 0, size)?;
        tell(Bytes(u64::from(file)), Bytes(u64::from(tree.files)));
    }
    Ok(())
}

/// The path of a directory in a tree: the first is the root, each other is in one before it.
fn directory_path(tree: Populated, directory: u32) -> String {
    let mut names = Vec::new();
    let mut at = directory;
    while at > 0 {
        names.push(format!("d{at}"));
        at = (at - 1) / tree.width;
    }
    names.reverse();
    names.join("/")
}

fn file_path(tree: Populated, file: u32) -> String {
    match directory_path(tree, file / tree.per_directory) {
        root if root.is_empty() => format!("f{file}"),
        directory => format!("{directory}/f{file}"),
    }
}
