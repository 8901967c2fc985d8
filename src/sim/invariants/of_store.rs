//! Rules about durable rows, and about rows and world together.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::look::{PoolLook, RowLook, StoreLook, WorldLook};
use super::{Violation, broken};
use crate::gateway::model::MemberPhase;
use crate::pool::desired::{PoolMode, Timings};
use crate::pool::evidence::RecordedEvidence;
use crate::pool::ids::{InstanceId, PoolId};
use crate::pool::phase::Phase;

/// All rules of this module. `before` and `now` are pairs of looks taken one after the other.
pub(super) fn judge(
    before: (&WorldLook, &StoreLook),
    now: (&WorldLook, &StoreLook),
    found: &mut Vec<Violation>,
) {
    for (id, pool) in &now.1.pools {
        let Some(earlier) = before.1.pools.get(id) else {
            continue;
        };
        if pool.epoch < earlier.epoch {
            found.push(broken(
                "S8",
                format!("the stored epoch of {id} fell to {}", pool.epoch),
            ));
        }
        for (instance, row) in &pool.rows {
            if let Some(earlier) = earlier.rows.get(instance) {
                evidence(instance, earlier, row, found);
                transition(instance, earlier, row, found);
            }
        }
        drains(id, earlier, pool, before.0, now.0, found);
        frozen(id, earlier, pool, found);
    }
    for (id, pool) in &now.1.pools {
        one_planned_candidate(id, pool, now.0.at, found);
    }
    cordons(now.0, now.1, found);
}

/// S3: evidence is written once; further nodes are only appended.
fn evidence(instance: &InstanceId, before: &RowLook, now: &RowLook, found: &mut Vec<Violation>) {
    if before.evidence != RecordedEvidence::None && before.evidence != now.evidence {
        found.push(broken("S3", format!("the evidence of {instance} changed")));
    }
    if now.nodes.get(..before.nodes.len()) != Some(before.nodes.as_slice()) {
        found.push(broken(
            "S3",
            format!("the further nodes of {instance} were rewritten"),
        ));
    }
    if let Some(evidence) = now.evidence.valid()
        && !evidence.is_complete()
    {
        found.push(broken(
            "S3",
            format!("the evidence of {instance} lacks an identity"),
        ));
    }
}

/// A row moves only along permitted transitions; several may happen between two looks.
fn transition(instance: &InstanceId, before: &RowLook, now: &RowLook, found: &mut Vec<Violation>) {
    let mut reachable = vec![before.phase];
    let mut next = 0;
    while let Some(from) = reachable.get(next).copied() {
        next += 1;
        for to in Phase::KNOWN {
            if from.permits(to) && !reachable.contains(&to) {
                reachable.push(to);
            }
        }
    }
    if !reachable.contains(&now.phase) {
        found.push(broken(
            "S10",
            format!("{instance} went from {} to {}", before.phase, now.phase),
        ));
    }
}

/// S5: drains that began between the looks.
fn drains(
    id: &PoolId,
    before: &PoolLook,
    pool: &PoolLook,
    earlier: &WorldLook,
    world: &WorldLook,
    found: &mut Vec<Violation>,
) {
    let begun: Vec<&InstanceId> = pool
        .rows
        .iter()
        .filter(|(instance, row)| {
            let from = before.rows.get(*instance).map(|row| row.phase);
            row.phase == Phase::Draining && matches!(from, Some(Phase::Serving | Phase::Admitted))
        })
        .map(|(instance, _)| instance)
        .collect();
    if begun.is_empty() {
        return;
    }
    let Some(desired) = &pool.desired else {
        found.push(broken(
            "S11",
            format!("{id} has no desired state and drained {}", begun[0]),
        ));
        return;
    };
    if pool.mode == PoolMode::Emptying {
        return;
    }
    let on_evidence = begun
        .iter()
        .filter(|instance| {
            pool.rows
                .get(**instance)
                .is_some_and(|row| row.evidence.is_present())
        })
        .count();
    // Everybody who was routable just before: those who still are, and those who began to drain. A member
    // that failed in between counts by the earlier look.
    let active = |look: &WorldLook| -> BTreeSet<InstanceId> {
        look.members
            .iter()
            .filter(|((group, _), member)| *group == pool.group && member.phase == MemberPhase::Active)
            .map(|((_, instance), _)| instance.clone())
            .collect()
    };
    let mut routable = active(world);
    routable.extend(begun.iter().map(|instance| (*instance).clone()));
    let serving = routable.len().max(active(earlier).len());
    if on_evidence > 0 && serving <= usize::try_from(desired.instances).unwrap_or(usize::MAX) {
        found.push(broken(
            "S5",
            format!(
                "{} was drained for its node with {serving} members serving and {} desired: no replacement served",
                begun[0], desired.instances
            ),
        ));
    }
}

