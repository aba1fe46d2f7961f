//! The environment of a trial: properties of the machine that can matter to a result.

use crate::numbers::{counted, hex};
use fstrial_model::{
    bounded,
    claim::{Machine, era::Version},
    facts::Fact,
    memory::LimitedBy,
    units::Bytes,
};
use fstrial_stack::cpu::{self, CpuCount};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{fs, sync::OnceLock, time::Duration};

/// Properties of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of fstrial.
    #[serde(deserialize_with = "bounded::text")]
    pub fstrial: String,
    /// The place that arms name; empty: where fstrial was started.
    #[serde(default, deserialize_with = "bounded::text", skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Name of the host, as `uname -n` has it; empty in documents from before it was stored.
    #[serde(default, deserialize_with = "bounded::text")]
    pub host: String,
    /// Name of the node, as the scheduler of its cluster has it.
    #[serde(default, deserialize_with = "bounded::optional", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Distinguishes machines of one name: a digest of `/etc/machine-id`, which itself is confidential.
    #[serde(default, deserialize_with = "bounded::optional", skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Kernel release and build.
    #[serde(deserialize_with = "bounded::text")]
    pub kernel: String,
    /// `PRETTY_NAME` of `/etc/os-release`; `unknown` if missing.
    #[serde(deserialize_with = "bounded::text")]
    pub distribution: String,
    /// `model name` of `/proc/cpuinfo`; `unknown` if missing.
    #[serde(deserialize_with = "bounded::text")]
    pub processor: String,
    /// Processors online.
    pub cpus: u16,
    /// Memory in all.
    pub memory: Bytes,
    /// The kernel's clock.
    #[serde(deserialize_with = "bounded::text")]
    pub clocksource: String,
    /// Kernel ticks in a second (`CONFIG_HZ`); a sleep counted in ticks lasts at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_hz: Option<u32>,
    /// True if idle time, and with it the CPU time of the machine, is counted by ticks only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cpu_sampled: bool,
    /// Frequency governor, if there is one.
    #[serde(default, deserialize_with = "bounded::optional")]
    pub governor: Option<String>,
    /// Hypervisor, if the processor reports one.
    pub virtual_machine: bool,
    /// Load average over the last minute when the trial began.
    #[serde(deserialize_with = "bounded::text")]
    pub load_average: String,
    /// Other load of its processors just before the device of the trial was made, in percent. None for trials before it
    /// was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_percent: Option<u8>,
    /// The device of the trial.
    #[serde(deserialize_with = "bounded::text")]
    pub device: String,
    /// Notes on the device for the reader.
    #[serde(deserialize_with = "bounded::texts")]
    pub device_notes: Vec<String>,
    /// Overhead of the load generator's own loop around an empty operation, in ns for each operation, when the trial
    /// began. None for trials before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_loop_ns: Option<u64>,
    /// The mechanism of memory limits, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limited_by: Option<LimitedBy>,
    /// The boot, where arms are at boots of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootFacts>,
}

/// Identity of a boot of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootFacts {
    /// The kernel's id of it: different for every boot.
    #[serde(deserialize_with = "bounded::text")]
    pub id: String,
    /// The kernel's build: `#1 SMP PREEMPT_DYNAMIC Debian 6.1.140-1 (2025-05-22)`.
    #[serde(deserialize_with = "bounded::text")]
    pub build: String,
    /// The parameters of the kernel, without those that only locate its image.
    #[serde(deserialize_with = "bounded::text")]
    pub parameters: String,
}

