//! The first program of a guest: makes a root filesystem of the host's files and a private disk, runs one program on
//! the port, and powers off.
//!
//! ```text
//! /            overlay: the host's files below, memory above
//! /run/disk    ext4 on the guest's own disk, for what is large
//! ```
//! The kernel loads further modules on demand: the host's `modprobe` finds them in [`Guest::modules`].

use crate::{
    machine::{DEVICE_PORT, DEVICE_SERIAL, HOST_FILES, PORT},
    port::Port,
};
use rustix::{
    io::Errno,
    mount::{MountFlags, mount, mount_bind, mount_move},
    system::RebootCommand,
};
use std::{
    convert::Infallible,
    ffi::CStr,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// List of the modules in the initramfs, one path a line, in the order of loading.
pub const FIRST_MODULES: &str = "/guest/modules";
/// List of the program and its libraries: on each line the path in the initramfs and the path on the host.
pub const LIBRARIES: &str = "/guest/libraries";
/// File of the guest's orders: see [`Guest`].
pub const ORDERS: &str = "/guest/orders";
/// Mount point of the disk.
pub const DISK: &str = "/run/disk";
/// Time limit for a device to appear.
const APPEARING: Duration = Duration::from_secs(10);

/// The purpose of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The modules of its kernel on the host, the folder named after its release.
    pub modules: PathBuf,
    /// The host serves a modelled device to it.
    pub is_served: bool,
    /// The program and its arguments, on the host's files.
    pub command: Vec<String>,
}

impl Guest {
    /// The text of [`ORDERS`]; see [`Guest::parse`].
    pub fn text(&self) -> String {
        let first = [self.modules.display().to_string(), self.is_served.to_string()];
        first.iter().chain(&self.command).map(|line| format!("{line}\n")).collect()
    }

    /// Parses the output of [`Guest::text`].
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::to_owned);
        let (modules, is_served) = (lines.next()?.into(), lines.next()?.parse().ok()?);
        let command: Vec<String> = lines.collect();
        (!command.is_empty()).then_some(Self { modules, is_served, command })
    }
}

/// True if this process is the first one of a guest.
pub fn is_first() -> bool {
    std::process::id() == 1 && Path::new(ORDERS).exists()
}

/// Carries out a guest's orders, and powers it off. Errors are printed on the console.
///
/// # Errors
/// The guest cannot be powered off.
pub fn run() -> io::Result<Infallible> {
    if let Err(error) = attend() {
        // The console may be gone as well.
        let _ = writeln!(io::stderr(), "fstrial: the guest failed: {error}");
    }
    // The data on its disk go with it.
    rustix::system::reboot(RebootCommand::PowerOff)?;
    Err(io::Error::other("the guest did not power off"))
}

fn attend() -> io::Result<()> {
    let guest = Guest::parse(&fs::read_to_string(ORDERS)?)
        .ok_or_else(|| io::Error::other("its orders are cut short"))?;
    for (kind, folder) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        attach(kind, kind, folder, MountFlags::empty(), c"")?;
    }
    for path in fs::read_to_string(FIRST_MODULES)?.lines() {
        load(path)?;
    }
    rustix::system::sethostname(b"guest")?;
    let port = when_there("the port to the host", || port(PORT))?;
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    become_host(&guest, &release)?;
    let mut command = guest.command.iter();
    let program = command.next().ok_or_else(|| io::Error::other("there is no program"))?;
    #[expect(clippy::disallowed_methods, reason = "the one program that the guest is for")]
    let mut child = Command::new(program)
        .args(command)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .env("TMPDIR", "/tmp")
        .env(GUEST, "1")
        .envs(guest.is_served.then_some((SERVED, "1")))
        .stdin(Stdio::from(port.try_clone()?))
        .stdout(Stdio::from(port))
        .spawn()
        .map_err(|error| io::Error::other(format!("could not start {program}: {error}")))?;
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program} ended with {status}"))) }
}

fn load(path: &str) -> io::Result<()> {
    match rustix::system::finit_module(File::open(path)?, c"", 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(io::Error::other(format!("the module {path}: {error}"))),
    }
}

fn attach(source: &str, kind: &str, at: &str, flags: MountFlags, options: &CStr) -> io::Result<()> {
    fs::create_dir_all(at)?;
    mount(source, at, kind, flags, Some(options))
        .map_err(|error| io::Error::other(format!("could not mount {source} ({kind}) at {at}: {error}")))
}

