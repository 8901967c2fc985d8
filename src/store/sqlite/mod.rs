//! The store in one SQLite file: the embedded default for one replica and for `simulate`.
//!
//! Owns one connection: SQLite has one writer anyway, and a queue in this process is fairer than its busy
//! handler. Other processes (a migration beside a run) are waited for, up to a bound. What was committed
//! survives a power cut: the write-ahead log is synced at every commit.

mod failure;
mod migrate;
mod reads;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use super::port::{Connections, StoreError};
use super::rows::Found;
use super::sql::session::{Arg, Database, Reads, Session};
use super::sql::{ACQUIRE_DEADLINE, LOCK_DEADLINE, SqlStore, within};
use crate::pool::ids::StoreId;
use crate::store::schema;

pub use migrate::migrate;

/// SQLite behind the shared statements.
#[derive(Debug)]
pub struct SqliteDatabase {
    pool: SqlitePool,
    statements: Arc<AtomicU64>,
}

/// Reads `sqlite:<path>` or `sqlite://<path>`.
///
/// # Errors
/// `Unavailable` when no file is named: a store in memory would forget authority and evidence.
pub(super) fn options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.contains(":memory:") || path.contains('?') {
        return Err(StoreError::Unavailable(
            "the SQLite URL must be sqlite:<path of a file>, without parameters".into(),
        ));
    }
    Ok(SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .pragma("recursive_triggers", "ON")
        .busy_timeout(LOCK_DEADLINE))
}

/// Opens a store whose schema fits. Creates nothing.
///
/// # Errors
/// `Schema` when it does not fit or there is no file; `Unavailable` when the URL is wrong or the file
/// cannot be used.
pub async fn open(url: &str) -> Result<SqlStore<SqliteDatabase>, StoreError> {
    let options = options(url)?.create_if_missing(false);
    if !options.get_filename().exists() {
        return Err(StoreError::Schema(format!(
            "there is no file {}; run `trino-pool-operator migrate`",
            options.get_filename().display()
        )));
    }
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ACQUIRE_DEADLINE)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(options);
    let applied = within(async {
        let mut connection = pool.acquire().await.map_err(|error| failure::classify(&error))?;
        migrate::applied(&mut connection).await
    })
    .await?;
    schema::fits(&applied, &migrate::known())?;
    let id = applied
        .id
        .ok_or_else(|| StoreError::Schema("it has no identity; run `trino-pool-operator migrate`".into()))?;
    let database = SqliteDatabase {
        pool,
        statements: Arc::default(),
    };
    Ok(SqlStore::new(StoreId::new(id), database))
}

#[async_trait]
impl Database for SqliteDatabase {
    async fn begin(&self) -> Result<Box<dyn Session>, StoreError> {
        Ok(Box::new(
            session::SqliteSession::begin(&self.pool, Arc::clone(&self.statements)).await?,
        ))
    }

    async fn fetch(&self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Found>, StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        session::fetch(&self.pool, statement, args).await
    }

    async fn execute(&self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        session::execute(&self.pool, statement, args).await
    }

    fn reads(&self) -> &'static Reads {
        &reads::READS
    }

    fn connections(&self) -> Connections {
        Connections {
            open: self.pool.size(),
            idle: u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX),
            most: self.pool.options().get_max_connections(),
        }
    }

    fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }
}
