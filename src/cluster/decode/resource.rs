//! The TrinoPool resource and the leadership Lease.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::DecodeError;
use super::fields::{at, count, deleting, filled, list, required, time};
use crate::cluster::facts::{LeaseFacts, PoolResource};
use crate::pool::ids::{Namespace, ObjectName, ObjectUid, ResourceVersion, SpecGeneration, StoreId};
use crate::pool::names::FINALIZER;

/// A TrinoPool. Its spec is handed on as it is, `null` when absent: validating it is the rules' part.
pub fn pool(value: &Value) -> Result<PoolResource, DecodeError> {
    Ok(PoolResource {
        namespace: Namespace::from(required(value, &["metadata", "namespace"])?),
        name: ObjectName::from(required(value, &["metadata", "name"])?),
        uid: ObjectUid::from(required(value, &["metadata", "uid"])?),
        resource_version: ResourceVersion::from(
            filled(value, &["metadata", "resourceVersion"])?.unwrap_or_default(),
        ),
        generation: SpecGeneration::new(count(value, &["metadata", "generation"])?.unwrap_or(0)),
        deleting: deleting(value)?,
        finalizer: list(value, &["metadata", "finalizers"])?
            .iter()
            .any(|finalizer| finalizer.as_str() == Some(FINALIZER)),
        spec: at(value, &["spec"])?.cloned().unwrap_or(Value::Null),
        store: filled(value, &["status", "storeId"])?.map(StoreId::from),
    })
}

/// A Lease of `coordination.k8s.io/v1`. An absent duration is zero: whoever judges the lease must hold
/// it against a minimum of its own.
pub fn lease(value: &Value) -> Result<LeaseFacts, DecodeError> {
    let seconds: u32 = count(value, &["spec", "leaseDurationSeconds"])?.unwrap_or(0);
    Ok(LeaseFacts {
        resource_version: ResourceVersion::from(required(value, &["metadata", "resourceVersion"])?),
        holder: filled(value, &["spec", "holderIdentity"])?.map(str::to_owned),
        duration: Duration::from_secs(u64::from(seconds)),
        renewed_at: time(value, &["spec", "renewTime"])?,
        transitions: count(value, &["spec", "leaseTransitions"])?.unwrap_or(0),
    })
}

/// `spec` of a Lease. A released one has an empty holder; Kubernetes refuses a duration below 1 s.
#[must_use]
pub fn encode_lease_spec(lease: &LeaseFacts) -> Value {
    json!({
        "holderIdentity": lease.holder.as_deref().unwrap_or_default(),
        "leaseDurationSeconds": lease.duration.as_secs().max(1),
        "renewTime": lease.renewed_at.map(micro_time),
        "leaseTransitions": lease.transitions,
    })
}

/// `MicroTime` has exactly six digits of fraction; the API server refuses any other number of them.
pub(in crate::cluster) fn micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
