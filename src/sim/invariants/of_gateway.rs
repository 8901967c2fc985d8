//! Rules over the order of what arrived at the gateway. Nothing in between two looks is missed: every step that
//! arrived is there, with the member's phase before and after.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::look::WorldLook;
use super::{GRAIN, Violation, broken};
use crate::gateway::model::MemberPhase;
use crate::pool::ids::RoutingGroup;
use crate::sim::gateway::Asked;

/// How old a drain has to be for another to begin beside it, by routing group.
pub type Patience = BTreeMap<RoutingGroup, Duration>;

/// All rules of this module, over what arrived between two looks.
pub(super) fn judge(before: &WorldLook, now: &WorldLook, patience: &Patience, found: &mut Vec<Violation>) {
    for nth in before.asked.len()..now.asked.len() {
        let (Some(asked), Some(earlier)) = (now.asked.get(nth), now.asked.get(..nth)) else {
            continue;
        };
        same_intent(asked, earlier, found);
        one_drain(asked, earlier, patience, found);
    }
}

/// S9: a step that was granted is never sent again with another body.
fn same_intent(asked: &Asked, earlier: &[Asked], found: &mut Vec<Violation>) {
    let granted = earlier.iter().find(|other| {
        other.accepted
            && (&other.pool, &other.operation, &other.step) == (&asked.pool, &asked.operation, &asked.step)
    });
    if granted.is_some_and(|granted| granted.body != asked.body) {
        found.push(broken(
            "S9",
            format!(
                "step {} of {} was granted and sent again with another body",
                asked.step, asked.instance
            ),
        ));
    }
}

/// S7: a planned drain begins only while none is in flight but stuck ones. The drain of a suspect is not planned.
fn one_drain(asked: &Asked, earlier: &[Asked], patience: &Patience, found: &mut Vec<Violation>) {
    let group = RoutingGroup::new(&asked.pool);
    let Some(patience) = patience.get(&group).filter(|_| begins_a_drain(asked)) else {
        return;
    };
    let patience = SignedDuration::try_from(*patience).unwrap_or(SignedDuration::MAX);
    let mut in_flight: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for step in earlier.iter().filter(|step| step.pool == asked.pool) {
        if begins_a_drain(step) {
            in_flight.insert(&step.instance, step.at);
        } else if !is_departing(step.after) {
            in_flight.remove(step.instance.as_str());
        }
    }
    for (other, began) in in_flight {
        if asked.at.duration_since(began).saturating_add(GRAIN) < patience {
            found.push(broken(
                "S7",
                format!(
                    "{} began to drain while the drain of {other} was in flight",
                    asked.instance
                ),
            ));
        }
    }
}

fn begins_a_drain(step: &Asked) -> bool {
    step.verb == "drain" && step.accepted && !step.replayed && step.before == Some(MemberPhase::Active)
}

/// Still on its way out by the drain that began. One that was given up as lost meanwhile is not.
const fn is_departing(phase: Option<MemberPhase>) -> bool {
    match phase {
        Some(MemberPhase::Draining | MemberPhase::Sealed | MemberPhase::Retiring) => true,
        Some(
            MemberPhase::Preparing
            | MemberPhase::Active
            | MemberPhase::Retired
            | MemberPhase::Suspect
            | MemberPhase::Lost
            | MemberPhase::Unrecognised,
        )
        | None => false,
    }
}
