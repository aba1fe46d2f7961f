//! The positive controls of a trial: one of its arms again, with a known slowdown. If that slowdown is not detected, a
//! difference between the other arms would not have been detected either, and "equivalent" means nothing.

use super::{Trial, can_run, shows_a_handicap};
use crate::{
    arm::Arm,
    claim::{Bound, ClaimQuestion, Part},
    metric::Metric,
    units::Percent,
};
use std::collections::BTreeMap;

/// The planted slowdown, in bands: plainly outside the one that counts as no difference.
const BANDS: f64 = 2.0;
const MOST: f64 = 100.0;

/// The slowdown that shows whether a difference beyond a band (a fraction) could be seen.
fn beyond(band: f64) -> Percent {
    // As it is written, so that it is the same when it is read; to be twice as slow is the most that an arm takes.
    Percent(((BANDS * band * 1e6).round() / 1e4).min(MOST))
}

impl Metric {
    /// The planted slowdown for differences of this metric; none for counts, which do not depend on speed, and for the
    /// mean latency, which only loads have that cannot be slowed down. `practical` is a fraction.
    pub fn dose(self, practical: f64) -> Option<Percent> {
        let is_controlled = self == Self::Throughput || self.quantile().is_some();
        is_controlled.then(|| beyond(self.band(practical)))
    }
}

impl Part {
    /// The slowdown that must be detected before the part counts as no difference, or none beyond its bound; none if
    /// nothing depends on it. `practical` is a fraction.
    pub fn dose(&self, practical: f64) -> Option<Percent> {
        let of_metric = self.metric.dose(practical)?;
        match &self.question {
            ClaimQuestion::Ratio { bound, .. } | ClaimQuestion::Slope { bound, .. } => Some(match *bound {
                Bound::Within(band) => beyond(band),
                Bound::Above(least) if least < 1.0 => beyond(least.recip() - 1.0),
                Bound::Below(most) if most > 1.0 => beyond(most - 1.0),
                Bound::Above(_) | Bound::Below(_) => of_metric,
            }),
            ClaimQuestion::Better { .. } | ClaimQuestion::NoSingleWinner(_) => Some(of_metric),
            _ => None,
        }
    }
}

impl Trial {
    /// Adds the controls that the trial asks for, if it has none yet, of each dose that anything rests on: with a
    /// slower load where any of its workloads is one, and on a modelled device with that slower.
    pub fn add_control(&mut self, cpus: u16) {
        if !self.trial.control || self.arms.iter().any(|arm| arm.control_of.is_some()) {
            return;
        }
        // Unresolved names are reported elsewhere.
        let workloads = self.resolve_workloads(cpus).unwrap_or_default();
        let Some(base) = self.control_base().cloned() else { return };
        let doses = self.doses(cpus);
        // Detection on one device says nothing about another.
        let is_elsewhere = |arm: &&Arm| self.trial.leads && arm.is_at_another_place(&base);
        let elsewhere: Vec<Arm> = self.arms.iter().filter(is_elsewhere).cloned().collect();
        for base in std::iter::once(base).chain(elsewhere) {
            let has_load =
                workloads.iter().any(|workload| can_run(&base, workload) && shows_a_handicap(workload));
            for planted in doses.iter().copied().map(Some) {
                if has_load {
                    self.push_control(&base, Arm { handicap: planted, ..base.clone() });
                }
                if self.device_of(&base).kind.is_modelled() {
                    self.push_control(&base, Arm { slowed: planted, ..base.clone() });
                }
            }
        }
    }

    /// Removes the arms that are controls and switches `control` of the trial off.
    pub fn leave_out_controls(&mut self) {
        self.trial.control = false;
        self.arms.retain(|arm| arm.control_of.is_none());
    }

    /// Every slowdown that anything rests on, the least first.
    fn doses(&self, cpus: u16) -> Vec<Percent> {
        let practical = self.trial.practical.fraction();
        let workloads = self.resolve_workloads(cpus).unwrap_or_default();
        let parts = self.claim.as_ref().filter(|claim| !claim.question).map(|claim| {
            let parts = claim.parts(&self.arms, &workloads, cpus).unwrap_or_default();
            parts.iter().filter_map(|part| part.dose(practical)).collect::<Vec<_>>()
        });
        let mut doses = parts.unwrap_or_else(|| {
            self.trial.decide_on.iter().filter_map(|metric| metric.dose(practical)).collect()
        });
        doses.sort_by(|a, b| a.0.total_cmp(&b.0));
        doses.dedup();
        doses
    }

    /// Adds an arm as the control of another.
    fn push_control(&mut self, of: &Arm, slower: Arm) {
        let name = self.free_name("control");
        self.arms.push(Arm { name, control_of: Some(of.name.clone()), ..slower });
    }

    /// This name, or the first with a number after it that no arm has.
    fn free_name(&self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let is_free = |name: &String| self.arms.iter().all(|arm| arm.name != *name);
        std::iter::once(name.to_owned()).chain(numbered).find(is_free).expect("arms are finite in number")
    }

    /// The arm that is run again: the baseline, the one that a claim names most often, or the first one.
    fn control_base(&self) -> Option<&Arm> {
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        let expectations = self.claim.iter().flat_map(|claim| &claim.expectations);
        for cell in expectations.flat_map(|expectation| expectation.cells()) {
            *named.entry(cell.arm.as_str()).or_default() += 1;
        }
        let is_baseline = |arm: &Arm| self.is_baseline(arm);
        let able = self.arms.iter().enumerate().filter(|(_, arm)| arm.planted().is_none());
        able.max_by_key(|(index, arm)| {
            (is_baseline(arm), named.get(arm.name.as_str()).copied(), std::cmp::Reverse(*index))
        })
        .map(|(_, arm)| arm)
    }

