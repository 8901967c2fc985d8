//! Where log lines go: standard error, as text for people or JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// One line of text each.
    #[default]
    Text,
    /// One JSON object each.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter does not parse.
    #[error(
        "the log filter '{filter}' is not valid: {problem}; use for example info or trino_pool_operator=debug"
    )]
    Filter {
        /// As given.
        filter: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Somebody else set a subscriber already.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Installs the process's subscriber. `filter` is a tracing directive such as `info`.
///
/// kube's client logs every failed request as an error of its own; whoever asked logs it already, in context.
/// It is heard only when the filter names it.
pub fn install(format: LogFormat, filter: &str) -> Result<(), LoggingError> {
    let quiet = if filter.contains("kube_client") {
        filter.to_owned()
    } else {
        format!("{filter},kube_client=off")
    };
    let directives = EnvFilter::try_new(quiet).map_err(|error| LoggingError::Filter {
        filter: filter.to_owned(),
        problem: error.to_string(),
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(directives)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(|_| LoggingError::AlreadySet)
}
