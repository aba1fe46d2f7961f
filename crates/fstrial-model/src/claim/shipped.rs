//! The claims that ship.

/// A claim's file as it ships, with its name.
macro_rules! claims {
    ($($id:literal),* $(,)?) => {
        &[$(($id, include_str!(concat!("../../../../claims/", $id, ".toml")))),*]
    };
}

/// All of them by name, in the order of the alphabet.
pub const CLAIMS: &[(&str, &str)] = claims![
    "chinner-2012-ext4-flat",
    "chinner-2012-lock-is-the-cause",
    "chinner-2012-million-4k",
    "chinner-2012-patched-kernel",
    "chinner-2012-xfs-3x",
    "chinner-2012-xfs-scales",
    "closson-2012-ext4-two-writers",
    "closson-2012-init-equal",
    "closson-2012-one-writer-equal",
    "closson-2012-xfs-two-writers",
    "goryszewskig-2012-btrfs-two-writers",
    "joe-2012-ext4-four-threads",
    "panfilov-2012-xfs-slower",
    "percona-2012-async-ext4-wins",
    "percona-2012-async-files-flat",
    "percona-2012-async-threads-flat",
    "percona-2012-dioread-nolock",
    "percona-2012-ext3-serialises",
    "percona-2012-ext4-dio-descales",
    "percona-2012-journal-on-ssd",
    "percona-2012-raw-baseline",
    "percona-2012-sync-xfs-wins",
    "percona-2012-writeback-cache",
    "rm-2009-deadline-beats-cfq",
    "rm-2009-deadline-for-databases",
    "rm-2009-defrag-tools",
    "rm-2009-ext-no-deadline",
    "rm-2009-ext3-near-xfs",
    "rm-2009-ext4-lockup",
    "rm-2009-ext4-solid",
    "rm-2009-fsck-time",
    "rm-2009-it-depends",
    "rm-2009-jfs-deadline-blocks",
    "rm-2009-jfs-lags",
    "rm-2009-reiser-small-files",
    "rm-2009-xfs-large-files",
    "rm-2009-xfs-tuned",
    "rm-2009-xfs-which-knob",
    "sandeep-2012-freeze",
    "sandeep-2012-lvm-snapshot",
    "scalegrid-300iops-equal",
    "scalegrid-mmap-contiguous",
    "scalegrid-ssd-latency-equal",
    "scalegrid-ssd-xfs-50pct",
    "sigoure-2012-xfs-knobs-flat",
    "sigoure-2012-xfs-metadata",
    "sjerps-2012-cow-fragments",
    "tkachenko-2012-btrfs-5x",
    "tsuna-2011-ags-beyond-threads",
    "tsuna-2011-default-ags-too-few",
    "tsuna-2011-ext4-no-tuning",
    "tsuna-2011-ext4-rndrd",
    "tsuna-2011-ext4-rndrw",
    "tsuna-2011-most-tests",
    "tsuna-2011-stripe-2pct",
    "tsuna-2011-stripe-2pct-256k",
    "tsuna-2011-xfs-rndwr-low",
    "xl-2012-oltp-crossover",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        claim::{
            Expectation, Machine,
            era::{Rules, Version},
        },
        trial::Trial,
        units::Bytes,
    };
    use proptest::prelude::*;
    use std::{collections::BTreeSet, fs};

    #[test]
    fn every_file_of_the_folder_ships() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../claims");
        let files =
            fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> = files
            .filter_map(|file| file.strip_suffix(".toml").map(str::to_owned))
            .filter(|id| id != "eras" && id != "chapters")
            .collect();
        let shipped: BTreeSet<String> = CLAIMS.iter().map(|(id, _)| (*id).to_owned()).collect();
        assert_eq!(files, shipped);
    }

    #[test]
    fn every_claim_reads_and_can_be_planned() {
        for cpus in [1, 2, 64] {
            for quick in [false, true] {
                let machine = Machine { cpus, memory: Bytes::gib(8), kernel: Version(6, 12, 0), quick };
                for (id, text) in CLAIMS {
                    let mut trial = Trial::read_claim(id, text).unwrap_or_else(|e| panic!("{id}: {e}"));
                    let claim = trial.claim.clone().unwrap();
                    assert_eq!(claim.id, *id, "its name is the file's");
                    assert!(
                        claim.tags.len() > 1 && !claim.author.is_empty() && !claim.said.is_empty(),
                        "{id}"
                    );
                    if !claim.needs.is_empty() {
                        continue;
                    }
                    trial
                        .fit(&machine, &Rules::shipped())
                        .unwrap_or_else(|missing| panic!("{id}: {missing}"));
                    let trial = trial.checked(id, text).unwrap_or_else(|e| panic!("{id}: {e:?}"));
                    // As it is stored.
                    let settled = trial.settled(cpus).unwrap();
                    let settled = settled.trial();
                    assert_eq!(&Trial::parse("stored", &settled.to_toml()).unwrap(), settled, "{id}");
                }
            }
        }
    }

    #[test]
    fn unavailable_arms_are_dropped_with_their_expectations() {
        let (id, text) = CLAIMS.iter().find(|(id, _)| *id == "rm-2009-deadline-beats-cfq").unwrap();
        let mut trial = Trial::read_claim(id, text).unwrap();
        let optional = trial.claim.as_ref().unwrap().optional.clone();
        trial.leave_out(&optional);
        assert_eq!(trial.arms.len(), 2);
        let claim = trial.claim.unwrap();
        assert_eq!(claim.expectations.len(), 2);
        assert!(
            claim.expectations.iter().flat_map(Expectation::cells).all(|cell| cell.arm.starts_with("xfs"))
        );
    }

    proptest! {
        /// For any lost line a claim is refused with a message or can still be planned.
        #[test]
        fn a_claim_with_lines_missing_never_panics(
            which in 0..CLAIMS.len(),
            lost in proptest::collection::vec(0_usize..120, 1..4),
        ) {
            let (id, text) = CLAIMS[which];
            let kept = text.lines().enumerate().filter(|(line, _)| !lost.contains(line)).map(|(_, line)| line);
            let text = kept.collect::<Vec<_>>().join("\n");
            let machine = Machine { cpus: 4, memory: Bytes::gib(8), kernel: Version(6, 18, 0), quick: true };
            if let Ok(mut trial) = Trial::read_claim(id, &text)
                && trial.fit(&machine, &Rules::shipped()).is_ok()
                && let Ok(trial) = trial.checked(id, &text)
            {
                let workloads = trial.resolve_workloads(4).unwrap();
                let claim = trial.settled(4).unwrap().trial().claim.clone().unwrap();
                prop_assert!(claim.parts(&trial.arms, &workloads, 4).is_ok());
            }
        }
    }
}
