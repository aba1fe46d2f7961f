//! Impossible trials: every unrunnable setting is refused with its place and a remedy, before anything is touched.

use super::{Compare, Trial, can_run};
use crate::{
    arm::{Arm, Switch},
    claim::{ClaimQuestion, Part},
    device::DeviceKind,
    filesystem::Filesystem,
    layer::Layer,
    memory,
    metric::Metric,
    place::{Clock, PlaceSpec},
    problem::{Problem, did_you_mean, problem},
    state::Restoring,
    units::{Bytes, Nanos},
    workload::{Pattern, Phase, Workload, comparable},
};

impl Trial {
    /// The first thing impossible about the trial as a whole.
    pub fn problem(&self) -> Option<Problem> {
        self.settings_problem()
            .or_else(|| self.baseline_problem())
            .or_else(|| self.arms_problem())
            .or_else(|| self.places_problem())
            .or_else(|| self.place_devices_problem())
            .or_else(|| self.leads_problem())
            .or_else(|| self.emulation_problem())
            .or_else(|| self.device_problem())
            .or_else(|| self.states_problem())
            .or_else(|| self.log_device_problem())
            .or_else(|| self.memory_problem())
            .or_else(|| self.workloads_problem())
            .or_else(|| self.clients_problem())
            .or_else(|| self.claim_problem())
    }

    /// A claim's expectations must be about results of the trial.
    fn claim_problem(&self) -> Option<Problem> {
        let claim = self.claim.as_ref()?;
        let workloads = self.resolve_workloads(1).ok()?;
        if let Some(name) = claim.optional.iter().find(|name| self.arms.iter().all(|arm| arm.name != **name))
        {
            let hint = "name arms that may be left out";
            return Some(problem(&["claim", "optional"], format!("no arm is named `{name}`"), hint));
        }
        claim.problem().or_else(|| {
            if self.trial.compare == Compare::Workloads {
                let hint = "leave out compare; a claim's comparisons are its expectations";
                return Some(problem(&["trial", "compare"], "a claim has its own comparisons", hint));
            }
            match claim.parts(&self.arms, &workloads, 1) {
                Ok(parts) => self.emulated_part_problem(&parts),
                Err(result) => Some(result),
            }
        })
    }

    /// A claim about time in a guest.
    fn emulated_part_problem(&self, parts: &[Part]) -> Option<Problem> {
        let is_known =
            |part: &&Part| matches!(part.question, ClaimQuestion::Works(_) | ClaimQuestion::Fails(_));
        let can_judge = |part: &&Part| self.arms.iter().all(|arm| self.can_judge(arm, part.metric));
        let part = parts.iter().find(|part| !is_known(part) && !can_judge(part))?;
        Some(problem(
            &["claim", "expect", &part.expectation.to_string()],
            emulated(part.metric),
            "use a device in the guest's memory (a ramdisk, or a model), or expect something of device-bytes, or that an arm works or fails",
        ))
    }

    /// Arms that there must be at least: a claim may be about one.
    fn least_arms(&self) -> usize {
        let is_about_one = self.claim.as_ref().is_some_and(|claim| !claim.question);
        let may_be_one =
            is_about_one || self.trial.is_for_receipts || self.trial.compare == Compare::Workloads;
        if may_be_one { 1 } else { 2 }
    }

    /// Restrictions of several clients.
    fn clients_problem(&self) -> Option<Problem> {
        let settings = &self.trial;
        let at = ["trial", "clients"];
        if !(1..=10_000).contains(&settings.clients) {
            return Some(problem(
                &at,
                "clients is out of range (1 to 10000)",
                "use 1 to 10000, such as 16, or leave it out",
            ));
        }
        if settings.clients == 1 {
            return None;
        }
        if self.device.kind != DeviceKind::Directory || !self.places.is_empty() {
            return Some(problem(
                &at,
                "only directories can be shared by clients, and some arm is made here or elsewhere",
                "use arms such as dir:/mnt/lustre, on a filesystem that all clients have mounted there",
            ));
        }
        if settings.decide_on.contains(&Metric::CpuTime) {
            return Some(problem(
                &["trial", "decide_on"],
                "processor time of the machine is not counted on the hosts of clients",
                "decide on throughput or a latency",
            ));
        }
        if settings.memory.is_some() || self.arms.iter().any(|arm| arm.memory.is_some()) {
            return Some(problem(
                &at,
                "the memory of clients on other hosts is not limited",
                "leave memory out",
            ));
        }
        let is_shared = |workload: &Workload| {
            let mut groups = workload.phases().iter().flat_map(|phase| &phase.groups);
            workload.is_load()
                && workload.phases().iter().all(|phase| phase.find_rate.is_none())
                && groups.all(|group| group.rate.is_none() && !matches!(group.pattern, Pattern::Ycsb(_)))
        };
        let workloads = self.resolve_workloads(1).ok()?;
        let in_one_folder = |phase: &Phase| {
            let clients = settings.clients;
            phase.one_folder.then(|| phase.in_one_folder(clients).err()).flatten()
        };
        if let Some(why) = workloads.iter().flat_map(Workload::phases).find_map(in_one_folder) {
            return Some(problem(
                &at,
                format!("{} clients cannot share a folder: {why}", settings.clients),
                "use fewer",
            ));
        }
        let other = workloads.iter().find(|workload| !is_shared(workload))?;
        Some(problem(
            &at,
            format!(
                "`{}` is not made by several clients: it is a program, an operation, records, or offered at a rate",
                other.name
            ),
            "use a built-in workload, such as sequential-write or mdtest",
        ))
    }

