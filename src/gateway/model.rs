//! The pooled-member protocol's vocabulary (protocol version 1), independent of transport.
//!
//! Request types serialize to the exact body that the gateway hashes, without the authority fields
//! (`controllerEpoch`, `ownerIdentity`), which are added when a request is sent and are not part of
//! the hash. A journaled request can therefore be replayed byte for byte under a later epoch.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::pool::ids::{
    BackendName, BootId, CoordinatorId, Epoch, Generation, Incarnation, InstanceId, OperationId, PodUid,
    RoutingGroup, StepId, TrinoNodeId,
};

/// Phase of a member at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MemberPhase {
    /// Registered, not routable.
    Preparing,
    /// Routable.
    Active,
    /// No new independent work; pinned work continues.
    Draining,
    /// Nothing is owed; nothing more is routed.
    Sealed,
    /// Irreversibly claimed for retirement.
    Retiring,
    /// Closed.
    Retired,
    /// No new independent work; still a live slot.
    Suspect,
    /// Declared dead with evidence.
    Lost,
    /// A word this binary does not know; never treated as any of the above.
    #[serde(other)]
    Unrecognised,
}

/// What kind of retirement was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RetirementKind {
    /// Drained to zero obligations, or never admitted.
    Drained,
    /// Lost.
    Failed,
}

/// A member as the gateway reports it (protocol section 1.5). Fields this client does not use are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Which instance.
    pub instance_id: InstanceId,
    /// Which registration of it.
    pub incarnation: Incarnation,
    /// Its backend registration.
    pub backend_name: BackendName,
    /// Where it stands.
    pub phase: MemberPhase,
    /// Compare-and-set counter.
    pub generation: Generation,
    /// Recorded at registration.
    pub pod_uid: PodUid,
    /// Recorded at registration.
    pub boot_id: BootId,
    /// Observed by the gateway itself.
    pub node_id: TrinoNodeId,
    /// Observed by the gateway itself.
    pub coordinator_id: CoordinatorId,
    /// Kind of retirement, once claimed.
    pub retirement_kind: Option<RetirementKind>,
    /// Whether new work is routed to it.
    pub eligible: bool,
    /// The result was recorded earlier and nothing was applied now.
    #[serde(default)]
    pub replayed: bool,
}

/// What is still owed to clients by a member. Drain completion is decided from this and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Obligations {
    /// Which registration this counts.
    pub incarnation: Incarnation,
    /// Where the member stands.
    pub phase: MemberPhase,
    /// Compare-and-set counter.
    pub generation: Generation,
    /// Requests dispatched and not settled.
    pub pending_requests: u64,
    /// Transactions open.
    pub open_transactions: u64,
    /// Queries not terminal, or terminal within their retention.
    pub active_queries: u64,
    /// The gateway's own advice.
    pub ready_to_seal: bool,
}

impl Obligations {
    /// Everything owed.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.pending_requests
            .saturating_add(self.open_transactions)
            .saturating_add(self.active_queries)
    }
}

/// A pool as the gateway reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolState {
    /// Highest epoch the gateway accepted.
    pub controller_epoch: Epoch,
    /// Floor it enforces for planned drains.
    pub min_serving: u32,
    /// Desired members it budgets with.
    pub desired_members: u32,
    /// Surge budget it enforces at registration.
    pub max_surge: u32,
    /// Repair budget it enforces at registration.
    pub max_repair: u32,
    /// The release it was told.
    pub desired_revision: String,
    /// Members in phase ACTIVE.
    pub serving_members: u32,
    /// The result was recorded earlier and nothing was applied now.
    #[serde(default)]
    pub replayed: bool,
}

/// Settings of a pool, sent at every change and at every new authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSettings {
    /// Floor.
    pub min_serving: u32,
    /// Desired members.
    pub desired_members: u32,
    /// Surge budget.
    pub max_surge: u32,
    /// Repair budget.
    pub max_repair: u32,
    /// Release id.
    pub desired_revision: String,
}

/// Who sends a request: authority over the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Routing group the pool is known by.
    pub pool: RoutingGroup,
    /// Fencing epoch.
    pub epoch: Epoch,
    /// The process that holds it.
    pub owner: crate::pool::ids::OwnerId,
}

