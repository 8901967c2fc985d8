//! A fresh store for one test, and what a database offers beside the trait.

use std::sync::Arc;

use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use trino_pool_operator::store::memory::MemoryStore;
use trino_pool_operator::store::port::{Store, StoreError};
use trino_pool_operator::store::{connect, migrate};

use crate::postgres;

/// A fresh store.
pub struct Bed {
    /// The store.
    pub store: Arc<dyn Store>,
    database: Option<Database>,
}

/// The database beneath.
pub enum Database {
    /// A file in a directory of its own.
    Sqlite(tempfile::TempDir),
    /// A database of the shared server.
    Postgres(&'static postgres::Server, String),
}

/// A connection beside the store's, to do what the store never would.
pub enum Raw {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

#[allow(clippy::unused_async, reason = "the other stores wait for theirs")]
pub async fn memory() -> Option<Bed> {
    Some(Bed {
        store: Arc::new(MemoryStore::new("memory".into())),
        database: None,
    })
}

pub async fn sqlite() -> Option<Bed> {
    Some(Bed::migrated(Database::sqlite()).await)
}

pub async fn postgres() -> Option<Bed> {
    Some(Bed::migrated(Database::postgres().await?).await)
}

impl Database {
    /// An empty one.
    pub fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// An empty one, if this machine has a Postgres.
    pub async fn postgres() -> Option<Self> {
        let server = postgres::shared()?;
        Some(Self::Postgres(server, server.database().await))
    }

    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(directory) => format!("sqlite:{}", directory.path().join("store.db").display()),
            Self::Postgres(server, name) => server.url(name),
        }
    }

    pub async fn raw(&self) -> Raw {
        match self {
            Self::Sqlite(directory) => Raw::Sqlite(
                SqliteConnectOptions::new()
                    .filename(directory.path().join("store.db"))
                    .create_if_missing(true)
                    .foreign_keys(true)
                    .connect()
                    .await
                    .unwrap(),
            ),
            Self::Postgres(server, name) => Raw::Postgres(server.options(name).connect().await.unwrap()),
        }
    }
}

impl Bed {
    async fn migrated(database: Database) -> Self {
        migrate(&database.url()).await.unwrap();
        Self {
            store: connect(&database.url()).await.unwrap(),
            database: Some(database),
        }
    }

    /// The same rows, opened once more as a successor would; memory has no successor.
    pub async fn reopened(&self) -> Arc<dyn Store> {
        match &self.database {
            Some(database) => connect(&database.url()).await.unwrap(),
            None => Arc::clone(&self.store),
        }
    }

    /// Tries to open the same rows once more.
    pub async fn reopen(&self) -> Result<Arc<dyn Store>, StoreError> {
        connect(&self.database().url()).await
    }

    pub fn database(&self) -> &Database {
        self.database.as_ref().expect("a story of databases")
    }

    /// Runs statements beside the store, which must succeed.
    pub async fn sql(&self, statements: &str) {
        self.database().raw().await.run(statements).await.unwrap();
    }

    /// Runs a statement beside the store; what the database says against it.
    pub async fn refused(&self, statement: &str) -> String {
        let ran = self.database().raw().await.run(statement).await;
        ran.expect_err(statement).to_string()
    }
}

impl Raw {
    pub async fn run(&mut self, statements: &str) -> Result<(), sqlx::Error> {
        let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
        match self {
            Self::Sqlite(connection) => statements.execute(connection).await.map(|_| ()),
            Self::Postgres(connection) => statements.execute(connection).await.map(|_| ()),
        }
    }

    /// Runs our migrations up to and including `version`.
    pub async fn migrate_to(&mut self, version: i64) {
        match self {
            Self::Sqlite(connection) => {
                sqlx::migrate!("migrations/sqlite")
                    .run_to(version, connection)
                    .await
            }
            Self::Postgres(connection) => {
                sqlx::migrate!("migrations/postgres")
                    .run_to(version, connection)
                    .await
            }
        }
        .unwrap();
    }

    pub async fn close(self) {
        match self {
            Self::Sqlite(connection) => connection.close().await,
            Self::Postgres(connection) => connection.close().await,
        }
        .unwrap();
    }
}
