//! Expectations with their cells resolved: the exact questions to a trial.

use super::{CellName, Claim, Expectation, Level, Number};
use crate::{
    arm::Arm,
    metric::Metric,
    problem::{Problem, did_you_mean, problem},
    trial::can_run,
    workload::{ResultKind, Workload},
};
use serde::{Deserialize, Serialize};

/// Comparisons of all expectations of a claim together, at most.
const MAX_QUESTIONS: usize = 512;

/// A result of a cell, by indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Index of the arm.
    pub arm: usize,
    /// Index of the workload.
    pub workload: usize,
    /// The level.
    pub threads: u16,
    /// Index of the result, among those of the workload.
    pub result: usize,
}

/// The expected range of a ratio, a slope or an amount.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The key `above` of an expectation: more than this number.
    Above(f64),
    /// The key `below` of an expectation: less than this number.
    Below(f64),
    /// Within this fraction of being the same: a ratio of 1.
    Within(f64),
}

/// One question that is part of a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimQuestion {
    /// The ratio of two figures.
    Ratio {
        /// The numerator.
        a: Spot,
        /// The one that it is divided by.
        b: Spot,
        /// The expected range.
        bound: Bound,
    },
    /// One is better than another.
    Better {
        /// The better one.
        a: Spot,
        /// The other.
        b: Spot,
    },
    /// The factor of a figure for each doubling of the threads, over these cells of rising levels.
    Slope {
        /// Cells of one arm and one workload, at least two, by ascending number of threads.
        cells: Vec<Spot>,
        /// The expected range.
        bound: Bound,
    },
    /// A figure itself.
    Amount {
        /// The only cell; its figure is compared with a fixed number.
        cell: Spot,
        /// The expected range.
        bound: Bound,
    },
    /// It is done, every time.
    Works(Spot),
    /// It fails, or cannot be done.
    Fails(Spot),
    /// No arm is best in all of these groups of cells.
    NoSingleWinner(Vec<Vec<Spot>>),
}

/// A part of a claim: one question, and which expectation it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Index of the expectation.
    pub expectation: usize,
    /// The expectation in its author's words.
    pub says: Option<String>,
    /// Interpretation of the source's words.
    pub reading: Option<String>,
    /// True if it is about a planted cause.
    pub planted: bool,
    /// Metric of the figures; throughput unless the expectation names another one.
    pub metric: Metric,
    /// The original figure.
    pub then: Option<Number>,
    /// The cause that must be named.
    pub because: Option<String>,
    /// One question of the expectation, which may have several parts.
    pub question: ClaimQuestion,
}

impl ClaimQuestion {
    /// True if it compares a cell with itself: on a machine of one processor `1` and `cpus` are one level.
    fn is_of_one_cell(&self) -> bool {
        matches!(self, Self::Ratio { a, b, .. } | Self::Better { a, b } if a == b)
    }

    /// Number of comparisons it takes.
    fn questions(&self) -> usize {
        match self {
            Self::NoSingleWinner(groups) => {
                groups.iter().map(|group| group.len() * group.len().saturating_sub(1) / 2).sum()
            }
            _ => 2,
        }
    }
}

/// A problem in an expectation: its key, the problem, the remedy.
type Wrong = (&'static str, String, String);

impl Claim {
    /// The questions of all expectations.
    ///
    /// # Errors
    /// The first expectation that asks for something that the trial does not have.
    pub fn parts(&self, arms: &[Arm], workloads: &[Workload], cpus: u16) -> Result<Vec<Part>, Problem> {
        let mut parts: Vec<Part> = Vec::new();
        for (index, expected) in self.expectations.iter().enumerate() {
            let metric = expected.metric.unwrap_or(Metric::Throughput);
            let finder = Finder { arms, workloads, cpus, metric };
            let questions = finder.questions(expected).map_err(|(key, message, hint)| {
                problem(&["claim", "expect", &index.to_string(), key], message, hint)
            })?;
            for question in questions.into_iter().filter(|question| !question.is_of_one_cell()) {
                // With two processors `2` and `cpus` are one level, and one question.
                let is_same = |part: &Part| part.question == question && part.metric == metric;
                if !parts.iter().any(is_same) {
                    let Expectation { says, reading, planted, then, because, .. } = expected.clone();
                    let expectation = index;
                    parts.push(Part { expectation, says, reading, planted, metric, then, because, question });
                }
            }
            let questions: usize = parts.iter().map(|part| part.question.questions()).sum();
            if questions > MAX_QUESTIONS {
                let message = format!("the claim asks more than {MAX_QUESTIONS} questions");
                let hint = "expect less: each pair of cells is a question";
                return Err(problem(&["claim", "expect", &index.to_string()], message, hint));
            }
        }
        if parts.is_empty() && !self.expectations.is_empty() {
            let message =
                "every expectation compares a cell with itself, as levels of this machine are the same";
            return Err(problem(&["claim", "expect"], message, "name levels that differ on any machine"));
        }
        Ok(parts)
    }

    /// The same with every level written out, independent of the machine.
    #[must_use]
    pub fn settled(&self, cpus: u16) -> Self {
        let mut settled = self.clone();
        for expected in &mut settled.expectations {
            let pairs = expected.ratio.iter_mut().chain(&mut expected.flips).flat_map(|(a, b)| [a, b]);
            let lists = [&mut expected.flat, &mut expected.order, &mut expected.works, &mut expected.fails];
            let lists = lists.into_iter().flatten().flatten();
            let single = expected.slope.iter_mut().chain(&mut expected.amount);
            let levels = pairs.chain(lists).chain(single).filter_map(|cell| cell.level.as_mut());
            for level in levels.chain(&mut expected.leads_at).chain(&mut expected.trails_at) {
                *level = Level::Threads(level.threads(cpus));
            }
        }
        settled
    }
}

/// Finds cells by their names.
struct Finder<'a> {
    arms: &'a [Arm],
    workloads: &'a [Workload],
    cpus: u16,
    /// The metric in question.
    metric: Metric,
}

