//! The flags that every command has that conducts a trial.

use crate::cli::filter;
use clap::{ArgAction, Args, ValueEnum};
use fstrial_model::{device::DeviceKind, trial::Trial, units::Nanos};
use fstrial_run::{error::ExpectedError, exit_code, place::reach::Reach};
use fstrial_stack::device::Permission;
use fstrial_store::MAX_TAGS;
use std::{fmt, path::PathBuf, sync::Arc};

/// Flags that `compare` and `run` share.
#[derive(Debug, Args)]
pub(crate) struct ConductArgs {
    /// Notes on the choice of the trial, as warnings of the answer.
    #[arg(skip)]
    pub(in crate::cli) notes: Vec<String>,

    /// Called after each round, when nothing runs.
    #[arg(skip)]
    pub(in crate::cli) after_round: Option<AfterRound>,

    /// Upper limit of the budget if the first round takes longer than estimated.
    #[arg(skip)]
    pub(in crate::cli) longest: Option<Nanos>,

    /// Full path of the whole device that every run may erase (with --device disk).
    #[arg(long, value_name = "DEVICE")]
    pub(super) erase: Option<PathBuf>,

    /// Command that runs `fstrial agent` on the host of arms such as xfs@NAME: node='ssh -o BatchMode=yes node fstrial agent'
    /// (repeatable). Cannot be set in a file.
    #[arg(long = "place", value_name = "NAME=COMMAND", hide_short_help = true)]
    pub(in crate::cli) places: Vec<Reach>,

    /// Run the part of this boot NAME in a trial of boots (ext4@old, ext4@new), and report which boot is next.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(in crate::cli) as_arm: Option<String>,

    /// Type of a signature that may be erased (ext4, gpt …).
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    pub(super) erase_signature: Vec<String>,

    /// Precondition the disk to SNIA's steady state before the trial, in rounds of this time (with --device disk) [default:
    /// 1m, as specified].
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1m",
        hide_short_help = true
    )]
    pub(super) precondition: Option<Nanos>,

    /// Print the steps and their undo without executing them.
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Print events as JSON lines, and the answer as the last.
    #[arg(long)]
    pub(super) json: bool,

    /// Print no progress; twice (-qq): print errors only.
    #[arg(short, long, action = ArgAction::Count)]
    pub(super) quiet: u8,

    /// Exit with 0 even if something is undecided.
    #[arg(long)]
    pub(super) ok_undecided: bool,

    /// Write no report to HOME/reports.
    #[arg(long, hide_short_help = true)]
    pub(super) no_page: bool,

    /// Show curves and intervals full screen; q quits the view, not the trial.
    #[arg(long, conflicts_with_all = ["json", "quiet", "dry_run"])]
    pub(super) watch: bool,

    /// Exit with 4 if a comparison of throughput or a --decide-on metric has this result: slower, faster, or different
    /// (either).
    #[arg(long, value_enum, value_name = "VERDICT", hide_short_help = true, hide_possible_values = true)]
    pub(super) fail_if: Option<FailIf>,

    /// Tag the trial, such as nightly (repeatable); `fstrial results tag` edits tags.
    #[arg(long = "tag", value_name = "TAG", hide_short_help = true, value_parser = filter::tag, add = crate::cli::complete::tags())]
    pub(super) tags: Vec<String>,
}

/// A call with the number of a round that has ended.
#[derive(Clone)]
pub(in crate::cli) struct AfterRound(pub(in crate::cli) Arc<dyn Fn(u32) + Send + Sync>);

impl fmt::Debug for AfterRound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AfterRound")
    }
}

/// Conditions under which `--fail-if` ends with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailIf {
    Slower,
    Faster,
    Different,
}

impl ConductArgs {
    /// For a trial among others: only erasable disks, commands of places, and the display of progress.
    pub(crate) fn of(permission: Permission, places: &[Reach], quiet: bool) -> Self {
        Self {
            notes: Vec::new(),
            after_round: None,
            longest: None,
            places: places.to_owned(),
            as_arm: None,
            erase: permission.erase,
            erase_signature: permission.erase_signatures,
            precondition: None,
            dry_run: false,
            json: false,
            quiet: u8::from(quiet),
            ok_undecided: false,
            no_page: true,
            watch: false,
            fail_if: None,
            tags: Vec::new(),
        }
    }

