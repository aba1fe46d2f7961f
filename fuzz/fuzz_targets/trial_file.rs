//! Trial files: any text is a trial that prints itself and reads back, or an error that can be shown. What `fio` names is
//! taken for the text of the job file, so that both are fuzzed together.
#![no_main]

use fstrial_model::{
    fio::{Surroundings, understand},
    trial::{JobFileError, Trial},
    workload::Entry,
};
use libfuzzer_sys::fuzz_target;

fn workload_of(job_file: &str) -> Result<Entry, JobFileError> {
    let host = Surroundings { cpus: 2, memory_mib: 2048, page_bytes: 4096, variables: [].into() };
    match understand("job.fio", job_file, &host) {
        Ok(understanding) => Ok(understanding.entry("job")),
        Err(place) => Err(JobFileError { message: "it is refused".into(), hint: None, place: Some(place) }),
    }
}

fuzz_target!(|text: &str| match Trial::parse_with_job_files("trial.toml", text, &mut workload_of) {
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
