//! What every program here does with its arguments.

use std::process::ExitCode;

use crate::e2e::Result;

/// Prints the help, or what is wrong with the arguments, or runs what was asked. `parse` answers `None` where the help was asked for.
pub fn main<A>(
    name: &str,
    help: &str,
    parse: impl FnOnce(std::iter::Skip<std::env::Args>) -> std::result::Result<Option<A>, String>,
    run: impl FnOnce(A) -> Result<ExitCode>,
) -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
        Err(usage) => {
            eprintln!("{name}: {usage} (see {name} --help)");
            return ExitCode::from(2);
        }
    };
    run(asked).unwrap_or_else(|error| {
        eprintln!("{name}: {error}");
        ExitCode::FAILURE
    })
}
