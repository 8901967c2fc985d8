//! From a story and its circumstances to a report.
//!
//! Builds the world and the production clients that reach it, over real sockets or in process, tells the
//! story, lets the world come to rest, and counts. The verdict: nothing was lost, no rule broke, and the
//! story's own expectation held.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::report::{Queries, Replacements, ScenarioReport};
use super::stage::{Closed, Onlooker, Parts};
use super::{Broken, Scenario, Setup, Stage};
use crate::actors::Handle;
use crate::clock::{Clock, Entropy};
use crate::cluster::kubernetes::{KubernetesCluster, Limits, Scope};
use crate::gateway::pooled::PooledGateway;
use crate::gateway::pooled::origin::{Origin, PlainHttp};
use crate::gateway::pooled::secret::{AdminToken, Secret};
use crate::pool::ids::StoreId;
use crate::sim::faults::{Injector, Rates, Seeded};
use crate::sim::invariants::{Ending, SharedWatch, unfinished};
use crate::sim::kube::Destruction;
use crate::sim::kube::Resource;
use crate::sim::world::{
    ADMIN, ADMIN_TOKEN, Addresses, PacedClock, Served, SharedWorld, SimClock, SimEntropy, World,
    WorldOptions, WorldPorts,
};
use crate::store::memory::MemoryStore;
use crate::store::port::Store;
use crate::transport::network::{NetworkOptions, NetworkTransport, Trust};
use crate::trino::address::CoordinatorAddress;
use crate::trino::http::{ProbeOptions, TrinoHttp};

/// Who the operator's requests are counted under.
const ACTOR: &str = "operator";

/// How a story is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// In process, under the paused time of the runtime it is called in, with the memory store.
    Virtual,
    /// Over HTTP on 127.0.0.1, so many times faster than real time, with the store of this URL, or the
    /// memory store.
    Http {
        /// Seconds of the story per second.
        speed: f64,
        /// `sqlite:…` or `postgres://…`, migrated first.
        store: Option<String>,
    },
}

/// One telling of a story.
#[derive(Debug)]
pub struct Run {
    /// Which story.
    pub scenario: Scenario,
    /// Everything that varies.
    pub seed: u64,
    /// How it is told.
    pub mode: Mode,
    /// Pools, instead of the story's own number.
    pub pools: Option<u32>,
    /// Instances of each, instead of the story's own number.
    pub instances: Option<u32>,
    /// Workers of each instance, instead of the story's own number.
    pub workers: Option<u32>,
    /// Faults drawn from the seed at every call of the operator; under virtual time only.
    pub faults: Option<Rates>,
    /// Leave the operator's processes running in the world that stays behind.
    pub keep_operator: bool,
}

impl Run {
    /// A telling of this story under virtual time.
    #[must_use]
    pub const fn virtually(scenario: Scenario, seed: u64) -> Self {
        Self {
            scenario,
            seed,
            mode: Mode::Virtual,
            pools: None,
            instances: None,
            workers: None,
            faults: None,
            keep_operator: false,
        }
    }
}

/// A world that stays open after its story.
pub struct Open {
    /// The world, which stands still unless it is stepped.
    pub world: SharedWorld,
    /// Its HTTP faces; dropping this closes them.
    pub served: Option<Served>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
    /// Processes of the operator that still run.
    operators: Vec<Handle>,
    /// What they write to.
    _stores: Stores,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("served", &self.served)
            .finish_non_exhaustive()
    }
}

impl Open {
    /// Ends the operator's processes, then everything else.
    pub async fn close(self) {
        for operator in self.operators {
            operator.crash().await;
        }
    }
}

/// Tells the story, and leaves the world behind. `Err` only when it could not even begin.
pub async fn run(run: &Run, onlooker: Box<dyn Onlooker>) -> Result<(ScenarioReport, Open), Broken> {
    let wall = Instant::now();
    let setup = setup(run);
    let (clock, paced): (Arc<dyn Clock>, Option<Arc<PacedClock>>) = match &run.mode {
        Mode::Virtual => (Arc::new(SimClock::begin(WorldOptions::default().start)), None),
        Mode::Http { speed, .. } => {
            let clock = Arc::new(PacedClock::at_speed(*speed));
            (Arc::clone(&clock) as Arc<dyn Clock>, Some(clock))
        }
    };
    let entropy: Arc<dyn Entropy> = Arc::new(SimEntropy::seeded(run.seed ^ 0x9e37_79b9_7f4a_7c15));
    let world = World::new(WorldOptions {
        start: clock.now(),
        ..setup.world.clone()
    })?;
    let world = match paced {
        Some(clock) => SharedWorld::pacing(world, clock),
        None => SharedWorld::new(world),
    };
    let (ports, served) = connect(run, &world, &clock, &entropy).await?;
    let stores = Stores::open(run).await?;
    let watch = SharedWatch::default();
    let (ports, store) = match (&run.mode, run.faults) {
        (Mode::Virtual, Some(rates)) => {
            let injector = injector(run.seed, rates, &clock, &world, &watch);
            let ports = WorldPorts {
                cluster: injector.cluster(ports.cluster),
                gateway: injector.gateway(ports.gateway),
                coordinator: injector.coordinator(ports.coordinator),
            };
            (ports, injector.store(Arc::clone(&stores.operator)))
        }
        (Mode::Virtual | Mode::Http { .. }, _) => (ports, Arc::clone(&stores.operator)),
    };
    let mut stage = Stage::new(Parts {
        world: world.clone(),
        ports,
        store,
        observed: Arc::clone(&stores.observer),
        clock: Arc::clone(&clock),
        entropy,
        watch: watch.clone(),
        node_replacement: setup.node_replacement,
        onlooker,
    });
    let told = tell(run, &mut stage).await;
    let (closed, operators) = stage.close(run.keep_operator).await;
    let report = verdict(run, &setup, &world, &watch, &stores, closed, told, wall);
    let open = Open {
        world,
        served,
        clock,
        operators,
        _stores: stores,
    };
    Ok((report, open))
}

