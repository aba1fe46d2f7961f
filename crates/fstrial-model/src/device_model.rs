//! Device models: the properties of a modelled device, as a small file that a user can read, copy, change and fit.
//!
//! A model defines service times and limits; their simulation is in `fstrial-device`. Omitted settings cost nothing: an
//! empty file is the ideal device. Figures are those of the device itself; the overhead of the path to it on this
//! machine is measured at start-up and subtracted.

use crate::{
    problem::{Problem, TrialError, did_you_mean, problem, read_toml},
    units::{Bandwidth, Bytes, Nanos, Percent},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The largest model file that is read, in bytes.
pub const MAX_MODEL_BYTES: usize = 64 << 10;
/// Suffix of model files.
pub const MODEL_FILE: &str = ".toml";
/// The longest that a single thing may take.
const MAX_LATENCY: Nanos = Nanos::secs(10);
/// Requests of this size take just the latency; further bytes pass at the bandwidth.
pub const SMALL_REQUEST: Bytes = Bytes::kib(4);

/// Properties of a modelled device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    /// Name; default: the name of its file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// One line on the modelled hardware.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// One line on where its numbers come from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Requests that it works on at a time, 1 to 1024; more of them wait. Default: 64; a rotating disk has one head,
    /// and this is the number of requests from which it chooses the next (its queue), 32 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u16>,
    /// Service time of a read.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub read: Service,
    /// Service time of a write.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub write: Service,
    /// Time of a flush, in addition to writing out the volatile cache.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub flush: Service,
    /// Time of a discard; default: discards are unsupported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<Service>,
    /// Limits over all requests together, as set by cloud providers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// A write cache: a write is complete when it is in the cache, and where the cache is volatile, a flush waits until all
    /// that was in it is written out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// A rotating disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// Flash memory, which is erased in blocks larger than a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<Flash>,
    /// Several such devices as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
}

/// Service time of a kind of request: a latency and a bandwidth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Median for a request of up to 4 KiB.
    #[serde(default)]
    pub latency: Nanos,
    /// 99th percentile; the distribution is lognormal. Left out, all take the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Nanos>,
    /// Rate of the bytes beyond 4 KiB of one request; default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// Limits over all requests together. Excess requests wait, evenly spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Reads and writes in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u32>,
    /// A request that is larger counts as several; left out, every request counts once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_size: Option<Bytes>,
    /// Bytes read and written in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Reads and writes in a second as long as there are credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_iops: Option<u32>,
    /// The most credits that are saved up, at `iops` in a second; each request takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<u64>,
    /// Credits at the start of every run; left out, the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits_at_start: Option<u64>,
}

/// A write cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Bytes of writes it holds; a write that finds no room waits.
    pub size: Bytes,
    /// Time of a write into it.
    #[serde(default)]
    pub latency: Nanos,
    /// True if a power cut empties it; false: a battery or capacitors protect it, and the kernel sends no flushes.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub volatile: bool,
}

const fn yes() -> bool {
    true
}

/// A rotating disk: each request waits for the head and for its sector to come round. The whole device is the whole
/// stroke of the head, regardless of its size; the bandwidth is that of a part at the beginning of a disk of the
/// capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Rotations in a minute.
    pub rpm: u32,
    /// Time to move the head to the next track.
    pub track_seek: Nanos,
    /// Time to move it across the whole disk; between them it grows with the square root of the distance.
    pub full_seek: Nanos,
    /// Bytes that pass under the head in a second at the beginning of the device.
    pub outer_bandwidth: Bandwidth,
    /// The same at the end of the capacity.
    pub inner_bandwidth: Bandwidth,
    /// Size of the disk over which the bandwidth falls, where the device is smaller; default: that of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
    /// Bytes that it reads ahead after a read while it has nothing else to do.
    #[serde(default)]
    pub read_ahead: Bytes,
}

