//! Kernels that guests boot: the distribution's, or one's own, each in a folder of the home.
//!
//! ```text
//! kernels/6.1/vmlinux                    unpacked
//! kernels/6.1/release                    6.1.0-51-amd64
//! kernels/6.1/lib/modules/6.1.0-51-amd64
//! ```
//! Packages come through apt with separate sources, lists and cache: the system's packages and lists stay untouched,
//! and apt verifies them as usual.

use crate::{
    error::ExpectedError,
    place::{boot::Boot, modelled::for_hypervisor},
};
use fstrial_model::{
    job::{FailureKind, RunFailure},
    measurement::Stage,
    place::{self, Clock},
    problem::did_you_mean,
    units::{Bytes, Nanos},
};
use fstrial_stack::{
    StackError,
    command::{Program, find, how_to_install},
    host::path_of_descriptor,
    isolation,
};
use fstrial_vm::{
    guest::{self, Guest},
    image,
    initramfs::Archive,
    machine::{Machine, Processors, QEMU},
    modules::{self, Modules},
};
use rustix::{
    fs::{Mode, OFlags},
    io::{FdFlags, fcntl_setfd},
};
use serde::Serialize;
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::{
            fs::{DirBuilderExt, MetadataExt},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::Command,
};

/// Kernels of the distribution, with the suite that has them.
pub const SUITES: [(&str, &str); 4] =
    [("5.10", "bullseye"), ("6.1", "bookworm"), ("6.12", "trixie"), (CURRENT, "sid")];
/// The newest one.
const CURRENT: &str = "current";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The longest that a download may take.
const DOWNLOAD: Nanos = Nanos::secs(1800);
/// Modules that a guest must have before it sees the host's files; with their help it loads the others later.
const FIRST: [&str; 7] =
    ["virtio_pci", "virtio_console", "virtio_blk", "9pnet_virtio", "9p", "overlay", "ext4"];
/// Modules that the kernel cannot load on demand: nothing refers to them by an alias.
const ALSO: [&str; 3] = ["loop", "zram", "fuse"];
/// The most processors of a guest: its memory does for no more.
const MOST_CPUS: u16 = 16;
/// Program that formats its disk.
const MKFS: &str = "mkfs.ext4";
/// Size of its disk.
const DISK_BYTES: u64 = 8 << 30;
pub use fstrial_vm::guest::{is_first as is_guest, run as be_guest};
/// QEMU's package, by apt, dnf, zypper and pacman.
const QEMU_PACKAGES: [&str; 4] = ["qemu-system-x86", "qemu-system-x86-core", "qemu-x86", "qemu-system-x86"];
/// The suite that has a kernel of the distribution.
fn suite_of(name: &str) -> Option<&'static str> {
    SUITES.iter().find(|(known, _)| *known == name).map(|(_, suite)| *suite)
}

/// Remedy if none can be fetched, or a fetched one is unusable.
const OWN: &str = "take a kernel of your own: `fstrial kernels add NAME --vmlinuz … --modules …`";
const BY_HAND: &str = "fetch one by hand, and take it with `fstrial kernels add`";

/// The kernels of a home.
#[derive(Debug)]
pub struct Kernels {
    folder: PathBuf,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// Name in arms: the `6.1` of `xfs@6.1`.
    pub name: String,
    /// Its release: `6.1.0-51-amd64`.
    pub release: String,
    #[serde(skip)]
    folder: PathBuf,
}

impl Kernel {
    /// The folder of its modules.
    pub fn modules(&self) -> PathBuf {
        self.folder.join("lib/modules").join(&self.release)
    }
}

fn unable(what: &str, hint: &str) -> ExpectedError {
    StackError::Unable { what: what.into(), hint: hint.into() }.into()
}

