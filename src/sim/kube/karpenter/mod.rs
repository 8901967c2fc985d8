//! Karpenter 1.9 as it was seen (objects and watches of that run: tests/fixtures/karpenter).
//!
//! ```text
//!   NodePool ──hash differs──▶ Drifted ──nothing protected──▶ taint, replacement ──▶ claim deleted
//!      │                                                                               │
//!      └─ pending pods ──▶ NodeClaim ──▶ Node           termination: evict, wait, take both away
//! ```
//!
//! It deletes claims it decided to disrupt and claims that expired; it evicts unprotected pods of
//! nodes it terminates, and waits for protected ones unless the claim has a finite grace.

mod disruption;
mod drift;
mod node_names;
mod provision;
mod termination;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

pub(super) use self::drift::template_hash;
pub(super) use self::provision::{add_node, bare_node};

use super::Turn;
use super::events::Events;
use super::json as j;
use super::objects::{Place, Store, owners, place_of};
use super::resource::Resource;
use super::scheduler;
use super::workloads;

pub(super) const FINALIZER: &str = "karpenter.sh/termination";
pub(super) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
pub(super) const POOL_LABEL: &str = "karpenter.sh/nodepool";
pub(super) const HASH: &str = "karpenter.sh/nodepool-hash";
pub(super) const HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
pub(super) const TERMINATION_AT: &str = "karpenter.sh/nodeclaim-termination-timestamp";
pub(super) const DISRUPTED: &str = "karpenter.sh/disrupted";

/// What Karpenter remembers beside the objects.
#[derive(Debug, Default)]
pub(super) struct Karpenter {
    /// When the machine of a launching claim comes up, and when its kubelet joins. By claim UID.
    launches: BTreeMap<String, Timestamp>,
    joins: BTreeMap<String, Timestamp>,
    /// Replacements under way, by the UID of the claim that is replaced.
    commands: BTreeMap<String, disruption::Command>,
    /// When candidates are looked at next; `None` before the first time.
    next_disruption: Option<Timestamp>,
    events: Events,
    /// The revision up to which changes were looked at.
    seen: u64,
    /// Claims that wait for a time or for pods, by place.
    unfinished: BTreeSet<Place>,
    /// Nodes that are being deleted, by place.
    leaving: BTreeSet<Place>,
    /// It does nothing while this is set.
    pub paused: bool,
    /// How many claims a NodePool may have; absent is no limit.
    pub capacity: BTreeMap<String, usize>,
    /// UIDs of claims whose machine never goes away (K07).
    pub stuck: BTreeSet<String>,
}

impl Karpenter {
    /// Lets every controller of Karpenter act once.
    pub(super) fn step(&mut self, turn: &mut Turn<'_>) {
        if self.paused {
            return;
        }
        let began = turn.store.revision();
        drift::step(self, turn);
        self.expire(turn);
        self.terminate(turn);
        self.move_claims_on(turn);
        self.remember(turn.store, began);
        self.disrupt(turn);
        self.provision(turn);
    }

    /// Claims that may have something to do: unfinished ones, those that changed, and those whose node or NodePool did.
    fn due_claims(&self, store: &Store) -> Vec<Arc<Value>> {
        self.due_places(store)
            .iter()
            .filter_map(|place| store.at(Resource::NodeClaims, place))
            .cloned()
            .collect()
    }

    fn due_places(&self, store: &Store) -> BTreeSet<Place> {
        let Some(changes) = store.since(self.seen) else {
            return store.places(Resource::NodeClaims);
        };
        let mut due = self.unfinished.clone();
        for change in changes {
            match change.resource {
                Resource::NodeClaims => {
                    due.insert(place_of(&change.object));
                }
                Resource::NodePools => return store.places(Resource::NodeClaims),
                Resource::Nodes => {
                    let claims = owners(&change.object).filter_map(|owner| store.spot_of(owner));
                    due.extend(claims.map(|(_, place)| place.clone()));
                }
                _ => {}
            }
        }
        due
    }

