//! The progress of the hosts of a campaign: a line for each change, and one for all of them.

use crate::{json_lines, numbers, plain, verdict::rounds_in_words};
use fstrial_run::cluster::{Campaign, HostRow, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;

/// The progress display.
pub struct Shown {
    bar: ProgressBar,
    json: bool,
    quiet: bool,
    /// The progress of each host that was shown last.
    last: Vec<Option<Progress>>,
}

impl Shown {
    pub fn new(json: bool, quiet: bool, hosts: usize) -> Self {
        let bar = if json || quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        bar.set_style(ProgressStyle::with_template("{wide_msg}").expect("it is a valid template"));
        Self { bar, json, quiet, last: vec![None; hosts] }
    }

    /// Shows what has changed.
    pub fn show(&mut self, campaign: &Campaign<'_>) {
        for (row, last) in campaign.rows.iter().zip(&mut self.last) {
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
                self.bar.suspend(|| eprint_line(&plain(&line(row, campaign.rounds))));
            }
        }
        self.bar.set_message(underway(campaign));
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

/// The progress of all of them, and about how much time is left.
fn underway(campaign: &Campaign<'_>) -> String {
    let rows = &campaign.rows;
    let over = rows.iter().filter(|row| row.progress.is_over()).count();
    let done: u32 = rows.iter().map(|row| row.rounds.min(campaign.rounds)).sum();
    let all = campaign.rounds as usize * rows.len();
    let left = rows.iter().filter(|row| row.progress == Progress::Running).filter_map(|row| {
        let (since, had) = row.since?;
        let made = row.rounds.checked_sub(had).filter(|made| *made > 0)?;
        let each = since.elapsed().as_secs_f64() / f64::from(made);
        Some(each * f64::from(campaign.rounds.saturating_sub(row.rounds)))
    });
    let left = left.fold(0.0, f64::max);
    let wait = if left > 0.0 { format!("; about {} left", numbers::wait(left)) } else { String::new() };
    format!("{over} of {} hosts done, {done} of {all} rounds{wait}", rows.len())
}

fn eprint_line(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
}
