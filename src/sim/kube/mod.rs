//! A simulated Kubernetes cluster with Karpenter: one plain, synchronous, deterministic value.
//!
//! ```text
//!   server.rs (axum) ─┐                 ┌─ workloads  Deployment → ReplicaSet → Pod, collector
//!                     ├─ api/ ─ objects ┼─ scheduler, kubelet
//!   client.rs (tower) ┘   │             └─ karpenter/ provision, drift, disruption, termination
//!                      faults, request_log
//! ```
//!
//! Owns every object of the cluster and what its controllers do to them. `handle` answers HTTP
//! requests at once; `step` lets the controllers act. It never reads a clock and draws randomness only
//! from generators it is given: the same seed and the same requests make the same bytes.

pub mod api;
pub mod client;
pub mod faults;
pub mod request_log;
pub mod resource;
pub mod server;
pub mod view;

mod admin;
mod collector;
mod events;
pub(crate) mod json;
mod karpenter;
mod kubelet;
mod objects;
mod scheduler;
mod selector;
mod turn;
mod workloads;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

pub use self::admin::NodePoolPlan;
pub use self::api::route::Verb;
pub use self::api::watch::WatchCursor;
pub use self::api::{ACTOR_HEADER, resources_of};
pub use self::faults::{AnswerDue, Fault, FaultId, FaultRule, NoAnswer};
pub use self::request_log::{Cost, Destruction, Destructive, Made, Recorded, RequestLog};
pub use self::resource::{Kind, Resource};

use self::api::read::Pages;
use self::faults::Faults;
use self::karpenter::Karpenter;
use self::kubelet::Kubelet;
use self::objects::Store;
use self::turn::Turn;
use crate::pool::names;

/// How the simulated cluster behaves. All times are simulated.
#[derive(Clone, Debug)]
pub struct KubeOptions {
    /// Changes kept for watches; an older resourceVersion is told 410.
    pub watch_history: usize,
    /// Between two bookmarks of one watch.
    pub bookmark_interval: Duration,
    /// A watch may ask for what there is first (the WatchList feature gate); an older server refuses that.
    pub streaming_lists: bool,
    /// Pods a Karpenter node holds.
    pub pods_per_node: usize,
    /// CPU of a Karpenter node, thousandths.
    pub node_cpu: u64,
    /// From binding to running; up to a quarter more, by chance, as for the other delays.
    pub start_delay: Duration,
    /// From running to ready.
    pub readiness_delay: Duration,
    /// Pods with this label (key, value) are ready only when [`KubeSim::set_container_ready`] says so.
    pub readiness_held: Option<(String, String)>,
    /// From the deletion of a pod until its object is gone, at most its grace.
    pub stop_delay: Duration,
    /// Until pods of an unreachable node are deleted.
    pub unreachable_eviction: Duration,
    /// From a claim's creation to its launch.
    pub launch_delay: Duration,
    /// From a claim's launch to its Ready node.
    pub registration_delay: Duration,
    /// Between two looks of Karpenter for nodes to disrupt.
    pub disruption_interval: Duration,
}

impl Default for KubeOptions {
    fn default() -> Self {
        Self {
            watch_history: 20_000,
            bookmark_interval: Duration::from_mins(1),
            streaming_lists: true,
            pods_per_node: 4,
            node_cpu: 16_000,
            start_delay: Duration::from_secs(2),
            readiness_delay: Duration::from_secs(2),
            readiness_held: Some((names::LABEL_COMPONENT.to_owned(), names::COORDINATOR.to_owned())),
            stop_delay: Duration::from_secs(1),
            unreachable_eviction: Duration::from_mins(5),
            launch_delay: Duration::from_secs(2),
            registration_delay: Duration::from_secs(8),
            disruption_interval: Duration::from_secs(10),
        }
    }
}

/// The cluster.
#[derive(Debug)]
pub struct KubeSim {
    options: KubeOptions,
    store: Store,
    pages: Pages,
    faults: Faults,
    log: RequestLog,
    kubelet: Kubelet,
    karpenter: Karpenter,
    /// The revision that the workload controllers have seen.
    settled: u64,
    /// Draws the identities of objects that requests create.
    rng: ChaCha8Rng,
    /// Kinds whose definition is not installed.
    unserved: BTreeSet<Resource>,
    /// Reads come from this past state while it is set.
    stale: Option<Store>,
    /// Rises when the API server cuts all streams.
    watch_generation: u64,
}

/// The controllers that remember something, apart from the objects.
struct Actors<'a> {
    kubelet: &'a mut Kubelet,
    karpenter: &'a mut Karpenter,
}

