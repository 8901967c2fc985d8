//! Keeps many pools of Trino instances serving while Karpenter replaces the nodes beneath them.
//!
//! ```text
//!   pool/   the rules: pure, no clock, no I/O ── decided by ──┐
//!                                                             │
//!   actors/ Supervisor ─┬─ NodeClaimInventory                 │
//!                       └─ PoolActor ── InstanceActor ── effects through the ports:
//!                              │                          cluster/  Kubernetes
//!                              └─ the only writer ──────▶ store/    durable rows and journal
//!                                                         gateway/  the pooled-member protocol
//!                                                         trino/    a coordinator's own HTTP API
//! ```
//!
//! Nothing outside an adapter names a kube-rs, sqlx or reqwest type. `sim/` is a second, simulated
//! world behind the same ports and behind real HTTP servers.

pub mod actors;
pub mod admin;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod gateway;
pub mod pool;
pub mod sim;
pub mod store;
pub mod telemetry;
pub mod transport;
pub mod trino;
