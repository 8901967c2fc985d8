//! Bringing a Postgres database to this binary's schema.
//!
//! Everything happens in one transaction under an advisory lock of that transaction: two starters take
//! turns, one that dies leaves nothing behind, and the wait is bounded (R03). sqlx's own lock belongs to the
//! session and is stranded by a pooler, so it is not used.

use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection, Row};
use uuid::Uuid;

use super::{failure, options};
use crate::store::port::StoreError;
use crate::store::schema::{self, Applied, Migrated, Step};
use crate::store::sql::migrations;

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// Any number, as long as it stays the same: it names the lock.
const LOCK: &str = "SET LOCAL lock_timeout = '30s'; SELECT pg_advisory_xact_lock(7305808869231650162)";

/// Migrations this binary knows.
pub(super) fn known() -> Vec<Step> {
    migrations::known(&MIGRATIONS)
}

/// What the database says of itself. Tables that are not there mean an empty database.
pub(super) async fn applied(connection: &mut PgConnection) -> Result<Applied, StoreError> {
    let tables = "SELECT to_regclass($1) IS NOT NULL";
    let mut there = [false; 2];
    for (found, table) in there
        .iter_mut()
        .zip([MIGRATIONS.table_name.as_ref(), "store_identity"])
    {
        let row = sqlx::query(tables).bind(table).fetch_one(&mut *connection).await;
        *found = row
            .and_then(|row| row.try_get(0))
            .map_err(|e| failure::classify(&e))?;
    }
    let mut applied = Applied::default();
    if there[0] {
        applied.steps = migrations::seen(connection, &MIGRATIONS)
            .await
            .map_err(|error| migrations::classify(&error, failure::classify))?;
    }
    if there[1] {
        let row = sqlx::query("SELECT id, usable_from FROM store_identity")
            .fetch_optional(connection)
            .await
            .map_err(|e| failure::classify(&e))?;
        if let Some(row) = row {
            applied.id = row.try_get(0).map_err(|e| failure::classify(&e))?;
            applied.usable_from = row.try_get(1).map_err(|e| failure::classify(&e))?;
        }
    }
    Ok(applied)
}

/// Runs the migrations that are missing, and gives a new store its UUID. A newer store that this binary may use is left alone.
///
/// # Errors
/// `Schema` when this binary must not touch it; `Unavailable` when there is no server, or when another
/// migration holds the lock for too long.
pub async fn migrate(url: &str) -> Result<Migrated, StoreError> {
    let options = options(url)?;
    migrations::within_patience(async {
        let mut connection = options
            .connect()
            .await
            .map_err(|error| failure::classify(&error))?;
        let migrated = run(&mut connection).await;
        if let Err(error) = connection.close().await {
            tracing::debug!(%error, "the connection of the migration did not close");
        }
        migrated
    })
    .await
}

async fn run(connection: &mut PgConnection) -> Result<Migrated, StoreError> {
    let database = |error: sqlx::Error| failure::classify(&error);
    let mut transaction = connection.begin().await.map_err(database)?;
    sqlx::raw_sql(LOCK)
        .execute(&mut *transaction)
        .await
        .map_err(database)?;
    let before = applied(&mut transaction).await?;
    schema::may_migrate(&before, &known())?;
    migrations::run_missing(&mut *transaction, &MIGRATIONS, &before)
        .await
        .map_err(|error| migrations::classify(&error, failure::classify))?;
    sqlx::query("INSERT INTO store_identity (one, id) VALUES (1, $1) ON CONFLICT (one) DO NOTHING")
        .bind(Uuid::new_v4().to_string())
        .execute(&mut *transaction)
        .await
        .map_err(database)?;
    transaction.commit().await.map_err(database)?;
    Ok(Migrated::after(&before, &known()))
}
