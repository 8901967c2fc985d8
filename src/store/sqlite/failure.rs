//! What an error of SQLite means for the caller, by its (extended) result code (sqlite.org/rescode.html).

use crate::store::port::StoreError;

/// What the caller can do about it.
pub(super) fn classify(error: &sqlx::Error) -> StoreError {
    let sqlx::Error::Database(refusal) = error else {
        return StoreError::Unavailable(error.to_string());
    };
    let message = refusal.message().to_owned();
    let extended: u32 = refusal
        .code()
        .and_then(|code| code.parse().ok())
        .unwrap_or_default();
    match (extended & 0xff, extended) {
        // SQLITE_READONLY
        (8, _) => StoreError::ReadOnly(message),
        // SQLITE_CONSTRAINT_TRIGGER: raised by our triggers
        (_, 1811) => StoreError::Forbidden(message),
        // SQLITE_CONSTRAINT
        (19, _) => StoreError::Conflict("row".to_owned(), message),
        // SQLITE_ERROR: a statement that this schema has no table or column for
        (1, _) => StoreError::Schema(message),
        // SQLITE_CORRUPT, SQLITE_NOTADB
        (11 | 26, _) => StoreError::Corrupt("file".to_owned(), message),
        // SQLITE_BUSY, SQLITE_IOERR, SQLITE_FULL, SQLITE_CANTOPEN and whatever else
        (_, code) => StoreError::Unavailable(format!("{message} (SQLite {code})")),
    }
}
