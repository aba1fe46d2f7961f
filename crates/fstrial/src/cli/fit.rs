//! Fits a trial into its budget before anything is measured: leaves out parts that no flag requested, and shortens no
//! run.

use super::lacking;
use fstrial_model::{
    trial::{Compare, Trial},
    units::Nanos,
    workload::{Entry, Program, Workload},
};
use fstrial_report::{summary::listed, verdict};
use fstrial_run::{
    environment,
    error::ExpectedError,
    forecast, numbers,
    plan::{Plan, threads_in_words},
};

/// The largest budget that is chosen without a flag.
pub(super) const LONGEST: Nanos = Nanos::secs(12 * 60);

/// Fits a trial into its budget, or into a larger one if it `is_free`, and returns a description of the changes.
pub(super) fn fit(
    trial: &mut Trial,
    keeps_workloads: bool,
    is_free: bool,
) -> Result<Vec<String>, ExpectedError> {
    let mut whole = trial.clone();
    let mut left_out = leave_out(trial, keeps_workloads)?;
    let extended = if is_free { extend(trial)? } else { None };
    if extended.is_some() {
        // More may fit into the larger one.
        whole.trial.budget = trial.trial.budget;
        left_out = leave_out(&mut whole, keeps_workloads)?;
        *trial = whole;
    }
    Ok(left_out.into_iter().chain(extended).collect())
}

/// Leaves out parts that do not fit, and returns a description: first every level but the middle one (the higher of
/// two) of workloads whose levels were not given, then comparisons without the first arm, then whole workloads, the
/// last first, unless they were requested; levels are restored if there is room then. Keeps everything if the workloads
/// themselves are compared.
fn leave_out(trial: &mut Trial, keeps_workloads: bool) -> Result<Option<String>, ExpectedError> {
    let whole = time(trial)?;
    if fits(trial, whole) || trial.trial.compare == Compare::Workloads {
        return Ok(None);
    }
    let mut levels: Vec<Option<String>> = trial.workloads.iter_mut().map(only_the_middle).collect();
    // This costs answers and saves a round or two, so it is done only where the trial would have none otherwise.
    let pairs = if is_within(trial, time(trial)?) { None } else { only_with_the_first(trial) };
    let mut workloads = Vec::new();
    while !keeps_workloads && trial.workloads.len() > 1 && !fits(trial, time(trial)?) {
        let last = trial.workloads.pop().and_then(|entry| entry.name.or(entry.preset));
        workloads.push(last.unwrap_or_default());
        levels.pop();
    }
    // Where whole workloads went there may be room again.
    for (index, level) in
        levels.iter_mut().enumerate().filter(|(_, level)| level.is_some() && !workloads.is_empty())
    {
        let middle = trial.workloads[index].threads.take();
        match fits(trial, time(trial)?) {
            true => *level = None,
            false => trial.workloads[index].threads = middle,
        }
    }
    let left_out: Vec<String> = levels.into_iter().flatten().chain(workloads).chain(pairs).collect();
    let (budget, whole) = (trial.trial.budget, numbers::budget(whole * forecast::MARGIN));
    let words = || format!("without {}, to fit into {budget}; --budget {whole} holds all", listed(&left_out));
    Ok((!left_out.is_empty()).then(words))
}

/// Leaves out comparisons without the first arm, unless a baseline was named. Returns a note.
fn only_with_the_first(trial: &mut Trial) -> Option<String> {
    let first = trial.arms.first()?.name.clone();
    let is_free = trial.arms.len() > 2 && trial.trial.baseline.is_none() && !trial.trial.leads;
    is_free.then(|| {
        trial.trial.baseline = Some(first.clone());
        let others: Vec<&str> = trial.arms[1..].iter().map(|arm| arm.name.as_str()).collect();
        format!("comparing {} with each other", listed(&others))
    })
}

/// Raises a default budget to the time of a first verdict, up to [`LONGEST`]. Returns a note.
fn extend(trial: &mut Trial) -> Result<Option<String>, ExpectedError> {
    let (usual, needed) = (trial.trial.budget, least(trial)?);
    if needed <= usual || needed > LONGEST {
        return Ok(None);
    }
    trial.trial.budget = forecast::whole_minutes(needed);
    Ok(Some(forecast::raised(trial.trial.budget, usual)))
}

/// Refuses a budget in which not even the rounds of a first verdict fit.
///
/// # Errors
/// They do not; or for want of programs none would ever.
pub(super) fn check(trial: &Trial) -> Result<(), ExpectedError> {
    let (plan, budget) = (planned(trial)?, trial.trial.budget);
    let (least, needed) = (forecast::least_rounds(&plan), forecast::least_seconds(&plan));
    if least == 0 || is_within(trial, needed / forecast::SLACK) {
        return Ok(());
    }
    lacking::check_programs(&plan)?;
    let fit = budget.as_secs_f64() * f64::from(least) / needed;
    let room = match fit as usize {
        0 => format!("not even one round fits into a budget of {budget}"),
        rounds => format!("a budget of {budget} has room for about {}", verdict::rounds_in_words(rounds)),
    };
    let fewer = forecast::fewer(&plan);
    let is_timed = |workload: &Workload| workload.longest_period().is_none() && takes_a_duration(workload);
    let mut ways = vec![format!("use --budget {}", numbers::budget(needed * forecast::MARGIN))];
    ways.extend(plan.workloads.iter().any(is_timed).then(|| "a shorter --duration".into()));
    ways.extend((!fewer.is_empty()).then(|| format!("fewer {}", fewer.join(", "))));
    let anyway = if fit < 1.0 { "" } else { "; --anyway measures figures without a verdict" };
    Err(ExpectedError::usage(
        format!("{room}, and a verdict needs at least {least}"),
        format!("{}{anyway}", ways.join(", or ")),
    ))
}

