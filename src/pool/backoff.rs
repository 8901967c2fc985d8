//! How long new candidates are held back after candidates failed (progress rule L5).
//!
//! Failures of one cause double the pause, up to a cap; the memory is durable and forgotten when a
//! candidate gets through. Causes count separately: three bad nodes do not lengthen the pause after one
//! restart.

use std::time::Duration;

use jiff::Timestamp;

use super::instance::FailureCause;
use crate::store::port::FailureMemory;

/// Why new candidates are held back, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The class of failure.
    pub cause: FailureCause,
    /// How often in a row.
    pub count: u32,
    /// What the last one said.
    pub detail: String,
    /// When the next candidate may be made.
    pub until: Timestamp,
}

/// The pause after `count` failures in a row: `first`, doubled for each further one, at most `longest`.
#[must_use]
pub fn pause(count: u32, first: Duration, longest: Duration) -> Duration {
    let doublings = count.saturating_sub(1).min(31);
    first.saturating_mul(1_u32 << doublings).min(longest)
}

/// The hold on planned and ordinary candidates that ends last, if any is still in force at `now`.
#[must_use]
pub fn planned_hold(
    failures: &[FailureMemory],
    first: Duration,
    longest: Duration,
    now: Timestamp,
) -> Option<Hold> {
    latest(failures, now, |memory| Some(pause(memory.count, first, longest)))
}

/// The hold on repairs: a repair is urgent, so it is held only once a cause has struck three times in a
/// row, and then by the first pause alone. That bounds how fast repairs can churn without ever keeping a
/// pool short for long.
#[must_use]
pub fn repair_hold(failures: &[FailureMemory], first: Duration, now: Timestamp) -> Option<Hold> {
    const PATIENCE: u32 = 3;
    latest(failures, now, |memory| {
        (memory.count >= PATIENCE).then_some(first)
    })
}

fn latest(
    failures: &[FailureMemory],
    now: Timestamp,
    pause_of: impl Fn(&FailureMemory) -> Option<Duration>,
) -> Option<Hold> {
    failures
        .iter()
        .filter(|memory| memory.count > 0 && is_fault(memory.cause))
        .filter_map(|memory| {
            let pause = pause_of(memory)?;
            Some(Hold {
                cause: memory.cause,
                count: memory.count,
                detail: memory.detail.clone(),
                until: memory.last_at.saturating_add(pause).unwrap_or(Timestamp::MAX),
            })
        })
        .filter(|hold| hold.until > now)
        .max_by(|left, right| (left.until, left.cause).cmp(&(right.until, right.cause)))
}

/// A superseded candidate did not fail: the desired state moved on, and the next one is wanted at once.
const fn is_fault(cause: FailureCause) -> bool {
    match cause {
        FailureCause::Superseded => false,
        FailureCause::NodeLeaving
        | FailureCause::NodeCordoned
        | FailureCause::NodeUnowned
        | FailureCause::NodeFiniteGrace
        | FailureCause::ProcessRestarted
        | FailureCause::DeadlineExceeded
        | FailureCause::ForeignObject
        | FailureCause::BlueprintUnreadable
        | FailureCause::GatewayRefused => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: Duration = Duration::from_secs(30);
    const LONGEST: Duration = Duration::from_mins(30);

    fn failed(cause: FailureCause, count: u32, at: i64) -> FailureMemory {
        FailureMemory {
            cause,
            count,
            last_at: Timestamp::from_second(at).unwrap(),
            detail: format!("{} at {at}", cause.as_str()),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_pause_doubles_and_stops_at_its_cap() {
        let seconds: Vec<u64> = [1, 2, 3, 6, 7, 8, 4_000_000_000]
            .into_iter()
            .map(|count| pause(count, FIRST, LONGEST).as_secs())
            .collect();
        assert_eq!(seconds, [30, 60, 120, 960, 1800, 1800, 1800]);
    }

    #[test]
    fn w07_create_fail_recreate_is_held_back_and_says_why() {
        let failures = [
            failed(FailureCause::NodeUnowned, 4, 1000),
            failed(FailureCause::ProcessRestarted, 1, 1010),
        ];
        let hold = planned_hold(&failures, FIRST, LONGEST, at(1011)).unwrap();
        assert_eq!(
            (hold.cause, hold.count, hold.until),
            (FailureCause::NodeUnowned, 4, at(1240))
        );
        assert_eq!(hold.detail, "NodeUnowned at 1000");
        assert_eq!(planned_hold(&failures, FIRST, LONGEST, at(1240)), None);
    }

    #[test]
    fn a_superseded_candidate_holds_nothing_back() {
        let failures = [failed(FailureCause::Superseded, 9, 1000)];
        assert_eq!(planned_hold(&failures, FIRST, LONGEST, at(1000)), None);
    }

    #[test]
    fn a_repair_is_held_only_after_three_failures_and_only_briefly() {
        let two = [failed(FailureCause::NodeLeaving, 2, 1000)];
        assert_eq!(repair_hold(&two, FIRST, at(1000)), None);
        let many = [failed(FailureCause::NodeLeaving, 20, 1000)];
        assert_eq!(repair_hold(&many, FIRST, at(1000)).unwrap().until, at(1030));
    }

    proptest! {
        #[test]
        fn a_hold_never_outlasts_the_cap(count in any::<u32>(), last in 0_i64..2_000_000_000, ago in 0_i64..10_000) {
            let failures = [failed(FailureCause::DeadlineExceeded, count, last)];
            if let Some(hold) = planned_hold(&failures, FIRST, LONGEST, at(last + ago)) {
                prop_assert!(hold.until <= at(last).saturating_add(LONGEST).unwrap());
                prop_assert!(hold.until > at(last + ago));
            }
        }
    }
}
