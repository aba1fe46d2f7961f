//! Arms in the short form: any text is an arm that prints itself and reads back the same, or an error.
#![no_main]

use fstrial_model::arm::Arm;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(arm) = text.parse::<Arm>() {
        let again: Arm = arm.to_string().parse().expect("what was accepted is printed so that it reads back");
        assert_eq!(arm, again);
    }
});
