//! Stored trials in the formats of other programs. docs/results.md defines each number.

pub mod go_bench;
pub mod open_metrics;
pub mod rows;

use std::io;

/// Text as one plain word of a format that has no quotes: white space, control characters and those of `reserved` become
/// `_`, and nothing becomes `-`.
fn word(text: &str, reserved: &str) -> String {
    let plain = |c: char| if c.is_whitespace() || c.is_control() || reserved.contains(c) { '_' } else { c };
    let word: String = text.chars().map(plain).collect();
    if word.is_empty() { "-".into() } else { word }
}

/// An error of another library's writer, as the underlying error.
fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn word_replaces_special_characters() {
        assert_eq!(word("a b/c=\u{1b}[1m\nd", "/="), "a_b_c__[1m_d");
        assert_eq!(word("", ""), "-");
        assert_eq!(word("größer", "/"), "größer");
    }
}
