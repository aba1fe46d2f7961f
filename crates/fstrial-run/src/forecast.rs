//! The power of a budget, before anything is measured: rounds that fit, and differences that they would detect.

use super::{
    cell::Contrast,
    claim::WORKING_ROUNDS,
    contrast::{less_is_better, question},
    panels::{self, ALPHA},
    plan::Plan,
    prepared::shared,
};
use crate::numbers;
use fstrial_model::{
    place::Clock,
    trial::Settings,
    units::{Bytes, Nanos},
    workload::Workload,
};
use fstrial_stats::{
    normal, power,
    schedule::{Schedule, Spending},
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// A trial ends after this many rounds, regardless of its budget: more would not decide it, and the estimates grow with
/// the square of the rounds.
pub const MAX_ROUNDS: u32 = 500;
/// Assumed cost of a run in addition to its load and its files, before any was timed: on an image 0.15 to 0.25 s were
/// measured.
pub const OVERHEAD_GUESS: Nanos = Nanos(300_000_000);
/// Assumed additional cost of a server's run: making its files, starting, loading, stopping. With PostgreSQL and
/// MariaDB on a modelled gp3 volume 13 to 15 s were measured, on an image 10 to 11 s.
const SERVER_GUESS: Nanos = Nanos::secs(14);
/// The same where its data are loaded already.
const LOADED_SERVER_GUESS: Nanos = Nanos::secs(3);
/// Assumed levels of noise: the usual difference of equal arms from round to round, as a fraction.
const NOISES: [f64; 3] = [0.02, 0.05, 0.1];
/// The share of trials that detect a reported difference.
pub const POWER: f64 = 0.9;
/// Distance from the mean within which half of the normal values with standard deviation 1 are.
const MEDIAN_OF_NORMAL: f64 = 0.674_489_75;
/// Trials that are simulated.
const TRIALS: u64 = 1000;
/// Simulated rounds: beyond them the formula extrapolates.
const SIMULATED_ROUNDS: u32 = 60;
/// Assumed rate of laying out files, in bytes a millisecond, on an unknown device: 400 MB/s.
const LAYOUT_GUESS: u64 = 400_000;
/// Slowdown of work on an emulated processor: 10 to 20 times were measured.
const EMULATED: u64 = 15;
/// Until a guest with one has booted, as those in virtual time do for every round.
const BOOT_GUESS: Nanos = Nanos::secs(8);
/// A budget that is advised is this many times the estimate, as rounds take longer than they are estimated.
pub const MARGIN: f64 = 1.5;
/// Rounds may be shorter than they are estimated by this factor, and longer than the first one.
pub const SLACK: f64 = 1.25;
/// No number of questions takes more rounds than this for a first verdict.
const MAX_LEAST: u32 = 60;

/// The power of a plan's budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// Rounds that fit, or the requested ones if they are fewer: an estimate, as nothing was measured yet.
    pub rounds: u32,
    /// About how long a round takes: warm-up and measured time of all runs, and preparation.
    pub round_seconds: f64,
    /// Preparation in that: mkfs, mount, laying out files, taking down.
    pub preparation_seconds: f64,
    /// Loading the data of workloads once before the first round; 0 where every run loads them.
    pub loading_seconds: f64,
    /// Long runs before the first round, for effects that shorter ones miss; 0 without any.
    pub pilot_seconds: f64,
    /// Fewer rounds than this decide nothing.
    pub least_rounds: u32,
    /// Questions that share the error.
    pub questions: usize,
    /// Differences detected by that many rounds; empty if nothing is compared.
    pub differences: Vec<Findable>,
    /// The reason why these rounds cannot decide anything, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The difference detected in nine of ten trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Findable {
    /// The usual difference of equal arms in one round, in percent.
    pub noise_percent: f64,
    /// In percent; none if these rounds find no difference that often.
    pub difference_percent: Option<f64>,
}

impl Forecast {
    /// The forecast for a plan whose pilots take this long.
    pub fn after(pilots: Nanos, plan: &Plan) -> Forecast {
        let (round, preparation) = round_time(plan);
        let settings = &plan.trial.trial;
        let loading = loading_time(plan);
        let left = settings.budget.0.saturating_sub(pilots.0).saturating_sub(loading.0);
        let affordable = u32::try_from(left / round.0.max(1)).unwrap_or(u32::MAX);
        let rounds = affordable.min(settings.rounds.unwrap_or(MAX_ROUNDS));
        let rule = Rule::of(plan);
        let least = least_rounds(plan);
        Forecast {
            rounds,
            round_seconds: round.as_secs_f64(),
            preparation_seconds: preparation.as_secs_f64(),
            loading_seconds: loading.as_secs_f64(),
            pilot_seconds: pilots.as_secs_f64(),
            least_rounds: least,
            questions: rule.as_ref().map_or(0, |rule| rule.questions),
            differences: rule.map_or_else(Vec::new, |rule| rule.differences(rounds)),
            warning: too_few(rounds, settings.rounds, least, round.as_secs_f64(), &fewer(plan)),
        }
    }
}