/// Flash memory. Writes go to erased pages of 4 KiB; when those run out, the block with the fewest valid pages is
/// copied together and erased, and the writes wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Bytes per erase, across all chips.
    pub erase_block: Bytes,
    /// Space beyond the device's size that it keeps for itself.
    pub spare: Percent,
    /// Time to erase a block.
    pub erase: Nanos,
    /// Time to copy a page of 4 KiB, all chips working.
    pub copy: Nanos,
}

/// Several devices of the model as one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Raid {
    /// 0: striped. 1: mirrored. 10: striped over pairs of mirrors.
    pub level: u8,
    /// Number of members, 2 to 16.
    pub members: u8,
    /// Contiguous bytes on a member.
    #[serde(default = "usual_chunk")]
    pub chunk: Bytes,
}

fn usual_chunk() -> Bytes {
    Bytes::kib(64)
}

impl Service {
    fn problem(&self, key: &str) -> Option<Problem> {
        if self.latency > MAX_LATENCY {
            return Some(too_long(&[key, "latency"], self.latency));
        }
        match self.p99 {
            Some(p99) if p99 > MAX_LATENCY => Some(too_long(&[key, "p99"], p99)),
            Some(p99) if p99 < self.latency || self.latency == Nanos(0) => Some(problem(
                &[key, "p99"],
                format!("the 99th percentile {p99} does not fit the median {}", self.latency),
                "the median must be above zero, and the 99th percentile not below it",
            )),
            _ => None,
        }
    }
}

fn too_long(path: &[&str], time: Nanos) -> Problem {
    problem(path, format!("{time} is too long for one request"), format!("use at most {MAX_LATENCY}"))
}

fn outside<T: std::fmt::Display>(path: &[&str], value: T, range: &str) -> Option<Problem> {
    Some(problem(path, format!("{value} is outside the range of the model"), format!("use {range}")))
}

impl DeviceModel {
    /// Reads and checks a model file. `name` is for messages only.
    ///
    /// # Errors
    /// The first thing wrong, with the place underlined.
    pub fn parse(name: &str, text: &str) -> Result<Self, Box<TrialError>> {
        let mut model: Self = read_toml(name, text, MAX_MODEL_BYTES)?;
        if model.name.is_empty() {
            let file = Path::new(name).file_stem().and_then(|stem| stem.to_str());
            file.unwrap_or(name).clone_into(&mut model.name);
        }
        match model.problem() {
            None => Ok(model),
            Some(result) => Err(Box::new(result.at(name, text))),
        }
    }

    /// The first thing about it that cannot be modelled; the path is that within the model.
    pub fn problem(&self) -> Option<Problem> {
        let services = [("read", self.read), ("write", self.write), ("flush", self.flush)];
        if self.name.len() > 60 || self.name.contains(char::is_control) {
            return Some(problem(
                &["name"],
                "not valid as a name",
                "use at most 60 letters, digits and dashes",
            ));
        }
        if self.parallelism.is_some_and(|p| !(1..=1024).contains(&p)) {
            return outside(&["parallelism"], self.parallelism.unwrap_or(0), "1 to 1024");
        }
        if self.flush.bandwidth.is_some() {
            let hint = "leave it out; the data a flush writes are in [cache]";
            return Some(problem(&["flush", "bandwidth"], "a flush transfers no bytes", hint));
        }
        services
            .iter()
            .find_map(|(key, service)| service.problem(key))
            .or_else(|| self.discard.and_then(|service| service.problem("discard")))
            .or_else(|| self.limits.and_then(|limits| limits.problem()))
            .or_else(|| self.cache_problem())
            .or_else(|| self.disk.and_then(|disk| disk.problem()))
            .or_else(|| self.flash_problem())
            .or_else(|| self.raid.and_then(|raid| raid.problem()))
    }