    fn settings_problem(&self) -> Option<Problem> {
        let settings = &self.trial;
        if settings.budget < Nanos::secs(1) || settings.budget > Nanos::secs(30 * 86_400) {
            return Some(problem(
                &["trial", "budget"],
                format!("budget = {} is out of range", settings.budget),
                "use 1s to 30d, such as budget = \"10m\"",
            ));
        }
        if !(0.1..=50.0).contains(&settings.practical.0) {
            return Some(problem(
                &["trial", "practical"],
                format!("practical = {} is out of range", settings.practical),
                "use 0.1% to 50%; 3% is usual",
            ));
        }
        if settings.stalls.is_some_and(|stalls| !(1.0..=50.0).contains(&stalls.0)) {
            return Some(problem(
                &["trial", "stalls"],
                "stalls is out of range (1% to 50%)",
                "write stalls = \"10%\", for which a verdict takes 29 rounds at least",
            ));
        }
        if settings.decide_on.is_empty() {
            return Some(problem(
                &["trial", "decide_on"],
                "decide_on names no metric",
                "write decide_on = [\"throughput\"]",
            ));
        }
        if settings.decide_on.contains(&Metric::DeviceBytes) && !self.device.kind.holds_filesystems() {
            return Some(problem(
                &["trial", "decide_on"],
                "bytes written to the device of a directory are unknown: others write to it too",
                "decide on another metric, or compare filesystems that are made",
            ));
        }
        if settings.pilot.is_some_and(|pilot| !(Nanos::secs(1)..=Nanos::secs(3600)).contains(&pilot)) {
            return Some(problem(
                &["trial", "pilot"],
                "pilot is out of range (1s to 1h)",
                "write pilot = \"12s\", or leave it out",
            ));
        }
        if !settings.sequential && settings.rounds.is_none() {
            return Some(problem(
                &["trial", "sequential"],
                "a trial that is not sequential is decided after its last round, and has no number of rounds",
                "write rounds = 12, or leave sequential out",
            ));
        }
        if settings.rounds.is_some_and(|rounds| !(1..=1000).contains(&rounds)) {
            return Some(problem(
                &["trial", "rounds"],
                "rounds is out of range (1 to 1000)",
                "leave it out to let the method decide",
            ));
        }
        None
    }

    /// A baseline must be one of the compared things.
    fn baseline_problem(&self) -> Option<Problem> {
        let baseline = self.trial.baseline.as_ref()?;
        let (what, names): (_, Vec<String>) = match self.trial.compare {
            Compare::Arms => ("arm", self.arms.iter().map(|arm| arm.name.clone()).collect()),
            Compare::Workloads => (
                "workload",
                self.resolve_workloads(1).ok()?.into_iter().map(|workload| workload.name).collect(),
            ),
        };
        if names.contains(baseline) || self.arms.iter().any(|arm| self.is_baseline(arm)) {
            return None;
        }
        let hint = did_you_mean(baseline, names.iter().map(String::as_str))
            .unwrap_or_else(|| format!("the {what}s are {}", names.join(", ")));
        Some(problem(&["trial", "baseline"], format!("no {what} is named `{baseline}`"), hint))
    }

