//! What one user asked of the API server, from the server's own audit log.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

/// HTTP status of what RBAC refuses.
pub const FORBIDDEN: u64 = 403;

/// One request that the server answered.
pub struct Asked {
    /// When the server received it.
    pub at: Timestamp,
    pub verb: String,
    /// With its subresource and group: `pods`, `trinopools/status.trinopool.dev`.
    pub resource: String,
    pub name: String,
    /// HTTP status.
    pub code: u64,
    /// The body, for what makes or changes something.
    pub body: Value,
}

impl Asked {
    fn of(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reference = &event["objectRef"];
        let mut resource = text(&reference["resource"]);
        for (separator, part) in [("/", "subresource"), (".", "apiGroup")] {
            let part = text(&reference[part]);
            if !part.is_empty() {
                resource.push_str(separator);
                resource.push_str(&part);
            }
        }
        Self {
            at: text(&event["requestReceivedTimestamp"]).parse().unwrap(),
            verb: text(&event["verb"]),
            resource,
            name: text(&reference["name"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            body: event["requestObject"].clone(),
        }
    }

    /// As RBAC sees it: `patch pods`.
    pub fn kind(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }
}

/// Everything that users asked for whose name ends so, in the log's order.
pub fn of(log: &Path, user: &str) -> Vec<Asked> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        // Most lines are about somebody else, and to parse them takes long.
        .filter(|line| line.contains(user))
        // The last line may be half written.
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        // A watch is answered when it begins, and complete when it ends.
        .filter(|event| event["stage"] == "ResponseComplete" || event["stage"] == "ResponseStarted")
        .filter(|event| event["objectRef"].is_object())
        .filter(|event| {
            event["user"]["username"]
                .as_str()
                .is_some_and(|name| name.ends_with(user))
        })
        .map(|event| Asked::of(&event))
        .collect()
}

/// Asserts what holds for every story: nothing of others is destroyed, whatever changes something that stands says
/// which object it means, and whatever is made has a name that a second try would give it too.
pub fn check(asked: &[Asked]) {
    // What RBAC refused was not even read by the server.
    for request in asked.iter().filter(|request| request.code != FORBIDDEN) {
        let Asked {
            verb,
            resource,
            name,
            body,
            ..
        } = request;
        let metadata = &body["metadata"];
        assert_ne!(resource, "pods/eviction", "{verb} {name}");
        match verb.as_str() {
            "get" | "list" | "watch" => {}
            "delete" => {
                let ours = ["deployments.apps", "services", "configmaps"].contains(&resource.as_str());
                assert!(ours, "{verb} {resource} {name}");
                let uid = body["preconditions"]["uid"].as_str();
                assert!(
                    uid.is_some_and(|uid| !uid.is_empty()),
                    "{verb} {resource} {name} names no UID"
                );
            }
            "patch" | "update" => {
                let bound = [&metadata["uid"], &metadata["resourceVersion"]];
                let bound = bound
                    .iter()
                    .any(|one| one.as_str().is_some_and(|one| !one.is_empty()));
                assert!(bound, "{verb} {resource} {name} carries no precondition: {body}");
            }
            "create" if resource == "events.events.k8s.io" || resource == "events" => {}
            "create" => assert!(
                is_deterministic(resource, metadata),
                "{verb} {resource}: {metadata}"
            ),
            other => panic!("{other} {resource} {name}"),
        }
    }
}

/// The five objects of an instance are named after it; a Lease as the command line says.
fn is_deterministic(resource: &str, metadata: &Value) -> bool {
    let name = metadata["name"].as_str().unwrap_or_default();
    if resource == "leases.coordination.k8s.io" {
        return name == "trino-pool-operator";
    }
    let instance = metadata["labels"]["trinopool.dev/instance"]
        .as_str()
        .unwrap_or_default();
    let parts = [
        "",
        "-coordinator",
        "-worker",
        "-coordinator-config",
        "-worker-config",
    ];
    !instance.is_empty() && metadata["generateName"].is_null() && {
        let rest = name.strip_prefix(instance);
        rest.is_some_and(|rest| parts.contains(&rest))
    }
}

/// The kinds of request, as RBAC sees them.
pub fn kinds(asked: &[Asked]) -> BTreeSet<String> {
    asked.iter().map(Asked::kind).collect()
}
