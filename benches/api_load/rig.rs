//! One operator over one world: brings it up, lets time pass, counts.
//!
//! Owns the world, the operator's process and the watch over the rules. What is measured when is `measure`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use trino_pool_operator::actors::{Handle, Ports, Settings, StartError, start};
use trino_pool_operator::clock::{Clock, Entropy};
use trino_pool_operator::cluster::kubernetes::{KubernetesCluster, Limits, Scope};
use trino_pool_operator::pool::ids::StoreId;
use trino_pool_operator::sim::invariants::{Ending, SharedWatch, unfinished};
use trino_pool_operator::sim::kube::client::in_process_client;
use trino_pool_operator::sim::kube::{KubeOptions, NodePoolPlan, Resource};
use trino_pool_operator::sim::world::{
    AdminError, PortsError, SharedWorld, SimClock, SimEntropy, World, WorldOptions,
};
use trino_pool_operator::store::memory::MemoryStore;
use trino_pool_operator::store::port::{Store, StoreError};

use crate::by_rule::PAGE;
use crate::measure::Size;
use crate::tally::Tally;

/// Instances of each pool.
pub const INSTANCES: u32 = 3;
/// Who the operator's requests are counted under.
const OPERATOR: &str = "operator";
/// NodePool of the claims that carry nothing.
const SPARE: &str = "spare";
/// What Karpenter compares with the NodePool's own (pkg/controllers/nodeclaim/disruption/drift.go).
const HASH: &str = "karpenter.sh/nodepool-hash";
/// Between two steps of the world.
const STEP: Duration = Duration::from_millis(500);
/// Steps between two looks at the store.
const STEPS_PER_LOOK: u32 = 2;
/// Steps from one regular tick to the next, 5 s.
const STEPS_PER_PERIOD: u32 = 10;
/// Everything asked in a tick is answered so long after it began, unless the operator holds itself back.
const WITHIN_TICK: u32 = 8;
/// Steps until something must have happened: an hour.
const PATIENCE: u32 = 7_200;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The command line.
    #[error(
        "unknown argument {0:?}; known are --json, --held-back and sizes such as 10x1000 (pools x NodeClaims)"
    )]
    Usage(String),
    /// No runtime.
    #[error("no runtime: {0}")]
    Runtime(std::io::Error),
    /// The world refused to be set up so.
    #[error("the world refused: {0}")]
    World(#[from] AdminError),
    /// No clients for the world.
    #[error("the world cannot be reached: {0}")]
    Ports(#[from] PortsError),
    /// The operator did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store did not answer a look.
    #[error("the store did not answer: {0}")]
    Store(#[from] StoreError),
    /// The figures cannot be written.
    #[error("the figures cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// Something did not happen in time.
    #[error("{size}: not within an hour of the story: {what}")]
    Late {
        /// The fleet.
        size: String,
        /// What.
        what: String,
    },
    /// A rule was broken, or the world is not as the figures assume.
    #[error("{size}: {what}")]
    Broken {
        /// The fleet.
        size: String,
        /// What.
        what: String,
    },
}

/// An operator over a world.
pub struct Rig {
    size: Size,
    world: SharedWorld,
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    watch: SharedWatch,
    operator: Handle,
    /// Statements of our own looks.
    looked: u64,
    /// See `Tally::claim_pages`, and the tick they were last added for.
    claim_pages: u64,
    paged: u64,
    steps: u32,
}

impl Rig {
    /// Starts the operator over a world of this size without a single pod.
    /// `held_back`: its Kubernetes client keeps the limits of production.
    pub async fn begin(size: Size, held_back: bool) -> Result<Self, BenchError> {
        let options = options(size);
        let clock: Arc<dyn Clock> = Arc::new(SimClock::begin(options.start));
        let entropy: Arc<dyn Entropy> = Arc::new(SimEntropy::seeded(options.seed));
        let world = SharedWorld::new(World::new(options)?);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreId::new("bench")));
        let ports = world.ports(OPERATOR, Arc::clone(&clock), Arc::clone(&entropy))?;
        // The world's own client is held back as in production.
        let cluster = if held_back {
            ports.cluster
        } else {
            let client = in_process_client(world.kube_face(), OPERATOR);
            let (time, dice) = (Arc::clone(&clock), Arc::clone(&entropy));
            Arc::new(KubernetesCluster::with(
                client,
                Scope::All,
                Limits::none(),
                time,
                dice,
            ))
        };
        let ports = Ports {
            cluster,
            gateway: ports.gateway,
            coordinator: ports.coordinator,
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            entropy,
        };
        let settings = Settings {
            node_replacement: true,
            ..Settings::new(OPERATOR)
        };
        Ok(Self {
            size,
            world,
            clock,
            store,
            watch: SharedWatch::default(),
            operator: start(ports, settings).await?,
            looked: 0,
            claim_pages: 0,
            paged: 0,
            steps: 0,
        })
    }

    /// Ends the operator. A rule that was broken is an error now at the latest.
    pub async fn end(self) -> Result<(), BenchError> {
        self.judge()?;
        self.operator.crash().await;
        Ok(())
    }

    /// Looks at the world, or does something to it.
    pub fn world<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        self.world.with(act)
    }

    /// Waits until every pool serves what it wants, and nothing is under way.
    pub async fn settle(&mut self) -> Result<(), BenchError> {
        let wanted = self.size.instances();
        self.until("every pool serves", |rig| {
            let count = rig.world.peek(|world| world.instances(None).len());
            let missing = (count as u64 != wanted).then(|| format!("{count} of {wanted} instances exist"));
            Ok(rig.unfinished(0)?.or(missing))
        })
        .await
    }

    /// Adds claims that carry nothing, with their nodes, until there are as many as the size says.
    pub fn add_spare_claims(&self) -> Result<(), BenchError> {
        let wanted = self.size.claims();
        let plan = NodePoolPlan {
            taints: vec![(SPARE.to_owned(), "true".to_owned(), "NoSchedule".to_owned())],
            expire_after: Some("Never".to_owned()),
            ..NodePoolPlan::default()
        };
        let count = self.world(|world| {
            let now = world.now();
            world.kube.create_node_pool(SPARE, &plan, now);
            let mut count = world.kube.objects(Resource::NodeClaims).len() as u64;
            while count < wanted && world.kube.add_node(SPARE, now).is_some() {
                count += 1;
            }
            count
        });
        if count == wanted {
            Ok(())
        } else {
            Err(self.broken(format!("{count} NodeClaims, not {wanted}")))
        }
    }

    /// The node with the fewest instances on it, then the first by name, and those instances.
    pub fn loneliest_node(&self) -> Result<(String, Vec<String>), BenchError> {
        let mut on: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (instance, nodes) in self.nodes_of_instances() {
            for node in nodes {
                on.entry(node).or_default().push(instance.clone());
            }
        }
        on.into_iter()
            .min_by_key(|(_, instances)| instances.len())
            .ok_or_else(|| self.broken("no instance is on a node".to_owned()))
    }

    /// Distinct nodes of every instance.
    pub fn nodes_of_instances(&self) -> BTreeMap<String, Vec<String>> {
        self.world.peek(|world| {
            let instances = world.instances(None);
            instances
                .into_iter()
                .map(|instance| {
                    let mut nodes = world.nodes_of(&instance);
                    nodes.sort();
                    nodes.dedup();
                    (instance, nodes)
                })
                .collect()
        })
    }

    /// Makes one node drift, and no other: its claim remembers another template.
    pub fn drift(&self, node: &str) -> Result<(), BenchError> {
        let drifted = self.world(|world| {
            world.claim_of(node).is_some_and(|claim| {
                world
                    .kube
                    .annotate(Resource::NodeClaims, "", &claim, HASH, Some("0"))
            })
        });
        if drifted {
            Ok(())
        } else {
            Err(self.broken(format!("node {node} has no NodeClaim")))
        }
    }

    /// Waits until these many instances with evidence are retired, replaced, and nothing is under way.
    pub async fn replaced(&mut self, instances: usize) -> Result<(), BenchError> {
        let what = format!("{instances} instances are replaced");
        self.until(&what, |rig| rig.unfinished(instances)).await
    }

    /// Lets a number of regular ticks' time pass, however many ticks really begin in it.
    pub async fn pass_periods(&mut self, periods: u32) -> Result<(), BenchError> {
        for _ in 0..periods * STEPS_PER_PERIOD {
            self.step().await?;
        }
        Ok(())
    }

    /// Waits for the next tick and until everything it asked for should be answered, so that counts cover whole
    /// ticks.
    pub async fn align(&mut self) -> Result<(), BenchError> {
        let last = self.ticks();
        self.until("a tick begins", |rig| {
            Ok((rig.ticks() == last).then(|| format!("tick {last} was the last")))
        })
        .await?;
        for _ in 0..WITHIN_TICK {
            self.step().await?;
        }
        Ok(())
    }

    fn ticks(&self) -> u64 {
        self.operator.status.borrow().tick.get()
    }

    /// Everything counted so far.
    pub fn tally(&self) -> Tally {
        let coalesced = self.operator.status.borrow().counts.coalesced_ticks;
        let (kubernetes, gateway) = self.world.peek(|world| {
            let gateway = world.traffic.gateway.requests().values().sum();
            (world.kube.log().counts_of(OPERATOR), gateway)
        });
        Tally {
            ticks: self.ticks(),
            coalesced,
            claim_pages: self.claim_pages,
            kubernetes,
            gateway,
            store: self.store.statements().saturating_sub(self.looked),
        }
    }

    /// What is still to happen, if anything; an error when a rule is broken.
    fn unfinished(&self, evidence: usize) -> Result<Option<String>, BenchError> {
        self.judge()?;
        let Some(pair) = self.watch.with(|watch| watch.last()) else {
            return Ok(Some("a first look".to_owned()));
        };
        let seen = pair.1.rows().filter(|(_, row)| row.evidence.is_present());
        let seen = seen.count();
        if seen > evidence {
            return Err(self.broken(format!("{seen} instances have evidence, not {evidence}")));
        }
        if seen < evidence {
            return Ok(Some(format!("evidence of {evidence} instances; {seen} have it")));
        }
        if pair.1.pools.len() as u64 != self.size.pools() {
            return Ok(Some("rows of every pool".to_owned()));
        }
        let ending = Ending {
            failed_candidates: 0,
            ..Ending::default()
        };
        let open = unfinished(&pair.0, &pair.1, &ending);
        Ok(open.first().map(ToString::to_string))
    }

    fn judge(&self) -> Result<(), BenchError> {
        let first = self
            .watch
            .with(|watch| watch.violations().first().map(ToString::to_string));
        first.map_or(Ok(()), |violation| Err(self.broken(violation)))
    }

    /// Waits until `open` says that nothing is.
    async fn until(
        &mut self,
        what: &str,
        open: impl Fn(&Self) -> Result<Option<String>, BenchError>,
    ) -> Result<(), BenchError> {
        let mut last = String::new();
        for _ in 0..PATIENCE {
            match open(self)? {
                None => return Ok(()),
                Some(why) => last = why,
            }
            self.step().await?;
        }
        Err(BenchError::Late {
            size: self.size.words(),
            what: format!("{what} ({last})"),
        })
    }

    async fn step(&mut self) -> Result<(), BenchError> {
        self.clock.sleep(STEP).await;
        self.world.step(self.clock.now());
        self.page_claims();
        if self.steps.is_multiple_of(STEPS_PER_LOOK) {
            let before = self.store.statements();
            self.watch.see_both(&self.world, self.store.as_ref()).await?;
            self.looked += self.store.statements().saturating_sub(before);
        } else {
            self.watch.see_world(&self.world);
        }
        self.steps = self.steps.wrapping_add(1);
        Ok(())
    }

    fn page_claims(&mut self) {
        let ticks = self.ticks();
        if ticks > self.paged {
            let claims = self
                .world
                .peek(|world| world.kube.objects(Resource::NodeClaims).len());
            self.claim_pages += claims.div_ceil(PAGE) as u64 * (ticks - self.paged);
            self.paged = ticks;
        }
    }

    fn broken(&self, what: String) -> BenchError {
        BenchError::Broken {
            size: self.size.words(),
            what,
        }
    }
}

/// Two pods an instance, four on a node, and none that keeps others away: 150 instances fit on fewer than 100
/// claims. No clients: a quiet pool set.
fn options(size: Size) -> WorldOptions {
    let anywhere = json!({"podTemplate": {"spec": {"affinity": null}}});
    WorldOptions {
        pools: size.pools,
        instances: INSTANCES,
        workers: 1,
        clients: 0,
        kube: KubeOptions {
            pods_per_node: 4,
            ..KubeOptions::default()
        },
        spec: json!({"template": {"coordinator": anywhere.clone(), "workers": anywhere}}),
        ..WorldOptions::default()
    }
}
