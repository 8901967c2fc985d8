//! Events of `v1`, the kind that `kubectl describe` and Karpenter's own use. The name is made of what is
//! said, so that saying it again counts up one Event instead of adding another.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::answer::Answer;
use super::exchange::{Content, Exchange};
use super::path::EVENTS;
use super::throttle::Lane;
use crate::cluster::port::{ClusterError, EventRecord, EventSubject};
use crate::pool::ids::Namespace;
use crate::pool::names::MANAGED_BY;

/// The longest message that the API server takes.
const MESSAGE_MAX: usize = 1_024;
/// The longest name of an object.
const NAME_MAX: usize = 253;

pub(super) async fn publish(
    exchange: &Exchange,
    event: &EventRecord,
    now: Timestamp,
) -> Result<(), ClusterError> {
    let (namespace, body) = encode(event, now);
    let path = EVENTS.all(Some(&namespace));
    let sent = exchange
        .send(Lane::Ordinary, Method::POST, &path, Some((Content::Json, &body)))
        .await?;
    let refusal = match sent {
        Answer::Success(_) => return Ok(()),
        Answer::Refused(refusal) => refusal,
    };
    if refusal.code != 409 {
        return Err(refusal.of_list(EVENTS));
    }
    let name = body
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let path = EVENTS.one(Some(&namespace), name);
    let standing = match exchange.get(Lane::Ordinary, &path).await? {
        Answer::Success(standing) => standing,
        // It expired in between; losing one is no fault.
        Answer::Refused(refusal) => return refusal.of_read(EVENTS),
    };
    let count = standing.get("count").and_then(Value::as_u64).unwrap_or(1);
    let counted = json!({
        "metadata": {"resourceVersion": standing.pointer("/metadata/resourceVersion")},
        "count": count.saturating_add(1),
        "lastTimestamp": seconds(now),
    });
    let sent = exchange
        .send(
            Lane::Ordinary,
            Method::PATCH,
            &path,
            Some((Content::MergePatch, &counted)),
        )
        .await?;
    match sent {
        Answer::Success(_) => Ok(()),
        Answer::Refused(refusal) => refusal.of_write(EVENTS).map(|_| ()),
    }
}

fn encode(event: &EventRecord, now: Timestamp) -> (Namespace, Value) {
    let (namespace, api_version, kind, name, uid) = match &event.about {
        EventSubject::Pool(namespace, name, uid) => (
            namespace.clone(),
            "trinopool.dev/v1alpha1",
            "TrinoPool",
            name.as_str(),
            uid.as_str(),
        ),
        EventSubject::Pod(namespace, name, uid) => {
            (namespace.clone(), "v1", "Pod", name.as_str(), uid.as_str())
        }
        // Events about cluster-scoped objects live in "default".
        EventSubject::Node(name, uid) => (
            Namespace::from("default"),
            "v1",
            "Node",
            name.as_str(),
            uid.as_str(),
        ),
    };
    let involved_namespace = match &event.about {
        EventSubject::Pool(namespace, ..) | EventSubject::Pod(namespace, ..) => namespace.as_str(),
        EventSubject::Node(..) => "",
    };
    let said = format!("{uid}\n{}\n{}", event.reason, event.message);
    let digest = Sha256::digest(said.as_bytes())
        .iter()
        .take(8)
        .fold(0_u64, |digest, byte| (digest << 8) | u64::from(*byte));
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{}.{digest:016x}", stem(name)), "namespace": namespace.as_str()},
        "involvedObject": {"apiVersion": api_version, "kind": kind, "namespace": involved_namespace,
            "name": name, "uid": uid},
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason,
        "message": shortened(&event.message, MESSAGE_MAX),
        "source": {"component": MANAGED_BY},
        "reportingComponent": MANAGED_BY,
        "reportingInstance": "",
        "firstTimestamp": seconds(now),
        "lastTimestamp": seconds(now),
        "count": 1,
    });
    (namespace, body)
}

/// The beginning of an object's name that leaves room for the digest; a name must not end in a mark.
fn stem(name: &str) -> &str {
    shortened(name, NAME_MAX - 17).trim_end_matches(['.', '-'])
}

fn shortened(text: &str, length: usize) -> &str {
    let mut end = text.len().min(length);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
