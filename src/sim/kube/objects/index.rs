//! Ways to objects other than their names, so that nobody has to walk through all of them: by UID, by owner, pods by
//! node, and by the labels that the operator selects by.
//!
//! Follows the store's own writes and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::super::json as j;
use super::super::resource::Resource;
use super::Place;
use crate::pool::names::{LABEL_INSTANCE, LABEL_POOL};

/// Labels by which objects are found without a walk.
const INDEXED: [&str; 2] = [LABEL_INSTANCE, LABEL_POOL];

/// Where an object is: its resource and its place there.
pub(crate) type Spot = (Resource, Place);

/// The ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    by_uid: BTreeMap<String, Spot>,
    by_owner: BTreeMap<String, BTreeSet<Spot>>,
    by_label: BTreeMap<(Resource, &'static str, String), BTreeSet<Place>>,
    pods_of_node: BTreeMap<String, BTreeSet<Place>>,
    unbound_pods: BTreeSet<Place>,
}

impl Index {
    /// An object was written in the place of another, or of none.
    pub(super) fn put(
        &mut self,
        resource: Resource,
        place: &Place,
        before: Option<&Arc<Value>>,
        now: &Value,
    ) {
        if let Some(before) = before {
            self.take(resource, place, before);
        }
        let spot = (resource, place.clone());
        for owner in owners(now) {
            self.by_owner
                .entry(owner.to_owned())
                .or_default()
                .insert(spot.clone());
        }
        for key in INDEXED {
            if let Some(value) = j::label(now, key) {
                let entry = self.by_label.entry((resource, key, value.to_owned()));
                entry.or_default().insert(place.clone());
            }
        }
        if resource == Resource::Pods {
            match node_of_pod(now) {
                Some(node) => {
                    let pods = self.pods_of_node.entry(node.to_owned()).or_default();
                    pods.insert(place.clone());
                }
                None => {
                    self.unbound_pods.insert(place.clone());
                }
            }
        }
        self.by_uid.insert(j::uid(now).to_owned(), spot);
    }

    /// An object is gone.
    pub(super) fn take(&mut self, resource: Resource, place: &Place, object: &Value) {
        self.by_uid.remove(j::uid(object));
        let spot = (resource, place.clone());
        for owner in owners(object) {
            leave(&mut self.by_owner, owner, &spot);
        }
        for key in INDEXED {
            if let Some(value) = j::label(object, key) {
                leave(&mut self.by_label, &(resource, key, value.to_owned()), place);
            }
        }
        if resource == Resource::Pods {
            match node_of_pod(object) {
                Some(node) => leave(&mut self.pods_of_node, node, place),
                None => {
                    self.unbound_pods.remove(place);
                }
            }
        }
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<&Spot> {
        self.by_uid.get(uid)
    }

    pub(super) fn dependents(&self, owner: &str) -> impl Iterator<Item = &Spot> {
        self.by_owner.get(owner).into_iter().flatten()
    }

    /// Places of the objects with this label; none when the label is not one of the indexed ones.
    pub(super) fn labelled(&self, resource: Resource, key: &str, value: &str) -> Option<Vec<&Place>> {
        let key = INDEXED.into_iter().find(|indexed| *indexed == key)?;
        let found = self.by_label.get(&(resource, key, value.to_owned()));
        Some(found.into_iter().flatten().collect())
    }

    pub(super) fn pods_of_node(&self, node: &str) -> impl Iterator<Item = &Place> {
        self.pods_of_node.get(node).into_iter().flatten()
    }

    pub(super) fn unbound_pods(&self) -> impl Iterator<Item = &Place> {
        self.unbound_pods.iter()
    }
}

/// UIDs of an object's owners.
pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &str> {
    j::items(object, &["metadata", "ownerReferences"])
        .iter()
        .filter_map(|owner| j::text(owner, &["uid"]))
}

/// The node that a pod is bound to.
pub(crate) fn node_of_pod(pod: &Value) -> Option<&str> {
    j::text(pod, &["spec", "nodeName"]).filter(|node| !node.is_empty())
}

fn leave<K, Q, V>(sets: &mut BTreeMap<K, BTreeSet<V>>, key: &Q, value: &V)
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ?Sized,
    V: Ord,
{
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
