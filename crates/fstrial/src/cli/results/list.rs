//! `fstrial results list` and `results tag`: the stored trials, and their tags.

use super::{about::About, open, open_to_change};
use crate::cli::{self, Home, filter::FilterArgs, statuses::TrialStatuses};
use clap::Args;
use comfy_table::{Table, presets};
use fstrial_report::{USUAL_COLUMNS, json_lines, plain, stdout, wrapped};
use fstrial_run::error::ExpectedError;
use fstrial_store::{Filter, Store, TrialId, TrialSummary};
use std::collections::BTreeSet;

/// Characters of a text in the table.
const MAX_CELL: usize = 200;
/// Lines for a trial's subject.
const MAX_LINES: usize = 2;
/// The latest trials that are judged again for the list: more would take too long.
const ANSWERED: usize = 40;

/// List trials with their workloads, device and short answer, oldest first.
///
/// Hosts and kernels are shown if they differ or are filtered by, tags if there are any. Trials without a run (a usage error, a
/// missing program) are skipped. Only the last 40 trials have their answers.
#[derive(Debug, Default, Args)]
#[command(after_long_help = "\
Examples:
  fstrial results list --tag nightly --since 2026-01-01
  fstrial results list --arm 'xfs*' --arm ext4 --workload random-write --kernel 6.12 --limit 10")]
pub(crate) struct ListArgs {
    /// Number of trials to show, the latest ones.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Include trials without a round.
    #[arg(short, long)]
    all: bool,

    /// Print JSON, one trial per line, including those without a round.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filter: FilterArgs,
}

/// Show or change the tags of a trial.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial results tag 7                       print its tags
  fstrial results tag 7 +nightly +v6.12 -new  add two, take one off")]
pub(crate) struct TagArgs {
    /// Trial number.
    #[arg(value_parser = super::trial_number, add = crate::cli::complete::trials())]
    id: i64,
    /// TAG or +TAG to add, -TAG to remove. Options come first.
    #[arg(value_name = "±TAG", allow_hyphen_values = true)]
    changes: Vec<String>,
}

pub(super) fn exec(store: &Store, args: &ListArgs) -> Result<(), ExpectedError> {
    let search = args.filter.search();
    let filter = &search.filter;
    let statuses = TrialStatuses::of(store)?;
    let mut trials = search.find(store)?;
    let all = trials.len();
    if !(args.all || args.json || filter.status.is_some()) {
        trials.retain(|trial| statuses.has_begun(trial));
    }
    let (found, hidden) = (trials.len(), all - trials.len());
    if let Some(limit) = args.limit {
        trials.drain(..found.saturating_sub(limit));
    }
    if args.json {
        trials.iter().for_each(|trial| json_lines::print(&json(store, &statuses, trial)));
        return Ok(());
    }
    if trials.is_empty() && hidden == 0 && !filter.is_empty() {
        cli::say("no trial matches; `fstrial results list` shows all of them\n");
        return Ok(());
    }
    let unanswered = trials.len().saturating_sub(ANSWERED);
    let about = trials.iter().enumerate().map(|(at, trial)| About::of(store, trial.id, at >= unanswered));
    cli::print(&rendered(&trials, &about.collect::<Vec<_>>(), &statuses, filter));
    if trials.len() < found {
        cli::say(&format!("the last {} of {found}\n", trials.len()));
    }
    if let Some(line) = hidden_in_words(hidden) {
        cli::say(&format!("{line}: `fstrial results list --all`\n"));
    }
    Ok(())
}

/// Number of trials left out because they never ran a round, as text; nothing if there are none.
pub(crate) fn hidden_in_words(hidden: usize) -> Option<String> {
    match hidden {
        0 => None,
        1 => Some("1 trial that never ran a round is left out".into()),
        more => Some(format!("{more} trials that never ran a round are left out")),
    }
}

/// A trial of a list for programs.
pub(crate) fn json(store: &Store, statuses: &TrialStatuses, trial: &TrialSummary) -> serde_json::Value {
    let about = About::of(store, trial.id, false);
    serde_json::json!({
        "id": trial.id, "name": trial.name, "status": statuses.word(trial), "started_at": trial.started_at,
        "workloads": about.workloads, "device": about.device,
        "ended_at": trial.ended_at, "rounds": trial.rounds, "runs": trial.runs, "failed_runs": trial.failed_runs,
        "arms": trial.arms, "seed": format!("{:#x}", trial.seed), "host": trial.host, "kernel": trial.kernel,
        "tags": trial.tags,
    })
}

