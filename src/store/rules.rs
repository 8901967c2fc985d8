//! Rules of the store that are decided from rows alone, the same in every implementation.
//!
//! Pure: no database, no clock. What a database can decide in one statement (first write wins, a phase
//! compared and set) is written there instead, and held equal by the shared suite.

use jiff::Timestamp;

use super::port::{PoolIdentity, Recovery, StoreError};
use crate::pool::desired::DesiredPool;
use crate::pool::evidence::Evidence;
use crate::pool::ids::{Epoch, InstanceId, ObjectUid, OperationId, OwnerId, PoolId, SpecGeneration, StepId};
use crate::pool::instance::InstanceRow;
use crate::pool::phase::Phase;

/// Instance ids are never reused, not even those of retired rows.
pub const ID_USED: &str = "a row with this id exists";
/// Only what is left of a terminal row may be recorded as an orphan (S1).
pub const ORPHAN_OF_A_LIVE_ROW: &str = "its row is not terminal: nothing of it is an orphan";
/// One recovery for each instance and operation, ever.
pub const OTHER_RECOVERY: &str = "another recovery was accepted for this instance or operation";

/// The refusal of a transition whose starting phase is not the row's.
#[must_use]
pub fn not_in_phase(instance: &InstanceId, from: Phase) -> StoreError {
    conflict(instance, format!("it is not {from}"))
}

/// The refusal of an outcome for a step that was never begun.
#[must_use]
pub fn missing_step(operation: &OperationId, step: &StepId) -> StoreError {
    conflict(format!("{operation}/{step}"), "the pool has no such step")
}

