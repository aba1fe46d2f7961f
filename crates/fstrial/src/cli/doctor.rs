//! `fstrial doctor`: this host's abilities, the packages to install for the rest, the overhead of the instrument, and
//! the noise.

use super::{Home, conduct, lacking, noise};
use anstyle::{AnsiColor, Style};
use clap::Args;
use fstrial_model::{
    filesystem::{FILESYSTEMS, Filesystem},
    memory::LimitedBy,
    preset,
    workload::{Entry, HELPERS, KeyValueEngine},
};
use fstrial_report::json_lines;
use fstrial_run::{
    environment::Environment,
    error::ExpectedError,
    exit_code,
    interrupt::Interrupt,
    kernels::{Kernels, require_qemu},
    kvm, numbers, program,
};
use fstrial_stack::{
    StackError,
    command::{self, Program},
    device::zram,
    host,
    ledger::Ledger,
    memory,
};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    fmt::Write,
    path::{Path, PathBuf},
};

/// Report what this host can run, what to install for the rest, the instrument's overhead, and detectable differences.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial doctor
  fstrial doctor --no-noise --json
  sudo fstrial doctor --folder /srv")]
pub(crate) struct DoctorArgs {
    /// Skip the self-comparisons, which take a minute.
    #[arg(long)]
    no_noise: bool,

    /// Folder of the image for the self-comparison on the real device.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    home: Home,
}

/// Everything detected.
#[derive(Debug, Serialize)]
struct Findings {
    schema_version: u32,
    environment: Environment,
    root: bool,
    checks: Vec<Check>,
    filesystems: Vec<FilesystemCheck>,
    engine: Option<fstrial_engine::Overhead>,
    /// On an image, and on a modelled device if there can be one.
    noise: Vec<noise::Noise>,
    noise_missing: Option<String>,
}

/// Something that is there or not.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    found: String,
}

/// Availability of a filesystem as an arm.
#[derive(Debug, Serialize)]
struct FilesystemCheck {
    name: &'static str,
    in_kernel: bool,
    mkfs: Option<String>,
    fsck: Option<bool>,
    install: Option<String>,
}

pub(crate) fn exec(args: &DoctorArgs) -> Result<u8, ExpectedError> {
    let root = host::is_root();
    let interrupt = conduct::interrupt()?;
    interrupt.end_at_once(true);
    let mut findings = Findings {
        schema_version: 2,
        environment: Environment::of_this_machine(),
        root,
        checks: checks(&args.home.folder()?),
        filesystems: FILESYSTEMS.iter().map(filesystem).collect(),
        engine: fstrial_engine::measure_overhead().ok(),
        noise: Vec::new(),
        noise_missing: None,
    };
    // The checks need no measuring: they are shown before the minute of noise.
    if !args.json {
        super::print_folded(&render(&findings));
    }
    interrupt.end_at_once(false);
    (findings.noise, findings.noise_missing) = noise(args, root, &interrupt)?;
    if args.json {
        json_lines::print(&findings);
    } else {
        super::print_folded(&render_noise(&findings));
    }
    let usable = findings.filesystems.iter().filter(|f| f.in_kernel && f.mkfs.is_some()).count();
    Ok(if root && usable < 2 { exit_code::HOST_LACKS } else { exit_code::VERDICT })
}

/// The noise of this machine, or why it is not known.
fn noise(
    args: &DoctorArgs,
    root: bool,
    interrupt: &Interrupt,
) -> Result<(Vec<noise::Noise>, Option<String>), ExpectedError> {
    match (args.no_noise, root) {
        (true, _) => Ok((Vec::new(), Some("skipped as requested".to_owned()))),
        (false, false) => Ok((Vec::new(), Some("the self-comparison needs root".to_owned()))),
        (false, true) => {
            super::say("comparing a filesystem with itself takes about a minute; --no-noise leaves it out\n");
            let measure = |(_lock, ledger): (_, Ledger)| noise::measure(&args.folder, &ledger, interrupt);
            match args.home.ledger().and_then(measure) {
                Ok(noise) => Ok((noise, None)),
                Err(interrupted @ ExpectedError::Stack(StackError::Interrupted)) => Err(interrupted),
                Err(error) => Ok((Vec::new(), Some(format!("the self-comparison failed: {error}")))),
            }
        }
    }
}

