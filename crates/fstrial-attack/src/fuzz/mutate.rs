//! Makes inputs: a shipped example with some of it changed, the way that users, editors, broken disks and enemies
//! change things. There is no feedback from the program, so the changes must be likely to matter: words are replaced by
//! words of the format, numbers by those at the edges.

use super::corpus::Corpus;
use crate::dice::Dice;

/// Longest input made.
const MAX_BYTES: usize = 256 << 10;
/// Numbers at edges, and texts that parse as numbers.
const NUMBERS: [&str; 24] = [
    "0",
    "1",
    "-1",
    "-0",
    "255",
    "256",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1.4e154",
    "1e999",
    "-1e-308",
    "0.1",
    "NaN",
    "inf",
    "0x7fffffffffffffff",
];
/// Texts with a meaning to some parser.
const PIECES: [&str; 28] = [
    "\0",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\"",
    "'",
    "\\",
    "/",
    "../",
    "=",
    ":",
    ",",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    "#",
    "%",
    "${SIZE}",
    "\u{202e}",
    "\u{feff}",
    "é",
    "\u{1F4A3}",
    "KiB",
    "\\u0000",
];
/// Opening brackets, and their closing ones.
const NESTS: [(&str, &str); 6] =
    [("[", "]"), ("{", "}"), ("(", ")"), ("{\"a\":", "}"), ("x=[", "]"), ("[[a]]\n", "")];
/// Deepest nest.
const DEPTHS: [usize; 4] = [3, 40, 130, 3000];

/// A mutated example of the corpus.
pub(crate) fn input(corpus: &Corpus, dice: &mut Dice) -> Vec<u8> {
    let mut made = dice.one_of(&corpus.examples).clone();
    // A part of a long example: most errors show in short ones, and those are fast.
    if made.len() > 2048 && dice.below(4) != 0 {
        let start = line_before(&made, dice.below(made.len()));
        let length = 64 + dice.below(2048);
        made = made[start..made.len().min(start + length)].to_vec();
    }
    for _ in 0..=dice.below(6) {
        change(&mut made, corpus, dice);
        made.truncate(MAX_BYTES);
    }
    made
}

fn line_before(text: &[u8], at: usize) -> usize {
    text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}

/// Puts something in the place of a part.
fn put(made: &mut Vec<u8>, at: usize, length: usize, new: &[u8]) {
    let at = at.min(made.len());
    let end = (at + length).min(made.len());
    made.splice(at..end, new.iter().copied());
}

fn change(made: &mut Vec<u8>, corpus: &Corpus, dice: &mut Dice) {
    let at = dice.below(made.len() + 1);
    match dice.below(14) {
        0 if at < made.len() => made[at] ^= 1 << dice.below(8),
        1 => put(made, at, 1, &[u8::try_from(dice.below(256)).expect("it is below 256")]),
        2 => put(made, at, 1 + dice.below(16), b""),
        3 => {
            let from = dice.below(made.len() + 1);
            let part = made[from..made.len().min(from + 1 + dice.below(64))].to_vec();
            put(made, at, 0, &part);
        }
        4 | 5 => {
            let (start, end) = word_at(made, at, |byte| byte.is_ascii_digit() || byte == b'.');
            let number = NUMBERS[dice.below(NUMBERS.len())];
            put(made, start, end - start, number.as_bytes());
        }
        6 | 7 if !corpus.words.is_empty() => {
            let (start, end) = word_at(made, at, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            put(made, start, end - start, dice.one_of(corpus.words.as_slice()).as_slice());
        }
        8 => put(made, at, 0, PIECES[dice.below(PIECES.len())].as_bytes()),
        9 => {
            let other = dice.one_of(&corpus.examples);
            let from = line_before(other, dice.below(other.len() + 1));
            let part = &other[from..other.len().min(from + 1 + dice.below(400))];
            put(made, line_before(made, at), 0, part);
        }
        10 => nest(made, at, dice),
        11 => made.truncate(at),
        12 => {
            // A line again, somewhere else.
            let start = line_before(made, at);
            let end = made[start..].iter().position(|byte| *byte == b'\n');
            let end = end.map_or(made.len(), |end| start + end + 1);
            let line = made[start..end].to_vec();
            let to = line_before(made, dice.below(made.len() + 1));
            put(made, to, 0, &line);
        }
        _ => {
            let piece = if dice.below(2) == 0 { "9" } else { PIECES[dice.below(PIECES.len())] };
            put(made, at, 0, piece.repeat(1 + dice.below(300)).as_bytes());
        }
    }
}

/// The nearest word of these characters after a place; an empty one without any.
fn word_at(made: &[u8], at: usize, of: impl Fn(u8) -> bool) -> (usize, usize) {
    let Some(inside) = made[at..].iter().position(|byte| of(*byte)).map(|result| at + result) else {
        return (at, at);
    };
    let start = made[..inside].iter().rposition(|byte| !of(*byte)).map_or(0, |before| before + 1);
    let end = made[inside..].iter().position(|byte| !of(*byte)).map_or(made.len(), |after| inside + after);
    (start, end)
}

fn nest(made: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let (open, close) = NESTS[dice.below(NESTS.len())];
    let depth = DEPTHS[dice.below(DEPTHS.len())];
    let mut nested = open.repeat(depth).into_bytes();
    nested.extend_from_slice(close.repeat(depth - dice.below(2)).as_bytes());
    put(made, at, 0, &nested);
}
