//! Hides host folders and sockets on which services listen from a program confined as root.
//!
//! A read-only mount stops neither connecting to a socket nor writing to a fifo, and a network namespace does not cover
//! sockets with a path. So the folders for such files ([`FOLDERS`]) are covered with empty ones in memory, where the
//! program can have sockets and files; other listening sockets, from `/proc/net/unix`, are covered one by one. Both are
//! covered under every path that a mount gives them. Remaining gaps: sockets elsewhere that are made later or by
//! another network namespace, that have a second name or whose folder was renamed, and fifos elsewhere.
//!
//! The user's files may be in these folders, so files named by the command are bound back, read-only: regular files,
//! with the owners and modes of the folders above them, and all of the program's own folder.

use super::cannot_confine;
use crate::{error::StackError, mounts};
use rustix::{
    fs::{CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid},
    io::Errno,
    mount::MountFlags,
};
use std::{
    ffi::OsStr,
    fs,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::FileTypeExt},
    },
    path::{Component, Path, PathBuf},
};

/// Folders that are empty to a program, in memory and its own.
const FOLDERS: [&str; 6] = ["/run", "/var/run", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"];
/// Folders without a bound-back program folder, since services keep their sockets there.
const SERVICES: &str = "/run";
/// The kernel's list of sockets with an address in the filesystem.
const SOCKETS: &str = "/proc/net/unix";
/// Replacement of a socket.
const NOTHING: &str = "/dev/null";

/// The folders to hide, and the files in them to bind back.
#[derive(Debug)]
pub(super) struct HiddenFolders {
    folders: Vec<PathBuf>,
    /// Other mounts of them: these are covered and stay empty.
    shown_elsewhere: Vec<PathBuf>,
    kept: Vec<Kept>,
    sockets: Vec<PathBuf>,
}

/// A file or folder that is bound back.
#[derive(Debug)]
struct Kept {
    opened: OwnedFd,
    at: PathBuf,
    is_folder: bool,
    /// The folders above it, from the outermost.
    above: Vec<(PathBuf, Stat)>,
}

impl HiddenFolders {
    /// Collects them, in the mount namespace to be covered and before anything is.
    ///
    /// # Errors
    /// A folder cannot be opened, or sockets cannot be listed.
    pub(super) fn find<'a>(
        commands: impl Iterator<Item = (&'a Path, &'a [String])>,
        cover: &Path,
    ) -> Result<Self, StackError> {
        let commands: Vec<_> = commands.collect();
        let mut folders: Vec<PathBuf> =
            FOLDERS.iter().filter_map(|folder| fs::canonicalize(folder).ok()).collect();
        folders.retain(|folder| folder.is_dir());
        // Outer ones first: one may be in another (`/dev/shm` in `/run`).
        folders.sort();
        folders.dedup();
        let mounted = mounts::all()?;
        let mut shown_elsewhere: Vec<PathBuf> =
            folders.iter().flat_map(|folder| mounts::also_at(folder, &mounted)).collect();
        // The place of the arm is covered already, and a program must be reachable.
        let is_needed = |shown: &Path| {
            shown.starts_with(cover)
                || cover.starts_with(shown)
                || commands.iter().any(|(program, _)| program.starts_with(shown))
        };
        let is_hidden = |shown: &Path| folders.iter().any(|folder| shown.starts_with(folder));
        shown_elsewhere.retain(|shown| shown.is_dir() && !is_hidden(shown) && !is_needed(shown));
        shown_elsewhere.sort();
        shown_elsewhere.dedup();
        let mut hidden = Self { folders, shown_elsewhere, kept: Vec::new(), sockets: Vec::new() };
        for (program, arguments) in commands {
            hidden.keep(program, true)?;
            for word in arguments {
                hidden.keep(Path::new(word), false)?;
            }
        }
        let listed = fs::read(SOCKETS).map_err(|e| StackError::io("read", SOCKETS, e))?;
        let mut all = sockets(&listed);
        let others: Vec<PathBuf> = all.iter().flat_map(|socket| mounts::also_at(socket, &mounted)).collect();
        all.extend(others.into_iter().filter(|path| is_socket(path)));
        all.retain(|socket| hidden.shows(socket));
        hidden.sockets = all;
        Ok(hidden)
    }

    /// True if a path stays visible although the folders are covered.
    fn shows(&self, path: &Path) -> bool {
        let is_kept = |kept: &Kept| kept.is_folder && path.starts_with(&kept.at);
        let mut covered = self.folders.iter().chain(&self.shown_elsewhere);
        !covered.any(|folder| path.starts_with(folder)) || self.kept.iter().any(is_kept)
    }

    /// Covers everything, and binds back the kept files. Returns the folders, which are yet to be made writable.
    ///
    /// # Errors
    /// Something cannot be mounted.
    pub(super) fn cover(&self) -> Result<&[PathBuf], StackError> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        for folder in &self.folders {
            fs::create_dir_all(folder).map_err(|e| StackError::io("make", folder, e))?;
            rustix::mount::mount(
                "fstrial",
                folder,
                "tmpfs",
                flags,
                Some(c"size=256m,nr_inodes=64k,mode=1777"),
            )
            .map_err(|e| StackError::io("cover", folder, e))?;
        }
        for folder in &self.shown_elsewhere {
            let size = Some(c"size=4k,nr_inodes=1,mode=755");
            match rustix::mount::mount("fstrial", folder, "tmpfs", flags, size) {
                // It is covered by an upper mount.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(StackError::io("cover", folder, error)),
            }
        }
        for kept in &self.kept {
            kept.bind_back()?;
        }
        for socket in &self.sockets {
            match rustix::mount::mount_bind(NOTHING, socket) {
                // It has gone since.
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => {
                    return Err(cannot_confine(&format!("cover {}", socket.display()), &error.into()));
                }
            }
        }
        Ok(&self.folders)
    }

    /// Notes a path to bind back, if it is a regular file in a folder to hide; with the folder of a program.
    fn keep(&mut self, path: &Path, is_program: bool) -> Result<(), StackError> {
        let Some((folder, inside)) = place(path) else { return Ok(()) };
        let root = open(&folder)?;
        if self.kept.iter().any(|kept| folder.join(inside).starts_with(&kept.at)) {
            return Ok(());
        }
        let Some((file, status)) = look(&root, inside) else { return Ok(()) };
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let first = inside.iter().next().map(Path::new).unwrap_or(inside);
        if is_program && first != inside && folder != Path::new(SERVICES) {
            let Some((opened, _)) = look(&root, first) else { return Ok(()) };
            self.kept.push(Kept { opened, at: folder.join(first), is_folder: true, above: Vec::new() });
            return Ok(());
        }
        let mut above = Vec::new();
        for parent in inside.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            let Some((_, status)) = look(&root, parent) else { return Ok(()) };
            above.insert(0, (folder.join(parent), status));
        }
        self.kept.push(Kept { opened: file, at: folder.join(inside), is_folder: false, above });
        Ok(())
    }
}

