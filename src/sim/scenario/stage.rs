//! Where a story is told: the world, the operator's processes, the clock, and the watch over the rules.
//!
//! Time passes only while a story waits. At each step the world moves on, the rules are judged, and whoever
//! looks on is shown a frame.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::frame::{Frame, InstanceFrame, NodeCounts, PodCounts, PoolFrame, QueryCounts};
use super::narrator::Narrator;
use crate::actors::{Handle, Ports, ProcessStatus, Settings, StartError, start};
use crate::clock::{Clock, Entropy};
use crate::gateway::model::MemberPhase;
use crate::pool::ids::{InstanceId, PoolId};
use crate::pool::phase::Phase;
use crate::sim::invariants::{PoolLook, RowLook, SharedWatch, StoreLook, WorldLook};
use crate::sim::kube::view::{Counts, PodView};
use crate::sim::world::{AdminError, SharedWorld, World, WorldPorts};
use crate::store::port::{Store, StoreError};

/// Between two steps of the world.
const STEP: Duration = Duration::from_millis(200);
/// Steps between two looks at the store.
const STEPS_PER_LOOK: u32 = 5;

/// Why a story did not go as told.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// Something did not happen in time.
    #[error("not within {0:?}: {1}")]
    Late(Duration, String),
    /// Something is not as it must be.
    #[error("{0}")]
    Expectation(String),
    /// The world refused what the story does to it.
    #[error("the world refused: {0}")]
    World(#[from] AdminError),
    /// The store did not answer the onlooker.
    #[error("the store did not answer the onlooker: {0}")]
    Store(#[from] StoreError),
    /// The operator did not start.
    #[error("{0}")]
    Start(#[from] StartError),
    /// The world's clients cannot be made.
    #[error("the world cannot be reached: {0}")]
    Ports(String),
}

/// What a condition may look at.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The world.
    pub world: &'a WorldLook,
    /// The rows.
    pub store: &'a StoreLook,
    /// Nodes and pods.
    pub kube: Counts,
    /// What the leading process says of itself.
    pub status: &'a ProcessStatus,
}

impl Scene<'_> {
    /// Rows of every pool in this phase.
    #[must_use]
    pub fn in_phase(&self, phase: Phase) -> Vec<&InstanceId> {
        self.store
            .rows()
            .filter(|(_, row)| row.phase == phase)
            .map(|(id, _)| id)
            .collect()
    }

    /// One row.
    #[must_use]
    pub fn row(&self, instance: &str) -> Option<&RowLook> {
        self.store
            .rows()
            .find(|(id, _)| id.as_str() == instance)
            .map(|(_, row)| row)
    }

    /// One pool's rows, by the name of its TrinoPool.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&PoolLook> {
        self.store.pools.values().find(|pool| pool.group.as_str() == name)
    }

    /// Rows that carry evidence, readable or not.
    #[must_use]
    pub fn evidence(&self) -> usize {
        self.store
            .rows()
            .filter(|(_, row)| row.evidence.is_present())
            .count()
    }

    /// Rows that carry evidence and are retired.
    #[must_use]
    pub fn replaced(&self) -> usize {
        self.store
            .rows()
            .filter(|(_, row)| row.evidence.is_present() && row.phase.is_terminal())
            .count()
    }

    /// Every pool has exactly its desired count serving, and nothing is under way.
    #[must_use]
    pub fn settled(&self) -> bool {
        !self.store.pools.is_empty()
            && self.store.pools.values().all(|pool| {
                let live = pool.rows.values().filter(|row| !row.phase.is_terminal());
                let wanted = pool.desired.as_ref().map(|desired| desired.instances as usize);
                live.clone().all(|row| row.phase == Phase::Serving) && wanted == Some(live.count())
            })
    }

    /// The words of the last plan of a pool: its class.
    #[must_use]
    pub fn plan(&self, name: &str) -> &str {
        self.status
            .pools
            .iter()
            .find(|(id, _)| id.as_str().ends_with(&format!("/{name}")))
            .map_or("", |(_, pool)| pool.plan.label.as_str())
    }
}