/// S7: planned candidates are prepared one at a time. One that outlived its deadline is not being prepared
/// any more: it waits for an answer, and nobody waits for it (L6).
fn one_planned_candidate(id: &PoolId, pool: &PoolLook, at: Timestamp, found: &mut Vec<Violation>) {
    let timings = pool.desired.as_ref().map(|desired| &desired.timings);
    let planned = pool
        .rows
        .values()
        .filter(|row| row.phase.is_candidate() && !row.repair)
        .filter(|row| timings.is_none_or(|timings| !outlived(row, timings, at)))
        .count();
    if planned > 1 {
        found.push(broken(
            "S7",
            format!("{planned} planned candidates of {id} at once"),
        ));
    }
}

/// Whether a candidate is past the deadline of its phase, or of its whole life. Written here once more on
/// purpose: a judge that asked the rule it judges would not see that rule give a candidate up too early.
fn outlived(row: &RowLook, timings: &Timings, at: Timestamp) -> bool {
    let whole = 2 * timings.creating_deadline + timings.preparing_deadline + timings.validating_deadline;
    let phase = match row.phase {
        Phase::Pending | Phase::Creating => timings.creating_deadline,
        Phase::Preparing => timings.preparing_deadline,
        Phase::Validating => timings.validating_deadline,
        Phase::Admitted
        | Phase::Serving
        | Phase::Draining
        | Phase::Sealed
        | Phase::Retiring
        | Phase::Retired
        | Phase::Suspect
        | Phase::Lost
        | Phase::FailureRetired
        | Phase::FailedPreparing
        | Phase::Unrecognised => return false,
    };
    let past = |since: Timestamp, patience: Duration| {
        SignedDuration::try_from(patience).is_ok_and(|patience| at.duration_since(since) >= patience)
    };
    past(row.phase_changed_at, phase) || past(row.created_at, whole)
}

/// S11: a frozen pool creates nothing and begins no planned drain.
fn frozen(id: &PoolId, before: &PoolLook, pool: &PoolLook, found: &mut Vec<Violation>) {
    let still = |mode: &PoolMode| matches!(mode, PoolMode::Frozen(_) | PoolMode::Retained);
    if !(still(&before.mode) && still(&pool.mode)) {
        return;
    }
    if let Some(created) = pool
        .rows
        .keys()
        .find(|instance| !before.rows.contains_key(*instance))
    {
        found.push(broken("S11", format!("{id} is frozen and created {created}")));
    }
    for (instance, row) in &pool.rows {
        let from = before.rows.get(instance).map(|row| row.phase);
        if row.phase == Phase::Draining && from == Some(Phase::Serving) {
            found.push(broken("S11", format!("{id} is frozen and drained {instance}")));
        }
    }
}

/// S4: a node that carries our mark is held by a row with exactly its UID.
fn cordons(world: &WorldLook, store: &StoreLook, found: &mut Vec<Violation>) {
    let held = store.held_nodes();
    for (uid, node) in &world.nodes {
        if node.mark.is_some() && !held.contains(uid.as_str()) {
            found.push(broken(
                "S4",
                format!("node {} ({uid}) is cordoned by us and no row names it", node.name),
            ));
        }
    }
}