/// Error for a requirement of guests that this host lacks.
pub fn lacks(what: &str, hint: &str) -> ExpectedError {
    let (kind, stage) = (FailureKind::HostLacks, Stage::Attach);
    let failure = RunFailure { kind, stage, what: what.into(), hint: Some(hint.into()) };
    ExpectedError::Run { context: "guests".into(), failure }
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> ExpectedError {
    let path = path.to_owned();
    move |source| ExpectedError::File { what, path: path.clone(), source }
}

impl Kernels {
    /// Those in a home.
    pub fn of_home(home: &Path) -> Self {
        Self { folder: home.join("kernels") }
    }

    /// All, by name.
    pub fn list(&self) -> Vec<Kernel> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut all: Vec<Kernel> =
            entries.filter_map(|entry| self.named(entry.file_name().to_str()?)).collect();
        all.sort_by(|a, b| version(&a.name).cmp(&version(&b.name)).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// The one of this name, or else of this version, if it is there.
    pub fn find(&self, name: &str) -> Option<Kernel> {
        let is_version = |kernel: &Kernel| kernel.release.starts_with(&format!("{name}."));
        self.named(name).or_else(|| self.list().into_iter().rfind(is_version))
    }

    fn named(&self, name: &str) -> Option<Kernel> {
        if name_problem(name).is_some() {
            return None;
        }
        let folder = self.folder.join(name);
        let release = fs::read_to_string(folder.join("release")).ok()?.trim().to_owned();
        folder.join("vmlinux").exists().then_some(Kernel { name: name.to_owned(), release, folder })
    }

    /// Names of kernels that are there, and of those that can be fetched.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.list().into_iter().map(|kernel| kernel.name).collect();
        names.extend(SUITES.map(|(name, _)| name.to_owned()));
        names.sort_by_key(|name| version(name));
        names.dedup();
        names
    }

    /// True for a known kernel: an installed one, or one that can be fetched.
    pub fn knows(&self, name: &str) -> bool {
        suite_of(name).is_some() || self.find(name).is_some()
    }

    /// The one of this name.
    ///
    /// # Errors
    /// It is not installed; the hint names the command that gets it.
    pub fn required(&self, name: &str) -> Result<Kernel, ExpectedError> {
        self.find(name).ok_or_else(|| {
            let hint = match suite_of(name).is_some() {
                true => format!("get it: `fstrial kernels get {name}`"),
                false => did_you_mean(name, self.list().iter().map(|kernel| kernel.name.as_str()))
                    .unwrap_or_else(|| "`fstrial kernels` lists those that are there".into()),
            };
            ExpectedError::usage(format!("there is no kernel `{name}`"), hint)
        })
    }

    /// Fetches one of the distribution's. `tell` receives the progress.
    ///
    /// # Errors
    /// The kernel is unknown, apt is missing or fails, or the disk is full.
    pub fn get(&self, name: &str, tell: &mut dyn FnMut(&str)) -> Result<Kernel, ExpectedError> {
        let Some(suite) = suite_of(name) else {
            let known = SUITES.map(|(known, _)| known);
            let hint = format!("there are {}; `fstrial kernels add` takes one of your own", known.join(", "));
            return Err(ExpectedError::usage(format!("no suite has the kernel {name}"), hint));
        };
        require_depmod()?;
        let is_new = self.named(name).is_none();
        let work = FetchFolder::begin(&self.folder)?;
        if let Some(kernel) = self.named(name).filter(|_| is_new) {
            // Another command was faster.
            return Ok(kernel);
        }
        let apt = Apt::of(&work, suite)?;
        tell(&format!("reading the packages of {suite}"));
        apt.update()?;
        let packages = apt.kernel()?;
        for package in &packages {
            tell(&format!("fetching {package}"));
            apt.unpack(package)?;
        }
        tell("unpacking");
        let (image, modules) = parts_of(&apt.tree())?;
        work.keep(self, name, &image, &modules)
    }

    /// Adds a user's kernel: an image, and the folder of its modules, named like its release.
    ///
    /// # Errors
    /// A file has the wrong format, or cannot be copied.
    pub fn add(&self, name: &str, image: &Path, modules: &Path) -> Result<Kernel, ExpectedError> {
        if let Some(problem) = name_problem(name) {
            return Err(ExpectedError::usage(format!("`{name}` cannot name a kernel"), problem));
        }
        if suite_of(name).is_some() {
            let hint = format!("call yours something else, such as my-{name}");
            return Err(ExpectedError::usage(format!("`{name}` is the distribution's"), hint));
        }
        require_depmod()?;
        let modules = fs::canonicalize(modules).map_err(failed("open", modules))?;
        if !modules.join("kernel").is_dir() {
            return Err(ExpectedError::usage(
                format!("{} is not the folder of a kernel's modules", modules.display()),
                "name the folder of one release, such as lib/modules/6.18.0-rc3 in the output of \
                     `make modules_install`",
            ));
        }
        let work = FetchFolder::begin(&self.folder)?;
        let copy = work.folder.join("tree").join(modules.file_name().unwrap_or_default());
        fs::create_dir_all(work.folder.join("tree")).map_err(failed("make", &work.folder))?;
        let [from, to] = [&modules, &copy].map(|path| path.display().to_string());
        let copying = ["-a", "--no-preserve=ownership", "--", &from, &to];
        Program::new("cp").args(copying).deadline(DOWNLOAD).run()?;
        work.keep(self, name, image, &copy)
    }

    /// Removes one.
    ///
    /// # Errors
    /// It is not there, a guest runs under it, or it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), ExpectedError> {
        let work = FetchFolder::begin(&self.folder)?;
        let missing = || {
            let hint = "`fstrial kernels` lists those that are there";
            ExpectedError::usage(format!("there is no kernel `{name}`"), hint)
        };
        work.take(&self.named(name).ok_or_else(missing)?)
    }
}

