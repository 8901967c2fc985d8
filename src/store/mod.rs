//! What survives this process: pools, instances, the journal, evidence and recoveries.
//!
//! Durable: everything a successor needs to go on exactly where a leader died. Deliberately not
//! durable: suspicion before the gateway is told, inventory snapshots, backoff of reads, metrics; they are
//! re-derived from the world. Every write is fenced by (pool, owner, epoch) under a row lock in one
//! transaction.

pub mod memory;
pub mod port;
pub mod rules;
