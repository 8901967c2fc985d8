use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::*;
use crate::clock::Clock;
use crate::pool::ids::{InstanceId, Namespace, RoutingGroup};
use crate::trino::port::{CoordinatorTarget, ProbeError};

fn world(seed: u64) -> SharedWorld {
    let options = WorldOptions {
        seed,
        pools: 2,
        start: "2026-12-02T05:00:00Z".parse().unwrap(),
        ..WorldOptions::default()
    };
    SharedWorld::new(World::new(options).unwrap())
}

fn ports(world: &SharedWorld) -> WorldPorts {
    let clock = Arc::new(SimClock::begin(world.with(|world| world.now())));
    world
        .ports("operator", clock, Arc::new(SimEntropy::seeded(1)))
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_production_clients_reach_every_part_of_a_world_in_process() {
    let world = world(1);
    let ports = ports(&world);
    let pools = ports.cluster.pools().await.unwrap();
    let names: Vec<&str> = pools.items.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["adhoc", "analytics"]);
    assert_eq!(
        ports.gateway.pool(&RoutingGroup::new("analytics")).await,
        Ok(None)
    );
    let target = CoordinatorTarget {
        namespace: Namespace::new(NAMESPACE),
        instance: InstanceId::new("cell-00000000"),
        port: 8080,
        pod_ip: None,
    };
    let absent = ports.coordinator.info(&target).await;
    assert!(matches!(absent, Err(ProbeError::Unreachable(_))), "{absent:?}");
    world.with(|world| {
        let asked = world.kube.log().counts_of("operator");
        assert_eq!(asked["LIST trinopools"], 1);
        assert_eq!(world.traffic.gateway.requests().values().sum::<u64>(), 1);
        assert_eq!(world.traffic.probes(), 1);
    });
}

#[tokio::test(start_paused = true)]
async fn a_world_moves_with_the_clock_it_is_run_by() {
    let world = world(1);
    let start = world.with(|world| world.now());
    let clock: Arc<dyn Clock> = Arc::new(SimClock::begin(start));
    let run = world.run(Arc::clone(&clock), Duration::from_millis(500));
    let waited = tokio::time::timeout(Duration::from_mins(1), run).await;
    assert!(waited.is_err(), "a world runs until it is dropped");
    let passed = world.with(|world| world.now().duration_since(start));
    assert_eq!(passed, SignedDuration::from_secs(60));
}

#[test]
fn what_is_done_to_a_world_is_counted_as_somebody_elses() {
    let world = world(1);
    world.with(|world| {
        world.scale("analytics", 5, 4).unwrap();
        world.drift_all().unwrap();
        let pool = world
            .kube
            .object(crate::sim::kube::Resource::TrinoPools, NAMESPACE, "analytics")
            .unwrap();
        assert_eq!(
            (&pool["spec"]["instances"], &pool["metadata"]["generation"]),
            (&5.into(), &2.into())
        );
        assert!(
            world
                .kube
                .log()
                .actors()
                .all(|actor| actor == super::admin::ADMIN)
        );
        let absent = world.delete_pool("nobody").unwrap_err();
        assert!(matches!(absent, AdminError::Refused(_, _, 404, _)), "{absent}");
        assert!(matches!(
            world.restart_behind("cell-1"),
            Err(AdminError::NoSuch(_))
        ));
    });
}

#[test]
fn a_world_may_begin_with_machines_that_were_recorded() {
    let mut world = World::new(WorldOptions {
        state: StartState::Recorded,
        ..WorldOptions::default()
    })
    .unwrap();
    let names = |world: &World| {
        let nodes = world.kube.nodes();
        nodes
            .iter()
            .map(|node| (node.name.clone(), node.uid.clone()))
            .collect::<Vec<_>>()
    };
    let before = names(&world);
    assert_eq!(before.len(), 3);
    assert!(
        world
            .kube
            .claims()
            .iter()
            .all(|claim| claim.initialized && !claim.drifted)
    );
    let start = world.now();
    for seconds in 1..120 {
        world.step(start + Duration::from_secs(seconds));
    }
    assert_eq!(names(&world), before, "nobody has a reason to touch them");
    world.drift_all().unwrap();
    world.step(start + Duration::from_secs(121));
    assert_eq!(
        world.kube.claims().iter().filter(|claim| claim.drifted).count(),
        3
    );
}

#[tokio::test]
async fn the_faces_answer_over_real_http() {
    use crate::transport::network::{NetworkOptions, NetworkTransport, Trust};
    use crate::transport::{Transport, TransportError};
    let world = world(1);
    let served = world.serve().await.unwrap();
    let transport = NetworkTransport::new(NetworkOptions {
        trust: Trust::Nobody,
        ..NetworkOptions::default()
    })
    .unwrap();
    let get = |address: std::net::SocketAddr, path: &str, host: &str| {
        Request::get(format!("http://{address}{path}"))
            .header("host", host)
            .body(Bytes::new())
            .unwrap()
    };
    let at = served.addresses;
    let answer = transport
        .exchange(get(
            at.kube,
            "/apis/trinopool.dev/v1alpha1/trinopools",
            "kubernetes",
        ))
        .await
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let answer = transport
        .exchange(get(at.gateway, "/trino-gateway/readyz", "gateway"))
        .await;
    assert_eq!(answer.unwrap().status(), 200);
    let nobody = transport
        .exchange(get(at.trino, "/v1/info", "cell-1.trino.svc.cluster.local:8080"))
        .await;
    assert!(matches!(nobody, Err(TransportError::Broken(_))), "{nobody:?}");
}
