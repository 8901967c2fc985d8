//! Nodes and NodeClaims.

use serde_json::Value;

use super::DecodeError;
use super::conditions::Conditions;
use super::fields::{annotation, at, deleting, filled, flag, list, owners, required, text, time};
use super::go_duration::parse_go_duration;
use crate::cluster::facts::{ClaimFacts, Grace, NodeFacts, Taint};
use crate::pool::ids::{ClaimName, ClaimUid, NodeName, NodeUid, ProviderId, ResourceVersion};
use crate::pool::names::ANNOTATION_NODE_REPLACEMENT;

/// When protected pods will be ended (kubernetes-sigs/karpenter pkg/apis/v1/labels.go).
const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// A Node.
pub fn node(value: &Value) -> Result<NodeFacts, DecodeError> {
    Ok(NodeFacts {
        name: NodeName::from(required(value, &["metadata", "name"])?),
        uid: NodeUid::from(required(value, &["metadata", "uid"])?),
        resource_version: ResourceVersion::from(
            filled(value, &["metadata", "resourceVersion"])?.unwrap_or_default(),
        ),
        created_at: time(value, &["metadata", "creationTimestamp"])?,
        deleting: deleting(value)?,
        owners: owners(value)?,
        provider_id: filled(value, &["spec", "providerID"])?.map(ProviderId::from),
        unschedulable: flag(value, &["spec", "unschedulable"])?,
        taints: list(value, &["spec", "taints"])?
            .iter()
            .map(taint)
            .collect::<Result<_, _>>()?,
        cordon_mark: annotation(value, ANNOTATION_NODE_REPLACEMENT)?.map(str::to_owned),
        ready: Conditions::of(value)?.is_true("Ready"),
    })
}

fn taint(value: &Value) -> Result<Taint, DecodeError> {
    let part = |key: &str| text(value, &[key]).map(|text| text.unwrap_or_default().to_owned());
    Ok(Taint {
        key: part("key")?,
        value: part("value")?,
        effect: part("effect")?,
    })
}

/// A NodeClaim of `karpenter.sh/v1`, projected: nothing else of the object is kept.
pub fn claim(value: &Value) -> Result<ClaimFacts, DecodeError> {
    let conditions = Conditions::of(value)?;
    Ok(ClaimFacts {
        name: ClaimName::from(required(value, &["metadata", "name"])?),
        uid: ClaimUid::from(required(value, &["metadata", "uid"])?),
        deleted_at: time(value, &["metadata", "deletionTimestamp"])?,
        node: filled(value, &["status", "nodeName"])?.map(NodeName::from),
        provider_id: filled(value, &["status", "providerID"])?.map(ProviderId::from),
        drifted: conditions.when_true("Drifted"),
        disruption: conditions.when_true("DisruptionReason"),
        ambiguous: conditions.is_false_because("Registered", "MultipleNodesFound"),
        grace: grace(value)?,
        // Karpenter itself ignores a malformed one: then the deadline is unknown, not the claim.
        termination_at: annotation(value, TERMINATION_TIMESTAMP)?.and_then(|text| text.parse().ok()),
    })
}

fn grace(claim: &Value) -> Result<Grace, DecodeError> {
    Ok(match at(claim, &["spec", "terminationGracePeriod"])? {
        None => Grace::Unlimited,
        Some(Value::String(text)) => match parse_go_duration(text) {
            Some(duration) => Grace::Finite(duration),
            None => Grace::Unreadable(text.clone()),
        },
        Some(other) => Grace::Unreadable(other.to_string()),
    })
}
