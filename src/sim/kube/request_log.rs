//! What was asked of the API server, by whom: the independent witness of what the operator did.
//!
//! Counts every request with its bytes and seats, keeps each destructive one with its object's name, and each that
//! made a part of a workload. Deletions and evictions by the cluster's own controllers are kept too, under the
//! controller's name. Bytes are those of the messages as HTTP/1.1 writes them, without the framing of chunks.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Request, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::api::route::Verb;
use super::resource::Resource;

/// How an object is destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destruction {
    /// DELETE of the object.
    Delete,
    /// POST of an Eviction of a pod.
    Evict,
}

/// One request that destroys something, or one such act of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destructive {
    /// When.
    pub at: Timestamp,
    /// Who: `x-sim-actor`, else the User-Agent; a controller by its name.
    pub actor: String,
    /// How.
    pub how: Destruction,
    /// What kind of object.
    pub resource: Resource,
    /// Where; empty when cluster-scoped.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The UID that the request was bound to, if it was bound to one.
    pub uid: Option<String>,
    /// HTTP status of the answer; 200 for a controller's own act.
    pub code: u16,
    /// It came as a request, not from inside the simulated control plane.
    pub requested: bool,
}

/// One object that a request created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// When.
    pub at: Timestamp,
    /// Who, as in [`Destructive`].
    pub actor: String,
    /// What kind of object.
    pub resource: Resource,
    /// Its name.
    pub name: String,
}

/// What requests cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// How many there were.
    pub requests: u64,
    /// Bytes that the server received.
    pub bytes_in: u64,
    /// Bytes that the server sent, those of open watches as they are sent.
    pub bytes_out: u64,
    /// Seats of API Priority and Fairness, estimated as the server does.
    pub seats: u64,
}

impl Cost {
    /// What was added since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
            seats: self.seats.saturating_sub(earlier.seats),
        }
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            bytes_in: self.bytes_in.saturating_add(other.bytes_in),
            bytes_out: self.bytes_out.saturating_add(other.bytes_out),
            seats: self.seats.saturating_add(other.seats),
        }
    }
}

/// One request, kept while requests are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The cluster's time when it came.
    pub at: Timestamp,
    /// Who sent it.
    pub actor: String,
    /// `<VERB> <resource>`.
    pub what: String,
    /// The object that it names, if any.
    pub name: Option<String>,
    /// Its own cost; of a watch only the request and the head of the answer.
    pub cost: Cost,
    /// HTTP status of the answer.
    pub code: u16,
}

/// Who sends what: under whose count a request's bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub actor: String,
    /// `<VERB> <resource>`.
    pub what: String,
}

/// Counts of requests and the list of destructive ones.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    counts: BTreeMap<String, u64>,
    costs: BTreeMap<String, BTreeMap<String, Cost>>,
    recorded: Option<Vec<Recorded>>,
    destructive: Vec<Destructive>,
    made: Arc<Vec<Made>>,
}

impl RequestLog {
    /// A request came. Its answer is told to [`Self::answered`].
    pub(crate) fn count(&mut self, actor: &str, verb: Verb, label: &str) -> Account {
        let what = format!("{} {label}", verb.as_str());
        *self.counts.entry(what.clone()).or_default() += 1;
        Account {
            actor: actor.to_owned(),
            what,
        }
    }

