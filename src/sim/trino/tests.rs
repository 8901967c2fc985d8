use rand::SeedableRng;
use serde_json::Value;

use super::*;

const HOST: &str = "cell-1.trino.svc.cluster.local:8080";

struct Story {
    trino: TrinoSim,
    now: Timestamp,
    rng: ChaCha8Rng,
}

impl Story {
    fn begin(behaviour: Behaviour) -> Self {
        let mut story = Self {
            trino: TrinoSim::default(),
            now: Timestamp::UNIX_EPOCH,
            rng: ChaCha8Rng::seed_from_u64(7),
        };
        story.run(vec![coordinator("c1", &["w1", "w2"], behaviour)]);
        story
    }

    fn run(&mut self, running: Vec<RunningCoordinator>) {
        self.trino.sync(running, self.now, &mut self.rng);
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.trino.step(self.now);
    }

    fn send(
        &mut self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> http::Response<Bytes> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("x-trino-user", "alice");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.trino
            .handle(
                HOST,
                &request.body(Bytes::from_static(body.as_bytes())).unwrap(),
                self.now,
            )
            .expect("something listens")
    }

    fn get(&mut self, uri: &str) -> Value {
        serde_json::from_slice(self.send("GET", uri, &[], "").body()).unwrap()
    }

    fn post(&mut self, sql: &'static str) -> Value {
        serde_json::from_slice(self.send("POST", "/v1/statement", &[], sql).body()).unwrap()
    }

    /// Follows a page to the last one; gives all rows and the last page.
    fn drain(&mut self, mut page: Value) -> (Vec<Value>, Value) {
        let mut rows = Vec::new();
        loop {
            if let Some(data) = page["data"].as_array() {
                rows.extend(data.iter().cloned());
            }
            let Some(next) = page["nextUri"].as_str().map(str::to_owned) else {
                return (rows, page);
            };
            page = self.get(&next);
        }
    }
}

fn coordinator(container: &str, workers: &[&str], behaviour: Behaviour) -> RunningCoordinator {
    RunningCoordinator {
        pod: "p1".into(),
        container: container.into(),
        hosts: vec![HOST.into()],
        node_id: "cell-1-coordinator".into(),
        environment: "prod_a".into(),
        version: "483".into(),
        catalogs: vec!["tpch".into()],
        workers: workers.iter().map(|&worker| worker.to_owned()).collect(),
        behaviour,
    }
}

#[test]
fn t04_info_answers_200_while_it_still_starts() {
    let mut story = Story::begin(Behaviour::default());
    let info = story.get("/v1/info");
    assert_eq!(info["starting"], true);
    assert_eq!(info["coordinatorId"].as_str().unwrap().len(), 5);
    let first = story.post("SELECT 1");
    let (_, page) = story.drain(first);
    assert_eq!(page["error"]["errorName"], "SERVER_STARTING_UP");
    story.pass(8);
    assert_eq!(story.get("/v1/info")["starting"], false);
}

#[test]
fn info_has_the_members_that_were_recorded() {
    let recorded = include_str!("../../../tests/fixtures/trino/trino483-basic.txt");
    let body = recorded
        .lines()
        .find(|line| line.contains(r#""starting":"#))
        .unwrap();
    let recorded: Value = serde_json::from_str(body).unwrap();
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    let ours = story.get("/v1/info");
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&ours), members(&recorded));
}

#[test]
fn a_long_query_runs_over_pages_until_its_time_has_passed() {
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    let first = story.post("SELECT count(*) FROM TABLE(sequence(start => 1, stop => 100000000))");
    let queued = first["nextUri"].as_str().unwrap().to_owned();
    assert!(queued.starts_with(&format!("http://{HOST}/v1/statement/queued/")));
    let executing = story.get(&queued)["nextUri"].as_str().unwrap().to_owned();
    assert!(executing.contains("/v1/statement/executing/"));
    let running = story.get(&executing);
    assert_eq!(running["stats"]["state"], "RUNNING");
    assert!(running["data"].is_null());
    story.pass(7);
    let (rows, last) = story.drain(running);
    assert_eq!(rows, [serde_json::json!([100_000_000])]);
    assert_eq!(last["stats"]["state"], "FINISHED");
    assert_eq!(story.trino.processes(story.now)[0].live_queries, 0);
}

#[test]
fn a_page_asked_for_twice_is_the_same_and_an_older_one_is_gone() {
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    let queued = story.post("SELECT 1")["nextUri"].as_str().unwrap().to_owned();
    let first = story.get(&queued);
    assert_eq!(story.get(&queued), first);
    let executing = first["nextUri"].as_str().unwrap().to_owned();
    story.get(&executing);
    assert_eq!(story.send("GET", &queued, &[], "").status(), 410);
    assert_eq!(
        story
            .send("GET", "/v1/statement/executing/q/y/0", &[], "")
            .status(),
        404
    );
}

#[test]
fn t06_results_that_nobody_fetched_are_still_live() {
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    let page = story.post("SELECT sequential_number FROM TABLE(sequence(start => 1, stop => 25))");
    let id = page["id"].as_str().unwrap().to_owned();
    let executing = story.get(page["nextUri"].as_str().unwrap());
    let page = story.get(executing["nextUri"].as_str().unwrap());
    story.pass(60);
    assert_eq!(story.get(&format!("/v1/query/{id}"))["state"], "FINISHING");
    assert_eq!(story.trino.processes(story.now)[0].live_queries, 1);
    let (rows, _) = story.drain(page);
    assert_eq!(rows.len(), 25);
    assert_eq!(story.trino.processes(story.now)[0].live_queries, 0);
}

