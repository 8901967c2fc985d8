//! From the raw `spec` of a TrinoPool to a [`DesiredPool`], or to every problem it has.
//!
//! Nothing behind this module touches raw input. All problems are reported at once, each with the path of
//! its field, what is wrong and what would be right; an invalid spec leaves the last good desired state in
//! force (*Held*). What is accepted here can be rendered, and is refused by no documented rule of
//! Kubernetes, of the gateway's protocol, or of Karpenter's provisioning.

mod config;
mod example;
mod fields;
mod template;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt;

use serde_json::Value;

pub use self::example::example_spec;
use self::fields::Fields;
use super::desired::{
    Blueprint, DeletionPolicy, DesiredPool, FiniteGrace, NodeReplacement, Timings, UnownedNodes,
};
use super::ids::{Namespace, ObjectUid, ReleaseId, RoutingGroup};
use crate::store::port::PoolIdentity;

/// One thing that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpecProblem {
    /// Path of the field, from `spec` on.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
    /// What would be right.
    pub fix: String,
}

impl fmt::Display for SpecProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.what, self.fix)
    }
}

/// All problems in one text, for a condition or an Event: one after the other, by path.
#[must_use]
pub fn describe(problems: &[SpecProblem]) -> String {
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    words.join(" | ")
}

/// Where problems are collected while a spec is read.
#[derive(Debug, Default)]
struct Problems(RefCell<Vec<SpecProblem>>);

impl Problems {
    fn add(&self, path: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) {
        self.0.borrow_mut().push(SpecProblem {
            path: path.into(),
            what: what.into(),
            fix: fix.into(),
        });
    }

    fn into_sorted(self) -> Vec<SpecProblem> {
        let mut problems = self.0.into_inner();
        problems.sort();
        problems.dedup();
        problems
    }
}

/// Validates the spec of a TrinoPool in `namespace`. On an error the list is not empty and sorted by path.
pub fn validate(namespace: &Namespace, spec: &Value) -> Result<DesiredPool, Vec<SpecProblem>> {
    let problems = Problems::default();
    refuse_nul("spec", spec, &problems);
    let nul = problems.into_sorted();
    if !nul.is_empty() {
        // Alone: the other problems quote what they refuse, and would carry it on.
        return Err(nul);
    }
    let problems = Problems::default();
    let desired = read(namespace, spec, &problems);
    let problems = problems.into_sorted();
    if problems.is_empty() {
        Ok(desired)
    } else {
        Err(problems)
    }
}

