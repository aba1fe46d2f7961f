//! Exit codes: public, documented, append-only.

/// The answer is there: every contrast that was to be decided is.
pub const VERDICT: u8 = 0;
/// A bug in fstrial.
pub const OUR_FAULT: u8 = 1;
/// The command line or a file is wrong.
pub const USAGE: u8 = 2;
/// The budget ended with a contrast undecided.
pub const UNDECIDED: u8 = 3;
/// The condition given with `--fail-if` or `--fail-if-worse` is met.
pub const FAIL_IF_MET: u8 = 4;
/// `--fail-if-worse` cannot judge the newest trial: it cannot be used, or too few are like it.
pub const UNJUDGED: u8 = 5;
/// This host lacks something: a program, a filesystem in the kernel, a privilege.
pub const HOST_LACKS: u8 = 10;
/// A device, a filesystem or a load could not be set up, or an arm failed under load.
pub const SETUP_FAILED: u8 = 11;
/// A change on the host could not be undone; `fstrial clean` tries again.
pub const CLEAN_UP_INCOMPLETE: u8 = 12;
/// `clean` left entries of the ledger alone: they belong to a command that runs, or could not be read or judged.
pub const LEFT_ALONE: u8 = 13;
/// The results cannot be stored or read: their store is full, locked, damaged or gone.
pub const STORE_UNUSABLE: u8 = 14;
/// The answer could not be written out: standard output is closed or full.
pub const UNWRITTEN: u8 = 15;
/// Interrupted; the partial answer was given.
pub const INTERRUPTED: u8 = 130;

/// Every code with its meaning, for `--help`, the manual page and the docs.
pub const ALL: &[(u8, &str)] = &[
    (VERDICT, "every requested comparison reached a verdict, or either will do"),
    (OUR_FAULT, "a bug in fstrial"),
    (USAGE, "invalid command line or input file"),
    (UNDECIDED, "the budget ended with a contrast undecided that may matter"),
    (FAIL_IF_MET, "the condition of --fail-if or --fail-if-worse is met"),
    (UNJUDGED, "--fail-if-worse cannot judge the newest trial"),
    (HOST_LACKS, "this host lacks a program, a kernel feature or a privilege"),
    (
        SETUP_FAILED,
        "a device, filesystem or load could not be set up, an arm failed, or all runs of one were lost",
    ),
    (CLEAN_UP_INCOMPLETE, "a change on the host could not be undone; run `fstrial clean`"),
    (LEFT_ALONE, "`clean` left something alone that is not provably a dead command's"),
    (STORE_UNUSABLE, "the results cannot be stored or read: their store is full, locked, damaged or gone"),
    (UNWRITTEN, "the answer could not be written out: standard output is closed or full"),
    (INTERRUPTED, "interrupted; the partial answer was given"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let codes: std::collections::BTreeSet<u8> = ALL.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes.len(), ALL.len());
    }

    #[test]
    fn codes_are_documented() {
        let docs = include_str!("../../../docs/exit-codes.md");
        for (code, meaning) in ALL {
            assert!(
                docs.contains(&format!("| {code} | {meaning} |")),
                "docs/exit-codes.md lacks {code}: {meaning}"
            );
        }
    }
}
