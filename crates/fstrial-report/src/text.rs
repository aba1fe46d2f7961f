//! Foreign text (trial files, stores, tools) made safe for display, text in columns, and the abilities of the reader's locale.

use comfy_table::{CellAlignment, Table};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replacement of a hidden character.
const HIDDEN: char = '\u{fffd}';

/// Foreign text in one line, without anything that a terminal or a mail client would act on: no control characters, so
/// no escape sequences, and no characters that change the direction of a line or have no width; line breaks become
/// spaces.
pub fn plain(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() || is_invisible(c) => HIDDEN,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// The same for text of several lines, such as an error and the kernel's messages. Lines after the first are indented,
/// so that they cannot pass for lines of ours.
pub fn plain_lines(text: &str, indent: usize) -> String {
    let lines: Vec<String> = text.lines().map(plain).collect();
    lines.join(&format!("\n{:indent$}", ""))
}

/// A table of names and their figures, indented: the first column to the left, the others to the right.
pub(crate) fn figures(mut table: Table) -> String {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!("  {}\n", line.trim_end())).collect()
}

/// Default columns of a terminal, a mail or a list.
pub const USUAL_COLUMNS: usize = 80;

/// Text in lines of that many columns, broken between words: the first is indented by `first`, the others by `later`. A word that
/// does not fit, such as a path, stays whole, so that it can be copied.
pub fn wrapped(text: &str, columns: usize, first: usize, later: usize) -> String {
    let [first, later] = [first, later].map(|indent| " ".repeat(indent));
    let options = textwrap::Options::new(columns)
        .initial_indent(&first)
        .subsequent_indent(&later)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options)
}

/// A name in that many columns: an overlong one is cut in its middle, as names differ at their ends.
pub fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let fits = |letters: &mut dyn Iterator<Item = char>, room: usize| {
        let mut used = 0;
        letters
            .take_while(|letter| {
                used += letter.width().unwrap_or(0);
                used <= room
            })
            .collect::<Vec<char>>()
    };
    let half = columns.saturating_sub(1) / 2;
    let begin: String = fits(&mut text.chars(), columns.saturating_sub(1) - half).into_iter().collect();
    let end: String = fits(&mut text.chars().rev(), half).into_iter().rev().collect();
    format!("{begin}…{end}")
}

/// True for a character that modifies others: joiners, marks of direction, tags, variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// True if the locale has more than ASCII, from the relevant variables in their order of precedence.
pub fn is_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_replaces_terminal_control_characters() {
        assert_eq!(plain("a\u{1b}[2Jb\u{7}\u{9b}31m\r\nc"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}31m  c");
        assert_eq!(plain("x\u{202e}gpj.exe\u{200b}\u{2066}"), "x\u{fffd}gpj.exe\u{fffd}\u{fffd}");
        assert_eq!(plain("größer 文件"), "größer 文件");
        assert_eq!(plain_lines("hung\nthe \u{1b}kernel\r\nsaid", 2), "hung\n  the \u{fffd}kernel\n  said");
    }

    #[test]
    fn names_are_cut_in_their_middle() {
        assert_eq!(shortened("xfs:agcount=16", 14), "xfs:agcount=16");
        assert_eq!(shortened("oltp, rate with p99<10ms", 13), "oltp, …9<10ms");
        assert_eq!(shortened("文件系统", 5), "文…统");
    }

    #[test]
    fn locale_determines_unicode_output() {
        let of = |pairs: &'static [(&str, &str)]| {
            is_unicode(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(of(&[("LANG", "de_DE.UTF-8")]) && of(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!of(&[]) && !of(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(of(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")]), "an empty one says nothing");
    }
}