/// Path of QEMU.
///
/// # Errors
/// It is not installed.
pub fn require_qemu() -> Result<PathBuf, ExpectedError> {
    if !cfg!(target_arch = "x86_64") {
        return Err(lacks("they take an x86-64 machine", "compare machines with --place"));
    }
    if find(MKFS).is_none() {
        let hint = format!("install it: {}", how_to_install(["e2fsprogs"; 4]));
        return Err(lacks(&format!("{MKFS} is not installed, which formats their disks"), &hint));
    }
    find(QEMU).ok_or_else(|| {
        let hint = format!("install it: {}", how_to_install(QEMU_PACKAGES));
        lacks(&format!("{QEMU} is not installed, which runs them"), &hint)
    })
}

/// A guest under a kernel as a step of a dry run, with its undo.
pub fn step(kernel: &str, boot: &Boot) -> (String, &'static str) {
    let processors = match boot.clock {
        Clock::Real => "this machine's processors by KVM",
        Clock::Virtual => "1 emulated processor in virtual time",
        Clock::Emulator => "1 emulated processor",
    };
    (
        format!(
            "boot a guest under the kernel {kernel} ({QEMU}: {processors}, {} of memory, the host's files to read, a disk of {} in a \
             nameless file of the home)",
            boot.memory(),
            Bytes(DISK_BYTES)
        ),
        "the guest powers off at the end of its input, and its disk is discarded",
    )
}

fn processors(clock: Clock, disk: &Path) -> Processors {
    match clock {
        Clock::Real => Processors::Kvm {
            cpus: crate::environment::cpus().min(MOST_CPUS),
            direct_io: takes_direct_io(disk),
        },
        Clock::Virtual => Processors::Virtual,
        Clock::Emulator => Processors::Emulated,
    }
}

/// Before anything is fetched or copied.
fn require_depmod() -> Result<(), ExpectedError> {
    find("depmod").map(drop).ok_or_else(|| {
        let hint = format!("install it: {}", how_to_install(["kmod"; 4]));
        unable("depmod is not installed: it writes down which modules need which", &hint)
    })
}

/// Why a word cannot name a kernel, if it cannot.
fn name_problem(name: &str) -> Option<String> {
    let is_hidden =
        name.starts_with('.').then(|| "a name begins with a letter, a digit, a dash or an underscore".into());
    place::name_problem(name).map(|problem| problem.replace("a place", "a kernel")).or(is_hidden)
}

/// `6.12` as [6, 12], for the order of a list; other names come last.
fn version(name: &str) -> Vec<u32> {
    let numbers: Option<Vec<u32>> = name.split('.').map(|part| part.parse().ok()).collect();
    numbers.unwrap_or_else(|| vec![u32::MAX])
}

/// A folder that becomes a kernel when it is whole. One that was left by a command that was killed is removed by the next.
struct FetchFolder {
    folder: PathBuf,
    /// Others wait until it is given up.
    _lock: File,
}