    /// Refuses flags that would do nothing for this trial: anyone who gives them means something else.
    pub(super) fn check(&self, trial: &Trial) -> Result<(), ExpectedError> {
        only_for_disks(
            trial.device.kind,
            &[
                ("--erase", self.erase.is_some()),
                ("--erase-signature", !self.erase_signature.is_empty()),
                ("--precondition", self.precondition.is_some()),
            ],
        )?;
        if self.tags.len() > MAX_TAGS {
            return Err(ExpectedError::usage(
                format!("{} tags are too many: a trial has at most {MAX_TAGS}", self.tags.len()),
                "leave some --tag out",
            ));
        }
        self.check_precondition()
    }

    /// A disk is preconditioned in rounds of a sensible time.
    fn check_precondition(&self) -> Result<(), ExpectedError> {
        let Some(round) = self.precondition else { return Ok(()) };
        if !(Nanos::millis(100)..=Nanos::secs(3600)).contains(&round) {
            let hint = "use 100ms to 1h; the specification asks for 1m";
            return Err(ExpectedError::usage(
                format!("a preconditioning round of {round} is out of range (100ms to 1h)"),
                hint,
            ));
        }
        Ok(())
    }

    /// Those of a command with fewer flags, for many hosts.
    pub(in crate::cli) fn for_hosts(json: bool, quiet: bool) -> Self {
        Self { json, no_page: false, ..Self::of(Permission::default(), &[], quiet) }
    }

    /// Refuses flags that are invalid for many hosts.
    ///
    /// # Errors
    /// A flag is about this host.
    pub(in crate::cli) fn check_for_hosts(&self) -> Result<(), ExpectedError> {
        let given = [
            ("--erase", self.erase.is_some()),
            ("--place", !self.places.is_empty()),
            ("--as-arm", self.as_arm.is_some()),
            ("--precondition", self.precondition.is_some()),
            ("--dry-run", self.dry_run),
            ("--watch", self.watch),
            ("--fail-if", self.fail_if.is_some()),
            ("--tag", !self.tags.is_empty()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => Err(ExpectedError::usage(
                format!("{flag} is for a trial on this host, and --on runs it on others"),
                format!("leave {flag} out"),
            )),
        }
    }

    /// True if undecided answers end with 0.
    pub(in crate::cli) const fn is_undecided_ok(&self) -> bool {
        self.ok_undecided
    }

    /// True if a page is stored at the end.
    pub(in crate::cli) const fn has_page(&self) -> bool {
        !self.no_page
    }

    /// True if answers are JSON.
    pub(in crate::cli) const fn is_json(&self) -> bool {
        self.json
    }

    /// True if progress is off.
    pub(in crate::cli) fn is_quiet(&self) -> bool {
        self.quiet > 0
    }

    /// True if an answer that ends with this code is not shown.
    pub(super) fn is_silent(&self, code: u8) -> bool {
        self.quiet > 1 && [exit_code::VERDICT, exit_code::UNDECIDED].contains(&code)
    }

    /// True if lines of progress are shown.
    pub(crate) fn shows_progress(&self) -> bool {
        !(self.is_quiet() || self.json || self.dry_run || self.watch)
    }

    /// True if the steps are only listed, not done.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Erasable disks.
    pub(crate) fn permission(&self) -> Permission {
        Permission { erase: self.erase.clone(), erase_signatures: self.erase_signature.clone() }
    }
}

/// Refuses flags about a disk where the device is something else.
pub(crate) fn only_for_disks(kind: DeviceKind, flags: &[(&str, bool)]) -> Result<(), ExpectedError> {
    match flags.iter().find(|(_, is_given)| *is_given && !kind.is_erased()) {
        None => Ok(()),
        Some((flag, _)) => Err(ExpectedError::usage(
            format!(
                "{flag} is for a real disk, and the device is {} (--device, or kind in a trial file)",
                kind.name()
            ),
            format!("leave {flag} out, or name the disk: --device disk --erase /dev/disk/by-id/…"),
        )),
    }
}

/// Parses a seed, decimal or hexadecimal.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    // Trial files hold signed numbers.
    parsed
        .ok()
        .filter(|seed| i64::try_from(*seed).is_ok())
        .ok_or_else(|| "a seed is a whole number below 2^63 such as 7 or 0x1f".into())
}
