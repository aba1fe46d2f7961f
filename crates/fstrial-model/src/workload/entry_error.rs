//! What is wrong with an entry of a workload: the key, the problem, what to try.

/// A workload entry that does not describe a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// The key at fault.
    pub key: &'static str,
    /// What is wrong.
    pub problem: String,
    /// What to try.
    pub hint: Option<String>,
}

/// An error with a hint.
pub(crate) fn entry_error(
    key: &'static str,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> EntryError {
    EntryError { key, problem: problem.into(), hint: Some(hint.into()) }
}