impl Finder<'_> {
    fn questions(&self, expected: &Expectation) -> Result<Vec<ClaimQuestion>, Wrong> {
        let kinds = [
            ("ratio", expected.ratio.is_some()),
            ("flat", expected.flat.is_some()),
            ("order", expected.order.is_some()),
            ("flips", expected.flips.is_some()),
            ("slope", expected.slope.is_some()),
            ("works", expected.works.is_some()),
            ("fails", expected.fails.is_some()),
            ("amount", expected.amount.is_some()),
            ("no_single_winner", expected.no_single_winner),
        ];
        let mut given = kinds.into_iter().filter(|(_, is)| *is).map(|(key, _)| key);
        let (Some(key), None) = (given.next(), given.next()) else {
            let names = kinds.map(|(key, _)| key).join(", ");
            let message = "an expectation needs exactly one kind".to_owned();
            return Err(("says", message, format!("write exactly one of {names}")));
        };
        self.check_bounds(expected, key)?;
        self.of_kind(expected, key)
    }

    fn check_bounds(&self, expected: &Expectation, key: &'static str) -> Result<(), Wrong> {
        let takes: &[&str] = match key {
            "ratio" | "slope" => &["above", "below", "within"],
            "amount" => &["above", "below"],
            "flat" => &["within"],
            _ => &[],
        };
        let bounds = [
            ("above", expected.above.is_some()),
            ("below", expected.below.is_some()),
            ("within", expected.within.is_some()),
        ];
        let given: Vec<&'static str> = bounds.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        match (takes, given.as_slice()) {
            ([], []) => {}
            ([], [one, ..]) => {
                return Err((*one, format!("`{key}` takes no `{one}`"), "leave it out".into()));
            }
            (takes, [one]) if takes.contains(one) => {}
            (takes, _) => {
                let hint = format!("write exactly one of {}", takes.join(", "));
                return Err((key, format!("`{key}` has no expectation"), hint));
            }
        }
        let number = |bound: &Option<Number>| bound.as_ref().and_then(Number::value);
        let is_beyond = number(&expected.above).is_some_and(|least| least >= 1.0)
            || number(&expected.below).is_some_and(|most| most <= 1.0);
        let is_of_throughput = expected.metric.is_none_or(|metric| metric == Metric::Throughput);
        if expected.because.is_some() && !(key == "ratio" && is_beyond && is_of_throughput) {
            let hint = "give a ratio of two throughputs that is above 1 or more, or below 1 or less".into();
            return Err(("because", "only a difference has a cause".into(), hint));
        }
        let has_levels = !expected.leads_at.is_empty() || !expected.trails_at.is_empty();
        if has_levels && key != "flips" {
            return Err(("leads_at", "only `flips` takes levels".into(), "leave them out".into()));
        }
        Ok(())
    }

    fn of_kind(&self, expected: &Expectation, key: &'static str) -> Result<Vec<ClaimQuestion>, Wrong> {
        let find = |cell: &CellName| self.spot(cell).map_err(|(message, hint)| (key, message, hint));
        let find_all = |cells: &[CellName], least: usize| {
            if cells.len() < least {
                let hint = format!("name at least {least}");
                return Err((key, format!("`{key}` names too few cells"), hint));
            }
            cells.iter().map(find).collect::<Result<Vec<Spot>, Wrong>>()
        };
        if let Some((a, b)) = &expected.ratio {
            let spots = [find(a)?, find(b)?];
            self.check_units(&spots, key)?;
            return Ok(vec![ClaimQuestion::Ratio {
                a: spots[0],
                b: spots[1],
                bound: bound(expected, true)?,
            }]);
        }
        if let Some(cells) = &expected.flat {
            let spots = find_all(cells, 2)?;
            self.check_units(&spots, key)?;
            let bound = bound(expected, true)?;
            let against = |a: &Spot| ClaimQuestion::Ratio { a: *a, b: spots[0], bound };
            return Ok(spots[1..].iter().map(against).collect());
        }
        if let Some(cells) = &expected.order {
            let spots = find_all(cells, 2)?;
            self.check_units(&spots, key)?;
            return Ok(spots.windows(2).map(|two| ClaimQuestion::Better { a: two[0], b: two[1] }).collect());
        }
        if let Some((first, second)) = &expected.flips {
            return self.flips(expected, first, second);
        }
        if let Some(cell) = &expected.slope {
            return Ok(vec![ClaimQuestion::Slope {
                cells: self.levels(cell)?,
                bound: bound(expected, true)?,
            }]);
        }
        if let Some(cells) = &expected.works {
            return Ok(find_all(cells, 1)?.into_iter().map(ClaimQuestion::Works).collect());
        }
        if let Some(cells) = &expected.fails {
            return Ok(find_all(cells, 1)?.into_iter().map(ClaimQuestion::Fails).collect());
        }
        if let Some(cell) = &expected.amount {
            return Ok(vec![ClaimQuestion::Amount { cell: find(cell)?, bound: bound(expected, false)? }]);
        }
        let groups = self.groups();
        if groups.iter().all(|group| group.len() < 2) {
            let hint = "name two arms at least, and workloads that they can run".into();
            return Err((key, "`no_single_winner` needs at least two arms".into(), hint));
        }
        Ok(vec![ClaimQuestion::NoSingleWinner(groups)])
    }

    fn flips(
        &self,
        expected: &Expectation,
        first: &CellName,
        second: &CellName,
    ) -> Result<Vec<ClaimQuestion>, Wrong> {
        if expected.leads_at.is_empty() || expected.trails_at.is_empty() {
            let hint = "write leads_at = [\"1\"] and trails_at = [\"32\"]".into();
            return Err(("flips", "`flips` has no place for the flip".into(), hint));
        }
        let threads =
            |levels: &[Level]| -> Vec<u16> { levels.iter().map(|level| level.threads(self.cpus)).collect() };
        let (leads, trails) = (threads(&expected.leads_at), threads(&expected.trails_at));
        if let Some(both) = leads.iter().find(|level| trails.contains(level)) {
            let message = format!("{both} threads are in leads_at and in trails_at");
            return Err(("leads_at", message, "name levels that differ on any machine".into()));
        }
        let at = |cell: &CellName, level: Level| {
            let cell = CellName { level: Some(level), ..cell.clone() };
            self.spot(&cell).map_err(|(message, hint)| ("flips", message, hint))
        };
        let pair = |level: &Level, a: &CellName, b: &CellName| {
            Ok(ClaimQuestion::Better { a: at(a, *level)?, b: at(b, *level)? })
        };
        let leads = expected.leads_at.iter().map(|level| pair(level, first, second));
        let trails = expected.trails_at.iter().map(|level| pair(level, second, first));
        leads.chain(trails).collect()
    }

    /// The cells of an arm at all levels of a workload, in their order.
    fn levels(&self, cell: &CellName) -> Result<Vec<Spot>, Wrong> {
        let wrong = |(message, hint)| ("slope", message, hint);
        if cell.level.is_some() {
            return Err(("slope", "a slope is over all levels".into(), "leave out the level".into()));
        }
        let workload = self.workload(cell).map_err(wrong)?;
        let mut levels = self.workloads[workload].threads.clone();
        levels.sort_unstable();
        levels.dedup();
        if levels.len() < 2 {
            let hint = "give the workload two levels at least: threads = [1, 4, 16]".into();
            return Err(("slope", "one level has no slope".into(), hint));
        }
        let at = |threads: u16| {
            self.spot(&CellName { level: Some(Level::Threads(threads)), ..cell.clone() }).map_err(wrong)
        };
        levels.into_iter().map(at).collect()
    }

    /// All cells whose arms can be compared: by workload, level and result. Controls are left out.
    fn groups(&self) -> Vec<Vec<Spot>> {
        let mut groups = Vec::new();
        for (workload, described) in self.workloads.iter().enumerate() {
            let able =
                |arm: &usize| self.arms[*arm].control_of.is_none() && can_run(&self.arms[*arm], described);
            for &threads in &described.threads {
                for (result, kind) in described.results().enumerate() {
                    if !self.metric.is_of(&kind) {
                        continue;
                    }
                    let arms = (0..self.arms.len()).filter(able);
                    groups.push(arms.map(|arm| Spot { arm, workload, threads, result }).collect());
                }
            }
        }
        groups
    }

    fn kind(&self, spot: Spot) -> ResultKind {
        self.workloads[spot.workload].results().nth(spot.result).expect("the result was found there")
    }

    /// Figures of different units have no ratio that means anything.
    fn check_units(&self, spots: &[Spot], key: &'static str) -> Result<(), Wrong> {
        let first = self.kind(spots[0]);
        let other = spots.iter().map(|spot| self.kind(*spot)).find(|kind| !kind.has_unit_of(&first));
        let Some(other) = other.filter(|_| self.metric == Metric::Throughput) else { return Ok(()) };
        let message =
            format!("`{}` is in {}, and `{}` in {}", first.name, first.unit, other.name, other.unit);
        Err((key, message, "compare results of one unit".into()))
    }

    fn workload(&self, cell: &CellName) -> Result<usize, (String, String)> {
        let names = || self.workloads.iter().map(|workload| workload.name.as_str());
        pick(cell.workload.as_deref(), "workload", " in WORKLOAD", names)
    }

    fn spot(&self, cell: &CellName) -> Result<Spot, (String, String)> {
        let names = || self.arms.iter().map(|arm| arm.name.as_str());
        let arm = pick(Some(&cell.arm), "arm", "", names)?;
        let workload = self.workload(cell)?;
        let described = &self.workloads[workload];
        let threads = match (cell.level, described.threads.as_slice()) {
            (None, [one]) => *one,
            (None, _) => {
                let hint = format!("write `{} @ LEVEL`", cell.arm);
                return Err((format!("`{}` has several levels; which?", described.name), hint));
            }
            (Some(level), all) => {
                let threads = level.threads(self.cpus);
                if !all.contains(&threads) {
                    let list: Vec<String> = all.iter().map(ToString::to_string).collect();
                    let message = format!("`{}` is not run at {level} threads", described.name);
                    return Err((message, format!("its levels are {}", list.join(", "))));
                }
                threads
            }
        };
        let kinds: Vec<ResultKind> = described.results().collect();
        let result = pick(cell.result.as_deref(), "result", ": RESULT", || {
            kinds.iter().map(|kind| kind.name.as_str())
        })?;
        if !can_run(&self.arms[arm], described) {
            let message = format!("`{}` cannot run `{}`, which needs files", cell.arm, described.name);
            return Err((message, "name an arm with a filesystem".into()));
        }
        if !self.metric.is_of(&kinds[result]) {
            let message = format!("`{}` has no {}", described.name, self.metric.name());
            return Err((message, "leave out metric, or name a result of a built-in load".into()));
        }
        Ok(Spot { arm, workload, threads, result })
    }
}

