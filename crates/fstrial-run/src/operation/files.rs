//! Files that operations need in addition to the tree: appended to in turn, made durable one by one, read in order.

use fstrial_model::{units::Bytes, workload::Data};
use fstrial_stack::{
    StackError,
    aligned::{Aligned, PAGE},
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rustix::fs::{CWD, Mode, OFlags};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Bytes of one append.
const APPEND: usize = 16 << 10;
/// Bytes of one read.
const READ: usize = 1 << 20;

/// Written data.
#[derive(Debug)]
pub(super) struct Content(Aligned);

impl Content {
    /// All of it.
    pub(super) fn all(&self) -> &[u8] {
        self.0.all()
    }

    /// `size` bytes of it, others for each number: neighbours are not alike.
    pub(super) fn part(&self, number: u64, size: usize) -> &[u8] {
        let parts = (self.all().len() / size).max(1) as u64;
        let at = usize::try_from(number % parts).unwrap_or(0) * size;
        &self.all()[at..at + size]
    }
}

/// Content of a kind, from a seed. Compressible shares are zeros at the end of each page.
pub(super) fn content(data: Data, seed: u64, length: usize) -> Content {
    let mut memory = Aligned::zeroed(length);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let all = memory.all_mut();
    match data {
        Data::Zero => {}
        Data::Random => random.fill_bytes(all),
        Data::RepeatedWord => {
            let word = (random.next_u64() | 1).to_ne_bytes();
            all.chunks_mut(word.len()).for_each(|chunk| chunk.copy_from_slice(&word[..chunk.len()]));
        }
        Data::Mixed { compressible, .. } => {
            random.fill_bytes(all);
            for page in all.chunks_mut(PAGE) {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of a page"
                )]
                let kept = (page.len() as f64 * (1.0 - compressible.fraction())) as usize;
                page[kept..].fill(0);
            }
        }
    }
    Content(memory)
}

fn make_folder(folder: &Path) -> Result<(), StackError> {
    fs::create_dir(folder).map_err(|e| StackError::io("make the folder", folder, e))
}

/// Makes files of one size in a new folder by appending to each in turn, past the page cache if possible: the
/// filesystem has to find room for a small piece at a time.
pub(super) fn append_in_turn(
    folder: &Path,
    files: u32,
    size: Bytes,
    content: &Content,
) -> Result<Vec<PathBuf>, StackError> {
    make_folder(folder)?;
    let paths: Vec<PathBuf> = (0..files).map(|n| folder.join(format!("{n:08}"))).collect();
    let opened: Vec<File> = paths.iter().map(|path| open_direct(path)).collect::<Result<_, _>>()?;
    let rounds = (size.0 / APPEND as u64).max(1);
    for round in 0..rounds {
        for (number, (file, path)) in opened.iter().zip(&paths).enumerate() {
            let part = content.part(round.wrapping_mul(31).wrapping_add(number as u64), APPEND);
            let offset = round * APPEND as u64;
            file.write_all_at(part, offset).map_err(|e| StackError::io("append to", path, e))?;
        }
    }
    for (file, path) in opened.iter().zip(&paths) {
        file.sync_all().map_err(|e| StackError::io("sync", path, e))?;
    }
    Ok(paths)
}

fn open_direct(path: &Path) -> Result<File, StackError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let open = |more| rustix::fs::openat(CWD, path, flags | more, Mode::from_raw_mode(0o644));
    let opened = match open(OFlags::DIRECT) {
        Err(rustix::io::Errno::INVAL) => {
            // The file was made before the flag was refused; without direct I/O every append is synced instead.
            let _ = fs::remove_file(path);
            open(OFlags::DSYNC)
        }
        other => other,
    };
    opened.map(File::from).map_err(|e| StackError::io("make", path, e))
}

/// Makes small files in a new folder, each with `fsync`.
pub(super) fn write_durably(folder: &Path, files: u32, content: &Content) -> Result<(), StackError> {
    make_folder(folder)?;
    for number in 0..files {
        let path = folder.join(format!("{number:08}"));
        let write = || {
            let file = File::create_new(&path)?;
            file.write_all_at(content.all(), 0)?;
            file.sync_all()
        };
        write().map_err(|e| StackError::io("write", &path, e))?;
    }
    // The last entries too: a filesystem need not make a new file's name durable with its data.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| StackError::io("sync", folder, e))
}

/// Number of entries in a folder; 0 if it is not there.
pub(super) fn count(folder: &Path) -> Result<u64, StackError> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.filter(Result::is_ok).count() as u64),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(StackError::io("list", folder, error)),
    }
}

/// Reads files one after the other from beginning to end, and gives their bytes.
pub(super) fn read(paths: &[PathBuf]) -> Result<u64, StackError> {
    let mut buffer = vec![0; READ];
    let mut bytes = 0;
    for path in paths {
        let mut file = File::open(path).map_err(|e| StackError::io("open", path, e))?;
        loop {
            match file.read(&mut buffer).map_err(|e| StackError::io("read", path, e))? {
                0 => break,
                count => bytes += count as u64,
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::units::Percent;

    #[test]
    fn content_matches_data_kind_and_repeats_with_seed() {
        let random = content(Data::Random, 7, 8192);
        assert_eq!(random.all(), content(Data::Random, 7, 8192).all());
        assert_ne!(random.all(), content(Data::Random, 8, 8192).all());
        assert_eq!(random.all().as_ptr().align_offset(PAGE), 0);
        assert!(content(Data::Zero, 7, 100).all().iter().all(|byte| *byte == 0));
        let word = content(Data::RepeatedWord, 7, 100);
        assert_eq!(word.all()[..8], word.all()[8..16]);
        let mixed =
            content(Data::Mixed { compressible: Percent(50.0), duplicate: Percent(0.0) }, 7, 2 * PAGE);
        assert!(mixed.all()[PAGE / 2..PAGE].iter().all(|byte| *byte == 0));
        assert!(mixed.all()[PAGE..PAGE + PAGE / 2].iter().any(|byte| *byte != 0));
    }

    #[test]
    fn parts_stay_inside_and_differ() {
        let all = content(Data::Random, 1, 1 << 20);
        assert_ne!(all.part(0, APPEND), all.part(1, APPEND));
        assert_eq!(all.part(64, APPEND), all.part(0, APPEND), "64 parts of 16 KiB in 1 MiB");
        assert_eq!(content(Data::Random, 1, APPEND).part(u64::MAX, APPEND).len(), APPEND);
    }

    #[test]
    fn files_have_their_size_and_are_read_whole() {
        let home = tempfile::tempdir().unwrap();
        let all = content(Data::Random, 1, 1 << 20);
        let paths = append_in_turn(&home.path().join("a"), 3, Bytes::kib(64), &all).unwrap();
        assert_eq!(paths.len(), 3);
        assert_eq!(read(&paths).unwrap(), 3 * (64 << 10));
        write_durably(&home.path().join("b"), 5, &content(Data::Zero, 1, 10)).unwrap();
        assert_eq!(count(&home.path().join("b")).unwrap(), 5);
        assert_eq!(count(&home.path().join("c")).unwrap(), 0);
    }
}
