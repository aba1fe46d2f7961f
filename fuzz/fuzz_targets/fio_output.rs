//! What fio answers: any text is an answer whose values can be, or an error.
#![no_main]

use fstrial_model::fio::output::FioOutput;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(output) = FioOutput::parse(text) {
        for value in output.jobs.iter().flat_map(|job| job.values.values()) {
            assert!(value.value.is_finite() && value.value >= 0.0);
        }
    }
});
