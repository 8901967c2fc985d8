//! What an error of Postgres means for the caller, by SQLSTATE (Postgres appendix A).

use crate::store::port::StoreError;

/// What the caller can do about it. Anything not known for sure is `Unavailable`: the outcome of a commit
/// that met it is unknown.
pub(super) fn classify(error: &sqlx::Error) -> StoreError {
    let sqlx::Error::Database(refusal) = error else {
        return StoreError::Unavailable(error.to_string());
    };
    let message = refusal.message().to_owned();
    let code = refusal.code().unwrap_or_default();
    match code.as_ref() {
        // read_only_sql_transaction
        "25006" => StoreError::ReadOnly(message),
        // restrict_violation (raised by our triggers), insufficient_privilege
        "23001" | "42501" => StoreError::Forbidden(message),
        // undefined_table, undefined_column, undefined_function
        "42P01" | "42703" | "42883" => StoreError::Schema(message),
        // unique, foreign key, check, not null
        "23505" | "23503" | "23514" | "23502" => {
            StoreError::Conflict(refusal.constraint().unwrap_or("row").to_owned(), message)
        }
        // data exceptions: a value that the database cannot hold
        other if other.starts_with("22") => StoreError::Corrupt("value".to_owned(), message),
        other => StoreError::Unavailable(format!("{message} (SQLSTATE {other})")),
    }
}

/// Whether the error says that this server, or the way to it, is no longer the one to use (R04): read-only,
/// shutting down (57P01, 57P02, 57P03), connection failures (class 08), or no answer at all.
pub(super) fn is_about_the_server(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(refusal) => {
            let code = refusal.code().unwrap_or_default();
            code == "25006" || code.starts_with("57P0") || code.starts_with("08")
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            true
        }
        _ => false,
    }
}
