//! A small hand-written world behind the ports: pods run as soon as their Deployment is made, a gateway
//! keeps members, coordinators answer. Every call passes a gate where it can fail, hang or panic.

mod clock;
mod cluster;
mod coordinator;
mod gateway;
pub mod journal;
pub mod readonly;
mod workloads;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;
use trino_pool_operator::actors::{LeaseSettings, Ports, Settings};
use trino_pool_operator::clock::Entropy;
use trino_pool_operator::cluster::facts::{
    ClaimFacts, DeploymentFacts, Grace, LeaseFacts, NodeFacts, ObjectFacts, OwnerRef, PodFacts, PoolResource,
    ReplicaSetFacts,
};
use trino_pool_operator::cluster::port::Hint;
use trino_pool_operator::gateway::model::{Backend, Member, MemberPhase, PoolState};
use trino_pool_operator::pool::ids::{
    ClaimName, ClaimUid, InstanceId, Namespace, NodeName, NodeUid, ObjectName, ObjectUid, ProviderId,
    ResourceVersion, SpecGeneration, StoreId,
};
use trino_pool_operator::pool::validate::example_spec;
use trino_pool_operator::store::memory::MemoryStore;

pub use clock::{PausedClock, SteppedClock};

/// What happens to a call at its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It fails.
    Fails,
    /// It never answers.
    Hangs,
    /// It panics.
    Panics,
    /// It arrives, and so does its answer, this many seconds later.
    Late(u64),
    /// 429, with this many seconds of Retry-After; only the claims know it.
    Throttles(u64),
}

#[derive(Default)]
pub struct Inner {
    pub pools: BTreeMap<String, PoolResource>,
    pub nodes: BTreeMap<NodeName, NodeFacts>,
    pub claims: BTreeMap<ClaimUid, ClaimFacts>,
    pub objects: Vec<ObjectFacts>,
    pub deployments: Vec<DeploymentFacts>,
    pub replica_sets: Vec<ReplicaSetFacts>,
    pub pods: Vec<PodFacts>,
    pub pool_states: BTreeMap<String, PoolState>,
    pub members: BTreeMap<InstanceId, Member>,
    pub steps: BTreeMap<(String, String), Member>,
    pub backends: BTreeMap<String, Backend>,
    pub owed: u64,
    /// Requests of this action are applied, and their answers lost.
    pub lose_answers_of: Option<String>,
    /// Requests that contain this, as `action instance`, are refused and leave no trace.
    pub refuse: Option<(String, trino_pool_operator::gateway::model::RefusalCode)>,
    pub lease: Option<LeaseFacts>,
    pub events: Vec<String>,
    pub statuses: Vec<serde_json::Value>,
    hints: Vec<UnboundedSender<Hint>>,
    trouble: BTreeMap<(String, String), Trouble>,
    calls: BTreeMap<String, u64>,
    pub log: Vec<String>,
    serial: u64,
}

/// The world; cloning shares.
#[derive(Clone, Default)]
pub struct World(Arc<Mutex<Inner>>);

impl World {
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Makes a call go wrong, for every subject (`""`) or for those that contain it.
    pub fn trouble(&self, call: &str, subject: &str, trouble: Trouble) {
        self.lock()
            .trouble
            .insert((call.to_owned(), subject.to_owned()), trouble);
    }

    pub fn calm(&self) {
        self.lock().trouble.clear();
    }

    pub fn calls(&self, call: &str) -> u64 {
        self.lock().calls.get(call).copied().unwrap_or_default()
    }

    /// What a watch tells everybody who listens.
    pub fn hint(&self, hint: &Hint) {
        // Who does not listen any more misses it.
        self.lock()
            .hints
            .retain(|listener| listener.unbounded_send(hint.clone()).is_ok());
    }

