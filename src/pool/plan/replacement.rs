//! Instances under evidence, and outdated ones, are replaced: surge first, drain when it is safe.
//!
//! Order: by urgency (`urgency`), then the oldest instance. An instance under evidence is drained only while
//! more than desired serve without it being missed (S5), on the surge budget, never on the repair budget. An
//! ordinary drain keeps the floor (S6). An instance that must wait never blocks one behind it that need not,
//! except that an ordinary drain does not eat the replacement that is on its way for an instance under evidence.

use super::capacity::awaits;
use super::census::{Census, by_age, count, is_serving, since};
use super::reason::{Cause, PlanReason};
use super::urgency::Urgency;
use super::{Action, EvidenceView, InstanceView, PlanInput, ReplacementBudget, Verdict};
use crate::pool::floor;
use crate::pool::outdated::Outdated;

/// One instance to be replaced.
struct Item<'a> {
    view: &'a InstanceView,
    cause: Cause,
    urgency: Urgency,
}

impl Item<'_> {
    const fn under_evidence(&self) -> bool {
        match self.cause {
            Cause::Node(_) => true,
            Cause::Release | Cause::Configuration | Cause::Edited => false,
        }
    }

    /// How many must be healthy and serving before it may be drained. Without evidence too, nothing
    /// planned is taken away while the pool is short of what is desired.
    fn needed(&self, input: &PlanInput) -> u32 {
        floor::needed(input.target(), input.min_serving, self.under_evidence())
    }
}

pub(super) fn verdict(input: &PlanInput, census: &Census<'_>) -> Verdict {
    let queue = queue(census);
    let blocked = unreadable(census);
    if queue.is_empty() {
        return if blocked.is_empty() {
            Verdict::Idle
        } else {
            Verdict::Waits(vec![PlanReason::RolloutBlocked { instances: blocked }])
        };
    }
    let drain_hold = census.drain_hold(input);
    let rest = rest(&queue, input);
    // Whose replacement is on its way: an ordinary drain would use it up.
    let expecting = queue
        .iter()
        .find(|item| item.under_evidence())
        .filter(|_| census.planned_candidate.is_some() || !census.admitted.is_empty());
    let mut waits = Vec::new();
    let mut surge_asked = false;
    for item in &queue {
        let instance = &item.view.id;
        if let Some(rest) = rest.as_ref().filter(|_| item.cause == Cause::Edited) {
            if !waits.contains(rest) {
                waits.push(rest.clone());
            }
            continue;
        }
        // The doubtful one itself may be drained: what counts is who is left.
        let left = census.answering_without(item.view);
        if floor::leaves_enough(left, input.target(), input.min_serving, item.under_evidence()) {
            if let Some(hold) = &drain_hold {
                if !waits.contains(hold) {
                    waits.push(hold.clone());
                }
                continue;
            }
            if let Some(evidence) = expecting.filter(|_| !item.under_evidence()) {
                waits.push(PlanReason::YieldsToEvidence {
                    instance: instance.clone(),
                    evidence: evidence.view.id.clone(),
                });
                continue;
            }
            return Verdict::Acts(
                Action::Drain(instance.clone()),
                PlanReason::Drains {
                    instance: instance.clone(),
                    cause: item.cause,
                    serving: census.answering(),
                },
                waits,
            );
        }
        if surge_asked {
            continue;
        }
        surge_asked = true;
        match surge(input, census, item) {
            None => {
                return Verdict::Acts(
                    Action::Create { repair_for: None },
                    PlanReason::Surges {
                        instance: instance.clone(),
                        cause: item.cause,
                    },
                    waits,
                );
            }
            Some(hold) => waits.push(hold),
        }
    }
    if !blocked.is_empty() {
        waits.push(PlanReason::RolloutBlocked { instances: blocked });
    }
    Verdict::Waits(waits)
}