/// The index of a name, or of the only one there is.
fn pick<'a, I: Iterator<Item = &'a str>>(
    name: Option<&str>,
    what: &str,
    form: &str,
    names: impl Fn() -> I,
) -> Result<usize, (String, String)> {
    let list = || names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let Some(name) = name else {
        return match names().count() {
            1 => Ok(0),
            _ => Err((format!("there are several {what}s; name one"), format!("add `{form}`: {}", list()))),
        };
    };
    names().position(|known| known == name).ok_or_else(|| {
        let hint = did_you_mean(name, names()).unwrap_or_else(|| format!("use one of {}", list()));
        (format!("there is no {what} `{name}`"), hint)
    })
}

/// The bound of an expectation; of a ratio, whose bounds are positive numbers, or of an amount.
fn bound(expected: &Expectation, is_ratio: bool) -> Result<Bound, Wrong> {
    let number = |number: &Number, key: &'static str| {
        let is_plain = !matches!(number, Number::Text(_));
        let value = number.value().filter(|value| (1e-9..=1e18).contains(value) && (is_plain || !is_ratio));
        let hint =
            if is_ratio { "write a number such as 1.3" } else { "write a number, or one such as \"10s\"" };
        value.ok_or_else(|| (key, format!("`{number}` is not a bound"), hint.to_owned()))
    };
    if let Some(above) = &expected.above {
        return number(above, "above").map(Bound::Above);
    }
    if let Some(below) = &expected.below {
        return number(below, "below").map(Bound::Below);
    }
    let within = expected.within.map_or(0.0, |percent| percent.fraction());
    if (0.001..=1.0).contains(&within) {
        Ok(Bound::Within(within))
    } else {
        Err(("within", "within is out of range (0.1% to 100%)".into(), "write within = \"10%\"".into()))
    }
}
