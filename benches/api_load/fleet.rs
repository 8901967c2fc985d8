//! The world around the operator: pools, nodes and claims of the wanted size, served over HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use trino_pool_operator::clock::SystemClock;
use trino_pool_operator::pool::names::{LABEL_INSTANCE, LABEL_POOL};
use trino_pool_operator::sim::kube::{Cost, KubeOptions, NodePoolPlan, Recorded, Resource};
use trino_pool_operator::sim::trino::Behaviour;
use trino_pool_operator::sim::world::{
    ADMIN, ADMIN_TOKEN, Addresses, NAMESPACE, NODE_POOL, Served, SharedWorld, World, WorldOptions, kubeconfig,
};

use crate::args::Size;
use crate::error::BenchError;

/// Instances of each pool.
pub const INSTANCES: u32 = 3;
/// Pods of each instance: a coordinator and its workers.
pub const PODS: u32 = 5;
/// Between two steps of the world.
pub const STEP: Duration = Duration::from_millis(250);

/// NodePool of the nodes that carry nothing.
const SPARE: &str = "spare";
/// What Karpenter compares with the NodePool's own (pkg/controllers/nodeclaim/disruption/drift.go).
const HASH: &str = "karpenter.sh/nodepool-hash";

/// A world of some size.
pub struct Fleet {
    size: Size,
    world: SharedWorld,
    folder: TempDir,
    served: Served,
    stepping: JoinHandle<()>,
}

/// Everything counted at the servers so far.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Kubernetes, by `<VERB> <resource>`.
    pub kubernetes: BTreeMap<String, Cost>,
    /// Requests to the gateway.
    pub gateway: u64,
    /// Requests to coordinators.
    pub coordinators: u64,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stepping.abort();
    }
}

impl Fleet {
    /// Namespace of every pool.
    pub const NAMESPACE: &'static str = NAMESPACE;

    /// Pools, nodes and claims, and not a single pod.
    pub async fn begin(size: Size) -> Result<Self, BenchError> {
        let folder = TempDir::new().map_err(BenchError::io(std::env::temp_dir()))?;
        let world = SharedWorld::new(World::new(options(size))?);
        world.with(|world| furnish(world, size));
        let served = world.serve().await.map_err(BenchError::io("127.0.0.1"))?;
        let (stepped, clock) = (world.clone(), Arc::new(SystemClock::new()));
        let stepping = tokio::spawn(async move { stepped.run(clock, STEP).await });
        let fleet = Self {
            size,
            world,
            folder,
            served,
            stepping,
        };
        let at = format!("http://{}", fleet.addresses().kube);
        for (name, text) in [("kubeconfig", kubeconfig(&at)), ("token", ADMIN_TOKEN.to_owned())] {
            let path = fleet.file(name);
            std::fs::write(&path, text).map_err(BenchError::io(&path))?;
        }
        Ok(fleet)
    }

    pub const fn size(&self) -> Size {
        self.size
    }

    pub fn addresses(&self) -> Addresses {
        self.served.addresses
    }

    /// A file that belongs to it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Keeps the files, for whoever has to look at a log.
    pub fn keep(&mut self) {
        self.folder.disable_cleanup(true);
    }