impl FetchFolder {
    fn begin(kernels: &Path) -> Result<Self, ExpectedError> {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(kernels).map_err(failed("make", kernels))?;
        let at = kernels.join(".lock");
        let lock =
            File::create(&at).and_then(|lock| lock.lock().map(|()| lock)).map_err(failed("lock", &at))?;
        let folder = kernels.join(".work");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", &folder)(error));
            }
            _ => {}
        }
        fs::DirBuilder::new().mode(0o755).create(&folder).map_err(failed("make", &folder))?;
        Ok(Self { folder, _lock: lock })
    }

    /// Takes a kernel out of the list, in one step; it is removed with this folder.
    fn take(&self, kernel: &Kernel) -> Result<(), ExpectedError> {
        let lock = File::open(&kernel.folder).map_err(failed("open", &kernel.folder))?;
        lock.try_lock().map_err(|_| {
            unable(
                &format!("a guest runs under the kernel {}", kernel.name),
                "try again when its trial has ended",
            )
        })?;
        fs::rename(&kernel.folder, self.folder.join("old")).map_err(failed("move", &kernel.folder))
    }

    /// Unpacks the image, has the modules' dependencies written down, and gives the kernel its name.
    fn keep(
        &self,
        kernels: &Kernels,
        name: &str,
        image: &Path,
        modules: &Path,
    ) -> Result<Kernel, ExpectedError> {
        let whole = self.folder.join("kernel");
        let release = modules.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        // Before the modules are moved, next to which it may be.
        let bytes = fs::read(image).map_err(failed("read", image))?;
        let kernel = image::vmlinux(&bytes).map_err(|error| {
            ExpectedError::usage(
                format!("{}: {error}", image.display()),
                "name the vmlinuz or bzImage of a kernel",
            )
        })?;
        let version = format!("Linux version {release} ");
        if !kernel.windows(version.len()).any(|part| part == version.as_bytes()) {
            return Err(ExpectedError::usage(
                format!("{} is not the kernel of the modules of {release}", image.display()),
                "name the image and the modules of one build",
            ));
        }
        let all = whole.join("lib/modules");
        fs::create_dir_all(&all).map_err(failed("make", &all))?;
        fs::rename(modules, all.join(&release)).map_err(failed("move", modules))?;
        let base = whole.display().to_string();
        Program::new("depmod").args(["-b", &base, &release]).run()?;
        let write = |file: &str, bytes: &[u8]| {
            let path = whole.join(file);
            fs::write(&path, bytes).map_err(failed("write", &path))
        };
        write("vmlinux", &kernel)?;
        write("release", release.as_bytes())?;
        let folder = kernels.folder.join(name);
        if let Some(old) = kernels.named(name) {
            self.take(&old)?;
        }
        fs::rename(&whole, &folder).map_err(failed("move", &whole))?;
        Ok(Kernel { name: name.to_owned(), release, folder })
    }
}