    fn cache_problem(&self) -> Option<Problem> {
        let cache = self.cache?;
        if !(Bytes::mib(1)..=Bytes::gib(4)).contains(&cache.size) {
            return outside(&["cache", "size"], cache.size, "1MiB to 4GiB");
        }
        (cache.latency > MAX_LATENCY).then(|| too_long(&["cache", "latency"], cache.latency))
    }

    fn flash_problem(&self) -> Option<Problem> {
        let flash = self.flash?;
        if self.disk.is_some() {
            return Some(problem(&["flash"], "a rotating disk has no flash", "leave out [flash] or [disk]"));
        }
        let block = flash.erase_block;
        if !(Bytes::kib(64)..=Bytes::mib(64)).contains(&block) || block.0 % SMALL_REQUEST.0 != 0 {
            return outside(&["flash", "erase_block"], block, "64KiB to 64MiB in steps of 4KiB");
        }
        if !(2.0..=100.0).contains(&flash.spare.0) {
            return outside(&["flash", "spare"], flash.spare, "2% to 100%");
        }
        let slow =
            [("erase", flash.erase), ("copy", flash.copy)].into_iter().find(|(_, time)| *time > MAX_LATENCY);
        slow.map(|(key, time)| too_long(&["flash", key], time))
    }

    /// True if a sync call must wait for a flush to be safe.
    pub fn has_volatile_cache(&self) -> bool {
        self.cache.is_some_and(|cache| cache.volatile)
    }

    /// The same device, slower by this share in everything that takes time: requests take longer, and less is granted.
    #[must_use]
    pub fn slowed(&self, by: Percent) -> Self {
        let factor = 1.0 + by.fraction();
        let service = |service: Service| Service {
            latency: longer(service.latency, factor),
            p99: service.p99.map(|p99| longer(p99, factor)),
            bandwidth: service.bandwidth.map(|bandwidth| narrower(bandwidth, factor)),
        };
        Self {
            read: service(self.read),
            write: service(self.write),
            flush: service(self.flush),
            discard: self.discard.map(service),
            limits: self.limits.map(|limits| limits.slowed(factor)),
            cache: self.cache.map(|cache| Cache { latency: longer(cache.latency, factor), ..cache }),
            disk: self.disk.map(|disk| disk.slowed(factor)),
            flash: self.flash.map(|flash| Flash {
                erase: longer(flash.erase, factor),
                copy: longer(flash.copy, factor),
                ..flash
            }),
            ..self.clone()
        }
    }

    /// A short description: `3000 IOPS, 125MiB/s, read 500us, write 700us`.
    pub fn summary(&self) -> String {
        let mut words = Vec::new();
        if let Some(raid) = self.raid {
            words.push(format!("RAID {} of {}", raid.level, raid.members));
        }
        if let Some(disk) = self.disk {
            words.push(format!("{} rpm", disk.rpm));
        }
        let limits = self.limits.unwrap_or_default();
        words.extend(limits.iops.map(|iops| format!("{iops} IOPS")));
        words.extend(limits.burst_iops.map(|iops| format!("burst {iops} IOPS")));
        words.extend(limits.bandwidth.map(|bandwidth| bandwidth.to_string()));
        let has_volatile = self.has_volatile_cache();
        // The kernel sends no flushes to a device without a volatile cache.
        let flush = has_volatile.then_some(("flush", self.flush));
        for (name, service) in [("read", self.read), ("write", self.write)].into_iter().chain(flush) {
            if service.latency > Nanos(0) {
                words.push(format!("{name} {}", plain(service.latency)));
            }
        }
        words.push(self.cache.map_or_else(
            || "no volatile cache".into(),
            |cache| {
                let kind = if has_volatile { "volatile" } else { "non-volatile" };
                let time = (cache.latency > Nanos(0)).then(|| format!(" ({} a write)", plain(cache.latency)));
                format!("{kind} write cache of {}{}", cache.size, time.unwrap_or_default())
            },
        ));
        words.join(", ")
    }
}

