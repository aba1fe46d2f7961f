//! The environment of a trial: what the machine is, as far as it can matter to a result.

use fstrial_model::{
    claim::{Machine, era::Version},
    device::ThrottledBy,
    units::Bytes,
};
use serde::{Deserialize, Serialize};
use std::fs;

/// What the machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of fstrial.
    pub fstrial: String,
    /// Name of the host, as `uname -n` has it; empty in documents from before it was stored.
    #[serde(default)]
    pub host: String,
    /// Kernel release and build.
    pub kernel: String,
    /// Distribution.
    pub distribution: String,
    /// Processor.
    pub processor: String,
    /// Processors online.
    pub cpus: u16,
    /// Memory in all.
    pub memory: Bytes,
    /// The kernel's clock.
    pub clocksource: String,
    /// Frequency governor, where there is one.
    pub governor: Option<String>,
    /// Hypervisor, where the processor says so.
    pub virtual_machine: bool,
    /// Load average over the last minute when the trial began.
    pub load_average: String,
    /// The device of the trial.
    pub device: String,
    /// What a reader should know about the device.
    pub device_notes: Vec<String>,
    /// What the load generator's own loop cost around an operation that does nothing, in ns for each operation, when the
    /// trial began. None of trials before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_loop_ns: Option<u64>,
    /// What holds the device to its cap, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_by: Option<ThrottledBy>,
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Processors this process may use.
pub fn cpus() -> u16 {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// This machine, as claims are scaled to it.
pub fn machine(quick: bool) -> Machine {
    let here = Environment::of_this_machine();
    // A kernel that says nothing of its version is taken for a new one.
    let newest = Version(u32::MAX, 0, 0);
    Machine { cpus: here.cpus, memory: here.memory, kernel: here.kernel.parse().unwrap_or(newest), quick }
}

impl Environment {
    /// Looks at this machine. What cannot be found out reads `unknown`.
    pub fn of_this_machine() -> Self {
        let unknown = || "unknown".to_owned();
        let cpuinfo = line("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let found = cpuinfo.lines().find(|l| l.starts_with(name))?;
            found.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let os_release = line("/etc/os-release").unwrap_or_default();
        let distribution = os_release
            .lines()
            .find_map(|l| l.strip_prefix("PRETTY_NAME="))
            .map(|name| name.trim_matches('"').to_owned());
        let memory = line("/proc/meminfo")
            .and_then(|text| text.lines().next()?.split_whitespace().nth(1)?.parse().ok())
            .map_or(Bytes(0), Bytes::kib);
        let uname = rustix::system::uname();
        Self {
            fstrial: env!("CARGO_PKG_VERSION").into(),
            host: uname.nodename().to_string_lossy().into_owned(),
            kernel: format!("{} {}", uname.release().to_string_lossy(), uname.machine().to_string_lossy()),
            distribution: distribution.unwrap_or_else(unknown),
            processor: field("model name").unwrap_or_else(unknown),
            cpus: cpus(),
            memory,
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_else(unknown),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtual_machine: field("flags")
                .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            load_average: line("/proc/loadavg")
                .and_then(|text| text.split(' ').next().map(str::to_owned))
                .unwrap_or_else(unknown),
            device: String::new(),
            device_notes: Vec::new(),
            generator_loop_ns: None,
            throttled_by: None,
        }
    }

    /// In a few lines for people.
    pub fn describe(&self) -> Vec<String> {
        let machine = if self.virtual_machine { ", virtual machine" } else { "" };
        let governor = self.governor.as_ref().map(|g| format!(", governor {g}")).unwrap_or_default();
        let mut lines = vec![
            format!("fstrial {} · Linux {} · {}", self.fstrial, self.kernel, self.distribution),
            format!(
                "{} × {} · {} · clock {}{governor}{machine} · load average {}",
                self.cpus,
                self.processor,
                self.memory.human(),
                self.clocksource,
                self.load_average
            ),
        ];
        if !self.device.is_empty() {
            lines.push(self.device.clone());
        }
        lines
    }
}