    fn arms_problem(&self) -> Option<Problem> {
        if self.arms.is_empty() && self.least_arms() == 1 {
            return Some(problem(&["arm"], "no arm to run the workloads on", "name one, such as ext4"));
        }
        if self.arms.iter().filter(|arm| arm.control_of.is_none()).count() < self.least_arms() {
            return Some(problem(
                &["arm"],
                "a comparison needs at least two arms",
                "name two, such as ext4 and xfs; to see the noise, the same one twice: a=ext4 b=ext4",
            ));
        }
        if self.arms.len() > 64 {
            return Some(problem(
                &["arm"],
                format!("{} arms", self.arms.len()),
                "at most 64 can be compared in one trial",
            ));
        }
        for (index, arm) in self.arms.iter().enumerate() {
            if let Some(error) = arm.problem() {
                let hint = error.hint.clone();
                let path = vec!["arm".into(), index.to_string(), "filesystem".into()];
                return Some(Problem { path, message: error.to_string(), hint });
            }
            if arm.discard == Some(Switch::On) && self.device.kind.is_file() {
                return Some(problem(
                    &["arm", &index.to_string(), "discard"],
                    "discards would free blocks of the image, and the next run would find a different device",
                    "leave discard=on out, or use --device disk, or a ramdisk",
                ));
            }
            if arm.scheduler.is_some() && self.device_of(arm).kind == DeviceKind::Ramdisk {
                return Some(problem(
                    &["arm", &index.to_string(), "scheduler"],
                    "a ramdisk takes requests as they come: it has no scheduler",
                    "leave scheduler out, or use --device image",
                ));
            }
            if self.arms[..index].iter().any(|other| other.name == arm.name) {
                return Some(problem(
                    &["arm", &index.to_string(), "name"],
                    format!("two arms are called `{}`", arm.name),
                    format!("give one of them another name: b={}", arm.configuration()),
                ));
            }
            if arm.slowed.is_some() && !self.device_of(arm).kind.is_modelled() {
                return Some(problem(
                    &["arm", &index.to_string(), "slowed"],
                    "only modelled devices can be slowed down",
                    "use --device model:…, or handicap=…, which slows a load down on any device",
                ));
            }
            if let Some((key, message, hint)) = self.control_problem(arm) {
                return Some(problem(&["arm", &index.to_string(), key], message, hint));
            }
        }
        None
    }

    /// A control is an arm of the trial with a slowdown.
    fn control_problem(&self, arm: &Arm) -> Option<(&'static str, String, &'static str)> {
        let of = arm.control_of.as_ref()?;
        let base = self.arms.iter().find(|other| other.name == *of && other.control_of.is_none());
        if base.is_none() {
            let message = format!("`{}` is a control of `{of}`, which is not an arm of this trial", arm.name);
            return Some(("control_of", message, "name an arm that is not a control itself"));
        }
        let is_slowed = arm.planted().is_some_and(|planted| !planted.is_zero());
        let message = || format!("`{}` is a control without a slowdown", arm.name);
        (!is_slowed).then(|| ("handicap", message(), "give it one of twice the band, such as handicap=6%"))
    }

    /// Places must be there, and a device that is made there must mean no file or disk of this host.
    fn places_problem(&self) -> Option<Problem> {
        for (index, place) in self.places.iter().enumerate() {
            let at = index.to_string();
            if let Some((key, message, hint)) = place.problem() {
                return Some(problem(&["place", &at, key], message, hint));
            }
            if self.places[..index].iter().any(|other| other.name == place.name) {
                let message = format!("two places are called `{}`", place.name);
                return Some(problem(&["place", &at, "name"], message, "name them apart"));
            }
        }
        let mut elsewhere = self.elsewhere();
        elsewhere.clone().next()?;
        let names: Vec<&str> = self.places.iter().map(|place| place.name.as_str()).collect();
        if let Some((index, name)) = elsewhere.find(|(_, name)| !names.contains(name)) {
            let hint = did_you_mean(name, names.iter().copied()).unwrap_or_else(|| {
                "add [[place]] with its name; pass its command with --place NAME=COMMAND".into()
            });
            return Some(problem(
                &["arm", &index.to_string(), "place"],
                format!("there is no place `{name}`"),
                hint,
            ));
        }
        if let Some(problem) = self.boots_problem() {
            return Some(problem);
        }
        let has_own = |name: &str| {
            self.places.iter().any(|place| place.name == name && (place.device.is_some() || place.boot))
        };
        if let Some((index, _)) = self.elsewhere().find(|(_, name)| !has_own(name))
            && !self.device.kind.is_made()
        {
            return Some(problem(
                &["arm", &index.to_string(), "place"],
                format!("a {} is of this host only", self.device.kind.name()),
                "use an image, a ramdisk or a modelled device, which each place makes for itself",
            ));
        }
        None
    }

