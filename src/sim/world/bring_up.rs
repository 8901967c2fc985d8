//! The whole operator over a world in virtual time: the parts of the world fit each other, and the rules
//! hold whatever happens to the calls between them.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{SharedWorld, SimClock, SimEntropy, World, WorldOptions};
use crate::actors::{Handle, Ports, Settings, start};
use crate::clock::{Clock, Entropy};
use crate::gateway::model::MemberPhase;
use crate::pool::ids::StoreId;
use crate::sim::clients::Counts;
use crate::sim::faults::{CrashAt, Decision, Injector, Plan, Port, Rates, Rule, Scripted, Seeded, Trace};
use crate::sim::invariants::{Ending, SharedWatch, Violation, unfinished};
use crate::sim::trino::Behaviour;
use crate::store::memory::MemoryStore;
use crate::store::port::Store;

struct Story {
    world: SharedWorld,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// Of the process that runs now.
    injector: Injector,
    store: Arc<dyn Store>,
    watch: SharedWatch,
    operator: Handle,
    processes: u32,
}

impl Story {
    /// An operator over an empty world.
    async fn begin(options: WorldOptions) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SimClock::begin(options.start));
        let entropy: Arc<dyn Entropy> = Arc::new(SimEntropy::seeded(options.seed));
        let world = SharedWorld::new(World::new(options).unwrap());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreId::new("store")));
        let watch = SharedWatch::default();
        let injector = Injector::quiet(Arc::clone(&clock));
        let operator = operator(&world, &clock, &entropy, &injector, &store, &watch, "operator-0").await;
        Self {
            world,
            clock,
            entropy,
            injector,
            store,
            watch,
            operator,
            processes: 1,
        }
    }

    /// Buries a process that ended, and starts another.
    async fn restart_if_ended(&mut self) {
        if !self.injector.ended() {
            return;
        }
        let name = format!("operator-{}", self.processes);
        self.processes += 1;
        self.injector = Injector::quiet(Arc::clone(&self.clock));
        let next = operator(
            &self.world,
            &self.clock,
            &self.entropy,
            &self.injector,
            &self.store,
            &self.watch,
            &name,
        );
        let ended = std::mem::replace(&mut self.operator, next.await);
        ended.crash().await;
    }

    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.clock.sleep(Duration::from_millis(500)).await;
            self.world.step(self.clock.now());
            self.watch
                .see_both(&self.world, self.store.as_ref())
                .await
                .unwrap();
        }
    }

    /// Waits until the pool serves, with clients on it.
    async fn serve(&self) {
        let wanted = self.world.peek(|world| world.options().instances);
        for _ in 0..60 {
            if self.active() == wanted as usize {
                self.world.with(World::start_clients);
                return;
            }
            self.pass(5).await;
        }
        panic!("{} of {wanted} serve\n{}", self.active(), self.injector.trace());
    }

    fn active(&self) -> usize {
        self.world.peek(|world| {
            let members = world.traffic.gateway.members("analytics", world.now());
            members
                .iter()
                .filter(|view| view.member.phase == MemberPhase::Active)
                .count()
        })
    }

    /// Waits until everything that was leaving is replaced.
    async fn replace(&mut self, nodes: usize) {
        let mut patience = 200;
        while let Some(missing) = self.unfinished(nodes) {
            if patience == 0 {
                println!("{}", self.injector.trace());
                panic!("{missing}");
            }
            patience -= 1;
            for _ in 0..20 {
                self.pass(1).await;
                self.restart_if_ended().await;
            }
        }
    }

    fn unfinished(&self, nodes: usize) -> Option<String> {
        let pair = self.watch.with(|watch| watch.last()).unwrap();
        if pair.1.held_nodes().len() < nodes {
            return Some(format!(
                "evidence of {} nodes, not {nodes}",
                pair.1.held_nodes().len()
            ));
        }
        let ending = Ending {
            failed_candidates: 50,
            ..Ending::default()
        };
        let first = unfinished(&pair.0, &pair.1, &ending).into_iter().next();
        first.map(|violation| violation.to_string())
    }

    fn violations(&self) -> Vec<Violation> {
        self.watch.with(|watch| watch.violations().to_vec())
    }

    async fn end(self) -> (Counts, Trace) {
        self.world.with(|world| world.traffic.clients.wind_down());
        self.pass(90).await;
        assert_eq!(self.violations(), []);
        let counts = self.world.peek(|world| world.traffic.clients.counts());
        self.operator.stop().await;
        (counts, self.injector.trace())
    }
}

