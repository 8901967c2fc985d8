//! The part of migrating that both databases share.
//!
//! The caller holds a transaction and, within it, a lock: sqlx's own lock is one of the session, which a
//! pooler strands (R03), so sqlx's `Migrator::run` is not used.

use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migrator};

use crate::store::port::StoreError;
use crate::store::schema::{Applied, Migrated, Step};

/// How long a whole migration may take; cut off, it leaves nothing behind.
const PATIENCE: Duration = Duration::from_mins(2);

/// The migration's result, or `Unavailable` when it takes too long.
pub(in crate::store) async fn within_patience(
    migration: impl Future<Output = Result<Migrated, StoreError>>,
) -> Result<Migrated, StoreError> {
    tokio::time::timeout(PATIENCE, migration)
        .await
        .unwrap_or_else(|_| {
            let seconds = PATIENCE.as_secs();
            Err(StoreError::Unavailable(format!("no answer within {seconds} s")))
        })
}

/// Why a migration failed; `database` tells a database's own errors apart.
pub(in crate::store) fn classify(
    error: &MigrateError,
    database: impl Fn(&sqlx::Error) -> StoreError,
) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => database(error),
        other => StoreError::Schema(other.to_string()),
    }
}

/// Migrations a binary knows.
pub(in crate::store) fn known(migrator: &Migrator) -> Vec<Step> {
    migrator
        .iter()
        .map(|migration| Step {
            version: migration.version,
            checksum: migration.checksum.to_vec(),
        })
        .collect()
}

/// Migrations a database has seen; its table of them must be there.
pub(in crate::store) async fn seen<C: Migrate>(
    connection: &mut C,
    migrator: &Migrator,
) -> Result<Vec<Step>, MigrateError> {
    let steps = connection.list_applied_migrations(&migrator.table_name).await?;
    Ok(steps
        .into_iter()
        .map(|step| Step {
            version: step.version,
            checksum: step.checksum.to_vec(),
        })
        .collect())
}

/// Runs what is missing, in order.
pub(in crate::store) async fn run_missing<C: Migrate>(
    connection: &mut C,
    migrator: &Migrator,
    applied: &Applied,
) -> Result<(), MigrateError> {
    connection.ensure_migrations_table(&migrator.table_name).await?;
    for migration in migrator.iter() {
        let ran = applied.steps.iter().any(|step| step.version == migration.version);
        if !ran {
            connection.apply(&migrator.table_name, migration).await?;
        }
    }
    Ok(())
}
