//! Counts at one moment, and what was added between two moments.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything that is counted, since the world began.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Rounds of the control loop.
    pub ticks: u64,
    /// Ticks that a pool left out because its last one was still under way.
    pub coalesced: u64,
    /// Pages that one list of all NodeClaims takes, added up over the ticks: what each list costs.
    pub claim_pages: u64,
    /// The operator's requests to the Kubernetes API, by `<VERB> <resource>`.
    pub kubernetes: BTreeMap<String, u64>,
    /// Its requests to the gateway, all of them: no client runs.
    pub gateway: u64,
    /// Its statements to the store; the bench's own looks are not in it.
    pub store: u64,
}

impl Tally {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Added {
        let kubernetes: BTreeMap<String, u64> = self
            .kubernetes
            .iter()
            .map(|(what, count)| {
                let before = earlier.kubernetes.get(what).copied().unwrap_or(0);
                (what.clone(), count.saturating_sub(before))
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        Added {
            ticks: self.ticks.saturating_sub(earlier.ticks),
            coalesced_ticks: self.coalesced.saturating_sub(earlier.coalesced),
            claim_pages: self.claim_pages.saturating_sub(earlier.claim_pages),
            kubernetes_requests: kubernetes.values().sum(),
            nodeclaim_requests: kubernetes
                .iter()
                .filter(|(what, _)| what.ends_with(" nodeclaims"))
                .map(|(_, count)| count)
                .sum(),
            gateway_requests: self.gateway.saturating_sub(earlier.gateway),
            store_statements: self.store.saturating_sub(earlier.store),
            kubernetes,
        }
    }
}

/// What was added between two moments.
#[derive(Clone, Debug, Serialize)]
pub struct Added {
    /// Rounds of the control loop.
    pub ticks: u64,
    /// Ticks left out by a pool whose last one was still under way.
    pub coalesced_ticks: u64,
    /// Pages that one list of all NodeClaims in each of these ticks takes.
    pub claim_pages: u64,
    /// Requests to the Kubernetes API.
    pub kubernetes_requests: u64,
    /// Those of them that are about NodeClaims.
    pub nodeclaim_requests: u64,
    /// Requests to the gateway.
    pub gateway_requests: u64,
    /// Statements to the store.
    pub store_statements: u64,
    /// `kubernetes_requests` by `<VERB> <resource>`.
    pub kubernetes: BTreeMap<String, u64>,
}

/// The same, for each tick.
#[derive(Clone, Debug, Serialize)]
pub struct PerTick {
    /// See [`Added`].
    pub kubernetes_requests: f64,
    /// See [`Added`].
    pub nodeclaim_requests: f64,
    /// See [`Added`].
    pub gateway_requests: f64,
    /// See [`Added`].
    pub store_statements: f64,
    /// See [`Added`].
    pub kubernetes: BTreeMap<String, f64>,
}

impl Added {
    /// Shared out among the ticks; at least one is assumed.
    pub fn per_tick(&self) -> PerTick {
        let ticks = self.ticks.max(1);
        PerTick {
            kubernetes_requests: ratio(self.kubernetes_requests, ticks),
            nodeclaim_requests: ratio(self.nodeclaim_requests, ticks),
            gateway_requests: ratio(self.gateway_requests, ticks),
            store_statements: ratio(self.store_statements, ticks),
            kubernetes: self
                .kubernetes
                .iter()
                .map(|(what, count)| (what.clone(), ratio(*count, ticks)))
                .collect(),
        }
    }
}

/// `count / of`, to two decimals.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn ratio(count: u64, of: u64) -> f64 {
    (count as f64 / of as f64 * 100.0).round() / 100.0
}