    /// The gate: `Err` when the call is to fail.
    async fn gate(&self, call: &str, subject: &str) -> Result<(), Trouble> {
        let trouble = {
            let mut inner = self.lock();
            *inner.calls.entry(call.to_owned()).or_default() += 1;
            inner
                .trouble
                .iter()
                .find(|((named, about), _)| named == call && subject.contains(about.as_str()))
                .map(|(_, trouble)| *trouble)
        };
        match trouble {
            None => Ok(()),
            Some(trouble @ (Trouble::Fails | Trouble::Throttles(_))) => Err(trouble),
            Some(Trouble::Hangs) => std::future::pending().await,
            Some(Trouble::Late(seconds)) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(())
            }
            Some(Trouble::Panics) => panic!("{call} {subject} panics on purpose"),
        }
    }

    pub fn add_pool(&self, name: &str, edit: impl FnOnce(&mut serde_json::Value)) {
        let mut spec = example_spec(name);
        edit(&mut spec);
        let resource = PoolResource {
            namespace: Namespace::new("trino"),
            name: ObjectName::new(name),
            uid: ObjectUid::new(format!("uid-{name}")),
            resource_version: ResourceVersion::new("1"),
            generation: SpecGeneration::new(1),
            deleting: false,
            finalizer: false,
            spec,
            store: None,
        };
        self.lock().pools.insert(name.to_owned(), resource);
    }

    /// Nodes, each with a NodeClaim that provably owns it.
    pub fn add_nodes(&self, prefix: &str, count: usize) {
        let mut inner = self.lock();
        for index in 0..count {
            let name = format!("{prefix}-{index}");
            let provider = ProviderId::new(format!("kwok:///{name}"));
            let claim = ClaimFacts {
                name: ClaimName::new(format!("claim-{name}")),
                uid: ClaimUid::new(format!("claim-uid-{name}")),
                deleted_at: None,
                node: Some(NodeName::new(&*name)),
                provider_id: Some(provider.clone()),
                drifted: None,
                disruption: None,
                ambiguous: false,
                grace: Grace::Unlimited,
                termination_at: None,
            };
            let node = NodeFacts {
                name: NodeName::new(&*name),
                uid: NodeUid::new(format!("node-uid-{name}")),
                resource_version: ResourceVersion::new("1"),
                created_at: None,
                deleting: false,
                owners: vec![OwnerRef {
                    api_version: "karpenter.sh/v1".into(),
                    kind: "NodeClaim".into(),
                    name: claim.name.to_string(),
                    uid: claim.uid.to_string(),
                    controller: false,
                }],
                provider_id: Some(provider),
                unschedulable: false,
                taints: Vec::new(),
                cordon_mark: None,
                ready: true,
            };
            inner.claims.insert(claim.uid.clone(), claim);
            inner.nodes.insert(node.name.clone(), node);
        }
    }

    /// Karpenter finds that these nodes no longer match their NodePool.
    pub fn drift(&self, is_it: impl Fn(&NodeName) -> bool) {
        for claim in self.lock().claims.values_mut() {
            if claim.node.as_ref().is_some_and(&is_it) {
                claim.drifted = Some(Some("NodePoolDrifted".into()));
            }
        }
    }

    /// Karpenter finds that of the node of this instance's first pod, which is the one returned.
    pub fn drift_first_node_of(&self, instance: &InstanceId) -> NodeName {
        let node = self.nodes_of(instance)[0].clone();
        self.drift(|name| *name == node);
        node
    }

    /// How often this was done, as the log has it.
    pub fn logged(&self, action: &str) -> usize {
        let prefix = format!("{action} ");
        let inner = self.lock();
        inner.log.iter().filter(|line| line.starts_with(&prefix)).count()
    }

    /// The gateway's members that are ACTIVE.
    pub fn active(&self) -> usize {
        let inner = self.lock();
        let members = inner.members.values();
        members.filter(|one| one.phase == MemberPhase::Active).count()
    }

    /// Where the gateway has this one, when it knows it.
    pub fn member_phase(&self, instance: &InstanceId) -> Option<MemberPhase> {
        self.lock().members.get(instance).map(|member| member.phase)
    }

    /// Nodes of an instance's pods.
    pub fn nodes_of(&self, instance: &InstanceId) -> Vec<NodeName> {
        let inner = self.lock();
        let of = |pod: &&PodFacts| pod.name.as_str().starts_with(instance.as_str());
        inner
            .pods
            .iter()
            .filter(of)
            .filter_map(|pod| pod.node.clone())
            .collect()
    }
}

impl Inner {
    fn next(&mut self, prefix: &str) -> String {
        self.serial += 1;
        format!("{prefix}-{}", self.serial)
    }
}

/// Counts up: different every time, the same in every run.
#[derive(Default)]
pub struct Counting(AtomicU64);

impl Entropy for Counting {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The ports of one process in this world, over this store.
pub fn ports(world: &World, store: &Arc<MemoryStore>) -> Ports {
    Ports {
        cluster: Arc::new(world.clone()),
        gateway: Arc::new(world.clone()),
        coordinator: Arc::new(world.clone()),
        store: store.clone(),
        clock: Arc::new(PausedClock::new()),
        entropy: Arc::new(Counting::default()),
    }
}

pub fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(StoreId::new("store-a")))
}

pub fn settings(owner: &str) -> Settings {
    Settings {
        node_replacement: true,
        lease: LeaseSettings {
            elect: false,
            ..LeaseSettings::default()
        },
        ..Settings::new(owner)
    }
}
