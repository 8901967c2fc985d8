//! The object store: every object by (resource, namespace, name), one monotonic revision, and the log
//! of changes that watches read.
//!
//! Owns identity and lifecycle rules that hold for every writer, users and controllers alike: UIDs,
//! resourceVersion, generation, finalizers and graceful pod deletion. Never validates content and
//! never reads the clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use self::index::Index;
use super::json::{self as j, is_deleting, later, stamp};
use super::resource::Resource;

mod index;

pub(crate) use self::index::{Spot, node_of_pod, owners};

/// The alphabet of generated name suffixes (no vowels, no look-alikes).
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Namespace (empty when cluster-scoped) and name.
pub(crate) type Place = (String, String);

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The revision at which it happened.
    pub revision: u64,
    /// What changed.
    pub resource: Resource,
    /// The object as it was; `None` when it was created.
    pub before: Option<Arc<Value>>,
    /// The object as it is, or as it last was.
    pub object: Arc<Value>,
    /// It is gone.
    pub deleted: bool,
}

/// What a delete came to.
#[derive(Clone, Debug)]
pub(crate) enum Deleted {
    /// Gone at once.
    Gone(Arc<Value>),
    /// Marked; a finalizer or the kubelet still holds it.
    Pending(Arc<Value>),
}

/// All objects and their history.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    objects: BTreeMap<Resource, BTreeMap<Place, Arc<Value>>>,
    index: Index,
    changes: VecDeque<Change>,
    revision: u64,
    /// The newest revision of each resource.
    newest: BTreeMap<Resource, u64>,
    compacted: u64,
    keep: usize,
}