/// Draws faults from the seed, and has the world's rules judged right after every effect.
fn injector(
    seed: u64,
    rates: Rates,
    clock: &Arc<dyn Clock>,
    world: &SharedWorld,
    watch: &SharedWatch,
) -> Injector {
    let plan = Seeded {
        rng: ChaCha8Rng::seed_from_u64(seed),
        rates,
    };
    let injector = Injector::new(Arc::clone(clock), Duration::from_secs(10), plan, Arc::new(|_| {}));
    let (world, watch) = (world.clone(), watch.clone());
    injector.observe(Arc::new(move |_| watch.see_world(&world)));
    injector
}

fn setup(run: &Run) -> Setup {
    let mut setup = Setup {
        world: WorldOptions {
            seed: run.seed,
            ..WorldOptions::default()
        },
        node_replacement: true,
        ending: Some(Ending::default()),
        losses_are_told: false,
    };
    (run.scenario.setup)(&mut setup);
    setup.world.seed = run.seed;
    setup.world.pools = run.pools.unwrap_or(setup.world.pools);
    setup.world.instances = run.instances.unwrap_or(setup.world.instances);
    setup.world.workers = run.workers.unwrap_or(setup.world.workers);
    setup
}

async fn tell(run: &Run, stage: &mut Stage) -> Result<(), Broken> {
    stage.start_operator("operator-a").await?;
    (run.scenario.play)(stage).await?;
    // Clients read what they have begun; nothing that was owed may be lost afterwards either.
    stage.pass(Duration::from_secs(30)).await
}

/// The operator's handle on the store, and the onlookers'.
struct Stores {
    operator: Arc<dyn Store>,
    observer: Arc<dyn Store>,
    shared: bool,
    _folder: Option<Folder>,
}

impl Stores {
    async fn open(run: &Run) -> Result<Self, Broken> {
        let (url, folder) = match &run.mode {
            Mode::Virtual | Mode::Http { store: None, .. } => {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreId::new(
                    "00000000-0000-4000-8000-000000000001",
                )));
                return Ok(Self {
                    operator: Arc::clone(&store),
                    observer: store,
                    shared: true,
                    _folder: None,
                });
            }
            Mode::Http { store: Some(url), .. } if url == "sqlite" => {
                let folder = Folder::make()?;
                (
                    format!("sqlite:{}", folder.0.join("store.db").display()),
                    Some(folder),
                )
            }
            Mode::Http { store: Some(url), .. } => (url.clone(), None),
        };
        crate::store::open::migrate(&url).await?;
        let operator = crate::store::open::connect(&url).await?;
        // Rows of another world, or of production, would be answered with deletions here.
        if !operator.pools().await?.is_empty() {
            return Err(Broken::Expectation(
                "the store holds pools already; a simulation needs an empty one".to_owned(),
            ));
        }
        Ok(Self {
            operator,
            observer: crate::store::open::connect(&url).await?,
            shared: false,
            _folder: folder,
        })
    }
}

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, Broken> {
        let folder = std::env::temp_dir().join(format!("trino-pool-operator-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).map_err(|error| {
            Broken::Expectation(format!(
                "cannot make a folder for the store ({}): {error}",
                folder.display()
            ))
        })?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), error = %error, "a temporary folder stays behind");
        }
    }
}

async fn connect(
    run: &Run,
    world: &SharedWorld,
    clock: &Arc<dyn Clock>,
    entropy: &Arc<dyn Entropy>,
) -> Result<(WorldPorts, Option<Served>), Broken> {
    match run.mode {
        Mode::Virtual => {
            let ports = world
                .ports(ACTOR, Arc::clone(clock), Arc::clone(entropy))
                .map_err(|error| Broken::Ports(error.to_string()))?;
            Ok((ports, None))
        }
        Mode::Http { .. } => {
            let served = world
                .serve()
                .await
                .map_err(|error| Broken::Ports(error.to_string()))?;
            let ports = over_http(served.addresses, Arc::clone(clock), Arc::clone(entropy))
                .map_err(|error| Broken::Ports(error.to_string()))?;
            Ok((ports, Some(served)))
        }
    }
}