/// The precision every store keeps: microseconds, which is what Postgres has. A row therefore reads the
/// same whichever store held it.
#[must_use]
pub fn stored_time(now: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// The refusal of a call about a pool that was never seeded.
#[must_use]
pub fn missing_pool(pool: &PoolId) -> StoreError {
    conflict(pool, "no such pool")
}

/// The refusal of a write about a row that is not there.
#[must_use]
pub fn missing_instance(instance: &InstanceId) -> StoreError {
    conflict(instance, "the pool has no such instance")
}

/// A refusal in words.
#[must_use]
pub fn conflict(subject: impl std::fmt::Display, problem: impl Into<String>) -> StoreError {
    StoreError::Conflict(format!("{subject}"), problem.into())
}

/// The epoch a new authority gets: one above everything seen. Databases count to `i64::MAX`, so an
/// epoch beyond it is refused rather than wrapped.
///
/// # Errors
/// `Conflict` when the owner is empty or the epochs are used up.
pub fn next_epoch(pool: &PoolId, owner: &OwnerId, stored: Epoch, above: Epoch) -> Result<Epoch, StoreError> {
    if owner.is_empty() {
        return Err(conflict(pool, "an authority needs an owner"));
    }
    let epoch = Epoch::above([stored, above]);
    if i64::try_from(epoch.get()).is_err() {
        return Err(conflict(
            pool,
            format!("no epoch is left above {}", stored.max(above)),
        ));
    }
    Ok(epoch)
}

/// Whether a desired state may replace the recorded one: generations are ordered within one resource
/// UID, and no resource, new or known, may change the pool's identity fields.
///
/// # Errors
/// `Conflict`, with the reason in words.
pub fn may_publish(
    pool: &PoolIdentity,
    recorded: Option<(&ObjectUid, SpecGeneration)>,
    resource: &ObjectUid,
    generation: SpecGeneration,
    desired: &DesiredPool,
) -> Result<(), StoreError> {
    if desired.namespace != pool.namespace || desired.routing_group != pool.routing_group {
        return Err(conflict(
            &pool.id,
            format!(
                "the pool is {} in namespace {}, not {} in {}",
                pool.routing_group, pool.namespace, desired.routing_group, desired.namespace
            ),
        ));
    }
    match recorded {
        Some((uid, newest)) if uid == resource && generation < newest => Err(conflict(
            &pool.id,
            format!("generation {generation} is older than the recorded {newest}"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// Whether a transition may be written.
///
/// # Errors
/// `Conflict` when the state machine has no such transition.
pub fn may_advance(instance: &InstanceId, from: Phase, to: Phase) -> Result<(), StoreError> {
    if from.permits(to) {
        Ok(())
    } else {
        Err(conflict(instance, format!("no way leads from {from} to {to}")))
    }
}

/// Whether evidence may be recorded at all.
///
/// # Errors
/// `Conflict` when an identity is missing: such a record proves nothing.
pub fn may_record(instance: &InstanceId, evidence: &Evidence) -> Result<(), StoreError> {
    if evidence.is_complete() {
        Ok(())
    } else {
        Err(conflict(instance, "evidence needs all four identities"))
    }
}

/// Whether two requests for a recovery are the same intent: everything but the time of asking.
#[must_use]
pub fn same_recovery(a: &Recovery, b: &Recovery) -> bool {
    Recovery {
        created_at: b.created_at,
        ..a.clone()
    } == *b
}

/// Whether a recovery may be accepted, given the row it names and how many instances of its pool serve.
///
/// # Errors
/// `Conflict`, with the first precondition that does not hold.
pub fn may_recover(
    recovery: &Recovery,
    row: &InstanceRow,
    serving: u32,
    min_serving: u32,
) -> Result<(), StoreError> {
    let refuse = |problem: &str| Err(conflict(&recovery.instance, problem));
    if row.phase != Phase::Draining {
        return refuse(&format!("it is {}, not {}", row.phase, Phase::Draining));
    }
    let (Some(member), Some(process)) = (&row.member, &row.process) else {
        return refuse("no member or process is recorded");
    };
    if member.generation != recovery.expected_generation || member.incarnation != recovery.incarnation {
        return refuse("the recorded member is another than the one named");
    }
    if process.pod != recovery.pod_uid
        || process.boot != recovery.boot_id
        || process.node != recovery.node_id
        || process.coordinator != recovery.coordinator_id
    {
        return refuse("the recorded process is another than the one named");
    }
    if serving < min_serving {
        return refuse(&format!("{serving} instances serve, the floor is {min_serving}"));
    }
    Ok(())
}

/// Whether what a person wrote into a recovery can be stored.
///
/// # Errors
/// `Conflict` naming the field.
pub fn well_formed_recovery(recovery: &Recovery) -> Result<(), StoreError> {
    let operation = recovery.operation.as_str();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    let length = |text: &str, most: usize| (1..=most).contains(&text.chars().count());
    let problem = if !length(operation, 128) || !operation.chars().all(plain) {
        "the operation must be 1 to 128 of A-Z a-z 0-9 _ . : -"
    } else if !length(&recovery.requested_by, 320) {
        "who asks must be said in 1 to 320 characters"
    } else if !length(&recovery.reason, 256) {
        "the reason must be 1 to 256 characters"
    } else if recovery.expected_generation.get() == 0 {
        "the expected generation must be at least 1"
    } else {
        return Ok(());
    };
    Err(conflict(&recovery.instance, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_beyond_what_a_database_counts_is_refused() {
        let pool = PoolId::new("a/b");
        let owner = OwnerId::new("me");
        let most = Epoch::new(i64::MAX.unsigned_abs());
        assert!(next_epoch(&pool, &owner, Epoch::new(3), most).is_err());
        assert_eq!(
            next_epoch(&pool, &owner, Epoch::new(3), Epoch::new(9)),
            Ok(Epoch::new(10))
        );
        assert!(next_epoch(&pool, &OwnerId::new(""), Epoch::new(3), Epoch::new(9)).is_err());
    }

    #[test]
    fn times_are_kept_to_the_microsecond() {
        let now = Timestamp::from_nanosecond(1_700_000_000_123_456_789).unwrap();
        assert_eq!(stored_time(now).as_nanosecond(), 1_700_000_000_123_456_000);
    }
}
