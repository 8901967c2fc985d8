//! The whole operator over a world in virtual time: the parts of the world fit each other.

use std::sync::Arc;
use std::time::Duration;

use super::{SharedWorld, SimClock, SimEntropy, World, WorldOptions};
use crate::actors::{Ports, Settings, start};
use crate::clock::{Clock, Entropy};
use crate::gateway::model::MemberPhase;
use crate::pool::ids::StoreId;
use crate::sim::faults::{Injector, Trace};
use crate::sim::invariants::{Ending, SharedWatch, unfinished};
use crate::store::memory::MemoryStore;
use crate::store::port::Store;

/// Brings two instances up, lets all nodes drift, and gives everything that was called.
async fn replaced_on_drift(seed: u64) -> Trace {
    let options = WorldOptions {
        seed,
        instances: 2,
        workers: 1,
        start: "2026-12-02T05:00:00Z".parse().unwrap(),
        ..WorldOptions::default()
    };
    let begin = options.start;
    let world = SharedWorld::new(World::new(options).unwrap());
    let clock: Arc<dyn Clock> = Arc::new(SimClock::begin(begin));
    let entropy: Arc<dyn Entropy> = Arc::new(SimEntropy::seeded(seed));
    let plain = world
        .ports("operator", Arc::clone(&clock), Arc::clone(&entropy))
        .unwrap();
    let injector = Injector::quiet(Arc::clone(&clock));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreId::new("store")));
    let watch = SharedWatch::default();
    {
        let (world, watch) = (world.clone(), watch.clone());
        injector.observe(Arc::new(move |_| watch.see_world(&world)));
    }
    let ports = Ports {
        cluster: injector.cluster(plain.cluster),
        gateway: injector.gateway(plain.gateway),
        coordinator: injector.coordinator(plain.coordinator),
        store: injector.store(Arc::clone(&store)),
        clock: Arc::clone(&clock),
        entropy,
    };
    let settings = Settings {
        node_replacement: true,
        ..Settings::new("operator-0")
    };
    let handle = start(ports, settings).await.unwrap();
    let pass = async |seconds: u64| {
        for _ in 0..seconds * 2 {
            clock.sleep(Duration::from_millis(500)).await;
            world.step(clock.now());
            watch.see_both(&world, store.as_ref()).await.unwrap();
        }
    };

    pass(240).await;
    let active = world.peek(|world| {
        let members = world.gateway.members("analytics", world.now());
        members
            .iter()
            .filter(|view| view.member.phase == MemberPhase::Active)
            .count()
    });
    assert_eq!(active, 2, "{}", injector.trace());

    world.with(|world| {
        world.start_clients();
        world.drift_all().unwrap();
    });
    let unsettled = || {
        let pair = watch.with(|watch| watch.last()).unwrap();
        let evidence = pair.1.held_nodes().len();
        (evidence < 4)
            .then_some("evidence of four nodes".to_owned())
            .or_else(|| {
                let first = unfinished(&pair.0, &pair.1, &Ending::default())
                    .into_iter()
                    .next();
                first.map(|violation| violation.to_string())
            })
    };
    let mut patience = 90;
    while let Some(missing) = unsettled() {
        assert!(patience > 0, "{missing}");
        patience -= 1;
        pass(10).await;
    }
    world.with(|world| world.clients.wind_down());
    pass(90).await;
    let counts = world.peek(|world| world.clients.counts());
    assert_eq!(watch.with(|watch| watch.violations().to_vec()), []);
    assert_eq!(counts.failures, []);
    assert!(counts.finished > 20, "{counts:?}");
    assert_eq!(counts.started, counts.finished);
    handle.stop().await;
    injector.trace()
}

#[tokio::test(start_paused = true)]
async fn a_drifted_pool_is_replaced_and_no_query_is_lost() {
    replaced_on_drift(1).await;
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let tell = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(replaced_on_drift(2))
    };
    let (once, again) = (tell(), tell());
    if let Some((nth, left, right)) = once.first_difference(&again) {
        panic!("the stories part at entry {nth}:\n{left:?}\n{right:?}");
    }
}

/// Not protected, and nobody replaces anything: the world really takes queries along.
#[tokio::test(start_paused = true)]
async fn without_the_feature_a_drift_loses_queries() {
    let options = WorldOptions {
        instances: 2,
        workers: 1,
        node_replacement: false,
        ..WorldOptions::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(SimClock::begin(options.start));
    let entropy: Arc<dyn Entropy> = Arc::new(SimEntropy::seeded(1));
    let world = SharedWorld::new(World::new(options).unwrap());
    let plain = world
        .ports("operator", Arc::clone(&clock), Arc::clone(&entropy))
        .unwrap();
    let ports = Ports {
        cluster: plain.cluster,
        gateway: plain.gateway,
        coordinator: plain.coordinator,
        store: Arc::new(MemoryStore::new(StoreId::new("store"))),
        clock: Arc::clone(&clock),
        entropy,
    };
    let handle = start(ports, Settings::new("operator-0")).await.unwrap();
    let pass = async |seconds: u64| {
        for _ in 0..seconds * 2 {
            clock.sleep(Duration::from_millis(500)).await;
            world.step(clock.now());
        }
    };
    pass(120).await;
    world.with(World::start_clients);
    pass(30).await;
    world.with(World::drift_all).unwrap();
    pass(180).await;
    let counts = world.peek(|world| world.clients.counts());
    assert!(counts.failed > 0, "{counts:?}");
    let ended = world.peek(|world| world.trino.ended().to_vec());
    assert!(ended.iter().any(|process| !process.live_queries.is_empty()));
    handle.stop().await;
}