/// Why edited ones are left alone for now: one of them serves for a short time only, so that what edits each
/// Deployment may edit its replacement too. Then the pool makes one such replacement in each pause, however large it
/// is (L5). What a person edited once is older than that soon, and no replacement is edited again.
fn rest(queue: &[Item<'_>], input: &PlanInput) -> Option<PlanReason> {
    let rest = input.timings.candidate_backoff_max;
    let edited = queue.iter().filter(|item| item.cause == Cause::Edited);
    let youngest = edited.max_by_key(|item| item.view.phase_changed_at)?;
    let served = since(youngest.view.phase_changed_at, input.now);
    (served < rest).then(|| PlanReason::RestsAfterEdit {
        instance: youngest.view.id.clone(),
        served,
        rest,
    })
}

/// Why no replacement of this one is started now; `None`: it may be.
fn surge(input: &PlanInput, census: &Census<'_>, item: &Item<'_>) -> Option<PlanReason> {
    let instance = &item.view.id;
    if let Some(candidate) = census.planned_candidate {
        return Some(super::census::in_progress(candidate, input.now));
    }
    let needed = item.needed(input);
    let awaits_capacity = || PlanReason::AwaitsCapacity {
        instance: instance.clone(),
        cause: item.cause,
        serving: census.answering(),
        needed,
        not_counted: census.not_counted(),
    };
    if census.healthy.saturating_add(census.on_the_way()) >= needed {
        // Enough serve or are about to: another one would be one too many.
        return Some(match (census.admitted.first(), census.repair_candidate) {
            (Some(admitted), _) => awaits(admitted, input),
            (None, Some(candidate)) => super::census::in_progress(candidate, input.now),
            (None, None) => awaits_capacity(),
        });
    }
    if input.max_surge == 0 {
        return Some(PlanReason::SurgeZero {
            instance: instance.clone(),
            cause: item.cause,
        });
    }
    if let Some(hold) = census.planned_create_hold(input) {
        return Some(hold);
    }
    if let Some(full) = census.surge_hold(input, Some(instance)) {
        // With the doubtful ones enough would serve: saying that tells more than the full budget does.
        return Some(if census.supply() >= needed {
            awaits_capacity()
        } else {
            full
        });
    }
    match input.budget {
        ReplacementBudget::Left(0) => Some(PlanReason::ClusterBudgetSpent {
            instance: instance.clone(),
            urgency: item.urgency,
        }),
        ReplacementBudget::Unlimited | ReplacementBudget::Left(_) => None,
    }
}

/// Everything serving that is to be replaced and can be, most urgent first.
fn queue<'a>(census: &Census<'a>) -> Vec<Item<'a>> {
    let mut queue: Vec<Item<'_>> = census
        .live
        .iter()
        .copied()
        .filter(|view| is_serving(view))
        .filter_map(item)
        .collect();
    queue.sort_by(|left, right| {
        let urgency = left.urgency.cmp(&right.urgency);
        urgency.then_with(|| by_age(left.view, right.view))
    });
    queue
}

/// What is to be replaced about a serving instance. Unreadable records block it: evidence that cannot be
/// read may forbid what a rollout would do, and a blueprint that cannot be read cannot be compared.
fn item(view: &InstanceView) -> Option<Item<'_>> {
    let (cause, since, deadline) = match view.evidence {
        EvidenceView::Some {
            urgency,
            observed_at,
            deadline,
        } => (Cause::Node(urgency), observed_at, deadline),
        EvidenceView::Unreadable => return None,
        EvidenceView::None => match view.outdated {
            Outdated::Release => (Cause::Release, view.created_at, None),
            Outdated::Spec => (Cause::Configuration, view.created_at, None),
            Outdated::Edited => (Cause::Edited, view.created_at, None),
            Outdated::No | Outdated::Unreadable => return None,
        },
    };
    Some(Item {
        view,
        cause,
        urgency: Urgency::new(cause, deadline, view.at_risk, since),
    })
}

fn unreadable(census: &Census<'_>) -> Vec<crate::pool::ids::InstanceId> {
    census
        .live
        .iter()
        .filter(|view| is_serving(view))
        .filter(|view| match view.evidence {
            EvidenceView::Unreadable => true,
            EvidenceView::None => view.outdated == Outdated::Unreadable,
            EvidenceView::Some { .. } => false,
        })
        .map(|view| view.id.clone())
        .collect()
}

/// How many serving instances wait to be replaced. What rests after an edit does not: it may go as a surplus.
pub(super) fn pending(input: &PlanInput, census: &Census<'_>) -> u32 {
    let queue = queue(census);
    let rests = rest(&queue, input).is_some();
    let waits = |item: &&Item<'_>| !(rests && item.cause == Cause::Edited);
    count(queue.iter().filter(waits).count())
}
