//! Coordinators for the stories: just enough of Trino's HTTP API to be probed and to run statements.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use trino_pool_operator::sim::gateway::Upstream;

/// One coordinator process.
#[derive(Debug, Default)]
pub struct Process {
    pub node: String,
    pub coordinator: String,
    pub starting: bool,
    /// Queries that keep running until released.
    pub held: bool,
    queries: BTreeSet<String>,
    transactions: BTreeSet<String>,
    started: u32,
}

/// All processes by origin. An origin without a process does not answer.
#[derive(Debug, Default)]
pub struct Fleet {
    pub processes: BTreeMap<String, Process>,
    /// The next statement request runs, and its answer is lost.
    pub lose_next_answer: bool,
    processes_ever: u32,
}

impl Fleet {
    /// A new process at `origin`, in place of whatever was there.
    pub fn start(&mut self, origin: &str, node: &str) -> String {
        self.processes_ever += 1;
        let coordinator = format!("c{:04}", self.processes_ever);
        let process = Process {
            node: node.to_owned(),
            coordinator: coordinator.clone(),
            ..Process::default()
        };
        self.processes.insert(origin.to_owned(), process);
        coordinator
    }

    /// Every process forgets its queries, as after their client's timeout.
    pub fn forget_queries(&mut self) {
        for process in self.processes.values_mut() {
            process.queries.clear();
        }
    }
}

impl Upstream for Fleet {
    fn exchange(&mut self, origin: &str, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let process = self.processes.get_mut(origin)?;
        let probe = request.uri().path() == "/v1/info";
        let answer = process.answer(request);
        if !probe && std::mem::take(&mut self.lose_next_answer) {
            return None;
        }
        Some(answer)
    }
}

impl Process {
    fn answer(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
        match (request.method().as_str(), path.as_slice()) {
            ("GET", ["v1", "info"]) => body(&json!({
                "nodeId": self.node,
                "coordinatorId": self.coordinator,
                "coordinator": true,
                "starting": self.starting,
            })),
            ("POST", ["v1", "statement"]) => self.statement(request),
            ("GET", ["v1", "statement", "executing", id, ..]) if self.queries.contains(*id) => {
                if self.held {
                    self.running(id)
                } else {
                    self.queries.remove(*id);
                    finished(id)
                }
            }
            ("DELETE", ["v1", "statement", "executing", id, ..]) => {
                self.queries.remove(*id);
                empty(204)
            }
            _ => empty(404),
        }
    }

    fn statement(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        self.started += 1;
        let id = format!("20250101_000000_{:05}_{}", self.started, self.coordinator);
        let held_by = request.headers().get("x-trino-transaction-id");
        let inside = held_by.and_then(|value| value.to_str().ok()).unwrap_or("NONE");
        if inside != "NONE" && !self.transactions.contains(inside) {
            return empty(404);
        }
        let mut answer = match request.body().as_ref() {
            b"START TRANSACTION" | b"COMMIT" => finished(&id),
            _ => {
                self.queries.insert(id.clone());
                self.running(&id)
            }
        };
        match request.body().as_ref() {
            b"START TRANSACTION" => {
                let transaction = format!("00000000-0000-4000-8000-{:012}", self.started);
                let value = transaction.parse().unwrap();
                answer
                    .headers_mut()
                    .insert("x-trino-started-transaction-id", value);
                self.transactions.insert(transaction);
            }
            b"COMMIT" => {
                let value = "true".parse().unwrap();
                answer.headers_mut().insert("x-trino-clear-transaction-id", value);
            }
            _ => {}
        }
        answer
    }

    fn running(&self, id: &str) -> Response<Bytes> {
        body(&json!({
            "id": id,
            "stats": {"state": "RUNNING"},
            "nextUri": format!("http://gateway/v1/statement/executing/{id}/y1/1"),
            "data": [[self.node]],
        }))
    }
}

fn finished(id: &str) -> Response<Bytes> {
    body(&json!({"id": id, "stats": {"state": "FINISHED"}}))
}

fn body(value: &Value) -> Response<Bytes> {
    Response::new(Bytes::from(value.to_string()))
}

fn empty(status: u16) -> Response<Bytes> {
    Response::builder().status(status).body(Bytes::new()).unwrap()
}