/// The reason why so few rounds cannot decide anything, with the remedy; none if they can. `fewer`: the reducible
/// quantities.
pub fn too_few(
    rounds: u32,
    requested: Option<u32>,
    least: u32,
    round_seconds: f64,
    fewer: &[&str],
) -> Option<String> {
    if rounds >= least {
        return None;
    }
    let have = match rounds {
        0 => "not even one round fits into the budget".into(),
        1 => "one round is too few".into(),
        rounds => format!("{rounds} rounds are too few"),
    };
    let needed = numbers::budget(round_seconds * f64::from(least) * MARGIN);
    let remedy = match requested {
        Some(requested) if requested < least && requested <= rounds => format!("{least} rounds or more"),
        Some(requested) if requested < least => format!("{least} rounds or more, and --budget {needed}"),
        _ if fewer.is_empty() => format!("--budget {needed}"),
        _ => format!("--budget {needed}, or fewer {}", fewer.join(", ")),
    };
    Some(format!("{have}: a verdict needs at least {least}. Use {remedy}, or there will be figures only"))
}

/// A budget to name: the next whole minute.
pub fn whole_minutes(time: Nanos) -> Nanos {
    Nanos::secs(time.0.div_ceil(Nanos::secs(60).0) * 60)
}

/// Notice of a raised default budget.
pub fn raised(to: Nanos, from: Nanos) -> String {
    format!("the budget is {to}, as {from} are too short for a first verdict (--budget sets it)")
}

/// Quantities of a plan that could be reduced.
pub fn fewer(plan: &Plan) -> Vec<&'static str> {
    let all = [
        ("arms", plan.trial.arms.len() > 2),
        ("workloads", plan.workloads.len() > 1),
        ("thread counts", plan.workloads.iter().any(|workload| workload.threads.len() > 1)),
    ];
    all.into_iter().filter_map(|(what, is_more)| is_more.then_some(what)).collect()
}

/// The minimum of rounds for any verdict of this plan; 0 if nothing is compared or watched.
pub fn least_rounds(plan: &Plan) -> u32 {
    let is_watched = plan.parts.iter().any(|part| !part.watched.is_empty());
    let works = plan.trial.trial.rounds.unwrap_or(MAX_ROUNDS).min(WORKING_ROUNDS as u32);
    Rule::of(plan).map_or(0, |rule| rule.least_rounds()).max(if is_watched { works } else { 0 })
}

/// Approximate time of the minimum of rounds for a verdict of this plan, in seconds; of one round if nothing is
/// compared.
pub fn least_seconds(plan: &Plan) -> f64 {
    round_time(plan).0.as_secs_f64() * f64::from(least_rounds(plan).max(1)) + loading_time(plan).as_secs_f64()
}

/// About how long loading the data of all workloads takes, once on each filesystem for each load: the device is written
/// with zeros before, and read after.
fn loading_time(plan: &Plan) -> Nanos {
    let device = 2 * guess(plan.device_size).0;
    let loads = shared(plan).into_iter().filter_map(|shared| shared.load);
    let one = |cell: usize| {
        let at = &plan.cells[cell];
        let workload = &plan.workloads[at.workload];
        let server = if serves(workload) { SERVER_GUESS.0 } else { 0 };
        OVERHEAD_GUESS.0 + device + server + guess(workload.space_needed(at.threads)).0
    };
    Nanos(loads.map(|load| one(load.cells[0])).sum())
}

/// About how long it takes to write these bytes.
fn guess(bytes: Bytes) -> Nanos {
    Nanos(bytes.0 / LAYOUT_GUESS * 1_000_000)
}

/// Time in which MPI starts clients and ends them.
const LAUNCH_GUESS: Nanos = Nanos::secs(3);

fn serves(workload: &Workload) -> bool {
    workload.program().is_some_and(|timed| timed.program.server.is_some())
}

