//! One coordinator process: what it says about itself, its queries and its open transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::pages::{empty_response, json_response, statement_page, text_response};
use super::query::{Query, Stage, Turn};
use super::sql::{Cluster, Work, plan};
use super::{Ended, ProcessView, RunningCoordinator};

/// `transaction.idle-timeout`.
const IDLE_TRANSACTION: Duration = Duration::from_mins(5);

const NO_USER: &str = "Basic authentication or X-Trino-Original-User or X-Trino-User must be sent";

/// A duration as jiff subtracts timestamps.
pub(super) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[derive(Debug)]
pub(super) struct Process {
    spec: RunningCoordinator,
    coordinator: String,
    started_at: Timestamp,
    queries: BTreeMap<String, Query>,
    /// Open transactions by id, with when they were last used.
    transactions: BTreeMap<String, Timestamp>,
    submitted: u32,
    rng: ChaCha8Rng,
}

impl Process {
    pub(super) fn start(spec: RunningCoordinator, now: Timestamp, rng: &mut ChaCha8Rng) -> Self {
        const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let mut own = ChaCha8Rng::seed_from_u64(rng.next_u64());
        let coordinator = (0..5)
            .map(|_| char::from(ALPHABET[own.random_range(0..ALPHABET.len())]))
            .collect();
        Self {
            spec,
            coordinator,
            started_at: now,
            queries: BTreeMap::new(),
            transactions: BTreeMap::new(),
            submitted: 0,
            rng: own,
        }
    }

    pub(super) const fn spec(&self) -> &RunningCoordinator {
        &self.spec
    }

    /// The world around it changed. Without fault-tolerant execution a worker that goes takes every query
    /// that still computes along.
    pub(super) fn update(&mut self, spec: RunningCoordinator, now: Timestamp) {
        let lost = self
            .spec
            .workers
            .iter()
            .find(|worker| !spec.workers.contains(worker));
        if let Some(worker) = lost {
            for query in self.queries.values_mut().filter(|query| query.running(now)) {
                query.fail(
                    "REMOTE_HOST_GONE",
                    format!("Could not communicate with the remote task on {worker}"),
                );
            }
        }
        self.spec = spec;
    }

    pub(super) fn step(&mut self, now: Timestamp) {
        for query in self.queries.values_mut() {
            query.abandon_if_silent(now);
        }
        // What was answered long ago is forgotten, as Trino forgets it (query.min-expire-age, 15 min).
        let kept_until = 3 * IDLE_TRANSACTION;
        self.queries.retain(|_, query| !query.forgotten(now, kept_until));
        let busy: Vec<String> = self
            .queries
            .values()
            .filter(|query| query.live())
            .filter_map(|query| query.transaction.clone())
            .collect();
        self.transactions
            .retain(|id, used| busy.contains(id) || now.duration_since(*used) <= signed(IDLE_TRANSACTION));
    }

    pub(super) fn end(self, now: Timestamp) -> Ended {
        Ended {
            pod: self.spec.pod,
            container: self.spec.container,
            node_id: self.spec.node_id,
            coordinator: self.coordinator,
            live_queries: self
                .queries
                .into_values()
                .filter(Query::live)
                .map(|query| query.id)
                .collect(),
            open_transactions: self.transactions.len(),
            at: now,
        }
    }

    pub(super) fn view(&self, now: Timestamp) -> ProcessView {
        ProcessView {
            pod: self.spec.pod.clone(),
            container: self.spec.container.clone(),
            coordinator: self.coordinator.clone(),
            ready: self.ready(now),
            live_queries: self.queries.values().filter(|query| query.live()).count(),
            open_transactions: self.transactions.len(),
        }
    }

    pub(super) fn owner_of(&self, query: &str) -> Option<&str> {
        self.queries.get(query).map(|query| query.user.as_str())
    }

    fn ready(&self, now: Timestamp) -> bool {
        !self.spec.behaviour.never_starts
            && now.duration_since(self.started_at) >= signed(self.spec.behaviour.start_delay)
    }

