//! Problems in an entry of a workload: the key, the problem, the remedy.

/// A workload entry that does not describe a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// The key at fault.
    pub key: &'static str,
    /// The reason, without the remedy, which is in `hint`.
    pub problem: String,
    /// The remedy.
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