impl Drop for FetchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// apt, kept away from the system's configuration, lists and cache.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn of(work: &FetchFolder, suite: &str) -> Result<Self, ExpectedError> {
        let folder = work.folder.join("apt");
        for part in ["lists/partial", "cache/archives/partial", "state", "packages", "tree"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(failed("make", &path))?;
        }
        let sources = folder.join("sources.list");
        let line = format!("deb [signed-by={KEYRING}] {} {suite} main\n", mirror()?);
        fs::write(&sources, line).map_err(failed("write", &sources))?;
        fs::write(folder.join("status"), "").map_err(failed("write", &folder))?;
        let apt = Self { folder };
        if apt.folder.display().to_string().contains(|c: char| ['"', '\\'].contains(&c) || c.is_control()) {
            let what = format!("{} cannot be written into apt's configuration", apt.folder.display());
            return Err(unable(&what, "use a --home without quotes and backslashes"));
        }
        let settings = apt.settings();
        fs::write(settings, apt.configuration()).map_err(failed("write", &apt.folder))?;
        Ok(apt)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn settings(&self) -> PathBuf {
        self.folder.join("apt.conf")
    }

    /// The system's configuration is read first; proxies and the like stay, but settings that name its files, prefer
    /// packages or start commands do not.
    fn configuration(&self) -> String {
        let folder = self.folder.display();
        format!(
            "#clear APT::Update;\n#clear APT::NeverAutoRemove;\n\
             APT::Default-Release \"\";\n\
             APT::Get::AllowUnauthenticated \"false\";\n\
             Acquire::AllowInsecureRepositories \"false\";\n\
             Acquire::AllowDowngradeToInsecureRepositories \"false\";\n\
             APT::Architecture \"amd64\";\n\
             APT::Sandbox::User \"\";\n\
             Acquire::Languages \"none\";\n\
             Dir::Etc::sourcelist \"{folder}/sources.list\";\n\
             Dir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferences \"/dev/null\";\n\
             Dir::Etc::preferencesparts \"/dev/null\";\n\
             Dir::State \"{folder}/state\";\n\
             Dir::State::Lists \"{folder}/lists\";\n\
             Dir::State::status \"{folder}/status\";\n\
             Dir::Cache \"{folder}/cache\";\n"
        )
    }

    fn options(&self) -> [String; 2] {
        ["-c".into(), self.settings().display().to_string()]
    }

    fn update(&self) -> Result<(), ExpectedError> {
        let update = Program::new("apt-get").args(self.options()).args(["-q", "update"]);
        update.deadline(DOWNLOAD).run().map(drop).map_err(Into::into)
    }

    /// The packages that hold the kernel of the suite: `linux-image-amd64` depends on one that either is it or depends on its parts.
    fn kernel(&self) -> Result<Vec<String>, ExpectedError> {
        let image =
            self.depends("linux-image-amd64")?.into_iter().find(|name| name.starts_with("linux-image-"));
        let image = image.ok_or_else(|| unable("linux-image-amd64 depends on no kernel", BY_HAND))?;
        let is_part =
            |name: &String| ["linux-binary-", "linux-modules-"].iter().any(|part| name.starts_with(part));
        let parts: Vec<String> = self.depends(&image)?.into_iter().filter(is_part).collect();
        Ok(if parts.is_empty() { vec![image] } else { parts })
    }

    fn depends(&self, package: &str) -> Result<Vec<String>, ExpectedError> {
        let output = Program::new("apt-cache").args(self.options()).args(["depends", package]).run()?.stdout;
        let names = output.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.map(|name| name.trim_matches(['<', '>']).to_owned()).collect())
    }

    fn unpack(&self, package: &str) -> Result<(), ExpectedError> {
        let packages = self.folder.join("packages");
        // apt-get has no option for the folder.
        let into = format!("--chdir={}", packages.display());
        let download = Program::new("env").args([into.as_str(), "apt-get"]).args(self.options());
        download.args(["-q", "download", package]).deadline(DOWNLOAD).run()?;
        for entry in fs::read_dir(&packages).map_err(failed("list", &packages))?.flatten() {
            let [from, to] = [entry.path(), self.tree()].map(|path| path.display().to_string());
            Program::new("dpkg-deb").args(["-x", &from, &to]).deadline(DOWNLOAD).run()?;
            fs::remove_file(entry.path()).map_err(failed("remove", &entry.path()))?;
        }
        Ok(())
    }
}

/// Source of the system's own packages.
fn mirror() -> Result<String, ExpectedError> {
    if find("apt-get").is_none() || !Path::new(KEYRING).exists() {
        return Err(unable(
            "this system has no apt, or not Debian's keys: kernels are fetched through it",
            OWN,
        ));
    }
    let uris = |filters: &[&str]| -> Result<String, ExpectedError> {
        let words = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
        Ok(Program::new("apt-get").args(words).args(filters.iter().copied()).run()?.stdout)
    };
    let is_main = |uri: &&str| uri.trim_end_matches('/').ends_with("/debian");
    // Origins are known after the first update only.
    if let Some(mirror) = uris(&["Origin: Debian", "Label: Debian"])?.lines().next() {
        return Ok(mirror.to_owned());
    }
    let mirror = uris(&[])?.lines().find(is_main).map(str::to_owned);
    mirror.ok_or_else(|| unable("apt has no mirror of Debian", OWN))
}

