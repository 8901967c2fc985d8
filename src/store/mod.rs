//! What survives this process: pools, instances, the journal, evidence and recoveries.
//!
//! Durable: everything a successor needs to go on exactly where a leader died. Deliberately not
//! durable: suspicion before the gateway is told, inventory snapshots, backoff of reads, metrics; they are
//! re-derived from the world. Every write is fenced by (pool, owner, epoch) under a row lock in one
//! transaction.

pub mod measured;
pub mod memory;
pub mod open;
pub mod port;
pub mod postgres;
mod rows;
pub mod rules;
pub mod schema;
pub mod sql;
pub mod sqlite;

pub use open::{Kind, connect, migrate};
