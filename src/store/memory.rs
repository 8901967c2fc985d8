//! The store of virtual time: everything in this process's memory, nothing durable.
//!
//! Owns its rows behind one lock that is never held across an await: a call never waits for anything,
//! so that a run is decided by its seed alone. It has the same semantics as the databases and passes
//! the same suite. A commit is prepared on copies of the rows it touches and installed at the end, so
//! that an error leaves nothing behind.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;

use super::port::{
    Authority, Committed, FailureMemory, JournalStep, Mark, NodeHold, PoolIdentity, PoolRow, PoolSnapshot,
    Recovery, StepOutcome, Store, StoreError, Write,
};
use super::rules;
use crate::cluster::facts::ObjectKind;
use crate::pool::desired::PoolMode;
use crate::pool::evidence::{RecordedEvidence, ReplacementNode};
use crate::pool::ids::{
    Epoch, InstanceId, NodeUid, ObjectUid, OperationId, OwnerId, PoolId, Revision, SpecGeneration, StepId,
    StoreId,
};
use crate::pool::instance::{InstanceChanges, InstanceRow};
use crate::pool::phase::Phase;

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    id: StoreId,
    rows: Mutex<Rows>,
}

type StepKey = (OperationId, StepId);
type OrphanKey = (InstanceId, ObjectKind, ObjectUid);

#[derive(Debug, Default)]
struct Rows {
    pools: BTreeMap<PoolId, PoolRow>,
    instances: BTreeMap<InstanceId, InstanceRow>,
    steps: BTreeMap<StepKey, (PoolId, JournalStep)>,
    recoveries: BTreeMap<OperationId, Recovery>,
    orphans: BTreeMap<OrphanKey, Timestamp>,
    calls: u64,
}

/// The rows one commit has touched, not installed yet.
struct Draft<'a> {
    rows: &'a Rows,
    authority: &'a Authority,
    now: Timestamp,
    pool: PoolRow,
    instances: BTreeMap<InstanceId, InstanceRow>,
    steps: BTreeMap<StepKey, (PoolId, JournalStep)>,
    orphans: BTreeMap<OrphanKey, Timestamp>,
}

impl MemoryStore {
    /// An empty store under the given identity.
    #[must_use]
    pub fn new(id: StoreId) -> Self {
        Self {
            id,
            rows: Mutex::new(Rows::default()),
        }
    }

    /// No code under the lock panics, so a poisoned lock still guards whole rows.
    fn rows(&self) -> MutexGuard<'_, Rows> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.calls += 1;
        rows
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn id(&self) -> Result<StoreId, StoreError> {
        Ok(self.id.clone())
    }

    async fn seed(&self, pool: &PoolIdentity) -> Result<(), StoreError> {
        self.rows()
            .pools
            .entry(pool.id.clone())
            .or_insert_with(|| PoolRow {
                identity: pool.clone(),
                epoch: Epoch::default(),
                owner: OwnerId::new(""),
                revision: Revision::default(),
                resource: None,
                generation: SpecGeneration::default(),
                desired: None,
                mode: PoolMode::default(),
                failures: Vec::new(),
            });
        Ok(())
    }

    async fn pools(&self) -> Result<Vec<PoolIdentity>, StoreError> {
        Ok(self.rows().pools.values().map(|p| p.identity.clone()).collect())
    }

    async fn marks(&self) -> Result<BTreeMap<PoolId, Mark>, StoreError> {
        let rows = self.rows();
        Ok(rows
            .pools
            .iter()
            .map(|(id, row)| (id.clone(), row.mark()))
            .collect())
    }

    async fn acquire(&self, pool: &PoolId, owner: &OwnerId, above: Epoch) -> Result<Authority, StoreError> {
        let mut rows = self.rows();
        let row = rows
            .pools
            .get_mut(pool)
            .ok_or_else(|| rules::missing_pool(pool))?;
        let epoch = rules::next_epoch(pool, owner, row.epoch, above)?;
        row.epoch = epoch;
        row.owner = owner.clone();
        row.revision = row.revision.next();
        Ok(Authority {
            pool: pool.clone(),
            owner: owner.clone(),
            epoch,
        })
    }

