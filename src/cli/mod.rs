//! The command line: what can be said, and the exit status.
//!
//! Exit status: 0 done; 1 it ran and something did not hold; 2 it could not start. A problem at start is one
//! clear line on standard error, without a backtrace.

pub mod args;
mod check;
pub mod display;
pub mod error;
mod migrate;
mod output;
mod roster;
mod run;
mod signals;
mod simulate;
mod target;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

use self::args::{Cli, Command};
use self::error::CliError;

/// How long threads that are still busy may take to end with the process.
const LAST_THREADS: Duration = Duration::from_secs(1);

/// Parses the command line and runs it; the exit status of the process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error),
    };
    match dispatch(&cli.command) {
        Ok(status) => status,
        Err(error) => refused(&error),
    }
}

fn dispatch(command: &Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Run(args) => on_runtime(run::command(args)),
        Command::Simulate(args) => on_runtime(simulate::command(args)),
        Command::Check(args) => on_runtime(check::command(args)),
        Command::Migrate(args) => on_runtime(migrate::command(args)),
        Command::Crd => {
            let crd = crate::cluster::resource::crd().map_err(CliError::Json)?;
            output::line(&serde_json::to_string_pretty(&crd).map_err(CliError::Json)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn on_runtime(command: impl Future<Output = Result<ExitCode, CliError>>) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::Process)?;
    let status = runtime.block_on(command);
    runtime.shutdown_timeout(LAST_THREADS);
    status
}

fn refused(error: &CliError) -> ExitCode {
    output::complain(&error.to_string());
    ExitCode::from(2)
}

/// Help and version as clap prints them; everything else in one line.
fn unparsed(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A reader that went away has seen enough of the help.
            let _ = error.print();
            ExitCode::from(u8::from(error.use_stderr()) * 2)
        }
        _ => refused(&CliError::Usage(usage(&error.render().to_string()))),
    }
}

/// clap's paragraphs as one line: what is wrong and the tips; the usage is in --help.
fn usage(rendered: &str) -> String {
    let parts: Vec<&str> = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .map(|line| line.strip_prefix("error: ").unwrap_or(line))
        .collect();
    format!("{}; see --help", parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_flag_is_one_line_with_the_tip() {
        let error = Cli::try_parse_from(["trino-pool-operator", "simulate", "--pool", "3"]).unwrap_err();
        assert_eq!(
            usage(&error.render().to_string()),
            "unexpected argument '--pool' found tip: a similar argument exists: '--pools'; see --help"
        );
        let error = Cli::try_parse_from(["trino-pool-operator", "simulate", "--speed", "0"]).unwrap_err();
        assert_eq!(
            usage(&error.render().to_string()),
            "invalid value '0' for '--speed <FACTOR>': it must be a number above 0 and at most 200; see --help"
        );
    }
}