/// The image and the modules in an unpacked package: `boot/vmlinuz-V`, or `vmlinuz` next to the modules.
fn parts_of(tree: &Path) -> Result<(PathBuf, PathBuf), ExpectedError> {
    let in_folder =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut modules = ["usr/lib/modules", "lib/modules"].iter().flat_map(|at| in_folder(tree.join(at)));
    let parts = modules.find_map(|modules| {
        let release = modules.file_name()?.to_str()?.to_owned();
        let places = [tree.join("boot").join(format!("vmlinuz-{release}")), modules.join("vmlinuz")];
        let image = places.into_iter().find(|path| path.exists())?;
        Some((image, modules))
    });
    parts.ok_or_else(|| unable("the packages hold no kernel with modules", BY_HAND))
}

/// Becomes the guest of a kernel, in which this very program is an agent on this process's standard input and output.
/// `how`: a [`Boot`] as JSON.
///
/// # Errors
/// The kernel lacks a requirement of guests, QEMU cannot be started, or the device cannot be served.
pub fn become_guest(kernel: &Kernel, how: &str) -> Result<(), ExpectedError> {
    let boot: Boot = serde_json::from_str(how)
        .map_err(|error| ExpectedError::usage(error.to_string(), "fstrial itself boots guests"))?;
    isolation::die_with_parent()?;
    // QEMU inherits it: as long as a guest runs, its kernel is neither removed nor replaced.
    let lock = locked(&kernel.folder)?;
    let program = require_qemu()?;
    let initramfs = nameless(&kernel.folder)?;
    first_files(kernel, boot.device.is_some(), &initramfs)?;
    let disk = nameless(&kernel.folder)?;
    disk.set_len(DISK_BYTES).map_err(failed("enlarge", &kernel.folder))?;
    // Here, outside emulated time.
    let path = path_of_descriptor(disk.as_fd()).display().to_string();
    let without_journal = ["-q", "-F", "-O", "^has_journal", "-E", "nodiscard", &path];
    Program::new(MKFS).args(without_journal).run()?;
    let device = boot.device.as_ref().map(for_hypervisor).transpose()?;
    let at = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let machine = Machine {
        kernel: kernel.folder.join("vmlinux"),
        initramfs: at(&initramfs),
        // Its last words are those of the command.
        console: "/proc/self/fd/2".into(),
        disk: at(&disk),
        memory: u32::try_from(boot.memory().0.div_ceil(1 << 20)).unwrap_or(u32::MAX),
        processors: processors(boot.clock, &at(&disk)),
        device: device.as_ref().map(|[disk, port]| [disk.as_raw_fd(), port.as_raw_fd()]),
    };
    [&lock, &initramfs, &disk].into_iter().try_for_each(inherited)?;
    device.iter().flatten().try_for_each(inherited)?;
    #[expect(clippy::disallowed_methods, reason = "becomes the guest: no part of this process lives on")]
    let error = Command::new(&program).args(machine.words()).exec();
    Err(StackError::io("start", program, error).into())
}

/// True if a file can be used without the page cache of this host, which would serve the guest's reads.
fn takes_direct_io(path: &Path) -> bool {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).is_ok()
}

/// A lock on the kernel in a folder, which another command may have replaced meanwhile.
fn locked(folder: &Path) -> Result<File, ExpectedError> {
    let lock = File::open(folder).map_err(failed("open", folder))?;
    lock.lock_shared().map_err(failed("lock", folder))?;
    let inode = |result: io::Result<fs::Metadata>| result.map(|result| (result.dev(), result.ino())).ok();
    match inode(lock.metadata()) == inode(fs::metadata(folder)) {
        true => Ok(lock),
        false => Err(unable("the kernel was removed or replaced just now", "try again")),
    }
}

/// QEMU has it too.
fn inherited(descriptor: &impl AsFd) -> Result<(), ExpectedError> {
    fcntl_setfd(descriptor, FdFlags::empty())
        .map_err(|error| StackError::io("keep", "an open file", error).into())
}

/// A file that disappears with the last process that has it open, and that QEMU inherits.
fn nameless(folder: &Path) -> Result<File, ExpectedError> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)
        .map(File::from)
        .map_err(|error| failed("make a file in", folder)(error.into()))
}

