//! Who gets the places of the cluster's replacement budget.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::places::{Standing, default_places, permitted};
use super::super::urgency::Urgency;
use super::ago;
use crate::pool::evidence::Disruption::{self, Deleting, Drifted};
use crate::pool::ids::PoolId;
use crate::pool::plan::Cause;

fn waits(reason: Disruption, seen_ago: u64) -> Standing {
    Standing::Waits(Urgency::new(Cause::Node(reason), None, false, ago(seen_ago)))
}

fn given(places: usize, pools: &[(&str, Standing)]) -> Vec<String> {
    let pools: Vec<(PoolId, Standing)> = pools.iter().map(|(id, s)| (PoolId::new(*id), *s)).collect();
    let permitted = permitted(places, pools.iter().map(|(id, standing)| (id, *standing)));
    permitted.iter().map(ToString::to_string).collect()
}

#[test]
fn the_most_urgent_that_waits_goes_first_then_by_id() {
    let pools = [
        ("a-rests", Standing::Rests),
        ("b-drifted", waits(Drifted, 900)),
        ("c-drifted-too", waits(Drifted, 900)),
        ("d-deleting", waits(Deleting, 1)),
    ];
    assert_eq!(given(1, &pools), ["d-deleting"]);
    assert_eq!(given(2, &pools), ["b-drifted", "d-deleting"]);
    assert_eq!(given(3, &pools), ["b-drifted", "c-drifted-too", "d-deleting"]);
    assert_eq!(given(4, &pools).len(), 4, "what is left is lent to who rests");
}

#[test]
fn a_place_is_never_taken_away() {
    let pools = [
        ("a-deleting", waits(Deleting, 900)),
        ("b-replaces", Standing::Holds),
        ("c-replaces", Standing::Holds),
    ];
    assert_eq!(given(2, &pools), ["b-replaces", "c-replaces"]);
    assert_eq!(
        given(1, &pools),
        ["b-replaces", "c-replaces"],
        "also of one too many"
    );
}

#[test]
fn there_are_at_least_four_places_and_else_a_quarter() {
    let places: Vec<usize> = [0, 1, 19, 20, 1000].into_iter().map(default_places).collect();
    assert_eq!(places, [4, 4, 4, 5, 250]);
}

fn standing() -> impl Strategy<Value = Standing> {
    prop_oneof![
        Just(Standing::Holds),
        Just(Standing::Rests),
        (any::<bool>(), 0_u64..5)
            .prop_map(|(deleting, seen)| waits(if deleting { Deleting } else { Drifted }, seen)),
    ]
}

proptest! {
    #[test]
    fn places_are_kept_bounded_and_given_by_urgency(
        places in 0_usize..8,
        pools in prop::collection::btree_map(0_u8..20, standing(), 0..20),
    ) {
        let pools: BTreeMap<PoolId, Standing> =
            pools.into_iter().map(|(id, standing)| (PoolId::new(format!("p{id:02}")), standing)).collect();
        let given: BTreeSet<PoolId> = permitted(places, pools.iter().map(|(id, standing)| (id, *standing)));
        let holds = pools.values().filter(|standing| **standing == Standing::Holds).count();
        // Nobody loses a place, none is made, and none stays empty.
        prop_assert_eq!(given.len(), holds.max(places.min(pools.len())));
        for (id, standing) in &pools {
            if *standing == Standing::Holds {
                prop_assert!(given.contains(id));
            }
        }
        // Who got one stands before everybody who got none.
        let last = given.iter().map(|id| (pools[id], id)).max();
        let first = pools.iter().filter(|(id, _)| !given.contains(*id)).map(|(id, standing)| (*standing, id)).min();
        if let (Some(last), Some(first)) = (last, first) {
            prop_assert!(last < first, "{:?} before {:?}", last, first);
        }
    }
}
