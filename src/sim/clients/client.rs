//! One client: a script of statements, run page by page.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::workload::Script;
use super::{ClientOptions, Counts, Failure, Send};

/// Code of the gateway's "no member takes new work" (protocol section 7).
const NOT_ACTIVE: &str = "ROUTING_STATE_NOT_ACTIVE";

#[derive(Debug)]
pub(super) struct Client {
    name: String,
    pool: String,
    due: Timestamp,
    script: Option<Running>,
}

/// A script under way.
#[derive(Debug)]
struct Running {
    script: Script,
    at: usize,
    transaction: Option<String>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The statement is to be submitted; since when it is tried.
    Submitting { since: Option<Timestamp> },
    /// Its next page is to be fetched; since when the same page is tried.
    Polling {
        query: String,
        path: String,
        since: Option<Timestamp>,
    },
}

/// What one request led to.
enum Outcome {
    /// Go on after this pause.
    Again(Duration),
    /// The statement's last page arrived.
    Finished,
    /// The statement failed.
    Failed(String),
}

impl Client {
    pub(super) const fn new(name: String, pool: String, due: Timestamp) -> Self {
        Self {
            name,
            pool,
            due,
            script: None,
        }
    }

    pub(super) fn pool(&self) -> &str {
        &self.pool
    }

    pub(super) const fn busy(&self) -> bool {
        self.script.is_some()
    }

    pub(super) fn step(
        &mut self,
        now: Timestamp,
        rng: &mut ChaCha8Rng,
        options: &ClientOptions,
        winding_down: bool,
        counts: &mut Counts,
        send: &mut Send<'_>,
    ) {
        if now < self.due {
            return;
        }
        let mut running = match self.script.take() {
            Some(running) => running,
            None if winding_down => return,
            None => Running {
                script: Script::draw(&options.mix, rng),
                at: 0,
                transaction: None,
                state: State::Submitting { since: None },
            },
        };
        let outcome = match running.state {
            State::Submitting { .. } => self.submit(&mut running, now, rng, options, counts, send),
            State::Polling { .. } => self.poll(&mut running, now, options, counts, send),
        };
        let pause = match outcome {
            Outcome::Again(pause) => {
                self.script = Some(running);
                pause
            }
            Outcome::Finished => {
                counts.finished += 1;
                running.at += 1;
                running.state = State::Submitting { since: None };
                if running.at < running.script.statements.len() {
                    let pause = running.script.between_statements;
                    self.script = Some(running);
                    pause
                } else {
                    counts.transactions += u64::from(running.script.statements.len() > 1);
                    Duration::from_millis(rng.random_range(200..=2000))
                }
            }
            Outcome::Failed(text) => {
                let query = match running.state {
                    State::Polling { query, .. } => Some(query),
                    State::Submitting { .. } => None,
                };
                counts.fail(Failure {
                    at: now,
                    pool: self.pool.clone(),
                    query,
                    text,
                });
                Duration::from_secs(1)
            }
        };
        self.due = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
    }

