//! What fits into a budget: a first answer leaves levels and workloads out before it makes any run shorter.

use crate::{
    error::ExpectedError,
    numbers,
    run::{
        environment, forecast,
        plan::{Plan, threads_in_words},
    },
};
use fstrial_model::{
    trial::{Compare, Trial},
    units::Nanos,
    workload::Entry,
};

/// Leaves out what does not fit, and gives words for it: first every level but the middle one (the higher of two) of workloads whose
/// levels were not given, then whole workloads, the last first. Keeps everything if the workloads themselves are compared.
pub(super) fn leave_out(trial: &mut Trial) -> Result<Option<String>, ExpectedError> {
    let whole = time(trial)?;
    if fits(trial, whole) || trial.trial.compare == Compare::Workloads {
        return Ok(None);
    }
    let mut levels: Vec<Option<String>> = trial.workloads.iter_mut().map(only_the_middle).collect();
    let mut workloads = Vec::new();
    while trial.workloads.len() > 1 && !fits(trial, time(trial)?) {
        let last = trial.workloads.pop().and_then(|entry| entry.name.or(entry.preset));
        workloads.push(last.unwrap_or_default());
        levels.pop();
    }
    let left_out: Vec<String> = levels.into_iter().flatten().chain(workloads).collect();
    let whole = numbers::budget(whole * forecast::MARGIN);
    let words = || format!("--quick left out {}; --budget {whole} holds all", left_out.join(", "));
    Ok((!left_out.is_empty()).then(words))
}

/// Leaves out all levels but the middle one, unless levels were asked for. Says which.
fn only_the_middle(entry: &mut Entry) -> Option<String> {
    let workload = entry.resolve(environment::cpus()).ok().filter(|_| entry.threads.is_none())?;
    let middle = workload.threads[workload.threads.len() / 2];
    let others: Vec<u16> = workload.threads.iter().copied().filter(|level| *level != middle).collect();
    let (last, before) = others.split_last()?;
    entry.threads = Some(vec![middle]);
    let before: String = before.iter().map(|level| format!("{level} and ")).collect();
    Some(format!("{} at {before}{}", workload.name, threads_in_words(*last)))
}

/// The least budget with which a trial can be expected to have a verdict.
pub(super) fn least(trial: &Trial) -> Result<Nanos, ExpectedError> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of seconds or hours")]
    let seconds = (time(trial)? * forecast::MARGIN).ceil() as u64;
    Ok(Nanos::secs(seconds))
}

fn fits(trial: &Trial, seconds: f64) -> bool {
    seconds * forecast::MARGIN <= trial.trial.budget.as_secs_f64()
}

/// About how many seconds the rounds take that a verdict needs.
fn time(trial: &Trial) -> Result<f64, ExpectedError> {
    let cpus = environment::cpus();
    Ok(forecast::least_seconds(&Plan::new(trial.settled(cpus)?, 0, cpus)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str) -> Vec<(String, Option<Vec<u16>>)> {
        let text = format!(
            "[device]\nkind = \"image\"\n[[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n{text}"
        );
        let mut trial = Trial::parse("trial.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        leave_out(&mut trial).unwrap();
        assert!(trial.problem().is_none(), "{text}");
        trial.workloads.into_iter().map(|entry| (entry.preset.unwrap_or_default(), entry.threads)).collect()
    }

    #[test]
    fn levels_go_before_workloads_and_what_was_asked_for_stays() {
        let workloads = |first: &str| {
            format!(
                "[[workload]]\nuse = \"wal-group-commit\"\n{first}[[workload]]\nuse = \"checkpoint-bursts\"\n\
                 [[workload]]\nuse = \"varmail\"\n"
            )
        };
        let with = |budget: &str, first: &str| {
            left(&format!("[trial]\nbudget = \"{budget}\"\n{}", workloads(first)))
        };
        let names = |left: &[(String, Option<Vec<u16>>)]| {
            left.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let all = ["wal-group-commit", "checkpoint-bursts", "varmail"];
        let whole = with("2h", "");
        assert_eq!(names(&whole), all);
        assert!(whole.iter().all(|(_, threads)| threads.is_none()), "{whole:?}");
        let levels = with("9m", "");
        assert_eq!(names(&levels), all);
        assert_eq!((&levels[0].1, &levels[1].1), (&Some(vec![4]), &Some(vec![4])), "{levels:?}");
        let few = with("1m", "threads = [1, 16]\n");
        assert_eq!(few, [("wal-group-commit".to_owned(), Some(vec![1, 16]))]);
        let compared = left(&format!("[trial]\nbudget = \"1m\"\ncompare = \"workloads\"\n{}", workloads("")));
        assert_eq!(names(&compared), all, "what is compared is not left out");
    }
}
