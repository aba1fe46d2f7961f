//! A look at the files of an observed load before it and after it: in how many pieces they are, and the space in use.

use fstrial_model::counter::{Counter, Counters};
use fstrial_stack::host;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files that are looked at, at most.
const FILES: usize = 100;

/// Files and space at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    files: u64,
    pieces: u64,
    used: u64,
}

impl Look {
    /// Syncs the files of a folder, and looks at them. None if its filesystem does not tell.
    pub(super) fn at(folder: &Path) -> Option<Self> {
        let pieces: Option<Vec<u64>> =
            files_in(folder).iter().map(|file| fstrial_engine::pieces(file).ok()).collect();
        let pieces = pieces?;
        let used = host::space(folder).ok()?.used.0;
        Some(Self { files: pieces.len() as u64, pieces: pieces.iter().sum(), used })
    }

    /// Both of them as counters.
    pub(super) fn counters(before: Self, after: Self) -> Counters {
        Counters::of(Counter::Looks, 1)
            .with(Counter::SpaceBefore, Some(before.used))
            .with(Counter::SpaceAfter, Some(after.used))
            .with(Counter::FilesBefore, Some(before.files))
            .with(Counter::PiecesBefore, Some(before.pieces))
            .with(Counter::Files, Some(after.files))
            .with(Counter::Pieces, Some(after.pieces))
    }
}

/// The first files in a folder and those below it.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            match fs::symlink_metadata(&path) {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() && files.len() < FILES => files.push(path),
                _ => {}
            }
        }
        if files.len() == FILES {
            break;
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_a_folder_are_found_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("a"), "a").unwrap();
        fs::write(folder.path().join("b"), "b").unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("c")).unwrap();
        assert_eq!(files_in(folder.path()), [folder.path().join("b"), inner.join("a")]);
        let look = |files, pieces, used| Look { files, pieces, used };
        let counters = Look::counters(look(1, 2, 4096), look(3, 9, 1 << 20));
        assert_eq!(counters.get(Counter::SpaceBefore), Some(4096));
        assert_eq!(counters.get(Counter::SpaceAfter), Some(1 << 20));
        assert_eq!((counters.get(Counter::Pieces), counters.get(Counter::Files)), (Some(9), Some(3)));
    }
}
