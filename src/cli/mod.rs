//! The command line.

/// Parses the command line and runs it; the exit status of the process.
#[must_use]
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
