//! Whether an instance still is what the pool should be made of.
//!
//! Both blueprints, the stored and the desired one, are digested by the running binary, so that an
//! upgrade of this operator, which may render objects differently, replaces nothing. Outside the test
//! stands everything that is not the blueprint's content: the epoch, the excluded nodes, and the
//! do-not-disrupt annotation, so that enabling node replacement replaces nothing either.

use serde_json::Value;

use super::canonical::{digest_of, is_digest};
use super::desired::Blueprint;
use super::ids::{Digest, ReleaseId};
use super::names::ANNOTATION_DO_NOT_DISRUPT;

/// How an instance compares with the desired blueprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outdated {
    /// It is what is desired.
    No,
    /// It is of another release.
    Release,
    /// Same release, other content.
    Spec,
    /// Its stored blueprint cannot be read: it is not moved by a rollout, and is shown.
    Unreadable,
}

/// Digest of a blueprint's content, by this binary.
#[must_use]
pub fn blueprint_digest(blueprint: &Blueprint) -> Digest {
    let mut content = blueprint.clone();
    forget_protection(&mut content.coordinator_template);
    forget_protection(&mut content.worker_template);
    // A blueprint is maps, strings, numbers and JSON: encoding it cannot fail. Should it ever, the empty
    // digest equals no other and the instance is shown as outdated rather than silently current.
    serde_json::to_value(&content).map_or_else(|_| Digest::from(""), |value| digest_of(&value))
}

/// Compares a row's release, stored digest and stored blueprint with the desired blueprint.
#[must_use]
pub fn outdated(
    release: &ReleaseId,
    stored_digest: &Digest,
    stored: &Result<Blueprint, String>,
    desired: &Blueprint,
) -> Outdated {
    let Ok(stored) = stored else {
        return Outdated::Unreadable;
    };
    if *release != desired.release {
        return Outdated::Release;
    }
    // The stored digest is what objects are adopted by; without a usable one the instance is replaced.
    if !is_digest(stored_digest) || blueprint_digest(stored) != blueprint_digest(desired) {
        return Outdated::Spec;
    }
    Outdated::No
}

fn forget_protection(template: &mut Value) {
    let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.remove(ANNOTATION_DO_NOT_DISRUPT);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    if metadata.is_empty()
        && let Some(template) = template.as_object_mut()
    {
        template.remove("metadata");
    }
}