    fn uptime(&self, now: Timestamp) -> String {
        format!("{:.2}s", now.duration_since(self.started_at).as_secs_f64())
    }

    pub(super) fn handle(&mut self, host: &str, request: &Request<Bytes>, now: Timestamp) -> Response<Bytes> {
        let path = request.uri().path();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let method = request.method();
        match segments.as_slice() {
            ["v1", "info"] if method == Method::GET => json_response(&json!({
                "nodeId": self.spec.node_id,
                "state": if self.ready(now) { "ACTIVE" } else { "STARTING" },
                "nodeVersion": {"version": self.spec.version},
                "environment": self.spec.environment,
                "coordinator": true,
                "coordinatorId": self.coordinator,
                "starting": !self.ready(now),
                "uptime": self.uptime(now),
            })),
            ["v1", "info", "state"] if method == Method::GET => json_response(&json!("ACTIVE")),
            ["v1", "info", "state"] if method == Method::PUT => match user(request) {
                None => text_response(StatusCode::UNAUTHORIZED, NO_USER),
                Some(_) => text_response(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "java.lang.UnsupportedOperationException: Cannot shutdown coordinator",
                ),
            },
            ["v1", "info", "coordinator"] if method == Method::GET => empty_response(StatusCode::OK),
            ["v1", "status"] if method == Method::GET => json_response(&json!({
                "nodeId": self.spec.node_id,
                "nodeVersion": {"version": self.spec.version},
                "environment": self.spec.environment,
                "coordinator": true,
                "uptime": self.uptime(now),
            })),
            ["v1", "query", ..] if user(request).is_none() => {
                text_response(StatusCode::UNAUTHORIZED, NO_USER)
            }
            ["v1", "query"] if method == Method::GET => {
                let list: Vec<_> = self.queries.values().map(|query| summary(query, now)).collect();
                json_response(&json!(list))
            }
            ["v1", "query", id] if method == Method::GET => match self.queries.get(*id) {
                Some(query) => json_response(&summary(query, now)),
                None => empty_response(StatusCode::GONE),
            },
            ["v1", "statement"] if method == Method::POST => self.submit(host, request, now),
            ["v1", "statement", stage, id, slug, token] => {
                let stage = match *stage {
                    "queued" => Stage::Queued,
                    "executing" => Stage::Executing,
                    _ => return not_found(),
                };
                let Ok(token) = token.parse() else {
                    return not_found();
                };
                self.poll(host, request, stage, id, slug, token, now)
            }
            _ => not_found(),
        }
    }

    fn submit(&mut self, host: &str, request: &Request<Bytes>, now: Timestamp) -> Response<Bytes> {
        let Some(user) = user(request) else {
            return text_response(StatusCode::UNAUTHORIZED, NO_USER);
        };
        let sql = String::from_utf8_lossy(request.body()).into_owned();
        let transaction = header(request, "x-trino-transaction-id")
            .filter(|id| *id != "NONE")
            .map(str::to_owned);
        let id = format!(
            "{}_{:05}_{}",
            now.strftime("%Y%m%d_%H%M%S"),
            self.submitted,
            self.coordinator
        );
        self.submitted = self.submitted.saturating_add(1);
        let slug = format!("y{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        let mut work = if self.ready(now) {
            plan(&sql, &self.cluster())
        } else {
            Work::Fails(
                "SERVER_STARTING_UP",
                "Trino server is still initializing".to_owned(),
            )
        };
        if let Some(open) = &transaction {
            match self.transactions.get_mut(open) {
                Some(last_use) => *last_use = now,
                None => work = Work::Fails("UNKNOWN_TRANSACTION", format!("Unknown transaction ID: {open}")),
            }
        } else if matches!(work, Work::End) {
            work = Work::Fails("NOT_IN_TRANSACTION", "No transaction in progress".to_owned());
        }
        let starts = matches!(work, Work::Start).then(|| {
            uuid::Builder::from_random_bytes(self.rng.random())
                .into_uuid()
                .to_string()
        });
        let slowness = self.spec.behaviour.slowness;
        let mut query = Query::new(
            id.clone(),
            slug,
            user,
            sql,
            work,
            transaction,
            starts,
            slowness,
            now,
        );
        let page = query.first_page();
        let answer = statement_page(&origin(host, request), &query.id, &query.slug, &page);
        self.queries.insert(id, query);
        answer
    }

