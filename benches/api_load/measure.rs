//! A moment of everything that is counted, and what lies between two of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trino_pool_operator::sim::kube::Cost;

use crate::args::Mode;
use crate::error::BenchError;
use crate::fleet::{Counted, Fleet};
use crate::operator::Operator;
use crate::process::Usage;
use crate::row::Row;
use crate::store::Store;

/// Between two regular ticks of the operator.
pub const TICK: Duration = Duration::from_secs(5);

/// Everything that is counted, at one moment.
pub struct Moment {
    at: Instant,
    counted: Counted,
    usage: Usage,
    statements: Option<u64>,
    missed: Option<u64>,
}

impl Moment {
    /// Now.
    pub async fn of(fleet: &Fleet, store: &Store, operator: &Operator) -> Result<Self, BenchError> {
        // The page first: to make it costs the operator time that must not fall between two moments.
        let missed = operator.missed_ticks().await;
        Ok(Self {
            at: Instant::now(),
            counted: fleet.counted(),
            usage: operator.usage()?,
            statements: store.statements().await?,
            missed,
        })
    }

    /// Before the operator began.
    pub async fn before(fleet: &Fleet, store: &Store) -> Result<Self, BenchError> {
        Ok(Self {
            counted: fleet.counted(),
            usage: Usage::default(),
            statements: store.statements().await?,
            missed: Some(0),
            at: Instant::now(),
        })
    }

    /// What came to pass until `later`.
    pub fn until(&self, later: &Self, fleet: &Fleet, mode: Mode, phase: &str) -> Row {
        let seconds = later.at.saturating_duration_since(self.at).as_secs_f64();
        let ticks = (seconds / TICK.as_secs_f64()).max(1.0);
        let kinds = added(&self.counted.kubernetes, &later.counted.kubernetes);
        let total = total(&kinds);
        let each = |count: u64| figure(count) / ticks;
        let cpu = later.usage.cpu.saturating_sub(self.usage.cpu);
        let statements = self.statements.zip(later.statements);
        Row {
            pools: fleet.size().pools,
            nodeclaims: fleet.size().claims,
            mode: mode.as_str().to_owned(),
            phase: phase.to_owned(),
            requests_per_tick: each(total.requests),
            bytes_per_tick: each(total.bytes_in + total.bytes_out),
            seats_per_tick: each(total.seats),
            cpu_ms_per_tick: Some(cpu.as_secs_f64() * 1_000.0 / ticks),
            rss_bytes: Some(later.usage.rss),
            store_statements_per_tick: statements.map(|(from, to)| each(to.saturating_sub(from))),
            seconds,
            peak_rss_bytes: Some(later.usage.peak),
            gateway_requests_per_tick: each(later.counted.gateway - self.counted.gateway),
            coordinator_requests_per_tick: each(later.counted.coordinators - self.counted.coordinators),
            missed_ticks: self
                .missed
                .zip(later.missed)
                .map(|(from, to)| to.saturating_sub(from)),
            by_kind: kinds,
            ..Row::default()
        }
    }
}

/// What was added, by kind, without what was not.
pub fn added(from: &BTreeMap<String, Cost>, to: &BTreeMap<String, Cost>) -> BTreeMap<String, Cost> {
    to.iter()
        .map(|(what, cost)| {
            let before = from.get(what).copied().unwrap_or_default();
            (what.clone(), cost.since(before))
        })
        .filter(|(_, cost)| *cost != Cost::default())
        .collect()
}

/// All kinds together; the Lease is no part of what a tick asks.
pub fn total(kinds: &BTreeMap<String, Cost>) -> Cost {
    let asked = kinds.iter().filter(|(what, _)| !what.ends_with(" leases"));
    asked.fold(Cost::default(), |sum, (_, cost)| sum.and(*cost))
}

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub const fn figure(count: u64) -> f64 {
    count as f64
}
