//! The rules. Pure: no async, no clock, no client, no randomness.
//!
//! A decision is a function of (observed snapshot, durable row, configuration, now). What is unknown is
//! a value. Nothing here may name kube-rs, sqlx or reqwest; Kubernetes *objects* are k8s-openapi types.

pub mod backoff;
pub mod blueprint;
pub mod canonical;
pub mod cordon;
pub mod desired;
pub mod edited;
pub mod evidence;
pub mod floor;
pub mod health;
pub mod ids;
pub mod instance;
pub mod lifecycle;
pub mod loss;
pub mod names;
pub mod observation;
pub mod orphans;
pub mod outdated;
pub mod ownership;
pub mod phase;
pub mod placement;
pub mod plan;
pub mod protection;
pub mod protection_audit;
pub mod recovery;
pub mod settle;
pub mod status;
pub mod step;
pub mod validate;

#[cfg(test)]
pub(crate) mod testing;
