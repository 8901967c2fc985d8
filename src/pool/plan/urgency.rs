//! How urgent a replacement is: one order, within a pool and among the pools of a cluster.
//!
//! A known forced end comes first, and the earliest of them; then a node that is being deleted, then a
//! drifted one, then what is only outdated. Among equals an instance whose protection is not absolute, then
//! the one that was seen first. Who is still equal is ordered by whoever asks: instances by age, pools by id.

use jiff::Timestamp;

use super::reason::Cause;
use crate::pool::evidence::Disruption;

/// How urgent a replacement is; the smallest goes first.
// The order of the fields, and that of the variants below, is the order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency {
    pressure: Pressure,
    protection: Protection,
    since: Timestamp,
}

/// What comes if nothing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pressure {
    /// Karpenter ends the pods by force, then.
    ForcedEnd(Timestamp),
    /// The node goes as soon as it is free; nobody knows of an end by force.
    Deleting,
    /// The node is to go once it is free.
    Drifted,
    /// Nothing: the instance is of another release or configuration, or was edited.
    Outdated,
}

/// What the annotation on the pods is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Protection {
    /// A node of finite grace: the drift of its claim may end in a deletion that waits for no pod.
    Finite,
    /// It holds until the pods are gone.
    Absolute,
}

impl Urgency {
    /// The urgency of one replacement: why, when its pods are ended by force if that is known, whether one of
    /// its nodes has a finite grace, and when the evidence was seen (or, without any, the instance made).
    #[must_use]
    pub const fn new(cause: Cause, deadline: Option<Timestamp>, at_risk: bool, since: Timestamp) -> Self {
        let pressure = match (cause, deadline) {
            (Cause::Node(_), Some(at)) => Pressure::ForcedEnd(at),
            (Cause::Node(Disruption::Deleting), None) => Pressure::Deleting,
            (Cause::Node(Disruption::Drifted), None) => Pressure::Drifted,
            (Cause::Release | Cause::Configuration | Cause::Edited, _) => Pressure::Outdated,
        };
        let protection = if at_risk {
            Protection::Finite
        } else {
            Protection::Absolute
        };
        Self {
            pressure,
            protection,
            since,
        }
    }
}