impl KubeSim {
    /// An empty cluster with the namespaces `default` and `kube-system`.
    #[must_use]
    pub fn new(options: KubeOptions, rng: ChaCha8Rng, now: Timestamp) -> Self {
        let mut sim = Self {
            store: Store::new(options.watch_history),
            options,
            pages: Pages::default(),
            faults: Faults::default(),
            log: RequestLog::default(),
            kubelet: Kubelet::default(),
            karpenter: Karpenter::default(),
            settled: 0,
            rng,
            unserved: BTreeSet::new(),
            stale: None,
            watch_generation: 0,
        };
        sim.ensure_namespace("default", now);
        sim.ensure_namespace("kube-system", now);
        sim
    }

    /// Makes the namespace exist.
    pub fn ensure_namespace(&mut self, name: &str, now: Timestamp) {
        if self.store.get(Resource::Namespaces, "", name).is_none() {
            let object = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            self.store
                .create(Resource::Namespaces, "", object, now, &mut self.rng);
        }
    }

    /// Lets every controller act once.
    pub fn step(&mut self, now: Timestamp, rng: &mut ChaCha8Rng) {
        let mut turn = Turn {
            store: &mut self.store,
            log: &mut self.log,
            options: &self.options,
            now,
            rng,
        };
        // These only react to changes; the others also to time.
        let revision = turn.store.revision();
        if revision != self.settled {
            let seen = std::mem::replace(&mut self.settled, revision);
            collector::step(&mut turn, seen);
            workloads::step(&mut turn, seen);
        }
        scheduler::step(&mut turn);
        self.kubelet.step(&mut turn);
        self.karpenter.step(&mut turn);
    }

    /// Lends a turn to something that happens outside of a step, with the cluster's own dice.
    fn with_turn<T>(&mut self, now: Timestamp, act: impl FnOnce(&mut Actors<'_>, &mut Turn<'_>) -> T) -> T {
        let mut turn = Turn {
            store: &mut self.store,
            log: &mut self.log,
            options: &self.options,
            now,
            rng: &mut self.rng,
        };
        let mut actors = Actors {
            kubelet: &mut self.kubelet,
            karpenter: &mut self.karpenter,
        };
        act(&mut actors, &mut turn)
    }

    /// What was asked of the API server.
    #[must_use]
    pub const fn log(&self) -> &RequestLog {
        &self.log
    }

    /// Keeps every request from now on, or none any more; what was kept until now is returned.
    pub fn record_requests(&mut self, on: bool) -> Vec<Recorded> {
        self.log.record(on)
    }

    /// The newest revision: rises with every change of any object.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// The newest revision of any object of these resources: rises with each of their changes.
    #[must_use]
    pub fn revision_of(&self, resources: &[Resource]) -> u64 {
        self.store.newest_of(resources)
    }

    /// One object as it is now, faults and staleness aside.
    #[must_use]
    pub fn object(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.store.get(resource, namespace, name).cloned()
    }

    /// All objects of a resource as they are now, by namespace and name.
    #[must_use]
    pub fn objects(&self, resource: Resource) -> Vec<Arc<Value>> {
        self.store.list(resource)
    }

    /// Makes matching requests fail until taken back.
    pub fn inject(&mut self, rule: FaultRule) -> FaultId {
        self.faults.inject(rule)
    }

    /// Takes one injected fault back.
    pub fn clear_fault(&mut self, id: FaultId) {
        self.faults.clear(id);
    }

    /// Takes every injected fault back and serves fresh reads of every kind.
    pub fn clear_faults(&mut self) {
        self.faults.clear_all();
        self.unserved.clear();
        self.stale = None;
    }

    /// Uninstalls (or installs again) the definition of a kind: its paths answer 404 in plain text.
    pub fn set_served(&mut self, resource: Resource, served: bool) {
        if served {
            self.unserved.remove(&resource);
        } else {
            self.unserved.insert(resource);
        }
    }

    /// From now on GET and LIST answer with the state of this moment, while writes go on.
    pub fn freeze_reads(&mut self) {
        self.stale = Some(self.store.clone());
    }

    /// Ends [`KubeSim::freeze_reads`].
    pub fn thaw_reads(&mut self) {
        self.stale = None;
    }

    /// Forgets history: open continue tokens and older watches are told 410.
    pub fn compact(&mut self) {
        self.store.compact();
        self.pages.compact();
    }

    /// Ends every open watch, as a rolling restart of the API server does.
    pub fn cut_watches(&mut self) {
        self.watch_generation += 1;
    }
}