/// A time that is this many times as long.
fn longer(time: Nanos, factor: f64) -> Nanos {
    Nanos(scaled(time.0, factor))
}

fn narrower(bandwidth: Bandwidth, factor: f64) -> Bandwidth {
    Bandwidth(Bytes(scaled(bandwidth.0.0, factor.recip()).max(1)))
}

fn fewer(rate: u32, factor: f64) -> u32 {
    scaled(rate.into(), factor.recip()).max(1).try_into().unwrap_or(rate)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and rates of devices are far below 2^52 and not negative"
)]
fn scaled(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).round() as u64
}

/// A latency in one unit: `1.2ms`, `600us`.
#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^52 ns")]
fn plain(latency: Nanos) -> String {
    let ns = latency.0 as f64;
    if ns >= 1e6 { format!("{}ms", ns / 1e6) } else { format!("{}us", ns / 1e3) }
}

impl Disk {
    fn slowed(&self, factor: f64) -> Self {
        Self {
            rpm: fewer(self.rpm, factor),
            track_seek: longer(self.track_seek, factor),
            full_seek: longer(self.full_seek, factor),
            outer_bandwidth: narrower(self.outer_bandwidth, factor),
            inner_bandwidth: narrower(self.inner_bandwidth, factor),
            ..*self
        }
    }
}

impl Limits {
    /// Credits are saved up more slowly and are as many as before.
    fn slowed(&self, factor: f64) -> Self {
        Self {
            iops: self.iops.map(|iops| fewer(iops, factor)),
            burst_iops: self.burst_iops.map(|iops| fewer(iops, factor)),
            bandwidth: self.bandwidth.map(|bandwidth| narrower(bandwidth, factor)),
            ..*self
        }
    }

    fn problem(&self) -> Option<Problem> {
        for (key, iops) in [("iops", self.iops), ("burst_iops", self.burst_iops)] {
            if let Some(iops) = iops.filter(|iops| !(1..=10_000_000).contains(iops)) {
                return outside(&["limits", key], iops, "1 to 10000000");
            }
        }
        if let Some(size) = self.io_size.filter(|size| size.0 < 512) {
            return outside(&["limits", "io_size"], size, "512B or more");
        }
        let needs = |key: &str, what: &str| {
            Some(problem(
                &["limits", key],
                format!("`{key}` needs {what}"),
                format!("add {what}, or leave it out"),
            ))
        };
        match (self.iops, self.burst_iops, self.credits, self.credits_at_start) {
            (_, Some(_), None, _) => needs("burst_iops", "`credits`"),
            (None, _, Some(_), _) => needs("credits", "`iops`, at which they are saved up"),
            (_, None, Some(_), _) => needs("credits", "`burst_iops`, for which they are spent"),
            (_, _, None, Some(_)) => needs("credits_at_start", "`credits`"),
            (Some(iops), Some(burst), Some(_), _) if burst < iops => Some(problem(
                &["limits", "burst_iops"],
                format!("a burst of {burst} IOPS is less than the {iops} that are always granted"),
                "a burst is faster",
            )),
            _ => None,
        }
    }
}

impl Disk {
    fn problem(&self) -> Option<Problem> {
        if !(60..=100_000).contains(&self.rpm) {
            return outside(&["disk", "rpm"], self.rpm, "60 to 100000");
        }
        if self.full_seek > MAX_LATENCY {
            return Some(too_long(&["disk", "full_seek"], self.full_seek));
        }
        if self.track_seek > self.full_seek {
            return Some(problem(
                &["disk", "track_seek"],
                format!(
                    "a seek to the next track ({}) takes longer than one across the disk ({})",
                    self.track_seek, self.full_seek
                ),
                "make track_seek at most full_seek",
            ));
        }
        if self.inner_bandwidth > self.outer_bandwidth {
            return Some(problem(
                &["disk", "inner_bandwidth"],
                "the inner tracks are faster than the outer ones",
                "a device begins with its outer tracks, which are longer",
            ));
        }
        if self.read_ahead > Bytes::gib(1) {
            return outside(&["disk", "read_ahead"], self.read_ahead, "at most 1GiB");
        }
        None
    }
}

