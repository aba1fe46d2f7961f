//! Trial files: any text is a trial that prints itself and reads back, or an error that can be shown.
#![no_main]

use fstrial_model::trial::Trial;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match Trial::parse("trial.toml", text) {
    Ok(trial) => {
        let again = Trial::parse("again.toml", &trial.to_toml()).expect("what was accepted is printed so that it reads back");
        assert_eq!(trial, again);
    }
    Err(error) => {
        let mut shown = String::new();
        let report = miette::GraphicalReportHandler::new();
        report.render_report(&mut shown, &*error).expect("an error can be shown");
    }
});
