//! Scaling a claim to the machine at hand: file sizes from device and memory, levels from processors.

use super::Level;
use crate::{
    trial::Trial,
    units::{Bytes, Percent},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Scaling of a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Scale {
    /// The size of files of every workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<SizeRule>,
    /// Levels of workloads that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<Level>>,
}

/// A size between bounds, depending on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeRule {
    /// Never more.
    pub most: Bytes,
    /// Never less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<Bytes>,
    /// No more than this share of the memory, or of the trial's limit for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Percent>,
    /// No more than this share of the device, where its size is known beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Percent>,
    /// No more than this in a quick check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick: Option<Bytes>,
}

/// Target machine of a scaling.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Processors.
    pub cpus: u16,
    /// Memory in all.
    pub memory: Bytes,
    /// The kernel's version.
    pub kernel: super::era::Version,
    /// True for a quick check.
    pub quick: bool,
}

impl Scale {
    /// Scales the workloads of a trial; returns a description.
    pub fn apply(&self, trial: &mut Trial, machine: &Machine) -> Vec<String> {
        let mut notes = Vec::new();
        for arm in &mut trial.arms {
            let words = arm.mkfs.iter_mut().chain(&mut arm.mount);
            words.for_each(|word| *word = filled_in(word, machine.cpus));
        }
        if let Some(rule) = &self.file_size {
            let limit = trial.least_memory();
            let memory =
                (limit.unwrap_or(machine.memory), if limit.is_some() { "memory limit" } else { "memory" });
            let (size, why) = rule.size(machine, memory, trial.device.size);
            trial.workloads.iter_mut().for_each(|entry| entry.file_size = Some(size));
            notes.push(format!("files of {} ({why})", size.human()));
        }
        if let Some(levels) = &self.threads {
            let mut threads: Vec<u16> = levels.iter().map(|level| level.threads(machine.cpus)).collect();
            threads.sort_unstable();
            threads.dedup();
            let open = trial.workloads.iter_mut().filter(|entry| entry.threads.is_none());
            open.for_each(|entry| entry.threads = Some(threads.clone()));
            let list = |items: Vec<String>| items.join(", ");
            let levels = list(levels.iter().map(ToString::to_string).collect());
            notes.push(format!(
                "{} threads ({levels} on {} processors)",
                list(threads.iter().map(ToString::to_string).collect()),
                machine.cpus
            ));
        }
        notes
    }
}

/// A word with its `{cpus}` and `{4×cpus}` replaced by numbers.
fn filled_in(word: &str, cpus: u16) -> String {
    let level = |(before, rest): (&str, &str)| {
        let (name, after) = rest.split_once('}')?;
        let level: Level = name.parse().ok()?;
        Some(format!("{before}{}{after}", level.threads(cpus)))
    };
    word.split_once('{').and_then(level).unwrap_or_else(|| word.to_owned())
}

impl SizeRule {
    /// The size, whole mebibytes, and which of the bounds it comes from.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share"
    )]
    fn size(
        &self,
        machine: &Machine,
        (memory, called): (Bytes, &str),
        device: Option<Bytes>,
    ) -> (Bytes, String) {
        let share = |of: Bytes, percent: Percent| Bytes((of.0 as f64 * percent.fraction()) as u64);
        let memory =
            self.memory.map(|percent| (share(memory, percent), format!("{percent} of the {called}")));
        let device = device
            .zip(self.device)
            .map(|(size, percent)| (share(size, percent), format!("{percent} of the device")));
        let quick = self.quick.filter(|_| machine.quick).map(|size| (size, "a quick check".to_owned()));
        let bounds = [Some((self.most, "as in the claim".to_owned())), memory, device, quick];
        let (size, why) = bounds
            .into_iter()
            .flatten()
            .min_by_key(|(size, _)| *size)
            .expect("the first one is always there");
        match self.least {
            Some(least) if size < least => (least, "no less makes sense".into()),
            _ => (Bytes((size.0 >> 20).max(1) << 20), why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{claim::era::Version, workload::Entry};

    const MACHINE: Machine =
        Machine { cpus: 2, memory: Bytes::gib(8), kernel: Version(6, 18, 0), quick: false };

    #[test]
    fn the_tightest_bound_counts_and_is_named() {
        let plenty = (MACHINE.memory, "memory");
        let rule = SizeRule {
            most: Bytes::gib(4),
            least: Some(Bytes::mib(64)),
            memory: Some(Percent(10.0)),
            device: Some(Percent(1.0)),
            quick: Some(Bytes::mib(128)),
        };
        assert_eq!(rule.size(&MACHINE, plenty, None), (Bytes::mib(819), "10% of the memory".into()));
        assert_eq!(
            rule.size(&MACHINE, plenty, Some(Bytes::gib(1))).0,
            Bytes::mib(64),
            "never less than the least"
        );
        let quick = Machine { quick: true, ..MACHINE };
        assert_eq!(rule.size(&quick, plenty, None), (Bytes::mib(128), "a quick check".into()));
    }

    #[test]
    fn a_limit_takes_the_place_of_the_memory() {
        let share = SizeRule {
            most: Bytes::gib(4),
            least: None,
            memory: Some(Percent(50.0)),
            device: None,
            quick: None,
        };
        let scale = Scale { file_size: Some(share), threads: None };
        let mut trial = Trial { workloads: vec![Entry::of_preset("random-read")], ..Trial::default() };
        trial.arms = vec!["ext4:memory=256MiB".parse().unwrap(), "xfs".parse().unwrap()];
        trial.trial.memory = Some(Bytes::mib(512));
        assert_eq!(scale.apply(&mut trial, &MACHINE), ["files of 128 MiB (50% of the memory limit)"]);
        assert_eq!(trial.workloads[0].file_size, Some(Bytes::mib(128)));
    }

    #[test]
    fn options_follow_the_processors() {
        assert_eq!(filled_in("agcount={4×cpus}", 2), "agcount=8");
        assert_eq!(filled_in("agcount={cpus},x=1", 16), "agcount=16,x=1");
        for word in ["agcount=4", "{", "x={y}", "a}b{"] {
            assert_eq!(filled_in(word, 2), word);
        }
    }

    #[test]
    fn thread_levels_apply_only_to_unset_workloads() {
        let levels = ["1", "2", "cpus", "4×cpus"].map(|text| text.parse().unwrap()).to_vec();
        let mut trial = Trial { workloads: vec![Entry::of_preset("random-write"); 2], ..Trial::default() };
        trial.workloads[1].threads = Some(vec![7]);
        let notes = Scale { threads: Some(levels), file_size: None }.apply(&mut trial, &MACHINE);
        assert_eq!(trial.workloads[0].threads, Some(vec![1, 2, 8]));
        assert_eq!(trial.workloads[1].threads, Some(vec![7]));
        assert_eq!(notes, ["1, 2, 8 threads (1, 2, cpus, 4×cpus on 2 processors)"]);
    }
}
