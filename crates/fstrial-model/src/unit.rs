//! The names of units in all machine-readable data, and their display forms. Programs may report in others.

/// Operations per second.
pub const OPERATIONS: &str = "op/s";
/// Bytes per second.
pub const BYTES_PER_SECOND: &str = "bytes/s";
/// A time, in nanoseconds.
pub const TIME: &str = "ns";
/// An amount of bytes.
pub const BYTES: &str = "bytes";
/// Bytes for each file.
pub const BYTES_PER_FILE: &str = "bytes/file";
/// A count, or a share.
pub const COUNT: &str = "1";

/// The heading of a column of figures in a unit: those that carry their own unit are named for their kind.
pub fn heading(unit: &str) -> &str {
    match unit {
        OPERATIONS => "operations/s",
        TIME => "time",
        BYTES => "size",
        BYTES_PER_FILE => "for each file",
        other => scaled(other),
    }
}

/// The unit that is next to a figure as people are shown it; nothing next to one that carries its own.
pub fn beside(unit: &str) -> &str {
    match unit {
        TIME | BYTES | BYTES_PER_FILE => "",
        other => scaled(other),
    }
}

/// The display unit of figures.
fn scaled(unit: &str) -> &str {
    if unit == BYTES_PER_SECOND { "MiB/s" } else { unit }
}
