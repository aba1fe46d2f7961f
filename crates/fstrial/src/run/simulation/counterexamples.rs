//! Noise and arms by which a rule can be deceived, each through whole trials: what is equal must seldom be told apart, and
//! what loses in all must not be praised. With so few trials only a gross failure shows; `fstrial-stats/tests/calibration.rs` has
//! the same with thousands, of the rule alone.

use super::{claims::claimed_within, trials::throughput, *};
use crate::run::claim::ClaimVerdict;
use fstrial_model::units::Percent;

/// Trials of each kind.
const TRIALS: u64 = 60;
/// Trials of each kind that ask one question: they are short.
const SHORT_TRIALS: u64 = 120;

/// How many of `trials` may go wrong where a share of `rate` does: no more do in 999 of 1000 cases.
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
fn asked(levels: u16, seed: u64, change: impl FnOnce(&mut Settings)) -> Plan {
    let threads: Vec<u16> = (1..=levels).collect();
    plan(&["a=ext4", "b=ext4"], &threads, seed, |settings| {
        settings.rounds = Some(24);
        settings.decide_on = vec![Metric::Throughput];
        change(settings);
    })
}

/// How many of so many trials end with one of these verdicts on any of what was asked.
fn ended(trials: u64, levels: u16, world: impl Fn(u64) -> World, wrong: &[Outcome]) -> usize {
    let is_wrong = |seed: &u64| {
        let plan = asked(levels, *seed, |_| {});
        let told = simulate(&plan, &world(*seed), none);
        told.states().iter().any(|state| state.metric == Metric::Throughput && wrong.contains(&state.verdict))
    };
    (0..trials).filter(is_wrong).count()
}

const DIFFERENT: [Outcome; 2] = [Outcome::Faster, Outcome::Slower];

#[test]
fn equal_arms_are_seldom_told_apart_whatever_their_noise_is_like() {
    for shape in [Shape::TwoPoint, Shape::Growing, Shape::Settling] {
        let alarms =
            ended(SHORT_TRIALS, 1, |seed| World { seed, noise: 0.1, shape, ..World::default() }, &DIFFERENT);
        assert!(alarms <= most(0.05, SHORT_TRIALS), "{shape:?}: {alarms} of {SHORT_TRIALS}");
    }
}

/// A disturbance of every second run, where a round has an odd number of them: it falls on each arm in turn.
#[test]
fn equal_arms_are_seldom_told_apart_where_every_second_run_is_disturbed() {
    let is_wrong = |seed: &u64| {
        let plan = plan(&["a=ext4", "b=ext4", "c=ext4"], &[1], *seed, |settings| {
            (settings.rounds, settings.decide_on) = (Some(24), vec![Metric::Throughput]);
        });
        let told = simulate(&plan, &World { seed: *seed, second: 0.9, ..World::default() }, none);
        told.states()
            .iter()
            .any(|state| state.metric == Metric::Throughput && DIFFERENT.contains(&state.verdict))
    };
    let alarms = (0..TRIALS).filter(is_wrong).count();
    assert!(alarms <= most(0.05, TRIALS), "{alarms} of {TRIALS}");
}

/// A machine that comes to its speed in the first runs, where one level is asked about three arms and others about one.
#[test]
fn equal_arms_are_seldom_told_apart_where_levels_have_different_numbers_of_runs() {
    let lines =
        ["order = [\"b @ 1\", \"a @ 1\"]", "amount = \"a @ 4\"\nabove = 1", "amount = \"c @ 16\"\nabove = 1"];
    let lines = lines.map(|line| format!("[[claim.expect]]\n{line}")).join("\n");
    let is_wrong = |seed: &u64| {
        let plan = claimed_within("2m", &lines, *seed);
        let world = World { seed: *seed, noise: 0.1, shape: Shape::Settling, ..World::default() };
        let told = simulate(&plan, &world, none);
        let judge = told.finished().judge().unwrap();
        assert!(judge.part(1) == ClaimVerdict::Holds, "{:?}", judge.part(1));
        matches!(judge.part(0), ClaimVerdict::Holds | ClaimVerdict::Reversed)
    };
    let alarms = (0..TRIALS).filter(is_wrong).count();
    assert!(alarms <= most(0.05, TRIALS), "{alarms} of {TRIALS}");
}