/// The production clients, as `run` makes them, of these addresses.
fn over_http(
    at: Addresses,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> Result<WorldPorts, Box<dyn std::error::Error + Send + Sync>> {
    let transport = NetworkTransport::new(NetworkOptions {
        trust: Trust::Nobody,
        ..NetworkOptions::default()
    })?;
    let mut config = kube::Config::new(format!("http://{}", at.kube).parse()?);
    config.headers.push((
        http::HeaderName::from_static(crate::sim::kube::ACTOR_HEADER),
        http::HeaderValue::from_static(ACTOR),
    ));
    config.default_retry = false;
    let client = kube::Client::try_from(config)?;
    let origin = Origin::parse(&format!("http://{}", at.gateway), PlainHttp::LoopbackOnly)?;
    let token = AdminToken::new(&Secret::new(ADMIN_TOKEN))?;
    let probes = ProbeOptions {
        address: CoordinatorAddress::Resolve(at.trino.to_string()),
        ..ProbeOptions::default()
    };
    Ok(WorldPorts {
        cluster: Arc::new(KubernetesCluster::with(
            client,
            Scope::All,
            Limits::none(),
            clock,
            entropy,
        )),
        gateway: Arc::new(PooledGateway::new(transport.clone(), origin, token)),
        coordinator: Arc::new(TrinoHttp::new(transport, probes)),
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "the places that the counts of one report come from"
)]
fn verdict(
    run: &Run,
    setup: &Setup,
    world: &SharedWorld,
    watch: &SharedWatch,
    stores: &Stores,
    closed: Closed,
    told: Result<(), Broken>,
    wall: Instant,
) -> ScenarioReport {
    let pair = watch.with(|watch| watch.last());
    let mut violations: Vec<String> =
        watch.with(|watch| watch.violations().iter().map(ToString::to_string).collect());
    let mut report = ScenarioReport {
        scenario: run.scenario.name.to_owned(),
        seed: run.seed,
        pools: setup.world.pools,
        instances: setup.world.instances,
        ticks: closed.ticks,
        serving_below_floor: closed.below_floor,
        story_seconds: closed.story.as_secs_f64(),
        ..ScenarioReport::default()
    };
    let own = if stores.shared {
        closed.observed_statements
    } else {
        0
    };
    report.store_statements = stores.operator.statements().saturating_sub(own);
    world.peek(|world| count_world(world, &mut report));
    if let Some(pair) = pair {
        let (seen, rows) = (&pair.0, &pair.1);
        let with_evidence: Vec<_> = rows
            .rows()
            .map(|(_, row)| row)
            .filter(|row| row.evidence.is_present())
            .collect();
        report.evidence_rows = with_evidence.len() as u64;
        report.replacements = Replacements {
            requested: report.evidence_rows,
            completed: with_evidence.iter().filter(|row| row.phase.is_terminal()).count() as u64,
        };
        if let (Some(ending), Ok(())) = (&setup.ending, &told) {
            violations.extend(unfinished(seen, rows, ending).iter().map(ToString::to_string));
        }
    }
    report.violated = first_violation(setup, &report, &violations, told);
    report.invariant_violations = violations;
    report.passed = report.violated.is_none();
    report.wall_seconds = wall.elapsed().as_secs_f64();
    report
}

fn count_world(world: &World, report: &mut ScenarioReport) {
    let clients = world.traffic.clients.counts();
    report.queries = Queries {
        started: clients.started,
        finished: clients.finished,
        failed: clients.failed,
    };
    let told = clients.failures.iter().take(3);
    report.losses = told
        .map(|one| format!("{} {}: {}", one.at, one.pool, one.text))
        .collect();
    let log = world.kube.log();
    report.api_requests = log.counts_without(ADMIN);
    // Statements and their pages are the clients'; everything else at the gateway is ours.
    let of_clients = |route: &str| route.ends_with(" statement") || route.ends_with(" query");
    report.gateway_requests = world
        .traffic
        .gateway
        .requests()
        .iter()
        .filter(|(route, _)| !of_clients(route))
        .map(|(_, count)| count)
        .sum();
    for entry in log.requested_by(|actor| actor != ADMIN) {
        match (entry.how, entry.resource) {
            (Destruction::Evict, _) => report.pod_evictions += 1,
            (Destruction::Delete, Resource::Pods) => report.pod_deletes += 1,
            (Destruction::Delete, Resource::Nodes | Resource::NodeClaims) => report.node_deletes += 1,
            (Destruction::Delete, _) => {}
        }
    }
    report.cordons = report.api_requests.get("PATCH nodes").copied().unwrap_or(0);
}

fn first_violation(
    setup: &Setup,
    report: &ScenarioReport,
    violations: &[String],
    told: Result<(), Broken>,
) -> Option<String> {
    if let Some(first) = violations.first() {
        return Some(first.clone());
    }
    if report.node_deletes + report.pod_deletes + report.pod_evictions > 0 {
        return Some("S2: the operator deleted or evicted what it must never touch".to_owned());
    }
    if report.queries.failed > 0 && !setup.losses_are_told {
        return Some(format!("{} queries of clients were lost", report.queries.failed));
    }
    told.err().map(|broken| broken.to_string())
}
