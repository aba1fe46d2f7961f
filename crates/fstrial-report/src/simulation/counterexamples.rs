//! Noise and arms that can deceive a rule, each through whole trials: equal arms must seldom be called different, and
//! an arm that loses in total must not be praised. With this number of trials only a gross failure shows;
//! `fstrial-stats/tests/calibration.rs` has the same with thousands, of the rule alone.

use super::{
    claims::{LEVELS, claimed_of},
    trials::throughput,
    *,
};
use fstrial_model::units::Percent;
use fstrial_run::claim::ClaimVerdict;

/// Trials of each kind.
const TRIALS: u64 = 60;
/// Trials of each kind that ask one question: they are short.
const SHORT_TRIALS: u64 = 120;

/// Trials of each kind where the rule that was once deceived was so in one of seven.
const MANY_TRIALS: u64 = 300;

/// Tolerated failures of `trials` at a rate of `rate`: no more occur in 999 of 1000 cases.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small"
)]
fn most(rate: f64, trials: u64) -> usize {
    let mean = rate * trials as f64;
    (mean + 3.1 * (mean * (1.0 - rate)).sqrt()).ceil() as usize
}

/// A trial of two arms at so many levels, each a question, of 24 rounds: later ones have little of the error to spend.
fn requested(levels: u16, seed: u64, change: impl FnOnce(&mut Settings)) -> Plan {
    let threads: Vec<u16> = (1..=levels).collect();
    plan(&["a=ext4", "b=ext4"], &threads, seed, |settings| {
        settings.rounds = Some(24);
        settings.decide_on = vec![Metric::Throughput];
        change(settings);
    })
}

/// Number of trials that end with one of these verdicts on any question.
fn ended(trials: u64, levels: u16, world: impl Fn(u64) -> World, wrong: &[Outcome]) -> usize {
    let is_wrong = |seed: &u64| {
        let plan = requested(levels, *seed, |_| {});
        let simulated = simulate(&plan, &world(*seed), none);
        simulated
            .states()
            .iter()
            .any(|state| state.metric == Metric::Throughput && wrong.contains(&state.verdict))
    };
    (0..trials).filter(is_wrong).count()
}

const DIFFERENT: [Outcome; 2] = [Outcome::Faster, Outcome::Slower];

#[test]
fn equal_arms_rarely_differ_under_any_noise_shape() {
    for shape in [Shape::TwoPoint, Shape::Growing, Shape::Settling] {
        let alarms =
            ended(SHORT_TRIALS, 1, |seed| World { seed, noise: 0.1, shape, ..World::default() }, &DIFFERENT);
        assert!(alarms <= most(0.05, SHORT_TRIALS), "{shape:?}: {alarms} of {SHORT_TRIALS}");
    }
}

/// A disturbance of every third run, with two runs in a round: it falls on one arm, the other, or none, as one of every
/// second run does with three.
#[test]
fn equal_arms_rarely_differ_under_periodic_disturbance() {
    let alarms =
        ended(MANY_TRIALS, 1, |seed| World { seed, every: (3, 0.9), ..World::default() }, &DIFFERENT);
    assert!(alarms <= most(0.05, MANY_TRIALS), "{alarms} of {MANY_TRIALS}");
}

/// The last run of every round is slower, and one level has one arm where the other has three. Were the order drawn
/// within levels, it would be one of the level with one arm in half of all rounds.
#[test]
fn equal_levels_rarely_differ_with_unequal_run_counts() {
    let open = |arm: &str| format!("[[claim.expect]]\namount = \"{arm} @ 4\"\nabove = 510000");
    let lines = format!("[[claim.expect]]\norder = [\"a @ 4\", \"a @ 1\"]\n{}\n{}", open("b"), open("c"));
    let level = Character { growth: 0.0, ..ORDINARY };
    let arms = || ["a", "b", "c"].map(|arm| (arm, level)).to_vec();
    let alarms = claimed_wrongly(TRIALS, &lines, |seed| World {
        seed,
        every: (4, 0.9),
        arms: arms(),
        ..World::default()
    });
    assert!(alarms <= most(0.05, TRIALS), "{alarms} of {TRIALS}");
}

/// In how many of so many trials the first part of a claim that is about nothing is decided.
fn claimed_wrongly(trials: u64, lines: &str, world: impl Fn(u64) -> World) -> usize {
    let is_wrong = |seed: &u64| {
        let plan = claimed_of(LEVELS, "budget = \"2m\"\nstalls = \"30%\"", lines, *seed);
        let simulated = simulate(&plan, &world(*seed), none);
        let judge = simulated.finished().judge().unwrap();
        assert!(simulated.finished().rounds > 9, "rounds enough for verdicts");
        matches!(judge.part(0), ClaimVerdict::Confirmed | ClaimVerdict::Reversed)
    };
    (0..trials).filter(is_wrong).count()
}

