//! Calibration of change points: thousands of simulated histories with known truth, from fixed seeds.
//!
//! Histories without a change must seldom show one, under any noise; planted changes must be found soon, their place
//! must be in the reported range, and their size in its interval.
//! `cargo test -p fstrial-stats --test history -- --nocapture` prints the tables of docs/statistics.md.

use fstrial_stats::change::{Change, History};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

const HISTORIES: usize = 4000;
/// Usual distance of a point from its level.
const SIGMA: f64 = 0.02;
/// Steps smaller than this do not matter.
const BAND: f64 = 1.03;

/// A line of the tables, shown under `--nocapture` (and by libtest for a failed test).
#[expect(clippy::print_stdout, reason = "the tables are for anyone who runs this test by hand")]
fn show(line: &str) {
    println!("{line}");
}

/// Noise of a session's ratio about its level, in units of its usual size.
#[derive(Clone, Copy, Debug)]
enum Noise {
    Normal,
    /// Student t with two degrees of freedom: no variance.
    Heavy,
    /// Normal, but every tenth point is off by 4 to 12.
    Outliers,
}

const KINDS: [Noise; 3] = [Noise::Normal, Noise::Heavy, Noise::Outliers];

struct Dice(ChaCha8Rng);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Uniform in (0, 1).
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    fn noise(&mut self, kind: Noise) -> f64 {
        match kind {
            Noise::Normal => self.normal(),
            Noise::Heavy => {
                let u = 2.0 * self.unit() - 1.0;
                u * (2.0 / (1.0 - u * u)).sqrt()
            }
            Noise::Outliers if self.unit() < 0.1 => {
                let size = 4.0 + 8.0 * self.unit();
                if self.unit() < 0.5 { size } else { -size }
            }
            Noise::Outliers => self.normal(),
        }
    }

    /// `points` sessions, from the one of index `from` on higher by `step`.
    fn history(&mut self, kind: Noise, points: usize, from: usize, step: f64) -> Vec<f64> {
        (0..points).map(|i| SIGMA * self.noise(kind) + if i >= from { step } else { 0.0 }).collect()
    }
}

fn changes(series: &[f64]) -> Vec<Change> {
    History::new(series, BAND.ln()).unwrap().changes()
}

fn percent(count: usize, of: usize) -> f64 {
    100.0 * count as f64 / of as f64
}

#[test]
fn histories_without_a_change_seldom_show_one() {
    show(
        "any change | a sure one | the last level surely 3 % worse: in % of 4000 histories without a change",
    );
    for (seed, kind) in (100..).zip(KINDS) {
        for (points, most) in [(8, 5.0), (12, 5.0), (30, 2.0), (100, 2.0)] {
            let mut dice = Dice::new(seed);
            let (mut any, mut sure, mut worse) = (0, 0, 0);
            for _ in 0..HISTORIES {
                let series = dice.history(kind, points, 0, 0.0);
                let found = changes(&series);
                any += usize::from(!found.is_empty());
                sure += usize::from(found.iter().any(|change| change.step.is_sure()));
                worse +=
                    usize::from(History::new(&series, BAND.ln()).unwrap().worse(false, BAND.ln()).is_some());
            }
            let [any, sure, worse] = [any, sure, worse].map(|count| percent(count, HISTORIES));
            show(&format!("  {kind:?}, {points} points: {any:.1} | {sure:.1} | {worse:.1}"));
            assert!(any <= most, "{kind:?}, {points} points: {any} %");
            assert!(sure <= 1.0 && sure <= any, "{kind:?}, {points} points: {sure} %");
            assert!(worse <= 1.0, "{kind:?}, {points} points: {worse} %");
        }
    }
}

/// Outcomes for planted changes, in percent: of all histories, and of the changes detected.
struct Planted {
    found: f64,
    sure: f64,
    placed: f64,
    covered: f64,
}

/// A change counts as found if it is detected within four points of its place.
fn planted(kind: Noise, dice: &mut Dice, points: usize, from: usize, step: f64) -> Planted {
    const REPEATS: usize = 1000;
    let (mut found, mut sure, mut placed, mut sized, mut covered) = (0, 0, 0, 0, 0);
    for _ in 0..REPEATS {
        let series = dice.history(kind, points, from, step);
        let near = |change: &Change| change.index.abs_diff(from) <= 4;
        let Some(change) = changes(&series).into_iter().find(near) else { continue };
        found += 1;
        sure += usize::from(change.step.is_sure());
        placed += usize::from((change.earliest..=change.latest).contains(&from));
        if let Some((low, high)) = change.step.shift.interval {
            sized += 1;
            covered += usize::from(low <= step && step <= high);
        }
    }
    Planted {
        found: percent(found, REPEATS),
        sure: percent(sure, REPEATS),
        placed: percent(placed, found),
        covered: percent(covered, sized),
    }
}

