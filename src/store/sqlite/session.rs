//! One transaction of the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteExecutor, SqlitePool};
use sqlx::{Row, Sqlite, Transaction};

use super::failure;
use crate::store::port::StoreError;
use crate::store::rows::Found;
use crate::store::sql::session::{Arg, End, Session};

/// A transaction that holds the file's write lock; dropped, it is rolled back.
pub(super) struct SqliteSession {
    transaction: Transaction<'static, Sqlite>,
    statements: Arc<AtomicU64>,
}

impl SqliteSession {
    /// Takes the write lock at once, so that two writers never find out halfway (SQLITE_BUSY on upgrade).
    pub(super) async fn begin(pool: &SqlitePool, statements: Arc<AtomicU64>) -> Result<Self, StoreError> {
        statements.fetch_add(1, Ordering::Relaxed);
        let transaction = pool
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(|error| failure::classify(&error))?;
        Ok(Self {
            transaction,
            statements,
        })
    }
}

#[async_trait]
impl Session for SqliteSession {
    async fn execute(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        execute(&mut *self.transaction, statement, args).await
    }

    async fn fetch(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Found>, StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        fetch(&mut *self.transaction, statement, args).await
    }

    async fn end(self: Box<Self>, end: End) -> Result<(), StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        let ended = match end {
            End::Commit => self.transaction.commit().await,
            End::Rollback => self.transaction.rollback().await,
        };
        ended.map_err(|error| failure::classify(&error))
    }
}

pub(super) async fn execute<'e>(
    executor: impl SqliteExecutor<'e>,
    statement: &'static str,
    args: Vec<Arg>,
) -> Result<u64, StoreError> {
    let done = bound(statement, args).execute(executor).await;
    done.map(|done| done.rows_affected())
        .map_err(|error| failure::classify(&error))
}

pub(super) async fn fetch<'e>(
    executor: impl SqliteExecutor<'e>,
    statement: &'static str,
    args: Vec<Arg>,
) -> Result<Vec<Found>, StoreError> {
    let rows = bound(statement, args)
        .fetch_all(executor)
        .await
        .map_err(|error| failure::classify(&error))?;
    rows.iter()
        .map(|row| {
            Ok(Found {
                part: row.try_get(0)?,
                document: row.try_get(1)?,
            })
        })
        .collect::<Result<_, sqlx::Error>>()
        .map_err(|error| failure::classify(&error))
}

fn bound(statement: &'static str, args: Vec<Arg>) -> Query<'static, Sqlite, SqliteArguments> {
    args.into_iter()
        .fold(sqlx::query(statement), |query, arg| match arg {
            Arg::Text(text) => query.bind(text),
            Arg::Count(count) => query.bind(count),
            Arg::Json(value) => query.bind(value.map(|value| value.to_string())),
            // Six decimals, so that the order of the texts is the order of the times.
            Arg::Time(time) => query.bind(format!("{time:.6}")),
        })
}
