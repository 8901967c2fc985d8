use rand::SeedableRng;

use super::*;
use crate::sim::trino::{Behaviour, RunningCoordinator, TrinoSim};

const HOST: &str = "cell:8080";

/// Clients that talk straight to one coordinator, through a door that can be shut.
struct Story {
    clients: Clients,
    trino: TrinoSim,
    now: Timestamp,
    rng: ChaCha8Rng,
    door: Door,
}

#[derive(Clone, Copy)]
enum Door {
    Open,
    Broken,
    Status(u16, Option<&'static str>),
}

impl Story {
    fn begin(mix: Mix) -> Self {
        let mut story = Self {
            clients: Clients::new(ClientOptions {
                mix,
                ..ClientOptions::default()
            }),
            trino: TrinoSim::default(),
            now: Timestamp::UNIX_EPOCH,
            rng: ChaCha8Rng::seed_from_u64(3),
            door: Door::Open,
        };
        let spec = RunningCoordinator {
            pod: "p".into(),
            container: "c".into(),
            hosts: vec![HOST.into()],
            node_id: "n".into(),
            environment: "e".into(),
            version: "483".into(),
            catalogs: vec![],
            workers: vec!["w".into()],
            behaviour: Behaviour {
                start_delay: Duration::ZERO,
                ..Behaviour::default()
            },
        };
        story.trino.sync(vec![spec], story.now, &mut story.rng);
        for _ in 0..5 {
            story.clients.add("analytics", story.now);
        }
        story
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.now += Duration::from_millis(500);
            let (trino, door, now) = (&mut self.trino, self.door, self.now);
            trino.step(now);
            self.clients.step(now, &mut self.rng, &mut |request| match door {
                Door::Open => trino.handle(HOST, request, now),
                Door::Broken => None,
                Door::Status(status, code) => {
                    let mut answer = http::Response::builder().status(status);
                    if let Some(code) = code {
                        answer = answer.header("x-trino-gateway-error", code);
                    }
                    Some(answer.body(Bytes::from_static(b"no")).unwrap())
                }
            });
        }
    }
}

fn only_long() -> Mix {
    Mix {
        short: 0,
        slow_reader: 0,
        transaction: 0,
        ..Mix::default()
    }
}

#[test]
fn every_kind_of_work_finishes_on_a_healthy_coordinator() {
    let mut story = Story::begin(Mix::default());
    story.pass(600);
    story.clients.wind_down();
    story.pass(300);
    let counts = story.clients.counts();
    assert_eq!(counts.failures, []);
    assert_eq!(story.clients.in_flight(), 0);
    assert_eq!(counts.started, counts.finished);
    assert!(counts.started > 50, "{counts:?}");
    assert!(counts.transactions > 0, "{counts:?}");
}

#[test]
fn a_coordinator_that_dies_is_a_failure_of_every_query_on_it() {
    let mut story = Story::begin(only_long());
    story.pass(2);
    let busy = story.clients.in_flight();
    story
        .trino
        .restart_behind("p", story.now, &mut ChaCha8Rng::seed_from_u64(1));
    story.pass(3);
    let counts = story.clients.counts();
    assert_eq!(counts.failed, busy as u64);
    assert!(
        counts.failures[0].text.contains("HTTP 404"),
        "{:?}",
        counts.failures[0]
    );
    assert!(counts.failures[0].query.is_some());
}

#[test]
fn no_place_for_new_work_is_waited_for_and_then_a_failure() {
    let mut story = Story::begin(Mix::default());
    story.door = Door::Status(503, Some("ROUTING_STATE_NOT_ACTIVE"));
    story.pass(60);
    let counts = story.clients.counts();
    assert_eq!((counts.failed, counts.started), (0, 5));
    assert!(counts.unavailable > 5);
    story.pass(70);
    assert_eq!(story.clients.counts().failed, 5);
}

#[test]
fn a_sealed_member_under_a_running_query_is_a_failure_at_once() {
    let mut story = Story::begin(only_long());
    story.pass(2);
    story.door = Door::Status(409, Some("ROUTING_STATE_SEALED"));
    story.pass(2);
    assert!(story.clients.counts().failures[0].text.contains("SEALED"));
}

#[test]
fn a_gateway_that_is_away_for_a_moment_costs_no_query() {
    let mut story = Story::begin(only_long());
    story.pass(2);
    story.clients.wind_down();
    story.door = Door::Broken;
    story.pass(10);
    story.door = Door::Open;
    story.pass(120);
    let counts = story.clients.counts();
    assert!(counts.repeated > 0);
    assert_eq!((counts.failures, counts.finished), (vec![], 5));
}

#[test]
fn a_gateway_that_stays_away_is_a_failure() {
    let mut story = Story::begin(only_long());
    story.pass(2);
    story.door = Door::Broken;
    story.pass(60);
    assert!(story.clients.counts().failed >= 5);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = || {
        let mut story = Story::begin(Mix::default());
        story.pass(120);
        story.clients.counts()
    };
    assert_eq!(history(), history());
}
