//! Calibration of "a decision would take this many rounds more": simulated trials are queried on the way, and then run
//! on.
//!
//! The range must hold the round of the decision in 75 to 90 of 100 trials with a range. `cargo test -p fstrial-stats
//! --test outlook -- --nocapture` prints the table of the ordinary test, and with `--include-ignored` that of the large
//! one, which is in docs/statistics.md.

use fstrial_stats::{Done, Multiplicity, Pair, Panel, Question};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::thread;

/// Rounds after which a trial is queried.
const ASKED: [usize; 5] = [9, 12, 16, 24, 40];
/// Rounds that a trial is followed for.
const LIMIT: usize = 200;

/// A line of the table, shown under `--nocapture`.
#[expect(clippy::print_stdout, reason = "the tables are for anyone who runs this test by hand")]
fn show(line: &str) {
    println!("{line}");
}

#[derive(Clone, Copy, Debug)]
enum Noise {
    Normal,
    /// Student t with four degrees of freedom.
    Heavy,
    /// Its size goes up and down over the rounds.
    Wandering,
    /// One run in ten of either arm stalls, and loses a third.
    Stalls,
    /// The first five rounds vary three times as much.
    RestlessStart,
}

const KINDS: [Noise; 5] =
    [Noise::Normal, Noise::Heavy, Noise::Wandering, Noise::Stalls, Noise::RestlessStart];

struct Dice(ChaCha8Rng);

impl Dice {
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    fn stall(&mut self) -> f64 {
        if self.unit() < 0.1 { f64::ln(2.0 / 3.0) } else { 0.0 }
    }
}

/// The noise of one trial, round by round.
struct Course {
    kind: Noise,
    dice: Dice,
    sd: f64,
    log_scale: f64,
    round: usize,
}

impl Course {
    fn next(&mut self) -> f64 {
        self.round += 1;
        let (sd, dice) = (self.sd, &mut self.dice);
        match self.kind {
            Noise::Normal => sd * dice.normal(),
            Noise::Heavy => {
                let chi: f64 = (0..4).map(|_| dice.normal().powi(2)).sum();
                sd / f64::sqrt(2.0) * dice.normal() / (chi / 4.0).sqrt()
            }
            Noise::Wandering => {
                self.log_scale = 0.9 * self.log_scale + 0.2 * dice.normal();
                sd * f64::exp(self.log_scale) * dice.normal()
            }
            Noise::Stalls => sd * dice.normal() + dice.stall() - dice.stall(),
            Noise::RestlessStart => (if self.round <= 5 { 3.0 } else { 1.0 }) * sd * dice.normal(),
        }
    }
}

/// Predictions for trials of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Forecasts {
    early: usize,
    held: usize,
    late: usize,
    /// Predicted out of reach; of these, decided within twice the rounds all the same.
    out_of_reach: usize,
    wrongly: usize,
}

impl Forecasts {
    fn ranges(&self) -> usize {
        self.early + self.held + self.late
    }

    fn add(&mut self, range: Option<(usize, usize)>, decided: usize, requested: usize) {
        match range {
            None => {
                self.out_of_reach += 1;
                self.wrongly += usize::from(decided <= 2 * requested);
            }
            Some((low, _)) if decided < low => self.early += 1,
            Some((_, high)) if decided > high => self.late += 1,
            Some(_) => self.held += 1,
        }
    }
}

/// A trial's prediction after a round.
type Said = (usize, Option<(usize, usize)>);

/// The round of the decision, [`LIMIT`] + 1 if there was none, and the predictions on the way.
fn trial(mut course: Course, effect: f64) -> (usize, Vec<Said>) {
    let question = Question::comparison(1.03_f64.ln());
    let mut panel = Panel::new(vec![question], 0.05, Multiplicity::BenjaminiHochberg);
    panel.set_futility(false);
    let mut reported = Vec::new();
    for round in 1..=LIMIT {
        let log_ratio = effect + course.next();
        let done = [log_ratio / 2.0, -log_ratio / 2.0].map(|log| Done::figure(libm::exp(log)));
        panel.push(0, Pair { log_ratio, done: Some(done) });
        panel.settle();
        if !panel.is_open(0) {
            return (round, reported);
        }
        let verdict = panel.verdict(0);
        if ASKED.contains(&round) && verdict.interval.is_some() {
            reported.push((round, verdict.rounds_needed));
        }
    }
    (LIMIT + 1, reported)
}

fn of_kind(kind: Noise, seed: u64, trials: usize) -> Forecasts {
    let mut all = Forecasts::default();
    // Differences from none to clear, noise from little to as much as a decision within the limit allows.
    for index in 0..trials {
        let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed * 1_000_000 + index as u64));
        let sd = 0.015 + 0.06 * dice.unit();
        let effect = 0.12 * dice.unit() * dice.unit();
        let (decided, reported) = trial(Course { kind, dice, sd, log_scale: 0.0, round: 0 }, effect);
        for (requested, range) in reported {
            all.add(range, decided, requested);
        }
    }
    all
}

fn percent(count: usize, of: usize) -> f64 {
    100.0 * count as f64 / of.max(1) as f64
}

/// Prints the table and gives the coverage of each kind.
fn table(trials: usize) -> Vec<(Noise, f64)> {
    show(
        "noise: told a range; decided earlier, within, later; told out of reach, of these decided within twice the rounds",
    );
    let reported = thread::scope(|scope| {
        let of = |(seed, kind)| scope.spawn(move || (kind, of_kind(kind, seed, trials)));
        let running: Vec<_> = (1..).zip(KINDS).map(of).collect();
        running.into_iter().map(|kind| kind.join().unwrap()).collect::<Vec<_>>()
    });
    let mut rows = Vec::new();
    for (kind, reported) in reported {
        let [early, held, late] =
            [reported.early, reported.held, reported.late].map(|count| percent(count, reported.ranges()));
        show(&format!(
            "  {kind:?}: {}; {early:.1}, {held:.1}, {late:.1} %; {}, {:.1} %",
            reported.ranges(),
            reported.out_of_reach,
            percent(reported.wrongly, reported.out_of_reach)
        ));
        rows.push((kind, held));
    }
    rows
}

#[test]
fn predicted_round_range_has_nominal_coverage() {
    for (kind, held) in table(80) {
        assert!((70.0..=94.0).contains(&held), "{kind:?}: {held} % of a few trials");
    }
}

#[test]
#[ignore = "takes minutes"]
fn the_range_of_rounds_holds_the_decision_in_many_trials() {
    for (kind, held) in table(1000) {
        assert!((75.0..=90.0).contains(&held), "{kind:?}: {held} %");
    }
}
