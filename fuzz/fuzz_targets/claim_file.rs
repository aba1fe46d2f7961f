//! Claim files and era rules: any text is an error that can be shown, or a claim that is fitted to machines of several
//! kinds, checked, printed and read back.
#![no_main]

use fstrial_model::{
    claim::{
        Machine,
        era::{Rules, Version},
    },
    trial::{Trial, TrialError},
    units::Bytes,
};
use libfuzzer_sys::fuzz_target;

fn shown(error: &TrialError) {
    let mut shown = String::new();
    let report = miette::GraphicalReportHandler::new();
    report.render_report(&mut shown, error).expect("an error can be shown");
}

fuzz_target!(|text: &str| {
    if let Err(error) = Rules::parse("eras.toml", text) {
        shown(&error);
    }
    let claim = match Trial::read_claim("claim.toml", text) {
        Ok(claim) => claim,
        Err(error) => return shown(&error),
    };
    for (cpus, kernel) in [(1, Version(2, 6, 30)), (2, Version(6, 18, 0)), (64, Version(6, 12, 0))] {
        let machine = Machine { cpus, memory: Bytes::gib(4), kernel, quick: cpus == 2 };
        let mut fitted = claim.clone();
        if fitted.fit(&machine, &Rules::shipped()).is_err() {
            continue;
        }
        match fitted.checked("claim.toml", text) {
            Ok(trial) => {
                let again = Trial::parse("again.toml", &trial.to_toml()).expect("what was accepted reads back");
                assert_eq!(trial, again);
            }
            Err(error) => shown(&error),
        }
    }
});