    fn cluster(&self) -> Cluster<'_> {
        let behaviour = &self.spec.behaviour;
        let seen = self.spec.workers.len().saturating_sub(behaviour.missing_workers);
        Cluster {
            catalogs: behaviour
                .catalogs
                .as_ref()
                .unwrap_or(&self.spec.catalogs)
                .iter()
                .map(String::as_str)
                .collect(),
            coordinator: &self.spec.node_id,
            workers: self.spec.workers.iter().take(seen).map(String::as_str).collect(),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one path")]
    fn poll(
        &mut self,
        host: &str,
        request: &Request<Bytes>,
        stage: Stage,
        id: &str,
        slug: &str,
        token: u64,
        now: Timestamp,
    ) -> Response<Bytes> {
        let Some(query) = self.queries.get_mut(id).filter(|query| query.slug == slug) else {
            return text_response(StatusCode::NOT_FOUND, "Query not found");
        };
        match *request.method() {
            Method::DELETE => {
                query.cancel();
                return empty_response(StatusCode::NO_CONTENT);
            }
            Method::HEAD => return empty_response(StatusCode::OK),
            Method::GET => {}
            _ => return empty_response(StatusCode::METHOD_NOT_ALLOWED),
        }
        match query.turn(stage, token, now) {
            Turn::Gone => empty_response(StatusCode::GONE),
            Turn::Unknown => text_response(StatusCode::NOT_FOUND, "Query not found"),
            Turn::Page(page) => {
                if let Some(used) = query
                    .transaction
                    .as_ref()
                    .and_then(|id| self.transactions.get_mut(id))
                {
                    *used = now;
                }
                if page.started_transaction.is_some()
                    && let Some(started) = query.starts_transaction()
                {
                    self.transactions.insert(started.clone(), now);
                }
                if page.cleared_transaction
                    && query.ends_transaction()
                    && let Some(ended) = &query.transaction
                {
                    self.transactions.remove(ended);
                }
                statement_page(&origin(host, request), id, slug, &page)
            }
        }
    }
}

fn summary(query: &Query, now: Timestamp) -> serde_json::Value {
    json!({
        "queryId": query.id,
        "session": {"user": query.user},
        "state": query.state(now),
        "query": query.sql,
    })
}

fn not_found() -> Response<Bytes> {
    text_response(StatusCode::NOT_FOUND, "Error 404 Not Found: HTTP 404 Not Found")
}

fn header<'r>(request: &'r Request<Bytes>, name: &str) -> Option<&'r str> {
    request
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .filter(|text| !text.is_empty())
}

/// Who asks: the Trino headers, or the fact that a Basic credential is there.
fn user(request: &Request<Bytes>) -> Option<String> {
    header(request, "x-trino-user")
        .or_else(|| header(request, "x-trino-original-user"))
        .or_else(|| {
            header(request, "authorization")
                .filter(|value| value.starts_with("Basic "))
                .map(|_| "basic")
        })
        .map(str::to_owned)
}

/// The origin in `nextUri`: forwarded headers first, as with `http-server.process-forwarded=true`.
fn origin(host: &str, request: &Request<Bytes>) -> String {
    let scheme = header(request, "x-forwarded-proto").unwrap_or("http");
    let host = header(request, "x-forwarded-host")
        .or_else(|| header(request, "host"))
        .unwrap_or(host);
    format!("{scheme}://{host}")
}
