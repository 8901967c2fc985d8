//! How many must be left when one is taken away on purpose (S5, S6): one rule for the plan, and for a planned drain
//! that is sent again. Pure.

use super::phase::Phase;
use crate::gateway::model::MemberPhase;

/// Whether an instance serves by its row, and the gateway does not say that it does not hold it: what it does not
/// hold takes no work, whatever the row says.
#[must_use]
pub const fn serves(phase: Phase, unregistered: bool) -> bool {
    matches!(phase, Phase::Serving) && !unregistered
}

/// Whether an instance takes new work, as far as its row and the gateway say. The gateway's word outranks the row's:
/// a member that it drained or suspects on somebody else's word takes none, nor does one that it does not hold. A
/// member phase that was not read is no evidence against it.
#[must_use]
pub const fn takes_work(phase: Phase, at_the_gateway: Option<MemberPhase>, unregistered: bool) -> bool {
    serves(phase, unregistered) && matches!(at_the_gateway, None | Some(MemberPhase::Active))
}

/// Whether enough answering members are left without the one that is to be drained. `target`: what is desired, and
/// at least `floor`. A drain for a node (`for_node`) needs a replacement that serves already; without evidence too,
/// nothing is taken away while the pool is short.
#[must_use]
pub const fn leaves_enough(left: u32, target: u32, floor: u32, for_node: bool) -> bool {
    left.saturating_add(1) >= needed(target, floor, for_node) && left >= floor
}

/// How many would be left without one more: what the rows count, and never more than the gateway holds ACTIVE, when
/// it said so. The one that goes is none of these, nor are the `leaving`, which a step that is not settled may
/// already have taken away.
#[must_use]
pub fn left_without_one(counted: u32, gateway_active: Option<u32>, leaving: u32) -> u32 {
    gateway_active.map_or(counted, |active| {
        counted.min(active.saturating_sub(leaving.saturating_add(1)))
    })
}

/// How many must serve and answer, the one to be drained included.
#[must_use]
pub const fn needed(target: u32, floor: u32, for_node: bool) -> u32 {
    let beyond_floor = floor.saturating_add(1);
    if for_node {
        target.saturating_add(1)
    } else if target > beyond_floor {
        target
    } else {
        beyond_floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateways_word_outranks_the_rows() {
        assert!(takes_work(Phase::Serving, Some(MemberPhase::Active), false));
        assert!(takes_work(Phase::Serving, None, false), "not read");
        assert!(!takes_work(Phase::Serving, Some(MemberPhase::Draining), false));
        assert!(!takes_work(Phase::Serving, Some(MemberPhase::Active), true));
        assert!(!takes_work(Phase::Admitted, Some(MemberPhase::Active), false));
    }

    #[test]
    fn s5_a_drain_for_a_node_needs_all_that_is_desired_beside_it() {
        assert!(leaves_enough(3, 3, 2, true));
        assert!(!leaves_enough(2, 3, 2, true));
    }

    #[test]
    fn s6_no_drain_goes_below_the_floor() {
        for for_node in [true, false] {
            for left in 0..4 {
                assert!(!leaves_enough(left, 4, 4, for_node), "{left}");
            }
            assert!(leaves_enough(4, 4, 4, for_node));
        }
    }

    #[test]
    fn a_rollout_may_use_the_room_between_desired_and_the_floor() {
        assert!(leaves_enough(2, 3, 2, false));
        assert!(!leaves_enough(1, 3, 2, false));
        // Short of what is desired already: nothing planned goes on.
        assert!(!leaves_enough(1, 3, 1, false));
    }

    #[test]
    fn s5_s6_never_more_are_left_than_the_gateway_holds_active() {
        assert_eq!(left_without_one(3, None, 1), 3, "it did not say");
        assert_eq!(left_without_one(3, Some(4), 0), 3);
        assert_eq!(left_without_one(3, Some(3), 0), 2);
        assert_eq!(
            left_without_one(3, Some(4), 1),
            2,
            "one of the four may be gone already"
        );
        assert_eq!(left_without_one(3, Some(0), 2), 0);
    }

    #[test]
    fn a_pool_that_is_emptied_keeps_nobody() {
        assert!(leaves_enough(0, 0, 0, false));
    }
}
