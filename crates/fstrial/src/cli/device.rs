//! `fstrial device`: the models of devices that ship, and how well a modelled device keeps to its model here.

use super::{Home, in_file, out_file};
use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use fstrial_engine::Usage;
use fstrial_model::{
    device::ModelChoice,
    device_model::{DeviceModel, MODEL_FILE, MODELS, named, shipped},
    units::{Bytes, Nanos, Percent},
};
use fstrial_run::{
    error::ExpectedError,
    exit_code,
    fit::{self, DeviceTraits},
    numbers,
    place::modelled::{MIN_SIZE, Modelled},
    probe::{Probe, ProbeResult, probe, rehearsed},
};
use fstrial_stack::{
    device::{
        Permission,
        disk::{self, Identity},
    },
    ledger::Ledger,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Depths at which a device is checked.
const DEPTHS: [u16; 3] = [1, 4, 32];
/// Duration of each.
const CHECKED_FOR: Nanos = Nanos::millis(1500);

/// List, show, probe and check device models.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    command: DeviceCommand,
}

#[derive(Debug, Subcommand)]
enum DeviceCommand {
    /// List the built-in models.
    #[command(after_long_help = "\
Examples:
  fstrial device list
  fstrial device list --json")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a model as a file, to copy and edit.
    #[command(after_long_help = "\
Examples:
  fstrial device show gp3-3000 > mine.toml")]
    Show {
        /// Model name.
        name: String,
    },
    /// Compare a modelled device on this machine with its model.
    #[command(after_long_help = "\
Examples:
  fstrial device check gp3-3000
  fstrial device check ./mine.toml --size 2GiB")]
    Check {
        /// Model name or file.
        #[arg(value_name = "MODEL", required = true)]
        models: Vec<String>,
        /// Size of the device.
        #[arg(long, default_value = "1GiB", value_name = "SIZE")]
        size: Bytes,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        home: Home,
    },
    /// Measure a real device and write a model of it (read-only without --erase).
    #[command(after_long_help = "\
Examples:
  fstrial device fit /dev/nvme0n1
  fstrial device fit /dev/sdx --erase /dev/sdx --out mine.toml")]
    Fit {
        /// Block device, such as /dev/nvme0n1.
        device: PathBuf,
        /// Also measure writes; repeat the full path of the whole device. All its data are lost.
        #[arg(long, value_name = "DEVICE")]
        erase: Option<PathBuf>,
        /// Type of a signature that may be erased (ext4, gpt …).
        #[arg(long, value_name = "TYPE", requires = "erase")]
        erase_signature: Vec<String>,
        /// Output file, - for standard output.
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        out: PathBuf,
        #[arg(long, requires = "out", help = out_file::FORCE)]
        force: bool,
    },
}

/// Requested and achieved figures.
#[derive(Debug, Serialize)]
struct ModelCheck {
    model: String,
    kind: &'static str,
    depth: u16,
    requested: ProbeResult,
    got: ProbeResult,
}

/// A model by its name on the command line; a file is read.
pub(super) fn choice(name: &str) -> Result<ModelChoice, ExpectedError> {
    if name.ends_with(MODEL_FILE) {
        return Ok(ModelChoice::Written(Box::new(of_file(name.as_ref(), &in_file::text(name.as_ref())?)?)));
    }
    Ok(ModelChoice::Named(name.to_owned()))
}

pub(super) fn of_file(path: &Path, text: &str) -> Result<DeviceModel, ExpectedError> {
    Ok(DeviceModel::parse(&path.display().to_string(), text)?)
}

fn find(name: &str) -> Result<DeviceModel, ExpectedError> {
    match choice(name)? {
        ModelChoice::Written(model) => Ok(*model),
        ModelChoice::Named(name) => {
            named(&name).map_err(|(message, hint)| ExpectedError::usage(message, hint))
        }
    }
}

pub(crate) fn exec(args: &DeviceArgs) -> Result<u8, ExpectedError> {
    match &args.command {
        DeviceCommand::List { json } => list(*json),
        DeviceCommand::Show { name } => {
            let model = find(name)?;
            let text = MODELS.iter().find(|(known, _)| known == name).map(|(_, text)| (*text).to_owned());
            super::print(&text.unwrap_or_else(|| toml::to_string(&model).expect("a model is plain data")));
        }
        DeviceCommand::Check { models, size, json, home } => {
            let models: Vec<DeviceModel> = models.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
            super::conduct::require_root()?;
            let (_lock, ledger) = home.ledger()?;
            check(&models, *size, *json, &ledger)?;
        }
        DeviceCommand::Fit { device, erase, erase_signature, out, force } => {
            let permission = Permission { erase: erase.clone(), erase_signatures: erase_signature.clone() };
            // Before it takes its time.
            out_file::check(out, *force)?;
            let text = fitted(device, &permission)?;
            out_file::write(out, text.as_bytes(), *force)?;
        }
    }
    Ok(exit_code::VERDICT)
}

