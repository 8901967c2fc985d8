//! From a URL to a store: the only place that knows which schemes there are.

use std::sync::Arc;

use super::port::{Store, StoreError};
use super::schema::Migrated;
use super::{postgres, sqlite};

/// Which store a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `postgres://…` or `postgresql://…`: any number of replicas.
    Postgres,
    /// `sqlite:<path>`: one replica, no leader election.
    Sqlite,
}

impl Kind {
    /// Reads the scheme of a store URL.
    ///
    /// # Errors
    /// `Unavailable`, naming the scheme at most: the rest of a URL may hold a password.
    pub fn of(url: &str) -> Result<Self, StoreError> {
        match url.split_once(':') {
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres),
            Some(("sqlite", _)) => Ok(Self::Sqlite),
            Some((scheme, rest)) if rest.starts_with("//") => Err(StoreError::Unavailable(format!(
                "a store URL starts with postgres:// or sqlite:, not {scheme}://"
            ))),
            Some(_) | None => Err(StoreError::Unavailable(
                "a store URL starts with postgres:// or sqlite:".into(),
            )),
        }
    }
}

/// Which store a URL names, as people may read it: without user, password and parameters.
#[must_use]
pub fn place(url: &str) -> String {
    if Kind::of(url) == Ok(Kind::Sqlite) {
        return url.split_once('?').map_or(url, |(path, _)| path).to_owned();
    }
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let host = match (rest.find(['?', '#']), rest.rfind('@')) {
        // A password that is not escaped, or an '@' in a parameter: nobody knows where the host is.
        (Some(parameters), Some(user)) if parameters < user => "…",
        (parameters, user) => rest
            .get(user.map_or(0, |at| at + 1)..parameters.unwrap_or(rest.len()))
            .unwrap_or("…"),
    };
    format!("{scheme}://{host}")
}

/// Opens the store a URL names, if its schema fits. Migrates nothing.
///
/// # Errors
/// `Unavailable` when the URL is wrong or nothing answers; `Schema` when the schema does not fit.
pub async fn connect(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match Kind::of(url)? {
        Kind::Postgres => Arc::new(postgres::open(url, postgres::MOST_CONNECTIONS).await?),
        Kind::Sqlite => Arc::new(sqlite::open(url).await?),
    })
}

/// Brings the store a URL names to this binary's schema.
///
/// # Errors
/// As for [`connect`], and `Schema` when this binary must not touch the store.
pub async fn migrate(url: &str) -> Result<Migrated, StoreError> {
    match Kind::of(url)? {
        Kind::Postgres => postgres::migrate(url).await,
        Kind::Sqlite => sqlite::migrate(url).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_without_its_password() {
        for (url, named) in [
            ("postgres://me:hunter2@db:5432/x", "postgres://db:5432/x"),
            ("postgres://me:hun@ter2@db/x?sslmode=require", "postgres://db/x"),
            ("postgres://db/x?password=hunter2", "postgres://db/x"),
            ("postgres:me:hunter2@db/x", "postgres://db/x"),
            ("postgres://me:hun?ter2@db/x", "postgres://…"),
            ("postgres://db/x?password=hun@ter2", "postgres://…"),
            ("postgres://me:hun#ter2@db/x", "postgres://…"),
            ("postgresql:///x?host=/run/postgresql", "postgresql:///x"),
            ("sqlite:/var/lib/pools.db", "sqlite:/var/lib/pools.db"),
            ("sqlite:/var/lib/a@b.db?mode=ro", "sqlite:/var/lib/a@b.db"),
        ] {
            assert_eq!(place(url), named);
        }
    }

    #[tokio::test]
    async fn a_wrong_url_says_what_is_wrong_and_never_the_password() {
        for url in [
            "mysql://me:hunter2@db/x",
            "me:hunter2@db",
            "postgres://me:hunter2@db:notaport/x",
            "postgres://me:hunter2@db/x?sslmode=sideways",
            "sqlite::memory:",
            "sqlite:",
            "",
        ] {
            let Err(error) = connect(url).await else {
                panic!("{url} was accepted")
            };
            assert!(!error.to_string().contains("hunter2"), "{error}");
            assert!(
                error.to_string().contains("URL") || error.to_string().contains("url"),
                "{error}"
            );
        }
    }
}
