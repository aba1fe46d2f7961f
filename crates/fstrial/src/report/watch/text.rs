//! Text for a terminal: names from trial files and words of tools are made harmless, cut to the columns there are, and
//! put in ASCII where the locale has no more.

use ratatui::buffer::Buffer;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands for a character that is not shown.
const HIDDEN: char = '\u{fffd}';

/// Text from elsewhere as it may be shown: no control characters, so no escape sequences, and nothing that turns the
/// direction of a line or takes no room; line breaks become spaces.
pub fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() || is_invisible(c) => HIDDEN,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Whether a character is there to change others: joiners, marks of direction, tags, variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// A text in at most so many columns; what is cut off is marked by `…`.
pub fn cut(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if used + width + 1 > most {
            break;
        }
        used += width;
        kept.push(c);
    }
    if most > 0 {
        kept.push('…');
    }
    kept
}

/// A text in exactly so many columns.
pub fn fitted(text: &str, width: usize) -> String {
    let mut text = cut(text, width);
    text.extend(std::iter::repeat_n(' ', width - text.width()));
    text
}

/// Whether the locale has more than ASCII, from the variables that say so in their order of precedence.
pub fn is_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Puts everything that was drawn in ASCII.
pub fn to_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        // A letter with a mark on it keeps the letter.
        if let Some(first) = cell.symbol().chars().next().filter(|_| !cell.symbol().is_ascii()) {
            cell.set_char(if first.is_ascii() { first } else { ascii(first) });
        }
    }
}

/// The closest ASCII to a character that the view draws; `?` for any other.
fn ascii(c: char) -> char {
    match c {
        '─' | '━' | '–' | '—' | '╌' => '-',
        '│' | '┃' | '┊' | '┆' | '├' | '┤' => '|',
        '┌' | '┐' | '└' | '┘' | '╭' | '╮' | '╰' | '╯' => '+',
        '●' => 'o',
        '•' => '*',
        '·' => '.',
        '…' => '~',
        '×' => 'x',
        '±' => '~',
        '▲' => '^',
        '▼' => 'v',
        '✗' => 'X',
        '░' => ':',
        '▸' | '›' => '>',
        '‹' => '<',
        '▁' | '▂' => '_',
        '▃' | '▄' => '-',
        '▅' | '▆' => '=',
        '▇' | '█' => '#',
        'µ' => 'u',
        '↑' => '^',
        '↓' => 'v',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ratatui::layout::Rect;

    #[test]
    fn what_could_command_the_terminal_is_not_shown() {
        assert_eq!(clean("a\u{1b}[2Jb\u{7}\u{9b}31m\r\nc"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}31m  c");
        assert_eq!(clean("x\u{202e}gpj.exe\u{200b}"), "x\u{fffd}gpj.exe\u{fffd}");
        assert_eq!(clean("größer 文件"), "größer 文件");
    }

    #[test]
    fn wide_characters_are_cut_by_their_columns() {
        assert_eq!(cut("文件系统", 8), "文件系统");
        assert_eq!(cut("文件系统", 7), "文件系…");
        assert_eq!(cut("文件系统", 6), "文件…");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".into(), String::new()));
        assert_eq!(fitted("文件系统", 6), "文件… ");
    }

    #[test]
    fn the_locale_says_whether_there_is_more_than_ascii() {
        let of = |pairs: &'static [(&str, &str)]| {
            is_unicode(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(of(&[("LANG", "de_DE.UTF-8")]) && of(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!of(&[]) && !of(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(of(&[("LC_ALL", ""), ("LANG", "en_US.UTF-8")]), "an empty one says nothing");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_cut_text_fits_and_an_ascii_buffer_is_ascii(text in "\\PC{0,30}", width in 0_usize..40) {
            let text = clean(&text);
            prop_assert!(cut(&text, width).width() <= width);
            prop_assert_eq!(fitted(&text, width).width(), width);
            let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
            buffer.set_string(0, 0, &text, ratatui::style::Style::default());
            to_ascii(&mut buffer);
            prop_assert!(buffer.content.iter().all(|cell| cell.symbol().is_ascii()));
        }
    }
}
