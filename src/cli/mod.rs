//! The command line: what can be said, and the exit status.
//!
//! Exit status: 0 done; 1 it ran and something did not hold; 2 it could not start. A problem at start is one
//! clear line on standard error, without a backtrace.

pub mod args;
pub mod display;

use std::process::ExitCode;

use clap::Parser;

/// Parses the command line and runs it; the exit status of the process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match cli.command {
        args::Command::Run(_)
        | args::Command::Simulate(_)
        | args::Command::Migrate(_)
        | args::Command::Crd => {
            eprintln!("trino-pool-operator: this command is not part of this build");
            ExitCode::from(2)
        }
    }
}
