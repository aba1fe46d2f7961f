//! `fstrial`: parse, run, map the error to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(fstrial::cli::main())
}
