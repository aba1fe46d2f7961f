//! `/proc/PID/stat` (proc_pid_stat(5)).

/// Its fields from the third one on. The second is the program's name in parentheses and may hold anything: they are counted
/// from the last parenthesis.
pub(crate) fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}
