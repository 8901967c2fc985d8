//! Why there is no figure.

use std::path::PathBuf;

use trino_pool_operator::sim::world::AdminError;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No runtime.
    #[error("no runtime: {0}")]
    Runtime(std::io::Error),
    /// The world refused to be set up so.
    #[error("the world refused: {0}")]
    World(#[from] AdminError),
    /// A file or a process.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// There is no store.
    #[error("no PostgreSQL: initdb and pg_ctl are needed (or --store sqlite)")]
    NoStore,
    /// The store does not say what it was asked.
    #[error("the store does not say: {0}")]
    Store(#[from] sqlx::Error),
    /// The figures cannot be written or read.
    #[error("{0}: {1}")]
    Json(PathBuf, serde_json::Error),
    /// The operator ended.
    #[error("the operator ended before {before}; its log: {log}")]
    Ended {
        /// What was waited for.
        before: String,
        /// Where it logged.
        log: PathBuf,
    },
    /// Something did not happen in time.
    #[error("not within {seconds} s: {what}; the operator's log: {log}")]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
        /// Where it logged.
        log: PathBuf,
    },
    /// The world or a server is not as the figures assume.
    #[error("{0}")]
    Broken(String),
}

impl BenchError {
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io(path, error)
    }
}
