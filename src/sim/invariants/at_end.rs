//! What must have happened by the end of a story that left the operator time and capacity.

use super::look::{PoolLook, StoreLook, WorldLook};
use super::{Violation, broken};
use crate::gateway::model::MemberPhase;
use crate::pool::ids::PoolId;
use crate::pool::phase::Phase;

/// What a story expects of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// L1: every instance with evidence is retired, and replacements serve.
    pub replaced: bool,
    /// L6 and S9: every row serves or is terminal, and no step is open.
    pub settled: bool,
    /// L5: at most so many candidates failed, in each pool.
    pub failed_candidates: usize,
}

impl Default for Ending {
    fn default() -> Self {
        Self {
            replaced: true,
            settled: true,
            failed_candidates: 3,
        }
    }
}

/// Everything that should have happened and has not.
#[must_use]
pub fn unfinished(world: &WorldLook, store: &StoreLook, ending: &Ending) -> Vec<Violation> {
    let mut found = Vec::new();
    for (id, pool) in &store.pools {
        if ending.replaced {
            replaced(id, pool, world, &mut found);
        }
        if ending.settled {
            settled(id, pool, &mut found);
        }
        let failed = pool
            .rows
            .values()
            .filter(|row| matches!(row.phase, Phase::FailureRetired | Phase::FailedPreparing))
            .count();
        if failed > ending.failed_candidates {
            found.push(broken("L5", format!("{failed} candidates of {id} failed")));
        }
    }
    found
}

fn replaced(id: &PoolId, pool: &PoolLook, world: &WorldLook, found: &mut Vec<Violation>) {
    for (instance, row) in &pool.rows {
        if row.evidence.is_present() && !row.phase.is_terminal() {
            found.push(broken(
                "L1",
                format!(
                    "the node of {instance} was leaving and {instance} is still {}",
                    row.phase
                ),
            ));
        }
    }
    let active = world
        .members
        .iter()
        .filter(|((group, _), member)| *group == pool.group && member.phase == MemberPhase::Active)
        .count();
    let desired = pool.desired.as_ref().map_or(0, |desired| desired.instances);
    if active != usize::try_from(desired).unwrap_or(usize::MAX) {
        found.push(broken(
            "L1",
            format!("{active} members of {id} serve, {desired} are desired"),
        ));
    }
}

fn settled(id: &PoolId, pool: &PoolLook, found: &mut Vec<Violation>) {
    for request in pool.open.values() {
        found.push(broken(
            "S9",
            format!(
                "step {} of {} is open, and nobody has read it back",
                request.step, request.instance
            ),
        ));
    }
    for (instance, row) in &pool.rows {
        if row.phase != Phase::Serving && !row.phase.is_terminal() {
            found.push(broken(
                "L6",
                format!(
                    "{instance} of {id} is {} since {}",
                    row.phase, row.phase_changed_at
                ),
            ));
        }
    }
}
