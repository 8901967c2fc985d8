//! The store on Postgres.
//!
//! Owns a pool of connections. Works behind a pooler in transaction mode (R03): no session lock, no
//! session setting, every write inside one explicit transaction; a pooler that does not track prepared
//! statements needs `?statement-cache-capacity=0` in the URL. A server that was demoted (R04), or says that it is
//! going away, loses every connection opened before it said so.

mod failure;
mod migrate;
mod reads;
mod session;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres};

use super::port::{Connections, StoreError};
use super::rows::Found;
use super::sql::session::{Arg, Database, Reads, Session};
use super::sql::{ACQUIRE_DEADLINE, SqlStore, within};
use crate::pool::ids::StoreId;
use crate::store::schema;

pub use migrate::migrate;

/// Connections a process may hold unless it says otherwise: pools tick together, and a commit is short.
pub const MOST_CONNECTIONS: u32 = 8;
/// An idle connection older than this is asked whether it still lives before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// Postgres behind the shared statements.
#[derive(Debug)]
pub struct PostgresDatabase {
    pool: PgPool,
    statements: Arc<AtomicU64>,
    distrust: session::Distrust,
}

/// Reads a URL of the form `postgres://user@host:port/database?parameter=value`.
///
/// # Errors
/// `Unavailable`, naming what is wrong without the URL, which holds a password.
pub(super) fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| StoreError::Unavailable(format!("the Postgres URL cannot be read: {error}")))?;
    Ok(options.application_name("trino-pool-operator"))
}

/// Opens a store whose schema fits.
///
/// # Errors
/// `Schema` when it does not; `Unavailable` when there is no server or the URL is wrong.
pub async fn open(url: &str, most_connections: u32) -> Result<SqlStore<PostgresDatabase>, StoreError> {
    let distrust = session::Distrust::default();
    let guard = distrust.clone();
    let pool = PgPoolOptions::new()
        .max_connections(most_connections)
        .acquire_timeout(ACQUIRE_DEADLINE)
        .test_before_acquire(false)
        .before_acquire(move |connection, meta| {
            let trusted = guard.trusts(meta.age);
            Box::pin(async move {
                if trusted && meta.idle_for > TRUSTED_IDLE {
                    connection.ping().await?;
                }
                Ok(trusted)
            })
        })
        .connect_lazy_with(options(url)?);
    let database = PostgresDatabase {
        pool,
        statements: Arc::default(),
        distrust,
    };
    let applied = within(async {
        let mut connection = database.acquire().await?;
        migrate::applied(&mut connection).await
    })
    .await?;
    schema::fits(&applied, &migrate::known())?;
    let id = applied
        .id
        .ok_or_else(|| StoreError::Schema("it has no identity; run `trino-pool-operator migrate`".into()))?;
    Ok(SqlStore::new(StoreId::new(id), database))
}

impl PostgresDatabase {
    async fn acquire(&self) -> Result<sqlx::pool::PoolConnection<Postgres>, StoreError> {
        self.pool.acquire().await.map_err(|error| {
            if matches!(error, sqlx::Error::PoolTimedOut) {
                let Connections { open, idle, most } = self.connections();
                return StoreError::Unavailable(format!(
                    "no connection within {} s ({open} open, {idle} idle, at most {most})",
                    ACQUIRE_DEADLINE.as_secs()
                ));
            }
            failure::classify(&error)
        })
    }

    async fn session(&self) -> Result<session::PgSession, StoreError> {
        let connection = self.acquire().await?;
        Ok(session::PgSession::new(
            connection,
            Arc::clone(&self.statements),
            self.distrust.clone(),
        ))
    }
}

#[async_trait]
impl Database for PostgresDatabase {
    async fn begin(&self) -> Result<Box<dyn Session>, StoreError> {
        let mut session = self.session().await?;
        session.begin().await?;
        Ok(Box::new(session))
    }

    async fn fetch(&self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Found>, StoreError> {
        let mut session = self.session().await?;
        let found = Session::fetch(&mut session, statement, args).await?;
        session.release();
        Ok(found)
    }

    async fn execute(&self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        let mut session = self.session().await?;
        let changed = Session::execute(&mut session, statement, args).await?;
        session.release();
        Ok(changed)
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
