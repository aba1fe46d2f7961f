//! Raw material of inputs: the shipped examples, the words in them, and error-prone numbers.

use super::targets::{Examples, FuzzTarget};
use crate::lab::workspace;
use std::{collections::BTreeSet, fs};

/// Longest word that is kept.
const MAX_WORD: usize = 40;
/// Longest file used as an example.
const MAX_EXAMPLE: u64 = 512 << 10;

/// Examples and words of one target.
#[derive(Debug)]
pub(crate) struct Corpus {
    pub(crate) examples: Vec<Vec<u8>>,
    pub(crate) words: Vec<Vec<u8>>,
}

impl Corpus {
    /// The examples of a target, and the words in them.
    pub(crate) fn of(target: &FuzzTarget) -> Self {
        let examples = match target.examples {
            Examples::Files(places) => files(places),
            Examples::Texts(texts) => texts.iter().map(|text| text.as_bytes().to_vec()).collect(),
        };
        assert!(!examples.is_empty(), "{} has no examples", target.name);
        let mut words = BTreeSet::new();
        for example in &examples {
            let all = example.split(|byte| !(byte.is_ascii_alphanumeric() || b"_-.%".contains(byte)));
            words.extend(all.filter(|word| !word.is_empty() && word.len() <= MAX_WORD).map(<[u8]>::to_vec));
        }
        Self { examples, words: words.into_iter().collect() }
    }
}

/// All files in folders of the workspace with these suffixes, in the same order everywhere.
pub(crate) fn files(places: &[(&str, &str)]) -> Vec<Vec<u8>> {
    let mut paths = BTreeSet::new();
    for (folder, ending) in places {
        let listing = fs::read_dir(workspace().join(folder)).into_iter().flatten().flatten();
        paths.extend(listing.map(|entry| entry.path()).filter(|path| {
            path.to_string_lossy().ends_with(ending)
                && path.metadata().is_ok_and(|result| result.is_file() && result.len() <= MAX_EXAMPLE)
        }));
    }
    paths.into_iter().filter_map(|path| fs::read(path).ok()).collect()
}
