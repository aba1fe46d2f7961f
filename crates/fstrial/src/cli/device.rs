//! `fstrial device`: the models of devices that ship, and how well a modelled device keeps to its model here.

use super::{Home, run::read_bounded};
use crate::{
    error::ExpectedError,
    exit_code,
    report::numbers,
    run::{
        modelled::Modelled,
        probe::{Probe, Shown, probe},
    },
};
use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use fstrial_device::{
    rehearsal::{ClosedLoop, rehearse},
    simulator::Kind,
};
use fstrial_engine::Usage;
use fstrial_model::{
    arm::closest,
    device::ModelChoice,
    device_model::{DeviceModel, MODEL_FILE, MODELS, shipped},
    units::{Bytes, Nanos},
};
use fstrial_stack::ledger::Ledger;
use serde::Serialize;
use std::path::Path;

/// Depths at which a device is checked.
const DEPTHS: [u16; 3] = [1, 4, 32];
/// How long each.
const CHECKED_FOR: Nanos = Nanos::millis(1500);

/// Models of devices: list them, show one, and check how well this machine keeps to it.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    command: DeviceCommand,
}

#[derive(Debug, Subcommand)]
enum DeviceCommand {
    /// The models that ship.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// A model as a file, to copy and change.
    Show {
        /// Its name.
        name: String,
    },
    /// Make a modelled device and compare what it does with what its model asks for.
    Check {
        /// The model's name, or a model file.
        #[arg(value_name = "MODEL", required = true)]
        models: Vec<String>,
        /// Its size.
        #[arg(long, default_value = "1GiB", value_name = "SIZE")]
        size: Bytes,
        /// As JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        home: Home,
    },
}

/// What was asked for and what came.
#[derive(Debug, Serialize)]
struct Checked {
    model: String,
    kind: &'static str,
    depth: u16,
    asked: Asked,
    got: Shown,
}

/// What a model asks for.
#[derive(Debug, Serialize)]
struct Asked {
    /// None: it takes no time.
    iops: Option<f64>,
    p50: Nanos,
    p99: Nanos,
}

/// A model by its name on the command line; a file is read.
pub(super) fn choice(name: &str) -> Result<ModelChoice, ExpectedError> {
    if name.ends_with(MODEL_FILE) {
        return Ok(ModelChoice::Written(Box::new(of_file(name.as_ref())?)));
    }
    Ok(ModelChoice::Named(name.to_owned()))
}

/// The model in a file.
pub(super) fn of_file(path: &Path) -> Result<DeviceModel, ExpectedError> {
    Ok(DeviceModel::parse(&path.display().to_string(), &read_bounded(path)?)?)
}

fn find(name: &str) -> Result<DeviceModel, ExpectedError> {
    match choice(name)? {
        ModelChoice::Written(model) => Ok(*model),
        ModelChoice::Named(name) => shipped(&name).ok_or_else(|| {
            let hint = match closest(&name, MODELS.iter().map(|(name, _)| *name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`fstrial device list` shows the models there are; a file must end in .toml".into(),
            };
            ExpectedError::usage(format!("there is no device model `{name}`"), hint)
        }),
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
            let ledger = Ledger::new(home.ledger()?, std::process::id());
            check(&models, *size, *json, &ledger)?;
        }
    }
    Ok(exit_code::VERDICT)
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
        text += &format!("  {:<12} {}\n  {:<12}   {}\n", model.name, model.about, "", model.summary());
    }
    text += "\nfstrial device show NAME > my.toml copies one to change; --device model:my.toml uses it.\n";
    super::print(&text);
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
fn compare(device: &Modelled, size: Bytes, ledger: &Ledger) -> Result<Vec<Checked>, ExpectedError> {
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
            fstrial_stack::device::Device::before_run(device, 1)?;
            let got = probe(&attached.path(), Usage::ReadWrite, &one)?;
            let asked = rehearsed(device.model(), size, &one);
            all.push(Checked { model: device.model().name.clone(), kind, depth, asked, got });
        }
    }
    attached.close();
    Ok(all)
}

/// What the model by itself does with such a load, in no real time.
fn rehearsed(model: &DeviceModel, size: Bytes, probe: &Probe) -> Asked {
    let load = ClosedLoop {
        kind: if probe.reads { Kind::Read } else { Kind::Write },
        block: probe.block,
        depth: probe.depth,
        flushes: probe.flushes,
        warmup: Nanos(probe.duration.0 / 5),
        duration: probe.duration,
    };
    let outcome = rehearse(model, size, 1, &load);
    Asked {
        iops: outcome.iops.is_finite().then_some(outcome.iops),
        p50: outcome.quantile(0.5),
        p99: outcome.quantile(0.99),
    }
}

fn table(device: &Modelled, checked: &[Checked]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let headings = ["", "depth", "IOPS asked", "got", "p50 asked", "got", "p99 asked", "got"];
    table.set_header(headings);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let time = |time: Nanos| numbers::nanos(time.as_secs_f64() * 1e9);
    for row in checked {
        table.add_row([
            row.kind.to_owned(),
            row.depth.to_string(),
            row.asked.iops.map_or_else(|| "no limit".into(), numbers::rate),
            numbers::rate(row.got.iops),
            time(row.asked.p50),
            time(row.got.p50),
            time(row.asked.p99),
            time(row.got.p99),
        ]);
    }
    let model = device.model();
    let lines: Vec<String> = table.lines().map(|line| format!("  {}\n", line.trim_end())).collect();
    format!(
        "{}: {}\n  random requests of 4 KiB, direct; the way to the device takes {} here, which is taken off\n\n{}\n",
        model.name,
        model.summary(),
        numbers::nanos(device.way().as_secs_f64() * 1e9),
        lines.concat()
    )
}