    /// In one boot no arm of another can be built; so all arms are at boots, or none is.
    fn boots_problem(&self) -> Option<Problem> {
        let boot = self.boots().next()?;
        let is_at_boot = |arm: &Arm| self.boots().any(|name| arm.place.as_deref() == Some(name));
        let other = self.arms.iter().position(|arm| !is_at_boot(arm));
        let unequal = other.map(|index| {
            let arm = &self.arms[index];
            problem(
                &["arm", &index.to_string(), "place"],
                format!("{} is at no boot of this host, and others are", arm.name),
                format!("write for example {}@{boot}: all arms are at boots, or none", arm.filesystem),
            )
        });
        unequal.or_else(|| {
            let hint = "leave leads out: they are of places that are there together";
            self.trial
                .leads
                .then(|| problem(&["trial", "leads"], "boots are compared with one another", hint))
        })
    }

    /// If times are the emulator's only counts decide, and arms in guests are compared with arms in guests.
    fn emulation_problem(&self) -> Option<Problem> {
        let guest = self.arms.iter().find_map(|arm| self.guest_of(arm))?;
        // A claim has its own deciding metrics.
        let mut deciding =
            self.trial.decide_on.iter().filter(|_| self.claim.is_none() && self.has_clock(Clock::Emulator));
        if let Some(metric) = deciding.find(|metric| !metric.is_counted()) {
            return Some(problem(
                &["trial", "decide_on"],
                emulated(*metric),
                "use a device in the guest's memory, where time is virtual: --device ramdisk or a model (`fstrial device list`); or decide on a \
                 count, with workloads that sync: --decide-on device-bytes --workload append-fsync,create-files",
            ));
        }
        let machine = self.arms.iter().position(|arm| self.guest_of(arm).is_none());
        if let Some(machine) = machine {
            return Some(problem(
                &["arm", &machine.to_string(), "place"],
                format!(
                    "{} is built on a machine, and others under kernels in guests",
                    self.arms[machine].name
                ),
                "build all arms in guests, or none",
            ));
        }
        let is_other =
            |place: &PlaceSpec| place.kernel.is_some() && self.clock_at(place) != self.clock_at(guest);
        let other = self.places.iter().position(is_other)?;
        Some(problem(
            &["place", &other.to_string()],
            "its clock is another one than that of other guests: that of KVM, virtual time, or the emulator's",
            "let all guests of a trial run by KVM, or none, and all on devices in memory, or none",
        ))
    }

    /// Every arm with a place, and its name.
    fn elsewhere(&self) -> impl Iterator<Item = (usize, &str)> + Clone {
        self.arms.iter().enumerate().filter_map(|(index, arm)| Some((index, arm.place.as_deref()?)))
    }

    /// The device of a place must suit the arms as the trial's does.
    fn place_devices_problem(&self) -> Option<Problem> {
        self.places.iter().enumerate().find_map(|(index, place)| {
            let arms =
                self.arms.iter().filter(|arm| arm.place.as_ref() == Some(&place.name)).cloned().collect();
            let there = Self { device: place.device.clone()?, places: Vec::new(), arms, ..self.clone() };
            let states = self.restores().then(|| {
                let message = "a state cannot be restored at a place with a separate device";
                problem(
                    &["device"],
                    message,
                    "leave one of them out: states are kept for the device of the trial",
                )
            });
            let mut result = there.device_problem().or(states)?;
            result.path.splice(0..0, ["place".to_owned(), index.to_string()]);
            Some(result)
        })
    }

    /// Leads are of arms that are at several places.
    fn leads_problem(&self) -> Option<Problem> {
        if !self.trial.leads {
            return None;
        }
        if self.trial.compare == Compare::Workloads {
            let hint = "leave one of them out";
            return Some(problem(&["trial", "leads"], "leads are of arms, and workloads are compared", hint));
        }
        let is_elsewhere = |arm: &Arm| self.arms.iter().any(|other| other.is_at_another_place(arm));
        let alone = self.arms.iter().filter(|arm| arm.control_of.is_none()).find(|arm| !is_elsewhere(arm))?;
        Some(problem(
            &["trial", "leads"],
            format!("`{}` is at one place only", alone.name),
            "write every arm at each place, such as ext4, xfs, ext4@fast and xfs@fast, or leave leads out",
        ))
    }

