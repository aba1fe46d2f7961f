//! The flags that choose among stored trials, the same wherever trials are chosen.

use super::statuses::{KILLED, TrialStatuses};
use clap::Args;
use fstrial_store::{Filter, Store, StoreError, TrialStatus, TrialSummary, tag_problem};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};

/// Filter for stored trials; all given conditions apply.
///
/// Texts are glob patterns: *, ? and [a-c]. A name or a kernel without wildcards matches a substring (of kernels, whole
/// numbers: 6.1 does not match 6.12); arms, workloads, hosts and tags match whole. Has to be the last field of a struct of
/// flags: fields after it would be printed under its heading.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which trials")]
pub(crate) struct FilterArgs {
    /// Trials with this in their name.
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,

    /// Trials with this arm (repeatable; all must be present).
    #[arg(long, value_name = "NAME")]
    pub(crate) arm: Vec<String>,

    /// Trials with runs of this workload (repeatable; all must be present).
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Vec<String>,

    /// Trials on a kernel release that contains this, such as 6.12.
    #[arg(long, value_name = "TEXT")]
    pub(crate) kernel: Option<String>,

    /// Trials on this host.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,

    /// Trials with this tag (repeatable; all must be present).
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,

    /// Trials started on or after this day (UTC) or time: 2026-01-31 or 2026-01-31T18:00:00+01:00.
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<String>,

    /// Trials started on or before this day (UTC), or before this time.
    #[arg(long, value_name = "TIME", value_parser = until)]
    pub(crate) until: Option<String>,

    /// Trials with this status: running, killed, decided, budget-ended, interrupted, failed.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<&'static str>,
}

/// A search in a store. The status is the displayed one: for unended trials the store does not know which were killed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    /// The part that the store can answer.
    pub(crate) filter: Filter,
    status: Option<&'static str>,
}

impl Search {
    /// A search by a filter, and by a status as it is shown.
    pub(crate) fn new(filter: Filter, status: Option<&'static str>) -> Self {
        let stored = |shown| TrialStatus::named(shown).unwrap_or(TrialStatus::Running);
        Self { filter: Filter { status: status.map(stored), ..filter }, status }
    }

    /// The trials, oldest first.
    pub(crate) fn find(&self, store: &Store) -> Result<Vec<TrialSummary>, StoreError> {
        let mut trials = store.find_trials(&self.filter)?;
        if let Some(shown) = self.status {
            let statuses = TrialStatuses::of(store)?;
            trials.retain(|trial| statuses.word(trial) == shown);
        }
        Ok(trials)
    }
}

impl FilterArgs {
    pub(crate) fn search(&self) -> Search {
        let filter = Filter {
            name: self.name.clone(),
            arms: self.arm.clone(),
            workloads: self.workload.clone(),
            kernel: self.kernel.clone(),
            host: self.host.clone(),
            tags: self.tag.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            status: None,
        };
        Search::new(filter, self.status)
    }
}

/// Every status that is shown.
pub(crate) fn statuses() -> impl Iterator<Item = &'static str> {
    TrialStatus::ALL.into_iter().map(TrialStatus::name).chain([KILLED])
}

pub(crate) fn status(text: &str) -> Result<&'static str, String> {
    let known = || statuses().collect::<Vec<_>>().join(", ");
    statuses().find(|status| *status == text).ok_or_else(|| format!("use one of {}", known()))
}

pub(crate) fn tag(text: &str) -> Result<String, String> {
    match tag_problem(text) {
        Some(problem) => Err(problem),
        None => Ok(text.to_owned()),
    }
}

/// Parses the first moment: a time, or the beginning of a day in UTC.
pub(crate) fn since(text: &str) -> Result<String, String> {
    moment(text, 0)
}

/// Parses the moment after the last: a time, or the end of a day in UTC.
pub(crate) fn until(text: &str) -> Result<String, String> {
    moment(text, 1)
}

/// A time as RFC 3339 in UTC. A date stands for its midnight, this many days later.
fn moment(text: &str, days: i64) -> Result<String, String> {
    let problem = |error: jiff::Error| {
        format!("{error}; give a date such as 2026-01-31 or a time such as 2026-01-31T18:00:00Z")
    };
    // A date must not be read as part of something longer.
    if text.len() == "2026-01-31".len() {
        let date: Date = text.parse().map_err(problem)?;
        let date = date.checked_add(days.days()).map_err(problem)?;
        return Ok(date.to_zoned(TimeZone::UTC).map_err(problem)?.timestamp().to_string());
    }
    text.parse::<Timestamp>().map(|time| time.to_string()).map_err(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_whole_and_times_have_zones() {
        assert_eq!(since("2026-01-31").unwrap(), "2026-01-31T00:00:00Z");
        assert_eq!(until("2026-01-31").unwrap(), "2026-02-01T00:00:00Z");
        assert_eq!(since("2026-01-31T18:00:00+01:00").unwrap(), "2026-01-31T17:00:00Z");
        assert_eq!(until("2026-01-31T18:00:00.25Z").unwrap(), "2026-01-31T18:00:00.25Z");
        for bad in ["", "yesterday", "2026-13-01", "2026-01-31T18:00:00", "2026-1-1", "9999-12-31T23:59:59Z+"]
        {
            let problem = since(bad).unwrap_err();
            assert!(problem.contains("2026-01-31"), "{bad}: {problem}");
        }
        // The last day there is has no day after it: an error, and no panic.
        assert!(until("9999-12-31").is_err());
    }

    #[test]
    fn parses_every_status_name() {
        for known in ["running", "killed", "decided", "budget-ended", "interrupted", "failed"] {
            assert_eq!(status(known), Ok(known));
        }
        assert!(status("done").unwrap_err().contains("killed"));
    }
}
