//! The named writes as statements, in the words that Postgres and SQLite share.
//!
//! What one statement can decide, it decides (first write wins, compare and set); a second statement is
//! sent only to say why nothing changed.

use jiff::Timestamp;

use super::session::{Arg, Reads, Session};
use crate::gateway::model::MemberRequest;
use crate::pool::evidence::{Evidence, ReplacementNode};
use crate::pool::ids::{InstanceId, ObjectUid, OperationId, SpecGeneration, StepId};
use crate::pool::instance::{CandidateFailure, InstanceChanges};
use crate::pool::phase::Phase;
use crate::store::port::{
    Authority, Committed, JournalStep, NewInstance, Recovery, StepOutcome, StoreError, Write,
};
use crate::store::rows::{self, FenceDocument, StepContextDocument};
use crate::store::rules;

/// A transaction whose authority was compared under the pool's row lock.
pub(super) struct Fenced<'a> {
    pub session: &'a mut dyn Session,
    pub reads: &'static Reads,
    pub authority: &'a Authority,
    pub fence: FenceDocument,
    pub now: Timestamp,
}

impl Fenced<'_> {
    pub(super) async fn write(&mut self, write: &Write) -> Result<Committed, StoreError> {
        match write {
            Write::PublishDesired {
                resource,
                generation,
                desired,
            } => self.publish(resource, *generation, desired).await,
            Write::SetMode(mode) => {
                let args = vec![Arg::json(mode)?, self.pool()];
                self.session
                    .execute("UPDATE pools SET mode = $1 WHERE id = $2", args)
                    .await?;
                Ok(Committed::Done)
            }
            Write::CreateInstance(new) => self.create(new).await,
            Write::Advance {
                instance,
                from,
                to,
                changes,
            } => self.advance(instance, *from, *to, changes).await,
            Write::Update { instance, changes } => self.update(instance, changes).await,
            Write::RecordEvidence { instance, evidence } => self.record_evidence(instance, evidence).await,
            Write::AppendReplacementNode { instance, node } => self.append_node(instance, node).await,
            Write::BeginStep(request) => self.begin_step(request).await,
            Write::FinishStep {
                operation,
                step,
                outcome,
            } => self.finish_step(operation, step, *outcome).await,
            Write::RememberFailure(failure) => self.remember(failure).await,
            Write::ForgetFailures => {
                let args = vec![self.pool()];
                self.session
                    .execute("DELETE FROM pool_failures WHERE pool_id = $1", args)
                    .await?;
                Ok(Committed::Done)
            }
            Write::RecordOrphan { instance, kind, uid } => {
                self.record_orphan(instance, kind.as_str(), uid).await
            }
        }
    }

    fn pool(&self) -> Arg {
        Arg::text(&self.authority.pool)
    }

    /// `Kept` if the row is there and refused the change, else the refusal of a missing row.
    async fn kept_if_known(&mut self, instance: &InstanceId) -> Result<Committed, StoreError> {
        let args = vec![Arg::text(instance), self.pool()];
        if self.session.fetch(self.reads.known, args).await?.is_empty() {
            return Err(rules::missing_instance(instance));
        }
        Ok(Committed::Kept)
    }

    async fn publish(
        &mut self,
        resource: &ObjectUid,
        generation: SpecGeneration,
        desired: &crate::pool::desired::DesiredPool,
    ) -> Result<Committed, StoreError> {
        let identity = crate::store::port::PoolIdentity {
            id: self.authority.pool.clone(),
            namespace: self.fence.namespace.clone(),
            routing_group: self.fence.routing_group.clone(),
        };
        let recorded = self
            .fence
            .resource
            .as_ref()
            .map(|uid| (uid, self.fence.generation));
        rules::may_publish(&identity, recorded, resource, generation, desired)?;
        let args = vec![
            Arg::text(resource),
            Arg::count(generation.get())?,
            Arg::json(desired)?,
            self.pool(),
        ];
        self.session
            .execute(
                "UPDATE pools SET resource = $1, generation = $2, desired = $3 WHERE id = $4",
                args,
            )
            .await?;
        self.fence.resource = Some(resource.clone());
        self.fence.generation = generation;
        Ok(Committed::Done)
    }

    async fn create(&mut self, new: &NewInstance) -> Result<Committed, StoreError> {
        let args = vec![
            Arg::text(&new.id),
            self.pool(),
            Arg::text(&new.release),
            Arg::text(&new.spec_digest),
            Arg::json(&new.blueprint)?,
            Arg::text(Phase::Pending),
            Arg::Time(self.now),
            Arg::count(self.authority.epoch.get())?,
            Arg::Text(new.repair_for.as_ref().map(ToString::to_string)),
            Arg::json(&new.excluded_nodes)?,
        ];
        let inserted = self
            .session
            .execute(
                "INSERT INTO instances (id, pool_id, release_id, spec_digest, blueprint, phase, phase_changed_at,
                    owner_epoch, repair_for, excluded_nodes, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $7) ON CONFLICT (id) DO NOTHING",
                args,
            )
            .await?;
        if inserted == 0 {
            return Err(rules::conflict(&new.id, rules::ID_USED));
        }
        Ok(Committed::Done)
    }

    async fn advance(
        &mut self,
        instance: &InstanceId,
        from: Phase,
        to: Phase,
        changes: &InstanceChanges,
    ) -> Result<Committed, StoreError> {
        rules::may_advance(instance, from, to)?;
        let mut args = change_args(changes)?;
        args.extend([
            Arg::text(instance),
            self.pool(),
            Arg::text(from),
            Arg::text(to),
            Arg::Time(self.now),
            Arg::count(self.authority.epoch.get())?,
        ]);
        let updated = self
            .session
            .execute(
                "UPDATE instances SET objects = COALESCE($1, objects), process = COALESCE($2, process),
                    member = COALESCE($3, member), receipt = COALESCE($4, receipt), failure = COALESCE($5, failure),
                    phase = $9, phase_changed_at = $10, owner_epoch = $11
                 WHERE id = $6 AND pool_id = $7 AND phase = $8",
                args,
            )
            .await?;
        if updated == 0 {
            self.kept_if_known(instance).await?;
            return Err(rules::not_in_phase(instance, from));
        }
        Ok(Committed::Done)
    }

    async fn update(
        &mut self,
        instance: &InstanceId,
        changes: &InstanceChanges,
    ) -> Result<Committed, StoreError> {
        let mut args = change_args(changes)?;
        args.extend([Arg::text(instance), self.pool()]);
        let updated = self
            .session
            .execute(
                "UPDATE instances SET objects = COALESCE($1, objects), process = COALESCE($2, process),
                    member = COALESCE($3, member), receipt = COALESCE($4, receipt), failure = COALESCE($5, failure)
                 WHERE id = $6 AND pool_id = $7",
                args,
            )
            .await?;
        if updated == 0 {
            return Err(rules::missing_instance(instance));
        }
        Ok(Committed::Done)
    }

    async fn record_evidence(
        &mut self,
        instance: &InstanceId,
        evidence: &Evidence,
    ) -> Result<Committed, StoreError> {
        rules::may_record(instance, evidence)?;
        let args = vec![Arg::json(evidence)?, Arg::text(instance), self.pool()];
        let changed = self
            .session
            .execute(
                "UPDATE instances SET node_replacement_evidence = $1
                 WHERE id = $2 AND pool_id = $3 AND node_replacement_evidence IS NULL
                    AND phase NOT IN ('RETIRED', 'FAILURE_RETIRED')",
                args,
            )
            .await?;
        if changed == 0 {
            return self.kept_if_known(instance).await;
        }
        Ok(Committed::Done)
    }

    async fn append_node(
        &mut self,
        instance: &InstanceId,
        node: &ReplacementNode,
    ) -> Result<Committed, StoreError> {
        let args = vec![
            Arg::text(instance),
            self.pool(),
            Arg::text(&node.node_name),
            Arg::text(&node.node_uid),
            Arg::text(&node.nodeclaim_name),
            Arg::text(&node.nodeclaim_uid),
            Arg::text(node.reason.as_str()),
            Arg::Time(rules::stored_time(node.observed_at)),
        ];
        let inserted = self
            .session
            .execute(
                "INSERT INTO replacement_nodes
                    (instance_id, node_name, node_uid, nodeclaim_name, nodeclaim_uid, reason, observed_at)
                 SELECT i.id, $3, $4, $5, $6, $7, $8 FROM instances i WHERE i.id = $1 AND i.pool_id = $2
                 ON CONFLICT (instance_id, node_uid, nodeclaim_uid, reason) DO NOTHING",
                args,
            )
            .await?;
        if inserted == 0 {
            return self.kept_if_known(instance).await;
        }
        Ok(Committed::Done)
    }

    async fn begin_step(&mut self, request: &MemberRequest) -> Result<Committed, StoreError> {
        let (operation, step) = (&request.operation, &request.step);
        let args = vec![
            Arg::text(operation),
            Arg::text(step),
            Arg::text(&request.instance),
            self.pool(),
        ];
        let found = self.session.fetch(self.reads.step, args).await?;
        let mut context = None;
        let mut recorded = None;
        for one in &found {
            if one.part == "context" {
                context = Some(rows::document::<StepContextDocument>(one)?);
            } else {
                recorded = Some(one);
            }
        }
        if context.as_ref().is_none_or(|known| known.instance_known == 0) {
            return Err(rules::missing_instance(&request.instance));
        }
        let owner = context.and_then(|known| known.pool_id);
        if owner.as_ref().is_some_and(|pool| *pool != self.authority.pool) {
            return Err(StoreError::IntentChanged(operation.clone(), step.clone()));
        }
        if let Some(recorded) = recorded {
            match rows::step_outcome(recorded)? {
                StepOutcome::Applied => {
                    return Ok(Committed::Recorded(Box::new(rows::readable_step(recorded)?)));
                }
                StepOutcome::Unknown => return self.send_again(rows::readable_step(recorded)?).await,
                StepOutcome::Refused => {}
            }
        }
        if owner.is_none() {
            let args = vec![Arg::text(operation), self.pool(), Arg::Time(self.now)];
            self.session
                .execute(
                    "INSERT INTO operations (id, pool_id, created_at) VALUES ($1, $2, $3)",
                    args,
                )
                .await?;
        }
        let body = serde_json::to_string(request)
            .map_err(|error| StoreError::Corrupt("request".into(), error.to_string()))?;
        let args = vec![
            Arg::text(operation),
            Arg::text(step),
            Arg::text(&request.instance),
            Arg::text(body),
            Arg::text(stored_outcome(StepOutcome::Unknown)),
            Arg::Time(self.now),
        ];
        self.session
            .execute(
                "INSERT INTO operation_steps (operation_id, step_id, instance_id, request, outcome, attempts, at)
                 VALUES ($1, $2, $3, $4, $5, 1, $6)
                 ON CONFLICT (operation_id, step_id) DO UPDATE SET instance_id = excluded.instance_id,
                    request = excluded.request, outcome = excluded.outcome, at = excluded.at,
                    attempts = operation_steps.attempts + 1",
                args,
            )
            .await?;
        Ok(Committed::Done)
    }

    async fn send_again(&mut self, mut step: JournalStep) -> Result<Committed, StoreError> {
        step.attempts = step.attempts.saturating_add(1);
        step.at = self.now;
        let args = vec![
            Arg::count(step.attempts.into())?,
            Arg::Time(self.now),
            Arg::text(&step.request.operation),
            Arg::text(&step.request.step),
        ];
        self.session
            .execute(
                "UPDATE operation_steps SET attempts = $1, at = $2 WHERE operation_id = $3 AND step_id = $4",
                args,
            )
            .await?;
        Ok(Committed::Recorded(Box::new(step)))
    }

    async fn finish_step(
        &mut self,
        operation: &OperationId,
        step: &StepId,
        outcome: StepOutcome,
    ) -> Result<Committed, StoreError> {
        let args = vec![
            Arg::text(stored_outcome(outcome)),
            Arg::Time(self.now),
            Arg::text(operation),
            Arg::text(step),
            self.pool(),
        ];
        // A refused step may still turn out to have been applied (w12); nothing ever turns out unknown.
        let changed = self
            .session
            .execute(
                "UPDATE operation_steps SET outcome = $1, at = $2
                 WHERE operation_id = $3 AND step_id = $4
                    AND outcome IN ('UNKNOWN', 'REFUSED') AND outcome <> $1 AND $1 <> 'UNKNOWN'
                    AND EXISTS (SELECT 1 FROM operations o WHERE o.id = $3 AND o.pool_id = $5)",
                args,
            )
            .await?;
        if changed > 0 {
            return Ok(Committed::Done);
        }
        let args = vec![Arg::text(operation), Arg::text(step), Arg::text(""), self.pool()];
        let found = self.session.fetch(self.reads.step, args).await?;
        let ours = found.iter().any(|one| one.part == "step")
            && found
                .iter()
                .filter(|one| one.part == "context")
                .map(rows::document::<StepContextDocument>)
                .collect::<Result<Vec<_>, _>>()?
                .iter()
                .any(|known| known.pool_id.as_ref() == Some(&self.authority.pool));
        if ours {
            Ok(Committed::Kept)
        } else {
            Err(rules::missing_step(operation, step))
        }
    }

    async fn remember(&mut self, failure: &CandidateFailure) -> Result<Committed, StoreError> {
        let args = vec![
            self.pool(),
            Arg::text(failure.cause.as_str()),
            Arg::Time(self.now),
            Arg::text(&failure.detail),
        ];
        self.session
            .execute(
                "INSERT INTO pool_failures (pool_id, cause, count, last_at, detail) VALUES ($1, $2, 1, $3, $4)
                 ON CONFLICT (pool_id, cause) DO UPDATE SET count = pool_failures.count + 1,
                    last_at = excluded.last_at, detail = excluded.detail",
                args,
            )
            .await?;
        Ok(Committed::Done)
    }

    async fn record_orphan(
        &mut self,
        instance: &InstanceId,
        kind: &str,
        uid: &ObjectUid,
    ) -> Result<Committed, StoreError> {
        let args = vec![Arg::text(instance), self.pool()];
        let found = self.session.fetch(self.reads.known, args).await?;
        let Some(row) = found.first() else {
            return Err(rules::missing_instance(instance));
        };
        if !rows::document::<rows::KnownDocument>(row)?.phase().is_terminal() {
            return Err(rules::conflict(instance, rules::ORPHAN_OF_A_LIVE_ROW));
        }
        let args = vec![
            Arg::text(instance),
            Arg::text(kind),
            Arg::text(uid),
            Arg::Time(self.now),
        ];
        let inserted = self
            .session
            .execute(
                "INSERT INTO orphans (instance_id, kind, uid, recorded_at) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (instance_id, kind, uid) DO NOTHING",
                args,
            )
            .await?;
        Ok(if inserted == 0 {
            Committed::Kept
        } else {
            Committed::Done
        })
    }
}