fn filesystem(row: &'static Filesystem) -> FilesystemCheck {
    let version = command::find(row.mkfs)
        .and_then(|_| Program::new(row.mkfs).args([row.mkfs_version]).finish().ok())
        .map(|done| {
            let both = format!("{}\n{}", done.stdout, done.stderr);
            both.lines()
                .find(|line| line.chars().any(|c| c.is_ascii_digit()))
                .unwrap_or("version unknown")
                .trim()
                .to_owned()
        });
    let missing = version.is_none();
    FilesystemCheck {
        name: row.name,
        in_kernel: host::has_filesystem(row).unwrap_or(false),
        fsck: row.fsck.map(|(program, _)| command::find(program).is_some()),
        install: missing.then(|| command::how_to_install(row.packages)),
        mkfs: version,
    }
}

fn checks(home: &Path) -> Vec<Check> {
    let exists = |path: &str| Path::new(path).exists();
    let schedulers = std::fs::read_dir("/sys/block")
        .ok()
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("queue/scheduler")).ok())
        .map(|text| text.replace(['[', ']'], "").trim().to_owned())
        .max_by_key(String::len)
        .unwrap_or_default();
    let disabled =
        std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").map(|text| text.trim().to_owned());
    let uring = !matches!(disabled.as_deref(), Ok("1" | "2"));
    let tools = ["wipefs", "blkid", "mount", "dumpe2fs"]
        .into_iter()
        .filter(|tool| command::find(tool).is_none())
        .collect::<Vec<_>>();
    let mut checks = vec![
        Check {
            name: "root",
            ok: host::is_root(),
            found: if host::is_root() { "yes" } else { "no: only dir: arms can be compared" }.into(),
        },
        Check {
            name: "loop devices",
            ok: exists("/dev/loop-control") && host::is_root(),
            found: match (exists("/dev/loop-control"), host::is_root()) {
                (true, true) => "yes (device image)",
                (true, false) => "for root only",
                (false, _) => "no: modprobe loop",
            }
            .into(),
        },
        for_root("ramdisk", true, ramdisk()),
        for_root("schedulers", !schedulers.is_empty(), schedulers),
        memory_limit(),
        Check {
            name: "io_uring",
            ok: uring,
            found: if uring { "allowed" } else { "switched off by kernel.io_uring_disabled" }.into(),
        },
        Check {
            name: "tools",
            ok: tools.is_empty(),
            found: if tools.is_empty() {
                "complete".into()
            } else {
                format!("missing: {}", tools.join(", "))
            },
        },
        benchmarks(),
    ];
    checks.extend(SERVERS.map(server));
    checks.push(engines());
    checks.push(guests(home));
    checks
}

/// A check of a feature that requires root.
fn for_root(name: &'static str, is_here: bool, found: String) -> Check {
    match host::is_root() {
        true => Check { name, ok: is_here, found },
        false => Check { name, ok: false, found: "for root only".into() },
    }
}

/// Servers of the presets, with their server and client programs.
const SERVERS: [(&str, [&str; 2]); 2] =
    [("postgresql", ["postgres", "pgbench"]), ("mariadb", ["mariadbd", "sysbench"])];

