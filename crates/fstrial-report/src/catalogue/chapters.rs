//! Chapters of the catalogue (`claims/chapters.toml`). A headline asserts nothing that no verdict supports: it is
//! printed only with the verdicts that its file names, and its figures are those of their parts.

use super::{Catalogue, ClaimRow, counts};
use crate::{claim::PartReport, stored_word};
use fstrial_run::claim::ClaimVerdict;
use serde::Deserialize;
use std::collections::BTreeMap;

const SHIPPED: &str = include_str!("../../../../claims/chapters.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    chapter: Vec<Chapter>,
}

/// A subject of the quarrel.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chapter {
    pub title: String,
    /// Names of its claims, in order.
    pub claims: Vec<String>,
    #[serde(default)]
    headline: Vec<Headline>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Headline {
    /// A sentence; `{ID#N}` is the figure of a part.
    text: String,
    /// The verdicts that it rests on, by claim (`ID`) or part (`ID#N`, from 1).
    #[serde(rename = "if")]
    verdicts: BTreeMap<String, String>,
}

impl Chapter {
    /// The chapters that ship.
    pub fn all() -> Vec<Self> {
        toml::from_str::<File>(SHIPPED).expect("a test reads the chapters that ship").chapter
    }

    /// Its claims with their results, in order.
    pub fn rows<'c>(&self, catalogue: &'c Catalogue) -> Vec<&'c ClaimRow> {
        self.claims.iter().filter_map(|id| catalogue.claim(id)).collect()
    }

    /// The headlines that the verdicts support, then the counts of the verdicts.
    pub fn headlines(&self, catalogue: &Catalogue) -> Vec<String> {
        let supported = self.headline.iter().filter(|headline| headline.is_supported(catalogue));
        let mut lines: Vec<String> =
            supported.filter_map(|headline| filled(&headline.text, catalogue)).collect();
        let rows = self.rows(catalogue);
        let measured = rows.iter().filter(|row| row.open.is_none()).map(|row| row.report.verdict);
        let measured: Vec<_> = measured.collect();
        let open = rows.len() - measured.len();
        let open = if open == 0 { String::new() } else { format!(", {open} without a result") };
        lines.push(format!("{}{open}.", counts(rows.len(), &measured)));
        lines
    }
}

impl Headline {
    fn is_supported(&self, catalogue: &Catalogue) -> bool {
        self.verdicts.iter().all(|(name, verdict)| {
            let (id, part) = split(name);
            let is_own =
                |row: &&ClaimRow| row.measured.as_ref().is_some_and(|measured| measured.is_own_device);
            let Some(row) = catalogue.claim(id).filter(is_own) else { return false };
            let found = match part {
                None => Some(row.report.verdict),
                Some(part) => part_of(row, part).filter(|part| has_direction(part)).map(|part| part.verdict),
            };
            found.is_some_and(|found| stored_word(found) == *verdict)
        })
    }
}

/// False for a part that is smaller than claimed, and may be no effect at all.
fn has_direction(part: &PartReport) -> bool {
    part.verdict != ClaimVerdict::Smaller || part.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
}

/// A claim, and the number of a part.
fn split(name: &str) -> (&str, Option<usize>) {
    name.split_once('#').map_or((name, None), |(id, part)| (id, part.parse().ok()))
}

fn part_of(row: &ClaimRow, number: usize) -> Option<&PartReport> {
    row.report.parts.get(number.checked_sub(1)?)
}

/// A headline with its figures; none if one of them was not measured.
fn filled(text: &str, catalogue: &Catalogue) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        let (id, part) = split(name);
        let part = part_of(catalogue.claim(id)?, part?)?;
        part.measured?;
        out += before;
        out += &part.here();
        rest = after;
    }
    Some(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{
        claim::{CLAIMS, Claim},
        trial::Trial,
    };
    use std::collections::BTreeSet;

    fn claims() -> BTreeMap<String, Claim> {
        let read = |(id, text): &(&str, &str)| {
            let trial = Trial::read_claim(id, text).unwrap();
            ((*id).to_owned(), *trial.claim.unwrap())
        };
        CLAIMS.iter().map(read).collect()
    }

    #[test]
    fn every_claim_is_in_one_chapter() {
        let chapters = Chapter::all();
        let named: Vec<&String> = chapters.iter().flat_map(|chapter| &chapter.claims).collect();
        let unique: BTreeSet<&str> = named.iter().map(|id| id.as_str()).collect();
        assert_eq!(unique.len(), named.len());
        assert_eq!(unique, CLAIMS.iter().map(|(id, _)| *id).collect());
    }

    /// Each figure and condition is about a claim of its chapter, or of another, with such a part; and a figure about a
    /// claim on whose verdict the headline rests.
    #[test]
    fn headlines_rest_on_their_verdicts() {
        let claims = claims();
        for chapter in Chapter::all() {
            for headline in &chapter.headline {
                assert!(!headline.verdicts.is_empty(), "{}", headline.text);
                let figures = headline.text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap());
                for name in headline.verdicts.keys().map(String::as_str).chain(figures.clone()) {
                    let (id, part) = split(name);
                    let claim = claims.get(id).unwrap_or_else(|| panic!("{name}"));
                    assert!(
                        part.unwrap_or(1) >= 1 && part.unwrap_or(1) <= claim.expectations.len() * 20,
                        "{name}"
                    );
                }
                for figure in figures {
                    let rests = |name: &String| split(name).0 == split(figure).0;
                    assert!(headline.verdicts.keys().any(rests), "{figure}: {}", headline.text);
                }
            }
        }
    }
}