    fn device_problem(&self) -> Option<Problem> {
        let directories = self.arms.iter().filter(|arm| arm.is_directory()).count();
        let device = &self.device;
        let is_directory = !device.kind.holds_filesystems();
        if !is_directory && directories == self.arms.len() && directories > 0 {
            return Some(problem(
                &["device", "kind"],
                format!("existing directories cannot be moved to another device ({})", device.kind.name()),
                "leave --device out (in a file: kind = \"directory\"), or name filesystems to make on it: ext4 xfs",
            ));
        }
        if is_directory != (directories > 0) || (is_directory && directories != self.arms.len()) {
            return Some(problem(
                &["device", "kind"],
                "existing directories and made filesystems cannot be compared in one trial",
                "make every arm dir:PATH (with kind = \"directory\"), or none",
            ));
        }
        if let Some(result) = device.key_problem() {
            return Some(result);
        }
        if let Some((key, message, hint)) = device.members_problem() {
            return Some(problem(&["device", key], message, hint));
        }
        if let Some(result) = self.spread_problem() {
            return Some(result);
        }
        if let Some(result) = device.kind_problem() {
            return Some(result);
        }
        let least = self.arms.iter().filter_map(|arm| arm.row()).max_by_key(|row| row.min_size_mib);
        if let (Some(size), Some(row)) = (device.size, least)
            && size < Bytes::mib(row.min_size_mib)
        {
            return Some(problem(
                &["device", "size"],
                format!("{size} is too small for {}", row.name),
                format!("use at least {}MiB", row.min_size_mib),
            ));
        }
        None
    }

    fn states_problem(&self) -> Option<Problem> {
        let settings = &self.trial;
        if let Some(bad) = settings.state.and_then(|state| state.check().err()) {
            return Some(problem(&["trial", "state"], bad, "see docs/states.md"));
        }
        if settings.state.is_some() && !self.arms.iter().any(|arm| arm.row().is_some()) {
            return Some(problem(
                &["trial", "state"],
                "no arm makes a filesystem that could be brought into a state",
                "leave state out, or add an arm such as ext4",
            ));
        }
        if let Some(problem) = self.loads_problem() {
            return Some(problem);
        }
        if settings.fsck && !self.arms.iter().any(|arm| arm.row().is_some()) {
            return Some(problem(
                &["trial", "fsck"],
                "no arm makes a filesystem that could be checked",
                "leave fsck out, or add an arm such as ext4",
            ));
        }
        if settings.restore == Restoring::Clone && !self.device.kind.is_file() {
            return Some(problem(
                &["trial", "restore"],
                format!("a {} cannot be cloned", self.device.kind.name()),
                "use --device image in a folder of XFS or btrfs, or leave restore out",
            ));
        }
        let also = match (self.device.members, &self.log_device) {
            (Some(_), _) => "several members",
            (_, Some(_)) => "a log device",
            (None, None) => return None,
        };
        self.restores().then(|| {
            problem(
                &["device"],
                format!("a state with {also}: only data on one device can be prepared once and restored"),
                "leave one of them out",
            )
        })
    }

    /// The arms of a round begin with the same load, so all that load have as many; and each load is for a round at least.
    fn loads_problem(&self) -> Option<Problem> {
        let loads = |arm: &Arm| self.loads(arm);
        let first = self.arms.iter().find_map(loads)?;
        if let Some(index) = self.arms.iter().position(|arm| loads(arm).is_some_and(|loads| loads != first)) {
            return Some(problem(
                &["arm", &index.to_string(), "state"],
                format!(
                    "{} has another number of loads than the arms before it ({first}): rounds would compare different loads",
                    self.arms[index].name
                ),
                format!("write state = \"loaded:{first}\" for all of them"),
            ));
        }
        let rounds = self.trial.rounds.filter(|rounds| *rounds < first)?;
        Some(problem(
            &["trial", "rounds"],
            format!(
                "rounds = {rounds} is too few for the state loaded:{first}: some loads would have no round"
            ),
            format!("use {first} rounds or more, or the state loaded:{rounds}"),
        ))
    }

    /// A layer needs a single device, created for the trial.
    fn layer_problem(&self, arm: &Arm, at: &str, members: u16) -> Option<Problem> {
        let layer = arm.layer?;
        let (what, hint) = match self.device.kind {
            DeviceKind::Disk => (
                format!("`{layer}` is made on devices of fstrial's own, not on a disk"),
                "use an image in a folder of the disk (--device image, TMPDIR); or make the volume yourself: dir:/mnt/volume",
            ),
            DeviceKind::Ramdisk if layer == Layer::Crypt => (
                "a ramdisk compresses its data, and data encrypted by `crypt` cannot be compressed".into(),
                "use an image or a modelled device",
            ),
            _ if members > 1 => (
                format!("`{layer}` takes one device, and there are {members} members"),
                "make an array of the members for all arms: raid = \"raid10\" in [device] (--set device.raid=raid10)",
            ),
            _ if self.restores() => (
                format!(
                    "a state with `{layer}`: only data on the device itself can be prepared once and restored"
                ),
                "leave one of them out",
            ),
            _ => return None,
        };
        Some(problem(&["arm", at, "layer"], what, hint))
    }

