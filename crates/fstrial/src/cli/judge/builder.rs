//! From named numbers to one table: the limits, and the common refusals of all readers.

use super::{JudgeArgs, format::Format};
use fstrial_run::{
    elsewhere::{Quantity, Table, Value},
    error::ExpectedError,
    numbers,
};
use std::collections::{BTreeMap, BTreeSet};

/// Least and most arms.
pub(super) const ARMS: (usize, usize) = (2, 64);
/// Most values read.
const MAX_VALUES: usize = 1_000_000;
/// Most different numbers: workloads times metrics.
const MAX_QUANTITIES: usize = 4096;
/// Names of other numbers that are shown.
const SHOWN: usize = 8;

/// A round as its file names it: of which trial, its number, and its name if that is not a number.
pub(super) type RoundName = (String, u64, String);

/// A number as read.
#[derive(Debug)]
pub(super) struct RawValue {
    pub(super) arm: String,
    pub(super) quantity: Quantity,
    /// True if it is judged by default.
    pub(super) is_main: bool,
    pub(super) round: Option<RoundName>,
    pub(super) order: Option<f64>,
    pub(super) value: f64,
}

/// Gathers the numbers of all files.
pub(super) struct Builder<'a> {
    args: &'a JudgeArgs,
    format: Format,
    arms: Vec<String>,
    quantities: Vec<(Quantity, bool)>,
    known_at: BTreeMap<Quantity, usize>,
    values: Vec<Value>,
    /// Rounds of the values, numbered in the order of their appearance.
    rounds: BTreeMap<RoundName, usize>,
    seen: BTreeSet<(usize, usize, usize)>,
    /// By number: whether a value is 0.
    has_zero: BTreeSet<usize>,
    pub(super) notes: Vec<String>,
    /// True if rows are in the order of recording.
    pub(super) is_list: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(args: &'a JudgeArgs, format: Format) -> Self {
        Self {
            args,
            format,
            arms: Vec::new(),
            quantities: Vec::new(),
            known_at: BTreeMap::new(),
            values: Vec::new(),
            rounds: BTreeMap::new(),
            seen: BTreeSet::new(),
            has_zero: BTreeSet::new(),
            notes: Vec::new(),
            is_list: false,
        }
    }

    /// Names an arm before it has a value: the order of names decides which is the base.
    pub(super) fn name_arm(&mut self, name: &str, place: &str) -> Result<usize, ExpectedError> {
        if let Some(known) = self.arms.iter().position(|arm| arm == name) {
            return Ok(known);
        }
        if name.is_empty() {
            return Err(ExpectedError::usage(format!("{place}: the arm has no name"), "give it one"));
        }
        if self.arms.len() == ARMS.1 {
            return Err(ExpectedError::usage(
                format!("{place} names more than {} arms", ARMS.1),
                format!("a comparison needs {} to {} arms", ARMS.0, ARMS.1),
            ));
        }
        self.arms.push(name.to_owned());
        Ok(self.arms.len() - 1)
    }

    /// Takes a number; `place` is its position, for errors.
    pub(super) fn add(&mut self, result: RawValue, place: &str) -> Result<(), ExpectedError> {
        if !self.is_wanted(&result) {
            self.note_quantity(result.quantity, result.is_main, place)?;
            return Ok(());
        }
        let (name, value) = (result.arm, result.value);
        let arm = self.name_arm(&name, place)?;
        let quantity = self.note_quantity(result.quantity, result.is_main, place)?;
        if value == 0.0 && self.format != Format::Csv {
            self.has_zero.insert(quantity);
        } else if !(value.is_finite() && value > 0.0) {
            return Err(ExpectedError::usage(
                format!("{place}: the value {value} is not a positive number"),
                "leave failed runs out",
            ));
        }
        if self.values.len() == MAX_VALUES {
            return Err(ExpectedError::usage(
                format!("{place}: there are more than {MAX_VALUES} values"),
                "check that this is the right file, and remove unneeded parts",
            ));
        }
        let round = result.round.map(|round| self.round(arm, quantity, &name, round, place)).transpose()?;
        self.values.push(Value { arm, quantity, round, order: result.order, value });
        Ok(())
    }

    /// The column with the arms of a table, if its name does not tell.
    pub(super) fn arm_column(&self) -> Option<&str> {
        self.args.arm_column.as_deref()
    }

    /// The one number that is to be judged.
    pub(super) fn metric(&self) -> Option<&str> {
        match self.args.metric.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// True if values without a known direction are times.
    pub(super) fn is_less_better(&self) -> bool {
        self.args.less_is_better
    }

    /// True if a number is kept: all main ones, or those that were named. Of others the name is kept.
    fn is_wanted(&self, result: &RawValue) -> bool {
        if self.args.metric.is_empty() {
            result.is_main
        } else {
            self.args.metric.contains(&result.quantity.metric)
        }
    }

    fn note_quantity(
        &mut self,
        quantity: Quantity,
        is_main: bool,
        place: &str,
    ) -> Result<usize, ExpectedError> {
        if let Some(known) = self.known_at.get(&quantity) {
            return Ok(*known);
        }
        if self.quantities.len() == MAX_QUANTITIES {
            return Err(ExpectedError::usage(
                format!("{place}: there are more than {MAX_QUANTITIES} workloads and metrics"),
                "check that this is the right file, and remove unneeded parts",
            ));
        }
        let index = self.quantities.len();
        self.quantities.push((quantity.clone(), is_main));
        self.known_at.insert(quantity, index);
        Ok(index)
    }

    fn round(
        &mut self,
        arm: usize,
        quantity: usize,
        name: &str,
        round: RoundName,
        place: &str,
    ) -> Result<usize, ExpectedError> {
        let next = self.rounds.len();
        let index = *self.rounds.entry(round.clone()).or_insert(next);
        if self.seen.insert((arm, quantity, index)) {
            return Ok(index);
        }
        Err(ExpectedError::usage(
            format!("{place}: `{name}` has two values in round {}", in_words(&round)),
            "an arm has one value in a round; for several workloads or metrics add columns called workload and metric",
        ))
    }

    /// The table, once all files are read.
    pub(super) fn finish(mut self, files: &str) -> Result<(Table, Vec<String>), ExpectedError> {
        if let Some(unknown) = self.args.metric.iter().find(|name| !self.has_metric(name)) {
            let names = names(self.quantities.iter().map(|(quantity, _)| quantity.metric.as_str()));
            let hint =
                if names.is_empty() { "leave --metric out".into() } else { format!("use one of {names}") };
            return Err(ExpectedError::usage(format!("{files}: there is no metric `{unknown}`"), hint));
        }
        self.leave_out_zeros();
        let (least, most) = ARMS;
        if self.arms.len() < least {
            let count = if self.arms.is_empty() { "no arms" } else { "only one arm" };
            return Err(ExpectedError::usage(
                format!("{files} has {count}"),
                format!("a comparison needs {least} to {most} arms"),
            ));
        }
        self.note_others();
        let by_name: Vec<usize> = self.rounds.values().copied().collect();
        let mut in_order = vec![0; by_name.len()];
        by_name.iter().enumerate().for_each(|(place, came)| in_order[*came] = place);
        for value in &mut self.values {
            value.round = value.round.map(|came| in_order[came]);
        }
        let rounds = (!in_order.is_empty()).then_some(in_order.len());
        let quantities = self.quantities.into_iter().map(|(quantity, _)| quantity).collect();
        let table = Table { arms: self.arms, quantities, values: self.values, rounds, is_list: self.is_list };
        Ok((table, self.notes))
    }

    fn has_metric(&self, name: &str) -> bool {
        self.quantities.iter().any(|(quantity, _)| quantity.metric == name)
    }

    /// A number that is 0 somewhere has no ratio: of other programs' numbers that is not a fault.
    fn leave_out_zeros(&mut self) {
        for quantity in &self.has_zero {
            let (of, _) = &self.quantities[*quantity];
            let all = self.values.iter().filter(|value| value.quantity == *quantity);
            // One that is 0 throughout was not done at all.
            if all.clone().any(|value| value.value > 0.0) || !self.args.metric.is_empty() {
                let of_what =
                    if of.workload.is_empty() { String::new() } else { format!(" of {}", of.workload) };
                self.notes.push(format!("{}{of_what} is 0 in places and has no ratio: left out", of.metric));
            }
        }
        self.values.retain(|value| !self.has_zero.contains(&value.quantity));
    }

    fn note_others(&mut self) {
        let main: BTreeSet<usize> = self.values.iter().map(|value| value.quantity).collect();
        let judged: BTreeSet<&str> =
            main.iter().map(|quantity| self.quantities[*quantity].0.metric.as_str()).collect();
        let others = self.quantities.iter().map(|(quantity, _)| quantity.metric.as_str());
        let others = names(others.filter(|metric| !judged.contains(metric)));
        if !others.is_empty() && self.args.metric.is_empty() {
            self.notes.push(format!("not judged (--metric NAME): {others}"));
        }
    }
}

/// Some names, each once, in the order in which they came.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut seen = BTreeSet::new();
    let all: Vec<&str> = all.filter(|name| !name.is_empty() && seen.insert(*name)).collect();
    numbers::first_of(&all, SHOWN)
}

/// A round as its file names it.
fn in_words((trial, number, name): &RoundName) -> String {
    let round = if name.is_empty() { number.to_string() } else { name.clone() };
    if trial.is_empty() { round } else { format!("{round} of trial {trial}") }
}