/// Approximate time of a round, and its share of preparation. Controls come later, if at all.
pub fn round_time(plan: &Plan) -> (Nanos, Nanos) {
    let (mut all, mut preparation) = (0_u64, 0_u64);
    for cell in (0..plan.cells.len()).filter(|cell| !plan.is_control(*cell)) {
        let (whole, before) = cell_time(plan, cell);
        preparation = preparation.saturating_add(before.0);
        all = all.saturating_add(whole.0);
    }
    let boots = plan.trial.places.iter().filter(|place| plan.trial.clock_at(place) == Clock::Virtual).count();
    let boots = BOOT_GUESS.0.saturating_mul(boots as u64);
    (Nanos(all.saturating_add(boots)), Nanos(preparation.saturating_add(boots)))
}

/// Approximate time of a run of a cell, and its share of preparation.
pub fn cell_time(plan: &Plan, cell: usize) -> (Nanos, Nanos) {
    let at = &plan.cells[cell];
    let workload = &plan.workloads[at.workload];
    let is_loaded = plan.trial.loads(&plan.trial.arms[at.arm]).is_some();
    // Data that is loaded already comes with a copy of the whole device.
    let bytes = if is_loaded { plan.device_size } else { workload.space_needed(at.threads) };
    let clients = u64::from(plan.trial.trial.clients);
    let layout = guess(Bytes(bytes.0.saturating_mul(clients))).0;
    let launch = if clients > 1 { LAUNCH_GUESS.0 } else { 0 };
    let server = match serves(workload) {
        true if is_loaded => LOADED_SERVER_GUESS,
        true => SERVER_GUESS,
        false => Nanos(0),
    };
    let arm = &plan.trial.arms[at.arm];
    let clock = plan.trial.clock_of(arm);
    let slower = if clock == Clock::Real { 1 } else { EMULATED };
    let before = OVERHEAD_GUESS
        .0
        .saturating_add(layout)
        .saturating_add(server.0)
        .saturating_add(launch)
        .saturating_mul(slower);
    // On a modelled disk a load mostly waits, which takes virtual time and no other.
    let is_busy = clock == Clock::Virtual && plan.trial.device_of(arm).modelled().is_none();
    let time = workload.time().0.saturating_mul(if is_busy { slower } else { 1 });
    (Nanos(before.saturating_add(time)), Nanos(before))
}

/// The decision rule as far as one question has to do with it.
struct Rule {
    /// Number of questions that share the error.
    questions: usize,
    equivalence: bool,
    /// Minimum required by stalls.
    least: usize,
}

impl Rule {
    /// None if nothing is compared.
    fn of(plan: &Plan) -> Option<Rule> {
        let settings: &Settings = &plan.trial.trial;
        let mut requested = plan.contrasts.iter().filter(|contrast| !plan.is_control(contrast.a)).peekable();
        requested.peek()?;
        let mut holding = requested.filter(|contrast| contrast.holds_open);
        let can_be_equivalent =
            |contrast: &Contrast| question(contrast, settings, less_is_better(plan, contrast)).equivalence;
        let equivalence = holding.any(can_be_equivalent);
        Some(Rule {
            questions: panels::questions(plan).max(1),
            equivalence,
            least: panels::least_rounds(settings),
        })
    }

    /// The level of one difference among equal arms: the first that a correction for many questions asks for.
    #[expect(clippy::cast_precision_loss, reason = "a number of questions")]
    fn directional(&self) -> Schedule {
        Schedule::new(ALPHA / self.questions as f64, Spending::Directional)
    }

    fn least_rounds(&self) -> u32 {
        let equivalence = self.equivalence.then(|| Schedule::new(2.0 * ALPHA, Spending::Equivalence));
        let first = power::first_verdict(&self.directional(), equivalence.as_ref(), MAX_LEAST as usize);
        let first = first.unwrap_or(MAX_LEAST as usize).max(self.least);
        u32::try_from(first).unwrap_or(MAX_LEAST)
    }

    fn differences(&self, rounds: u32) -> Vec<Findable> {
        let findable = self.found(rounds).into_iter().zip(NOISES).map(|(found, noise)| Findable {
            noise_percent: noise * 100.0,
            difference_percent: found.map(|log| log.exp_m1() * 100.0),
        });
        findable.collect()
    }

