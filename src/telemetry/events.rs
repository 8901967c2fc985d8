//! One struct per happening. `emit` is the only place that logs it and counts it.

use super::counters::{COUNTERS, bump};
use crate::pool::evidence::Evidence;
use crate::pool::ids::{Epoch, InstanceId, NodeName, NodeUid, ObjectName, PoolId};
use crate::pool::phase::Phase;

/// The first acceptance of a replacement: durable evidence was written now.
#[derive(Debug)]
pub struct ReplacementAccepted<'a> {
    /// Which pool.
    pub pool: &'a PoolId,
    /// Which instance.
    pub instance: &'a InstanceId,
    /// What was recorded.
    pub evidence: &'a Evidence,
}

impl ReplacementAccepted<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        bump(
            &COUNTERS.evidence,
            &[
                ("pool", self.pool.as_str()),
                ("reason", self.evidence.reason.as_str()),
            ],
        );
        tracing::info!(
            pool = %self.pool,
            instance = %self.instance,
            node = %self.evidence.node_name,
            node_uid = %self.evidence.node_uid,
            nodeclaim = %self.evidence.nodeclaim_name,
            nodeclaim_uid = %self.evidence.nodeclaim_uid,
            reason = self.evidence.reason.as_str(),
            detail = self.evidence.detail.as_deref().unwrap_or_default(),
            "node replacement accepted"
        );
    }
}

/// A cordon was attempted.
#[derive(Debug)]
pub struct CordonAttempted<'a> {
    /// Which pool.
    pub pool: &'a PoolId,
    /// Which instance's row justifies it.
    pub instance: &'a InstanceId,
    /// Which node.
    pub node: &'a NodeName,
    /// Which machine of that name.
    pub node_uid: &'a NodeUid,
    /// What came of it, CamelCase.
    pub outcome: &'a str,
    /// Why, where it was refused.
    pub detail: &'a str,
}

impl CordonAttempted<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        bump(
            &COUNTERS.cordons,
            &[("pool", self.pool.as_str()), ("outcome", self.outcome)],
        );
        tracing::info!(
            pool = %self.pool,
            instance = %self.instance,
            node = %self.node,
            node_uid = %self.node_uid,
            outcome = self.outcome,
            detail = self.detail,
            "cordon"
        );
    }
}

/// A pod of ours was found unprotected and patched.
#[derive(Debug)]
pub struct PodProtected<'a> {
    /// Which pool.
    pub pool: &'a PoolId,
    /// Which instance.
    pub instance: &'a InstanceId,
    /// Which pod.
    pub pod: &'a ObjectName,
    /// What the annotation said before; `None` when it was absent.
    pub found: Option<&'a str>,
    /// What came of the patch, CamelCase.
    pub outcome: &'a str,
}

impl PodProtected<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        let found = if self.found.is_some() { "other" } else { "absent" };
        bump(
            &COUNTERS.protections,
            &[
                ("pool", self.pool.as_str()),
                ("found", found),
                ("outcome", self.outcome),
            ],
        );
        tracing::info!(
            pool = %self.pool,
            instance = %self.instance,
            pod = %self.pod,
            found = self.found.unwrap_or_default(),
            outcome = self.outcome,
            "pod protection"
        );
    }
}

/// A lifecycle action was started: a create or a planned drain.
#[derive(Debug)]
pub struct ActionStarted<'a> {
    /// Which pool.
    pub pool: &'a PoolId,
    /// Which instance.
    pub instance: &'a InstanceId,
    /// `create`, `repair` or `drain`.
    pub action: &'a str,
    /// The plan's reason in words.
    pub reason: &'a str,
}

impl ActionStarted<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        bump(
            &COUNTERS.actions,
            &[("pool", self.pool.as_str()), ("action", self.action)],
        );
        tracing::info!(
            pool = %self.pool,
            instance = %self.instance,
            action = self.action,
            reason = self.reason,
            "lifecycle action"
        );
    }
}

/// An instance's row moved to another phase.
#[derive(Debug)]
pub struct PhaseChanged<'a> {
    /// Which pool.
    pub pool: &'a PoolId,
    /// Which instance.
    pub instance: &'a InstanceId,
    /// From where.
    pub from: Phase,
    /// To where.
    pub to: Phase,
    /// Seconds spent in the former phase.
    pub after_seconds: i64,
}

impl PhaseChanged<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        bump(
            &COUNTERS.phases,
            &[("pool", self.pool.as_str()), ("phase", self.to.as_str())],
        );
        tracing::info!(
            pool = %self.pool,
            instance = %self.instance,
            from = self.from.as_str(),
            to = self.to.as_str(),
            after_seconds = self.after_seconds,
            "phase"
        );
    }
}

/// A candidate was given up.
#[derive(Debug)]
pub struct CandidateGivenUp<'a> {
    /// Which pool.
    pub pool: &'a PoolId,
    /// Which instance.
    pub instance: &'a InstanceId,
    /// The class.
    pub cause: &'a str,
    /// One sentence.
    pub detail: &'a str,
}

impl CandidateGivenUp<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        bump(
            &COUNTERS.candidate_failures,
            &[("pool", self.pool.as_str()), ("cause", self.cause)],
        );
        tracing::warn!(
            pool = %self.pool,
            instance = %self.instance,
            cause = self.cause,
            detail = self.detail,
            "candidate given up"
        );
    }
}

/// An actor died or hung and was replaced.
#[derive(Debug)]
pub struct ActorRestarted<'a> {
    /// `pool` or `instance`.
    pub kind: &'a str,
    /// Which one.
    pub name: &'a str,
    /// `panicked`, `failed` or `hung`.
    pub reason: &'a str,
    /// What it said.
    pub detail: &'a str,
}

impl ActorRestarted<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        bump(
            &COUNTERS.restarts,
            &[("kind", self.kind), ("reason", self.reason)],
        );
        tracing::warn!(
            kind = self.kind,
            name = self.name,
            reason = self.reason,
            detail = self.detail,
            "actor restarted"
        );
    }
}

/// Leadership was gained or lost.
#[derive(Debug)]
pub struct LeadershipChanged<'a> {
    /// `gained`, `lost`, `released` or `yielded`.
    pub what: &'a str,
    /// Why.
    pub detail: &'a str,
}

impl LeadershipChanged<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        bump(&COUNTERS.leadership, &[("what", self.what)]);
        tracing::info!(what = self.what, detail = self.detail, "leadership");
    }
}

/// A write was refused because authority over the pool is elsewhere.
#[derive(Debug)]
pub struct AuthorityLost<'a> {
    /// Which pool.
    pub pool: &'a PoolId,
    /// The epoch that is over.
    pub epoch: Epoch,
    /// Who refused: `store` or `gateway`.
    pub refused_by: &'a str,
}

impl AuthorityLost<'_> {
    /// Logs and counts it.
    pub fn emit(&self) {
        bump(
            &COUNTERS.fenced,
            &[("pool", self.pool.as_str()), ("by", self.refused_by)],
        );
        tracing::warn!(
            pool = %self.pool,
            epoch = self.epoch.get(),
            refused_by = self.refused_by,
            "authority over the pool is elsewhere; this term is over"
        );
    }
}