/// Noise as it was on real machines, in which runs that follow each other are alike, and some are far from all others.
#[test]
fn equal_arms_are_seldom_told_apart_by_noise_that_was_recorded() {
    for trial in 0..RECORDED.len() {
        let world = |seed: u64| {
            let shape = Shape::Recorded { trial, from: usize::try_from(seed).unwrap() * 7 };
            World { seed, noise: 1.0, shape, ..World::default() }
        };
        let alarms = ended(SHORT_TRIALS, 1, world, &DIFFERENT);
        assert!(alarms <= most(0.05, SHORT_TRIALS), "{trial}: {alarms} of {SHORT_TRIALS}");
    }
}

/// A disturbance that always takes the same deceives a t-test of few rounds, the more the more is asked.
#[test]
fn the_more_is_asked_the_less_each_question_may_err() {
    for levels in [6, 18] {
        let world = |seed| World { seed, noise: 0.1, shape: Shape::TwoPoint, ..World::default() };
        let alarms = ended(TRIALS, levels, world, &DIFFERENT);
        assert!(alarms <= most(0.05, TRIALS), "{levels} questions: {alarms} of {TRIALS}");
    }
}

/// Three runs in ten of `b` are a tenth slower, the others just so much faster that the typical ratio is 1. Signed ranks
/// suppose that rounds are symmetric, which these are not; docs/statistics.md says how much that costs.
#[test]
fn an_arm_with_good_and_bad_runs_is_seldom_told_apart_from_a_typical_one() {
    for (noise, speed) in [(0.003, 1.0072), (0.01, 1.0237)] {
        let arms = || vec![("b", Character { speed, stalls: (0.29, 0.1), ..ORDINARY })];
        let world = |seed| World { seed, noise, arms: arms(), ..World::default() };
        let alarms = ended(SHORT_TRIALS, 1, world, &DIFFERENT);
        assert!(alarms <= most(0.11, SHORT_TRIALS), "noise {noise}: {alarms} of {SHORT_TRIALS}");
    }
}

/// Stalls so rare that the rounds of a verdict need not have had one: what a verdict of arms that lose by them rests on is
/// said, and where stalls as rare were asked for, they were seen.
#[test]
fn what_rare_stalls_lose_is_said_or_seen() {
    for (gain, often, part) in [(1.04, 0.1, 0.9), (1.0, 0.1, 0.9)] {
        let praised = |stalls: Option<Percent>| {
            let of = |seed: u64| {
                let plan = asked(1, seed, |settings| {
                    // More than the 29 that show stalls of one run in ten.
                    (settings.stalls, settings.rounds) = (stalls, Some(32));
                });
                let arms = vec![("b", Character { speed: gain, stalls: (often, part), ..ORDINARY })];
                let world = World { seed, noise: 0.005, arms, ..World::default() };
                let state = throughput(&simulate(&plan, &world, none), "b", "a");
                let is_praised = matches!(state.verdict, Outcome::Faster | Outcome::Equivalent);
                // No stall in its rounds: then so many stalls could have stayed away.
                let is_unseen = state.total_ratio.unwrap() > 0.97 * gain;
                let is_said = state.unseen_stalls_percent >= 100.0 * often;
                (is_praised, is_unseen, is_said)
            };
            (0..TRIALS).map(of).filter(|(is_praised, ..)| *is_praised).collect::<Vec<_>>()
        };
        let unasked = praised(None);
        assert!(!unasked.is_empty(), "{gain} {often} {part}: no test of what is said");
        for (_, is_unseen, is_said) in &unasked {
            assert!(!is_unseen || *is_said, "{gain} {often} {part}");
        }
        let asked = praised(Some(Percent(10.0))).len();
        assert!(asked <= most(0.10, TRIALS), "{gain} {often} {part}: {asked} of {TRIALS}");
    }
}