    pub fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        self.world.with(act)
    }

    pub fn peek<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        self.world.peek(look)
    }

    /// What the servers have counted of everybody but the world's own administrator.
    pub fn counted(&self) -> Counted {
        self.peek(|world| Counted {
            kubernetes: world.kube.log().costs_without(ADMIN),
            gateway: world.traffic.gateway.requests().values().sum(),
            coordinators: world.traffic.probes(),
        })
    }

    /// Keeps every request to Kubernetes one by one from now on, or none any more; those of until now.
    pub fn record(&self, on: bool) -> Vec<Recorded> {
        self.with(|world| world.kube.record_requests(on))
    }

    /// What is still missing before every pool serves what it wants, with nothing under way.
    pub fn missing(&self) -> Option<String> {
        let wanted = u64::from(INSTANCES);
        self.peek(|world| {
            let pools = world.kube.objects(Resource::TrinoPools);
            let serving = |pool: &Value| pool["status"]["serving"].as_u64() == Some(wanted);
            let serve = pools.iter().filter(|pool| serving(pool)).count();
            if serve < pools.len() {
                return Some(format!("{serve} of {} pools serve", pools.len()));
            }
            let instances = world.kube.objects(Resource::Services).len();
            let desired = pools.len() * INSTANCES as usize;
            (instances != desired).then(|| format!("{instances} instances of {desired}"))
        })
    }

    /// Pools by how many instances they have beyond the desired ones: the most.
    pub fn most_instances(&self) -> usize {
        self.peek(|world| {
            let mut of_pool: BTreeMap<String, usize> = BTreeMap::new();
            for service in world.kube.objects(Resource::Services) {
                if let Some(pool) = service["metadata"]["labels"][LABEL_POOL].as_str() {
                    *of_pool.entry(pool.to_owned()).or_default() += 1;
                }
            }
            of_pool.into_values().max().unwrap_or(0)
        })
    }

    /// Ids of all instances.
    pub fn instances(&self) -> BTreeSet<String> {
        self.peek(|world| world.instances(None)).into_iter().collect()
    }

    /// Instances with a pod on each node.
    pub fn instances_of_nodes(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.peek(|world| {
            let mut on: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for pod in world.kube.objects(Resource::Pods) {
                let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
                let instance = pod["metadata"]["labels"][LABEL_INSTANCE].as_str();
                if let Some(instance) = instance {
                    on.entry(node.to_owned()).or_default().insert(instance.to_owned());
                }
            }
            on
        })
    }

    /// A node that only one instance is on, if there is any, else the one with the fewest; and those instances.
    pub fn loneliest_node(&self) -> Result<(String, BTreeSet<String>), BenchError> {
        self.instances_of_nodes()
            .into_iter()
            .filter(|(node, _)| !node.is_empty())
            .min_by_key(|(_, instances)| instances.len())
            .ok_or_else(|| BenchError::Broken("no instance is on a node".to_owned()))
    }

    /// UID of a node.
    pub fn uid_of_node(&self, node: &str) -> String {
        self.peek(|world| {
            let node = world.kube.object(Resource::Nodes, "", node);
            let uid = node.and_then(|node| node["metadata"]["uid"].as_str().map(str::to_owned));
            uid.unwrap_or_default()
        })
    }

    /// Whether a node is cordoned.
    pub fn is_cordoned(&self, node: &str) -> bool {
        self.peek(|world| {
            let node = world.kube.object(Resource::Nodes, "", node);
            node.is_some_and(|node| node["spec"]["unschedulable"] == json!(true))
        })
    }

    /// Makes these nodes drift now: their claims remember another template, and say so at once.
    pub fn drift(&self, nodes: &BTreeSet<String>) -> Result<(), BenchError> {
        let drifted = self.with(|world| {
            let now = world.now().to_string();
            let claims: Vec<String> = world
                .kube
                .objects(Resource::NodeClaims)
                .iter()
                .filter(|claim| {
                    claim["status"]["nodeName"]
                        .as_str()
                        .is_some_and(|node| nodes.contains(node))
                })
                .filter_map(|claim| claim["metadata"]["name"].as_str().map(str::to_owned))
                .collect();
            for claim in &claims {
                world.kube.edit(Resource::NodeClaims, "", claim, |claim| {
                    claim["metadata"]["annotations"][HASH] = json!("0");
                    if let Some(conditions) = claim["status"]["conditions"].as_array_mut() {
                        conditions.push(json!({
                            "lastTransitionTime": now, "message": "NodePoolDrifted", "observedGeneration": 1,
                            "reason": "NodePoolDrifted", "status": "True", "type": "Drifted",
                        }));
                    }
                });
            }
            claims.len()
        });
        if drifted == nodes.len() {
            Ok(())
        } else {
            let wanted = nodes.len();
            Err(BenchError::Broken(format!("{drifted} of {wanted} nodes drifted")))
        }
    }

    /// Names of every node, of those that carry pods and of the others.
    pub fn nodes(&self) -> Vec<String> {
        self.peek(|world| {
            let nodes = world.kube.objects(Resource::Nodes);
            let names = nodes.iter().filter_map(|node| node["metadata"]["name"].as_str());
            names.map(str::to_owned).collect()
        })
    }

    /// Forgets history and ends every watch: each has to list anew.
    pub fn forget_history(&self) {
        self.with(|world| {
            world.kube.compact();
            world.kube.cut_watches();
        });
    }

    /// Who holds the Lease.
    pub fn holder(&self) -> Option<String> {
        let lease = self.peek(|world| {
            world
                .kube
                .object(Resource::Leases, NAMESPACE, "trino-pool-operator")
        })?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }
}

/// Pods of all pools.
const fn pods(size: Size) -> u32 {
    size.pools * INSTANCES * PODS
}

/// Nodes that pods go to: a quarter more than there are pods, where there are so many claims.
fn roomy_nodes(size: Size) -> u32 {
    (pods(size) + pods(size) / 4 + 8).min(size.claims)
}

fn options(size: Size) -> WorldOptions {
    let anywhere = json!({"podTemplate": {"spec": {"affinity": null}}});
    // Room for the replacements of many instances at once, however few the nodes.
    let pods_per_node = (2 * pods(size)).div_ceil(roomy_nodes(size)).max(4);
    WorldOptions {
        start: Timestamp::now(),
        pools: size.pools,
        instances: INSTANCES,
        workers: PODS - 1,
        clients: 0,
        behaviour: Behaviour {
            start_delay: Duration::ZERO,
            ..Behaviour::default()
        },
        kube: KubeOptions {
            pods_per_node: pods_per_node as usize,
            node_cpu: u64::from(pods_per_node) * 2_000,
            start_delay: Duration::from_millis(200),
            readiness_delay: Duration::ZERO,
            stop_delay: Duration::from_millis(200),
            watch_history: 500_000,
            ..KubeOptions::default()
        },
        spec: json!({"template": {"coordinator": anywhere.clone(), "workers": anywhere}}),
        ..WorldOptions::default()
    }
}

/// Nodes for pods, and nodes that carry nothing, until there are as many claims as the size says.
fn furnish(world: &mut World, size: Size) {
    let now = world.now();
    let plan = NodePoolPlan {
        taints: vec![(SPARE.to_owned(), "true".to_owned(), "NoSchedule".to_owned())],
        expire_after: Some("Never".to_owned()),
        ..NodePoolPlan::default()
    };
    world.kube.create_node_pool(SPARE, &plan, now);
    for nth in 0..size.claims {
        let pool = if nth < roomy_nodes(size) { NODE_POOL } else { SPARE };
        world.kube.add_node(pool, now);
    }
}
