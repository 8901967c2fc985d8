//! The garbage collector: dependents of vanished owners go, and foreground deletion waits for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::Turn;
use super::json as j;
use super::objects::{Spot, Store, owners, place_of};
use super::resource::Resource;

const FOREGROUND: &str = "foregroundDeletion";

/// Deletes every object all of whose owners are gone, and every object of a vanished namespace. Looks only at what
/// the changes after `seen` can have made so.
pub(super) fn step(turn: &mut Turn<'_>, seen: u64) {
    // What stands at the beginning decides: what this step deletes is looked at in the next one.
    let mut doomed: Vec<(Resource, Arc<Value>)> = Vec::new();
    let mut released: Vec<(Resource, Arc<Value>)> = Vec::new();
    let store = &*turn.store;
    for (resource, place) in candidates(store, seen) {
        let Some(object) = store.at(resource, &place) else {
            continue;
        };
        if is_doomed(store, resource, object) {
            doomed.push((resource, Arc::clone(object)));
        }
        if is_foreground(object) && store.dependents(j::uid(object)).next().is_none() {
            released.push((resource, Arc::clone(object)));
        }
    }
    for (resource, object) in doomed {
        turn.destroy(resource, &object, "garbage-collector", None);
    }
    for (resource, object) in released {
        turn.store
            .edit(resource, j::namespace(&object), j::name(&object), |object| {
                j::drop_finalizer(object, FOREGROUND);
            });
    }
}

/// What changed, what depends on it, and what it depends on.
fn candidates(store: &Store, seen: u64) -> BTreeSet<Spot> {
    let all = || {
        let everything = Resource::ALL.into_iter();
        everything
            .flat_map(|resource| {
                store
                    .places(resource)
                    .into_iter()
                    .map(move |place| (resource, place))
            })
            .collect()
    };
    let Some(changes) = store.since(seen) else {
        return all();
    };
    let mut candidates = BTreeSet::new();
    for change in changes {
        if change.resource == Resource::Namespaces && change.deleted {
            return all();
        }
        candidates.insert((change.resource, place_of(&change.object)));
        candidates.extend(store.dependents(j::uid(&change.object)).cloned());
        candidates.extend(owners(&change.object).filter_map(|owner| store.spot_of(owner).cloned()));
    }
    candidates
}

fn is_doomed(store: &Store, resource: Resource, object: &Value) -> bool {
    if j::is_deleting(object) {
        return false;
    }
    let mut named = owners(object).peekable();
    let orphaned = named.peek().is_some() && named.all(|owner| store.by_uid(owner).is_none());
    let owner_goes = owners(object)
        .filter_map(|owner| store.by_uid(owner))
        .any(|owner| is_foreground(owner));
    let homeless = resource.kind().namespaced
        && store
            .get(Resource::Namespaces, "", j::namespace(object))
            .is_none();
    orphaned || owner_goes || homeless
}

fn is_foreground(object: &Value) -> bool {
    j::is_deleting(object) && j::has_finalizer(object, FOREGROUND)
}