/// Checks that a server and its client are installed; otherwise lists the packages.
fn server((name, programs): (&'static str, [&str; 2])) -> Check {
    let missing = programs.into_iter().find(|program| command::find(program).is_none());
    let version = || Program::new(programs[0]).args(["--version"]).finish().ok();
    let found = match missing {
        Some(program) => format!("{program} is missing; {}", program::install(program)),
        None => {
            version().and_then(|output| output.stdout.lines().next().map(str::to_owned)).unwrap_or_default()
        }
    };
    Check { name, ok: missing.is_none(), found }
}

/// The engines of YCSB's workloads, and the installation of those in separate programs.
fn engines() -> Check {
    let linked = fstrial_kv::ENGINES.map(KeyValueEngine::name).join(", ");
    let version = |name: &str| {
        let helper = command::find_own(name)?;
        let output = Program::new(helper.to_str()?).args(["--engine-version"]).finish().ok()?.stdout;
        output.lines().next().map(str::to_owned)
    };
    let versions = HELPERS.map(|(name, _)| version(name).ok_or(name));
    let ok = versions.iter().all(Result::is_ok);
    let of_helpers = versions.map(|found| {
        found.unwrap_or_else(|name| {
            format!("{} is missing; {}", name.trim_start_matches("fstrial-"), program::install(name))
        })
    });
    Check { name: "engines", ok, found: format!("{linked}; {} (--engine)", of_helpers.join("; ")) }
}

/// Requirements of arms under other kernels, and the installed kernels.
fn guests(home: &Path) -> Check {
    let kernels = Kernels::of_home(home).list();
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let found = match (require_qemu(), kernels.last()) {
        (Err(error), _) => lacking::with_hint(&error),
        (Ok(_), None) => "QEMU; get a kernel: `fstrial kernels get 6.12`".into(),
        (Ok(_), Some(kernel)) => {
            let tried = kvm::problem(home, kernel, &mut |line| super::say(&format!("{line}\n")));
            let processors = match tried {
                Ok(None) => "guests use KVM".into(),
                Ok(Some(problem)) => format!("their processors are emulated ({problem})"),
                Err(error) => error.to_string(),
            };
            format!("QEMU; kernels {} (`fstrial kernels`); {processors}", names.join(", "))
        }
    };
    Check { name: "guests", ok: require_qemu().is_ok(), found }
}

/// The programs that presets run.
fn benchmarks() -> Check {
    let programs = preset::names()
        .filter(|name| name.starts_with("real-"))
        .filter_map(|name| Entry::of_preset(name).resolve(1).ok()?.program().cloned());
    let programs: BTreeSet<String> =
        programs.filter_map(|timed| timed.program.command.first().cloned()).collect();
    let (here, missing): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| command::find(program).is_some());
    let list = |what: &str, programs: &[String]| {
        (!programs.is_empty()).then(|| format!("{what}{}", programs.join(", ")))
    };
    let found: Vec<String> = [list("", &here), list("missing: ", &missing)].into_iter().flatten().collect();
    Check {
        name: "benchmarks",
        ok: missing.is_empty(),
        found: format!("{} (presets real-…)", found.join("; ")),
    }
}

/// The check of the memory limit for loads, with its mechanism.
fn memory_limit() -> Check {
    let found = match (host::is_root(), memory::find()) {
        (false, _) => Err("needs root (memory=)".to_owned()),
        (true, Ok(by @ LimitedBy::V1)) => {
            Ok(format!("{by}: cache and reads; buffered writes only roughly (memory=)"))
        }
        (true, Ok(by)) => Ok(format!("{by} (memory=)")),
        (true, Err(error)) => Err(error.to_string()),
    };
    Check { name: "memory limit", ok: found.is_ok(), found: found.unwrap_or_else(|why| why) }
}

fn ramdisk() -> String {
    if Path::new("/dev/ram0").exists() {
        "brd".into()
    } else if zram::is_available() {
        "zram, a device made by fstrial (fast for data of one repeated word)".into()
    } else {
        "loop device on memory".into()
    }
}

