//! The operator's store, and how many statements it was asked: as the database counts them.

use std::path::Path;

use sqlx::{ConnectOptions, Connection, PgConnection, Row as _};

use crate::error::BenchError;
use crate::operator;
use crate::postgres::{self, Server};

/// Marks this bench's own statements.
const OURS: &str = "/* bench */";

/// A store for one fleet.
pub struct Store {
    url: String,
    counted: Option<(Server, String)>,
}

impl Store {
    /// A PostgreSQL of its own, or a file in `folder`.
    pub async fn begin(sqlite: bool, folder: &Path) -> Result<Self, BenchError> {
        let store = if sqlite {
            Self {
                url: format!("sqlite:{}", folder.join("store.db").display()),
                counted: None,
            }
        } else {
            let server = postgres::own().ok_or(BenchError::NoStore)?;
            let load = "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'";
            server.run("postgres", load).await;
            server.restart();
            // BEGIN and COMMIT are no statements of ours.
            let utility = "ALTER SYSTEM SET pg_stat_statements.track_utility = off";
            for statement in [
                utility,
                "SELECT pg_reload_conf()",
                "CREATE EXTENSION pg_stat_statements",
            ] {
                server.run("postgres", statement).await;
            }
            let database = server.database().await;
            Self {
                url: server.url(&database),
                counted: Some((server, database)),
            }
        };
        operator::migrate(&store.url)?;
        Ok(store)
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Statements that anybody but this bench has asked it; nothing where nobody counts them.
    pub async fn statements(&self) -> Result<Option<u64>, BenchError> {
        let Some((server, database)) = &self.counted else {
            return Ok(None);
        };
        let mut connection = server.options("postgres").connect().await?;
        let calls: i64 = sqlx::query(
            "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements AS s \
             JOIN pg_database AS d ON d.oid = s.dbid WHERE d.datname = $1 AND s.query NOT LIKE $2",
        )
        .bind(database)
        .bind(format!("%{OURS}%"))
        .fetch_one(&mut connection)
        .await?
        .try_get(0)?;
        connection.close().await?;
        Ok(Some(u64::try_from(calls).unwrap_or(0)))
    }

    /// Somebody who looks for evidence, again and again.
    pub async fn looker(&self) -> Result<Option<Looker>, BenchError> {
        let Some((server, database)) = &self.counted else {
            return Ok(None);
        };
        Ok(Some(Looker(server.options(database).connect().await?)))
    }
}

/// A connection of this bench's own.
pub struct Looker(PgConnection);

impl Looker {
    /// Whether evidence about this node is durable, whoever's instance it is.
    pub async fn evidence_of(&mut self, node_uid: &str) -> Result<bool, BenchError> {
        let seen = sqlx::query(
            "SELECT /* bench */ 1 FROM instances WHERE node_replacement_evidence ->> 'node_uid' = $1 LIMIT 1",
        )
        .bind(node_uid)
        .fetch_optional(&mut self.0)
        .await?;
        Ok(seen.is_some())
    }
}
