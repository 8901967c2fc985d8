//! When a member counts as failing: sustained bad readings, never a single one.

use std::time::Duration;

use jiff::Timestamp;

use super::instance::InstanceRow;
use super::observation::Observation;

/// One reading of a member's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The registered process answers, in its registered pod, which is ready.
    Good,
    /// It does not: says what.
    Bad(String),
    /// Not known: neither good nor bad.
    Unknown(String),
}

/// Reads the health of a registered member.
#[must_use]
pub fn read(row: &InstanceRow, observation: &Observation) -> Health {
    let _ = (row, observation);
    Health::Unknown("not implemented".into())
}

/// How long one member has been failing without interruption. In memory, per instance and term.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HealthTracker {
    failing: Option<Duration>,
}

impl HealthTracker {
    /// Takes one reading; answers like [`HealthTracker::failing_for`].
    pub fn push(&mut self, reading: &Health, now: Timestamp) -> Option<Duration> {
        let _ = (reading, now);
        self.failing
    }

    /// Time covered by consecutive bad readings; `None` when the last known reading was good.
    #[must_use]
    pub const fn failing_for(&self) -> Option<Duration> {
        self.failing
    }
}

/// How many members fail among those probed in the same window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Failing {
    /// Members whose tracker says failing.
    pub failing: usize,
    /// Members probed.
    pub probed: usize,
}

/// Whether suspicion may be told to the gateway (S6).
#[must_use]
pub const fn probes_trusted(pool: Failing, cluster: Failing) -> bool {
    let _ = (pool, cluster);
    false
}