    /// The logarithms of the differences detected at each noise within a number of rounds.
    fn found(&self, rounds: u32) -> [Option<f64>; 3] {
        let schedule = self.directional();
        let simulated = rounds.min(SIMULATED_ROUNDS);
        let needs: Vec<f64> = (0..TRIALS).map(|seed| need(seed, simulated, &schedule)).collect();
        // Beyond the simulated rounds it shrinks by the rule's formula.
        let formula = |rounds: u32| schedule.detectable(rounds as usize, 1.0);
        let shrinks = formula(rounds).zip(formula(simulated)).map_or(1.0, |(all, some)| all / some);
        NOISES.map(|noise| {
            let unit = noise.ln_1p() / MEDIAN_OF_NORMAL;
            let needs = needs.iter().map(|need| need * unit).collect();
            power::found_with(POWER, needs).map(|log| log * shrinks)
        })
    }
}

/// The need of a trial with normal noise.
fn need(seed: u64, rounds: u32, schedule: &Schedule) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let noise: Vec<f64> = (0..rounds).map(|_| normal(&mut random)).collect();
    power::need(&noise, schedule)
}

/// A standard normal value.
#[expect(clippy::cast_precision_loss, reason = "53 bits")]
fn normal(random: &mut ChaCha8Rng) -> f64 {
    normal::quantile(((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: Rule = Rule { questions: 1, equivalence: true, least: 0 };

    #[test]
    fn the_least_rounds_depend_on_the_questions() {
        assert_eq!(SINGLE.least_rounds(), 7);
        assert_eq!(Rule { questions: 6, ..SINGLE }.least_rounds(), 8);
        assert_eq!(Rule { least: 29, ..SINGLE }.least_rounds(), 29);
        assert_eq!(Rule { questions: 6, equivalence: false, ..SINGLE }.least_rounds(), 10);
    }

    #[test]
    fn more_rounds_and_less_noise_find_smaller_differences() {
        let at = |rounds| SINGLE.differences(rounds).iter().map(|one| one.difference_percent).collect();
        let found: Vec<Vec<Option<f64>>> = [6, 8, 12, 30, 60, 120].map(at).into();
        assert_eq!(found[0], [None; 3], "nothing can be found in six rounds");
        for pair in found[1..].windows(2) {
            assert!(pair[0].iter().zip(&pair[1]).all(|(few, many)| few > many), "{pair:?}");
        }
        let in_order = |one: &Vec<Option<f64>>| one.is_sorted() && one[0] < one[2];
        assert!(found[1..].iter().all(in_order), "{found:?}");
    }

    #[test]
    fn a_round_of_emulated_guests_takes_longer() {
        let seconds = |place: &str, device: &str| {
            let arm = |name: &str| format!("[[arm]]\nname = '{name}'\nfilesystem = 'ext4'\n{place}");
            let text = format!(
                "{}{}{}[[workload]]\nuse = 'append-fsync'\nduration = '1s'\nwarmup = '1s'\nthreads = [1]\n[device]\n{device}\n",
                if place.is_empty() { "" } else { "[[place]]\nname = 'old'\nkernel = '6.1'\n" },
                arm("a"),
                arm("b"),
            );
            let settled = fstrial_model::trial::Trial::parse("a trial", &text).unwrap().settled(2).unwrap();
            round_time(&Plan::new(settled, 1).unwrap()).0.as_secs_f64()
        };
        let (here, guests) = ("", "place = 'old'\n");
        let [ramdisk, model] = ["kind = 'ramdisk'", "kind = 'model'\nmodel = 'hdd-7200'"];
        assert!((seconds(guests, ramdisk) - 15.0 * seconds(here, ramdisk) - 8.0).abs() < 1e-6);
        // Waits of a load take their nominal time.
        assert!((seconds(guests, model) - 15.0 * (seconds(here, model) - 4.0) - 4.0 - 8.0).abs() < 1e-6);
    }

    #[test]
    fn warns_about_too_few_rounds_with_remedy() {
        let more = ["arms", "workloads"];
        assert_eq!(too_few(4, None, 4, 10.0, &more), None);
        let message = |rounds, requested| too_few(rounds, requested, 8, 60.0, &more).unwrap();
        assert!(too_few(3, None, 8, 60.0, &[]).unwrap().contains("Use --budget 12m, or"));
        assert!(
            message(0, None)
                .starts_with("not even one round fits into the budget: a verdict needs at least 8")
        );
        assert!(message(3, None).contains("--budget 12m, or fewer arms, workloads, or"));
        assert!(message(3, Some(3)).contains("Use 8 rounds or more,"));
        assert!(message(2, Some(3)).contains("8 rounds or more, and --budget 12m"));
    }
}
