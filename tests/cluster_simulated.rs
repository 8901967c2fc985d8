//! The cluster suite on the simulated API server, through the production client; and what only a
//! simulation can do to an API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

mod cluster_suite;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use kube::Client;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use trino_pool_operator::clock::{OsEntropy, SystemClock};
use trino_pool_operator::cluster::apply::apply;
use trino_pool_operator::cluster::facts::{Lookup, ObjectKind};
use trino_pool_operator::cluster::kubernetes::{KubernetesCluster, Limits, Scope};
use trino_pool_operator::cluster::port::{Cluster, ClusterError, CordonMark, Created, Written};
use trino_pool_operator::pool::step::Apply;
use trino_pool_operator::sim::kube::client::in_process_client;
use trino_pool_operator::sim::kube::server::{Face, Pulse, Solo};
use trino_pool_operator::sim::kube::{Fault, FaultRule, KubeOptions, KubeSim, Resource, Verb};

use cluster_suite::objects::instance;
use cluster_suite::outsider::{self, ClusterDriver, create, namespace};

/// The outsider of a simulated cluster.
struct SimDriver {
    host: Arc<Mutex<Solo>>,
    pulse: Pulse,
    admin: Client,
    rng: Mutex<ChaCha8Rng>,
    names: AtomicU32,
}

impl SimDriver {
    fn kube<T>(&self, act: impl FnOnce(&mut KubeSim) -> T) -> T {
        let answer = act(&mut self.host.lock().unwrap().kube);
        self.pulse.beat();
        answer
    }
}

#[async_trait]
impl ClusterDriver for SimDriver {
    async fn request(&self, method: &str, path: &str, content: &str, body: Option<&Value>) -> (u16, Value) {
        outsider::ask(&self.admin, method, path, content, body).await
    }

    async fn watch(&self, path: &str) -> BoxStream<'static, Value> {
        outsider::lines(&self.admin, path).await
    }

    async fn compact(&self) {
        self.kube(KubeSim::compact);
    }

    async fn pause(&self) {
        {
            let mut host = self.host.lock().unwrap();
            host.now += Duration::from_secs(1);
            let now = host.now;
            host.kube.step(now, &mut self.rng.lock().unwrap());
        }
        self.pulse.beat();
        // Whoever was woken gets to run.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    fn unique(&self, stem: &str) -> String {
        format!("{stem}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }
}

#[expect(
    clippy::unused_async,
    reason = "a stage of a real cluster has to be waited for"
)]
async fn simulated() -> (KubernetesCluster, SimDriver) {
    let now = "2031-01-01T00:00:00Z".parse().unwrap();
    let kube = KubeSim::new(KubeOptions::default(), ChaCha8Rng::seed_from_u64(7), now);
    let host = Arc::new(Mutex::new(Solo { kube, now }));
    let pulse = Pulse::default();
    let face = || Face::new(Arc::clone(&host), pulse.clone());
    let cluster = KubernetesCluster::with(
        in_process_client(face(), "operator"),
        Scope::All,
        Limits::none(),
        Arc::new(SystemClock::new()),
        Arc::new(OsEntropy),
    );
    let admin = in_process_client(face(), "admin");
    let driver = SimDriver {
        host,
        pulse,
        admin,
        rng: Mutex::new(ChaCha8Rng::seed_from_u64(8)),
        names: AtomicU32::new(0),
    };
    (cluster, driver)
}

cluster_suite::all_cluster_stories!(async { Some(crate::simulated().await) });

#[tokio::test]
async fn a_kind_that_is_not_served_is_told_from_an_object_that_is_not_there() {
    let (cluster, driver) = simulated().await;
    assert_eq!(cluster.claim(&"c1".into()).await, Ok(Lookup::Absent));
    driver.kube(|kube| kube.set_served(Resource::NodeClaims, false));
    let gone = ClusterError::KindNotServed("karpenter.sh/v1/nodeclaims".to_owned());
    assert_eq!(cluster.claim(&"c1".into()).await, Err(gone.clone()));
    assert_eq!(cluster.claims().await, Err(gone));
    driver.kube(|kube| kube.set_served(Resource::NodeClaims, true));
    assert!(cluster.claims().await.is_ok());
}

