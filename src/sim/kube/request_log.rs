//! What was asked of the API server, by whom: the independent witness of what the operator did.
//!
//! Counts every request, keeps each destructive one with its object's name, and each that made a part of a
//! workload. Deletions and evictions by the cluster's own controllers are kept too, under the controller's name.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::api::route::Verb;
use super::resource::Resource;

/// How an object is destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destruction {
    /// DELETE of the object.
    Delete,
    /// POST of an Eviction of a pod.
    Evict,
}

/// One request that destroys something, or one such act of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destructive {
    /// When.
    pub at: Timestamp,
    /// Who: `x-sim-actor`, else the User-Agent; a controller by its name.
    pub actor: String,
    /// How.
    pub how: Destruction,
    /// What kind of object.
    pub resource: Resource,
    /// Where; empty when cluster-scoped.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The UID that the request was bound to, if it was bound to one.
    pub uid: Option<String>,
    /// HTTP status of the answer; 200 for a controller's own act.
    pub code: u16,
    /// It came as a request, not from inside the simulated control plane.
    pub requested: bool,
}

/// One object that a request created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// When.
    pub at: Timestamp,
    /// Who, as in [`Destructive`].
    pub actor: String,
    /// What kind of object.
    pub resource: Resource,
    /// Its name.
    pub name: String,
}

/// Counts of requests and the list of destructive ones.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    counts: BTreeMap<String, u64>,
    by_actor: BTreeMap<String, BTreeMap<String, u64>>,
    destructive: Vec<Destructive>,
    made: Arc<Vec<Made>>,
}

impl RequestLog {
    pub(crate) fn count(&mut self, actor: &str, verb: Verb, label: &str) {
        let key = format!("{} {label}", verb.as_str());
        if let Some(counts) = self.by_actor.get_mut(actor) {
            *counts.entry(key.clone()).or_default() += 1;
        } else {
            self.by_actor
                .insert(actor.to_owned(), BTreeMap::from([(key.clone(), 1)]));
        }
        *self.counts.entry(key).or_default() += 1;
    }

    pub(crate) fn destroyed(&mut self, destructive: Destructive) {
        self.destructive.push(destructive);
    }

    pub(crate) fn made(&mut self, made: Made) {
        Arc::make_mut(&mut self.made).push(made);
    }

    /// Deployments, Services and ConfigMaps that requests created, oldest first.
    #[must_use]
    pub fn all_made(&self) -> Arc<Vec<Made>> {
        Arc::clone(&self.made)
    }

    /// Requests by `<VERB> <resource>`, whoever sent them.
    #[must_use]
    pub const fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// Requests of one actor by `<VERB> <resource>`.
    #[must_use]
    pub fn counts_of(&self, actor: &str) -> BTreeMap<String, u64> {
        self.by_actor.get(actor).cloned().unwrap_or_default()
    }

    /// Requests by `<VERB> <resource>` of everybody but this actor.
    #[must_use]
    pub fn counts_without(&self, actor: &str) -> BTreeMap<String, u64> {
        let others = self.by_actor.iter().filter(|(who, _)| *who != actor);
        let mut sums = BTreeMap::new();
        for (what, count) in others.flat_map(|(_, counts)| counts) {
            *sums.entry(what.clone()).or_default() += count;
        }
        sums
    }

    /// Everybody who sent a request.
    pub fn actors(&self) -> impl Iterator<Item = &str> {
        self.by_actor.keys().map(String::as_str)
    }

    /// Every destructive act, oldest first.
    #[must_use]
    pub fn destructive(&self) -> &[Destructive] {
        &self.destructive
    }

    /// Destructive *requests* by actors that `is_ours` accepts, refused ones included: asking is
    /// already a broken rule.
    pub fn requested_by<'a>(
        &'a self,
        is_ours: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Destructive> {
        self.destructive
            .iter()
            .filter(move |entry| entry.requested && is_ours(&entry.actor))
    }
}
