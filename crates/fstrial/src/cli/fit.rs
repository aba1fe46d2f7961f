//! What fits into a budget: a first answer leaves levels and workloads out before it makes any run shorter.

use super::say;
use crate::{
    error::ExpectedError,
    numbers,
    run::{environment, forecast, plan::Plan},
};
use fstrial_model::{trial::Trial, units::Nanos};

/// Leaves out what does not fit: first all levels but the middle one of each workload, where nobody asked for levels
/// (`levels`), then workloads from the last on. Says what.
pub(super) fn leave_out(trial: &mut Trial, levels: bool) -> Result<(), ExpectedError> {
    let whole = time(trial)?;
    if fits(trial, whole) {
        return Ok(());
    }
    let mut left_out = Vec::new();
    for entry in trial.workloads.iter_mut().filter(|_| levels) {
        let Ok(workload) = entry.resolve(environment::cpus()) else { continue };
        let middle = workload.threads[workload.threads.len() / 2];
        let others: Vec<String> =
            workload.threads.iter().filter(|level| **level != middle).map(u16::to_string).collect();
        if !others.is_empty() {
            left_out.push(format!("{} at {} threads", workload.name, others.join(" and ")));
            entry.threads = Some(vec![middle]);
        }
    }
    while trial.workloads.len() > 1 && !fits(trial, time(trial)?) {
        let name = trial.workloads.pop().and_then(|entry| entry.name.or(entry.preset)).unwrap_or_default();
        left_out.retain(|told| !told.starts_with(&format!("{name} at ")));
        left_out.push(name);
    }
    if !left_out.is_empty() {
        let whole = numbers::budget(whole);
        say(&format!("--quick leaves out: {}; --budget {whole} holds all\n", left_out.join(", ")));
    }
    Ok(())
}

/// The least budget with which a trial can be expected to have a verdict.
pub(super) fn least(trial: &Trial) -> Result<Nanos, ExpectedError> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of seconds or hours")]
    let seconds = (time(trial)? * 1.5).ceil() as u64;
    Ok(Nanos::secs(seconds))
}

fn fits(trial: &Trial, seconds: f64) -> bool {
    seconds <= trial.trial.budget.as_secs_f64()
}

/// About how many seconds the rounds take that a verdict needs.
fn time(trial: &Trial) -> Result<f64, ExpectedError> {
    let cpus = environment::cpus();
    Ok(forecast::least_seconds(&Plan::new(trial.settled(cpus)?, 0, cpus)?))
}
