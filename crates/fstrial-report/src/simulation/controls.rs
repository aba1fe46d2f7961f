//! Controls: equivalence only if a planted slowdown is detected, and the requirements of that.

use super::{
    trials::{faster, of_metric, throughput},
    *,
};
use fstrial_model::device::{Device, DeviceKind, ModelChoice};
use fstrial_run::contrast::Assay;

#[test]
fn a_planted_handicap_is_found_before_the_budget_ends() {
    let mut covered = 0;
    for seed in 0..20 {
        let plan = plan(&["fast=ext4", "slow=ext4"], &[1], seed, |_| {});
        let world = World { seed, noise: 0.03, arms: vec![("slow", faster(1.0 / 1.1))], ..World::default() };
        let ended = simulate(&plan, &world, none);
        let state = throughput(&ended, "slow", "fast");
        assert_eq!(ended.finished().reason, Reason::Settled, "seed {seed}");
        assert_eq!(state.verdict, Outcome::Slower, "seed {seed}: {state:?}");
        assert!(ended.ended_at < Nanos::secs(200), "seed {seed}: {}", ended.ended_at);
        let (low, high) = state.interval.unwrap();
        assert!(high < 1.0);
        covered += u32::from((low..=high).contains(&(1.0 / 1.1)));
        // The same trial with the arms written the other way round.
        let plan = super::plan(&["slow=ext4", "fast=ext4"], &[1], seed, |_| {});
        let ended = simulate(&plan, &world, none);
        assert_eq!(throughput(&ended, "fast", "slow").verdict, Outcome::Faster, "seed {seed}");
    }
    assert!(covered >= 17, "a 95 % interval held the truth in {covered} of 20 trials");
}

/// Trials of equal arms with a control that is slowed down by its dose, or not at all.
#[test]
fn equivalence_requires_detected_control_slowdown() {
    let of = |seed: u64, control: f64, noise: f64| {
        let plan = plan(&["a=ext4", "b=ext4"], &[1], seed, |settings| settings.control = true);
        let arms = vec![("control", faster(control))];
        let ended = simulate(&plan, &World { seed, noise, arms, ..World::default() }, none);
        let found = throughput(&ended, "control", "a").control.unwrap().found;
        (throughput(&ended, "b", "a").verdict, found)
    };
    let all = |control: f64, noise: f64| (0..20).map(|seed| of(seed, control, noise)).collect::<Vec<_>>();
    let count = |all: &[(Outcome, Assay)], wanted| all.iter().filter(|one| **one == wanted).count();
    let seen = all(1.0 / 1.06, 0.02);
    assert!(count(&seen, (Outcome::Equivalent, Assay::Seen)) >= 16, "{seen:?}");
    let hidden = all(1.0, 0.02);
    assert!(count(&hidden, (Outcome::Insensitive, Assay::Unseen)) >= 16, "{hidden:?}");
    assert!(hidden.iter().all(|(outcome, _)| *outcome != Outcome::Equivalent), "{hidden:?}");
    let blown_up = all(1.0 / 1.5, 0.02);
    assert!(count(&blown_up, (Outcome::Insensitive, Assay::Overdosed)) >= 16, "{blown_up:?}");
    assert!(blown_up.iter().all(|(outcome, _)| *outcome != Outcome::Equivalent), "{blown_up:?}");
}

/// A device that lets only a part of every difference through: the arms differ by more than the band without it, and by
/// half of that with it. So does the planted slowdown.
#[test]
fn masking_device_rarely_licenses_equivalence() {
    for (passes, differ) in [(0.45, 1.034_f64), (0.35, 1.041), (0.25, 1.051)] {
        for noise in [0.003, 0.01] {
            let licensed = (0..10).filter(|seed| {
                let plan = plan(&["a=ext4", "b=ext4"], &[1], *seed, |settings| settings.control = true);
                let shown = |factor: f64| faster(factor.powf(passes));
                let arms = vec![("b", shown(differ)), ("control", shown(1.0 / 1.06))];
                let ended = simulate(&plan, &World { seed: *seed, noise, arms, ..World::default() }, none);
                throughput(&ended, "b", "a").verdict == Outcome::Equivalent
            });
            // 5 % of 10 trials is half of one.
            let licensed = licensed.count();
            assert!(licensed <= 1, "{passes} passes, noise {noise}: {licensed} of 10");
        }
    }
}

/// A limit of controls: if a fifth of everything shows, and the handicap costs eight times its dose, it looks like the
/// right dose. The answer reports the dose and its cost.
#[test]
fn excessive_control_cost_can_still_license_equivalence() {
    let shown = |factor: f64| faster(factor.powf(0.2));
    let licensed = (0..10).filter(|seed| {
        let plan = plan(&["a=ext4", "b=ext4"], &[1], *seed, |settings| settings.control = true);
        let arms = vec![("b", shown(1.062)), ("control", shown(1.0 / 1.48))];
        let ended = simulate(&plan, &World { seed: *seed, arms, ..World::default() }, none);
        let is_licensed = throughput(&ended, "b", "a").verdict == Outcome::Equivalent;
        let control = crate::verdict::control_line(&throughput(&ended, "control", "a"));
        assert!(!is_licensed || control.as_ref().is_some_and(|line| line.contains("planted")), "{control:?}");
        is_licensed
    });
    assert!(licensed.count() > 4, "docs/statistics.md says so");
}

