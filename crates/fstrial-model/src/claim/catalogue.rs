//! The version of the catalogue: of all that the claims that ship expect, and how it is measured.
//!
//! Changing an expectation after looking at results tunes the catalogue to them. So each claim carries the day of its
//! last change (`fixed`), the catalogue has a number that increases with every change, and both are printed with the
//! answers.

/// The catalogue's version.
pub const CATALOGUE: u32 = 10;

#[cfg(test)]
mod tests {
    use super::CATALOGUE;
    use crate::{
        claim::{CLAIMS, Claim},
        trial::Trial,
    };
    use sha2::{Digest, Sha256};
    use std::fmt::Write as _;

    /// The parts of a claim that decide it, without descriptions and the receipt.
    fn digest(mut trial: Trial) -> String {
        trial.trial.receipt = 0;
        let claim = trial.claim.clone().map(|claim| {
            let Claim { cpus, needs, optional, quick, scale, .. } = (*claim).clone();
            Box::new(Claim { cpus, needs, optional, quick, scale, ..claim.without_words() })
        });
        let digest = Sha256::digest(Trial { claim, ..trial }.to_toml());
        digest.iter().take(6).fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes everything");
            text
        })
    }

    /// A change of a claim shows here: give it the day of today as `fixed`, and the catalogue its next version.
    #[test]
    fn catalogue_matches_its_version() {
        let mut lines = format!("version {CATALOGUE}\n");
        for (id, text) in CLAIMS {
            let trial = Trial::read_claim(id, text).unwrap_or_else(|e| panic!("{id}: {e}"));
            let claim = trial.claim.clone().expect("a claim");
            let fixed = claim.fixed.unwrap_or_else(|| panic!("{id}: no day on which it was fixed"));
            let unread = claim.expectations.iter().position(|expected| expected.reading.is_none());
            assert_eq!(unread, None, "{id}: an expectation that does not say how the source was read");
            writeln!(lines, "{id} {fixed} {}", digest(trial)).expect("a string takes everything");
        }
        insta::assert_snapshot!(lines);
    }
}