#[test]
fn planted_changes_are_found_placed_and_sized() {
    show("found | sure, in % of 1000 histories; place right | size in its interval, in % of those found");
    for (seed, kind) in (200..).zip(KINDS) {
        for (points, from) in [(12, 6), (30, 15), (30, 26), (30, 27)] {
            for size in [2.0, 3.0, 5.0] {
                let mut dice = Dice::new(seed);
                let got = planted(kind, &mut dice, points, from, size * SIGMA);
                show(&format!(
                    "  {kind:?}, {points} points, {} after a change of {size} σ: {:.0} | {:.0}; {:.0} | {:.0}",
                    points - from,
                    got.found,
                    got.sure,
                    got.placed,
                    got.covered
                ));
                if size >= 3.0 {
                    assert!(got.placed >= 93.0, "{kind:?}, {points} from {from}: {} %", got.placed);
                    assert!(got.covered >= 88.0, "{kind:?}, {points} from {from}: {} %", got.covered);
                }
                if size >= 5.0 {
                    assert!(got.found >= 60.0, "{kind:?}, {points} from {from}: {} %", got.found);
                }
            }
        }
    }
    // The method's promise: a shift of 3 σ after three to four sessions.
    let mut dice = Dice::new(7);
    let soon =
        |after: usize, dice: &mut Dice| planted(Noise::Normal, dice, 30, 30 - after, 3.0 * SIGMA).found;
    let (three, four) = (soon(3, &mut dice), soon(4, &mut dice));
    assert!(three > 45.0 && four > 70.0, "{three} % after 3, {four} % after 4");
}

#[test]
fn looking_every_night_raises_more_false_alarms_than_looking_once() {
    const NIGHTS: usize = 60;
    let mut dice = Dice::new(11);
    let (mut once, mut ever) = (0, 0);
    for _ in 0..HISTORIES {
        // Twice the usual noise against a limit of 5 %.
        let series: Vec<f64> = (0..NIGHTS).map(|_| 2.0 * SIGMA * dice.normal()).collect();
        let alarm = |night: usize| {
            History::new(&series[..night], BAND.ln()).unwrap().worse(false, 1.05_f64.ln()).is_some()
        };
        once += usize::from(alarm(NIGHTS));
        ever += usize::from((8..=NIGHTS).any(alarm));
    }
    let [once, ever] = [once, ever].map(|count| percent(count, HISTORIES));
    show(&format!(
        "false alarms of σ 4 %, limit 5 %: {once:.1} % at one look, {ever:.1} % within {NIGHTS} nights"
    ));
    assert!(once <= 2.0, "{once} %");
    assert!(once < ever && ever <= 8.0, "{ever} %");
}

#[test]
fn losses_in_small_steps_add_up() {
    // Three steps of 4 %, none of which is 5 %.
    let mut dice = Dice::new(3);
    let mut caught = 0;
    for _ in 0..200 {
        let noise: Vec<f64> = (0..40).map(|_| 0.005 * dice.normal()).collect();
        let series: Vec<f64> =
            noise.iter().enumerate().map(|(i, noise)| noise - 0.04 * (i / 10) as f64).collect();
        let history = History::new(&series, BAND.ln()).unwrap();
        assert_eq!(history.worse(true, 0.05), None, "more of what should be little is worse, less is not");
        caught += usize::from(
            history
                .worse(false, 0.05)
                .is_some_and(|(earlier, step)| earlier == 0 && (step.shift.estimate + 0.12).abs() < 0.01),
        );
    }
    assert!(caught >= 195, "{caught} of 200");
}

#[test]
fn sure_change_needs_ten_to_fourteen_points() {
    // The clearest step there can be, at the best place and at the last.
    let sure = |points: usize, after: usize| {
        let series = Dice::new(5).history(Noise::Normal, points, points - after, 100.0);
        changes(&series).first().is_some_and(|change| change.step.is_sure())
    };
    assert_eq!((8..20).find(|points| sure(*points, points / 2)), Some(10));
    assert_eq!((8..20).find(|points| sure(*points, 3)), Some(14));
}

/// Percentage of histories without a detected change in which a planted step half-way through them, of this share of
/// their reported detectable size, is detected.
fn shown(kind: Noise, points: usize, share: f64) -> f64 {
    let mut dice = Dice::new(points as u64);
    let (mut without, mut found) = (0, 0);
    for _ in 0..400 {
        let mut series = dice.history(kind, points, 0, 0.0);
        let history = History::new(&series, BAND.ln()).unwrap();
        if history.segments().len() > 1 {
            continue;
        }
        without += 1;
        let sign = if without % 2 == 0 { 1.0 } else { -1.0 };
        let step = sign * share * history.seen_from();
        series[points / 2..].iter_mut().for_each(|x| *x += step);
        found += usize::from(!changes(&series).is_empty());
    }
    percent(found, without)
}

#[test]
fn reported_detectable_step_matches_detection_rate() {
    show("found of steps planted half-way, in %: of the size that would be seen | of a third of it");
    for kind in KINDS {
        for points in [8, 12, 30, 100] {
            let [whole, third] = [1.0, 1.0 / 3.0].map(|share| shown(kind, points, share));
            show(&format!("  {kind:?}, {points} points: {whole:.0} | {third:.0}"));
            assert!(whole >= 82.0, "{kind:?}, {points} points: {whole} %");
            assert!(third <= 40.0, "{kind:?}, {points} points: {third} %");
        }
    }
}
