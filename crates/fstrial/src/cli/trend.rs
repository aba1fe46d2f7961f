//! `fstrial trend`: the history of one contrast or cell, and its changes.

use super::{Home, compare, filter::FilterArgs, results};
use clap::Args;
use fstrial_model::{
    metric::{METRICS, Metric},
    units::Percent,
};
use fstrial_report::{
    json_lines,
    trend::{self, Limits, Terminal},
};
use fstrial_run::{
    error::ExpectedError,
    exit_code,
    history::{self, By, SeriesQuery, SeriesSet},
};
use fstrial_stats::change::MIN_POINTS;

const EXAMPLES: &str = "\
Examples:
  fstrial trend xfs/ext4
  fstrial trend xfs/ext4 --workload append-fsync --threads 4 --metric p99 --tag nightly
  fstrial trend patched --against plain --by kernel --since 2026-01-01
  fstrial trend xfs --host lab3                    its own figures, with the machine's drift in them
  fstrial trend xfs/ext4 --tag nightly --fail-if-worse 5%

Exit codes:
  0  shown; with --fail-if-worse: no step is confirmed to be worse by more than that
  2  no stored trial matches
  4  the condition of --fail-if-worse is met
  5  --fail-if-worse cannot judge the newest trial: it has no point, or fewer than 10 are like it

docs/trend.md describes the comparison, docs/statistics.md the confidence in a change.";

/// Detect changes of a ratio across stored trials: when, by how much, and how sure.
///
/// Each stored trial with both arms is a point: the ratio A/B over the rounds of the trial. A change that affects both
/// arms alike (kernel, machine) cancels out. Trials with another device, other workload settings or other options form
/// separate series. Points are ordered by time. Each change point is reported with its size, the trials before and
/// after it, the other differences between them, and an upper bound on the probability of a false alarm.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TrendArgs {
    /// A/B for the ratio of two arms, A for the figures of one.
    #[arg(value_name = "ARM[/ARM]")]
    what: String,

    /// The other arm, if a name contains a slash.
    #[arg(long, value_name = "ARM")]
    against: Option<String>,

    /// Numbers of threads [default: all].
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    threads: Vec<u16>,

    #[arg(long, value_name = "METRIC", value_parser = compare::metric, default_value = "throughput", help = metric_help())]
    metric: Metric,

    /// Order of the points.
    #[arg(long, value_enum, default_value_t = By::Time)]
    by: By,

    #[arg(long, value_name = "PERCENT", help = practical_help())]
    practical: Option<Percent>,

    /// Exit with 4 if the last segment is worse than an earlier one by more than this (95 % confidence), with 5 if too
    /// few trials are comparable with the newest.
    #[arg(long, value_name = "PERCENT")]
    fail_if_worse: Option<Percent>,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    home: Home,

    #[command(flatten)]
    filter: FilterArgs,
}

fn metric_help() -> String {
    format!("Metric: {}", Metric::names())
}

fn practical_help() -> String {
    let bands = METRICS.iter().filter_map(|row| Some(format!(", {} {:.0}%", row.name, row.band? * 100.0)));
    format!("Smallest change that matters [default: 3%{}]", bands.collect::<String>())
}

pub(crate) fn exec(args: &TrendArgs) -> Result<u8, ExpectedError> {
    let (arm, against) = arms(args)?;
    let limits = limits(args)?;
    let store = results::open(&args.home)?;
    let requested = SeriesQuery {
        arm,
        against,
        workloads: args.filter.workload.clone(),
        threads: args.threads.clone(),
        metric: args.metric,
        by: args.by,
    };
    let trials: Vec<_> = args.filter.search().find(&store)?.into_iter().map(|trial| trial.id).collect();
    if trials.is_empty() {
        let list = "`fstrial results list` shows the trials there are, and takes the same flags";
        let is_pattern = |tag: &&String| tag.contains(['*', '?', '[']);
        let hint = match args.filter.tag.first().filter(|tag| !is_pattern(tag)) {
            Some(tag) => format!("{list}; `fstrial results tag ID +{tag}` gives one the tag"),
            None => list.to_owned(),
        };
        return Err(ExpectedError::usage("no trial matches", hint));
    }
    let result = history::collect(&store, &trials, &requested)?;
    if result.series.is_empty() {
        // A gate without anything to judge is open; a name that no trial has is a mistake.
        let is_mistaken = result.left_out.iter().all(|left| left.reason == history::NOT_ASKED);
        if args.fail_if_worse.is_none() || is_mistaken {
            return Err(nothing(&requested, &result, trials.len()));
        }
    }
    let document = trend::document(&requested, result, limits);
    if args.json {
        json_lines::print(&document);
    } else {
        super::print_folded(&trend::render(&document, Terminal::of_this_process()));
    }
    Ok(match (document.is_worse(), &document.unjudged) {
        (true, _) => exit_code::FAIL_IF_MET,
        (false, Some(_)) => exit_code::UNJUDGED,
        (false, None) => exit_code::VERDICT,
    })
}

/// The two arms that were named.
fn arms(args: &TrendArgs) -> Result<(String, Option<String>), ExpectedError> {
    let (arm, against) = match (&args.against, args.what.split_once('/')) {
        (Some(against), _) => (args.what.clone(), Some(against.clone())),
        (None, Some((arm, against))) => (arm.to_owned(), Some(against.to_owned())),
        (None, None) => (args.what.clone(), None),
    };
    if arm.is_empty() || against.as_ref().is_some_and(String::is_empty) {
        let hint = "name two arms (xfs/ext4) or one (xfs)";
        return Err(ExpectedError::usage(format!("`{}` names no arm", args.what), hint));
    }
    if against.as_ref() == Some(&arm) {
        let hint = "name the arm that it is to be measured against";
        return Err(ExpectedError::usage(format!("{arm} against itself is always the same"), hint));
    }
    Ok((arm, against))
}

fn limits(args: &TrendArgs) -> Result<Limits, ExpectedError> {
    let fraction = |flag: &str, given: Option<Percent>| match given.map(|percent| percent.fraction()) {
        Some(fraction) if !(fraction > 0.0 && fraction < 1.0) => Err(ExpectedError::usage(
            format!("{flag} must be between 0 % and 100 %"),
            format!("a loss that matters: {flag} 5%"),
        )),
        fraction => Ok(fraction),
    };
    Ok(Limits {
        practical: fraction("--practical", args.practical)?,
        worse: fraction("--fail-if-worse", args.fail_if_worse)?,
    })
}

/// Why there is no point at all.
fn nothing(requested: &SeriesQuery, result: &SeriesSet, trials: usize) -> ExpectedError {
    let wanted = [Some(&requested.arm), requested.against.as_ref()].into_iter().flatten();
    let unknown: Vec<&str> = wanted.filter(|arm| !result.arms.contains(arm)).map(String::as_str).collect();
    if !unknown.is_empty() {
        let names = result.arms.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
        return ExpectedError::usage(
            format!("no trial (of {trials}) has an arm called {}", unknown.join(" or ")),
            format!("the arms there are: {names}"),
        );
    }
    match result.left_out.first() {
        Some(left) => ExpectedError::usage(
            format!("no trial (of {trials}) can be used; #{}: {}", left.trial, left.reason),
            format!("--workload and --threads select among their cells; {MIN_POINTS} good trials are needed"),
        ),
        None => ExpectedError::usage(
            format!(
                "no trial (of {trials}) has both {} and {}",
                requested.arm,
                requested.against.as_deref().unwrap_or("")
            ),
            "both arms must be in the same trial: `fstrial compare` with both",
        ),
    }
}