    /// What a request and its answer came to.
    pub(crate) fn answered(
        &mut self,
        account: &Account,
        name: Option<&str>,
        cost: Cost,
        code: u16,
        now: Timestamp,
    ) {
        self.add(account, cost);
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Recorded {
                at: now,
                actor: account.actor.clone(),
                what: account.what.clone(),
                name: name.map(str::to_owned),
                cost,
                code,
            });
        }
    }

    /// A watch sent these bytes.
    pub(crate) fn streamed(&mut self, account: &Account, bytes: u64) {
        let cost = Cost {
            bytes_out: bytes,
            ..Cost::default()
        };
        self.add(account, cost);
    }

    fn add(&mut self, account: &Account, cost: Cost) {
        if let Some(total) = self
            .costs
            .get_mut(&account.actor)
            .and_then(|costs| costs.get_mut(&account.what))
        {
            *total = total.and(cost);
        } else {
            self.costs
                .entry(account.actor.clone())
                .or_default()
                .insert(account.what.clone(), cost);
        }
    }

    /// Keeps every request from now on, or keeps none any more; what was kept is returned.
    pub(crate) fn record(&mut self, on: bool) -> Vec<Recorded> {
        std::mem::replace(&mut self.recorded, on.then(Vec::new)).unwrap_or_default()
    }

    pub(crate) fn destroyed(&mut self, destructive: Destructive) {
        self.destructive.push(destructive);
    }

    pub(crate) fn made(&mut self, made: Made) {
        Arc::make_mut(&mut self.made).push(made);
    }

    /// Deployments, Services and ConfigMaps that requests created, oldest first.
    #[must_use]
    pub fn all_made(&self) -> Arc<Vec<Made>> {
        Arc::clone(&self.made)
    }

    /// Requests by `<VERB> <resource>`, whoever sent them.
    #[must_use]
    pub const fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// Requests of one actor by `<VERB> <resource>`.
    #[must_use]
    pub fn counts_of(&self, actor: &str) -> BTreeMap<String, u64> {
        let costs = self.costs.get(actor).into_iter().flatten();
        costs.map(|(what, cost)| (what.clone(), cost.requests)).collect()
    }

    /// Requests by `<VERB> <resource>` of everybody but this actor.
    #[must_use]
    pub fn counts_without(&self, actor: &str) -> BTreeMap<String, u64> {
        let costs = self.costs_without(actor);
        costs
            .into_iter()
            .map(|(what, cost)| (what, cost.requests))
            .collect()
    }

    /// What everybody but this actor asked cost, by `<VERB> <resource>`.
    #[must_use]
    pub fn costs_without(&self, actor: &str) -> BTreeMap<String, Cost> {
        let others = self.costs.iter().filter(|(who, _)| *who != actor);
        let mut sums: BTreeMap<String, Cost> = BTreeMap::new();
        for (what, cost) in others.flat_map(|(_, costs)| costs) {
            let sum = sums.entry(what.clone()).or_default();
            *sum = sum.and(*cost);
        }
        sums
    }

    /// Everybody who sent a request.
    pub fn actors(&self) -> impl Iterator<Item = &str> {
        self.costs.keys().map(String::as_str)
    }

    /// Every destructive act, oldest first.
    #[must_use]
    pub fn destructive(&self) -> &[Destructive] {
        &self.destructive
    }

    /// Destructive *requests* by actors that `is_ours` accepts, refused ones included: asking is
    /// already a broken rule.
    pub fn requested_by<'a>(
        &'a self,
        is_ours: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Destructive> {
        self.destructive
            .iter()
            .filter(move |entry| entry.requested && is_ours(&entry.actor))
    }
}

/// Bytes of a request: its line, its headers and its body.
pub(crate) fn bytes_of_request<B>(request: &Request<B>, body: usize) -> u64 {
    let target = request
        .uri()
        .path_and_query()
        .map_or(1, |path| path.as_str().len());
    // `GET /path HTTP/1.1` and the line break.
    let line = request.method().as_str().len() + target + " ".len() * 2 + "HTTP/1.1\r\n".len();
    length(line + head(request.headers()) + body)
}

/// Bytes of an answer: its line, its headers and its body.
pub(crate) fn bytes_of_response<B>(response: &Response<B>, body: usize) -> u64 {
    let reason = response.status().canonical_reason().unwrap_or_default();
    let line = "HTTP/1.1 200 \r\n".len() + reason.len();
    length(line + head(response.headers()) + body)
}

fn head(headers: &http::HeaderMap) -> usize {
    let lines = headers.iter().map(|(name, value)| {
        let parts = name.as_str().len() + value.len();
        parts + ": \r\n".len()
    });
    lines.sum::<usize>() + "\r\n".len()
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
