//! Search for trials: by name, content, place and time.
//!
//! A filter is one fixed SQL condition with every value bound, so nothing that comes from a command line or a web
//! address is ever part of a statement.

use crate::{Store, StoreError, TrialStatus};
use rusqlite::{ToSql, types::Value};

/// A query for trials; empty fields match everything, and all others must match.
///
/// Texts are patterns: `*` stands for any text, `?` for one character, `[a-c]` for one of these; upper and lower case
/// differ. The whole text must match, but in `name` and `kernel` a text without these signs may be anywhere, since one is
/// a sentence and the other a long release; numbers of a kernel are whole (6.1 is not 6.12).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Name of the trial, or a part of it.
    pub name: Option<String>,
    /// Arms: the trial has one for each of these.
    pub arms: Vec<String>,
    /// Workloads: the trial has runs of one for each of these.
    pub workloads: Vec<String>,
    /// Kernel release of one of its sessions, or a part of it.
    pub kernel: Option<String>,
    /// Host of one of its sessions.
    pub host: Option<String>,
    /// Tags: the trial carries one for each of these.
    pub tags: Vec<String>,
    /// It began then or later: RFC 3339 in UTC; whole seconds count.
    pub since: Option<String>,
    /// It began before that: RFC 3339 in UTC; whole seconds count.
    pub until: Option<String>,
    /// Status of the trial's last session; any if none.
    pub status: Option<TrialStatus>,
}

impl Store {
    /// The workloads that trials have, each with its levels.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn levels(&self) -> Result<Vec<(String, u16)>, StoreError> {
        self.read("list the workloads", |connection| {
            let mut result = connection
                .prepare_cached("SELECT DISTINCT workload, threads FROM cell ORDER BY workload, threads")?;
            let rows = result.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// True if a text matches a pattern of a [`Filter`], as one for workloads.
    ///
    /// # Errors
    /// SQLite refused.
    pub fn is_like(&self, text: &str, pattern: &str) -> Result<bool, StoreError> {
        self.read("match a pattern", |connection| {
            Ok(connection.query_row("SELECT ?1 GLOB ?2", [text, pattern], |row| row.get(0))?)
        })
    }
}

/// The condition on a row of `trial` with its sessions `first` and `last`. Lists are JSON, as SQLite has no other.
pub(crate) const CONDITION: &str = "(:name IS NULL OR trial.name GLOB :name) AND (:status IS NULL OR last.status = \
    :status) AND (:since IS NULL OR substr(first.started_at, 1, 19) >= substr(:since, 1, 19)) AND (:until IS NULL OR \
    substr(first.started_at, 1, 19) < substr(:until, 1, 19)) AND (:kernel IS NULL OR EXISTS (SELECT 1 FROM session \
    WHERE session.trial = trial.id AND ' ' || session.kernel || ' ' GLOB :kernel)) AND (:host IS NULL OR EXISTS \
    (SELECT 1 FROM session WHERE session.trial = trial.id AND session.host GLOB :host)) AND NOT EXISTS (SELECT 1 FROM \
    json_each(:arms) AS wanted WHERE NOT EXISTS (SELECT 1 FROM arm WHERE arm.trial = trial.id AND arm.name GLOB \
    wanted.value)) AND NOT EXISTS (SELECT 1 FROM json_each(:workloads) AS wanted WHERE NOT EXISTS (SELECT 1 FROM cell \
    WHERE cell.trial = trial.id AND cell.workload GLOB wanted.value)) AND NOT EXISTS (SELECT 1 FROM json_each(:tags) \
    AS wanted WHERE NOT EXISTS (SELECT 1 FROM tag WHERE tag.trial = trial.id AND tag.tag GLOB wanted.value))";

impl Filter {
    /// True if it is empty, so that every trial matches.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The values of [`CONDITION`], by name.
    pub(crate) fn values(&self) -> [(&'static str, Value); 9] {
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
        let pattern = |text: &Option<String>, of: fn(&str) -> String| {
            text.as_deref().map(of).map_or(Value::Null, Value::Text)
        };
        let list = |texts: &[String]| Value::Text(serde_json::json!(texts).to_string());
        [
            (":name", pattern(&self.name, anywhere)),
            (":arms", list(&self.arms)),
            (":workloads", list(&self.workloads)),
            (":kernel", pattern(&self.kernel, release)),
            (":host", text(&self.host)),
            (":tags", list(&self.tags)),
            (":since", text(&self.since)),
            (":until", text(&self.until)),
            (":status", self.status.map_or(Value::Null, |status| Value::Text(status.name().to_owned()))),
        ]
    }
}

/// References to values, as SQLite takes them.
pub(crate) fn bound<'a>(values: &'a [(&'static str, Value)]) -> Vec<(&'static str, &'a dyn ToSql)> {
    values.iter().map(|(name, value)| (*name, value as &dyn ToSql)).collect()
}

/// True if a text has wildcards.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// A pattern that matches anywhere in the text, unless it has wildcards.
fn anywhere(text: &str) -> String {
    if is_pattern(text) { text.to_owned() } else { format!("*{text}*") }
}

/// A pattern for a kernel's release between two spaces: anywhere in it, but a number at either end is meant whole.
fn release(text: &str) -> String {
    if is_pattern(text) {
        return format!(" {text} ");
    }
    let digit = |c: char| c.is_ascii_digit();
    let before = if text.starts_with(digit) { "*[^0-9.]" } else { "*" };
    let after = if text.ends_with(digit) { "[^0-9]*" } else { "*" };
    format!("{before}{text}{after}")
}

/// Most tags of a trial: words to find it by, and lists show them all.
pub const MAX_TAGS: usize = 100;

/// The longest tag, in bytes.
const MAX_TAG_BYTES: usize = 64;

/// The problem with a tag; none for a valid one. A tag is a word of 1 to 64 ASCII letters, digits and `._:/=@+-`, and
/// begins with a letter or digit, so that it needs no quoting on a command line and in a list.
pub fn tag_problem(tag: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/=@+-".contains(c);
    if tag.is_empty() || tag.len() > MAX_TAG_BYTES {
        return Some(format!("a tag has 1 to {MAX_TAG_BYTES} characters"));
    }
    if !tag.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Some("a tag begins with a letter or a digit".into());
    }
    let strange = tag.chars().find(|&c| !plain(c))?;
    Some(format!("a tag has letters, digits and ._:/=@+- only, and no {strange:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_anywhere_and_patterns_are_anchored() {
        assert_eq!(anywhere("6.12"), "*6.12*");
        assert_eq!(anywhere("6.12*"), "6.12*");
        assert_eq!(anywhere("[n]ight"), "[n]ight");
        assert_eq!(release("6.1"), "*[^0-9.]6.1[^0-9]*");
        assert_eq!(release("rc"), "*rc*");
        assert_eq!(release("6.*"), " 6.* ");
    }

    #[test]
    fn tags_are_plain_words() {
        for good in ["nightly", "v6.12-rc1", "team/disk:nvme0", "7", &"a".repeat(64)] {
            assert_eq!(tag_problem(good), None, "{good}");
        }
        for bad in ["", "-x", "+x", "a b", "a,b", "ä", "a\u{1b}[1m", "x*", &"a".repeat(65)] {
            assert!(tag_problem(bad).is_some(), "{bad}");
        }
    }
}
