//! Events that controllers publish: hints, deduplicated, never evidence.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rand::Rng;
use serde_json::{Value, json};

use super::Turn;
use super::json as j;
use super::resource::Resource;

/// A repeated Event only counts up, and not more often than this.
const QUIET: Duration = Duration::from_mins(2);

/// Which Events exist already, by (UID, reason, message).
#[derive(Debug, Default)]
pub(super) struct Events {
    seen: BTreeMap<(String, String, String), (String, Timestamp)>,
}

impl Events {
    /// Publishes an Event of Karpenter about an object.
    pub(super) fn publish(
        &mut self,
        turn: &mut Turn<'_>,
        about: &Value,
        kind: &str,
        reason: &str,
        message: &str,
    ) {
        let namespace = match j::namespace(about) {
            "" => "default".to_owned(),
            namespace => namespace.to_owned(),
        };
        let now = turn.now;
        let key = (j::uid(about).to_owned(), reason.to_owned(), message.to_owned());
        if let Some((name, last)) = self.seen.get_mut(&key) {
            if now >= j::later(*last, QUIET) {
                *last = now;
                turn.store.edit(Resource::Events, &namespace, name, |event| {
                    let count = event.get("count").and_then(Value::as_u64).unwrap_or(0);
                    event["count"] = json!(count + 1);
                    event["lastTimestamp"] = json!(j::stamp(now));
                });
            }
            return;
        }
        let name = format!("{}.{:016x}", j::name(about), turn.rng.next_u64());
        self.seen.insert(key, (name.clone(), now));
        let event = json!({
            "count": 1,
            "eventTime": null,
            "firstTimestamp": j::stamp(now),
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": j::name(about),
                "namespace": about["metadata"].get("namespace"),
                "resourceVersion": about["metadata"]["resourceVersion"],
                "uid": j::uid(about),
            },
            "lastTimestamp": j::stamp(now),
            "message": message,
            "metadata": {"name": name},
            "reason": reason,
            "reportingComponent": "karpenter",
            "reportingInstance": "",
            "source": {"component": "karpenter"},
            "type": kind,
        });
        turn.store
            .create(Resource::Events, &namespace, event, now, turn.rng);
    }
}
