//! What the simulated gateway holds: pools with their members and journal, registrations, and every
//! identity ever used. Reads and projections only; steps change it in `steps` and `register`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::denied::Denied;
use super::fields::Envelope;
use super::ledger::Ledger;

/// Phase of a member (protocol section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Preparing,
    Active,
    Draining,
    Sealed,
    Retiring,
    Retired,
    Suspect,
    Lost,
}

impl Phase {
    pub(super) const ALL: [Self; 8] = [
        Self::Preparing,
        Self::Active,
        Self::Draining,
        Self::Sealed,
        Self::Retiring,
        Self::Retired,
        Self::Suspect,
        Self::Lost,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Preparing => "PREPARING",
            Self::Active => "ACTIVE",
            Self::Draining => "DRAINING",
            Self::Sealed => "SEALED",
            Self::Retiring => "RETIRING",
            Self::Retired => "RETIRED",
            Self::Suspect => "SUSPECT",
            Self::Lost => "LOST",
        }
    }

    /// Uses a compute slot.
    pub(super) const fn is_live(self) -> bool {
        match self {
            Self::Preparing
            | Self::Active
            | Self::Draining
            | Self::Sealed
            | Self::Retiring
            | Self::Suspect => true,
            Self::Retired | Self::Lost => false,
        }
    }

    pub(super) const fn is_irreversible(self) -> bool {
        matches!(self, Self::Retiring | Self::Retired)
    }

    /// Work already bound to the member may go on.
    pub(super) const fn serves_bound_work(self) -> bool {
        match self {
            Self::Preparing | Self::Active | Self::Draining | Self::Suspect => true,
            Self::Sealed | Self::Retiring | Self::Retired | Self::Lost => false,
        }
    }
}

/// Kind of a claimed retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retirement {
    Drained,
    Failed,
}

impl Retirement {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Drained => "DRAINED",
            Self::Failed => "FAILED",
        }
    }
}

/// One member, kept for ever.
#[derive(Clone, Debug)]
pub(super) struct MemberRow {
    pub(super) instance: String,
    pub(super) incarnation: String,
    pub(super) backend: String,
    pub(super) url: String,
    pub(super) external_url: String,
    pub(super) phase: Phase,
    pub(super) generation: u64,
    pub(super) pod_uid: String,
    pub(super) boot_id: String,
    pub(super) node_id: String,
    pub(super) coordinator_id: String,
    pub(super) config_revision: String,
    pub(super) certified_revision: Option<String>,
    pub(super) auth_revision: Option<String>,
    pub(super) repair_for: Option<String>,
    pub(super) retirement: Option<Retirement>,
    pub(super) failure: Option<Value>,
}

impl MemberRow {
    pub(super) const fn is_repair(&self) -> bool {
        self.repair_for.is_some()
    }

    fn drained(&self) -> bool {
        match self.phase {
            Phase::Sealed => true,
            Phase::Retiring | Phase::Retired => self.retirement == Some(Retirement::Drained),
            Phase::Preparing | Phase::Active | Phase::Draining | Phase::Suspect | Phase::Lost => false,
        }
    }
}

/// A step that succeeded. Refusals leave no trace.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) hash: String,
    pub(super) epoch: u64,
    pub(super) result: Value,
    pub(super) at: Timestamp,
}

/// Settings of a pool (section 1.4, PUT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) pooled: bool,
    pub(super) min_serving: u64,
    pub(super) desired_members: u64,
    pub(super) max_surge: u64,
    pub(super) max_repair: u64,
    pub(super) desired_revision: String,
}

/// One pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub(super) id: String,
    pub(super) settings: Settings,
    pub(super) epoch: u64,
    pub(super) owner: Option<String>,
    pub(super) membership: u64,
    pub(super) members: BTreeMap<String, MemberRow>,
    pub(super) journal: BTreeMap<(String, String), Recorded>,
    /// Open publications, oldest first: id and target revision.
    pub(super) publications: Vec<(String, String)>,
}

