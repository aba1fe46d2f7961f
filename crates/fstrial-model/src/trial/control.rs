//! The positive control of a trial: one of its arms again, with a known slowdown. Where that slowdown is not seen, a
//! difference between the other arms would not have been seen either, and "equivalent" says nothing.

use super::{Trial, shows_a_handicap, shows_a_slow_device};
use crate::{arm::Arm, units::Percent, workload::Workload};
use std::collections::BTreeMap;

/// The planted slowdown, in bands: plainly outside the one that counts as no difference.
const BANDS: f64 = 2.0;

impl Trial {
    /// Adds the controls that the trial asks for, if it has none yet: a slower load where any of its workloads is one, and
    /// a slower modelled device where any is a program or an operation.
    pub fn add_control(&mut self, cpus: u16) {
        if !self.trial.control || self.arms.iter().any(|arm| arm.control_of.is_some()) {
            return;
        }
        // What cannot be resolved is told elsewhere.
        let workloads = self.resolve_workloads(cpus).unwrap_or_default();
        let Some(base) = self.control_base().cloned() else { return };
        let planted = Some(Percent(BANDS * self.widest_band().0));
        // What is seen on one device says nothing about another.
        let is_elsewhere = |arm: &&Arm| self.trial.leads && arm.is_at_another_place(&base);
        let elsewhere: Vec<Arm> = self.arms.iter().filter(is_elsewhere).cloned().collect();
        for base in std::iter::once(base).chain(elsewhere) {
            let beside = |workload: &&Workload| super::can_run(&base, workload);
            let mut all = workloads.iter().filter(beside);
            let is_modelled = self.device_of(&base).kind.is_modelled();
            if all.clone().any(shows_a_handicap) {
                self.push_control(&base, Arm { handicap: planted, ..base.clone() });
            }
            if is_modelled && all.any(shows_a_slow_device) {
                self.push_control(&base, Arm { slowed: planted, ..base.clone() });
            }
        }
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

    /// Whether an arm is the one that the others are compared with; with leads, that of its place.
    pub fn is_baseline(&self, arm: &Arm) -> bool {
        let baseline = self.trial.baseline.as_ref();
        baseline
            .is_some_and(|name| *name == arm.name || self.trial.leads && *name == arm.name_without_place())
    }

    /// The widest band in which anything is called the same.
    fn widest_band(&self) -> Percent {
        let expectations = self.claim.iter().flat_map(|claim| &claim.expectations);
        let within = expectations.filter_map(|expectation| expectation.within);
        within.fold(self.trial.practical, |widest, band| if band.0 > widest.0 { band } else { widest })
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
    fn a_trial_has_one_control_however_often_it_is_read() {
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
    fn what_no_handicap_reaches_has_a_slower_modelled_device_as_its_control() {
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
        let runs = |arm: usize| {
            workloads.iter().map(move |workload| super::super::can_run(&both.arms[arm], workload))
        };
        assert!(runs(2).eq([false, true]));
    }

    #[test]
    fn a_control_wins_nothing() {
        let text = "[claim]\nid = \"c\"\nstatement = \"s\"\nauthor = \"a\"\ndate = \"2012\"\nwhere = \"w\"\n\
                    [[claim.expect]]\nno_single_winner = true\n\
                    [trial]\ncontrol = true\n[device]\nkind = \"image\"\n\
                    [[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n\
                    [[workload]]\nuse = \"random-write\"\nthreads = [1, 2]\n";
        let mut trial = Trial::parse("c.toml", text).unwrap();
        trial.add_control(2);
        let workloads = trial.resolve_workloads(2).unwrap();
        let parts = trial.claim.as_ref().unwrap().parts(&trial.arms, &workloads, 2).unwrap();
        let ClaimQuestion::NoSingleWinner(groups) = &parts[0].asked else { panic!("{parts:?}") };
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn a_claims_control_is_of_the_arm_it_speaks_of_and_beyond_its_widest_band() {
        let text = "[claim]\nid = \"c\"\nstatement = \"s\"\nauthor = \"a\"\ndate = \"2012\"\nwhere = \"w\"\n\
                    [[claim.expect]]\nflat = [\"xfs @ 1\", \"xfs @ 2\"]\nwithin = \"20%\"\n\
                    [trial]\ncontrol = true\n[device]\nkind = \"image\"\n\
                    [[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n\
                    [[workload]]\nuse = \"random-write\"\nthreads = [1, 2]\n";
        let mut claim = Trial::parse("c.toml", text).unwrap();
        claim.add_control(2);
        let control = claim.arms.last().unwrap();
        assert_eq!((control.control_of.as_deref(), control.handicap), (Some("xfs"), Some(Percent(40.0))));
    }
}
