//! `fstrial-planted`: the program as users have it, with the fault in it that `FSTRIAL_PLANT` names.

use fstrial_model::planted;
use std::process::ExitCode;

fn main() -> ExitCode {
    planted::plant_asked_for();
    ExitCode::from(fstrial::cli::main())
}