/// One journaled request about one member: replaying it means sending exactly this again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRequest {
    /// Which member.
    pub instance: InstanceId,
    /// The operation it belongs to.
    pub operation: OperationId,
    /// The step within it; names action and attempt, since the gateway hashes neither verb nor path.
    pub step: StepId,
    /// What is asked.
    pub action: MemberAction,
}

/// What is asked of the gateway about one member (protocol section 1.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberAction {
    /// `POST members`: PREPARING.
    Register(Registration),
    /// `POST admit`: PREPARING → ACTIVE by compare-and-set.
    Admit {
        /// Generation the member must have.
        expected: Generation,
        /// What was proven.
        receipt: AdmissionReceipt,
    },
    /// `POST drain`: ACTIVE | SUSPECT → DRAINING.
    Drain {
        /// Generation the member must have.
        expected: Generation,
    },
    /// `POST seal`: DRAINING → SEALED when nothing is owed.
    Seal {
        /// Generation the member must have.
        expected: Generation,
    },
    /// `POST suspect`: one-way.
    Suspect {
        /// Generation the member must have.
        expected: Generation,
        /// Why, 1..=256 characters.
        reason: String,
    },
    /// `POST lost`: SUSPECT → LOST with evidence.
    Lost {
        /// Generation the member must have.
        expected: Generation,
        /// The evidence.
        evidence: LossEvidence,
    },
    /// `POST retire`: the irreversible claim.
    Retire {
        /// Generation the member must have.
        expected: Generation,
    },
    /// `POST retired`: our assertion that the objects are gone.
    Retired {
        /// Generation the member must have.
        expected: Generation,
    },
}

impl MemberAction {
    /// Label for step ids, metrics and logs.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Register(_) => "register",
            Self::Admit { .. } => "admit",
            Self::Drain { .. } => "drain",
            Self::Seal { .. } => "seal",
            Self::Suspect { .. } => "suspect",
            Self::Lost { .. } => "lost",
            Self::Retire { .. } => "retire",
            Self::Retired { .. } => "retired",
        }
    }
}

/// Body of a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    /// Backend registration that must already exist, inactive, in the pool's group.
    pub backend_name: BackendName,
    /// Claimed by us; the gateway cannot observe it.
    pub pod_uid: PodUid,
    /// Claimed by us; the gateway cannot observe it.
    pub boot_id: BootId,
    /// The release id.
    pub config_revision: String,
    /// The instance it repairs, if it is on the repair budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair_for: Option<InstanceId>,
}

/// The receipt of an admission (protocol section 5.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionReceipt {
    /// 64 lower-case hex digits.
    pub certificate_hash: String,
    /// Must equal the registration's.
    pub config_revision: String,
    /// Non-empty.
    pub auth_revision: String,
    /// Must equal the registration's.
    pub pod_uid: PodUid,
    /// Must equal the registration's.
    pub boot_id: BootId,
    /// Must equal the gateway's own observation.
    pub node_id: TrinoNodeId,
    /// Must equal the gateway's own observation.
    pub coordinator_id: CoordinatorId,
    /// At least 1.
    pub ready_workers: u32,
    /// Must contain `image`, `workers`, `catalog-revision` and `auth-revision`.
    pub checks: Vec<String>,
}

/// Why a member may be declared lost (protocol section 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossEvidence {
    /// The exact process was observed to have ended.
    ProcessTerminated {
        /// The four identities, equal to the registration's.
        pod_uid: PodUid,
        /// See `pod_uid`.
        boot_id: BootId,
        /// See `pod_uid`.
        node_id: TrinoNodeId,
        /// See `pod_uid`.
        coordinator_id: CoordinatorId,
        /// Where it was observed, `[A-Za-z0-9_.:-]{1,64}`.
        source: String,
    },
    /// A person authorized it.
    DestructiveOverride {
        /// The person's reason, 1..=256 characters.
        reason: String,
    },
}

/// A backend registration in the gateway's legacy API, from which a member's URL is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// `<routing group>-<instance id>`.
    pub name: BackendName,
    /// URL the gateway dials.
    pub proxy_to: String,
    /// URL shown to people; defaults to `proxy_to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_url: Option<String>,
    /// The pool.
    pub routing_group: RoutingGroup,
    /// Always false when sent by us.
    pub active: bool,
}

