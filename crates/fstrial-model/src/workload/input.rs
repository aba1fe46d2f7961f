//! Inputs of programs: texts in the trial, and files that are named by the digest of their content.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{fmt, path::PathBuf, str::FromStr};

/// A file that a program is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Input {
    /// A text in which placeholders are replaced.
    Text(String),
    /// One that is given as it is.
    File(InputFile),
}

/// A file next to the trial file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Its path from the folder of the trial file; in a stored trial from the root, in a job empty.
    pub file: PathBuf,
    /// Digest of its content, computed when the trial file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<ContentDigest>,
}

/// SHA-256 of the content of a file: `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ContentDigest(String);

impl FromStr for ContentDigest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix("sha256:") {
            Some(digits) if digits.len() == 64 && digits.bytes().all(is_digit) => Ok(Self(text.to_owned())),
            _ => Err(format!("`{text:.80}` is not a digest such as \"sha256:9f86d0…\", with 64 digits")),
        }
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ContentDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Input {
    /// By hand, because an untagged enumeration reports nothing about errors inside.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Input;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or { file = \"…\" }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Input, E> {
                Ok(Input::Text(text.to_owned()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Input, A::Error> {
                InputFile::deserialize(de::value::MapAccessDeserializer::new(map)).map(Input::File)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
