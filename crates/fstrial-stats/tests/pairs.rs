//! What more random assignments in the same time would pay: the early lane, none, and short pairs.
//!
//! A round has one run of each arm. Instead, the same measured time can be cut into several short pairs, AB or BA by an
//! independent coin each, on freshly made arms: more signs, for which each pair pays its own preparation. Half of the
//! variance of a run belongs to the freshly made filesystem and to the moment, and is that of a short run too; the other half
//! shrinks with its length.
//! `cargo test -p fstrial-stats --test pairs -- --nocapture --include-ignored` prints the tables of docs/statistics.md.

use fstrial_stats::{Decision, Multiplicity, Pair, Panel, Question};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Rounds of the longest trial, as many as are planned for.
const PLANNED: usize = 60;
/// Short pairs instead of one round.
const PIECES: usize = 3;

/// A line of the tables, shown under `--nocapture`.
#[expect(clippy::print_stdout, reason = "the tables are for anyone who runs this test by hand")]
fn show(line: &str) {
    println!("{line}");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scheme {
    Lane,
    NoLane,
    ShortPairs,
}

const SCHEMES: [Scheme; 3] = [Scheme::Lane, Scheme::NoLane, Scheme::ShortPairs];

impl Scheme {
    /// Standard deviation of a log-ratio by that of a round.
    fn noise(self) -> f64 {
        let fast = if self == Scheme::ShortPairs { PIECES as f64 } else { 1.0 };
        (0.5 + 0.5 * fast).sqrt()
    }

    /// Time that one log-ratio takes.
    fn seconds(self, preparation: f64, run: f64) -> f64 {
        let run = if self == Scheme::ShortPairs { run / PIECES as f64 } else { run };
        2.0 * (preparation + run)
    }
}

#[derive(Clone, Copy, Debug)]
enum Noise {
    Normal,
    /// One of the two runs, either, is slowed down by nearly the same.
    TwoPoint,
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn coin(&mut self) -> bool {
        self.0.next_u64() & 1 == 1
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    fn noise(&mut self, kind: Noise) -> f64 {
        match kind {
            Noise::Normal => self.normal(),
            Noise::TwoPoint => (if self.coin() { 1.0 } else { -1.0 }) * (1.0 + 0.05 * self.normal()),
        }
    }
}

/// The decision and the log-ratios that it took.
fn trial(scheme: Scheme, kind: Noise, sd: f64, effect: f64, seed: u64) -> (Decision, usize) {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let question =
        Question { lane: scheme == Scheme::Lane, equivalence: false, ..Question::comparison(1.03_f64.ln()) };
    let mut panel = Panel::new(vec![question], 0.05, PLANNED, Multiplicity::BenjaminiHochberg);
    panel.set_futility(false);
    for round in 1..=PLANNED {
        let log_ratio = effect + sd * scheme.noise() * dice.noise(kind);
        panel.push(0, Pair { log_ratio, done: None, a_first: Some(dice.coin()) });
        panel.settle();
        if !panel.is_open(0) {
            return (panel.verdict(0).decision, round);
        }
    }
    (Decision::Undecided, PLANNED)
}

/// Of trials with these seeds: how many in 100 found a difference, and the median log-ratios that it took.
fn found(scheme: Scheme, kind: Noise, sd: f64, effect: f64, trials: u64) -> (f64, usize) {
    let ended: Vec<_> = (0..trials).map(|seed| trial(scheme, kind, sd, effect, seed)).collect();
    let decided = ended.iter().filter(|(decision, _)| *decision != Decision::Undecided);
    let percent = 100.0 * decided.count() as f64 / trials as f64;
    let mut rounds: Vec<usize> = ended.iter().map(|(_, rounds)| *rounds).collect();
    rounds.sort_unstable();
    (percent, rounds[rounds.len() / 2])
}

/// False alarms of the three schemes under a kind of noise.
fn alarms(kind: Noise, trials: u64) -> [f64; 3] {
    SCHEMES.map(|scheme| found(scheme, kind, 0.1, 0.0, trials).0)
}

#[test]
fn only_the_lane_is_deceived() {
    let [lane, none, pairs] = alarms(Noise::TwoPoint, 1000);
    assert!(lane > 10.0 && none < 7.0 && pairs < 7.0, "{lane}, {none}, {pairs}");
    // A plain difference: the lane takes half of the rounds.
    let rounds = SCHEMES.map(|scheme| found(scheme, Noise::Normal, 0.03, 0.3, 200).1);
    assert!(rounds[0] <= 5 && rounds[1] == 9 && rounds[2] == 9, "{rounds:?}");
}

#[test]
#[ignore = "takes a minute; prints tables"]
fn tables_of_the_lane_and_of_short_pairs() {
    show("false alarms: lane, no lane, short pairs");
    for kind in [Noise::Normal, Noise::TwoPoint] {
        let [lane, none, pairs] = alarms(kind, 4000);
        show(&format!("  {kind:?}: {lane:.1} %, {none:.1} %, {pairs:.1} %"));
    }
    show("noise, difference: found and median number of log-ratios with lane, no lane, short pairs");
    for (noise, percent) in [(0.02, 30.0), (0.02, 10.0), (0.05, 30.0), (0.05, 10.0)] {
        let (sd, effect) = (noise / 0.674_489_75, f64::ln_1p(percent / 100.0));
        let all = SCHEMES.map(|scheme| found(scheme, Noise::Normal, sd, effect, 1000));
        let words = all.map(|(share, rounds)| format!("{share:.1} % {rounds}"));
        show(&format!("  {:.0} %, {percent:.0} %: {}", 100.0 * noise, words.join(", ")));
        for preparation in [0.5, 2.0, 8.0] {
            for run in [1.0, 3.0, 10.0] {
                let seconds = [0, 1, 2].map(|at| SCHEMES[at].seconds(preparation, run) * all[at].1 as f64);
                let [lane, none, pairs] = seconds.map(|seconds| format!("{seconds:.0}"));
                show(&format!("    preparation {preparation} s, run {run} s: {lane}, {none}, {pairs} s"));
            }
        }
    }
}
