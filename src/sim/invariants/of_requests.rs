//! Rules about what was asked of the gateway and made in the cluster on behalf of rows.
//!
//! Owns what needs both logs of requests and the rows. The store tells open steps only: one that was closed is
//! known by its absence, and what a row may still send by its phase.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::look::{PoolLook, StoreLook, WorldLook};
use super::of_world::instance_of;
use super::{GRAIN, Violation, broken};
use crate::gateway::model::{MemberAction, MemberPhase};
use crate::pool::desired::Timings;
use crate::pool::ids::{InstanceId, PoolId};
use crate::pool::phase::Phase;
use crate::sim::gateway::Asked;
use crate::sim::kube::{Made, Resource};
use crate::sim::world::ADMIN;

/// What happened between two looks at the world.
struct Between<'a> {
    world: &'a WorldLook,
    asked: &'a [Asked],
    made: Vec<&'a Made>,
}

/// All rules of this module. `before` and `now` are pairs of looks taken one after the other.
pub(super) fn judge(
    before: (&WorldLook, &StoreLook),
    now: (&WorldLook, &StoreLook),
    found: &mut Vec<Violation>,
) {
    let world = now.0;
    let made = world.made.get(before.0.made.len()..).unwrap_or_default();
    let between = Between {
        world,
        asked: world.asked.get(before.0.asked.len()..).unwrap_or_default(),
        made: made.iter().filter(|made| made.actor != ADMIN).collect(),
    };
    for (id, pool) in &now.1.pools {
        if let Some(earlier) = before.1.pools.get(id) {
            deleted_in_doubt(earlier, pool, before.0, world, found);
            registered_too_late(earlier, &between, found);
        }
        prepared_beside(id, pool, &between, found);
    }
    made_without_a_row(&between, now.1, found);
}

fn registers(pool: &PoolLook, instance: &str) -> bool {
    pool.open.values().any(|request| {
        request.instance.as_str() == instance && matches!(request.action, MemberAction::Register(_))
    })
}

/// S9: while nobody knows whether a candidate is registered, its objects stay.
fn deleted_in_doubt(
    before: &PoolLook,
    now: &PoolLook,
    earlier: &WorldLook,
    world: &WorldLook,
    found: &mut Vec<Violation>,
) {
    for act in world.destroyed.get(earlier.destroyed.len()..).unwrap_or_default() {
        let workload = matches!(
            act.resource,
            Resource::Deployments | Resource::Services | Resource::ConfigMaps
        );
        let Some(instance) = instance_of(&act.name).filter(|_| workload) else {
            continue;
        };
        if registers(before, instance) && registers(now, instance) {
            found.push(broken(
                "S9",
                format!("objects of {instance} were deleted while its registration is open"),
            ));
        }
    }
}

/// S9: a registration that was closed without a member is over. A row that was given up with nothing open never
/// asks for one again; so one that is granted then had been closed while it could still land.
fn registered_too_late(before: &PoolLook, between: &Between<'_>, found: &mut Vec<Violation>) {
    for asked in between.asked {
        if asked.verb != "register" || !asked.accepted || asked.replayed {
            continue;
        }
        let row = before.rows.get(&InstanceId::new(&asked.instance));
        let given_up = row.is_some_and(|row| {
            row.phase_changed_at < asked.at
                && (row.phase == Phase::FailedPreparing || row.phase.is_terminal())
        });
        if given_up && !registers(before, &asked.instance) {
            found.push(broken(
                "S9",
                format!(
                    "{} was registered after its registration had been closed without a member",
                    asked.instance
                ),
            ));
        }
    }
}

/// S7: no planned candidate is begun while another one that the gateway knows waits for its admission.
///
/// Only candidates of which the gateway's own steps say that they are being prepared, and which are younger
/// than every deadline: of others it is not certain that they still are.
fn prepared_beside(id: &PoolId, pool: &PoolLook, between: &Between<'_>, found: &mut Vec<Violation>) {
    let Some(desired) = &pool.desired else {
        return;
    };
    let patience = shortest(&desired.timings);
    let planned = |instance: &str| {
        let row = pool.rows.get(&InstanceId::new(instance));
        row.filter(|row| !row.repair)
    };
    for made in &between.made {
        let Some((instance, row)) = instance_of(&made.name).and_then(|name| Some((name, planned(name)?)))
        else {
            continue;
        };
        // What arrived in the same instant may have arrived before.
        let mut preparing: BTreeMap<&str, bool> = BTreeMap::new();
        for step in between.world.asked.iter() {
            if step.at <= row.created_at && step.pool == pool.group.as_str() {
                preparing.insert(&step.instance, step.after == Some(MemberPhase::Preparing));
            }
        }
        for (other, _) in preparing.into_iter().filter(|(_, preparing)| *preparing) {
            let young = planned(other)
                .is_some_and(|other| row.created_at.duration_since(other.created_at) < patience);
            if young && other != instance {
                found.push(broken(
                    "S7",
                    format!("{instance} of {id} was begun while {other} was being prepared"),
                ));
            }
        }
    }
}

fn shortest(timings: &Timings) -> SignedDuration {
    let shortest = timings
        .creating_deadline
        .min(timings.preparing_deadline)
        .min(timings.validating_deadline);
    SignedDuration::try_from(shortest).unwrap_or(SignedDuration::MAX)
}

/// S8: whatever is made in the cluster was written down before.
fn made_without_a_row(between: &Between<'_>, store: &StoreLook, found: &mut Vec<Violation>) {
    for made in &between.made {
        let Some(instance) = instance_of(&made.name) else {
            continue;
        };
        let id = InstanceId::new(instance);
        let row = store.pools.values().find_map(|pool| pool.rows.get(&id));
        if row.is_none_or(|row| row.created_at.duration_since(made.at) > GRAIN) {
            found.push(broken(
                "S8",
                format!("{} was made, and no row had been written for it", made.name),
            ));
        }
    }
}