impl Raid {
    fn problem(&self) -> Option<Problem> {
        if ![0, 1, 10].contains(&self.level) {
            return outside(&["raid", "level"], self.level, "0, 1 or 10");
        }
        if !(2..=16).contains(&self.members) || (self.level == 10 && self.members % 2 == 1) {
            return outside(&["raid", "members"], self.members, "2 to 16, for level 10 an even number");
        }
        if !is_chunk(self.chunk) {
            return outside(&["raid", "chunk"], self.chunk, "a power of two from 4KiB to 64MiB");
        }
        None
    }

    /// Members that hold different data.
    pub const fn data_members(&self) -> u8 {
        match self.level {
            0 => self.members,
            10 => self.members / 2,
            _ => 1,
        }
    }
}

/// Name and text of every model that ships, in the order they are listed.
pub const MODELS: &[(&str, &str)] = &[
    ("ideal", include_str!("../../../models/ideal.toml")),
    ("nvme", include_str!("../../../models/nvme.toml")),
    ("sata-ssd", include_str!("../../../models/sata-ssd.toml")),
    ("sata-ssd-2012", include_str!("../../../models/sata-ssd-2012.toml")),
    ("gp3-3000", include_str!("../../../models/gp3-3000.toml")),
    ("gp2-burst", include_str!("../../../models/gp2-burst.toml")),
    ("ebs-300", include_str!("../../../models/ebs-300.toml")),
    ("c3-large", include_str!("../../../models/c3-large.toml")),
    ("hdd-7200", include_str!("../../../models/hdd-7200.toml")),
    ("raid10-bbwc", include_str!("../../../models/raid10-bbwc.toml")),
    ("raid10-hdd", include_str!("../../../models/raid10-hdd.toml")),
];

/// The model of this name that ships.
///
/// # Panics
/// Never: a test reads all of them.
pub fn shipped(name: &str) -> Option<DeviceModel> {
    let (name, text) = MODELS.iter().find(|(known, _)| *known == name)?;
    Some(DeviceModel::parse(name, text).expect("a test reads all models that ship"))
}

/// The same, or the problem with the name and the remedy.
///
/// # Errors
/// No model that ships is called so.
pub fn named(name: &str) -> Result<DeviceModel, (String, String)> {
    shipped(name).ok_or_else(|| {
        let hint = did_you_mean(name, MODELS.iter().map(|(name, _)| *name)).unwrap_or_else(|| {
            "`fstrial device list` shows the models there are; a file must end in .toml".into()
        });
        (format!("there is no device model `{name}`"), hint)
    })
}

/// True for a valid chunk of an array, real or modelled.
fn is_chunk(chunk: Bytes) -> bool {
    chunk.0.is_power_of_two() && (Bytes::kib(4)..=Bytes::mib(64)).contains(&chunk)
}