impl Kept {
    fn bind_back(&self) -> Result<(), StackError> {
        let at = &self.at;
        let failed = |e: Errno| StackError::io("bind back", at, e);
        for (folder, status) in &self.above {
            match rustix::fs::mkdirat(CWD, folder, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
            // A file unreachable for others there is unreachable here.
            let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
            rustix::fs::chownat(CWD, folder, Some(user), Some(group), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                .map_err(failed)?;
            rustix::fs::chmod(folder, Mode::from_raw_mode(status.st_mode)).map_err(failed)?;
        }
        if self.is_folder {
            rustix::fs::mkdirat(CWD, at, Mode::RWXU).map_err(failed)?;
        } else {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::open(at, flags, Mode::empty()).map_err(failed)?;
        }
        rustix::mount::mount_bind(format!("/proc/self/fd/{}", self.opened.as_raw_fd()), at).map_err(failed)
    }
}

/// The path under which a program can be started: its real path if it is in a hidden folder, since no link there is
/// visible.
pub(super) fn reachable(program: &Path) -> PathBuf {
    let real = place(program).and_then(|_| fs::canonicalize(program).ok());
    real.unwrap_or_else(|| program.to_owned())
}

/// The first hidden folder that contains a file named on a command line.
pub fn hidden_folder(line: &str) -> Option<&'static str> {
    let mut words = line.split(|c: char| c.is_whitespace() || "'\"`=:,;&|<>(){}[]".contains(c));
    let of = |word: &str| {
        FOLDERS.into_iter().find(|folder| Path::new(word).starts_with(folder) && word != *folder)
    };
    words.find_map(of)
}

/// The hidden folder that contains a path, without links, and the path relative to it.
fn place(path: &Path) -> Option<(PathBuf, &Path)> {
    FOLDERS.iter().find_map(|folder| {
        let inside = path.strip_prefix(folder).ok()?;
        let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
        let has_parts = inside.components().next().is_some();
        (is_plain && has_parts).then(|| Some((fs::canonicalize(folder).ok()?, inside)))?
    })
}

fn open(folder: &Path) -> Result<OwnedFd, StackError> {
    rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| StackError::io("open", folder, e))
}

