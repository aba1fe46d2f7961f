//! Sizes of requests where they differ, written as a list with weights, `4KiB:60,64KiB:40`, or as a range, `4KiB-64KiB`.

use crate::units::{Bytes, UnitError, serde_as_text, unit_error};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// Sizes in a list, at most.
const MAX_LISTED: usize = 64;

/// How the size of each request is drawn. All sizes are multiples of the block size; places
/// that are drawn are multiples of the smallest size.
#[derive(Debug, Clone, PartialEq)]
pub enum Sizes {
    /// Each size in proportion to its weight, which is above 0; at least one size, each once.
    Listed(Vec<(Bytes, f64)>),
    /// Every multiple of the block size from the least to the most, each equally often.
    Between {
        /// The smallest.
        least: Bytes,
        /// The largest.
        most: Bytes,
    },
}

const WANTED: &str = "sizes such as \"4KiB:60,64KiB:40\" or \"4KiB-64KiB\"";

impl Sizes {
    /// Sizes with their weights; that of a size alone says nothing.
    pub fn listed(mut sizes: Vec<(Bytes, f64)>) -> Self {
        if let [(_, weight)] = &mut sizes[..]
            && *weight > 0.0
        {
            *weight = 1.0;
        }
        Self::Listed(sizes)
    }

    /// The smallest size.
    pub fn least(&self) -> Bytes {
        match self {
            Self::Listed(sizes) => sizes.iter().map(|(size, _)| *size).min().unwrap_or_default(),
            Self::Between { least, .. } => *least,
        }
    }

    /// The largest size.
    pub fn most(&self) -> Bytes {
        match self {
            Self::Listed(sizes) => sizes.iter().map(|(size, _)| *size).max().unwrap_or_default(),
            Self::Between { most, .. } => *most,
        }
    }

    /// What is wrong with them for blocks of this size, if anything: they may come from elsewhere than a text.
    pub fn problem(&self, block: Bytes) -> Option<String> {
        if let Self::Listed(sizes) = self {
            let is_weight = |weight: &f64| *weight > 0.0 && weight.is_finite();
            let mut once: Vec<Bytes> = sizes.iter().map(|(size, _)| *size).collect();
            once.sort_unstable();
            once.dedup();
            if once.is_empty() || sizes.len() > MAX_LISTED || once.len() < sizes.len() {
                return Some(format!("it takes 1 to {MAX_LISTED} sizes, each once"));
            }
            if !sizes.iter().all(|(_, weight)| is_weight(weight)) {
                return Some("a weight is a number above 0".into());
            }
        }
        let (least, most) = (self.least(), self.most());
        if least > most {
            return Some(format!("it goes from {least} down to {most}"));
        }
        if !(1..=Bytes::mib(64).0).contains(&least.0) || most > Bytes::mib(64) {
            return Some("a request has 1 byte to 64MiB".into());
        }
        let is_whole = |size: Bytes| size.0.is_multiple_of(block.0.max(1));
        let odd = match self {
            Self::Listed(sizes) => sizes.iter().map(|(size, _)| *size).find(|size| !is_whole(*size)),
            Self::Between { .. } => [least, most].into_iter().find(|size| !is_whole(*size)),
        };
        odd.map(|size| format!("{size} is not a multiple of the block size, {block}"))
    }
}

fn read(text: &str) -> Result<Sizes, String> {
    let size = |text: &str| text.trim().parse::<Bytes>().map_err(|error| error.to_string());
    let sizes = match text.split_once('-') {
        Some((least, most)) => Sizes::Between { least: size(least)?, most: size(most)? },
        None => Sizes::listed(
            text.split(',')
                .map(|part| match part.split_once(':') {
                    None => Ok((size(part)?, 1.0)),
                    Some((bytes, weight)) => {
                        let weight = weight.trim();
                        let weight = weight.parse().map_err(|_| format!("{weight:?} is not a weight"))?;
                        Ok((size(bytes)?, weight))
                    }
                })
                .collect::<Result<_, String>>()?,
        ),
    };
    sizes.problem(Bytes(1)).map_or(Ok(sizes), Err)
}

impl FromStr for Sizes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        read(text).map_err(|problem| unit_error(text, WANTED, problem))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed(sizes) => sizes.iter().enumerate().try_for_each(|(n, (size, weight))| {
                let comma = if n > 0 { "," } else { "" };
                if sizes.len() == 1 { write!(f, "{size}") } else { write!(f, "{comma}{size}:{weight}") }
            }),
            Self::Between { least, most } => write!(f, "{least}-{most}"),
        }
    }
}

serde_as_text!(
    Sizes,
    "^ *[0-9.]+ *[A-Za-z]*( *- *[0-9.]+ *[A-Za-z]*|( *:[0-9. ]+)?(,[0-9. ]+[A-Za-z]*( *:[0-9. ]+)?)*) *$",
    "sizes of requests: 8KiB, 4KiB:60,64KiB:40 with weights, or 4KiB-64KiB"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        for (text, printed) in [
            ("8K", "8KiB"),
            ("8K:70", "8KiB"),
            ("4k:60, 64KiB : 40", "4KiB:60,64KiB:40"),
            ("4KiB,8KiB", "4KiB:1,8KiB:1"),
            ("512:0.5,1K:99.5", "512B:0.5,1KiB:99.5"),
            (" 4KiB - 1MiB ", "4KiB-1MiB"),
        ] {
            let sizes: Sizes = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(sizes.to_string(), printed);
            assert_eq!(printed.parse::<Sizes>().unwrap(), sizes);
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, words) in [
            ("", "sizes such as"),
            ("4KiB:60,4096:40", "each once"),
            ("4KiB:0,8KiB:1", "above 0"),
            ("4KiB:nan,8KiB:1", "above 0"),
            ("4KiB:much", "not a weight"),
            ("64KiB-4KiB", "down to"),
            ("0-4KiB", "1 byte"),
            ("4KiB-1GiB", "64MiB"),
        ] {
            let error = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let odd: Sizes = "4KiB:1,6KiB:1".parse().unwrap();
        assert!(odd.problem(Bytes::kib(4)).unwrap().contains("6KiB is not a multiple"));
        assert_eq!(odd.problem(Bytes::kib(2)), None);
    }
}