fn render(findings: &Findings) -> String {
    const HEADING: Style = Style::new().bold();
    let mut out = String::new();
    let _ = writeln!(out, "{HEADING}This machine{HEADING:#}");
    for line in findings.environment.describe() {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "\n{HEADING}This host{HEADING:#}");
    for check in &findings.checks {
        let _ = writeln!(out, "  {} {:13} {}", mark(check.ok), check.name, check.found);
    }
    let for_root = if findings.root { "" } else { ": to make and mount them takes root" };
    let _ = writeln!(out, "\n{HEADING}Filesystems{HEADING:#}{for_root}");
    for row in &findings.filesystems {
        let _ = writeln!(
            out,
            "  {} {:13} {}",
            mark(findings.root && row.in_kernel && row.mkfs.is_some()),
            row.name,
            describe(row)
        );
    }
    if let Some(engine) = &findings.engine {
        let _ = writeln!(out, "\n{HEADING}The instrument{HEADING:#}");
        let clock = match engine.clock {
            fstrial_model::measurement::ClockSource::TimeStampCounter => "time-stamp counter",
            fstrial_model::measurement::ClockSource::Monotonic => "clock_gettime",
        };
        let _ = writeln!(
            out,
            "  clock: {clock}, {:.0} ns a reading · histogram {:.0} ns · loop {:.0} ns an operation",
            engine.clock_ns, engine.histogram_ns, engine.loop_ns_per_op
        );
        let _ = writeln!(
            out,
            "  4 KiB read from memory: {:.0} ns, {:.3} times a minimal loop in the same run",
            engine.pread_loop_ns_per_op, engine.ratio
        );
        let share = |rate: f64| engine.loop_ns_per_op * rate / 1e9 * 100.0;
        let _ = writeln!(
            out,
            "  share of a core: {:.1} % at 10 000 operations a second, {:.1} % at 100 000; ceiling {}/s",
            share(1e4),
            share(1e5),
            numbers::rate(1e9 / engine.loop_ns_per_op)
        );
    }
    out
}

fn render_noise(findings: &Findings) -> String {
    const HEADING: Style = Style::new().bold();
    let mut out = String::new();
    let _ = writeln!(out, "\n{HEADING}Noise{HEADING:#}");
    if let Some(reason) = &findings.noise_missing {
        let _ = writeln!(out, "  {reason}");
    }
    let Some(first) = findings.noise.first() else { return out };
    let _ = writeln!(out, "  {}", first.of);
    for noise in &findings.noise {
        let _ = writeln!(
            out,
            "  on {}: median difference of identical arms in a round: {:.1} % ({} rounds)",
            noise.on, noise.percent, noise.rounds
        );
        for row in &noise.detectable {
            let _ = writeln!(
                out,
                "    a difference of {:>2} %: detected in {:.0} % of trials, after a median of {} rounds ({} for two arms)",
                row.percent,
                row.power * 100.0,
                row.rounds,
                numbers::wait(row.seconds)
            );
        }
    }
    out
}

fn describe(row: &FilesystemCheck) -> String {
    match (&row.mkfs, row.in_kernel, &row.install) {
        (Some(version), true, _) => {
            let fsck = if row.fsck == Some(false) { " · its check program is missing (fsck)" } else { "" };
            format!("{version}{fsck}")
        }
        // Without the kernel's support its tools would not help.
        (_, false, _) => "not in this kernel".into(),
        (None, true, install) => format!("mkfs missing: {}", install.as_deref().unwrap_or_default()),
    }
}

fn mark(ok: bool) -> String {
    const GOOD: Style = AnsiColor::Green.on_default();
    const BAD: Style = AnsiColor::Yellow.on_default();
    if ok { format!("{GOOD}✓{GOOD:#}") } else { format!("{BAD}–{BAD:#}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_hint_requires_kernel_support() {
        let row = |in_kernel| FilesystemCheck {
            name: "f2fs",
            in_kernel,
            mkfs: None,
            fsck: None,
            install: Some("apt install f2fs-tools".into()),
        };
        assert_eq!(describe(&row(false)), "not in this kernel");
        assert_eq!(describe(&row(true)), "mkfs missing: apt install f2fs-tools");
    }

    #[test]
    fn the_programs_of_presets_are_looked_for() {
        let check = benchmarks();
        for program in ["bonnie++", "dbench", "fio", "sysbench"] {
            assert!(check.found.contains(program), "{}", check.found);
        }
    }
}
