//! `run` against a simulated cluster: it leads, brings a pool up, and leaves in order.

use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::postgres;
use crate::said::{PATIENCE, Process, binary, say};

/// Polls until it holds, while the process lives.
pub async fn until(what: &str, process: &mut Process, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(process.over().is_none(), "it ended before {what}");
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_serves_its_pool_and_hands_the_lease_over_on_sigterm() {
    let Some(server) = postgres::shared() else { return };
    let store = server.url(&server.database().await);
    let cluster = Cluster::begin().await;

    let said = say(cluster.command(&store, &[]));
    assert!(said.refused().contains("trino-pool-operator migrate"), "{said:?}");
    assert_eq!(say(["migrate", "--store", &store]).code, Some(0));

    let mut process = binary(cluster.command(&store, &["--identity", "first"]));
    until("it leads", &mut process, || {
        cluster.holder().as_deref() == Some("first")
    })
    .await;
    until("the pool serves", &mut process, || cluster.serving() == 1).await;
    process.terminate();
    let said = process.ended();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(cluster.holder().as_deref(), Some(""), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_replica_runs_on_sqlite_without_a_lease() {
    let cluster = Cluster::begin().await;
    let store = format!("sqlite:{}", cluster.file("store.db").display());
    assert_eq!(say(["migrate", "--store", &store]).code, Some(0));
    let mut process = binary(cluster.command(&store, &["--no-leader-election"]));
    until("the pool serves", &mut process, || cluster.serving() == 1).await;
    process.terminate();
    let said = process.ended();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(cluster.holder(), None, "no Lease is touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_gateway_refuses_is_found_at_start() {
    let cluster = Cluster::begin().await;
    let store = format!("sqlite:{}", cluster.file("store.db").display());
    assert_eq!(say(["migrate", "--store", &store]).code, Some(0));
    std::fs::write(cluster.file("token"), "x".repeat(40)).unwrap();
    let said = say(cluster.command(&store, &["--no-leader-election"]));
    assert!(said.refused().contains("--gateway-token-file"), "{said:?}");
}

/// Nothing answers there: it was a free port a moment ago.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_gateway_stops_the_first_start_and_no_later_one() {
    let cluster = Cluster::begin().await;
    let store = format!("sqlite:{}", cluster.file("store.db").display());
    assert_eq!(say(["migrate", "--store", &store]).code, Some(0));
    let reaching = cluster.command(&store, &["--no-leader-election"]);
    let mut lost = reaching.clone();
    let at = lost.iter().position(|word| word == "--gateway-url").unwrap();
    lost[at + 1] = nowhere();

    let said = say(lost.clone());
    assert!(said.refused().contains("--gateway-url"), "{said:?}");

    let mut process = binary(reaching);
    until("the pool serves", &mut process, || cluster.serving() == 1).await;
    process.terminate();
    assert_eq!(process.ended().code, Some(0));

    let mut process = binary(lost);
    until("it says that the gateway is down", &mut process, || {
        cluster.reason().as_deref() == Some("GatewayUnreachable")
    })
    .await;
    process.terminate();
    let said = process.ended();
    assert_eq!(said.code, Some(0), "{said:?}");
}