/// Opens something in a folder, for binding only. Anyone who may write there could turn a link elsewhere: none is followed.
fn look(folder: &OwnedFd, inside: &Path) -> Option<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = rustix::fs::openat2(folder, inside, flags, Mode::empty(), resolve).ok()?;
    let status = rustix::fs::fstat(&opened).ok()?;
    Some((opened, status))
}

/// The sockets in a list of the kernel's that are there under their path.
fn sockets(listed: &[u8]) -> Vec<PathBuf> {
    // Num RefCount Protocol Flags Type St Inode Path: no slash but in the path, which may hold spaces.
    let path = |line: &[u8]| {
        let at = line.windows(2).position(|pair| pair == b" /")?;
        Some(PathBuf::from(OsStr::from_bytes(&line[at + 1..])))
    };
    let mut result: Vec<PathBuf> = listed.split(|byte| *byte == b'\n').filter_map(path).collect();
    result.sort();
    result.dedup();
    result.retain(|path| is_socket(path));
    result
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|result| result.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_found_in_command_lines() {
        assert_eq!(hidden_folder("sh -c 'tar -xf /tmp/x.tar && ls'"), Some("/tmp"));
        assert_eq!(hidden_folder("dd if=/var/run/x of=y"), Some("/var/run"));
        assert_eq!(hidden_folder("ls /srv/tmp/x /tmpfile /tmp"), None);
    }

    #[test]
    fn paths_with_dots_and_the_folders_themselves_are_not_bound_back() {
        for path in ["/tmp", "/tmp/", "/tmp/../etc/shadow", "/etc/passwd", "tmp/x", "/tmpfile"] {
            assert_eq!(place(Path::new(path)), None, "{path}");
        }
        assert_eq!(place(Path::new("/tmp/a/b")), Some((fs::canonicalize("/tmp").unwrap(), Path::new("a/b"))));
    }

    #[test]
    fn lists_only_existing_unix_sockets() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, file) = (folder.path().join("a socket"), folder.path().join("file"));
        let _held = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::write(&file, "").unwrap();
        let line =
            |path: &str| format!("0000000089c9a299: 00000002 00000000 00010000 0001 01 81044 {path}\n");
        let paths =
            [socket.to_str().unwrap(), file.to_str().unwrap(), "/gone", "@name", "relative", "@x /gone", ""];
        let listed: String = paths.iter().map(|path| line(path)).collect();
        let head = "Num       RefCount Protocol Flags    Type St Inode Path\n";
        assert_eq!(sockets(format!("{head}{listed}{}", line(paths[0])).as_bytes()), [socket]);
    }
}