/// What is shown to whoever looks on.
pub trait Onlooker: Send {
    /// Something happened.
    fn say(&mut self, at: Duration, words: &str);
    /// The state of things, at most once a step.
    fn show(&mut self, frame: &Frame);
    /// Whether frames are looked at; making one costs a look at the whole cluster.
    fn watches(&self) -> bool {
        true
    }
}

/// One process of the operator.
struct Operator {
    name: &'static str,
    handle: Handle,
}

/// Everything a stage is made of.
pub(super) struct Parts {
    pub(super) world: SharedWorld,
    pub(super) ports: WorldPorts,
    pub(super) store: Arc<dyn Store>,
    /// Another handle on the same store where there is one, so that onlookers are not counted.
    pub(super) observed: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) watch: SharedWatch,
    pub(super) node_replacement: bool,
    pub(super) onlooker: Box<dyn Onlooker>,
}

/// The stage of one story.
pub struct Stage {
    parts: Parts,
    operators: Vec<Operator>,
    began: Duration,
    chapter: String,
    steps: u32,
    narrator: Narrator,
    /// Steps at which fewer members than the floor were routable after the pool had once been settled.
    below_floor: u64,
    settled_once: bool,
    observed_statements: u64,
    ticks: u64,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage")
            .field("chapter", &self.chapter)
            .finish_non_exhaustive()
    }
}

impl Stage {
    pub(super) fn new(parts: Parts) -> Self {
        let began = parts.clock.monotonic();
        Self {
            parts,
            operators: Vec::new(),
            began,
            chapter: String::new(),
            steps: 0,
            narrator: Narrator::default(),
            below_floor: 0,
            settled_once: false,
            observed_statements: 0,
            ticks: 0,
        }
    }

