//! A round as it was run: the input of the judge from the store, the running coordinator and other tools' measurements,
//! and the only one.

use super::sample::Sample;
use fstrial_model::{job::RunFailure, units::Nanos};
use std::collections::BTreeMap;

/// The outcome of a cell's run: its results in numbers, or the reason why there are none.
pub type RunOutcome = Result<Vec<Sample>, RunFailure>;

/// A round, complete or cut short.
#[derive(Debug, Clone, Default)]
pub struct Round {
    /// Its number, from 1.
    pub number: u32,
    /// It is the first one of a session that resumed the trial.
    pub is_resumed: bool,
    /// The outcome of each run by the index of its cell, in the order of the runs; a cell is run once at most.
    pub runs: Vec<(usize, RunOutcome)>,
}

/// Rounds of a trial that were run before.
#[derive(Debug, Clone, Default)]
pub struct Earlier {
    /// Its rounds in order.
    pub rounds: Vec<Round>,
    /// When they were run.
    pub times: RoundTimes,
    /// The environment of every place where they were run, by its name, as JSON; of several, that of the last run.
    pub environments: BTreeMap<String, String>,
}

/// Rounds used to predict the time of the next ones.
const ROUNDS_THAT_TELL: usize = 5;

/// When the rounds of a trial were run.
#[derive(Debug, Clone, Default)]
pub struct RoundTimes {
    /// For each round the number of runs, and for each session the start of its first and the end of its last: RFC
    /// 3339.
    rounds: BTreeMap<u32, (u32, Vec<(String, String)>)>,
    /// The next run is the first of a session.
    is_new: bool,
}

impl RoundTimes {
    /// The next run is the first of a session: the time before it does not count as time of a round.
    pub fn begin_session(&mut self) {
        self.is_new = true;
    }

    pub fn see(&mut self, round: u32, started_at: &str, ended_at: &str) {
        let (runs, spans) = self.rounds.entry(round).or_default();
        *runs += 1;
        let is_new = std::mem::take(&mut self.is_new);
        match spans.last_mut().filter(|_| !is_new) {
            Some((_, to)) => ended_at.clone_into(to),
            None => spans.push((started_at.to_owned(), ended_at.to_owned())),
        }
    }

    /// The last round that has a run; 0 if none has.
    pub fn last(&self) -> u32 {
        self.rounds.keys().next_back().copied().unwrap_or(0)
    }

    /// Predicted time of a round of this many runs: the median time per run in the last five rounds of at least two,
    /// which is robust to a slow first round, a stall and a round cut short. None before there is one.
    pub fn of_next(&self, runs: usize) -> Option<Nanos> {
        let span = |(from, to): &(String, String)| {
            let (from, to) = (from.parse::<jiff::Timestamp>().ok()?, to.parse::<jiff::Timestamp>().ok()?);
            u64::try_from(to.duration_since(from).as_nanos()).ok()
        };
        let each = |(runs, spans): &(u32, Vec<(String, String)>)| {
            let took: u64 = spans.iter().map(span).sum::<Option<u64>>()?;
            (*runs >= 2).then_some(took / u64::from(*runs))
        };
        let mut latest: Vec<u64> =
            self.rounds.values().rev().filter_map(each).take(ROUNDS_THAT_TELL).collect();
        latest.sort_unstable();
        let median = latest.get(latest.len() / 2)?;
        Some(Nanos(median.saturating_mul(u64::try_from(runs).ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    /// Runs of a trial: cells of different lengths, a slow first round, noise, stalls; after half of the rounds one cell
    /// after the other drops out.
    struct Simulated {
        random: ChaCha8Rng,
        cells: Vec<f64>,
        now: jiff::Timestamp,
    }

    impl Simulated {
        fn new(seed: u64) -> Simulated {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let cells = 2 + random.next_u64() % 8;
            let cells = (0..cells).map(|_| 1.0 + (random.next_u64() % 300) as f64 / 100.0).collect();
            Simulated { random, cells, now: jiff::Timestamp::UNIX_EPOCH }
        }

        /// Uniform in [0, 1).
        fn unit(&mut self) -> f64 {
            (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// A round of the remaining cells, and its duration.
        fn round(&mut self, number: u32, times: &mut RoundTimes) -> f64 {
            let began = self.now;
            for length in self.cells.clone() {
                let slow = if number == 1 { 2.0 } else { 1.0 };
                let stall = if self.unit() < 0.02 { 3.0 } else { 1.0 };
                let took = length * (0.9 + 0.2 * self.unit()) * slow * stall;
                let from = self.now;
                self.now += jiff::SignedDuration::from_secs_f64(took);
                times.see(number, &from.to_string(), &self.now.to_string());
            }
            self.now.duration_since(began).as_secs_f64()
        }
    }

    #[test]
    fn round_time_estimate_is_usually_close() {
        let (mut right, mut all) = (0, 0);
        for seed in 0..300 {
            let (mut trial, mut times) = (Simulated::new(seed), RoundTimes::default());
            let requested = 3 + u32::try_from(seed % 12).unwrap();
            for number in 1..=requested {
                if number > requested / 2 && number % 3 == 0 && trial.cells.len() > 2 {
                    trial.cells.pop();
                }
                trial.round(number, &mut times);
            }
            let reported = times.of_next(trial.cells.len()).unwrap().as_secs_f64();
            let took: f64 = (1..=8).map(|more| trial.round(requested + more, &mut times)).sum::<f64>() / 8.0;
            right += usize::from((1.0 / 1.5..=1.5).contains(&(reported / took)));
            all += 1;
        }
        assert!(right * 10 >= all * 9, "only {right} of {all} were within 1.5 times");
    }

    #[test]
    fn round_time_ignores_partial_rounds_and_stalls() {
        let mut times = RoundTimes::default();
        let at = |second: i64| jiff::Timestamp::from_second(second).unwrap().to_string();
        assert_eq!(times.of_next(2), None);
        for (round, from, to) in [(1, 0, 90), (2, 100, 110), (3, 200, 210), (4, 300, 400), (5, 500, 510)] {
            times.see(round, &at(from), &at(from + 4));
            times.see(round, &at(from + 5), &at(to));
        }
        times.see(6, &at(600), &at(601));
        // Its second run is of another boot, a day later.
        times.see(7, &at(700), &at(705));
        times.begin_session();
        times.see(7, &at(90_000), &at(90_005));
        assert_eq!(times.of_next(2), Some(Nanos::secs(10)));
        assert_eq!(times.of_next(6), Some(Nanos::secs(30)));
    }
}
