//! What a budget can show, before anything is measured: rounds that fit, and differences that they would find.

use super::{
    contrast::{less_is_better, question},
    panels::ALPHA,
    plan::Plan,
};
use crate::numbers;
use fstrial_model::{trial::Settings, units::Nanos};
use fstrial_stats::{normal, power, schedule::Schedule};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// Rounds planned for at least and at most, whatever the budget: a trial that is undecided at its end can be resumed,
/// and error is spent for that from the beginning.
const PLANNED_ROUNDS: (u32, u32) = (60, 200);
/// A trial ends after this many rounds, whatever its budget: more would not decide it, and the estimates grow with the
/// square of the rounds.
pub const MAX_ROUNDS: u32 = 500;
/// What a run costs in addition to its load and its files, before any was timed: on an image 0.15 to 0.25 s were seen.
pub const OVERHEAD_GUESS: Nanos = Nanos(300_000_000);
/// What a run of a server costs in addition: making its files, starting, loading, stopping. On an image 10.0 to 10.8 s were
/// seen with MariaDB.
const SERVER_GUESS: Nanos = Nanos::secs(10);
/// Kinds of noise for which differences are told: the usual difference of equal arms from round to round, as a fraction.
const NOISES: [f64; 3] = [0.02, 0.05, 0.1];
/// The share of trials that find a difference which is told.
pub const POWER: f64 = 0.9;
/// Of normal values with standard deviation 1, half are nearer to their mean than this.
const MEDIAN_OF_NORMAL: f64 = 0.674_489_75;
/// Trials that are simulated.
const TRIALS: u64 = 1000;
/// Rounds that are simulated: beyond them the signed ranks alone decide, and what they need is known.
const SIMULATED_ROUNDS: u32 = 60;
/// Bytes of files that are laid out in a millisecond, before anything is known of the device: 400 MB/s.
const LAYOUT_GUESS: u64 = 400_000;
/// A budget that is advised is this many times the estimate, as rounds take longer than they are estimated.
pub const MARGIN: f64 = 1.5;
/// No number of questions takes more rounds than this for a first verdict.
const MAX_LEAST: u32 = 60;

/// The number of rounds that the decision rule plans with: as many as were asked for, or else as fit into the budget.
pub fn planned_rounds(asked: Option<u32>, affordable: u32) -> u32 {
    asked.map_or_else(|| affordable.clamp(PLANNED_ROUNDS.0, PLANNED_ROUNDS.1), |rounds| rounds.max(4))
}

/// What the budget of a plan can show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// Rounds that fit, or those that were asked for if they are fewer: an estimate, as nothing was measured yet.
    pub rounds: u32,
    /// About how long a round takes: warm-up and measured time of all runs, and preparation.
    pub round_seconds: f64,
    /// Preparation in that: mkfs, mount, laying out files, taking down.
    pub preparation_seconds: f64,
    /// Long runs before the first round, for what shorter ones do not see; 0 where there are none.
    pub pilot_seconds: f64,
    /// Fewer rounds than this decide nothing.
    pub least_rounds: u32,
    /// Questions that share the error.
    pub questions: usize,
    /// What that many rounds find; empty where nothing is compared.
    pub differences: Vec<Findable>,
    /// Why these rounds cannot decide anything, and what helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The difference that is found in nine of ten trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Findable {
    /// The usual difference of equal arms in one round, in percent.
    pub noise_percent: f64,
    /// In percent; none if these rounds find no difference that often.
    pub difference_percent: Option<f64>,
    /// What a trial would find whose rule spends all error on these rounds, so that it could not be resumed: the rest is the
    /// price of resuming.
    pub unresumable_percent: Option<f64>,
}

impl Forecast {
    /// The forecast for a plan whose pilots take this long.
    pub fn after(pilots: Nanos, plan: &Plan) -> Forecast {
        let (round, preparation) = round_time(plan);
        let settings = &plan.trial.trial;
        let left = settings.budget.0.saturating_sub(pilots.0);
        let affordable = u32::try_from(left / round.0.max(1)).unwrap_or(u32::MAX);
        let rounds = affordable.min(settings.rounds.unwrap_or(MAX_ROUNDS));
        let rule = Rule::of(plan);
        let least = rule.as_ref().map_or(0, |rule| rule.least_rounds(settings.rounds));
        let planned = planned_rounds(settings.rounds, affordable);
        Forecast {
            rounds,
            round_seconds: round.as_secs_f64(),
            preparation_seconds: preparation.as_secs_f64(),
            pilot_seconds: pilots.as_secs_f64(),
            least_rounds: least,
            questions: rule.as_ref().map_or(0, |rule| rule.questions),
            differences: rule.map_or_else(Vec::new, |rule| rule.differences(planned, rounds)),
            warning: too_few(rounds, settings.rounds, least, round.as_secs_f64()),
        }
    }
}

