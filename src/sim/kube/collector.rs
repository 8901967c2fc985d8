//! The garbage collector: dependents of vanished owners go, and foreground deletion waits for them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Turn;
use super::json as j;
use super::resource::Resource;

const FOREGROUND: &str = "foregroundDeletion";

/// Deletes every object all of whose owners are gone, and every object of a vanished namespace.
pub(super) fn step(turn: &mut Turn<'_>) {
    let mut living = BTreeSet::new();
    let mut blocking = BTreeSet::new();
    let mut foreground = BTreeSet::new();
    for resource in Resource::ALL {
        for (_, object) in turn.store.all(resource) {
            living.insert(j::uid(object).to_owned());
            if j::is_deleting(object) && j::has_finalizer(object, FOREGROUND) {
                foreground.insert(j::uid(object).to_owned());
            }
            for owner in owners(object) {
                blocking.insert(owner.to_owned());
            }
        }
    }
    for resource in Resource::ALL {
        for object in turn.store.list(resource) {
            let mut named = owners(&object).peekable();
            let orphaned = named.peek().is_some() && named.all(|owner| !living.contains(owner));
            let doomed = owners(&object).any(|owner| foreground.contains(owner));
            let homeless = resource.kind().namespaced
                && turn
                    .store
                    .get(Resource::Namespaces, "", j::namespace(&object))
                    .is_none();
            if (orphaned || doomed || homeless) && !j::is_deleting(&object) {
                turn.destroy(resource, &object, "garbage-collector", None);
            }
            if foreground.contains(j::uid(&object)) && !blocking.contains(j::uid(&object)) {
                turn.store
                    .edit(resource, j::namespace(&object), j::name(&object), |object| {
                        j::drop_finalizer(object, FOREGROUND);
                    });
            }
        }
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    j::items(object, &["metadata", "ownerReferences"])
        .iter()
        .filter_map(|owner| j::text(owner, &["uid"]))
}