    /// True if an arm is the baseline of the others; with leads, that of its place.
    pub fn is_baseline(&self, arm: &Arm) -> bool {
        let baseline = self.trial.baseline.as_ref();
        baseline
            .is_some_and(|name| *name == arm.name || self.trial.leads && *name == arm.name_without_place())
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        arm::Arm, claim::ClaimQuestion, device::DeviceKind, trial::Trial, units::Percent, workload::Entry,
    };

    fn trial(arms: &[&str]) -> Trial {
        let arms = arms.iter().map(|arm| Arm::plain(arm)).collect();
        let mut trial = Trial { arms, workloads: vec![Entry::of_preset("random-write")], ..Trial::default() };
        trial.trial.control = true;
        trial
    }

    #[test]
    fn the_first_arm_or_the_baseline_is_run_once_more_at_twice_the_band() {
        let mut first = trial(&["ext4", "xfs"]);
        first.add_control(2);
        let control = first.arms.last().unwrap();
        assert_eq!(control.to_string(), "control=ext4:handicap=6%,control_of=ext4");
        let mut with_baseline = trial(&["ext4", "xfs"]);
        with_baseline.trial.baseline = Some("xfs".into());
        with_baseline.trial.practical = Percent(1.0);
        with_baseline.add_control(2);
        let control = with_baseline.arms.last().unwrap();
        assert_eq!((control.control_of.as_deref(), control.handicap), (Some("xfs"), Some(Percent(2.0))));
    }

    #[test]
    fn adding_control_is_idempotent() {
        let mut twice = trial(&["ext4", "xfs"]);
        twice.add_control(2);
        let once = twice.clone();
        twice.add_control(2);
        assert_eq!(twice, once);
        let mut none = trial(&["ext4", "xfs"]);
        none.trial.control = false;
        none.add_control(2);
        assert_eq!(none.arms.len(), 2);
        let mut operation = trial(&["ext4", "xfs"]);
        operation.workloads = vec![Entry::of_preset("op-mkfs")];
        operation.add_control(2);
        assert_eq!(operation.arms.len(), 2, "an operation cannot be slowed down, nor an image");
    }

    #[test]
    fn on_a_modelled_device_a_slower_device_is_a_control_too() {
        let mut both = trial(&["ext4", "xfs"]);
        both.device.kind = DeviceKind::Model;
        both.workloads = ["op-mkfs", "random-write"].map(Entry::of_preset).to_vec();
        both.add_control(2);
        let controls: Vec<String> = both.arms[2..].iter().map(ToString::to_string).collect();
        let of = "control_of=ext4";
        assert_eq!(
            controls,
            [format!("control=ext4:handicap=6%,{of}"), format!("control-2=ext4:slowed=6%,{of}")]
        );
        let workloads = both.resolve_workloads(2).unwrap();
        let runs = |arm: usize, workload: usize| super::super::can_run(&both.arms[arm], &workloads[workload]);
        assert_eq!([runs(2, 0), runs(2, 1), runs(3, 0), runs(3, 1)], [false, true, true, true]);
    }

    #[test]
    fn control_is_excluded_from_winner_groups() {
        let text = "[claim]\nid = \"c\"\nstatement = \"s\"\nauthor = \"a\"\ndate = \"2012\"\nwhere = \"w\"\n\
                    [[claim.expect]]\nno_single_winner = true\n\
                    [trial]\ncontrol = true\n[device]\nkind = \"image\"\n\
                    [[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n\
                    [[workload]]\nuse = \"random-write\"\nthreads = [1, 2]\n";
        let mut trial = Trial::parse("c.toml", text).unwrap();
        trial.add_control(2);
        let workloads = trial.resolve_workloads(2).unwrap();
        let parts = trial.claim.as_ref().unwrap().parts(&trial.arms, &workloads, 2).unwrap();
        let ClaimQuestion::NoSingleWinner(groups) = &parts[0].question else { panic!("{parts:?}") };
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn claim_controls_cover_claimed_arm_and_doses() {
        let text = "[claim]\nid = \"c\"\nstatement = \"s\"\nauthor = \"a\"\ndate = \"2012\"\nwhere = \"w\"\n\
                    [[claim.expect]]\nflat = [\"xfs @ 1\", \"xfs @ 2\"]\nwithin = \"20%\"\n\
                    [[claim.expect]]\nratio = [\"xfs @ 1\", \"ext4 @ 1\"]\nabove = 0.8\n\
                    [[claim.expect]]\nratio = [\"xfs @ 2\", \"ext4 @ 2\"]\nabove = 1.5\n\
                    [[claim.expect]]\nratio = [\"xfs @ 1\", \"ext4 @ 1\"]\nabove = 0.9\nmetric = \"device-bytes\"\n\
                    [trial]\ncontrol = true\n[device]\nkind = \"image\"\n\
                    [[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n\
                    [[workload]]\nuse = \"random-write\"\nthreads = [1, 2]\n";
        let mut claim = Trial::parse("c.toml", text).unwrap();
        claim.add_control(2);
        let controls = claim.arms.iter().filter(|arm| arm.control_of.as_deref() == Some("xfs"));
        let doses: Vec<f64> = controls.map(|arm| arm.handicap.unwrap().0).collect();
        assert_eq!(
            doses,
            [6.0, 40.0, 50.0],
            "a bound of 1.5 needs the dose of the 3 % band, and device bytes have no control"
        );
    }
}