impl Store {
    /// An empty store that keeps the last `keep` changes for watches.
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            objects: BTreeMap::new(),
            index: Index::default(),
            changes: VecDeque::new(),
            revision: 1,
            newest: BTreeMap::new(),
            compacted: 0,
            keep,
        }
    }

    /// The newest revision.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The newest revision of any object of these resources.
    pub(crate) fn newest_of(&self, resources: &[Resource]) -> u64 {
        let newest = resources.iter().filter_map(|resource| self.newest.get(resource));
        newest.copied().max().unwrap_or(0)
    }

    /// Changes up to and including this revision are forgotten.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Forgets every change so far: a watch from an older revision is told 410.
    pub(crate) fn compact(&mut self) {
        self.changes.clear();
        self.compacted = self.revision;
    }

    /// Changes after `revision`, oldest first. `None` when some of them are forgotten.
    pub(crate) fn since(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        if revision < self.compacted {
            return None;
        }
        let start = self.changes.partition_point(|change| change.revision <= revision);
        Some(self.changes.range(start..))
    }

    /// Places of a resource whose object changed after `revision`. `None` when some changes are forgotten: then
    /// it may be any.
    pub(crate) fn changed(&self, resource: Resource, revision: u64) -> Option<BTreeSet<Place>> {
        let changes = self.since(revision)?;
        let changes = changes.filter(|change| change.resource == resource);
        Some(changes.map(|change| place_of(&change.object)).collect())
    }

    /// One object.
    pub(crate) fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects
            .get(&resource)?
            .get(&(namespace.to_owned(), name.to_owned()))
    }

    /// How many objects of a resource there are.
    pub(crate) fn count(&self, resource: Resource) -> usize {
        self.objects.get(&resource).map_or(0, BTreeMap::len)
    }

    /// All objects of a resource, by namespace and name.
    pub(crate) fn all(&self, resource: Resource) -> impl Iterator<Item = (&Place, &Arc<Value>)> {
        self.objects.get(&resource).into_iter().flatten()
    }

    /// Places of all objects of a resource.
    pub(crate) fn places(&self, resource: Resource) -> BTreeSet<Place> {
        self.all(resource).map(|(place, _)| place.clone()).collect()
    }

    /// The object at a place.
    pub(crate) fn at(&self, resource: Resource, place: &Place) -> Option<&Arc<Value>> {
        self.objects.get(&resource)?.get(place)
    }

    /// Where the object of this UID is.
    pub(crate) fn spot_of(&self, uid: &str) -> Option<&Spot> {
        self.index.by_uid(uid)
    }

    /// The object of this UID.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Arc<Value>> {
        let (resource, place) = self.index.by_uid(uid)?;
        self.at(*resource, place)
    }

    /// Where the objects are that name this owner, by resource and place.
    pub(crate) fn dependents(&self, owner: &str) -> impl Iterator<Item = &Spot> {
        self.index.dependents(owner)
    }

    /// Objects with this label, by place; none when the label is not indexed.
    pub(crate) fn labelled(
        &self,
        resource: Resource,
        key: &str,
        value: &str,
    ) -> Option<Vec<(&Place, &Arc<Value>)>> {
        let places = self.index.labelled(resource, key, value)?;
        let found = places.into_iter();
        Some(
            found
                .filter_map(|place| Some((place, self.at(resource, place)?)))
                .collect(),
        )
    }

    /// Pods that name this node, by place.
    pub(crate) fn pods_of_node(&self, node: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.index
            .pods_of_node(node)
            .filter_map(|place| self.at(Resource::Pods, place))
    }

    /// Pods that name no node, by place.
    pub(crate) fn unbound_pods(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.index
            .unbound_pods()
            .filter_map(|place| self.at(Resource::Pods, place))
    }

    /// All objects of a resource as owned handles, for a controller that writes while it walks.
    pub(crate) fn list(&self, resource: Resource) -> Vec<Arc<Value>> {
        self.all(resource).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Creates an object under its name or a generated one. `None` when the name is taken. A given UID
    /// or creation time is kept, so that recorded objects keep their identity.
    pub(crate) fn create(
        &mut self,
        resource: Resource,
        namespace: &str,
        mut object: Value,
        now: Timestamp,
        rng: &mut ChaCha8Rng,
    ) -> Option<Arc<Value>> {
        let name = match j::text(&object, &["metadata", "name"]) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => {
                let stem = j::text(&object, &["metadata", "generateName"]).unwrap_or_default();
                format!("{stem}{}", suffix(rng, 5))
            }
        };
        if self.get(resource, namespace, &name).is_some() {
            return None;
        }
        let kind = resource.kind();
        j::set(&mut object, &["apiVersion"], json!(kind.api_version()));
        j::set(&mut object, &["kind"], json!(kind.kind));
        j::set(&mut object, &["metadata", "name"], json!(name));
        if !namespace.is_empty() {
            j::set(&mut object, &["metadata", "namespace"], json!(namespace));
        }
        if j::uid(&object).is_empty() {
            j::set(&mut object, &["metadata", "uid"], json!(new_uid(rng)));
        }
        if j::time(&object, &["metadata", "creationTimestamp"]).is_none() {
            j::set(&mut object, &["metadata", "creationTimestamp"], json!(stamp(now)));
        }
        if kind.generation && j::at(&object, &["metadata", "generation"]).is_none() {
            j::set(&mut object, &["metadata", "generation"], json!(1));
        }
        Some(self.commit(resource, (namespace.to_owned(), name), None, object))
    }

    /// Replaces an object by `new`, keeping its identity. Raises the generation when the spec changed,
    /// writes nothing when nothing changed, and removes the object when the last finalizer went.
    /// `None` when it does not exist.
    pub(crate) fn replace(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        mut new: Value,
    ) -> Option<Arc<Value>> {
        let old = Arc::clone(self.get(resource, namespace, name)?);
        for field in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "resourceVersion",
            "generation",
        ] {
            match j::at(&old, &["metadata", field]) {
                Some(kept) => j::set(&mut new, &["metadata", field], kept.clone()),
                None => j::remove(&mut new, &["metadata", field]),
            }
        }
        for field in ["apiVersion", "kind"] {
            j::set(&mut new, &[field], old[field].clone());
        }
        if *old == new {
            return Some(old);
        }
        let marked = is_deleting(&new) && !is_deleting(&old);
        if resource.kind().generation && (marked || spec_changed(resource, &old, &new)) {
            let generation = j::at(&old, &["metadata", "generation"]).and_then(Value::as_u64);
            j::set(
                &mut new,
                &["metadata", "generation"],
                json!(generation.unwrap_or(0) + 1),
            );
        }
        let place = (namespace.to_owned(), name.to_owned());
        if is_finished(&new) {
            return Some(self.erase(resource, &place, old, new));
        }
        Some(self.commit(resource, place, Some(old), new))
    }

    /// Lets a controller change an object in place; false when it does not exist.
    pub(crate) fn edit(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> bool {
        let Some(old) = self.get(resource, namespace, name) else {
            return false;
        };
        let mut new = Value::clone(old);
        change(&mut new);
        self.replace(resource, namespace, name, new).is_some()
    }

    /// Deletes as the API server does: a bound pod gets its grace, an object with finalizers a
    /// deletionTimestamp, anything else goes at once. `None` when it does not exist.
    pub(crate) fn delete(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        grace: Option<u64>,
        now: Timestamp,
    ) -> Option<Deleted> {
        let old = Arc::clone(self.get(resource, namespace, name)?);
        let grace = match resource {
            Resource::Pods => pod_grace(&old, grace),
            Resource::Namespaces
            | Resource::Nodes
            | Resource::Services
            | Resource::ConfigMaps
            | Resource::Events
            | Resource::Deployments
            | Resource::ReplicaSets
            | Resource::Leases
            | Resource::NodeClaims
            | Resource::NodePools
            | Resource::TrinoPools
            | Resource::CustomResourceDefinitions => 0,
        };
        if is_deleting(&old) {
            let current = deletion_grace(&old);
            if grace >= current {
                return Some(Deleted::Pending(old));
            }
        }
        let mut new = Value::clone(&old);
        let ends = later(now, Duration::from_secs(grace));
        j::set(&mut new, &["metadata", "deletionTimestamp"], json!(stamp(ends)));
        j::set(
            &mut new,
            &["metadata", "deletionGracePeriodSeconds"],
            json!(grace),
        );
        if is_finished(&new) {
            let place = (namespace.to_owned(), name.to_owned());
            return Some(Deleted::Gone(self.erase(resource, &place, old, new)));
        }
        self.replace(resource, namespace, name, new).map(Deleted::Pending)
    }

    /// Removes an object whatever holds it: a machine or an administrator took it away.
    pub(crate) fn purge(&mut self, resource: Resource, namespace: &str, name: &str) -> bool {
        let Some(old) = self.get(resource, namespace, name).cloned() else {
            return false;
        };
        let place = (namespace.to_owned(), name.to_owned());
        let last = Value::clone(&old);
        self.erase(resource, &place, old, last);
        true
    }

    fn commit(
        &mut self,
        resource: Resource,
        place: Place,
        before: Option<Arc<Value>>,
        mut object: Value,
    ) -> Arc<Value> {
        self.revision += 1;
        j::set(
            &mut object,
            &["metadata", "resourceVersion"],
            json!(self.revision.to_string()),
        );
        let object = Arc::new(object);
        self.index.put(resource, &place, before.as_ref(), &object);
        self.objects
            .entry(resource)
            .or_default()
            .insert(place, Arc::clone(&object));
        self.record(resource, before, &object, false);
        object
    }

    fn erase(
        &mut self,
        resource: Resource,
        place: &Place,
        before: Arc<Value>,
        mut last: Value,
    ) -> Arc<Value> {
        self.revision += 1;
        j::set(
            &mut last,
            &["metadata", "resourceVersion"],
            json!(self.revision.to_string()),
        );
        self.index.take(resource, place, &before);
        if let Some(objects) = self.objects.get_mut(&resource) {
            objects.remove(place);
        }
        let last = Arc::new(last);
        self.record(resource, Some(before), &last, true);
        last
    }

    fn record(&mut self, resource: Resource, before: Option<Arc<Value>>, object: &Arc<Value>, deleted: bool) {
        self.newest.insert(resource, self.revision);
        self.changes.push_back(Change {
            revision: self.revision,
            resource,
            before,
            object: Arc::clone(object),
            deleted,
        });
        while self.changes.len() > self.keep {
            if let Some(oldest) = self.changes.pop_front() {
                self.compacted = oldest.revision;
            }
        }
    }
}