/// Why so few rounds cannot decide anything, with the remedy; none if they can.
pub fn too_few(rounds: u32, asked: Option<u32>, least: u32, round_seconds: f64) -> Option<String> {
    if rounds >= least {
        return None;
    }
    let have = match rounds {
        0 => "not even one round fits into the budget".into(),
        1 => "one round cannot decide anything".into(),
        rounds => format!("{rounds} rounds cannot decide anything"),
    };
    let needed = numbers::budget(round_seconds * f64::from(least) * MARGIN);
    let remedy = match asked {
        Some(asked) if asked < least && asked <= rounds => format!("{least} rounds or more"),
        Some(asked) if asked < least => format!("{least} rounds or more, and --budget {needed}"),
        _ => format!("--budget {needed}, or fewer arms, workloads or thread counts"),
    };
    Some(format!(
        "{have}: a verdict takes at least {least}. Give it {remedy}; else there will be figures only"
    ))
}

/// The least rounds with which this plan has any verdict; 0 where nothing is compared.
pub fn least_rounds(plan: &Plan) -> u32 {
    Rule::of(plan).map_or(0, |rule| rule.least_rounds(plan.trial.trial.rounds))
}

/// About how many seconds the least rounds take with which this plan has a verdict; of one round where nothing is compared.
pub fn least_seconds(plan: &Plan) -> f64 {
    round_time(plan).0.as_secs_f64() * f64::from(least_rounds(plan).max(1))
}

/// About how long a round takes, and what of that is preparation.
pub fn round_time(plan: &Plan) -> (Nanos, Nanos) {
    let (mut all, mut preparation) = (0_u64, 0_u64);
    for cell in 0..plan.cells.len() {
        let (whole, before) = cell_time(plan, cell);
        preparation = preparation.saturating_add(before.0);
        all = all.saturating_add(whole.0);
    }
    (Nanos(all), Nanos(preparation))
}

/// About how long a run of a cell takes, and what of that is preparation.
pub fn cell_time(plan: &Plan, cell: usize) -> (Nanos, Nanos) {
    let at = &plan.cells[cell];
    let workload = &plan.workloads[at.workload];
    let layout = workload.space_needed(at.threads).0 / LAYOUT_GUESS * 1_000_000;
    let serves = workload.program.as_ref().is_some_and(|timed| timed.program.server.is_some());
    let server = if serves { SERVER_GUESS } else { Nanos(0) };
    let before = OVERHEAD_GUESS.0.saturating_add(layout).saturating_add(server.0);
    (Nanos(before.saturating_add(workload.time().0)), Nanos(before))
}

/// The decision rule as far as one question has to do with it.
struct Rule {
    questions: usize,
    lane: bool,
    equivalence: bool,
}

impl Rule {
    /// None where nothing is compared.
    fn of(plan: &Plan) -> Option<Rule> {
        let settings: &Settings = &plan.trial.trial;
        let asked: Vec<_> = plan.contrasts.iter().filter(|contrast| !plan.is_control(contrast.a)).collect();
        let holding = || {
            let held = asked.iter().filter(|contrast| contrast.holds_open);
            held.map(|contrast| {
                question(contrast, settings.practical.fraction(), less_is_better(plan, contrast))
            })
        };
        (!asked.is_empty()).then(|| Rule {
            questions: asked.len(),
            lane: settings.lane && holding().any(|question| question.lane),
            equivalence: holding().any(|question| question.equivalence),
        })
    }

    /// The level of one difference among equal arms: the first that a correction for many questions asks for.
    #[expect(clippy::cast_precision_loss, reason = "a number of questions")]
    fn directional(&self, planned: u32) -> Schedule {
        Schedule::new(ALPHA / self.questions as f64, planned as usize)
    }

    fn first_verdict(&self, planned: u32) -> Option<u32> {
        let equivalence = self.equivalence.then(|| Schedule::new(2.0 * ALPHA, planned as usize));
        let first = power::first_verdict(&self.directional(planned), equivalence.as_ref(), self.lane)?;
        u32::try_from(first).ok()
    }

    /// Where a number of rounds is asked for, it is what is planned with, so that fewer can be enough.
    fn least_rounds(&self, asked: Option<u32>) -> u32 {
        let enough = |rounds: &u32| {
            let planned = planned_rounds(asked.map(|_| *rounds), *rounds);
            self.first_verdict(planned).is_some_and(|first| first <= *rounds)
        };
        (1..MAX_LEAST).find(enough).unwrap_or(MAX_LEAST)
    }