/// If the load's handicap does not show, the device is slowed; a cost of the same size licenses dependent verdicts.
#[test]
fn unseen_load_handicap_falls_back_to_device_slowdown() {
    let of = |model: &str, load: f64, device: f64| {
        let mut trial = plan(&["a=ext4", "b=ext4"], &[1], 7, |settings| settings.control = true).trial;
        trial.arms.truncate(2);
        trial.device =
            Device { kind: DeviceKind::Model, model: Some(ModelChoice::Named(model.into())), ..trial.device };
        let plan = Plan::new(trial.settled(CPUS).unwrap(), 7).unwrap();
        let arms = vec![("control", faster(load)), ("control-2", faster(device))];
        let ended = simulate(&plan, &World { arms, ..World::default() }, none);
        let runs = |name: &str| {
            let is_run = |event: &&SeenEvent| matches!(event, SeenEvent::RunStarted { cell, .. } if plan.arm_name(*cell) == name);
            ended.events.iter().filter(is_run).count()
        };
        (throughput(&ended, "b", "a").verdict, runs("control") > 0, runs("control-2") > 0)
    };
    assert_eq!(of("hdd-7200", 1.0 / 1.06, 1.0), (Outcome::Equivalent, true, false));
    assert_eq!(of("hdd-7200", 1.0, 1.0 / 1.06), (Outcome::Equivalent, true, true));
    assert_eq!(of("hdd-7200", 1.0, 1.0), (Outcome::Insensitive, true, true));
    // A cost far above the dose is not made up for by another lever, nor is the limit of the device.
    assert_eq!(of("hdd-7200", 1.0 / 1.5, 1.0 / 1.06), (Outcome::Insensitive, true, false));
    assert_eq!(of("gp3-3000", 1.0, 1.0 / 1.06), (Outcome::Insensitive, true, false));
}

/// A control of another dose than a question's licenses nothing.
#[test]
fn a_control_of_another_dose_is_no_control() {
    let control = "c=ext4:handicap=20%,control_of=a";
    let told_of = |arms: &[&str]| {
        let plan = plan(arms, &[1], 7, |_| {});
        throughput(&simulate(&plan, &World::default(), none), "b", "a").verdict
    };
    assert_eq!(told_of(&["a=ext4", "b=ext4"]), Outcome::Equivalent);
    assert_eq!(told_of(&["a=ext4", "b=ext4", control]), Outcome::Undecided);
}

/// Latency has a control of its own dose, and metrics that the trial does not decide on are not called equivalent next
/// to controls.
#[test]
fn quantile_equivalence_requires_its_own_control() {
    let of = |decide_on: Vec<Metric>, controls: [f64; 2]| {
        let plan = plan(&["a=ext4", "b=ext4"], &[1], 7, |settings| {
            settings.control = true;
            settings.decide_on = decide_on;
        });
        let arms = vec![("control", faster(controls[0])), ("control-2", faster(controls[1]))];
        let ended = simulate(&plan, &World { arms, ..World::default() }, none);
        of_metric(&ended, "b", "a", Metric::P99).verdict
    };
    let both = || vec![Metric::Throughput, Metric::P99];
    assert_eq!(of(both(), [1.0 / 1.06, 1.0 / 1.2]), Outcome::Equivalent);
    assert_eq!(of(both(), [1.0 / 1.06, 1.0]), Outcome::Insensitive);
    assert_eq!(of(vec![Metric::Throughput], [1.0 / 1.06, 1.0]), Outcome::Undecided);
}

#[test]
fn control_changes_nothing_for_plain_difference() {
    for seed in 0..10 {
        let arms = || vec![("b", faster(1.3)), ("control", faster(1.0 / 1.06))];
        let world = |arms| World { seed, noise: 0.02, arms, ..World::default() };
        let with = plan(&["a=ext4", "b=ext4"], &[1], seed, |settings| settings.control = true);
        let without = plan(&["a=ext4", "b=ext4"], &[1], seed, |_| {});
        let (with, without) =
            (simulate(&with, &world(arms()), none), simulate(&without, &world(arms()), none));
        let [one, other] = [&with, &without].map(|ended| throughput(ended, "b", "a"));
        assert_eq!((one.verdict, one.rounds), (other.verdict, other.rounds), "seed {seed}");
        assert_eq!(with.finished().rounds, without.finished().rounds, "nothing rests on it: seed {seed}");
        let is_control = |event: &SeenEvent| matches!(event, SeenEvent::RunStarted { cell, .. } if with.plan.is_control(*cell));
        assert!(!with.events.iter().any(is_control), "a plain difference takes no control");
        assert!(with.finished().is_decided());
    }
}