/// Looks for something until it is there.
fn when_there<T>(what: &str, look: impl Fn() -> Option<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        if let Some(result) = look() {
            return Ok(result);
        }
        if began.elapsed() > APPEARING {
            return Err(io::Error::other(format!("{what} did not appear")));
        }
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// A port to the host: its number varies.
fn port(name: &str) -> Option<File> {
    let is_it = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("name")).is_ok_and(|result| result.trim() == name)
    };
    let result = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten().find(is_it)?;
    File::options().read(true).write(true).open(Path::new("/dev").join(result.file_name())).ok()
}

/// Set for the program in a guest.
const GUEST: &str = "FSTRIAL_GUEST";
/// Also set for it if the host serves a modelled device.
const SERVED: &str = "FSTRIAL_SERVED";

/// True if this program runs in a guest.
pub fn is_inside() -> bool {
    std::env::var_os(GUEST).is_some()
}

/// The port for orders to the modelled device that the host serves to this guest, and its disk; none on a host, and in
/// a guest without one.
///
/// # Errors
/// One of them does not show, or is in use.
pub fn served() -> io::Result<Option<(Port, PathBuf)>> {
    if std::env::var_os(SERVED).is_none() {
        return Ok(None);
    }
    let port = Port::of(when_there("the port of the modelled device", || port(DEVICE_PORT))?)?;
    let is_it = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("serial")).is_ok_and(|serial| serial.trim() == DEVICE_SERIAL)
    };
    let look = || fs::read_dir("/sys/block").ok()?.flatten().find(is_it);
    let disk = when_there("the disk of the modelled device", look)?;
    Ok(Some((port, Path::new("/dev").join(disk.file_name()))))
}

/// Makes the host's files the root, with memory above them, and the guest's own disk.
fn become_host(guest: &Guest, release: &str) -> io::Result<()> {
    attach(
        HOST_FILES,
        "9p",
        "/host",
        MountFlags::RDONLY,
        c"trans=virtio,version=9p2000.L,msize=262144,cache=loose",
    )?;
    attach("memory", "tmpfs", "/memory", MountFlags::empty(), c"mode=755")?;
    fs::create_dir_all("/memory/upper")?;
    fs::create_dir_all("/memory/work")?;
    let layers = c"lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work";
    attach("root", "overlay", "/root", MountFlags::empty(), layers)?;
    // Copies are in memory already, and no read of theirs waits for the host.
    let libraries = fs::read_to_string(LIBRARIES)?;
    let libraries = libraries.lines().filter_map(|line| line.split_once(' '));
    for (from, at) in libraries {
        mount_bind(from, format!("/root{at}"))
            .map_err(|error| io::Error::other(format!("could not bind {at}: {error}")))?;
    }
    // The host may have modules of the same release.
    let at = format!("/root/lib/modules/{release}");
    fs::create_dir_all(&at)?;
    let from = format!("/host{}", guest.modules.display());
    mount_bind(&from, &at).map_err(|error| io::Error::other(format!("could not bind {from}: {error}")))?;
    for (kind, folder) in [("proc", "proc"), ("sysfs", "sys"), ("devtmpfs", "dev"), ("tmpfs", "run")] {
        attach(kind, kind, &format!("/root/{folder}"), MountFlags::empty(), c"")?;
    }
    std::env::set_current_dir("/root")?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    std::env::set_current_dir("/")?;
    attach("devpts", "devpts", "/dev/pts", MountFlags::empty(), c"")?;
    attach("tmpfs", "tmpfs", "/dev/shm", MountFlags::empty(), c"")?;
    // Not there in every kernel.
    let _ = attach("cgroup2", "cgroup2", "/sys/fs/cgroup", MountFlags::empty(), c"");
    let disk = when_there("its disk", || Path::new("/dev/vda").exists().then_some("/dev/vda"))?;
    attach(disk, "ext4", DISK, MountFlags::empty(), c"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_read_back() {
        let guest = Guest {
            modules: "/cache/6.1/lib/modules/6.1.0-51-amd64".into(),
            is_served: true,
            command: vec!["/usr/bin/fstrial".into(), "agent".into(), "--home".into(), DISK.into()],
        };
        assert_eq!(Guest::parse(&guest.text()), Some(guest.clone()));
        assert_eq!(Guest::parse("/modules\nfalse\n"), None, "there is no program");
    }
}
