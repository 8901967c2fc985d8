//! What is more urgent than what.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::super::urgency::Urgency;
use super::{ago, noon};
use crate::pool::evidence::Disruption::{self, Deleting, Drifted};
use crate::pool::plan::Cause;

fn within(minutes: u64) -> Timestamp {
    noon().saturating_add(Duration::from_mins(minutes)).unwrap()
}

fn node(reason: Disruption, deadline: Option<Timestamp>, at_risk: bool, seen_ago: u64) -> Urgency {
    Urgency::new(Cause::Node(reason), deadline, at_risk, ago(seen_ago))
}

#[test]
fn from_a_forced_end_to_a_wish() {
    let wish = |cause, made_ago| Urgency::new(cause, None, false, ago(made_ago));
    let most_urgent_first = [
        ("ends in 5 minutes", node(Deleting, Some(within(5)), false, 1)),
        (
            "ends in 6 minutes, seen earlier",
            node(Deleting, Some(within(6)), false, 900),
        ),
        ("deleted, where grace is finite", node(Deleting, None, true, 2)),
        ("deleted", node(Deleting, None, false, 30)),
        ("deleted later", node(Deleting, None, false, 10)),
        ("drifted, where grace is finite", node(Drifted, None, true, 3)),
        ("drifted long ago", node(Drifted, None, false, 90_000)),
        ("drifted now", node(Drifted, None, false, 0)),
        ("old release, old", wish(Cause::Release, 800_000)),
        ("edited", wish(Cause::Edited, 700_000)),
        ("old configuration, younger", wish(Cause::Configuration, 600_000)),
    ];
    for two in most_urgent_first.windows(2) {
        assert!(two[0].1 < two[1].1, "{} before {}", two[0].0, two[1].0);
    }
}

fn any_urgency() -> impl Strategy<Value = (Cause, Option<u64>, bool, u64)> {
    let cause = prop_oneof![
        Just(Cause::Node(Deleting)),
        Just(Cause::Node(Drifted)),
        Just(Cause::Release),
        Just(Cause::Configuration),
        Just(Cause::Edited),
    ];
    (
        cause,
        prop::option::of(0_u64..60),
        any::<bool>(),
        0_u64..1_000_000,
    )
}

/// 0 to 3: a known forced end, a deletion, a drift, anything else.
fn class(cause: Cause, deadline: Option<u64>) -> u8 {
    match (cause, deadline) {
        (Cause::Node(_), Some(_)) => 0,
        (Cause::Node(Deleting), None) => 1,
        (Cause::Node(Drifted), None) => 2,
        (Cause::Release | Cause::Configuration | Cause::Edited, _) => 3,
    }
}

proptest! {
    /// Only within a class do risk and age decide anything, and only between equal deadlines.
    #[test]
    fn a_class_is_never_outranked_from_below(one in any_urgency(), other in any_urgency()) {
        let urgency = |(cause, deadline, at_risk, seen): (Cause, Option<u64>, bool, u64)| {
            Urgency::new(cause, deadline.map(within), at_risk, ago(seen))
        };
        let (left, right) = (class(one.0, one.1), class(other.0, other.1));
        let (a, b) = (urgency(one), urgency(other));
        if left != right {
            prop_assert_eq!(a < b, left < right);
        } else if left == 0 && one.1 != other.1 {
            prop_assert_eq!(a < b, one.1 < other.1);
        } else if one.2 == other.2 {
            // The one that was seen longer ago.
            prop_assert_eq!(a.cmp(&b), other.3.cmp(&one.3));
        } else {
            prop_assert_eq!(a < b, one.2);
        }
    }
}
