//! The progress of the hosts of a campaign: a line for each change, and one for all of them.

use crate::{json_lines, numbers, plain, verdict::rounds_in_words};
use fstrial_run::cluster::{HostRow, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;

/// Hosts that have a row while they run.
const ROWS: usize = 12;

/// The progress display.
pub struct Shown {
    bar: ProgressBar,
    json: bool,
    quiet: bool,
    /// The progress of each host that was shown last.
    last: Vec<Option<Progress>>,
}

impl Shown {
    pub fn new(json: bool, quiet: bool) -> Self {
        let bar = if json || quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        bar.set_style(ProgressStyle::with_template("{msg}").expect("it is a valid template"));
        Self { bar, json, quiet, last: Vec::new() }
    }

    /// Shows the changes.
    pub fn show(&mut self, rows: &[HostRow], rounds: u32) {
        self.last.resize(rows.len().max(self.last.len()), None);
        for (row, last) in rows.iter().zip(&mut self.last) {
            if last.as_ref() == Some(&row.progress) {
                continue;
            }
            *last = Some(row.progress.clone());
            if self.json {
                let (state, why) = words(&row.progress);
                json_lines::print(&serde_json::json!({
                    "event": "host", "host": row.host, "state": state, "why": why, "rounds": row.rounds,
                }));
            } else if !self.quiet {
                self.bar.suspend(|| eprint_line(&plain(&line(row, rounds))));
            }
        }
        self.bar.set_message(underway(rows, rounds));
        self.bar.tick();
    }

    /// Takes the line of progress away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn words(progress: &Progress) -> (&'static str, &str) {
    match progress {
        Progress::Waiting(why) if why == "None" => ("waiting", ""),
        Progress::Waiting(why) => ("waiting", why),
        Progress::Running => ("running", ""),
        Progress::Done => ("done", ""),
        Progress::Failed(why) => ("failed", why),
    }
}

/// `n3: waiting (Resources)`.
fn line(row: &HostRow, rounds: u32) -> String {
    let (state, why) = words(&row.progress);
    let of = match row.progress {
        Progress::Done if row.left_out.is_empty() => format!(", {}", rounds_in_words(row.rounds as usize)),
        Progress::Done => format!(
            ", {}, {} left out",
            rounds_in_words(row.rounds as usize),
            numbers::counted(row.left_out.len(), "claim")
        ),
        Progress::Failed(_) => format!(" with {} of {rounds} rounds", row.rounds),
        Progress::Waiting(_) | Progress::Running => String::new(),
    };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{}: {state}{of}{why}", row.host)
}

/// A row for each host that runs, and the progress of all of them, with about how much time is left.
fn underway(hosts: &[HostRow], rounds: u32) -> String {
    let running: Vec<&HostRow> = hosts.iter().filter(|host| host.progress == Progress::Running).collect();
    let width = running.iter().take(ROWS).map(|host| host.host.chars().count()).max().unwrap_or(0);
    let row = |host: &&HostRow| {
        let wait = left(host, rounds)
            .map_or_else(String::new, |left| format!("; about {} left", numbers::wait(left)));
        plain(&format!("{:<width$}  {} of {rounds} rounds{wait}", host.host, host.rounds))
    };
    let mut lines: Vec<String> = running.iter().take(ROWS).map(row).collect();
    if let Some(more) = running.len().checked_sub(ROWS).filter(|more| *more > 0) {
        lines.push(format!("… {more} more run"));
    }
    let over = hosts.iter().filter(|host| host.progress.is_over()).count();
    let done: u32 = hosts.iter().map(|host| host.rounds.min(rounds)).sum();
    let all = rounds as usize * hosts.len();
    let longest = running.iter().filter_map(|host| left(host, rounds)).fold(0.0, f64::max);
    let wait = if longest > 0.0 { format!("; about {} left", numbers::wait(longest)) } else { String::new() };
    lines.push(format!("{over} of {} hosts done, {done} of {all} rounds{wait}", hosts.len()));
    lines.join("\n")
}

/// About how many seconds a host still takes, once it has made a round.
fn left(host: &HostRow, rounds: u32) -> Option<f64> {
    let (since, had) = host.since?;
    let made = host.rounds.checked_sub(had).filter(|made| *made > 0)?;
    let each = since.elapsed().as_secs_f64() / f64::from(made);
    Some(each * f64::from(rounds.saturating_sub(host.rounds)))
}

fn eprint_line(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
}