    fn differences(&self, planned: u32, rounds: u32) -> Vec<Findable> {
        let alone = self.found(planned_rounds(Some(rounds), rounds), rounds);
        let found = self.found(planned, rounds).into_iter().zip(alone).zip(NOISES);
        let percent = |log: Option<f64>| log.map(|log| log.exp_m1() * 100.0);
        let findable = found.map(|((found, alone), noise)| Findable {
            noise_percent: noise * 100.0,
            difference_percent: percent(found),
            unresumable_percent: percent(alone),
        });
        findable.collect()
    }

    /// The logarithms of the differences that are found at each noise by a rule that plans with a number of rounds.
    fn found(&self, planned: u32, rounds: u32) -> [Option<f64>; 3] {
        let schedule = self.directional(planned);
        let simulated = rounds.min(SIMULATED_ROUNDS);
        let needs: Vec<power::Need> = (0..TRIALS).map(|seed| self.need(seed, simulated, &schedule)).collect();
        // Beyond the rounds that are simulated it shrinks as the rule's formula says.
        let formula = |rounds: u32| schedule.detectable(rounds as usize, 1.0);
        let shrinks = formula(rounds).zip(formula(simulated)).map_or(1.0, |(all, some)| all / some);
        NOISES.map(|noise| {
            let unit = noise.ln_1p() / MEDIAN_OF_NORMAL;
            let needs = needs.iter().map(|need| need.at(unit)).collect();
            power::found_with(POWER, needs).map(|log| log * shrinks)
        })
    }

    /// What a trial of normal noise needs.
    fn need(&self, seed: u64, rounds: u32, schedule: &Schedule) -> power::Need {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let orders = if self.lane { rounds } else { 0 };
        let a_first: Vec<bool> = (0..orders).map(|_| random.next_u64() & 1 == 1).collect();
        let noise: Vec<f64> = (0..rounds).map(|_| normal(&mut random)).collect();
        power::Need::of(&noise, &a_first, schedule)
    }
}

/// A standard normal value.
#[expect(clippy::cast_precision_loss, reason = "53 bits")]
fn normal(random: &mut ChaCha8Rng) -> f64 {
    normal::quantile(((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: Rule = Rule { questions: 1, lane: true, equivalence: true };

    #[test]
    fn the_least_rounds_depend_on_the_lane_the_questions_and_what_was_asked() {
        assert_eq!(SINGLE.least_rounds(None), 4);
        assert_eq!(Rule { lane: false, ..SINGLE }.least_rounds(None), 8);
        assert_eq!(Rule { lane: false, ..SINGLE }.least_rounds(Some(3)), 5);
        assert_eq!(Rule { questions: 6, ..SINGLE }.least_rounds(Some(2)), 5);
        assert_eq!(Rule { questions: 6, lane: true, equivalence: false }.least_rounds(None), 6);
    }

    #[test]
    fn more_rounds_and_less_noise_find_smaller_differences() {
        let at = |rounds| SINGLE.differences(60, rounds).iter().map(|one| one.difference_percent).collect();
        let found: Vec<Vec<Option<f64>>> = [3, 5, 8, 12, 30, 60, 120].map(at).into();
        assert_eq!(found[0], [None; 3], "nothing can be found in three rounds");
        for pair in found[1..].windows(2) {
            assert!(pair[0].iter().zip(&pair[1]).all(|(few, many)| few > many), "{pair:?}");
        }
        let in_order = |one: &Vec<Option<f64>>| one.is_sorted() && one[0] < one[2];
        assert!(found[1..].iter().all(in_order), "{found:?}");
    }

    #[test]
    fn a_trial_that_can_be_resumed_finds_somewhat_less() {
        let rule = Rule { lane: false, ..SINGLE };
        for one in rule.differences(60, 12) {
            let (found, alone) = (one.difference_percent.unwrap(), one.unresumable_percent.unwrap());
            assert!(alone < found && found < 3.0 * alone, "{one:?}");
        }
        assert!(rule.differences(60, 60).iter().all(|one| one.difference_percent == one.unresumable_percent));
    }

    #[test]
    fn too_few_rounds_are_told_with_a_remedy() {
        assert_eq!(too_few(4, None, 4, 10.0), None);
        let said = |rounds, asked| too_few(rounds, asked, 8, 60.0).unwrap();
        assert!(
            said(0, None).starts_with("not even one round fits into the budget: a verdict takes at least 8")
        );
        assert!(said(3, None).contains("--budget 12m, or fewer arms"));
        assert!(said(3, Some(3)).contains("Give it 8 rounds or more;"));
        assert!(said(2, Some(3)).contains("8 rounds or more, and --budget 12m"));
    }
}
