//! A round as it was run: what the store, the running coordinator and measurements made elsewhere hand to the judge, and
//! nothing else does.

use super::sample::Sample;
use fstrial_model::{job::RunFailure, units::Nanos};
use std::collections::BTreeMap;

/// What came of the run of a cell: its results in numbers, or why there are none.
pub type RunOutcome = Result<Vec<Sample>, RunFailure>;

/// A round, complete or cut short.
#[derive(Debug, Clone, Default)]
pub struct Round {
    /// Its number, from 1.
    pub number: u32,
    /// It is the first one of a session that resumed the trial.
    pub is_resumed: bool,
    /// What came of each run by the index of its cell, in the order in which they were run.
    pub runs: Vec<(usize, RunOutcome)>,
}

impl Round {
    /// The samples of a result of a cell.
    pub fn sample(&self, (cell, result): (usize, usize)) -> Option<&Sample> {
        self.runs.iter().find(|(at, _)| *at == cell)?.1.as_ref().ok()?.get(result)
    }
}

/// Rounds of a trial that were run before.
#[derive(Debug, Clone, Default)]
pub struct Earlier {
    /// The number of rounds planned for, once fixed.
    pub planned: Option<u32>,
    /// Its rounds in order.
    pub rounds: Vec<Round>,
    /// When they were run.
    pub times: RoundTimes,
    /// What the machine was at every place where they were run, by its name, as JSON; of several, that of the last run.
    pub environments: BTreeMap<String, String>,
}

/// When the rounds of a trial were run.
#[derive(Debug, Clone, Default)]
pub struct RoundTimes {
    /// Of each round the number of runs, when the first began and when the last ended: RFC 3339.
    rounds: BTreeMap<u32, (u32, String, String)>,
}

impl RoundTimes {
    pub fn see(&mut self, round: u32, started_at: &str, ended_at: &str) {
        let time = self.rounds.entry(round).or_insert_with(|| (0, started_at.to_owned(), String::new()));
        time.0 += 1;
        ended_at.clone_into(&mut time.2);
    }

    /// The last round that has a run; 0 if none has.
    pub fn last(&self) -> u32 {
        self.rounds.keys().next_back().copied().unwrap_or(0)
    }

    /// How long the last complete round took; none before there is one.
    pub fn of_last(&self) -> Option<Nanos> {
        // The last round may be cut short: the one before it tells more, where there is one.
        let last = self.rounds.values().next_back().map_or(0, |(runs, ..)| *runs);
        let (_, from, to) = self.rounds.values().rev().find(|(runs, ..)| *runs >= last.max(2))?;
        let (from, to) = (from.parse::<jiff::Timestamp>().ok()?, to.parse::<jiff::Timestamp>().ok()?);
        u64::try_from(to.duration_since(from).as_nanos()).ok().map(Nanos)
    }
}
