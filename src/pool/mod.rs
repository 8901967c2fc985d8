//! The rules. Pure: no async, no clock, no client, no randomness.
//!
//! A decision is a function of (observed snapshot, durable row, configuration, now). What is unknown is
//! a value. Nothing here may name kube-rs, sqlx or reqwest; Kubernetes *objects* are k8s-openapi types.

pub mod desired;
pub mod evidence;
pub mod ids;
pub mod instance;
pub mod observation;
pub mod phase;
pub mod step;
