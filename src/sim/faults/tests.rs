use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::pool::ids::{InstanceId, Namespace};
use crate::sim::world::SimClock;
use crate::trino::port::{ClusterNode, CoordinatorInfo, CoordinatorTarget};

/// A coordinator that counts what arrives.
#[derive(Default)]
struct Counting(AtomicU64);

#[async_trait]
impl Coordinator for Counting {
    fn url(&self, _: &CoordinatorTarget) -> Result<String, ProbeError> {
        Ok("http://cell".into())
    }

    async fn info(&self, _: &CoordinatorTarget) -> Result<CoordinatorInfo, ProbeError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(ProbeError::Status(503))
    }

    async fn nodes(&self, _: &CoordinatorTarget) -> Result<Vec<ClusterNode>, ProbeError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Vec::new())
    }

    async fn catalogs(&self, _: &CoordinatorTarget) -> Result<Vec<String>, ProbeError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(vec!["system".into()])
    }
}

fn target() -> CoordinatorTarget {
    CoordinatorTarget {
        namespace: Namespace::new("trino"),
        instance: InstanceId::new("cell-1"),
        port: 8080,
        pod_ip: None,
    }
}

fn injector(plan: impl Plan, crash: CrashHook) -> Injector {
    let clock = Arc::new(SimClock::begin(jiff::Timestamp::UNIX_EPOCH));
    Injector::new(clock, Duration::from_secs(10), plan, crash)
}

fn scripted(decision: Decision) -> (Injector, Arc<Counting>, Arc<dyn Coordinator>) {
    let rule = Rule::next(Port::Coordinator, "nodes", decision);
    let injector = injector(Scripted(vec![rule]), Arc::new(|_| {}));
    let inner = Arc::new(Counting::default());
    let port = injector.coordinator(inner.clone());
    (injector, inner, port)
}

async fn once(decision: Decision) -> (Result<Vec<ClusterNode>, ProbeError>, u64, Duration) {
    let (injector, inner, port) = scripted(decision);
    let began = injector.clock.monotonic();
    let answer = port.nodes(&target()).await;
    (
        answer,
        inner.0.load(Ordering::SeqCst),
        injector.clock.monotonic().saturating_sub(began),
    )
}

#[tokio::test(start_paused = true)]
async fn each_fault_differs_in_what_arrives_and_what_is_seen() {
    let deadline = Duration::from_secs(10);
    let (answer, arrived, took) = once(Decision::Pass).await;
    assert_eq!((answer, arrived, took), (Ok(vec![]), 1, Duration::ZERO));
    let (answer, arrived, took) = once(Decision::LoseRequest).await;
    assert!(matches!(answer, Err(ProbeError::Unreachable(_))));
    assert_eq!((arrived, took), (0, deadline));
    let (answer, arrived, took) = once(Decision::LoseResponse).await;
    assert!(matches!(answer, Err(ProbeError::Unreachable(_))));
    assert_eq!((arrived, took), (1, deadline));
    let (answer, arrived, took) = once(Decision::Error).await;
    assert!(matches!(answer, Err(ProbeError::Unreachable(_))));
    assert_eq!((arrived, took), (0, Duration::ZERO));
    let (answer, arrived, took) = once(Decision::Delay(Duration::from_secs(3))).await;
    assert_eq!((answer, arrived, took), (Ok(vec![]), 1, Duration::from_secs(3)));
    let (answer, arrived, _) = once(Decision::Duplicate).await;
    assert_eq!((answer, arrived), (Ok(vec![]), 2));
}

#[tokio::test(start_paused = true)]
async fn a_rule_takes_hold_where_and_as_often_as_it_says() {
    let rule = Rule::next(Port::Coordinator, "nodes", Decision::Error)
        .about("cell-1")
        .after(1)
        .times(2);
    let injector = injector(Scripted(vec![rule]), Arc::new(|_| {}));
    let port = injector.coordinator(Arc::new(Counting::default()));
    assert!(port.catalogs(&target()).await.is_ok());
    let seen: Vec<bool> = [
        port.nodes(&target()).await,
        port.nodes(&target()).await,
        port.nodes(&target()).await,
        port.nodes(&target()).await,
    ]
    .iter()
    .map(Result::is_ok)
    .collect();
    assert_eq!(seen, [true, false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn every_call_is_recorded_with_what_its_caller_saw() {
    let (injector, _, port) = scripted(Decision::LoseResponse);
    let _ = port.catalogs(&target()).await;
    let _ = port.nodes(&target()).await;
    let text = injector.trace().to_string();
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            r#"1970-01-01T00:00:00Z Coordinator.catalogs cell-1 -> Ok(["system"])"#,
            r#"1970-01-01T00:00:10Z Coordinator.nodes cell-1 !LoseResponse -> Err(Unreachable("the response was lost"))"#,
        ]
    );
    let (other, _, port) = scripted(Decision::Pass);
    let _ = port.catalogs(&target()).await;
    let _ = port.catalogs(&target()).await;
    let (ours, theirs) = (injector.trace(), other.trace());
    assert_eq!(ours.first_difference(&ours), None);
    assert_eq!(ours.first_difference(&theirs).unwrap().0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_in_a_call_never_sees_its_answer() {
    use crate::pool::ids::{PoolId, RoutingGroup};
    use crate::store::port::PoolIdentity;
    let died = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let died = Arc::clone(&died);
        Arc::new(move |call: &Call| died.lock().unwrap().push(call.about.clone()))
    };
    let plan = CrashAt {
        effect: 2,
        after: true,
    };
    let injector = injector(plan, hook);
    let inner: Arc<dyn Store> = Arc::new(crate::store::memory::MemoryStore::new(
        crate::pool::ids::StoreId::new("s"),
    ));
    let store = injector.store(Arc::clone(&inner));
    let pool = |name: &str| PoolIdentity {
        id: PoolId::new(name),
        namespace: Namespace::new("trino"),
        routing_group: RoutingGroup::new(name),
    };
    store.seed(&pool("trino/a")).await.unwrap();
    assert_eq!(store.pools().await.unwrap().len(), 1);
    let second = pool("trino/b");
    let last = tokio::time::timeout(Duration::from_hours(1), store.seed(&second)).await;
    assert!(last.is_err(), "the call in which the process ends never returns");
    assert_eq!(*died.lock().unwrap(), ["trino/b"]);
    assert_eq!(
        inner.pools().await.unwrap().len(),
        2,
        "and yet it was carried out"
    );
}

#[test]
fn a_seed_draws_the_same_faults_again_and_every_kind_of_them() {
    let draw = |seed: u64| {
        let mut plan = Seeded {
            rng: ChaCha8Rng::seed_from_u64(seed),
            rates: Rates::one_in(5),
        };
        let call = Call {
            port: Port::Gateway,
            method: "send",
            class: Class::Effect,
            about: String::new(),
        };
        (0..2000).map(|nth| plan.decide(&call, nth)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let drawn = draw(1);
    for decision in [
        Decision::Pass,
        Decision::LoseRequest,
        Decision::LoseResponse,
        Decision::Error,
        Decision::Duplicate,
    ] {
        assert!(drawn.contains(&decision), "{decision:?}");
    }
    let faults = drawn
        .iter()
        .filter(|decision| **decision != Decision::Pass)
        .count();
    assert!((300..500).contains(&faults), "{faults}");
}