/// `$1` to `$5` of every statement that changes a row: NULL leaves a column as it is.
fn change_args(changes: &InstanceChanges) -> Result<Vec<Arg>, StoreError> {
    Ok(vec![
        Arg::maybe_json(changes.objects.as_ref())?,
        Arg::maybe_json(changes.process.as_ref())?,
        Arg::maybe_json(changes.member.as_ref())?,
        Arg::maybe_json(changes.receipt.as_ref())?,
        Arg::maybe_json(changes.failure.as_ref())?,
    ])
}

const fn stored_outcome(outcome: StepOutcome) -> &'static str {
    match outcome {
        StepOutcome::Unknown => "UNKNOWN",
        StepOutcome::Applied => "APPLIED",
        StepOutcome::Refused => "REFUSED",
    }
}

pub(super) async fn insert_recovery(
    session: &mut dyn Session,
    recovery: &Recovery,
) -> Result<(), StoreError> {
    let args = vec![
        Arg::text(&recovery.operation),
        Arg::text(&recovery.instance),
        Arg::count(recovery.expected_generation.get())?,
        Arg::text(&recovery.incarnation),
        Arg::text(&recovery.pod_uid),
        Arg::text(&recovery.boot_id),
        Arg::text(&recovery.node_id),
        Arg::text(&recovery.coordinator_id),
        Arg::text(&recovery.requested_by),
        Arg::text(&recovery.reason),
        Arg::Time(rules::stored_time(recovery.created_at)),
    ];
    session
        .execute(
            "INSERT INTO recoveries (operation, instance, expected_generation, incarnation, pod_uid, boot_id,
                node_id, coordinator_id, requested_by, reason, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            args,
        )
        .await?;
    Ok(())
}