impl Pool {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
    }

    /// The recorded result of this very step, marked as replayed; refused when it was another intent.
    pub(super) fn replay(&self, envelope: &Envelope) -> Result<Option<Value>, Denied> {
        let key = (envelope.operation.clone(), envelope.step.clone());
        let Some(recorded) = self.journal.get(&key) else {
            return Ok(None);
        };
        if recorded.hash != envelope.hash {
            return Err(Denied::conflict(
                "POOL_INTENT_CHANGED",
                "the step was recorded with another payload",
            ));
        }
        let mut result = recorded.result.clone();
        result["replayed"] = json!(true);
        Ok(Some(result))
    }

    pub(super) fn record(&mut self, envelope: &Envelope, result: &Value, at: Timestamp) {
        self.journal.insert(
            (envelope.operation.clone(), envelope.step.clone()),
            Recorded {
                hash: envelope.hash.clone(),
                epoch: envelope.epoch,
                result: result.clone(),
                at,
            },
        );
    }

    /// Fences a step: epoch, owner and mode (section 2.3, checks 5 to 7).
    pub(super) fn fence(&self, envelope: &Envelope) -> Result<(), Denied> {
        if envelope.epoch != self.epoch {
            return Err(Denied::conflict(
                "POOL_STALE_EPOCH",
                format!("epoch {} is not the pool's {}", envelope.epoch, self.epoch),
            ));
        }
        if self.owner.is_some() && self.owner != envelope.owner {
            return Err(Denied::conflict(
                "POOL_STALE_EPOCH",
                "the epoch belongs to another owner",
            ));
        }
        if !self.settings.pooled {
            return Err(Denied::conflict("POOL_APIMODE", "the pool is not POOLED"));
        }
        Ok(())
    }

    pub(super) fn count(&self, phase: Phase) -> u64 {
        self.tally(|member| member.phase == phase)
    }

    pub(super) fn live(&self) -> u64 {
        self.tally(|member| member.phase.is_live() && !member.is_repair())
    }

    pub(super) fn live_repairs(&self) -> u64 {
        self.tally(|member| member.phase.is_live() && member.is_repair())
    }

    /// Size the pool is budgeted for.
    pub(super) fn size(&self) -> u64 {
        self.settings.desired_members.max(self.settings.min_serving)
    }

    fn tally(&self, matching: impl Fn(&MemberRow) -> bool) -> u64 {
        self.members
            .values()
            .map(|member| u64::from(matching(member)))
            .sum()
    }

    fn blocked(&self) -> Vec<&'static str> {
        let serving = self.count(Phase::Active);
        [
            (
                self.settings.pooled && serving < self.settings.min_serving,
                "SERVING_BELOW_FLOOR",
            ),
            (self.count(Phase::Suspect) > 0, "SUSPECT_MEMBER"),
            (self.count(Phase::Retiring) > 0, "RETIREMENT_IN_PROGRESS"),
            (!self.publications.is_empty(), "PUBLICATION_OPEN"),
        ]
        .into_iter()
        .filter_map(|(holds, word)| holds.then_some(word))
        .collect()
    }

    /// PoolState (section 1.5).
    pub(super) fn to_json(&self) -> Value {
        let counts: BTreeMap<&str, u64> = Phase::ALL
            .into_iter()
            .map(|phase| (phase.as_str(), self.count(phase)))
            .collect();
        json!({
            "protocolVersion": 1,
            "poolId": self.id,
            "apiMode": if self.settings.pooled { "POOLED" } else { "LEGACY" },
            "controllerEpoch": self.epoch,
            "membershipGeneration": self.membership,
            "minServing": self.settings.min_serving,
            "desiredMembers": self.settings.desired_members,
            "maxSurge": self.settings.max_surge,
            "maxRepair": self.settings.max_repair,
            "desiredRevision": self.settings.desired_revision,
            "admittedRevision": "",
            "tenantAdmissionEnabled": false,
            "counts": counts,
            "servingMembers": self.count(Phase::Active),
            "liveMembers": self.live(),
            "surgeInUse": self.live().saturating_sub(self.size()),
            "repairInUse": self.live_repairs(),
            "openPublications": self.publications.len(),
            "blocked": self.blocked(),
            "replayed": false,
        })
    }

    /// Member (section 1.5).
    pub(super) fn member_json(&self, member: &MemberRow, ledger: &Ledger, now: Timestamp) -> Value {
        let owed = ledger.owed(&member.incarnation, now);
        json!({
            "protocolVersion": 1,
            "poolId": self.id,
            "instanceId": member.instance,
            "incarnation": member.incarnation,
            "backendName": member.backend,
            "url": member.url,
            "externalUrl": member.external_url,
            "phase": member.phase.as_str(),
            "generation": member.generation,
            "controllerEpoch": self.epoch,
            "podUid": member.pod_uid,
            "bootId": member.boot_id,
            "nodeId": member.node_id,
            "coordinatorId": member.coordinator_id,
            "configRevision": member.config_revision,
            "certifiedRevision": member.certified_revision,
            "authRevision": member.auth_revision,
            "repair": member.is_repair(),
            "repairFor": member.repair_for,
            "retirementKind": member.retirement.map(Retirement::as_str),
            "pendingRequests": owed.pending,
            "openTransactions": owed.transactions,
            "activeQueries": owed.queries,
            "readyToSeal": member.phase == Phase::Draining && owed.is_zero(),
            "drained": member.drained(),
            "eligible": member.phase == Phase::Active,
            "membershipGeneration": self.membership,
            "replayed": false,
        })
    }

    /// Obligations (section 1.5).
    pub(super) fn obligations_json(member: &MemberRow, ledger: &Ledger, now: Timestamp) -> Value {
        let owed = ledger.owed(&member.incarnation, now);
        json!({
            "protocolVersion": 1,
            "instanceId": member.instance,
            "incarnation": member.incarnation,
            "phase": member.phase.as_str(),
            "generation": member.generation,
            "pendingRequests": owed.pending,
            "openTransactions": owed.transactions,
            "activeQueries": owed.queries,
            "readyToSeal": member.phase == Phase::Draining && owed.is_zero(),
            "drained": member.drained(),
        })
    }
}

