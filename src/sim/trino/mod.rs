//! Simulated Trino coordinators: one process per running coordinator container, with its queries.
//!
//! Owns the processes, what they answer over HTTP, and what dies with them. A process lives exactly as long
//! as its pod object and container do: whoever drives the simulation says which containers run
//! ([`TrinoSim::sync`]). Never ends a query of its own accord except as Trino does (abandoned by its client,
//! or a worker gone). The shapes are those recorded from Trino 483 in `tests/fixtures/trino`.

mod pages;
mod process;
mod query;
pub mod server;
mod sql;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;

use process::Process;

/// How a coordinator misbehaves; the default is a healthy one that starts in 8 s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// From the start of the container to `starting: false`.
    pub start_delay: Duration,
    /// Answers `starting: true` for ever.
    pub never_starts: bool,
    /// Catalogs it lists instead of those it was configured with, `system` excluded.
    pub catalogs: Option<Vec<String>>,
    /// How many of its workers it does not see.
    pub missing_workers: usize,
    /// Statements take this many times as long.
    pub slowness: u32,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            start_delay: Duration::from_secs(8),
            never_starts: false,
            catalogs: None,
            missing_workers: 0,
            slowness: 1,
        }
    }
}

/// One coordinator container that runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCoordinator {
    /// UID of its pod.
    pub pod: String,
    /// Container id; a new one is a new process behind the same pod.
    pub container: String,
    /// `host:port` under which it can be reached now: its pod's IP, and its Service while endpoints say so.
    pub hosts: Vec<String>,
    /// `node.id`; survives a restart.
    pub node_id: String,
    /// `node.environment`.
    pub environment: String,
    /// `nodeVersion.version`.
    pub version: String,
    /// Configured catalogs, `system` excluded.
    pub catalogs: Vec<String>,
    /// Node ids of the worker processes that run now.
    pub workers: Vec<String>,
    /// How it misbehaves.
    pub behaviour: Behaviour,
}

/// A process that ended, and what was lost with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// UID of its pod.
    pub pod: String,
    /// Its container.
    pub container: String,
    /// Its `node.id`: the name of its pod.
    pub node_id: String,
    /// Its `coordinatorId`.
    pub coordinator: String,
    /// Queries that had not given their last page to their client.
    pub live_queries: Vec<String>,
    /// Transactions that were open.
    pub open_transactions: usize,
    /// When.
    pub at: Timestamp,
}

/// What one process looks like from outside, for readiness probes and for invariants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessView {
    /// UID of its pod.
    pub pod: String,
    /// Its container.
    pub container: String,
    /// Its `coordinatorId`.
    pub coordinator: String,
    /// Whether it says `starting: false`.
    pub ready: bool,
    /// Queries that have not given their last page.
    pub live_queries: usize,
    /// Open transactions.
    pub open_transactions: usize,
}

/// All coordinator processes of the world.
#[derive(Debug, Default)]
pub struct TrinoSim {
    processes: BTreeMap<(String, String), Process>,
    /// The process that listens at each `host:port`, the first by pod and container if several do.
    hosts: BTreeMap<String, (String, String)>,
    ended: Vec<Ended>,
}

impl TrinoSim {
    /// Makes the processes those of `running`: starts new ones, ends the others with everything in them, and
    /// tells the rest how they are reached and which workers they have.
    pub fn sync(&mut self, running: Vec<RunningCoordinator>, now: Timestamp, rng: &mut ChaCha8Rng) {
        let mut kept = BTreeMap::new();
        for spec in running {
            let key = (spec.pod.clone(), spec.container.clone());
            let process = match self.processes.remove(&key) {
                Some(mut process) => {
                    process.update(spec, now);
                    process
                }
                None => Process::start(spec, now, rng),
            };
            kept.insert(key, process);
        }
        for process in std::mem::replace(&mut self.processes, kept).into_values() {
            self.ended.push(process.end(now));
        }
        self.hosts.clear();
        for (key, process) in &self.processes {
            for host in &process.spec().hosts {
                self.hosts.entry(host.clone()).or_insert_with(|| key.clone());
            }
        }
    }

    /// Lets time pass: statements advance, abandoned ones fail, idle transactions expire.
    pub fn step(&mut self, now: Timestamp) {
        for process in self.processes.values_mut() {
            process.step(now);
        }
    }

    /// Replaces the process behind a pod without Kubernetes seeing it: the same pod, container and node id, a
    /// new `coordinatorId`, no queries. False when no such process runs.
    pub fn restart_behind(&mut self, pod: &str, now: Timestamp, rng: &mut ChaCha8Rng) -> bool {
        let Some(process) = self
            .processes
            .values_mut()
            .find(|process| process.spec().pod == pod)
        else {
            return false;
        };
        let spec = process.spec().clone();
        let ended = std::mem::replace(process, Process::start(spec, now, rng)).end(now);
        self.ended.push(ended);
        true
    }

    /// Answers one HTTP request sent to `host` (`host:port`); `None` when nothing listens there.
    pub fn handle(
        &mut self,
        host: &str,
        request: &http::Request<Bytes>,
        now: Timestamp,
    ) -> Option<http::Response<Bytes>> {
        let process = self.processes.get_mut(self.hosts.get(host)?)?;
        Some(process.handle(host, request, now))
    }

    /// Every process that runs now, by pod UID and container.
    #[must_use]
    pub fn processes(&self, now: Timestamp) -> Vec<ProcessView> {
        self.processes.values().map(|process| process.view(now)).collect()
    }

    /// Who runs a query, while its process remembers it.
    #[must_use]
    pub fn owner_of(&self, query: &str) -> Option<&str> {
        self.processes
            .values()
            .find_map(|process| process.owner_of(query))
    }

    /// Every process that ended, in order.
    #[must_use]
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }
}

#[cfg(test)]
mod tests;
