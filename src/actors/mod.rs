//! Who talks to whom. The rules are in `pool/`; here they are asked, and their answers performed.
//!
//! ```text
//!   Supervisor ─┬─ NodeClaimInventory      one per process: one refresh per tick, one snapshot for all pools
//!               ├─ PoolActor "analytics" ─┬─ InstanceActor cell-1a2b3c4d
//!               │                         └─ InstanceActor cell-5e6f7a8b
//!               └─ PoolActor "adhoc"     ─── InstanceActor …
//! ```
//!
//! - `supervisor` holds leadership and the tick; starts, restarts and stops the pools.
//! - `pool` is the only writer of its pool's rows: it decides by the rules and journals.
//! - `instance` performs: it reads the world and acts on it for one instance, and answers.
//! - `inventory` lists NodeClaims once per tick, for everybody.
//! - `leadership` decides by one Lease which process runs at all. It fences nothing: the epoch does.
//!
//! Messages are plain data (`messages`). No actor has a name, so a respawn never meets the name of its
//! predecessor, and none does anything in `post_stop`: whatever a dead actor left undone is derived
//! again from the store and the world.

mod effects;
mod faults;
mod inspect;
pub mod instance;
pub mod inventory;
pub mod leadership;
pub mod messages;
pub mod pool;
pub mod ports;
pub mod status;
pub mod supervisor;

pub use ports::{LeaseSettings, Ports, Settings};
pub use status::ProcessStatus;
pub use supervisor::{Handle, StartError, start};
