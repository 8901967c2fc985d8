//! The store as the pool uses it: fenced commits, mirrored onto the rows in memory.
//!
//! A commit that did not come back leaves the rows in doubt: nothing is decided on their strength until
//! they were read again (fault R04). A refused fence ends the term, unless it is our own.

use std::time::Duration;

use super::Brain;
use super::children::Live;
use crate::actors::faults;
use crate::pool::ids::InstanceId;
use crate::pool::instance::{CandidateFailure, InstanceChanges};
use crate::pool::observation::Fault;
use crate::pool::outdated::blueprint_digest;
use crate::pool::phase::Phase;
use crate::pool::step::{ClosedStep, RowChange};
use crate::store::port::{Committed, FailureMemory, Mark, PoolSnapshot, StepOutcome, StoreError, Write};
use crate::telemetry::events::{CandidateGivenUp, PhaseChanged};

/// The store's own deadline is shorter in every adapter; this one only guards against a hang (O06).
pub(super) const STORE_LIMIT: Duration = Duration::from_secs(5);

/// Why the store cannot be written, or not be read.
#[derive(Clone, Debug)]
pub(super) struct StoreFault {
    pub(super) fault: Fault,
    pub(super) since: Duration,
    /// It was a read that failed: a successful read clears it.
    on_read: bool,
}