/// One process of the operator, with node replacement as the world's pools have it.
async fn operator(
    world: &SharedWorld,
    clock: &Arc<dyn Clock>,
    entropy: &Arc<dyn Entropy>,
    injector: &Injector,
    store: &Arc<dyn Store>,
    watch: &SharedWatch,
    name: &str,
) -> Handle {
    let plain = world
        .ports("operator", Arc::clone(clock), Arc::clone(entropy))
        .unwrap();
    {
        let (world, watch) = (world.clone(), watch.clone());
        injector.observe(Arc::new(move |_| watch.see_world(&world)));
    }
    let ports = Ports {
        cluster: injector.cluster(plain.cluster),
        gateway: injector.gateway(plain.gateway),
        coordinator: injector.coordinator(plain.coordinator),
        store: injector.store(Arc::clone(store)),
        clock: Arc::clone(clock),
        entropy: Arc::clone(entropy),
    };
    let settings = Settings {
        node_replacement: world.peek(|world| world.options().node_replacement),
        ..Settings::new(name)
    };
    start(ports, settings).await.unwrap()
}

fn small(seed: u64) -> WorldOptions {
    WorldOptions {
        seed,
        instances: 2,
        workers: 1,
        start: "2026-12-02T05:00:00Z".parse().unwrap(),
        ..WorldOptions::default()
    }
}

/// Brings two instances up, lets all nodes drift under `faults`, and waits until all are replaced.
async fn replaced_on_drift(seed: u64, faults: impl Plan) -> Trace {
    let mut story = Story::begin(small(seed)).await;
    story.serve().await;
    story.injector.follow(faults);
    story.world.with(World::drift_all).unwrap();
    story.replace(4).await;
    let (counts, trace) = story.end().await;
    assert_eq!(counts.failures, []);
    assert!(counts.finished > 20, "{counts:?}");
    assert_eq!(counts.started, counts.finished);
    trace
}

#[test]
fn a_drifted_pool_is_replaced_without_a_lost_query_and_always_in_the_same_way() {
    let tell = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(replaced_on_drift(2, Scripted::default()))
    };
    let (once, again) = (tell(), tell());
    if let Some((nth, left, right)) = once.first_difference(&again) {
        panic!("the stories part at entry {nth}:\n{left:?}\n{right:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_is_lost_late_or_doubled_on_the_way_the_rules_hold() {
    for seed in 1..=2 {
        let faults = Seeded {
            rng: ChaCha8Rng::seed_from_u64(seed),
            rates: Rates::one_in(40),
        };
        replaced_on_drift(seed, faults).await;
    }
}

/// The process ends right before or right after one effect; another one finds everything it needs.
#[tokio::test(start_paused = true)]
async fn a_process_that_ends_in_the_middle_is_succeeded_by_one_that_goes_on() {
    for (effect, after) in [(3, true), (17, false), (42, true)] {
        let mut story = Story::begin(small(effect)).await;
        story.serve().await;
        let effect = story.injector.effects() + effect;
        story.injector.follow(CrashAt { effect, after });
        story.world.with(World::drift_all).unwrap();
        story.replace(4).await;
        assert_eq!(story.processes, 2, "the process ended once");
        let (counts, _) = story.end().await;
        assert_eq!(counts.failures, []);
    }
}

/// Not protected, and nobody replaces anything: the world really takes queries along.
#[tokio::test(start_paused = true)]
async fn without_the_feature_a_drift_loses_queries() {
    let story = Story::begin(WorldOptions {
        node_replacement: false,
        ..small(1)
    })
    .await;
    story.serve().await;
    story.pass(30).await;
    story.world.with(World::drift_all).unwrap();
    story.pass(180).await;
    let counts = story.world.peek(|world| world.traffic.clients.counts());
    assert!(counts.failed > 0, "{counts:?}");
    let ended = story.world.peek(|world| world.traffic.trino.ended().to_vec());
    assert!(ended.iter().any(|process| !process.live_queries.is_empty()));
    story.operator.stop().await;
}

/// A pool of one, its node leaving, and no candidate that ever gets ready: the only member is not drained,
/// however the gateway answers.
#[tokio::test(start_paused = true)]
async fn g01_the_last_active_member_is_never_drained_for_a_candidate_that_cannot_serve() {
    let story = Story::begin(WorldOptions {
        instances: 1,
        ..small(1)
    })
    .await;
    story.serve().await;
    story.world.with(|world| {
        world.traffic.misbehave_next(Behaviour {
            never_starts: true,
            ..Behaviour::default()
        });
        world.drift_all().unwrap();
    });
    story.pass(120).await;
    let silence = Rule::all(Port::Gateway, Decision::Error);
    story.injector.follow(Scripted(vec![silence]));
    story.pass(60).await;
    story.injector.follow(Scripted::default());
    story.pass(120).await;
    assert_eq!(story.active(), 1);
    assert!(!story.injector.trace().to_string().contains("send drain"));
    let (counts, _) = story.end().await;
    assert_eq!(counts.failures, []);
}