    /// Does something to the world.
    pub fn world<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        self.parts.world.with(act)
    }

    /// The store, for what only a store row can say.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.parts.store)
    }

    /// The time of the story.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// Time since the story began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.parts.clock.monotonic().saturating_sub(self.began)
    }

    /// Tells the onlooker what happens.
    pub fn say(&mut self, words: impl Into<String>) {
        self.chapter = words.into();
        let at = self.elapsed();
        self.parts.onlooker.say(at, &self.chapter);
    }

    /// Starts a process of the operator.
    pub async fn start_operator(&mut self, name: &'static str) -> Result<(), Broken> {
        self.start_operator_with(name, self.parts.node_replacement).await
    }

    /// Starts a process of the operator with its own flag of node replacement.
    pub async fn start_operator_with(
        &mut self,
        name: &'static str,
        node_replacement: bool,
    ) -> Result<(), Broken> {
        let ports = Ports {
            cluster: Arc::clone(&self.parts.ports.cluster),
            gateway: Arc::clone(&self.parts.ports.gateway),
            coordinator: Arc::clone(&self.parts.ports.coordinator),
            store: Arc::clone(&self.parts.store),
            clock: Arc::clone(&self.parts.clock),
            entropy: Arc::clone(&self.parts.entropy),
        };
        let settings = Settings {
            node_replacement,
            ..Settings::new(name)
        };
        let handle = start(ports, settings).await?;
        self.operators.push(Operator { name, handle });
        Ok(())
    }

    /// Ends a process of the operator in the middle of whatever it does.
    pub async fn crash_operator(&mut self, name: &str) {
        for operator in self.take(name) {
            operator.handle.crash().await;
        }
    }

    /// Stops a process of the operator as SIGTERM does. Time passes meanwhile.
    pub async fn stop_operator(&mut self, name: &str) -> Result<(), Broken> {
        for operator in self.take(name) {
            let mut stopping = Box::pin(operator.handle.stop());
            loop {
                tokio::select! {
                    biased;
                    _ = &mut stopping => break,
                    stepped = self.step() => stepped?,
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, name: &str) -> Vec<Operator> {
        let (taken, kept) = std::mem::take(&mut self.operators)
            .into_iter()
            .partition(|one| one.name == name);
        self.operators = kept;
        taken
    }

    /// What the leading process says of itself; the last started one's word while none leads.
    #[must_use]
    pub fn status(&self) -> ProcessStatus {
        let all: Vec<ProcessStatus> = self
            .operators
            .iter()
            .map(|operator| operator.handle.status.borrow().clone())
            .collect();
        let leading = all.iter().find(|status| status.leader).cloned();
        leading.or_else(|| all.last().cloned()).unwrap_or_default()
    }

    /// Waits until everything desired serves, then lets the clients begin.
    pub async fn settle(&mut self) -> Result<(), Broken> {
        self.say("the pools come up");
        self.until("every pool serves", Duration::from_mins(15), |scene| {
            scene.settled()
        })
        .await?;
        self.settled_once = true;
        self.say("every pool serves; clients begin");
        self.world(World::start_clients);
        self.pass(Duration::from_secs(10)).await
    }

    /// Lets time pass.
    pub async fn pass(&mut self, duration: Duration) -> Result<(), Broken> {
        let until = self.elapsed() + duration;
        while self.elapsed() < until {
            self.step().await?;
        }
        Ok(())
    }

    /// Waits until `holds`, at most `limit` of the story's time.
    pub async fn until(
        &mut self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut(&Scene<'_>) -> bool,
    ) -> Result<(), Broken> {
        let until = self.elapsed() + limit;
        loop {
            if self.scene(&mut holds).unwrap_or(false) {
                return Ok(());
            }
            if self.elapsed() >= until {
                return Err(Broken::Late(limit, format!("{what}{}", self.why())));
            }
            self.step().await?;
        }
    }

    /// Checks that `holds` now.
    pub fn expect(&self, what: &str, holds: impl FnMut(&Scene<'_>) -> bool) -> Result<(), Broken> {
        if self.scene(holds).unwrap_or(false) {
            Ok(())
        } else {
            Err(Broken::Expectation(format!("{what}{}", self.why())))
        }
    }

    /// Asks something of the last look; `None` before the first.
    pub fn scene<R>(&self, ask: impl FnOnce(&Scene<'_>) -> R) -> Option<R> {
        let pair = self.parts.watch.with(|watch| watch.last())?;
        let status = self.status();
        let kube = self.parts.world.peek(|world| world.kube.counts());
        Some(ask(&Scene {
            world: &pair.0,
            store: &pair.1,
            kube,
            status: &status,
        }))
    }

    /// The pools' own words for where they stand, for a failure's message.
    fn why(&self) -> String {
        let status = self.status();
        let mut words = vec![String::new()];
        for (id, pool) in &status.pools {
            words.push(format!("{id}: {} ({})", pool.plan.label, pool.plan.detail));
            for (instance, one) in &pool.instances {
                let waiting = one.waiting.as_ref().map_or("", |waiting| waiting.detail.as_str());
                words.push(format!("{instance} {} {waiting}", one.phase));
            }
        }
        words.join("; ")
    }

    /// One step of everything.
    pub(super) async fn step(&mut self) -> Result<(), Broken> {
        self.parts.world.wait(self.parts.clock.as_ref(), STEP).await;
        let now = self.parts.clock.now();
        self.parts.world.step(now);
        if self.steps.is_multiple_of(STEPS_PER_LOOK) {
            let before = self.parts.observed.statements();
            self.parts
                .watch
                .see_both(&self.parts.world, self.parts.observed.as_ref())
                .await?;
            self.observed_statements += self.parts.observed.statements().saturating_sub(before);
            self.count_floor();
            self.ticks = self.ticks.max(self.status().tick.get());
            self.narrate();
        } else {
            self.parts.watch.see_world(&self.parts.world);
        }
        self.steps = self.steps.wrapping_add(1);
        if self.parts.onlooker.watches() {
            let frame = self.frame();
            self.parts.onlooker.show(&frame);
        }
        Ok(())
    }

    fn count_floor(&mut self) {
        if !self.settled_once {
            return;
        }
        let below = self.scene(|scene| {
            scene
                .store
                .pools
                .values()
                .filter(|pool| {
                    let floor = pool.desired.as_ref().map_or(0, |desired| desired.min_serving);
                    routable(pool, scene.world) < floor
                })
                .count()
        });
        self.below_floor += below.unwrap_or(0) as u64;
    }

    /// Says what happened since the last look.
    fn narrate(&mut self) {
        let Some(pair) = self.parts.watch.with(|watch| watch.last()) else {
            return;
        };
        let (nodes, pods) = self
            .parts
            .world
            .peek(|world| (world.kube.nodes(), world.kube.pods()));
        let at = self.elapsed();
        for words in self.narrator.tell(&pair.1, &nodes, &pods) {
            self.parts.onlooker.say(at, &words);
        }
    }

    fn frame(&self) -> Frame {
        let status = self.status();
        let (kube, clients, running, nodes, pods) = self.parts.world.peek(|world| {
            let (clients, running) = (world.traffic.clients.counts(), world.traffic.clients.in_flight());
            let pods = world.kube.pods();
            (world.kube.counts(), clients, running, world.kube.nodes(), pods)
        });
        let pods: Vec<&PodView> = pods.iter().filter(|pod| pod.instance.is_some()).collect();
        let mut evidence = 0_usize;
        let mut replaced = 0_usize;
        if let Some((all, done)) = self.scene(|scene| (scene.evidence(), scene.replaced())) {
            evidence = all;
            replaced = done;
        }
        let state_of = |name: &str| {
            nodes
                .iter()
                .find(|node| node.name == name)
                .map_or(String::new(), |node| {
                    let mut words = Vec::new();
                    if node.unschedulable {
                        words.push("cordoned");
                    }
                    if node.deleting {
                        words.push("deleting");
                    }
                    words.join(", ")
                })
        };
        #[expect(clippy::cast_precision_loss, reason = "counts of instances, shown as a bar")]
        let progress = if evidence == 0 {
            0.0
        } else {
            replaced as f64 / evidence as f64
        };
        Frame {
            at: self.elapsed(),
            chapter: self.chapter.clone(),
            pools: status
                .pools
                .iter()
                .map(|(id, pool)| PoolFrame {
                    name: short(id),
                    serving: pool.serving,
                    desired: pool.desired.unwrap_or_default(),
                    floor: pool.floor.unwrap_or_default(),
                    reason: pool.plan.detail.clone(),
                    instances: pool
                        .instances
                        .iter()
                        .map(|(instance, one)| {
                            let node = one.nodes.first().map_or("", |node| node.as_str());
                            let mut words = state_of(node);
                            if let Some(seen) = one.evidence.valid() {
                                let drifted = seen.reason.as_str().to_lowercase();
                                words = if words.is_empty() {
                                    drifted
                                } else {
                                    format!("{drifted}, {words}")
                                };
                            }
                            InstanceFrame {
                                id: instance.to_string(),
                                phase: one.phase.to_string(),
                                node: node.to_owned(),
                                node_state: words,
                            }
                        })
                        .collect(),
                })
                .collect(),
            nodes: NodeCounts {
                total: kube.nodes,
                drifted: kube.drifted,
                cordoned: kube.cordoned,
                deleting: kube.deleting,
            },
            pods: PodCounts {
                total: pods.len(),
                protected: pods.iter().filter(|pod| pod.protected).count(),
            },
            queries: QueryCounts {
                running: running as u64,
                finished: clients.finished,
                failed: clients.failed,
            },
            progress,
        }
    }

    /// Ends every process of the operator, or hands them over, and gives the counts.
    pub(super) async fn close(mut self, keep: bool) -> (Closed, Vec<Handle>) {
        let closed = Closed {
            ticks: self.ticks,
            below_floor: self.below_floor,
            observed_statements: self.observed_statements,
            story: self.elapsed(),
        };
        let operators = std::mem::take(&mut self.operators);
        let mut handles: Vec<Handle> = operators.into_iter().map(|operator| operator.handle).collect();
        if !keep {
            for handle in handles.drain(..) {
                handle.crash().await;
            }
        }
        (closed, handles)
    }
}

/// What a stage counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) ticks: u64,
    pub(super) below_floor: u64,
    pub(super) observed_statements: u64,
    pub(super) story: Duration,
}

fn short(id: &PoolId) -> String {
    id.as_str().rsplit('/').next().unwrap_or_default().to_owned()
}

/// Members that the gateway routes new work to and whose process runs.
fn routable(pool: &PoolLook, world: &WorldLook) -> u32 {
    let count = world
        .members
        .iter()
        .filter(|((group, _), member)| {
            *group == pool.group
                && member.phase == MemberPhase::Active
                && world.processes.contains(member.coordinator_id.as_str())
        })
        .count();
    u32::try_from(count).unwrap_or(u32::MAX)
}