/// NUL has no place in any text of ours: neither Postgres nor an environment or a file name can hold it.
fn refuse_nul(path: &str, value: &Value, problems: &Problems) {
    let refuse = |path: &str, what: &str| problems.add(path, what, "remove the character \\u0000");
    match value {
        Value::String(text) if text.contains('\0') => refuse(path, "contains NUL"),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                refuse_nul(&format!("{path}[{index}]"), item, problems);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let inner = format!("{path}.{}", name.replace('\0', "\\u0000"));
                if name.contains('\0') {
                    refuse(&inner, "has a name that contains NUL");
                }
                refuse_nul(&inner, field, problems);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether the spec, on the resource with this UID, confirms that deleting it empties the pool. Anything
/// but an exact match of the UID confirms nothing.
#[must_use]
pub fn confirms_emptying(spec: &Value, uid: &ObjectUid) -> bool {
    let text = |field: &str| spec.get(field).and_then(Value::as_str);
    text("deletionPolicy") == Some("Drain") && !uid.is_empty() && text("confirmEmpty") == Some(uid.as_str())
}

/// What a desired state changes about a pool's immutable identity, in words; `None`: nothing.
#[must_use]
pub fn identity_change(recorded: &PoolIdentity, desired: &DesiredPool) -> Option<String> {
    let mut changes = Vec::new();
    if recorded.namespace != desired.namespace {
        changes.push(format!(
            "namespace is {}, was {}",
            desired.namespace, recorded.namespace
        ));
    }
    if recorded.routing_group != desired.routing_group {
        changes.push(format!(
            "spec.routingGroup is {}, was {}",
            desired.routing_group, recorded.routing_group
        ));
    }
    (!changes.is_empty()).then(|| changes.join(", "))
}

/// Reads everything, putting a harmless value where a field is wrong: it is only used when none was.
fn read(namespace: &Namespace, spec: &Value, problems: &Problems) -> DesiredPool {
    let mut fields = Fields::root(spec, problems);
    let routing_group = fields.required_text("routingGroup");
    check_routing_group(&fields.path_of("routingGroup"), &routing_group, problems);
    let instances = fields.number("instances", 1..=1000, None);
    let min_serving = fields.number("minServing", 1..=1000, Some(instances.max(1)));
    // Compared only with a count that was really given: one problem is reported once.
    let given = fields.raw("instances").and_then(Value::as_u64) == Some(u64::from(instances));
    if given && min_serving > instances {
        problems.add(
            fields.path_of("minServing"),
            format!("is {min_serving}, more than the {instances} instances"),
            "set it between 1 and spec.instances",
        );
    }
    let max_surge = fields.number("maxSurge", 0..=100, Some(1));
    let max_repair = fields.number("maxRepair", 0..=100, Some(1));
    let release = fields.required_text("release");
    check_release(&fields.path_of("release"), &release, problems);
    let deletion_policy = fields.choice(
        "deletionPolicy",
        &[
            ("Retain", DeletionPolicy::Retain),
            ("Drain", DeletionPolicy::Drain),
        ],
    );
    let _confirm = fields.text("confirmEmpty");
    let node_replacement = node_replacement(&mut fields);
    let timings = timings(&mut fields, problems);
    let blueprint = blueprint(
        namespace,
        &release,
        node_replacement.enabled,
        &mut fields,
        problems,
    );
    fields.finish();
    DesiredPool {
        namespace: namespace.clone(),
        routing_group: RoutingGroup::new(routing_group),
        instances,
        min_serving,
        max_surge,
        max_repair,
        node_replacement,
        deletion_policy,
        timings,
        blueprint,
    }
}

fn node_replacement(fields: &mut Fields<'_>) -> NodeReplacement {
    let mut section = fields.section("nodeReplacement");
    let enabled = section.boolean("enabled", false);
    let finite_grace = section.finite_grace("finiteGrace").unwrap_or(FiniteGrace::Reject);
    let unowned_nodes = section.choice(
        "unownedNodes",
        &[("Reject", UnownedNodes::Reject), ("Allow", UnownedNodes::Allow)],
    );
    section.finish();
    NodeReplacement {
        enabled,
        finite_grace,
        unowned_nodes,
    }
}

fn timings(fields: &mut Fields<'_>, problems: &Problems) -> Timings {
    let default = Timings::default();
    let mut section = fields.section("timings");
    let timings = Timings {
        suspect_after: section.duration("suspectAfter", default.suspect_after),
        suspect_drain_after: section.duration("suspectDrainAfter", default.suspect_drain_after),
        drain_stuck_after: section.duration("drainStuckAfter", default.drain_stuck_after),
        creating_deadline: section.duration("creatingDeadline", default.creating_deadline),
        preparing_deadline: section.duration("preparingDeadline", default.preparing_deadline),
        validating_deadline: section.duration("validatingDeadline", default.validating_deadline),
        candidate_backoff: section.duration("candidateBackoff", default.candidate_backoff),
        candidate_backoff_max: section.duration("candidateBackoffMax", default.candidate_backoff_max),
    };
    if timings.candidate_backoff_max < timings.candidate_backoff {
        problems.add(
            section.path_of("candidateBackoffMax"),
            "is shorter than candidateBackoff",
            "set it at least as long",
        );
    }
    section.finish();
    timings
}

fn blueprint(
    namespace: &Namespace,
    release: &str,
    on_karpenter: bool,
    fields: &mut Fields<'_>,
    problems: &Problems,
) -> Blueprint {
    let mut section = fields.required_section("template");
    let image = section.required_text("image");
    if image.contains(char::is_whitespace) {
        problems.add(section.path_of("image"), "contains white space", "name one image");
    }
    let service_account = section.text("serviceAccountName");
    let container = section
        .text("containerName")
        .unwrap_or_else(|| "trino".to_owned());
    let http_port = section.number("httpPort", 1..=65535, Some(8080));
    let environment = section.text("environment").unwrap_or_else(|| "trino".to_owned());
    check_environment(&section.path_of("environment"), &environment, problems);

    let checks = template::Checks {
        image: &image,
        container: &container,
        service_account: service_account.as_deref(),
        on_karpenter,
        problems,
    };
    let mut coordinator = section.required_section("coordinator");
    let coordinator_template = checks.pod_template(&mut coordinator);
    coordinator.finish();
    let mut workers = section.required_section("workers");
    let replicas = workers.number("replicas", 1..=100, None);
    let worker_template = checks.pod_template(&mut workers);
    workers.finish();

    let mut files = section.required_section("configFiles");
    let coordinator_files = files.text_map("coordinator");
    let worker_files = files.text_map("worker");
    let files_path = files.path().to_owned();
    files.finish();
    let catalogs = section.text_map("catalogs");
    let catalogs_path = section.path_of("catalogs");
    section.finish();

    let blueprint = Blueprint {
        release: ReleaseId::new(release),
        image,
        namespace: namespace.clone(),
        service_account,
        container,
        // In range by the check above; the fallback is never used by a valid spec.
        http_port: u16::try_from(http_port).unwrap_or(8080),
        environment,
        coordinator_template,
        worker_template,
        workers: replicas,
        coordinator_files,
        worker_files,
        catalogs,
    };
    config::check(&blueprint, &files_path, &catalogs_path, problems);
    blueprint
}

/// The gateway puts it into URLs and, with an instance id appended, into a backend's name.
fn check_routing_group(path: &str, group: &str, problems: &Problems) {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if group.len() > 200 || !group.bytes().all(valid) {
        problems.add(
            path,
            format!("{group:?} is no name of a routing group"),
            "use at most 200 of A-Z a-z 0-9 _ - .",
        );
    }
}

/// The gateway's limit for a revision (protocol section on text limits).
fn check_release(path: &str, release: &str, problems: &Problems) {
    if release.len() > 128 || release.contains(char::is_control) {
        problems.add(
            path,
            "is longer than 128 bytes or contains control characters",
            "use a short name, such as a version",
        );
    }
}

/// Trino's own rule for `node.environment`.
fn check_environment(path: &str, environment: &str, problems: &Problems) {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut bytes = environment.bytes();
    let valid = bytes.next().is_some_and(word) && bytes.all(|byte| word(byte) || byte == b'_');
    if !valid {
        problems.add(
            path,
            format!("{environment:?} is no name of a Trino environment"),
            "use lower-case letters, digits and underscores, beginning with a letter or digit",
        );
    }
}