/// A registration of the older API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackendRow {
    pub(super) name: String,
    pub(super) proxy_to: String,
    pub(super) external_url: String,
    pub(super) group: String,
    pub(super) active: bool,
}

/// Something that no later member may carry again, in any pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    Backend(String),
    Endpoint(String),
    Process(String, String),
    Coordinator(String, String),
}

/// Everything durable.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pools: BTreeMap<String, Pool>,
    pub(super) backends: BTreeMap<String, BackendRow>,
    pub(super) identities: BTreeSet<Identity>,
    /// Pool and instance of every registration.
    pub(super) incarnations: BTreeMap<String, (String, String)>,
    pub(super) ledger: Ledger,
}

impl State {
    pub(super) fn incarnation(&self, incarnation: &str) -> Option<&MemberRow> {
        let (pool, instance) = self.incarnations.get(incarnation)?;
        self.pools.get(pool)?.members.get(instance)
    }

    pub(super) fn pool(&self, pool: &str) -> Result<&Pool, Denied> {
        self.pools
            .get(pool)
            .ok_or_else(|| Denied::not_found(format!("no pool {pool}")))
    }

    pub(super) fn member(&self, pool: &str, instance: &str) -> Result<(&Pool, &MemberRow), Denied> {
        let pool = self.pool(pool)?;
        let member = pool
            .members
            .get(instance)
            .ok_or_else(|| Denied::not_found(format!("no member {instance}")))?;
        Ok((pool, member))
    }
}