#[tokio::test]
async fn k09_every_injected_failure_of_a_listing_is_unknown_and_passes() {
    for (fault, label) in [
        (Fault::Broken, "KubernetesFailed"),
        (Fault::Unavailable, "KubernetesFailed"),
        (Fault::Html, "KubernetesFailed"),
        (Fault::Garbled, "KubernetesFailed"),
        (Fault::Forbidden, "KubernetesForbidden"),
        (Fault::Unauthorized, "KubernetesForbidden"),
        (Fault::NotServed, "KindNotServed"),
    ] {
        let (cluster, driver) = simulated().await;
        let rule = FaultRule::on(Resource::NodeClaims, fault.clone()).of(Verb::List);
        driver.kube(|kube| kube.inject(rule.times(50)));
        for _ in 0..50 {
            assert_eq!(cluster.claims().await.unwrap_err().label(), label, "{fault:?}");
        }
        assert!(cluster.claims().await.is_ok(), "it recovers without a restart");
    }
}

#[tokio::test(start_paused = true)]
async fn a05_a_throttled_cordon_is_no_verdict_and_holds_the_next_one_back() {
    let (cluster, driver) = simulated().await;
    create(&driver, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    let rule = FaultRule::on(Resource::Nodes, Fault::Throttled(7)).of(Verb::Patch);
    driver.kube(|kube| kube.inject(rule.times(1)));
    let node = cluster.node(&"n1".into()).await.unwrap().found().unwrap();
    let mark = CordonMark("m".to_owned());
    let cordon = async || {
        cluster
            .cordon_node(&node.name, &node.uid, &node.resource_version, &mark)
            .await
    };
    let throttled = ClusterError::Throttled { retry_after: Some(7) };
    assert_eq!(cordon().await, Err(throttled.clone()));
    assert_eq!(cordon().await, Err(throttled));
    let patches = driver.kube(|kube| kube.log().counts_of("operator")["PATCH nodes"]);
    assert_eq!(patches, 1, "the second one was not even sent");
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(cordon().await, Ok(Written::Applied));
}

#[tokio::test]
async fn an_admission_webhooks_refusal_is_a_verdict() {
    let (cluster, driver) = simulated().await;
    create(&driver, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    let rule = FaultRule::on(Resource::Nodes, Fault::Denied("no cordons on Fridays".to_owned()));
    driver.kube(|kube| kube.inject(rule.of(Verb::Patch)));
    let node = cluster.node(&"n1".into()).await.unwrap().found().unwrap();
    let mark = CordonMark("m".to_owned());
    match cluster
        .cordon_node(&node.name, &node.uid, &node.resource_version, &mark)
        .await
    {
        Ok(Written::Denied(message)) => assert!(message.contains("Fridays"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_creation_lost_an_answer_is_adopted_whole() {
    let (cluster, driver) = simulated().await;
    let space = namespace(&driver).await;
    let rule = FaultRule::on(Resource::Services, Fault::LoseAnswer).of(Verb::Create);
    driver.kube(|kube| kube.inject(rule.times(1)));
    let (manifests, expected) = instance(&space, 3);
    match apply(&cluster, &manifests, &expected).await {
        Apply::Unknown(fault) => assert_eq!(fault.label, "KubernetesUnreachable"),
        other => panic!("{other:?}"),
    }
    // What was made without our knowing is found again, and nothing is made twice.
    let standing = cluster
        .object(ObjectKind::Service, &space, &"cell-1a2b3c4d".into())
        .await
        .unwrap();
    let service = standing.found().unwrap();
    match apply(&cluster, &manifests, &expected).await {
        Apply::Complete(objects) => assert_eq!(objects.service.uid, service.uid),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        cluster.create(&manifests[2]).await,
        Ok(Created::Exists(_))
    ));
}