    async fn load(&self, pool: &PoolId) -> Result<PoolSnapshot, StoreError> {
        let rows = self.rows();
        let row = rows.pools.get(pool).ok_or_else(|| rules::missing_pool(pool))?;
        let live = |id: &InstanceId| {
            rows.instances
                .get(id)
                .is_some_and(|i| i.pool == *pool && !i.phase.is_terminal())
        };
        let mut instances: Vec<InstanceRow> =
            rows.instances.values().filter(|i| live(&i.id)).cloned().collect();
        instances.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(PoolSnapshot {
            pool: row.clone(),
            instances,
            open_steps: rows
                .steps
                .values()
                .filter(|(owner, step)| owner == pool && step.outcome == StepOutcome::Unknown)
                .map(|(_, step)| step.clone())
                .collect(),
            recoveries: rows
                .recoveries
                .values()
                .filter(|recovery| live(&recovery.instance))
                .cloned()
                .collect(),
        })
    }

    async fn commit(
        &self,
        authority: &Authority,
        now: Timestamp,
        writes: &[Write],
    ) -> Result<Vec<Committed>, StoreError> {
        let mut rows = self.rows();
        rows.calls += writes.len() as u64;
        let pool = rows
            .pools
            .get(&authority.pool)
            .filter(|row| row.owner == authority.owner && row.epoch == authority.epoch)
            .ok_or_else(|| StoreError::Fenced(authority.pool.clone()))?
            .clone();
        let mut draft = Draft {
            rows: &rows,
            authority,
            now: rules::stored_time(now),
            pool,
            instances: BTreeMap::new(),
            steps: BTreeMap::new(),
            orphans: BTreeMap::new(),
        };
        let results = writes
            .iter()
            .map(|write| draft.write(write))
            .collect::<Result<Vec<_>, _>>()?;
        let Draft {
            mut pool,
            instances,
            steps,
            orphans,
            ..
        } = draft;
        if results.iter().any(Committed::changed) {
            pool.revision = pool.revision.next();
        }
        rows.pools.insert(authority.pool.clone(), pool);
        rows.instances.extend(instances);
        rows.steps.extend(steps);
        rows.orphans.extend(orphans);
        Ok(results)
    }

    async fn instance(&self, instance: &InstanceId) -> Result<Option<InstanceRow>, StoreError> {
        Ok(self.rows().instances.get(instance).cloned())
    }

    async fn request_recovery(
        &self,
        pool: &PoolId,
        min_serving: u32,
        recovery: &Recovery,
    ) -> Result<(), StoreError> {
        rules::well_formed_recovery(recovery)?;
        let mut rows = self.rows();
        if !rows.pools.contains_key(pool) {
            return Err(rules::missing_pool(pool));
        }
        let row = rows
            .instances
            .get(&recovery.instance)
            .filter(|row| row.pool == *pool)
            .ok_or_else(|| rules::missing_instance(&recovery.instance))?;
        let earlier = rows
            .recoveries
            .values()
            .find(|r| r.operation == recovery.operation || r.instance == recovery.instance);
        if let Some(earlier) = earlier {
            return if rules::same_recovery(earlier, recovery) {
                Ok(())
            } else {
                Err(rules::conflict(&recovery.instance, rules::OTHER_RECOVERY))
            };
        }
        let serving = rows
            .instances
            .values()
            .filter(|i| i.pool == *pool && i.phase == Phase::Serving)
            .count();
        rules::may_recover(
            recovery,
            row,
            u32::try_from(serving).unwrap_or(u32::MAX),
            min_serving,
        )?;
        let recovery = Recovery {
            created_at: rules::stored_time(recovery.created_at),
            ..recovery.clone()
        };
        rows.recoveries.insert(recovery.operation.clone(), recovery);
        if let Some(row) = rows.pools.get_mut(pool) {
            row.revision = row.revision.next();
        }
        Ok(())
    }

