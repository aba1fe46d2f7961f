//! Problems in a file or a word of the user's: place, problem, remedy.

use serde::de::DeserializeOwned;
use std::ops::Range;

/// The largest file that is read as a trial, or as a workload, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// A trial file that cannot be used, with the place.
#[derive(Debug, Clone, thiserror::Error, miette::Diagnostic)]
#[error("{message}")]
pub struct TrialError {
    /// The problem.
    pub message: String,
    /// The file's name and text, cut to the neighbourhood if it is huge.
    #[source_code]
    pub source_code: miette::NamedSource<String>,
    /// The place, if it is in the text.
    #[label("{label}")]
    pub span: Option<miette::SourceSpan>,
    /// The label at the place.
    pub label: String,
    /// The remedy.
    #[help]
    pub help: Option<String>,
    /// Problems in the file named at the place.
    #[related]
    pub within: Vec<Self>,
}

impl TrialError {
    /// An error about a file as a whole.
    pub(crate) fn of_file(name: &str, message: String) -> Self {
        Self {
            message,
            source_code: miette::NamedSource::new(name, String::new()),
            span: None,
            label: String::new(),
            help: None,
            within: Vec::new(),
        }
    }

    /// An error at a place of a text, shown in part if its lines are too long.
    pub(crate) fn at(
        name: &str,
        text: &str,
        span: Range<usize>,
        message: String,
        help: Option<String>,
    ) -> Self {
        let (shown, span) = readable(text, &widen(text, span));
        Self {
            message,
            source_code: miette::NamedSource::new(name, shown),
            span: Some(span.into()),
            label: "here".into(),
            help,
            within: Vec::new(),
        }
    }
}

/// An impossible setting of a trial: place, problem, remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Path of keys and indexes to the place, such as `["arm", "1", "mkfs"]`.
    pub path: Vec<String>,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl Problem {
    /// The error that underlines the place in the text of a file.
    pub(crate) fn at(self, name: &str, text: &str) -> TrialError {
        TrialError::at(name, text, span_of(text, &self.path), self.message, self.hint)
    }
}

pub(crate) fn problem(path: &[&str], message: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        message: message.into(),
        hint: Some(hint.into()),
    }
}

/// Reads TOML of at most this many bytes; an error underlines the place.
pub(crate) fn read_toml<T: DeserializeOwned>(
    name: &str,
    text: &str,
    most_bytes: usize,
) -> Result<T, Box<TrialError>> {
    if text.len() > most_bytes {
        let message =
            format!("{name} is larger than such a file can be ({} bytes, at most {most_bytes})", text.len());
        let help = Some("is this the right file? it should be a page of TOML".into());
        return Err(Box::new(TrialError { help, ..TrialError::of_file(name, message) }));
    }
    toml::from_str(text).map_err(|error| syntax_error(name, text, &error))
}

/// Turns an error of the TOML reader into one with the closest valid name.
fn syntax_error(name: &str, text: &str, error: &toml::de::Error) -> Box<TrialError> {
    let (message, help) = syntax_words(error.message());
    let help = help.or_else(|| error.span().and_then(|span| in_quotes(&message, text, span.start)));
    let shown = error.span().map(|span| readable(text, &widen(text, span)));
    Box::new(TrialError {
        span: shown.as_ref().map(|(_, span)| span.clone().into()),
        source_code: miette::NamedSource::new(name, shown.map_or_else(String::new, |(text, _)| text)),
        label: "here".into(),
        message,
        help,
        within: Vec::new(),
    })
}

/// The line with the value in quotes, where the reader asks for them: `budget = "5m"`.
fn in_quotes(message: &str, text: &str, at: usize) -> Option<String> {
    const LONGEST: usize = 60;
    let (before, after) = text.split_at_checked(at)?;
    let key = before.lines().last()?.trim_start();
    let value = after.lines().next()?.split('#').next()?.trim_end();
    let is_plain =
        !value.is_empty() && value.len() <= LONGEST && !value.contains(['"', '\\', '[', ']', ',', '{']);
    let is_asked = message.starts_with("string values must be quoted") && is_plain && key.ends_with("= ");
    is_asked.then(|| format!("write {key}\"{value}\""))
}

/// The message of the TOML parser, and the remedy. A list of all alternatives is left out if one is near, or if it is
/// too long.
fn syntax_words(message: &str) -> (String, Option<String>) {
    const READABLE: usize = 20;
    let message = in_words_of_toml(&message.chars().take(2000).collect::<String>());
    let Some((word, known)) = unknown_word(&message) else {
        return (message.chars().take(600).collect(), None);
    };
    let short = || message.split(", expected").next().unwrap_or(&message).chars().take(200).collect();
    if word == "command" && known.starts_with(&["name".into(), "device".into(), "kernel".into()]) {
        return (
            short(),
            Some("a file only names a place; its command comes from --place NAME=COMMAND".into()),
        );
    }
    match did_you_mean(&word, known.iter().map(String::as_str)) {
        Some(hint) => (short(), Some(hint)),
        None if known.len() > READABLE => {
            (short(), Some("all that is possible: `fstrial generate schema`, and docs/trial-files.md".into()))
        }
        None => (message.chars().take(600).collect(), None),
    }
}

