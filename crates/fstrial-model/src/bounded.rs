//! Texts from outside, from an agent or a store, truncated on entry: they are printed again and again, and the output
//! must not be a thousand times the input. For `#[serde(deserialize_with = …)]`.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// The longest text, in bytes.
pub const MAX_TEXT: usize = 4 << 10;
/// The most texts of a list or a table.
pub const MAX_TEXTS: usize = 64;
/// The most commands: preparing a program alone can take dozens.
const MAX_COMMANDS: usize = 256;

/// The longest output of a program, in bytes: 256 KiB of it are kept, with its commands.
const MAX_OUTPUT: usize = 1 << 20;

/// A text, cut at a character with an ellipsis.
pub fn cut(text: String) -> String {
    cut_to(MAX_TEXT, text)
}

fn cut_to(most: usize, mut text: String) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// Reads the output of a program, if there is one.
///
/// # Errors
/// It is something else.
pub fn output<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(|text| cut_to(MAX_OUTPUT, text)))
}

/// Reads a text.
///
/// # Errors
/// It is something else.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(cut)
}

/// Reads a text that may be missing.
///
/// # Errors
/// It is something else.
pub fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(cut))
}

/// Reads a list of texts; those after [`MAX_TEXTS`] are left out.
///
/// # Errors
/// It is something else.
pub fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    at_most(from, MAX_TEXTS)
}

/// Reads a list of commands, which may be longer.
///
/// # Errors
/// It is something else.
pub fn commands<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    at_most(from, MAX_COMMANDS)
}

fn at_most<'de, D: Deserializer<'de>>(from: D, most: usize) -> Result<Vec<String>, D::Error> {
    let all = Vec::<String>::deserialize(from)?;
    Ok(all.into_iter().take(most).map(cut).collect())
}

/// Reads a table of texts.
///
/// # Errors
/// It is something else.
pub fn table<'de, D: Deserializer<'de>, K: Deserialize<'de> + Ord>(
    from: D,
) -> Result<BTreeMap<K, String>, D::Error> {
    let all = BTreeMap::<K, String>::deserialize(from)?;
    Ok(all.into_iter().take(MAX_TEXTS).map(|(key, text)| (key, cut(text))).collect())
}

/// Reads a table of texts with free names.
///
/// # Errors
/// It is something else.
pub fn named<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(table::<D, String>(from)?.into_iter().map(|(name, text)| (cut(name), text)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Entering {
        #[serde(deserialize_with = "text")]
        one: String,
        #[serde(deserialize_with = "texts")]
        many: Vec<String>,
        #[serde(deserialize_with = "named")]
        named: BTreeMap<String, String>,
    }

    #[test]
    fn oversized_text_is_truncated_at_char_boundary() {
        // A character of three bytes straddles the end.
        let long = "x".repeat(MAX_TEXT - 4) + &"€".repeat(1000);
        let many = vec![long.clone(); 1000];
        let named: BTreeMap<String, String> =
            (0..1000).map(|n| (format!("{n}{long}"), long.clone())).collect();
        let json = serde_json::json!({ "one": long, "many": many, "named": named });
        let entered: Entering = serde_json::from_value(json).unwrap();
        assert!(entered.one.len() <= MAX_TEXT && entered.one.ends_with("x…"), "{}", entered.one.len());
        assert_eq!((entered.many.len(), entered.named.len()), (MAX_TEXTS, MAX_TEXTS));
        assert!(entered.named.keys().all(|name| name.len() <= MAX_TEXT));
        assert!(entered.many.iter().chain(entered.named.values()).all(|text| *text == entered.one));
        let short = serde_json::json!({ "one": "as it is", "many": ["a"], "named": {} });
        let entered: Entering = serde_json::from_value(short).unwrap();
        assert_eq!((entered.one.as_str(), entered.many.as_slice()), ("as it is", &["a".to_owned()][..]));
    }
}
