//! Our own objects and what lies between a Deployment and its pods.

use serde_json::Value;

use super::DecodeError;
use super::fields::{count, deleting, filled, owners, required, texts};
use crate::cluster::facts::{DeploymentFacts, ObjectFacts, ObjectKind, ReplicaSetFacts};
use crate::pool::ids::{Namespace, ObjectName, ObjectUid, ResourceVersion};

/// Metadata of an object of the given kind: items of a list do not name their kind.
pub fn object(kind: ObjectKind, value: &Value) -> Result<ObjectFacts, DecodeError> {
    Ok(ObjectFacts {
        kind,
        namespace: Namespace::from(required(value, &["metadata", "namespace"])?),
        name: ObjectName::from(required(value, &["metadata", "name"])?),
        uid: ObjectUid::from(required(value, &["metadata", "uid"])?),
        resource_version: ResourceVersion::from(
            filled(value, &["metadata", "resourceVersion"])?.unwrap_or_default(),
        ),
        labels: texts(value, &["metadata", "labels"])?,
        annotations: texts(value, &["metadata", "annotations"])?,
        deleting: deleting(value)?,
    })
}

/// A Deployment.
pub fn deployment(value: &Value) -> Result<DeploymentFacts, DecodeError> {
    Ok(DeploymentFacts {
        object: object(ObjectKind::Deployment, value)?,
        replicas: count(value, &["spec", "replicas"])?,
        ready: count(value, &["status", "readyReplicas"])?.unwrap_or(0),
        generation: count(value, &["metadata", "generation"])?.unwrap_or(0),
    })
}

/// A ReplicaSet.
pub fn replica_set(value: &Value) -> Result<ReplicaSetFacts, DecodeError> {
    Ok(ReplicaSetFacts {
        name: ObjectName::from(required(value, &["metadata", "name"])?),
        uid: ObjectUid::from(required(value, &["metadata", "uid"])?),
        owners: owners(value)?,
        // The API server fills in 1.
        wanted: count(value, &["spec", "replicas"])?.unwrap_or(1),
    })
}
