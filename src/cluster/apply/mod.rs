//! An instance's five objects: created or adopted under their deterministic names, and later deleted by
//! the UIDs that were recorded.
//!
//! May create, delete by UID and read through the [`Cluster`](super::port::Cluster) port. Never patches
//! or updates an object, never touches one that it cannot prove to be ours, and decides nothing about
//! *whether* to create or delete: the caller's durable row does.

mod creation;
#[cfg(test)]
mod fake;
mod removal;
#[cfg(test)]
mod tests;

pub use creation::{Expected, apply};
pub use removal::{delete_all, verify_absent};

use super::facts::ObjectKind;
use super::port::ClusterError;
use crate::pool::ids::{Namespace, ObjectName};
use crate::pool::observation::Fault;

/// "Deployment trino/cell-1a2b3c4d-worker".
fn named(kind: ObjectKind, namespace: &Namespace, name: &ObjectName) -> String {
    format!("{} {namespace}/{name}", kind.as_str())
}

fn fault(subject: String, error: &ClusterError) -> Fault {
    Fault {
        label: error.label(),
        subject,
        detail: error.to_string(),
    }
}