/// True if `--duration` sets the length of its runs: those of a load, of a program whose command has a duration, and of
/// a fio job with a runtime.
fn takes_a_duration(workload: &Workload) -> bool {
    let is_told = |program: &Program| {
        program.told_time(Nanos(0)).is_some()
            || program.inputs.values().any(|input| input.contains("\nruntime="))
    };
    workload.is_load() || workload.program().is_some_and(|timed| is_told(&timed.program))
}

fn planned(trial: &Trial) -> Result<Plan, ExpectedError> {
    Ok(Plan::new(trial.settled(environment::cpus())?, 0)?)
}

/// Leaves out all levels but the middle one, unless levels were given. Returns a note.
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
    is_within(trial, seconds * forecast::MARGIN)
}

fn is_within(trial: &Trial, seconds: f64) -> bool {
    seconds <= trial.trial.budget.as_secs_f64()
}

/// About how many seconds the rounds take that a verdict needs.
fn time(trial: &Trial) -> Result<f64, ExpectedError> {
    Ok(forecast::least_seconds(&planned(trial)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, keeps_workloads: bool) -> (Trial, Option<String>) {
        let text = format!(
            "[device]\nkind = \"image\"\n[[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n{text}"
        );
        let mut trial = Trial::parse("trial.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        let words = leave_out(&mut trial, keeps_workloads).unwrap();
        assert!(trial.problem().is_none(), "{text}");
        (trial, words)
    }

    fn left(text: &str) -> Vec<(String, Option<Vec<u16>>)> {
        let (trial, _) = cut(text, false);
        trial.workloads.into_iter().map(|entry| (entry.preset.unwrap_or_default(), entry.threads)).collect()
    }

    #[test]
    fn fit_drops_levels_first_and_keeps_requested_ones() {
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
        let alone = with("5m", "");
        assert_eq!(alone, [("wal-group-commit".to_owned(), None)], "all levels, as there is room again");
        let compared = left(&format!("[trial]\nbudget = \"1m\"\ncompare = \"workloads\"\n{}", workloads("")));
        assert_eq!(names(&compared), all, "what is compared is not left out");
    }

    #[test]
    fn server_workload_extends_default_budget() {
        let extended = |workload: &str| {
            let (mut trial, _) = cut(&format!("[[workload]]\nuse = \"{workload}\"\nthreads = [8]\n"), true);
            let words = extend(&mut trial).unwrap();
            (trial.trial.budget.to_string(), words)
        };
        let (budget, words) = extended("postgresql-tpcb");
        assert_eq!(budget, "9m");
        assert_eq!(
            words.unwrap(),
            "the budget is 9m, as 5m are too short for a first verdict (--budget sets it)"
        );
        assert_eq!(extended("random-write"), ("5m".to_owned(), None));
    }

    #[test]
    fn omission_notes_name_the_final_budget() {
        let (mut trial, _) = cut("[[workload]]\nuse = \"postgresql-tpcb\"\n", true);
        trial.workloads.iter_mut().for_each(|entry| entry.threads = None);
        let fixed = fit(&mut trial.clone(), true, false).unwrap();
        assert!(fixed.len() == 1 && fixed[0].contains("to fit into 5m; --budget "), "{fixed:?}");
        let free = fit(&mut trial, true, true).unwrap();
        let budget = trial.trial.budget;
        assert!(budget > Nanos::secs(300), "{free:?}");
        assert!(free[0].contains(&format!("to fit into {budget}; --budget ")), "{free:?}");
        assert!(free[1].contains(&format!("the budget is {budget}, as")), "{free:?}");
    }

    #[test]
    fn requested_workloads_stay_and_short_budget_is_refused() {
        let three = "[[arm]]\nfilesystem = \"btrfs\"\n[[workload]]\nuse = \"wal-group-commit\"\n\
                     [[workload]]\nuse = \"checkpoint-bursts\"\n";
        let (trial, words) = cut(&format!("[trial]\nbudget = \"5m\"\n{three}"), true);
        assert_eq!((trial.workloads.len(), trial.trial.baseline.as_deref()), (2, Some("ext4")));
        let words = words.unwrap();
        assert!(
            words.starts_with("without wal-group-commit at 1")
                && words.contains("comparing xfs and btrfs with each other, to fit into 5m; "),
            "{words}"
        );
        let refused = check(&trial).unwrap_err();
        insta::assert_snapshot!(format!("{refused}\n{}", refused.hint().unwrap_or_default()));
        let (long, words) = cut(&format!("[trial]\nbudget = \"2h\"\n{three}"), true);
        assert_eq!((long.trial.baseline.as_deref(), words), (None, None));
        assert!(check(&long).is_ok());
    }
}
