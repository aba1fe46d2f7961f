//! `fstrial-planted`: the program as users have it, with the fault in it that `FSTRIAL_PLANT` names.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(fstrial::cli::main())
}
