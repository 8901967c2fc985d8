//! Clients that run queries through the gateway all the time, and count every failure.
//!
//! Owns what the world's users see: the only witness of "no query was lost". A client knows the gateway's
//! address and its pool, nothing else. It follows a query on the gateway whatever host a page names, as
//! clients behind a proxy do, and never cancels.

mod client;
mod workload;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;

use client::Client;
pub use workload::Mix;

/// The gateway as clients reach it; `None` is a connection that was refused or broke.
pub type Send<'a> = dyn FnMut(&http::Request<Bytes>) -> Option<http::Response<Bytes>> + 'a;

/// How clients behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long a client goes on asking for a place when no member takes new work, before that counts as
    /// a failure.
    pub submit_patience: Duration,
    /// How long it repeats one page request that found the gateway unreachable or answering 503.
    pub poll_patience: Duration,
    /// What they run.
    pub mix: Mix,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            submit_patience: Duration::from_mins(2),
            poll_patience: Duration::from_secs(30),
            mix: Mix::default(),
        }
    }
}

/// A query that failed, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When.
    pub at: Timestamp,
    /// The client's pool.
    pub pool: String,
    /// The query's id, once it had one.
    pub query: Option<String>,
    /// What the client saw.
    pub text: String,
}

/// What all clients saw. `started = finished + failed + in flight`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queries begun.
    pub started: u64,
    /// Queries whose last page arrived.
    pub finished: u64,
    /// Queries that ended in any other way.
    pub failed: u64,
    /// Submissions told that no member takes new work; tried again.
    pub unavailable: u64,
    /// Page requests repeated because the gateway was away.
    pub repeated: u64,
    /// Transactions committed.
    pub transactions: u64,
    /// Failures in order; at most [`Counts::KEPT`] are kept.
    pub failures: Vec<Failure>,
}

impl Counts {
    /// How many failures are kept with their text.
    pub const KEPT: usize = 100;

    fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        if self.failures.len() < Self::KEPT {
            self.failures.push(failure);
        }
    }

    fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.finished += other.finished;
        self.failed += other.failed;
        self.unavailable += other.unavailable;
        self.repeated += other.repeated;
        self.transactions += other.transactions;
        let room = Self::KEPT.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.iter().take(room).cloned());
    }
}

/// All clients of the world.
#[derive(Debug, Default)]
pub struct Clients {
    fleet: Vec<Client>,
    counts: BTreeMap<String, Counts>,
    options: ClientOptions,
    winding_down: bool,
}

impl Clients {
    /// No clients yet.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Adds one client of a pool (a routing group), which begins at `from`.
    pub fn add(&mut self, pool: &str, from: Timestamp) {
        let name = format!("client-{}", self.fleet.len());
        self.counts.entry(pool.to_owned()).or_default();
        self.fleet.push(Client::new(name, pool.to_owned(), from));
    }

    /// Lets every client that is due do its next thing.
    pub fn step(&mut self, now: Timestamp, rng: &mut ChaCha8Rng, send: &mut Send<'_>) {
        for client in &mut self.fleet {
            let counts = self.counts.entry(client.pool().to_owned()).or_default();
            client.step(now, rng, &self.options, self.winding_down, counts, send);
        }
    }

    /// From now on, queries and transactions are ended and none is begun.
    pub const fn wind_down(&mut self) {
        self.winding_down = true;
    }

    /// Queries and transactions under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.fleet.iter().filter(|client| client.busy()).count()
    }

    /// What the clients of all pools saw.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.values().fold(Counts::default(), |mut all, counts| {
            all.add(counts);
            all
        })
    }

    /// What the clients of one pool saw.
    #[must_use]
    pub fn counts_of(&self, pool: &str) -> Option<&Counts> {
        self.counts.get(pool)
    }
}

#[cfg(test)]
mod tests;