    /// Nodes that are leaving, or changed.
    fn due_nodes(&self, store: &Store) -> Vec<Arc<Value>> {
        let places = match store.changed(Resource::Nodes, self.seen) {
            Some(changed) => self.leaving.union(&changed).cloned().collect(),
            None => store.places(Resource::Nodes),
        };
        let nodes = places.iter().filter_map(|place| store.at(Resource::Nodes, place));
        nodes.cloned().collect()
    }

    /// What has to be looked at again although nothing changes: whatever waits for a time, or for pods.
    fn remember(&mut self, store: &Store, began: u64) {
        let claims = self.due_claims(store);
        let unfinished = claims.iter().filter(|claim| {
            j::is_deleting(claim)
                || !j::is_true(claim, "Initialized")
                || j::text(claim, &["spec", "expireAfter"])
                    .is_some_and(|after| j::go_duration(after).is_some())
        });
        self.unfinished = unfinished.map(|claim| place_of(claim)).collect();
        let nodes = self.due_nodes(store);
        let leaving = nodes.iter().filter(|node| j::is_deleting(node));
        self.leaving = leaving.map(|node| place_of(node)).collect();
        self.seen = began;
    }

    /// Expiry deletes the claim without looking at pods (nodeclaim/expiration/controller.go), and so does
    /// the collection of claims whose machine is gone.
    fn expire(&self, turn: &mut Turn<'_>) {
        for claim in self.due_claims(turn.store) {
            let expired = j::text(&claim, &["spec", "expireAfter"])
                .and_then(j::go_duration)
                .zip(j::time(&claim, &["metadata", "creationTimestamp"]))
                .is_some_and(|(after, created)| turn.now >= j::later(created, after));
            let vanished = j::is_true(&claim, "Registered")
                && j::text(&claim, &["status", "nodeName"])
                    .is_some_and(|node| turn.store.get(Resource::Nodes, "", node).is_none());
            if (expired || vanished) && !j::is_deleting(&claim) {
                turn.destroy(Resource::NodeClaims, &claim, "karpenter", None);
            }
        }
    }

    /// Takes back every disruption under way, as Karpenter does when a command fails: the taint is not
    /// final.
    pub(super) fn abort_commands(&mut self, turn: &mut Turn<'_>) {
        for uid in std::mem::take(&mut self.commands).into_keys() {
            disruption::roll_back(turn, &uid);
        }
    }
}

/// Exactly "true", on a pod that is neither terminating nor finished (K14, K15;
/// pkg/utils/pod/scheduling.go).
pub(super) fn is_protected(pod: &Value) -> bool {
    j::annotation(pod, DO_NOT_DISRUPT) == Some("true") && !j::is_deleting(pod) && !workloads::is_finished(pod)
}

fn disrupted_taint() -> Value {
    serde_json::json!({"effect": "NoSchedule", "key": DISRUPTED})
}

/// Pods on a node that Karpenter drains and waits for.
fn drainable(turn: &Turn<'_>, node: &str) -> Vec<Arc<Value>> {
    turn.store
        .pods_of_node(node)
        .filter(|pod| !workloads::is_finished(pod) && !scheduler::tolerates(pod, &disrupted_taint()))
        .cloned()
        .collect()
}

/// The claim's node: by provider ID, never by an empty one (K05).
fn node_of(turn: &Turn<'_>, claim: &Value) -> Option<Arc<Value>> {
    let provider = j::text(claim, &["status", "providerID"]).filter(|id| !id.is_empty())?;
    let name = j::text(claim, &["status", "nodeName"]).filter(|name| !name.is_empty())?;
    let node = turn.store.get(Resource::Nodes, "", name)?;
    (j::text(node, &["spec", "providerID"]) == Some(provider)).then(|| Arc::clone(node))
}

fn pool_of(claim: &Value) -> &str {
    j::label(claim, POOL_LABEL).unwrap_or_default()
}

/// Puts the disrupted taint on a node, once.
fn taint(node: &mut Value) {
    if let Some(taints) = j::list_mut(node, &["spec", "taints"])
        && taints
            .iter()
            .all(|taint| j::text(taint, &["key"]) != Some(DISRUPTED))
    {
        taints.push(disrupted_taint());
    }
}