/// The table, with each trial's subject below its line.
fn rendered(trials: &[TrialSummary], about: &[About], statuses: &TrialStatuses, filter: &Filter) -> String {
    let table = table(trials, statuses, filter).to_string();
    let columns = stdout::columns().unwrap_or(USUAL_COLUMNS);
    let mut lines = table.lines();
    let mut out = format!("{}\n", lines.next().unwrap_or_default().trim_end());
    for (line, about) in lines.zip(about) {
        out += &format!("{}\n", line.trim_end());
        below(about, columns).iter().for_each(|line| out += &format!("{line}\n"));
    }
    out
}

/// Subject of a trial, in lines that fit a terminal.
fn below(about: &About, columns: usize) -> Vec<String> {
    let parts = [Some(about.workloads_in_short()), Some(about.device.clone()), about.answer.clone()];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    // A column is left for the continuation sign.
    let text = wrapped(&cell(&parts.join(" · ")), columns - 1, 5, 5);
    let all = text.lines().count();
    let mut lines: Vec<String> = text.lines().take(MAX_LINES).map(str::to_owned).collect();
    if let Some(last) = lines.last_mut().filter(|_| all > MAX_LINES) {
        last.push('…');
    }
    lines
}

fn table(trials: &[TrialSummary], statuses: &TrialStatuses, filter: &Filter) -> Table {
    let differ =
        |of: fn(&TrialSummary) -> &Option<String>| trials.iter().map(of).collect::<BTreeSet<_>>().len() > 1;
    let host = filter.host.is_some() || differ(|trial| &trial.host);
    let kernel = filter.kernel.is_some() || differ(|trial| &trial.kernel);
    let tags = !filter.tags.is_empty() || trials.iter().any(|trial| !trial.tags.is_empty());
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut header = vec!["id", "started", "status", "rounds", "runs", "failed"];
    let optional = [(host, "host"), (kernel, "kernel"), (tags, "tags")];
    header.extend(optional.iter().filter(|(shown, _)| *shown).map(|(_, name)| *name));
    header.push("name");
    table.set_header(header);
    for trial in trials {
        let mut row = vec![
            trial.id.to_string(),
            trial.started_at.get(..16).unwrap_or(&trial.started_at).replace('T', " "),
            statuses.word(trial).to_owned(),
            trial.rounds.to_string(),
            trial.runs.to_string(),
            trial.failed_runs.to_string(),
        ];
        let unknown = |text: &Option<String>| cell(text.as_deref().filter(|t| !t.is_empty()).unwrap_or("-"));
        let optional = [
            (host, unknown(&trial.host)),
            (kernel, unknown(&trial.kernel)),
            (tags, cell(&trial.tags.join(" "))),
        ];
        row.extend(optional.into_iter().filter(|(shown, _)| *shown).map(|(_, text)| text));
        row.push(cell(&trial.name));
        table.add_row(row);
    }
    table
}

/// A text in a table: a line of it, not all of a foreign file's content.
fn cell(text: &str) -> String {
    match text.char_indices().nth(MAX_CELL) {
        Some((end, _)) => plain(&text[..end]) + "…",
        None => plain(text),
    }
}

pub(super) fn exec_tag(home: &Home, args: &TagArgs) -> Result<(), ExpectedError> {
    let (mut add, mut remove) = (Vec::new(), Vec::new());
    for change in &args.changes {
        // After the first tag the parser takes every word for one.
        if change.starts_with("--") {
            return Err(ExpectedError::usage(
                format!("`{}` is not a tag: put options before the tags", plain(change)),
                "fstrial results tag 7 --home FOLDER +nightly -new",
            ));
        }
        if let Some(tag) = change.strip_prefix('-') {
            remove.push(tag.to_owned());
            continue;
        }
        let tag = change.strip_prefix('+').unwrap_or(change);
        add.push(cli::filter::tag(tag).map_err(|problem| {
            let hint = "add a word with +nightly, take one off with -nightly";
            ExpectedError::usage(format!("`{}` cannot be a tag: {problem}", plain(tag)), hint)
        })?);
    }
    let trial = TrialId(args.id);
    let tags = if args.changes.is_empty() {
        open(home)?.trial(trial)?.summary.tags
    } else {
        let (_lock, mut store) = open_to_change(home)?;
        store.change_tags(trial, &add, &remove)?;
        store.trial(trial)?.summary.tags
    };
    tags.iter().for_each(|tag| cli::print(&format!("{}\n", plain(tag))));
    Ok(())
}
