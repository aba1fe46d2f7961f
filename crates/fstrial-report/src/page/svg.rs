//! Common properties of all pictures: their size, their coordinates, their texts.

use crate::text::plain;
use maud::{Markup, html};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Width of a drawing in its units: the style sheet scales it to the page. Its letters must stay legible on a phone.
pub(crate) const WIDTH: f64 = 440.0;
/// Height of a line of text.
pub(super) const LINE: f64 = 17.0;
/// Room for a column of text in the font of the page: that of wide letters.
pub(super) const COLUMN: f64 = 8.2;

/// A coordinate, as short as it is worth.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.to_owned() }
}

/// A line of text. `class` if it is not that of its group.
pub(super) fn text(class: Option<&str>, x: f64, y: f64, words: &str) -> Markup {
    html! { text class=[class] x=(px(x)) y=(px(y)) { (plain(words)) } }
}

/// Room that a text takes, at most.
pub(super) fn width(text: &str) -> f64 {
    float(text.width()) * COLUMN
}

/// A text, or the beginning of one with more columns.
pub(super) fn begun(text: &str, columns: usize) -> String {
    let mut used = 0;
    let fits = |letter: &char| {
        used += letter.width().unwrap_or(0);
        used <= columns
    };
    let short: String = text.chars().take_while(fits).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

/// A count of items on a page.
#[expect(clippy::cast_precision_loss, reason = "a few thousands at most")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

/// A number with four digits that count.
pub(crate) fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    format!("{rounded}")
}
