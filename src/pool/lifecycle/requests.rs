//! Requests to the gateway, named so that a replay is a replay and nothing else.
//!
//! The gateway hashes neither verb nor path: the same operation and step with the same body *is* the
//! first request again, whatever it was sent to (protocol section 2.2). So the operation names the
//! instance, and the step names the action and its attempt. The attempt is made of the request's own
//! content, never counted: a successor that decides the same makes the same request.

use serde_json::json;

use crate::gateway::model::{AdmissionReceipt, MemberAction, MemberRequest, Registration};
use crate::pool::canonical::digest_of;
use crate::pool::ids::{BackendName, RoutingGroup, StepId};
use crate::pool::instance::{InstanceRow, ProcessIdentity, ValidationReceipt};
use crate::pool::step::instance_operation;

/// Longest step id of the protocol.
const STEP_ID_MAX: usize = 64;

/// `<action>.<attempt>`, at most 64 of `[A-Za-z0-9_.:-]`; any other character becomes `-`.
#[must_use]
pub fn step_id(action: &str, attempt: &str) -> StepId {
    let text: String = format!("{action}.{attempt}")
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_.:-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(STEP_ID_MAX)
        .collect();
    StepId::new(text)
}

pub(super) fn request(row: &InstanceRow, action: MemberAction, attempt: &str) -> MemberRequest {
    MemberRequest {
        instance: row.id.clone(),
        operation: instance_operation(&row.id),
        step: step_id(action.label(), attempt),
        action,
    }
}

/// The request of a planned drain; `None` when the row holds no member.
///
/// The generation is the row's: an answer that gets lost must not change the body.
#[must_use]
pub fn drain_request(row: &InstanceRow) -> Option<MemberRequest> {
    let expected = row.member.as_ref()?.generation;
    Some(request(
        row,
        MemberAction::Drain { expected },
        &format!("g{expected}"),
    ))
}

/// The attempt of a registration: another process is another attempt.
pub(super) fn registration_attempt(process: &ProcessIdentity) -> String {
    let digest = digest_of(&json!([process.pod, process.boot]));
    digest.as_str().chars().take(16).collect()
}

/// `<routing group>-<instance id>`: unique for ever, since an instance id is never used again.
pub(super) fn backend_name(pool: &RoutingGroup, row: &InstanceRow) -> BackendName {
    BackendName::new(format!("{pool}-{}", row.id))
}

pub(super) fn registration(
    pool: &RoutingGroup,
    row: &InstanceRow,
    process: &ProcessIdentity,
) -> Registration {
    Registration {
        backend_name: backend_name(pool, row),
        pod_uid: process.pod.clone(),
        boot_id: process.boot.clone(),
        config_revision: row.release.to_string(),
        repair_for: row.repair_for.clone(),
    }
}

/// What is presented at admission: what was proven, under the revision that was registered.
pub(super) fn admission(row: &InstanceRow, receipt: &ValidationReceipt) -> AdmissionReceipt {
    AdmissionReceipt {
        certificate_hash: receipt.certificate.to_string(),
        config_revision: row.release.to_string(),
        auth_revision: receipt.auth_revision.clone(),
        pod_uid: receipt.process.pod.clone(),
        boot_id: receipt.process.boot.clone(),
        node_id: receipt.process.node.clone(),
        coordinator_id: receipt.process.coordinator.clone(),
        ready_workers: receipt.ready_workers,
        checks: receipt.checks.clone(),
    }
}

/// Another receipt is another attempt.
pub(super) fn admission_attempt(receipt: &ValidationReceipt) -> String {
    receipt.certificate.as_str().chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::phase::Phase;
    use crate::pool::testing::row;

    #[test]
    fn a_step_id_is_short_and_of_the_protocols_alphabet() {
        assert_eq!(step_id("drain", "g3").as_str(), "drain.g3");
        let odd = step_id("register", &"ä/ b".repeat(40));
        assert_eq!(odd.as_str().len(), STEP_ID_MAX);
        assert!(
            odd.as_str()
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
        );
    }

    #[test]
    fn the_same_drain_is_the_same_request_for_every_leader() {
        let mut row = row(Phase::Serving);
        let first = drain_request(&row).unwrap();
        row.owner_epoch = row.owner_epoch.next();
        assert_eq!(drain_request(&row), Some(first.clone()));
        assert_eq!(first.operation.as_str(), "instance:cell-00000001");
        assert_eq!(first.step.as_str(), "drain.g1");
        row.member = None;
        assert_eq!(drain_request(&row), None);
    }

    #[test]
    fn another_process_registers_under_another_step() {
        let process = crate::pool::testing::process();
        let mut restarted = process.clone();
        restarted.boot = "fffff".into();
        assert_ne!(registration_attempt(&process), registration_attempt(&restarted));
    }
}