    /// Members without an array are for btrfs, which spreads itself over them; a profile needs as many as it takes.
    fn spread_problem(&self) -> Option<Problem> {
        let device = &self.device;
        let members = if device.raid.is_some() { 1 } else { device.members.unwrap_or(1) };
        for (index, arm) in self.arms.iter().enumerate() {
            let at = index.to_string();
            if device.raid.is_some() && arm.cache.is_some() {
                return Some(problem(
                    &["arm", &at, "cache"],
                    "an array has a separate cache mode, regardless of its members'",
                    "leave cache out, or the array",
                ));
            }
            if let Some(result) = self.layer_problem(arm, &at, members) {
                return Some(result);
            }
            if members > 1 && arm.row().is_none_or(|row| row.several.is_none()) {
                return Some(problem(
                    &["arm", &at, "filesystem"],
                    format!(
                        "{} cannot use several devices; only {} can",
                        arm.filesystem,
                        Filesystem::names_of(|row| row.several.is_some(), "and")
                    ),
                    "make an array of the members for all arms: raid = \"raid10\" in [device] (--set device.raid=raid10)",
                ));
            }
            if let Some(profile) = arm.profile.filter(|profile| profile.least_members() > members) {
                return Some(problem(
                    &["arm", &at, "profile"],
                    format!("`profile={profile}` needs {} devices, got {members}", profile.least_members()),
                    format!(
                        "write members = {least} in [device] (--set device.members={least})",
                        least = profile.least_members()
                    ),
                ));
            }
        }
        None
    }

    /// A log device is there if, and only if, an arm has its log on it.
    fn log_device_problem(&self) -> Option<Problem> {
        let user = self.arms.iter().position(|arm| arm.log.is_some());
        match (&self.log_device, user) {
            (None, None) => None,
            (None, Some(index)) => Some(problem(
                &["arm", &index.to_string(), "log"],
                format!("the log of `{}` needs a log device, and the trial has none", self.arms[index].name),
                "add [log_device] with kind = \"image\" or \"ramdisk\"; --set log_device.kind=image on the command line",
            )),
            (Some(_), None) => Some(problem(
                &["log_device"],
                "no arm has its log on the log device",
                format!(
                    "write log=external in an arm of {}, or leave the log device out",
                    Filesystem::names_of(|row| row.external_log.is_ok(), "or")
                ),
            )),
            (Some(device), Some(_)) => {
                let (key, message, hint) = device.problem()?;
                Some(problem(&["log_device", key], message, hint))
            }
        }
    }

    /// The limits for memory that are set, with their place: the trial's first.
    fn memory_limits(&self) -> impl Iterator<Item = (Vec<String>, Bytes)> {
        let of_trial = self.trial.memory.map(|limit| (vec!["trial".into(), "memory".into()], limit));
        let of_arms = self.arms.iter().enumerate().filter_map(|(index, arm)| {
            Some((vec!["arm".into(), index.to_string(), "memory".into()], arm.memory?))
        });
        of_trial.into_iter().chain(of_arms)
    }

    /// No program works in less than this.
    fn memory_problem(&self) -> Option<Problem> {
        let (path, limit) = self.memory_limits().find(|(_, limit)| *limit < memory::MIN_MEMORY)?;
        let hint = Some(format!("use {} at least", memory::MIN_MEMORY));
        Some(Problem { path, message: format!("a memory limit of {limit} is too small"), hint })
    }

    /// A workload must leave some of the limit to the page cache.
    fn too_little_memory(&self, workload: &Workload, threads: u16) -> Option<Problem> {
        let needed = memory::needed(workload, threads);
        let (path, limit) = self.memory_limits().find(|(_, limit)| *limit < needed)?;
        let name = &workload.name;
        Some(Problem {
            path,
            message: format!(
                "`{name}` with {threads} threads takes {} for itself (buffers and records), and the limit for the memory is \
                 {}",
                needed.human(),
                limit.human()
            ),
            hint: Some("raise the limit, or lower threads, depth, block_size or cache".into()),
        })
    }

