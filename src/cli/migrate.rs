//! `migrate`: brings a store's schema up to date, once, before a new version runs.

use std::process::ExitCode;

use super::args::MigrateArgs;
use super::error::CliError;
use super::output;
use crate::store::open::{Kind, migrate, place};
use crate::telemetry::logging::install;

/// Runs the command to its exit status.
pub async fn command(args: &MigrateArgs) -> Result<ExitCode, CliError> {
    Kind::of(&args.store).map_err(CliError::of_store_url)?;
    install(args.logging.log_format, &args.logging.log)?;
    let refused = |error| CliError::Store(place(&args.store), error);
    let done = migrate(&args.store).await.map_err(refused)?;
    output::line(&if done.from == done.to {
        format!("the store is up to date (schema version {})", done.to)
    } else {
        format!(
            "the store is migrated from schema version {} to {}",
            done.from, done.to
        )
    });
    Ok(ExitCode::SUCCESS)
}
