//! Text for a terminal: cut to the columns there are, and put in ASCII where the locale has nothing else.

use ratatui::buffer::Buffer;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// A text in at most this many columns; a cut is marked by `…`.
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

/// A text in exactly this many columns.
pub fn fitted(text: &str, width: usize) -> String {
    let mut text = cut(text, width);
    text.extend(std::iter::repeat_n(' ', width - text.width()));
    text
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
    use crate::plain;
    use proptest::prelude::*;
    use ratatui::layout::Rect;

    #[test]
    fn wide_characters_are_cut_by_their_columns() {
        assert_eq!(cut("文件系统", 8), "文件系统");
        assert_eq!(cut("文件系统", 7), "文件系…");
        assert_eq!(cut("文件系统", 6), "文件…");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".into(), String::new()));
        assert_eq!(fitted("文件系统", 6), "文件… ");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_cut_text_fits_and_an_ascii_buffer_is_ascii(text in "\\PC{0,30}", width in 0_usize..40) {
            let text = plain(&text);
            prop_assert!(cut(&text, width).width() <= width);
            prop_assert_eq!(fitted(&text, width).width(), width);
            let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
            buffer.set_string(0, 0, &text, ratatui::style::Style::default());
            to_ascii(&mut buffer);
            prop_assert!(buffer.content.iter().all(|cell| cell.symbol().is_ascii()));
        }
    }
}