    async fn node_holds(&self, node: &NodeUid) -> Result<Vec<NodeHold>, StoreError> {
        let rows = self.rows();
        let mut holds: Vec<NodeHold> = rows
            .instances
            .values()
            .flat_map(|row| {
                let first = row.evidence.valid().map(|e| (&e.node_uid, &e.node_name));
                let further = row.replacement_nodes.iter().map(|n| (&n.node_uid, &n.node_name));
                let mut names: Vec<_> = first
                    .into_iter()
                    .chain(further)
                    .filter(|(uid, _)| *uid == node)
                    .map(|(_, name)| name.clone())
                    .collect();
                names.sort();
                names.dedup();
                names.into_iter().map(|name| NodeHold {
                    pool: row.pool.clone(),
                    instance: row.id.clone(),
                    phase: row.phase,
                    node: name,
                })
            })
            .collect();
        holds.sort_by(|a, b| (&a.pool, &a.instance, &a.node).cmp(&(&b.pool, &b.instance, &b.node)));
        Ok(holds)
    }

    /// One for each call and one for each write: there is no database to count for.
    fn statements(&self) -> u64 {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).calls
    }
}

impl Draft<'_> {
    fn write(&mut self, write: &Write) -> Result<Committed, StoreError> {
        let now = self.now;
        match write {
            Write::PublishDesired {
                resource,
                generation,
                desired,
            } => {
                let recorded = self.pool.resource.as_ref().map(|uid| (uid, self.pool.generation));
                rules::may_publish(&self.pool.identity, recorded, resource, *generation, desired)?;
                self.pool.resource = Some(resource.clone());
                self.pool.generation = *generation;
                self.pool.desired = Some(Ok((**desired).clone()));
                Ok(Committed::Done)
            }
            Write::SetMode(mode) => {
                self.pool.mode = mode.clone();
                Ok(Committed::Done)
            }
            Write::CreateInstance(new) => self.create(new),
            Write::Advance {
                instance,
                from,
                to,
                changes,
            } => self.advance(instance, *from, *to, changes),
            Write::Update { instance, changes } => {
                changes.apply_to(self.instance(instance)?);
                Ok(Committed::Done)
            }
            Write::RecordEvidence { instance, evidence } => {
                rules::may_record(instance, evidence)?;
                let row = self.instance(instance)?;
                if row.evidence.is_present() || row.phase.is_terminal() {
                    return Ok(Committed::Kept);
                }
                row.evidence = RecordedEvidence::Some(evidence.clone());
                Ok(Committed::Done)
            }
            Write::AppendReplacementNode { instance, node } => {
                let row = self.instance(instance)?;
                let known = row.replacement_nodes.iter().any(|n| {
                    (&n.node_uid, &n.nodeclaim_uid, n.reason)
                        == (&node.node_uid, &node.nodeclaim_uid, node.reason)
                });
                if known {
                    return Ok(Committed::Kept);
                }
                row.replacement_nodes.push(ReplacementNode {
                    observed_at: rules::stored_time(node.observed_at),
                    ..node.clone()
                });
                Ok(Committed::Done)
            }
            Write::BeginStep(request) => self.begin_step(request),
            Write::FinishStep {
                operation,
                step,
                outcome,
            } => self.finish_step(operation, step, *outcome),
            Write::RememberFailure(failure) => {
                let memory = &mut self.pool.failures;
                let count = memory
                    .iter()
                    .find(|m| m.cause == failure.cause)
                    .map_or(1, |m| m.count.saturating_add(1));
                memory.retain(|m| m.cause != failure.cause);
                memory.push(FailureMemory {
                    cause: failure.cause,
                    count,
                    last_at: now,
                    detail: failure.detail.clone(),
                });
                memory.sort_by_key(|m| m.cause.as_str());
                Ok(Committed::Done)
            }
            Write::ForgetFailures => {
                self.pool.failures.clear();
                Ok(Committed::Done)
            }
            Write::RecordOrphan { instance, kind, uid } => {
                if !self.instance(instance)?.phase.is_terminal() {
                    return Err(rules::conflict(instance, rules::ORPHAN_OF_A_LIVE_ROW));
                }
                let key = (instance.clone(), *kind, uid.clone());
                if self.rows.orphans.contains_key(&key) || self.orphans.contains_key(&key) {
                    return Ok(Committed::Kept);
                }
                self.orphans.insert(key, now);
                Ok(Committed::Done)
            }
        }
    }

    /// The row of this pool, copied into the draft when it is first touched.
    fn instance(&mut self, id: &InstanceId) -> Result<&mut InstanceRow, StoreError> {
        if !self.instances.contains_key(id) {
            let row = self.rows.instances.get(id).cloned();
            let row = row
                .filter(|row| row.pool == self.authority.pool)
                .ok_or_else(|| rules::missing_instance(id))?;
            self.instances.insert(id.clone(), row);
        }
        self.instances
            .get_mut(id)
            .ok_or_else(|| rules::missing_instance(id))
    }

    fn create(&mut self, new: &super::port::NewInstance) -> Result<Committed, StoreError> {
        if self.rows.instances.contains_key(&new.id) || self.instances.contains_key(&new.id) {
            return Err(rules::conflict(&new.id, rules::ID_USED));
        }
        let row = InstanceRow {
            id: new.id.clone(),
            pool: self.authority.pool.clone(),
            release: new.release.clone(),
            spec_digest: new.spec_digest.clone(),
            blueprint: Ok(new.blueprint.clone()),
            phase: Phase::Pending,
            phase_changed_at: self.now,
            owner_epoch: self.authority.epoch,
            repair_for: new.repair_for.clone(),
            failure: None,
            objects: None,
            process: None,
            member: None,
            receipt: None,
            excluded_nodes: new.excluded_nodes.clone(),
            evidence: RecordedEvidence::None,
            replacement_nodes: Vec::new(),
            created_at: self.now,
        };
        self.instances.insert(new.id.clone(), row);
        Ok(Committed::Done)
    }

    fn advance(
        &mut self,
        instance: &InstanceId,
        from: Phase,
        to: Phase,
        changes: &InstanceChanges,
    ) -> Result<Committed, StoreError> {
        rules::may_advance(instance, from, to)?;
        let (now, epoch) = (self.now, self.authority.epoch);
        let row = self.instance(instance)?;
        if row.phase != from {
            return Err(rules::not_in_phase(instance, from));
        }
        row.phase = to;
        row.phase_changed_at = now;
        row.owner_epoch = epoch;
        changes.apply_to(row);
        Ok(Committed::Done)
    }

    fn begin_step(
        &mut self,
        request: &crate::gateway::model::MemberRequest,
    ) -> Result<Committed, StoreError> {
        self.instance(&request.instance)?;
        let key = (request.operation.clone(), request.step.clone());
        let recorded = self
            .steps
            .get(&key)
            .or_else(|| self.rows.steps.get(&key))
            .cloned();
        // An operation belongs to one pool, so its first step says whose it is.
        let first = (key.0.clone(), StepId::new(""));
        let foreign = self
            .rows
            .steps
            .range(first..)
            .next()
            .filter(|((operation, _), (pool, _))| *operation == key.0 && *pool != self.authority.pool);
        if foreign.is_some() {
            return Err(StoreError::IntentChanged(key.0, key.1));
        }
        let (attempts, result) = match recorded {
            None => (1, Committed::Done),
            Some((pool, mut step)) => match step.outcome {
                StepOutcome::Applied => return Ok(Committed::Recorded(Box::new(step))),
                StepOutcome::Unknown => {
                    step.attempts = step.attempts.saturating_add(1);
                    step.at = self.now;
                    self.steps.insert(key, (pool, step.clone()));
                    return Ok(Committed::Recorded(Box::new(step)));
                }
                StepOutcome::Refused => (step.attempts.saturating_add(1), Committed::Done),
            },
        };
        let step = JournalStep {
            request: request.clone(),
            outcome: StepOutcome::Unknown,
            attempts,
            at: self.now,
        };
        self.steps.insert(key, (self.authority.pool.clone(), step));
        Ok(result)
    }

    fn finish_step(
        &mut self,
        operation: &OperationId,
        step: &StepId,
        outcome: StepOutcome,
    ) -> Result<Committed, StoreError> {
        let key = (operation.clone(), step.clone());
        let recorded = self
            .steps
            .get(&key)
            .or_else(|| self.rows.steps.get(&key))
            .cloned();
        let Some((pool, mut recorded)) = recorded.filter(|(pool, _)| *pool == self.authority.pool) else {
            return Err(rules::missing_step(operation, step));
        };
        if outcome == StepOutcome::Unknown
            || recorded.outcome == StepOutcome::Applied
            || recorded.outcome == outcome
        {
            return Ok(Committed::Kept);
        }
        recorded.outcome = outcome;
        recorded.at = self.now;
        self.steps.insert(key, (pool, recorded));
        Ok(Committed::Done)
    }
}