/// Noise as it was on real machines, in which runs that follow each other are alike, and some are far from all others.
#[test]
fn equal_arms_rarely_differ_under_recorded_noise() {
    for trial in 0..RECORDED.len() {
        let world = |seed: u64| {
            let shape = Shape::Recorded { trial, from: usize::try_from(seed).unwrap() * 7 };
            World { seed, noise: 1.0, shape, ..World::default() }
        };
        let alarms = ended(SHORT_TRIALS, 1, world, &DIFFERENT);
        assert!(alarms <= most(0.05, SHORT_TRIALS), "{trial}: {alarms} of {SHORT_TRIALS}");
    }
}

/// A disturbance of constant size deceives a t-test of few rounds, the more the more questions there are.
#[test]
fn false_alarm_rate_holds_for_many_questions() {
    for levels in [6, 18] {
        let world = |seed| World { seed, noise: 0.1, shape: Shape::TwoPoint, ..World::default() };
        let alarms = ended(TRIALS, levels, world, &DIFFERENT);
        assert!(alarms <= most(0.05, TRIALS), "{levels} questions: {alarms} of {TRIALS}");
    }
}

/// Three runs in ten of `b` are a tenth slower, the others faster by the amount that makes the typical ratio
/// 1. Signed ranks assume that rounds are symmetric, which these are not; docs/statistics.md has the cost.
#[test]
fn bimodal_arm_rarely_differs_from_typical_one() {
    for (noise, speed) in [(0.003, 1.0072), (0.01, 1.0237)] {
        let arms = || vec![("b", Character { speed, stalls: (0.29, 0.1), ..ORDINARY })];
        let world = |seed| World { seed, noise, arms: arms(), ..World::default() };
        let alarms = ended(SHORT_TRIALS, 1, world, &DIFFERENT);
        assert!(alarms <= most(0.11, SHORT_TRIALS), "noise {noise}: {alarms} of {SHORT_TRIALS}");
    }
}

/// Stalls rare enough for the rounds of a verdict to miss them: the basis of a verdict on arms that lose by them is
/// reported, and if stalls as rare were requested, they were seen. The lines are the worst of docs/statistics.md.
#[test]
fn rare_stalls_are_detected_or_reported_as_unseen() {
    for (gain, often, part, wrong) in [
        (1.04, 0.10, 0.9, 0.10),
        (1.04, 0.10, 0.6, 0.15),
        (1.10, 0.15, 0.9, 0.10),
        (1.0, 0.05, 0.7, 0.06),
        (1.0, 0.10, 0.9, 0.05),
        (1.0, 0.10, 0.4, 0.09),
    ] {
        let praised = |stalls: Option<f64>| praised(gain, (often, part), stalls);
        let (unasked, limit) = (praised(None), most(wrong, TRIALS));
        for state in &unasked {
            // No stall in its rounds: then so many stalls could have stayed away.
            let is_said = state.unseen_stalls_percent >= 100.0 * often;
            assert!(state.total_ratio.unwrap() <= 0.97 * gain || is_said, "{gain} {often} {part}: {state:?}");
        }
        let requested = praised(Some(100.0 * often)).len();
        let unasked = unasked.len();
        assert!(
            requested <= limit && 2 * requested < unasked,
            "{gain} {often} {part}: {requested} of {TRIALS}, {unasked} unasked"
        );
    }
}

/// Stalls in half of the runs are in the rounds of every verdict.
#[test]
fn arms_with_frequent_stalls_are_rarely_called_faster() {
    for (gain, often, part) in [(1.06, 0.45, 0.4), (1.10, 0.5, 0.5)] {
        let wrong = praised(gain, (often, part), None).len();
        assert!(wrong <= most(0.05, TRIALS), "{gain} {often} {part}: {wrong} of {TRIALS}");
    }
}

/// Arms called faster or equivalent that do `gain` whenever they do not stall.
fn praised(gain: f64, stalls: (f64, f64), asked_percent: Option<f64>) -> Vec<ContrastState> {
    let of = |seed: u64| {
        let plan = requested(1, seed, |settings| {
            // More than the 29 and the 59 that show stalls of one run in ten, and in twenty.
            settings.rounds = Some(if stalls.0 < 0.1 { 62 } else { 32 });
            settings.stalls = asked_percent.map(Percent);
        });
        let arms = vec![("b", Character { speed: gain, stalls, ..ORDINARY })];
        throughput(&simulate(&plan, &World { seed, noise: 0.005, arms, ..World::default() }, none), "b", "a")
    };
    let is_praise = |state: &ContrastState| matches!(state.verdict, Outcome::Faster | Outcome::Equivalent);
    (0..TRIALS).map(of).filter(is_praise).collect()
}