/// Probes a device; returns its model as a file, with a comparison of the model and the measurement.
fn fitted(device: &Path, permission: &Permission) -> Result<String, ExpectedError> {
    let identity = Identity::of(device)?;
    // Refuses everything that a trial refuses, before anything is written, and holds the device.
    let accepted = permission.erase.as_ref().map(|_| disk::Disk::accept(device, Bytes(0), permission));
    let held = accepted.transpose()?;
    let may_write = held.is_some();
    let usage = if may_write { Usage::ReadWrite } else { Usage::ReadOnly };
    let known = DeviceTraits { size: identity.size()?, is_rotational: identity.is_rotational(), may_write };
    if known.size < MIN_SIZE {
        return Err(ExpectedError::usage(
            format!("{} has {}: too small to be probed", device.display(), known.size.human()),
            format!("name a device of {MIN_SIZE} or more"),
        ));
    }
    let (count, mut seen) = (fit::probes(&known), Vec::new());
    let mut model = fit::fit(&known, &mut |one| {
        let number = u32::try_from(seen.len()).unwrap_or(0);
        let left = f64::from(count.saturating_sub(number)) * fit::PROBED_FOR.as_secs_f64() * 1.2;
        super::say(&format!("{} of {count}: {}, {left:.0} s left\n", number + 1, words_of(one)));
        if may_write {
            // As before every run of a trial: it may have been taken into use since.
            identity.recheck(std::process::id())?;
        }
        let shown = probe(&identity.path, usage, one)?;
        seen.push((*one, shown));
        Ok(shown)
    })?;
    let name = device.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    model.name = name.chars().filter(char::is_ascii).take(60).collect();
    model.about = format!("like {} of this machine", device.display());
    let mut text = String::from("# Measured, and the results of this model for the same requests:\n");
    for (one, shown) in &seen {
        let again = rehearsed(&model, known.size, one);
        text += &format!(
            "#   {}: {} IOPS (model {}), p50 {} (model {})\n",
            words_of(one),
            numbers::rate(shown.iops),
            numbers::rate(again.iops),
            numbers::nanos(shown.p50.as_secs_f64() * 1e9),
            numbers::nanos(again.p50.as_secs_f64() * 1e9),
        );
    }
    text += &toml::to_string(&model).expect("a model is plain data");
    Ok(text)
}

/// `random reads of 4 KiB, depth 4`.
fn words_of(probe: &Probe) -> String {
    let order = if probe.random { "random" } else { "sequential" };
    let kind = if probe.reads { "reads" } else { "writes" };
    let flush = if probe.flushes { " and a flush each" } else { "" };
    format!("{order} {kind} of {}{flush}, depth {}", probe.block.human(), probe.depth)
}

fn list(json: bool) {
    let models = MODELS.iter().filter_map(|(name, _)| shipped(name));
    if json {
        let all: Vec<DeviceModel> = models.collect();
        super::print(&format!("{}\n", serde_json::to_string_pretty(&all).expect("models are plain data")));
        return;
    }
    let mut text = String::from("Models of devices, for --device model:NAME\n\n");
    for model in models {
        text += &format!("  {:<14} {}\n  {:<14}   {}\n", model.name, model.about, "", model.summary());
    }
    text += "\nfstrial device show NAME > my.toml copies one to change; --device model:my.toml uses it.\n";
    super::print_folded(&text);
}

fn check(models: &[DeviceModel], size: Bytes, json: bool, ledger: &Ledger) -> Result<(), ExpectedError> {
    let mut all = Vec::new();
    for model in models {
        let device = Modelled::of_model(model.clone(), size, None, ledger)?;
        let checked = compare(&device, size, ledger)?;
        if !json {
            super::print(&table(&device, &checked));
        }
        all.extend(checked);
    }
    if json {
        super::print(&format!("{}\n", serde_json::to_string_pretty(&all).expect("plain data")));
    }
    Ok(())
}

/// Random reads and writes of 4 KiB at every depth, and writes with a flush each.
fn compare(device: &Modelled, size: Bytes, ledger: &Ledger) -> Result<Vec<ModelCheck>, ExpectedError> {
    let attached = device.attach(ledger)?;
    let mut all = Vec::new();
    for (kind, reads, flushes) in
        [("read", true, false), ("write", false, false), ("write + flush", false, true)]
    {
        for depth in DEPTHS.into_iter().filter(|depth| !flushes || *depth == 1) {
            let one = Probe {
                reads,
                random: true,
                block: Bytes::kib(4),
                depth,
                flushes,
                span: size,
                duration: CHECKED_FOR,
            };
            device.renew(1, Percent::default())?;
            let got = probe(&attached.path(), Usage::ReadWrite, &one)?;
            let requested = rehearsed(device.model(), size, &one);
            all.push(ModelCheck { model: device.model().name.clone(), kind, depth, requested, got });
        }
    }
    attached.close();
    Ok(all)
}

fn table(device: &Modelled, checked: &[ModelCheck]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let headings = ["", "depth", "IOPS requested", "got", "p50 requested", "got", "p99 requested", "got"];
    table.set_header(headings);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let time = |time: Nanos| numbers::nanos(time.as_secs_f64() * 1e9);
    for row in checked {
        table.add_row([
            row.kind.to_owned(),
            row.depth.to_string(),
            if row.requested.iops.is_finite() {
                numbers::rate(row.requested.iops)
            } else {
                "no limit".into()
            },
            numbers::rate(row.got.iops),
            time(row.requested.p50),
            time(row.got.p50),
            time(row.requested.p99),
            time(row.got.p99),
        ]);
    }
    let model = device.model();
    let lines: Vec<String> = table.lines().map(|line| format!("  {}\n", line.trim_end())).collect();
    format!(
        "{}: {}\n  random requests of 4 KiB, direct; the path to the device takes {} here, which is subtracted\n\n{}\n",
        model.name,
        model.summary(),
        numbers::nanos(device.way().as_secs_f64() * 1e9),
        lines.concat()
    )
}