#[test]
fn t06_a_vanished_client_ends_by_trinos_own_timeout() {
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    story.post("SELECT count(*) FROM TABLE(sequence(start => 1, stop => 100000000000))");
    story.pass(300);
    assert_eq!(story.trino.processes(story.now)[0].live_queries, 1);
    story.pass(1);
    assert_eq!(story.trino.processes(story.now)[0].live_queries, 0);
}

#[test]
fn t05_a_restart_behind_the_same_pod_is_a_new_process_without_the_old_queries() {
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    let before = story.get("/v1/info");
    let next = story.post("SELECT count(*) FROM TABLE(sequence(start => 1, stop => 100000000))")["nextUri"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(story.trino.restart_behind("p1", story.now, &mut story.rng));
    let after = story.get("/v1/info");
    assert_eq!(before["nodeId"], after["nodeId"]);
    assert_ne!(before["coordinatorId"], after["coordinatorId"]);
    assert_eq!(after["starting"], true);
    let lost = story.send("GET", &next, &[], "");
    assert_eq!(
        (lost.status().as_u16(), &lost.body()[..]),
        (404, &b"Query not found"[..])
    );
    assert_eq!(story.trino.ended()[0].live_queries.len(), 1);
}

#[test]
fn a_process_dies_with_its_queries_when_its_container_is_no_longer_there() {
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    story.post("SELECT count(*) FROM TABLE(sequence(start => 1, stop => 100000000))");
    story.run(Vec::new());
    let request = http::Request::get("/v1/info").body(Bytes::new()).unwrap();
    assert!(story.trino.handle(HOST, &request, story.now).is_none());
    let ended = &story.trino.ended()[0];
    assert_eq!((ended.live_queries.len(), ended.container.as_str()), (1, "c1"));
}

#[test]
fn a_worker_that_goes_takes_running_queries_along_and_spares_finished_ones() {
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    let quick = story.post("SELECT sequential_number FROM TABLE(sequence(start => 1, stop => 25))");
    let slow = story.post("SELECT count(*) FROM TABLE(sequence(start => 1, stop => 100000000))");
    story.pass(1);
    story.run(vec![coordinator("c1", &["w1"], Behaviour::default())]);
    let (_, page) = story.drain(slow);
    assert_eq!(page["error"]["errorName"], "REMOTE_HOST_GONE");
    let (rows, page) = story.drain(quick);
    assert_eq!((rows.len(), page["error"].is_null()), (25, true));
}

#[test]
fn t07_a_transaction_stays_open_without_any_query_until_it_ends_or_idles() {
    let mut story = Story::begin(Behaviour::default());
    story.pass(8);
    let started = |story: &mut Story| {
        let first = story.send(
            "POST",
            "/v1/statement",
            &[("x-trino-transaction-id", "NONE")],
            "START TRANSACTION",
        );
        let mut page: Value = serde_json::from_slice(first.body()).unwrap();
        loop {
            let answer = story.send("GET", page["nextUri"].as_str().unwrap(), &[], "");
            if let Some(id) = answer.headers().get("x-trino-started-transaction-id") {
                return id.to_str().unwrap().to_owned();
            }
            page = serde_json::from_slice(answer.body()).unwrap();
        }
    };
    let id = started(&mut story);
    assert!(uuid::Uuid::parse_str(&id).is_ok());
    let view = story.trino.processes(story.now).remove(0);
    assert_eq!((view.live_queries, view.open_transactions), (0, 1));

    let first = story.send(
        "POST",
        "/v1/statement",
        &[("x-trino-transaction-id", &id)],
        "COMMIT",
    );
    let page = serde_json::from_slice(first.body()).unwrap();
    story.drain(page);
    assert_eq!(story.trino.processes(story.now)[0].open_transactions, 0);

    started(&mut story);
    story.pass(301);
    assert_eq!(story.trino.processes(story.now)[0].open_transactions, 0);

    let first = story.send(
        "POST",
        "/v1/statement",
        &[("x-trino-transaction-id", &id)],
        "SELECT 1",
    );
    let page = serde_json::from_slice(first.body()).unwrap();
    let (_, last) = story.drain(page);
    assert_eq!(last["error"]["errorName"], "UNKNOWN_TRANSACTION");
}

#[test]
fn metadata_statements_tell_what_the_process_sees() {
    let mut story = Story::begin(Behaviour {
        missing_workers: 1,
        catalogs: Some(vec!["hive".into()]),
        ..Behaviour::default()
    });
    story.pass(8);
    let first = story.post("SHOW CATALOGS");
    let (rows, _) = story.drain(first);
    assert_eq!(rows, [serde_json::json!(["hive"]), serde_json::json!(["system"])]);
    let first = story.post("SELECT node_id, coordinator, state FROM system.runtime.nodes");
    let (rows, _) = story.drain(first);
    assert_eq!(rows.len(), 2);
}

#[test]
fn a_coordinator_cannot_be_shut_down_and_needs_a_user() {
    let mut story = Story::begin(Behaviour::default());
    assert_eq!(story.send("PUT", "/v1/info/state", &[], "").status(), 500);
    let request = http::Request::post("/v1/statement")
        .body(Bytes::from_static(b"SELECT 1"))
        .unwrap();
    let answer = story.trino.handle(HOST, &request, story.now).unwrap();
    assert_eq!(answer.status(), 401);
}
