//! Deletes every kind of tree that a program can leave: depth, modes, numbers, links, mounts, flags, subvolumes, a
//! program still running, and an interruption half-way.

use crate::support::{MountGuard, isolated, run};
use fstrial_stack::{StackError, delete};
use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
    process::{Resource, Rlimit},
    thread::Uid,
};
use std::{
    cell::Cell,
    fs::{self, File},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const NEVER: &dyn Fn() -> bool = &|| false;

/// A folder `top` to delete, next to something precious.
struct Place {
    home: TempDir,
}

impl Place {
    fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    fn within(folder: &Path) -> Self {
        let home = tempfile::tempdir_in(folder).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(home.path().join("precious"), "kept").unwrap();
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn top(&self) -> PathBuf {
        self.path("top")
    }

    fn made(&self) -> PathBuf {
        fs::create_dir(self.top()).unwrap();
        self.top()
    }

    fn delete(&self) -> Result<(), StackError> {
        delete::tree_at(&self.top(), &|_| true, NEVER)
    }

    fn assert_deleted(&self) {
        self.delete().unwrap();
        assert!(fs::symlink_metadata(self.top()).is_err(), "it is still there");
        assert_eq!(fs::read_to_string(self.path("precious")).unwrap(), "kept");
    }
}

/// From here on this thread is an ordinary user, with few descriptors.
fn become_ordinary() {
    let nobody = Uid::from_raw(65534);
    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
    limit_descriptors();
}

fn limit_descriptors() {
    let few = Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::setrlimit(Resource::Nofile, few).unwrap();
}

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// Nested folders, deeper than the longest path allows, each with a file next to the next folder.
fn dig(top: &Path, levels: u32) {
    let mut folder = open(top);
    for _ in 0..levels {
        rustix::fs::mkdirat(&folder, "a long enough name of a folder", Mode::RWXU).unwrap();
        let file = rustix::fs::openat(&folder, "z", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
        drop(file.unwrap());
        folder = rustix::fs::openat(&folder, "a long enough name of a folder", OFlags::RDONLY, Mode::empty())
            .unwrap();
    }
}

#[test]
fn a_tree_of_any_depth_takes_few_descriptors() {
    isolated(|| {
        become_ordinary();
        for levels in [1, 15, 16, 17, 33, 1000, 100_000] {
            // A disk would spread this many folders far apart, and take minutes.
            let memory = Path::new("/dev/shm");
            let place = if levels > 1000 && memory.is_dir() { Place::within(memory) } else { Place::new() };
            dig(&place.made(), levels);
            place.assert_deleted();
        }
    });
}

#[test]
fn deletes_folders_with_restrictive_modes() {
    isolated(|| {
        become_ordinary();
        let place = Place::new();
        let top = place.made();
        let deep: PathBuf = (0..40).map(|level| format!("level {level}")).collect();
        fs::create_dir_all(top.join(&deep)).unwrap();
        let mut all: Vec<PathBuf> = deep.ancestors().map(|folder| top.join(folder)).collect();
        for (number, mode) in [0o555, 0o000, 0o111, 0o444, 0o222, 0o333].into_iter().enumerate() {
            let folder = top.join(format!("of mode {number}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
            fs::set_permissions(folder.join("file"), fs::Permissions::from_mode(0o000)).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        all.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for (number, folder) in all.iter().enumerate() {
            let mode = if number % 2 == 0 { 0o555 } else { 0o000 };
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        place.assert_deleted();
    });
}

/// In a separate process, because the memory of other tests would be counted.
#[test]
fn many_entries_take_no_memory() {
    const ALONE: &str = "FSTRIAL_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let words = ["--exact", "delete::many_entries_take_no_memory"];
        #[expect(clippy::disallowed_methods, reason = "starts this very test, not a tool")]
        let mut alone = Command::new(std::env::current_exe().unwrap());
        assert!(alone.args(words).env(ALONE, "1").status().unwrap().success());
        return;
    }
    let place = Place::new();
    let folder = open(&place.made());
    for number in 0..200_000 {
        // Names of one file: as many entries as files would be, and quicker made.
        let name = format!("an entry with a name that takes some room, number {number}");
        rustix::fs::symlinkat("nowhere", &folder, name).unwrap();
    }
    let before = resident();
    place.assert_deleted();
    let grown = resident().saturating_sub(before);
    assert!(grown < 4 << 10, "{grown} KiB more");
}

/// KiB of this process in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn links_are_deleted_and_not_followed() {
    let place = Place::new();
    let elsewhere = place.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "").unwrap();
    let top = place.made();
    symlink(&elsewhere, top.join("folder")).unwrap();
    symlink(elsewhere.join("file"), top.join("file")).unwrap();
    symlink("/", top.join("root")).unwrap();
    symlink("nowhere", top.join("nowhere")).unwrap();
    place.assert_deleted();
    assert!(elsewhere.join("file").exists());
    symlink(&elsewhere, place.top()).unwrap();
    let refused = place.delete().unwrap_err().to_string();
    assert!(refused.contains("no longer the folder that was made"), "{refused}");
    fs::remove_file(place.top()).unwrap();
    fs::write(place.top(), "a file").unwrap();
    assert!(place.delete().is_err());
    assert!(place.top().exists() && elsewhere.join("file").exists());
}

#[test]
fn deletes_only_the_original_folder() {
    let place = Place::new();
    let made = delete::Identity::of(open(&place.made()).as_fd()).unwrap();
    let parent = open(place.home.path());
    let delete = || delete::tree_that_is(made, parent.as_fd(), "top".as_ref(), NEVER);
    fs::rename(place.top(), place.path("moved")).unwrap();
    delete().unwrap();
    fs::create_dir(place.top()).unwrap();
    assert!(delete().unwrap_err().to_string().contains("no longer the folder"));
    fs::remove_dir(place.top()).unwrap();
    fs::rename(place.path("moved"), place.top()).unwrap();
    delete().unwrap();
    assert!(!place.top().exists());
}

#[test]
fn delete_names_and_keeps_mounts_below() {
    isolated(|| {
        let place = Place::new();
        let top = place.made();
        let point = top.join("in/a/folder");
        fs::create_dir_all(&point).unwrap();
        run("mount", &["-i", "-n", "-t", "tmpfs", "none", point.to_str().unwrap()]);
        fs::write(point.join("theirs"), "").unwrap();
        let began = Instant::now();
        let refused = place.delete().unwrap_err().to_string();
        assert!(refused.contains(point.to_str().unwrap()), "{refused}");
        assert!(point.join("theirs").exists());
        rustix::mount::unmount(&point, rustix::mount::UnmountFlags::empty()).unwrap();
        // Mounts of the very same filesystem, which have its number: a folder, and a file.
        let kept = place.path("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("theirs"), "").unwrap();
        run("mount", &["-i", "-n", "--bind", kept.to_str().unwrap(), point.to_str().unwrap()]);
        assert!(place.delete().unwrap_err().to_string().contains(point.to_str().unwrap()));
        assert!(kept.join("theirs").exists());
        rustix::mount::unmount(&point, rustix::mount::UnmountFlags::empty()).unwrap();
        let file = top.join("file");
        fs::write(&file, "").unwrap();
        run("mount", &["-i", "-n", "--bind", "/dev/null", file.to_str().unwrap()]);
        let refused = place.delete().unwrap_err().to_string();
        assert!(refused.contains(file.to_str().unwrap()), "{refused}");
        rustix::mount::unmount(&file, rustix::mount::UnmountFlags::empty()).unwrap();
        assert!(began.elapsed() < Duration::from_secs(5), "a mount does not pass: nobody waits for it");
        place.assert_deleted();
    });
}

#[test]
fn protected_files_are_deleted_by_root() {
    isolated(|| {
        let place = Place::new();
        let top = place.made();
        let folder = top.join("folder");
        fs::create_dir(&folder).unwrap();
        for name in ["immutable", "append"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let protect = |flag, path: &Path| run("chattr", &[flag, path.to_str().unwrap()]);
        protect("+i", &folder.join("immutable"));
        protect("+a", &folder.join("append"));
        protect("+i", &folder);
        protect("+a", &top);
        // A file with another name outside the tree keeps its protection, and a message names it.
        fs::hard_link(place.path("precious"), place.path("linked")).unwrap();
        place.assert_deleted();
        let top = place.made();
        fs::rename(place.path("linked"), top.join("linked")).unwrap();
        protect("+i", &top.join("linked"));
        let refused = place.delete().unwrap_err();
        assert!(refused.to_string().contains("linked") && refused.hint().unwrap().contains("lsattr"));
        protect("-i", &top.join("linked"));
        place.assert_deleted();
    });
}

#[test]
fn subvolumes_of_ordinary_users_are_deleted() {
    isolated(|| {
        let place = Place::new();
        let (image, point) = (place.path("image"), place.path("point"));
        File::create(&image).unwrap().set_len(256 << 20).unwrap();
        fs::create_dir(&point).unwrap();
        run("mkfs.btrfs", &["-q", image.to_str().unwrap()]);
        run("mount", &["-o", "loop", image.to_str().unwrap(), point.to_str().unwrap()]);
        fs::set_permissions(&point, fs::Permissions::from_mode(0o777)).unwrap();
        let _mounted = MountGuard::of(&point);
        // Only that thread is an ordinary user's: this one unmounts.
        let ordinary = || {
            become_ordinary();
            let make = |path: &Path| run("btrfs", &["subvolume", "create", path.to_str().unwrap()]);
            let top = point.join("top");
            fs::create_dir(&top).unwrap();
            let mut folder = top.clone();
            for level in 0..20 {
                folder = folder.join(format!("{level}"));
                if level % 3 == 2 { drop(make(&folder)) } else { fs::create_dir(&folder).unwrap() }
            }
            dig(&folder, 50);
            make(&top.join("source"));
            fs::write(top.join("source/file"), "").unwrap();
            let (source, copy) = (top.join("source"), top.join("0/1/copy"));
            run("btrfs", &["subvolume", "snapshot", "-r", source.to_str().unwrap(), copy.to_str().unwrap()]);
            assert!(fs::write(copy.join("file"), "").is_err(), "it is read-only, or this tests nothing");
            delete::tree_at(&top, &|_| true, NEVER).unwrap();
            assert!(!top.exists());
        };
        thread::scope(|scope| scope.spawn(ordinary).join().unwrap());
    });
}

#[test]
fn delete_waits_for_concurrent_writers() {
    let place = Place::new();
    let top = open(&place.made());
    let began = Instant::now();
    let write = || {
        // Until the top folder itself is gone: then nothing can be made in it.
        while began.elapsed() < Duration::from_millis(500) {
            match rustix::fs::mkdirat(&top, "deep", Mode::RWXU) {
                Err(Errno::NOENT) => return,
                _ => drop(rustix::fs::symlinkat("nowhere", &top, "deep/entry")),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(write);
        }
        place.assert_deleted();
    });
}

#[test]
fn delete_checks_for_interrupt_at_every_entry() {
    let place = Place::new();
    let top = place.made();
    for number in 0..1000 {
        fs::create_dir_all(top.join(format!("{}/{number}", number % 10))).unwrap();
    }
    let (requested, began) = (Cell::new(0), Instant::now());
    let stop = || {
        requested.set(requested.get() + 1);
        requested.get() > 100
    };
    assert!(matches!(delete::tree_at(&place.top(), &|_| true, &stop), Err(StackError::Interrupted)));
    assert!(requested.get() < 110 && began.elapsed() < Duration::from_secs(1));
    assert!(place.top().exists());
    place.assert_deleted();
}

#[test]
fn deleting_missing_tree_succeeds() {
    let place = Place::new();
    place.delete().unwrap();
    delete::tree_at(Path::new("/nowhere/at/all"), &|_| true, NEVER).unwrap();
    let parent = rustix::fs::openat(CWD, place.home.path(), OFlags::PATH, Mode::empty()).unwrap();
    delete::tree(parent.as_fd(), "gone".as_ref(), NEVER).unwrap();
}