    fn submit(
        &self,
        running: &mut Running,
        now: Timestamp,
        rng: &mut ChaCha8Rng,
        options: &ClientOptions,
        counts: &mut Counts,
        send: &mut Send<'_>,
    ) -> Outcome {
        let State::Submitting { since } = &mut running.state else {
            return Outcome::Failed("the client lost its place".to_owned());
        };
        if since.is_none() {
            counts.started += 1;
        }
        let waited = now.duration_since(*since.get_or_insert(now)).unsigned_abs();
        let sql = running
            .script
            .statements
            .get(running.at)
            .cloned()
            .unwrap_or_default();
        let what = short(&sql);
        let request = self.request(Method::POST, "/v1/statement", running.transaction.as_deref(), sql);
        let answer = match request.map(|request| send(&request)) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Outcome::Failed(format!("{what}: no answer to the submission")),
            Err(error) => return Outcome::Failed(format!("{what}: {error}")),
        };
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE
            && code(&answer).is_none_or(|code| code == NOT_ACTIVE)
        {
            counts.unavailable += 1;
            if waited < options.submit_patience {
                return Outcome::Again(Duration::from_millis(rng.random_range(500..=1500)));
            }
            return Outcome::Failed(format!("{what}: no member took it for {waited:?}"));
        }
        Self::read(running, &what, &answer)
    }

    fn poll(
        &self,
        running: &mut Running,
        now: Timestamp,
        options: &ClientOptions,
        counts: &mut Counts,
        send: &mut Send<'_>,
    ) -> Outcome {
        let transaction = running.transaction.clone();
        let State::Polling { query, path, since } = &mut running.state else {
            return Outcome::Failed("the client lost its place".to_owned());
        };
        let what = format!("query {query}");
        let answer = match self.request(Method::GET, path, transaction.as_deref(), String::new()) {
            Ok(request) => send(&request),
            Err(error) => return Outcome::Failed(format!("{what}: {error}")),
        };
        let away = match &answer {
            None => Some("no answer".to_owned()),
            Some(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => Some(told(answer)),
            Some(_) => None,
        };
        if let Some(away) = away {
            counts.repeated += 1;
            let waited = now.duration_since(*since.get_or_insert(now)).unsigned_abs();
            // Pages are numbered, so asking for the same one again loses nothing.
            return if waited < options.poll_patience {
                Outcome::Again(Duration::from_secs(1))
            } else {
                Outcome::Failed(format!("{what}: {away} for {waited:?}"))
            };
        }
        *since = None;
        match answer {
            Some(answer) => Self::read(running, &what, &answer),
            None => Outcome::Failed(format!("{what}: no answer")),
        }
    }

    fn read(running: &mut Running, what: &str, answer: &Response<Bytes>) -> Outcome {
        if answer.status() != StatusCode::OK {
            return Outcome::Failed(format!("{what}: {}", told(answer)));
        }
        let page: Value = match serde_json::from_slice(answer.body()) {
            Ok(page) => page,
            Err(error) => return Outcome::Failed(format!("{what}: unreadable page: {error}")),
        };
        if let Some(error) = page.get("error").filter(|error| !error.is_null()) {
            return Outcome::Failed(format!("{what}: {}: {}", error["errorName"], error["message"]));
        }
        let Some(id) = page["id"].as_str() else {
            return Outcome::Failed(format!("{what}: a page without an id"));
        };
        if let State::Polling { query, .. } = &running.state
            && query != id
        {
            return Outcome::Failed(format!("{what}: answered with a page of query {id}"));
        }
        if let Some(started) = answer.headers().get("x-trino-started-transaction-id") {
            running.transaction = started.to_str().ok().map(str::to_owned);
        }
        if answer.headers().contains_key("x-trino-clear-transaction-id") {
            running.transaction = None;
        }
        match page["nextUri"].as_str() {
            Some(next) => match next
                .parse::<http::Uri>()
                .ok()
                .and_then(|uri| uri.into_parts().path_and_query)
            {
                Some(path) => {
                    running.state = State::Polling {
                        query: id.to_owned(),
                        path: path.as_str().to_owned(),
                        since: None,
                    };
                    Outcome::Again(running.script.between_pages)
                }
                None => Outcome::Failed(format!("{what}: nextUri {next:?} has no path")),
            },
            None if page["stats"]["state"] == "FINISHED" => Outcome::Finished,
            None => Outcome::Failed(format!("{what}: ended in state {}", page["stats"]["state"])),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        transaction: Option<&str>,
        body: String,
    ) -> Result<Request<Bytes>, http::Error> {
        Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, "gateway")
            .header(
                http::header::AUTHORIZATION,
                format!("Basic {}", BASE64.encode(format!("{0}:{0}", self.name))),
            )
            .header("x-trino-routing-group", &self.pool)
            .header("x-trino-transaction-id", transaction.unwrap_or("NONE"))
            .body(Bytes::from(body))
    }
}

fn code(answer: &Response<Bytes>) -> Option<&str> {
    answer
        .headers()
        .get("x-trino-gateway-error")
        .and_then(|value| value.to_str().ok())
}

/// An answer that is no page, in a few words.
fn told(answer: &Response<Bytes>) -> String {
    let text = String::from_utf8_lossy(answer.body());
    format!(
        "HTTP {} {} {}",
        answer.status().as_u16(),
        code(answer).unwrap_or_default(),
        short(&text)
    )
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}
