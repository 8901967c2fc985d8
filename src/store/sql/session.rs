//! What the shared statements need of a database: sessions, arguments and the few texts that differ.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use crate::store::port::{Connections, StoreError};
use crate::store::rows::Found;

/// An argument of a statement. Both databases number them `$1`, `$2`, ….
#[derive(Clone, Debug)]
pub enum Arg {
    /// TEXT, or NULL.
    Text(Option<String>),
    /// BIGINT.
    Count(i64),
    /// JSON, or NULL: JSONB in Postgres, TEXT in SQLite.
    Json(Option<serde_json::Value>),
    /// A time, to the microsecond.
    Time(Timestamp),
}

impl Arg {
    /// A text.
    #[must_use]
    pub fn text(value: impl std::fmt::Display) -> Self {
        Self::Text(Some(value.to_string()))
    }

    /// A count; databases have no more than 63 bits.
    ///
    /// # Errors
    /// `Conflict` beyond that.
    pub fn count(value: u64) -> Result<Self, StoreError> {
        i64::try_from(value)
            .map(Self::Count)
            .map_err(|_| crate::store::rules::conflict(value, "beyond what a database can count"))
    }

    /// A value as JSON.
    ///
    /// # Errors
    /// `Corrupt` when the value has no JSON form.
    pub fn json(value: &impl Serialize) -> Result<Self, StoreError> {
        serde_json::to_value(value)
            .map(|value| Self::Json(Some(value)))
            .map_err(|error| StoreError::Corrupt("value".into(), error.to_string()))
    }

    /// A value as JSON, or NULL.
    ///
    /// # Errors
    /// As for [`Arg::json`].
    pub fn maybe_json(value: Option<&impl Serialize>) -> Result<Self, StoreError> {
        value.map_or(Ok(Self::Json(None)), Self::json)
    }
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything stands.
    Commit,
    /// Nothing stands, because it was refused or because there was nothing to change.
    Rollback,
}

/// One transaction that may write, on one connection. Dropped before its end, nothing stands.
#[async_trait]
pub trait Session: Send {
    /// Runs a statement; how many rows it changed.
    async fn execute(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError>;

    /// Runs a read that answers (part, document).
    async fn fetch(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Found>, StoreError>;

    /// Ends it.
    async fn end(self: Box<Self>, end: End) -> Result<(), StoreError>;
}

/// A database behind the shared statements.
#[async_trait]
pub trait Database: Send + Sync + 'static {
    /// Opens a transaction that may write.
    async fn begin(&self) -> Result<Box<dyn Session>, StoreError>;

    /// Runs one read on its own: one statement, so one consistent view.
    async fn fetch(&self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Found>, StoreError>;

    /// Runs one statement on its own; how many rows it changed.
    async fn execute(&self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError>;

    /// The texts that differ.
    fn reads(&self) -> &'static Reads;

    /// Its connections.
    fn connections(&self) -> Connections;

    /// Statements sent so far.
    fn statements(&self) -> u64;
}

/// Reads, in one database's dialect: they build documents and lock rows, which no standard covers.
#[derive(Debug)]
pub struct Reads {
    /// `$1` pool: part `fence`, its row locked until the transaction ends and its revision raised: a
    /// transaction that turns out to change nothing is rolled back, so the raise costs no statement.
    pub fence: &'static str,
    /// All pools: part `pool`.
    pub pools: &'static str,
    /// All pools: part `mark`.
    pub marks: &'static str,
    /// `$1` pool: parts `pool`, `failure`, `instance`, `node`, `step`, `recovery`.
    pub load: &'static str,
    /// `$1` instance: parts `instance`, `node`.
    pub instance: &'static str,
    /// `$1` instance, `$2` pool: part `known`, if it is there.
    pub known: &'static str,
    /// `$1` node UID: part `hold`.
    pub holds: &'static str,
    /// `$1` operation, `$2` step, `$3` instance, `$4` pool: part `context`, and `step` if it is there.
    pub step: &'static str,
    /// `$1` operation, `$2` instance, `$3` pool: parts `instance`, `recovery`, `serving`.
    pub recovery: &'static str,
}
