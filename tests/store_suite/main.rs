//! The store's suite: the same assertions on memory, SQLite and a real Postgres.
//!
//! Every story is a function over a [`bed::Bed`]: a fresh store, and a way to open the same rows once more.
//! What only a database has (triggers, migrations, connections) is told beside it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise, and so may its bed"
)]

#[allow(dead_code, reason = "the stories under Karpenter use more of it")]
#[path = "../support/postgres.rs"]
mod postgres;

mod authority;
mod bed;
mod connections;
mod evidence;
mod fixtures;
mod instances;
mod journal;
mod marks;
mod migrations;
mod model;
mod publishing;
mod recovery;
mod unreadable;

/// Runs each story on each store.
macro_rules! on_every_store {
    ($($story:ident),+ $(,)?) => {
        mod memory { $crate::on_one_store!(crate::bed::memory, $($story),+); }
        mod sqlite { $crate::on_one_store!(crate::bed::sqlite, $($story),+); }
        mod postgres { $crate::on_one_store!(crate::bed::postgres, $($story),+); }
    };
}

/// Runs each story that needs a database on each database.
macro_rules! on_every_database {
    ($($story:ident),+ $(,)?) => {
        mod sqlite_only { $crate::on_one_store!(crate::bed::sqlite, $($story),+); }
        mod postgres_only { $crate::on_one_store!(crate::bed::postgres, $($story),+); }
    };
}

macro_rules! on_one_store {
    ($bed:path, $($story:ident),+) => {$(
        #[tokio::test]
        async fn $story() {
            if let Some(bed) = $bed().await {
                super::$story(&bed).await;
            }
        }
    )+};
}

pub(crate) use {on_every_database, on_every_store, on_one_store};