/// A message in the words of TOML: the reader speaks of types of the program, such as sequences and maps.
fn in_words_of_toml(message: &str) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected a table"),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: map", "invalid type: table"),
        ("wanted string or table", "expected a string or a table"),
    ];
    WORDS.iter().fold(message.to_owned(), |message, (ours, theirs)| message.replace(ours, theirs))
}

/// An empty span cannot be underlined; take one character, and stay on character borders.
fn widen(text: &str, span: Range<usize>) -> Range<usize> {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = span.end.clamp(start, text.len());
    if end == start && end < text.len() {
        end += 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// The text around a place, if the lines there are too long to show: otherwise all of it.
fn readable(text: &str, span: &Range<usize>) -> (String, Range<usize>) {
    const AROUND: usize = 60;
    let from = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let to = text[span.end..].find('\n').map_or(text.len(), |at| span.end + at);
    if to - from <= 400 {
        return (text.to_owned(), span.clone());
    }
    let start = widen(text, from.max(span.start.saturating_sub(AROUND))..span.start).start;
    let end = widen(text, span.start..span.end.min(span.start + AROUND)).end;
    let after = widen(text, end..to.min(end + AROUND)).end;
    (text[start..after].to_owned(), span.start - start..end - start)
}

/// The word and the valid ones, from serde's "unknown field `x`, expected one of `a`, `b`".
fn unknown_word(message: &str) -> Option<(String, Vec<String>)> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
    Some((quoted.next()?, quoted.collect()))
}

/// Span of a path of keys in the text: the deepest existing part of it.
fn span_of(text: &str, path: &[String]) -> Range<usize> {
    let Ok(table) = toml::de::DeTable::parse(text) else { return 0..0 };
    let mut result = 0..text.len().min(1);
    let mut here: Option<&toml::de::DeValue<'_>> = None;
    for part in path {
        let next = match here {
            None => table.get_ref().get(part.as_str()),
            // A job file's messages are shown at its name.
            Some(toml::de::DeValue::Table(inner)) => inner.get(part.as_str()).or_else(|| inner.get("fio")),
            Some(toml::de::DeValue::Array(items)) => {
                part.parse::<usize>().ok().and_then(|index| items.get(index))
            }
            Some(_) => None,
        };
        let Some(next) = next else { break };
        result = next.span();
        here = Some(next.get_ref());
    }
    widen(text, result)
}

/// Span of a key in the text, if it is unique: the reporter of a problem may know no more.
pub(crate) fn span_of_key(text: &str, key: &str) -> Range<usize> {
    fn collect(table: &toml::de::DeTable<'_>, key: &str, result: &mut Vec<Range<usize>>) {
        for (name, value) in table {
            if name.get_ref() == key {
                result.push(value.span());
            }
            match value.get_ref() {
                toml::de::DeValue::Table(inner) => collect(inner, key, result),
                toml::de::DeValue::Array(items) => {
                    let tables = items.iter().filter_map(|item| item.get_ref().as_table());
                    tables.for_each(|inner| collect(inner, key, result));
                }
                _ => {}
            }
        }
    }
    let Ok(table) = toml::de::DeTable::parse(text) else { return widen(text, 0..0) };
    let mut result = Vec::new();
    let top = table.get_ref().get(key).map(toml::Spanned::span);
    if top.is_none() {
        collect(table.get_ref(), key, &mut result);
    }
    let only = if result.len() == 1 { result.pop() } else { None };
    widen(text, top.or(only).unwrap_or(0..text.len().min(1)))
}

/// The candidate nearest to a misspelt word, if one is near enough to be meant.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let short: String = word.chars().take(60).collect();
    candidates
        .into_iter()
        .map(|candidate| (similarity(&short, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= 0.65)
        // Among equally near ones, the first listed.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}

/// The candidate that a word is with a slip or two: nearer than [`closest`], for lists that hold words of every kind.
pub fn closest_spelling<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let short: String = word.chars().take(60).collect();
    let near = candidates
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(&short, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= 0.75)
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    near.map(|(_, candidate)| candidate)
}

/// The hint that names it, if one is near enough.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(word, candidates).map(|near| format!("did you mean `{near}`?"))
}

/// 0 to 1. Jaro–Winkler alone misses swapped letters in short words (`xsf`), edit distance alone long common beginnings.
fn similarity(a: &str, b: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(a, b).max(strsim::jaro_winkler(a, b) - 0.1)
}