/// Where an object is within its resource.
pub(crate) fn place_of(object: &Value) -> Place {
    (j::namespace(object).to_owned(), j::name(object).to_owned())
}

/// A random (version 4) UUID.
pub(crate) fn new_uid(rng: &mut ChaCha8Rng) -> String {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// `length` characters of the alphabet of generated names.
pub(crate) fn suffix(rng: &mut ChaCha8Rng, length: usize) -> String {
    (0..length)
        .map(|_| char::from(SUFFIX[rng.random_range(0..SUFFIX.len())]))
        .collect()
}

/// A digest written in the alphabet of generated names, as pod-template-hash is.
pub(crate) fn name_hash(digest: &[u8], length: usize) -> String {
    digest
        .iter()
        .take(length)
        .map(|byte| char::from(SUFFIX[usize::from(*byte) % SUFFIX.len()]))
        .collect()
}

fn deletion_grace(object: &Value) -> u64 {
    j::at(object, &["metadata", "deletionGracePeriodSeconds"])
        .and_then(Value::as_u64)
        .unwrap_or(0)
}

/// Marked for deletion, with no grace left and nothing that holds it.
fn is_finished(object: &Value) -> bool {
    is_deleting(object)
        && deletion_grace(object) == 0
        && j::items(object, &["metadata", "finalizers"]).is_empty()
}

/// Binding a pod to a node does not count as a change of its spec.
fn spec_changed(resource: Resource, old: &Value, new: &Value) -> bool {
    if resource == Resource::Pods && j::text(old, &["spec", "nodeName"]).is_none() {
        let mut unbound = new["spec"].clone();
        j::remove(&mut unbound, &["nodeName"]);
        return old.get("spec") != Some(&unbound);
    }
    old.get("spec") != new.get("spec")
}

/// A pod that no kubelet has needs no grace.
fn pod_grace(pod: &Value, asked: Option<u64>) -> u64 {
    if j::text(pod, &["spec", "nodeName"]).is_none_or(str::is_empty) {
        return 0;
    }
    asked.unwrap_or_else(|| {
        j::at(pod, &["spec", "terminationGracePeriodSeconds"])
            .and_then(Value::as_u64)
            .unwrap_or(30)
    })
}