/// The problem with a chunk: the kernel and every mkfs accept a power of two of at least 4 KiB.
pub(crate) fn chunk_problem(chunk: Bytes) -> Option<(String, String)> {
    (!is_chunk(chunk))
        .then(|| (format!("a chunk cannot be {chunk}"), "use a power of two from 4KiB to 64MiB".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lists_cache_and_omits_unused_flush() {
        let message = |name: &str| named(name).unwrap().summary();
        let controller = message("raid10-bbwc");
        assert!(
            controller.ends_with("write 100us, non-volatile write cache of 2MiB (50us a write)"),
            "{controller}"
        );
        let disk = message("hdd-7200");
        assert!(disk.ends_with("flush 100us, volatile write cache of 64MiB (80us a write)"), "{disk}");
        assert!(message("gp3-3000").ends_with("no volatile cache"));
    }

    #[test]
    fn shipped_models_parse_and_describe_themselves() {
        for (name, text) in MODELS {
            let model = DeviceModel::parse(name, text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!model.about.is_empty() && !model.source.is_empty(), "{name}");
            let again = toml::to_string(&model).unwrap();
            assert_eq!(DeviceModel::parse(name, &again).unwrap(), model, "{name}");
        }
    }

    #[test]
    fn an_empty_file_is_the_ideal_device() {
        let ideal = DeviceModel { name: "empty".into(), ..DeviceModel::default() };
        assert_eq!(DeviceModel::parse("empty.toml", "").unwrap(), ideal);
    }

    #[test]
    fn a_slower_device_takes_longer_and_grants_less() {
        let text = "[read]\nlatency = \"100us\"\np99 = \"200us\"\nbandwidth = \"110MiB/s\"\n[limits]\niops = 3000\ncredits = 50\n\
                    burst_iops = 6000\n[disk]\nrpm = 7700\ntrack_seek = \"1ms\"\nfull_seek = \"10ms\"\n\
                    outer_bandwidth = \"220MiB/s\"\ninner_bandwidth = \"110MiB/s\"";
        let slower = "[read]\nlatency = \"110us\"\np99 = \"220us\"\nbandwidth = \"100MiB/s\"\n[limits]\niops = 2727\ncredits = 50\n\
                      burst_iops = 5455\n[disk]\nrpm = 7000\ntrack_seek = \"1.1ms\"\nfull_seek = \"11ms\"\n\
                      outer_bandwidth = \"200MiB/s\"\ninner_bandwidth = \"100MiB/s\"";
        let [model, slower] = [text, slower].map(|text| DeviceModel::parse("m.toml", text).unwrap());
        assert_eq!(model.slowed(Percent(10.0)), slower);
        for (name, text) in MODELS {
            let model = DeviceModel::parse(name, text).unwrap();
            assert_eq!(model.slowed(Percent(0.0)), model, "{name}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_place() {
        let cases = [
            ("[read]\nlatency = \"11s\"", "latency"),
            ("[read]\nlatency = \"1ms\"\np99 = \"0.5ms\"", "p99"),
            ("parallelism = 0", "parallelism"),
            ("[flush]\nbandwidth = \"1MiB/s\"", "bandwidth"),
            ("[limits]\niops = 0", "iops"),
            ("[limits]\niops = 100\ncredits = 5", "credits"),
            ("[limits]\nburst_iops = 100", "burst_iops"),
            ("[limits]\niops = 300\nburst_iops = 100\ncredits = 5", "burst_iops"),
            ("[cache]\nsize = \"1KiB\"", "size"),
            ("[raid]\nlevel = 5\nmembers = 4", "level"),
            ("[raid]\nlevel = 10\nmembers = 3", "members"),
            ("[raid]\nlevel = 0\nmembers = 4\nchunk = \"65KiB\"", "chunk"),
            ("[flash]\nerase_block = \"4MiB\"\nspare = \"1%\"\nerase = \"1ms\"\ncopy = \"1us\"", "spare"),
            (
                "[disk]\nrpm = 7200\ntrack_seek = \"20ms\"\nfull_seek = \"10ms\"\nouter_bandwidth = \"2MiB/s\"\ninner_bandwidth = \"1MiB/s\"",
                "track_seek",
            ),
        ];
        for (text, key) in cases {
            let error = DeviceModel::parse("model.toml", text).expect_err(text);
            let span = error.span.unwrap_or_else(|| panic!("{text}: {error}"));
            let line = text[..span.offset()].matches('\n').count();
            assert!(text.lines().nth(line).unwrap().contains(key), "{text}: {error} at line {line}");
            assert!(error.help.is_some(), "{text}");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        let error = DeviceModel::parse("model.toml", "[read]\nlatancy = \"1ms\"").unwrap_err();
        assert!(error.to_string().contains("latancy"), "{error}");
    }
}