/// The machine code of a refusal, from the response header `X-Trino-Gateway-Error`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RefusalCode {
    /// `POOL_DISABLED`
    PoolDisabled,
    /// `POOL_STALE_EPOCH`: authority is elsewhere.
    StaleEpoch,
    /// `POOL_INTENT_CHANGED`: the step was recorded with another body.
    IntentChanged,
    /// `POOL_STALE_GENERATION`: compare-and-set lost.
    StaleGeneration,
    /// `POOL_PHASE`
    Phase,
    /// `POOL_IRREVERSIBLE`: RETIRING or RETIRED.
    Irreversible,
    /// `POOL_SERVING_FLOOR`
    ServingFloor,
    /// `POOL_SURGE_BUDGET`
    SurgeBudget,
    /// `POOL_REPAIR_BUDGET`
    RepairBudget,
    /// `POOL_NOT_CERTIFIED`
    NotCertified,
    /// `POOL_PUBLICATION_BARRIER`: a waiting reason, never a failure.
    PublicationBarrier,
    /// `POOL_EVIDENCE_REQUIRED`
    EvidenceRequired,
    /// `POOL_VALIDATION`
    Validation,
    /// `POOL_NOT_FOUND`: a decision.
    NotFound,
    /// `POOL_IDENTITY_CONFLICT`
    IdentityConflict,
    /// `POOL_APIMODE`
    ApiMode,
    /// `POOL_NOT_DRAINED`: keep waiting.
    NotDrained,
    /// Any other code: terminal for the step; kept verbatim, at most 64 characters.
    Other(String),
}

impl RefusalCode {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::PoolDisabled => "POOL_DISABLED",
            Self::StaleEpoch => "POOL_STALE_EPOCH",
            Self::IntentChanged => "POOL_INTENT_CHANGED",
            Self::StaleGeneration => "POOL_STALE_GENERATION",
            Self::Phase => "POOL_PHASE",
            Self::Irreversible => "POOL_IRREVERSIBLE",
            Self::ServingFloor => "POOL_SERVING_FLOOR",
            Self::SurgeBudget => "POOL_SURGE_BUDGET",
            Self::RepairBudget => "POOL_REPAIR_BUDGET",
            Self::NotCertified => "POOL_NOT_CERTIFIED",
            Self::PublicationBarrier => "POOL_PUBLICATION_BARRIER",
            Self::EvidenceRequired => "POOL_EVIDENCE_REQUIRED",
            Self::Validation => "POOL_VALIDATION",
            Self::NotFound => "POOL_NOT_FOUND",
            Self::IdentityConflict => "POOL_IDENTITY_CONFLICT",
            Self::ApiMode => "POOL_APIMODE",
            Self::NotDrained => "POOL_NOT_DRAINED",
            Self::Other(code) => code,
        }
    }

    /// The code a word on the wire names.
    #[must_use]
    pub fn from_wire(word: &str) -> Self {
        const NAMED: [RefusalCode; 17] = [
            RefusalCode::PoolDisabled,
            RefusalCode::StaleEpoch,
            RefusalCode::IntentChanged,
            RefusalCode::StaleGeneration,
            RefusalCode::Phase,
            RefusalCode::Irreversible,
            RefusalCode::ServingFloor,
            RefusalCode::SurgeBudget,
            RefusalCode::RepairBudget,
            RefusalCode::NotCertified,
            RefusalCode::PublicationBarrier,
            RefusalCode::EvidenceRequired,
            RefusalCode::Validation,
            RefusalCode::NotFound,
            RefusalCode::IdentityConflict,
            RefusalCode::ApiMode,
            RefusalCode::NotDrained,
        ];
        NAMED
            .into_iter()
            .find(|code| code.as_str() == word)
            .unwrap_or_else(|| Self::Other(word.chars().take(64).collect()))
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_refusal_survives_the_wire_and_an_unknown_one_is_kept_verbatim() {
        for word in ["POOL_STALE_EPOCH", "POOL_NOT_DRAINED", "POOL_PUBLICATION_BARRIER"] {
            let code = RefusalCode::from_wire(word);
            assert_eq!(code.as_str(), word);
            assert!(!matches!(code, RefusalCode::Other(_)));
        }
        assert_eq!(
            RefusalCode::from_wire("POOL_NEW"),
            RefusalCode::Other("POOL_NEW".into())
        );
    }
}