    /// Combinations excluded for operations and programs: refused rather than silently ignored.
    fn operations_problem(&self, workloads: &[Workload]) -> Option<Problem> {
        let at = |index: usize, message: String, hint: &str| {
            Some(problem(&["workload", &index.to_string()], message, hint))
        };
        for (index, workload) in workloads.iter().enumerate() {
            let name = &workload.name;
            if !workload.is_load()
                && self.arms.iter().any(|arm| arm.handicap.is_some() && arm.control_of.is_none())
            {
                let message = format!("`{name}` takes no handicap: only built-in loads do");
                let hint =
                    "leave out handicap, or this workload; a modelled device can be slower: slowed=10%";
                return at(index, message, hint);
            }
            let Some(timed) = workload.operation() else { continue };
            let device = &self.device;
            let beside = [
                ("members: the tools take one device", device.members.is_some()),
                ("a log device: the tools take one device", self.log_device.is_some()),
                (
                    "a profile: filesystems are made again without it",
                    self.arms.iter().any(|arm| arm.profile.is_some()),
                ),
            ];
            if let Some((what, _)) = beside.iter().find(|(_, is_there)| *is_there) {
                return at(
                    index,
                    format!("the operation `{name}` together with {what}"),
                    "leave one of them out",
                );
            }
            let states = self.arms.iter().filter_map(|arm| self.state_of(arm));
            if timed.makes_a_filesystem() && states.into_iter().any(|state| !state.is_fresh()) {
                let message =
                    format!("the operation `{name}` makes the filesystem again, and a state would be lost");
                return at(index, message, "leave out the state, or this operation");
            }
        }
        None
    }

    /// The deciding metrics of a trial must exist.
    fn metrics_problem(&self, workloads: &[Workload]) -> Option<Problem> {
        let has = |metric: &Metric| {
            workloads
                .iter()
                .any(|workload| workload.results().any(|one| metric.is_of(&one) || metric.is_name_of(&one)))
        };
        let metric = self.trial.decide_on.iter().find(|metric| !has(metric))?;
        Some(problem(
            &["trial", "decide_on"],
            format!("no workload has {}", metric.row().words),
            match metric {
                Metric::MeanLatency => "give a load a rate: without one mean latency is throughput again",
                _ => {
                    "programs and operations have only their own numbers, such as a latency-p99: decide on throughput"
                }
            },
        ))
    }

    fn workloads_problem(&self) -> Option<Problem> {
        if self.workloads.is_empty() {
            return Some(problem(
                &["workload"],
                "no workload",
                "add [[workload]] with use = \"random-write\"",
            ));
        }
        if self.workloads.len() > 64 {
            return Some(problem(
                &["workload"],
                format!("the trial has {} workloads", self.workloads.len()),
                "use at most 64",
            ));
        }
        let workloads = match self.resolve_workloads(1) {
            Ok(workloads) => workloads,
            Err(result) => return Some(result),
        };
        if let Some(result) = self.operations_problem(&workloads) {
            return Some(result);
        }
        if let Some(result) = self.metrics_problem(&workloads) {
            return Some(result);
        }
        if self.trial.compare == Compare::Workloads && !have_results_in_common(&workloads) {
            return Some(problem(
                &["trial", "compare"],
                "no two workloads have a result of the same name and unit, at the same number of threads",
                "name their phases (or metrics) alike, and give them the same threads",
            ));
        }
        for (index, workload) in workloads.iter().enumerate() {
            let at = index.to_string();
            let able =
                self.arms.iter().filter(|arm| arm.control_of.is_none() && can_run(arm, workload)).count();
            if able < self.least_arms() {
                return Some(problem(
                    &["workload", &at, "use"],
                    format!("`{}` needs files, and fewer than two arms have a filesystem", workload.name),
                    "leave the workload out, or add arms with a filesystem",
                ));
            }
            let most = workload.threads.iter().copied().max().unwrap_or(1);
            let mut groups = workload.phases().iter().flat_map(|phase| &phase.groups);
            let too_few = groups.find_map(|group| group.pattern.too_few_blocks(group.workers(most)));
            if let Some((has, wants)) = too_few {
                return Some(problem(
                    &["workload", &at, "threads"],
                    format!(
                        "`{}` at {most} threads has {has} blocks for each thread, and needs {wants}",
                        workload.name
                    ),
                    "raise file_size, or lower threads, files or block_size",
                ));
            }
            if let Some(result) = self.too_little_memory(workload, most) {
                return Some(result);
            }
            if let Some(result) =
                self.load_problem(workload, &at, most).or_else(|| self.emulated_work_problem(workload, &at))
            {
                return Some(result);
            }
            if let Some(result) = self.room_problem(workload, &at, most) {
                return Some(result);
            }
        }
        None
    }

