//! Steps of a program over files: any text is a step that prints itself and reads back, or an error.
#![no_main]

use fstrial_model::workload::FlowStep;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(step) = text.parse::<FlowStep>() {
        let again: FlowStep = step.to_string().parse().expect("what was accepted is printed so that it reads back");
        assert_eq!(step, again);
    }
});
