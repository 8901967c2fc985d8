//! One connection of the pool in use.
//!
//! A connection goes back to the pool only after its work ended in a known way. After an error that says
//! something about the server or the wire, and when a call is cut off in the middle, it is closed instead:
//! the server then rolls back what was open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::encode::{Encode, IsNull};
use sqlx::pool::PoolConnection;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgTypeInfo};
use sqlx::query::Query;
use sqlx::types::Json;
use sqlx::{Postgres, Row};

use super::failure;
use crate::store::port::StoreError;
use crate::store::rows::Found;
use crate::store::sql::session::{Arg, End, Session};

/// All limits are the server's own, so that no lock outlives a process that was stopped in the middle
/// (O05); `SET LOCAL` ends with the transaction, which a pooler in transaction mode respects. They equal
/// `sql::LOCK_DEADLINE` and `sql::DEADLINE`.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL lock_timeout = '4s';
    SET LOCAL statement_timeout = '8s';
    SET LOCAL idle_in_transaction_session_timeout = '8s'";

/// When the server was last found to be no longer the one to write to: connections opened before are
/// closed instead of used again (R04).
#[derive(Clone, Debug, Default)]
pub(super) struct Distrust(Arc<Mutex<Option<Instant>>>);

impl Distrust {
    fn raise(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a connection of this age was opened after the last doubt.
    pub(super) fn trusts(&self, age: Duration) -> bool {
        let doubted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        doubted.is_none_or(|at| opened_since(at.elapsed(), age))
    }
}

fn opened_since(since_doubt: Duration, age: Duration) -> bool {
    age < since_doubt
}

/// A connection and whether it may be used again.
pub(super) struct PgSession {
    connection: PoolConnection<Postgres>,
    statements: Arc<AtomicU64>,
    distrust: Distrust,
    clean: bool,
}

impl Drop for PgSession {
    fn drop(&mut self) {
        if !self.clean {
            self.connection.close_on_drop();
        }
    }
}

impl PgSession {
    pub(super) const fn new(
        connection: PoolConnection<Postgres>,
        statements: Arc<AtomicU64>,
        distrust: Distrust,
    ) -> Self {
        Self {
            connection,
            statements,
            distrust,
            clean: false,
        }
    }

    /// The connection may be used again.
    pub(super) fn release(mut self) {
        self.clean = true;
    }

    pub(super) async fn begin(&mut self) -> Result<(), StoreError> {
        self.plain(BEGIN).await
    }

    async fn plain(&mut self, statement: &'static str) -> Result<(), StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        let sent = sqlx::raw_sql(statement).execute(&mut *self.connection).await;
        sent.map(|_| ()).map_err(|error| self.refuse(&error))
    }

    fn refuse(&self, error: &sqlx::Error) -> StoreError {
        if failure::is_about_the_server(error) {
            self.distrust.raise();
        }
        failure::classify(error)
    }
}

#[async_trait]
impl Session for PgSession {
    async fn execute(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        let sent = bound(statement, args).execute(&mut *self.connection).await;
        sent.map(|done| done.rows_affected())
            .map_err(|error| self.refuse(&error))
    }

    async fn fetch(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Found>, StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        let rows = bound(statement, args)
            .fetch_all(&mut *self.connection)
            .await
            .map_err(|error| self.refuse(&error))?;
        rows.iter()
            .map(|row| {
                Ok(Found {
                    part: row.try_get(0)?,
                    document: row.try_get(1)?,
                })
            })
            .collect::<Result<_, sqlx::Error>>()
            .map_err(|error| self.refuse(&error))
    }

    async fn end(mut self: Box<Self>, end: End) -> Result<(), StoreError> {
        self.plain(match end {
            End::Commit => "COMMIT",
            End::Rollback => "ROLLBACK",
        })
        .await?;
        self.release();
        Ok(())
    }
}

fn bound(statement: &'static str, args: Vec<Arg>) -> Query<'static, Postgres, PgArguments> {
    args.into_iter()
        .fold(sqlx::query(statement), |query, arg| match arg {
            Arg::Text(text) => query.bind(text),
            Arg::Count(count) => query.bind(count),
            Arg::Json(value) => query.bind(value.map(Json)),
            Arg::Time(time) => query.bind(Timestamptz(time)),
        })
}

/// TIMESTAMPTZ on the wire: microseconds since 2000-01-01 UTC (Postgres src/include/datatype/timestamp.h).
struct Timestamptz(Timestamp);

impl sqlx::Type<Postgres> for Timestamptz {
    fn type_info() -> PgTypeInfo {
        /// TIMESTAMPTZOID in Postgres src/include/catalog/pg_type.dat.
        const TIMESTAMPTZ: Oid = Oid(1184);
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl Encode<'_, Postgres> for Timestamptz {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, sqlx::error::BoxDynError> {
        const EPOCH_2000: i64 = 946_684_800_000_000;
        Encode::<Postgres>::encode(self.0.as_microsecond() - EPOCH_2000, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r04_only_connections_opened_after_the_doubt_are_trusted() {
        let minute = Duration::from_mins(1);
        assert!(opened_since(minute * 2, minute));
        assert!(!opened_since(minute, minute * 2));
        assert!(!opened_since(minute, minute));
        let distrust = Distrust::default();
        assert!(distrust.trusts(minute));
        distrust.raise();
        assert!(!distrust.trusts(Duration::from_hours(1)));
    }
}