impl BootFacts {
    /// Those of this boot.
    pub(crate) fn of_this_boot() -> Self {
        let all = line("/proc/cmdline").unwrap_or_default();
        let is_of_loader = |word: &&str| ["BOOT_IMAGE=", "initrd="].iter().any(|key| word.starts_with(key));
        let words: Vec<&str> = all.split_whitespace().filter(|word| !is_of_loader(word)).collect();
        Self {
            id: line("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            build: rustix::system::uname().version().to_string_lossy().into_owned(),
            parameters: words.join(" "),
        }
    }
}

/// Placeholder for an undetermined value.
const UNKNOWN: &str = "unknown";

fn machine_in_words(host: &str, cpus: &str, processor: &str) -> String {
    let host = if host.is_empty() { "a host without a name" } else { host };
    let several = if cpus == "1" { "" } else { "s" };
    format!("{host} ({processor}, {cpus} CPU{several})")
}

pub(crate) fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// This host's name in a campaign.
static NODE: OnceLock<String> = OnceLock::new();

/// Names this host as a campaign does, for every environment that is looked at from now on.
pub fn name_node(name: String) {
    // A process works for one campaign.
    let _ = NODE.set(name);
}

/// A digest for fstrial alone: machine-id(5) asks that the number itself is not given away.
fn machine_digest(id: &str) -> String {
    let digest = Sha256::digest(format!("fstrial machine {id}"));
    hex(&digest[..8])
}

/// The resolution of a coarse clock is a tick.
fn tick_hz() -> Option<u32> {
    let tick = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    let hz = 1_000_000_000_u32.checked_div(u32::try_from(tick.tv_nsec).ok()?)?;
    (tick.tv_sec == 0).then_some(hz)
}

/// Load of the processors while we wait, in percent of all of them: over a quarter of a second, to about 4.
#[expect(clippy::disallowed_methods, reason = "it waits for time to pass, in which it does nothing")]
pub fn busy_percent() -> Option<u8> {
    const WINDOW: Duration = Duration::from_millis(250);
    let before = CpuCount::now()?;
    std::thread::sleep(WINDOW);
    before.busy_percent_until(CpuCount::now()?)
}

/// Processors this process may use.
pub fn cpus() -> u16 {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// This machine, as claims are scaled to it.
pub fn machine(quick: bool) -> Machine {
    let here = Environment::of_this_machine();
    // A kernel without a version is assumed to be new.
    let newest = Version(u32::MAX, 0, 0);
    Machine { cpus: here.cpus, memory: here.memory, kernel: here.kernel.parse().unwrap_or(newest), quick }
}

impl Environment {
    /// Examines this machine. Undetermined values read `unknown`.
    pub fn of_this_machine() -> Self {
        let unknown = || UNKNOWN.to_owned();
        let cpuinfo = line("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let result = cpuinfo.lines().find(|l| l.starts_with(name))?;
            result.split_once(':').map(|(_, value)| value.trim().to_owned())
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
            place: String::new(),
            host: uname.nodename().to_string_lossy().into_owned(),
            node: NODE.get().cloned().or_else(|| std::env::var("SLURMD_NODENAME").ok()),
            machine: line("/etc/machine-id").filter(|id| !id.is_empty()).map(|id| machine_digest(&id)),
            kernel: format!("{} {}", uname.release().to_string_lossy(), uname.machine().to_string_lossy()),
            distribution: distribution.unwrap_or_else(unknown),
            processor: field("model name").unwrap_or_else(unknown),
            cpus: cpus(),
            memory,
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_else(unknown),
            tick_hz: tick_hz(),
            cpu_sampled: cpu::is_sampled(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtual_machine: field("flags")
                .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            load_average: line("/proc/loadavg")
                .and_then(|text| text.split(' ').next().map(str::to_owned))
                .unwrap_or_else(unknown),
            busy_percent: None,
            device: String::new(),
            device_notes: Vec::new(),
            generator_loop_ns: None,
            memory_limited_by: None,
            boot: None,
        }
    }

    /// The difference of another machine from this one, as text: the host, processor or number of processors of a
    /// stored environment (as JSON), if it has one and this one differs. None without a difference.
    pub fn other_machine(&self, stored: &str) -> Option<String> {
        let stored: serde_json::Value = serde_json::from_str(stored).ok()?;
        let known = |name: &str| stored.get(name)?.as_str().filter(|text| !["", UNKNOWN].contains(text));
        let differs = |there: Option<&str>, here: &str| {
            !["", UNKNOWN].contains(&here) && there.is_some_and(|there| there != here)
        };
        let (host, processor) = (known("host"), known("processor"));
        let cpus = stored.get("cpus").and_then(serde_json::Value::as_u64);
        let other = differs(host, &self.host)
            || differs(processor, &self.processor)
            || cpus.is_some_and(|there| there != u64::from(self.cpus));
        other.then(|| {
            let cpus = cpus.map_or_else(|| UNKNOWN.to_owned(), |cpus| cpus.to_string());
            machine_in_words(host.unwrap_or_default(), &cpus, processor.unwrap_or(UNKNOWN))
        })
    }

    /// The earlier and the current machine of a place, as text, if the machine or kernel differs from a stored
    /// environment (as JSON).
    pub fn changed(&self, stored: &str) -> Option<(String, String)> {
        if let Some(there) = self.other_machine(stored) {
            return Some((there, self.machine_in_words()));
        }
        let stored: serde_json::Value = serde_json::from_str(stored).ok()?;
        let kernel = stored.get("kernel")?.as_str()?;
        if kernel != self.kernel {
            return Some((format!("Linux {kernel}"), format!("Linux {}", self.kernel)));
        }
        let boot = self.boot.as_ref()?;
        let before = |name: &str| stored.get("boot")?.get(name)?.as_str();
        let (build, parameters) = (before("build")?, before("parameters")?);
        let reported = |parameters: &str| format!("booted with the parameters `{parameters}`");
        match (build == boot.build, parameters == boot.parameters) {
            (false, _) => Some((format!("the build {build}"), format!("the build {}", boot.build))),
            (true, false) => Some((reported(parameters), reported(&boot.parameters))),
            (true, true) => None,
        }
    }

    /// Facts that distinguish arms built on several machines.
    pub fn machine_facts(&self) -> Vec<(Fact, String)> {
        let machine = format!("{}, {}", self.machine_in_words(), self.memory.human());
        let parameters = self.boot.as_ref().map(|boot| (Fact::KernelParameters, boot.parameters.clone()));
        let build = self.boot.as_ref().map_or_else(String::new, |boot| format!(", build {}", boot.build));
        [(Fact::Kernel, format!("{}{build}", self.kernel)), (Fact::Machine, machine)]
            .into_iter()
            .chain(parameters)
            .collect()
    }

    /// This machine as [`Environment::other_machine`] names others.
    pub fn machine_in_words(&self) -> String {
        machine_in_words(&self.host, &self.cpus.to_string(), &self.processor)
    }

    /// `AMD EPYC, 2 CPUs`: as Linux counts them, which are not sockets.
    pub fn processors_in_words(&self) -> String {
        format!("{}, {}", self.processor, counted(self.cpus, "CPU"))
    }

    /// A description of a few lines.
    pub fn describe(&self) -> Vec<String> {
        let machine = if self.virtual_machine { ", virtual machine" } else { "" };
        let governor = self.governor.as_ref().map(|g| format!(", governor {g}")).unwrap_or_default();
        let ticks = self.tick_hz.map(|hz| format!(", HZ {hz}")).unwrap_or_default();
        let sampled = if self.cpu_sampled { " · CPU time is sampled by ticks" } else { "" };
        let mut lines = vec![
            format!("fstrial {} · Linux {} · {}", self.fstrial, self.kernel, self.distribution),
            format!(
                "{} · {} · clock {}{ticks}{governor}{machine} · load average {}{sampled}",
                self.processors_in_words(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_other_machine_from_shared_fields() {
        let here = Environment {
            host: "a".into(),
            processor: "P1".into(),
            cpus: 4,
            ..Environment::of_this_machine()
        };
        let same = serde_json::to_string(&here).unwrap();
        for stored in [
            same.as_str(),
            r#"{"host":"","processor":"unknown","cpus":4}"#,
            r#"{"processor":"P1"}"#,
            r#"{"kernel":"6.1"}"#,
        ] {
            assert_eq!(here.other_machine(stored), None, "{stored}");
        }
        for (stored, words) in [
            (r#"{"host":"b","processor":"P1","cpus":4}"#, "b (P1, 4 CPUs)"),
            (r#"{"host":"a","processor":"P2","cpus":4}"#, "a (P2, 4 CPUs)"),
            (r#"{"host":"a","processor":"P1","cpus":8}"#, "a (P1, 8 CPUs)"),
            (r#"{"cpus":8}"#, "a host without a name (unknown, 8 CPUs)"),
        ] {
            assert_eq!(here.other_machine(stored).as_deref(), Some(words), "{stored}");
        }
        let other_kernel = Environment { kernel: "6.1.0 x86_64".into(), ..here.clone() };
        let words = (format!("Linux {}", here.kernel), "Linux 6.1.0 x86_64".to_owned());
        assert_eq!((here.changed(&same), other_kernel.changed(&same)), (None, Some(words)));
        let nameless = Environment { host: String::new(), processor: UNKNOWN.into(), ..here };
        assert_eq!(nameless.other_machine(&same), None);
    }
}