impl Brain {
    /// One call to the store, never longer than the limit.
    pub(super) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.ports.within(STORE_LIMIT, call).await {
            Some(result) => result,
            None => Err(StoreError::Unavailable(format!(
                "no answer within {STORE_LIMIT:?}"
            ))),
        }
    }

    /// Makes sure of the rows: read again unless they are known to stand as they were read. False when they
    /// cannot be read, and then the last ones stay as they are.
    pub(super) async fn refresh(&mut self, mark: Option<&Mark>) -> bool {
        let known = self
            .loaded
            .as_ref()
            .filter(|_| !self.must_reload && self.store_fault.is_none());
        // Both at hand: an unknown mark is not the same as another unknown one.
        if known.is_some_and(|known| Some(known) == mark) {
            return true;
        }
        self.load().await
    }

    /// Reads the pool.
    async fn load(&mut self) -> bool {
        let store = self.ports.store.clone();
        match self.call(store.load(&self.pool)).await {
            Ok(snapshot) => {
                self.must_reload = false;
                self.loaded = Some(snapshot.pool.mark());
                self.note("store-conflict", None);
                if self.store_fault.as_ref().is_some_and(|fault| fault.on_read) {
                    self.store_fault = None;
                }
                self.take_snapshot(snapshot);
                true
            }
            Err(error) => {
                self.store_failed("load", &error, true);
                false
            }
        }
    }

    fn take_snapshot(&mut self, snapshot: PoolSnapshot) {
        let PoolSnapshot {
            pool,
            instances,
            open_steps,
            recoveries,
        } = snapshot;
        self.identity = Some(pool.identity.clone());
        self.row = Some(pool);
        self.digest_desired();
        self.open_steps.adopt(open_steps);
        self.recoveries = recoveries;
        let known: std::collections::BTreeSet<InstanceId> =
            instances.iter().map(|row| row.id.clone()).collect();
        for row in instances {
            match self.live.get_mut(&row.id) {
                Some(live) => live.row = row,
                None => {
                    self.live.insert(row.id.clone(), Live::new(row));
                }
            }
        }
        self.live.retain(|id, live| {
            let stays = known.contains(id);
            if !stays {
                live.retire_actor();
            }
            stays
        });
    }

    fn digest_desired(&mut self) {
        let desired = self.desired().map(|desired| blueprint_digest(&desired.blueprint));
        self.desired_digest = desired;
    }

    /// Performs the writes under the fence, and the same on the rows in memory. `None`: not done, or
    /// not known to be done.
    pub(super) async fn commit(&mut self, writes: Vec<Write>) -> Option<Vec<Committed>> {
        match self.attempt(&writes).await? {
            Ok(results) => Some(results),
            Err(error) => {
                self.commit_failed(&writes, &error);
                None
            }
        }
    }

    /// Commits a newer desired state. A store that answers that it cannot hold it refuses the spec and
    /// nothing else (S11): says why, and what was recorded before stands.
    pub(super) async fn publish(&mut self, writes: Vec<Write>) -> Result<(), String> {
        match self.attempt(&writes).await {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(error @ (StoreError::Corrupt(..) | StoreError::Conflict(..)))) => {
                Err(format!("the store cannot hold this spec: {error}"))
            }
            Some(Err(
                error @ (StoreError::Fenced(_)
                | StoreError::IntentChanged(..)
                | StoreError::Forbidden(_)
                | StoreError::Unavailable(_)
                | StoreError::ReadOnly(_)
                | StoreError::Schema(_)),
            )) => {
                self.commit_failed(&writes, &error);
                Ok(())
            }
        }
    }

    /// One fenced commit. `None`: there is no authority, or it has ended with this, or it turned out to be
    /// held under a higher epoch than this was sent with; then nothing was written, and it comes again.
    async fn attempt(&mut self, writes: &[Write]) -> Option<Result<Vec<Committed>, StoreError>> {
        let authority = self.authority.clone()?;
        let store = self.ports.store.clone();
        let now = self.ports.clock.now();
        match self.call(store.commit(&authority, now, writes)).await {
            Ok(results) => {
                self.store_fault = None;
                // The rows in memory follow below; the next round reads how they stand.
                self.loaded = None;
                for (write, result) in writes.iter().zip(&results) {
                    self.mirror(write, result, now);
                }
                Some(Ok(results))
            }
            Err(StoreError::Fenced(_)) => {
                if !self.overtook_itself().await {
                    self.end_term("store");
                }
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn commit_failed(&mut self, writes: &[Write], error: &StoreError) {
        let labels: Vec<&str> = writes.iter().map(Write::label).collect();
        self.store_failed(&labels.join(" "), error, false);
        // What stands now is known only after another look.
        self.must_reload = true;
    }

    fn store_failed(&mut self, what: &str, error: &StoreError, on_read: bool) {
        let fault = faults::of_store(what, error);
        tracing::warn!(pool = %self.pool, what, error = %error, "the store");
        let lasting = match error {
            StoreError::Unavailable(_)
            | StoreError::ReadOnly(_)
            | StoreError::Schema(_)
            | StoreError::Corrupt(..) => true,
            // Refused by the rules of the rows: the store works.
            StoreError::Conflict(..)
            | StoreError::IntentChanged(..)
            | StoreError::Forbidden(_)
            | StoreError::Fenced(_) => false,
        };
        if !lasting {
            self.note("store-conflict", Some(fault));
            return;
        }
        let since = self
            .store_fault
            .as_ref()
            .map_or_else(|| self.ports.clock.monotonic(), |known| known.since);
        // A failed write stays failed until a write succeeds; reads may well succeed meanwhile.
        let on_read = on_read && self.store_fault.as_ref().is_none_or(|known| known.on_read);
        self.store_fault = Some(StoreFault {
            fault,
            since,
            on_read,
        });
    }

    /// While only writes fail, every round tries one, so that the end of the failure is noticed.
    pub(super) async fn try_store_again(&mut self) {
        let writes_fail = self.store_fault.as_ref().is_some_and(|fault| !fault.on_read);
        let Some(mode) = self.row.as_ref().map(|row| row.mode.clone()) else {
            return;
        };
        if writes_fail && self.authority.is_some() {
            self.commit(vec![Write::SetMode(mode)]).await;
        }
    }

    fn mirror(&mut self, write: &Write, result: &Committed, now: jiff::Timestamp) {
        let now = crate::store::rules::stored_time(now);
        let epoch = self.epoch();
        match write {
            Write::PublishDesired {
                resource,
                generation,
                desired,
            } => {
                if let Some(row) = &mut self.row {
                    row.resource = Some(resource.clone());
                    row.generation = *generation;
                    row.desired = Some(Ok((**desired).clone()));
                }
                self.digest_desired();
            }
            Write::SetMode(mode) => {
                if let Some(row) = &mut self.row {
                    row.mode = mode.clone();
                }
            }
            Write::Advance {
                instance,
                from,
                to,
                changes,
            } => self.mirror_advance(instance, (*from, *to), changes, now, epoch),
            Write::Update { instance, changes } => {
                if let Some(live) = self.live.get_mut(instance) {
                    changes.apply_to(&mut live.row);
                }
            }
            Write::RecordEvidence { instance, evidence } => {
                if let (Some(live), Committed::Done) = (self.live.get_mut(instance), result) {
                    live.row.evidence = crate::pool::evidence::RecordedEvidence::Some(evidence.clone());
                }
            }
            Write::AppendReplacementNode { instance, node } => {
                if let (Some(live), Committed::Done) = (self.live.get_mut(instance), result) {
                    live.row.replacement_nodes.push(node.clone());
                }
            }
            Write::BeginStep(request) => {
                if *result == Committed::Done {
                    self.open_steps.begin(request.clone(), now);
                }
            }
            Write::FinishStep {
                operation,
                step,
                outcome,
            } => {
                if *outcome != StepOutcome::Unknown {
                    self.open_steps.finish(operation, step);
                }
            }
            Write::RememberFailure(failure) => {
                if let Some(row) = &mut self.row {
                    remember(&mut row.failures, failure, now);
                }
            }
            Write::ForgetFailures => {
                if let Some(row) = &mut self.row {
                    row.failures.clear();
                }
            }
            // A new row is read back by whoever created it; orphans are not kept in memory.
            Write::CreateInstance(_) | Write::RecordOrphan { .. } => {}
        }
    }

    fn mirror_advance(
        &mut self,
        instance: &InstanceId,
        (from, to): (Phase, Phase),
        changes: &InstanceChanges,
        now: jiff::Timestamp,
        epoch: crate::pool::ids::Epoch,
    ) {
        let Some(live) = self.live.get_mut(instance) else {
            return;
        };
        let after = now.duration_since(live.row.phase_changed_at).as_secs();
        changes.apply_to(&mut live.row);
        live.row.phase = to;
        live.row.phase_changed_at = now;
        live.row.owner_epoch = epoch;
        live.progressed = true;
        PhaseChanged {
            pool: &self.pool,
            instance,
            from,
            to,
            after_seconds: after,
        }
        .emit();
        if let (Phase::FailedPreparing, Some(failure)) = (to, &live.row.failure) {
            CandidateGivenUp {
                pool: &self.pool,
                instance,
                cause: failure.cause.as_str(),
                detail: &failure.detail,
            }
            .emit();
        }
    }

    /// The writes of a change of one row, and of the end of a step beside it.
    pub(super) fn change_writes(&self, id: &InstanceId, change: &RowChange) -> Vec<Write> {
        let mut writes = Vec::new();
        if let Some(ClosedStep {
            operation,
            step,
            outcome,
        }) = &change.closes
        {
            writes.push(Write::FinishStep {
                operation: operation.clone(),
                step: step.clone(),
                outcome: *outcome,
            });
        }
        let Some(live) = self.live.get(id) else {
            return writes;
        };
        let changes = Box::new(change.changes.clone());
        match change.to {
            Some(to) => {
                if to == Phase::FailedPreparing
                    && let Some(failure) = &change.changes.failure
                {
                    writes.push(Write::RememberFailure(failure.clone()));
                }
                let remembered = self.row.as_ref().is_some_and(|row| !row.failures.is_empty());
                if to == Phase::Admitted && remembered {
                    writes.push(Write::ForgetFailures);
                }
                writes.push(Write::Advance {
                    instance: id.clone(),
                    from: live.row.phase,
                    to,
                    changes,
                });
            }
            None if !change.changes.is_empty() => writes.push(Write::Update {
                instance: id.clone(),
                changes,
            }),
            None => {}
        }
        writes
    }
}

/// One more failure of its cause, as the store counts it: the plan of this very round must know.
fn remember(failures: &mut Vec<FailureMemory>, failure: &CandidateFailure, now: jiff::Timestamp) {
    match failures.iter_mut().find(|known| known.cause == failure.cause) {
        Some(known) => {
            known.count = known.count.saturating_add(1);
            known.last_at = now;
            known.detail.clone_from(&failure.detail);
        }
        None => failures.push(FailureMemory {
            cause: failure.cause,
            count: 1,
            last_at: now,
            detail: failure.detail.clone(),
        }),
    }
}