    /// In a guest, writes that wait for a timer of the kernel are spread over as many operations as the emulator
    /// manages; and in virtual time a program would wait for its files, which are the host's, for any time at all.
    fn emulated_work_problem(&self, workload: &Workload, at: &str) -> Option<Problem> {
        let is_program = !workload.is_load() || workload.helper().is_some();
        if self.has_clock(Clock::Virtual) && is_program {
            return Some(problem(
                &["workload", at, "use"],
                format!(
                    "`{}` runs programs, whose files come from outside a guest in virtual time",
                    workload.name
                ),
                "use a workload of fstrial's own load generator, or a guest with KVM; counts alone are compared on an image",
            ));
        }
        (self.has_clock(Clock::Emulator) && !workload.is_self_clocked()).then(|| {
            problem(
                &["workload", at, "use"],
                format!(
                    "bytes per operation of `{}` in a guest depend on the emulator's speed: it runs for a time, and its writes wait for \
                     the kernel's timers",
                    workload.name
                ),
                "use a device in the guest's memory, where time is virtual (a ramdisk, or a model), or a workload that syncs each request or \
                 file, such as append-fsync or create-files, or one with a fixed amount of work, such as postmark",
            )
        })
    }

    /// With the state `loaded` a workload must have data that can be loaded.
    fn load_problem(&self, workload: &Workload, at: &str, threads: u16) -> Option<Problem> {
        let is_asked =
            workload.loaded(threads).is_none() && self.arms.iter().any(|arm| self.loads(arm).is_some());
        is_asked.then(|| {
            problem(
                &["workload", at, "use"],
                format!(
                    "the state loaded with `{}`, which loads no data before the clock starts",
                    workload.name
                ),
                match workload.ycsb() {
                    Some(ycsb) => format!(
                        "use a workload without a phase that loads, on the same engine: ycsb-a with --engine {}",
                        ycsb.engine.name()
                    ),
                    None => "leave the state out, or use a workload with data: ycsb-a, postgresql-tpcb, mariadb-oltp-rw; one of your own \
                             with load in [server], or prepare in [program]"
                        .into(),
                },
            )
        })
    }

    /// A workload must fit on the device, next to the states of all arms.
    fn room_problem(&self, workload: &Workload, at: &str, threads: u16) -> Option<Problem> {
        let needed = workload.space_needed(threads);
        let size = self.device.size?;
        if let Some((arm, least)) = self.tightest(needed)
            && least > size
            && let Some(state) = self.state_of(arm).filter(|state| !state.is_fresh())
        {
            let less = match workload.ycsb().is_some() {
                true => "or fewer records (--set workload.ycsb.records=N)",
                false => "smaller files, or a state with more room",
            };
            return Some(problem(
                &["workload", at, "file_size"],
                format!(
                    "`{}` needs {} for its files, too much with the state {state} of {} on a device of {}",
                    workload.name,
                    needed.human(),
                    arm.name,
                    size.human()
                ),
                format!(
                    "use a device of {} at least (--set device.size={0}), {less}",
                    Bytes(least.0.next_multiple_of(1 << 20))
                ),
            ));
        }
        let of_layer = self.arms.iter().find_map(|arm| arm.layer).filter(|_| self.device_for(needed) > size);
        if let Some(layer) = of_layer {
            return Some(problem(
                &["workload", at, "file_size"],
                format!(
                    "`{}` needs {} for its files, too much for the volume of `{layer}` on a device of {}",
                    workload.name,
                    needed.human(),
                    size.human()
                ),
                format!(
                    "use a device of {} at least, or a smaller file_size",
                    Bytes(self.device_for(needed).0.next_multiple_of(1 << 20))
                ),
            ));
        }
        (needed.0 > size.0 / 10 * 8).then(|| {
            problem(
                &["workload", at, "file_size"],
                format!(
                    "`{}` needs {} for its files, too much for a device of {}",
                    workload.name,
                    needed.human(),
                    size.human()
                ),
                "use at most 80% of the device's size: a smaller file_size, or fewer records",
            )
        })
    }
}

/// Why a metric of an arm in a guest decides nothing.
fn emulated(metric: Metric) -> String {
    format!("{} of an arm in a guest with emulated processors measures the emulator", metric.row().words)
}

/// True if workloads have results to compare.
fn have_results_in_common(workloads: &[Workload]) -> bool {
    let results = |workload: &Workload| workload.results().collect::<Vec<_>>();
    let alike = |a: &Workload, b: &Workload| {
        a.threads.iter().any(|threads| b.threads.contains(threads))
            && !comparable(&results(a), &results(b)).is_empty()
    };
    workloads.iter().enumerate().any(|(n, a)| workloads[n + 1..].iter().any(|b| alike(a, b)))
}
