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
    /// Same release and content as recorded, and somebody edited what runs (A11).
    Edited,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pool::ids::Namespace;
    use crate::pool::validate::{example_spec, validate};

    fn blueprint() -> Blueprint {
        validate(&Namespace::from("trino"), &example_spec("analytics"))
            .unwrap()
            .blueprint
    }

    fn compared(stored: &Blueprint, desired: &Blueprint) -> Outdated {
        outdated(
            &stored.release,
            &blueprint_digest(stored),
            &Ok(stored.clone()),
            desired,
        )
    }

    fn changed(change: impl FnOnce(&mut Blueprint)) -> Blueprint {
        let mut blueprint = blueprint();
        change(&mut blueprint);
        blueprint
    }

    #[test]
    fn the_same_content_is_current() {
        assert_eq!(compared(&blueprint(), &blueprint()), Outdated::No);
    }

    #[test]
    fn a_release_change_is_told_from_a_configuration_change() {
        let release = changed(|blueprint| blueprint.release = ReleaseId::from("2"));
        assert_eq!(compared(&blueprint(), &release), Outdated::Release);
        for configuration in [
            changed(|blueprint| blueprint.workers += 1),
            changed(|blueprint| blueprint.image.push('x')),
            changed(|blueprint| blueprint.catalogs.clear()),
            changed(|blueprint| blueprint.worker_template["spec"]["priorityClassName"] = json!("high")),
            changed(|blueprint| blueprint.worker_template["metadata"] = json!({"annotations": {"a": "b"}})),
        ] {
            assert_eq!(compared(&blueprint(), &configuration), Outdated::Spec);
        }
    }

    #[test]
    fn a11_protecting_pods_from_birth_replaces_nothing() {
        let annotation = json!({"annotations": {ANNOTATION_DO_NOT_DISRUPT: "true"}});
        let protected = changed(|blueprint| blueprint.worker_template["metadata"] = annotation);
        assert_eq!(compared(&blueprint(), &protected), Outdated::No);
        assert_eq!(compared(&protected, &blueprint()), Outdated::No);
    }

    #[test]
    fn the_order_of_keys_in_a_spec_replaces_nothing() {
        let text = serde_json::to_string(&blueprint().worker_template).unwrap();
        let reversed = changed(|blueprint| {
            let read: Value = serde_json::from_str(&text).unwrap();
            let pairs: Vec<_> = read.as_object().unwrap().clone().into_iter().rev().collect();
            blueprint.worker_template = Value::Object(pairs.into_iter().collect());
        });
        assert_eq!(compared(&blueprint(), &reversed), Outdated::No);
    }

    /// A digest that an older binary computed differently is not compared with ours.
    #[test]
    fn w10_only_what_this_binary_digests_is_compared() {
        let other = Digest::new("a".repeat(64));
        let release = blueprint().release;
        assert_eq!(
            outdated(&release, &other, &Ok(blueprint()), &blueprint()),
            Outdated::No
        );
        let unusable = Digest::from("deadbeef");
        assert_eq!(
            outdated(&release, &unusable, &Ok(blueprint()), &blueprint()),
            Outdated::Spec
        );
    }

    #[test]
    fn a_blueprint_that_cannot_be_read_is_no_reason_to_replace() {
        let unreadable = Err("missing field `image`".to_owned());
        let digest = blueprint_digest(&blueprint());
        assert_eq!(
            outdated(&ReleaseId::from("other"), &digest, &unreadable, &blueprint()),
            Outdated::Unreadable
        );
    }
}