fn first_files(kernel: &Kernel, is_served: bool, out: &File) -> Result<(), ExpectedError> {
    let own = std::env::current_exe().map_err(failed("find", Path::new("/proc/self/exe")))?;
    let write = || -> io::Result<()> {
        let mut archive = Archive::new(BufWriter::new(out));
        archive.file("init", 0o755, image::loaded(&fs::read(&own)?))?;
        let mut named = format!("/init {}\n", own.display());
        for library in libraries(&own) {
            let name = library.display().to_string();
            archive.file(&name, 0o755, &fs::read(&library)?)?;
            // Links on the way would lead to the first files.
            named += &format!("{name} {}\n", fs::canonicalize(&library)?.display());
        }
        archive.file(guest::LIBRARIES, 0o644, named.as_bytes())?;
        for folder in ["proc", "sys", "dev", "host", "memory", "root"] {
            archive.folder(folder)?;
        }
        let modules = Modules::read(&kernel.modules())?;
        let also = ALSO.iter().filter(|name| modules.has(name));
        let wanted: Vec<&str> = FIRST.iter().chain(also).copied().collect();
        let order = modules.in_order(&wanted).map_err(|name| {
            io::Error::other(format!("the kernel {} has no {name}, which a guest needs", kernel.release))
        })?;
        let mut names = String::new();
        for (number, path) in order.iter().enumerate() {
            let at = format!("/guest/{number:02}.ko");
            archive.file(&at, 0o644, &modules::contents(path)?)?;
            names += &format!("{at}\n");
        }
        archive.file(guest::FIRST_MODULES, 0o644, names.as_bytes())?;
        let home = format!("--home={}/home", guest::DISK);
        let command = vec![own.display().to_string(), "agent".into(), home];
        // The guest has other roots for links on the way.
        let orders = Guest { modules: fs::canonicalize(kernel.modules())?, is_served, command };
        archive.file(guest::ORDERS, 0o644, orders.text().as_bytes())?;
        archive.finish()?.flush()
    };
    write().map_err(failed("make the first files of a guest in", &kernel.folder))
}

/// The libraries that a program is linked with, and their loader; none for a static one.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let path = program.display().to_string();
    let output =
        Program::new("ldd").args([path.as_str()]).finish().map(|ended| ended.stdout).unwrap_or_default();
    let named = |line: &str| {
        let word = line.split("=>").last()?.split_whitespace().next()?;
        word.starts_with('/').then(|| PathBuf::from(word))
    };
    output.lines().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_found_in_every_layout() {
        for (image, modules) in [
            ("boot/vmlinuz-6.1.0-51-amd64", "lib/modules/6.1.0-51-amd64"),
            ("boot/vmlinuz-6.12.9", "usr/lib/modules/6.12.9"),
            ("usr/lib/modules/7.2.12/vmlinuz", "usr/lib/modules/7.2.12"),
        ] {
            let tree = tempfile::tempdir().unwrap();
            let [image, modules] = [image, modules].map(|part| tree.path().join(part));
            fs::create_dir_all(&modules).unwrap();
            assert!(parts_of(tree.path()).is_err());
            fs::create_dir_all(image.parent().unwrap()).unwrap();
            fs::write(&image, "").unwrap();
            assert_eq!(parts_of(tree.path()).unwrap(), (image, modules));
        }
    }

    #[test]
    fn kernels_are_listed_by_version_and_by_no_path() {
        let home = tempfile::tempdir().unwrap();
        let kernels = Kernels::of_home(home.path());
        assert!(kernels.list().is_empty());
        for name in ["mine", "6.12", "6.1", ".work", "5.10"] {
            let folder = home.path().join("kernels").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("release"), format!("{name}.0\n")).unwrap();
            fs::write(folder.join("vmlinux"), "").unwrap();
        }
        fs::create_dir_all(home.path().join("kernels/half")).unwrap();
        let names: Vec<String> = kernels.list().into_iter().map(|kernel| kernel.name).collect();
        assert_eq!(names, ["5.10", "6.1", "6.12", "mine"]);
        assert_eq!(kernels.find("6.1").unwrap().release, "6.1.0");
        assert_eq!(kernels.find("../kernels/6.1"), None);
        let message = |name: &str| kernels.required(name).unwrap_err().hint().unwrap();
        assert!(message("current").contains("kernels get current"), "{}", message("current"));
        assert!(message("min").contains("did you mean `mine`?"), "{}", message("min"));
        kernels.remove("mine").unwrap();
        assert_eq!(kernels.find("mine"), None);
    }
}
