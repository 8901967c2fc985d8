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

pub(crate) mod json;
mod objects;
mod selector;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

pub use self::api::route::Verb;
pub use self::api::watch::WatchCursor;
pub use self::api::{ACTOR_HEADER, resources_of};
pub use self::faults::{Fault, FaultId, FaultRule, NoAnswer};
pub use self::request_log::{Destruction, Destructive, RequestLog};
pub use self::resource::{Kind, Resource};

use self::api::read::Pages;
use self::faults::Faults;
use self::json as j;
use self::objects::Store;

/// How the simulated cluster behaves. All times are simulated.
#[derive(Clone, Debug)]
pub struct KubeOptions {
    /// Changes kept for watches; an older resourceVersion is told 410.
    pub watch_history: usize,
    /// Between two bookmarks of one watch.
    pub bookmark_interval: Duration,
}

impl Default for KubeOptions {
    fn default() -> Self {
        Self {
            watch_history: 20_000,
            bookmark_interval: Duration::from_mins(1),
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
    /// Draws the identities of objects that requests create.
    rng: ChaCha8Rng,
    /// Kinds whose definition is not installed.
    unserved: BTreeSet<Resource>,
    /// Reads come from this past state while it is set.
    stale: Option<Store>,
    /// Rises when the API server cuts all streams.
    watch_generation: u64,
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
        let _ = (now, rng);
    }

    /// What was asked of the API server.
    #[must_use]
    pub const fn log(&self) -> &RequestLog {
        &self.log
    }

    /// The newest revision: rises with every change of any object.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.store.revision()
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

    /// Marks a pod as evicted and deletes it gracefully.
    fn evict_pod(&mut self, pod: &Value, now: Timestamp) {
        let (namespace, name) = (j::namespace(pod), j::name(pod));
        self.store.edit(Resource::Pods, namespace, name, |pod| {
            j::set_condition(
                pod,
                "DisruptionTarget",
                "True",
                "EvictionByEvictionAPI",
                "Eviction API: evicting",
                now,
            );
        });
        self.store.delete(Resource::Pods, namespace, name, None, now);
    }
}
