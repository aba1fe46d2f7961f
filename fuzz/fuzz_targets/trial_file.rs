//! Trial files: any text is a trial that prints itself and reads back, or an error that can be shown. What `fio` and
//! `model` name is taken for the text of the file, so that all are fuzzed together.
#![no_main]

use fstrial_model::{
    claim::{Machine, era::Version},
    device_model::DeviceModel,
    fio::{Surroundings, understand},
    trial::{Files, NamedFileError, Trial, TrialError},
    units::Bytes,
    workload::Entry,
};
use libfuzzer_sys::fuzz_target;

struct NamesAreTexts;

fn refused(place: Box<TrialError>) -> NamedFileError {
    NamedFileError { message: "it is refused".into(), hint: None, place: Some(place) }
}

impl Files for NamesAreTexts {
    fn workload_of(&mut self, job_file: &str) -> Result<Entry, NamedFileError> {
        let host = Surroundings { cpus: 2, memory_mib: 2048, page_bytes: 4096, variables: [].into() };
        Ok(understand("job.fio", job_file, &host).map_err(refused)?.entry("job"))
    }
    fn model_of(&mut self, model: &str) -> Result<DeviceModel, NamedFileError> {
        DeviceModel::parse("model.toml", model.trim_end_matches(".toml")).map_err(refused)
    }
}

const MACHINE: Machine = Machine { cpus: 2, memory: Bytes::gib(8), kernel: Version(6, 12, 0), quick: false };

fuzz_target!(|text: &str| match Trial::parse_with_files("trial.toml", text, &mut NamesAreTexts, &MACHINE) {
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
