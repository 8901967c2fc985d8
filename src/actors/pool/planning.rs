//! The plan of a round, and its at most one lifecycle action (S7).

use std::time::Duration;

use super::Brain;
use super::children::Live;
use crate::actors::status::PlanStatus;
use crate::cluster::facts::ClaimFacts;
use crate::pool::desired::{DesiredPool, Timings};
use crate::pool::evidence::{Disruption, RecordedEvidence};
use crate::pool::ids::{InstanceId, NodeName};
use crate::pool::lifecycle;
use crate::pool::outdated::{Outdated, blueprint_digest, outdated};
use crate::pool::plan::{
    Action, EvidenceView, InstanceView, Plan, PlanInput, PlanReason, PlanTimings, ReplacementBudget,
    holds_a_place, plan, wish,
};
use crate::pool::status::standstill;
use crate::pool::step::Effect;
use crate::store::port::{NewInstance, Write};
use crate::telemetry::events::ActionStarted;

/// Most nodes a new instance is steered away from (L5).
const EXCLUDED_MAX: usize = 100;
/// How long the refusal of a drain by the gateway's floor is remembered.
const REFUSED_DRAIN_KEPT: Duration = Duration::from_mins(1);
/// Ids tried before giving up for this round: each is 32 random bits.
const ID_ATTEMPTS: u32 = 8;

impl Brain {
    /// Plans with what is known now, starts at most one action, and ends the round.
    pub(super) async fn plan_now(&mut self) {
        self.last_plan = None;
        if self.may_act()
            && let Some(input) = self.plan_input()
        {
            let plan = plan(&input);
            tracing::debug!(pool = %self.pool, reason = %plan.reason, "plan");
            self.wish = wish(&plan);
            self.plan = PlanStatus {
                label: plan.reason.label().to_owned(),
                detail: plan.reason.to_string(),
            };
            self.last_plan = Some(plan.clone());
            self.act(plan).await;
        } else if let Some(fault) = &self.store_fault {
            self.plan = PlanStatus {
                label: fault.fault.label.to_owned(),
                detail: format!("nothing is decided: {}", fault.fault.detail),
            };
        } else if self.desired().is_none() {
            self.plan = PlanStatus {
                label: "NoDesiredState".to_owned(),
                detail: "no valid desired state was ever recorded".to_owned(),
            };
        }
        self.finish_round();
    }

    fn plan_input(&self) -> Option<PlanInput> {
        let desired = self.desired()?;
        let now = self.ports.clock.now();
        let mut input = PlanInput::new(desired, self.mode.clone(), now);
        input.failures = self
            .row
            .as_ref()
            .map(|row| row.failures.clone())
            .unwrap_or_default();
        let permitted = self.order.as_ref().is_some_and(|order| order.may_replace);
        input.budget = if permitted {
            ReplacementBudget::Unlimited
        } else {
            ReplacementBudget::Left(0)
        };
        input.gateway_active = self.gateway.pool.as_ref().map(|pool| pool.serving_members);
        input.views = self.views();
        Some(input)
    }

    /// The instances as the planner and the status see them.
    pub(super) fn views(&self) -> Vec<InstanceView> {
        let now = self.ports.clock.monotonic();
        let timings = self.timings();
        let live = self.live.values().filter(|live| !live.row.phase.is_terminal());
        live.map(|live| InstanceView {
            leaving: self.is_leaving(&live.row.id),
            leaving_since: self.leaving_since(&live.row.id),
            ..view(live, self.desired(), &timings, now)
        })
        .collect()
    }

    async fn act(&mut self, plan: Plan) {
        match plan.action {
            Action::None => {}
            Action::Create { repair_for } => self.create(repair_for, &plan.reason).await,
            Action::Drain(id) => self.drain(&id, &plan.reason).await,
        }
    }

    async fn create(&mut self, repair_for: Option<InstanceId>, reason: &PlanReason) {
        let Some(blueprint) = self.desired().map(|desired| desired.blueprint.clone()) else {
            return;
        };
        let Some(id) = self.new_id().await else { return };
        let action = if repair_for.is_some() { "repair" } else { "create" };
        let new = NewInstance {
            id: id.clone(),
            release: blueprint.release.clone(),
            spec_digest: blueprint_digest(&blueprint),
            blueprint,
            repair_for,
            excluded_nodes: self.leaving_nodes(),
        };
        if self
            .commit(vec![Write::CreateInstance(Box::new(new))])
            .await
            .is_none()
        {
            return;
        }
        self.tell_action(&id, action, reason);
        let store = self.ports.store.clone();
        match self.call(store.instance(&id)).await {
            Ok(Some(row)) => {
                self.live.insert(id.clone(), Live::new(row));
                self.start_created(&id).await;
            }
            // The next load brings it.
            Ok(None) | Err(_) => self.must_reload = true,
        }
    }

    /// The new row goes on at once; boxed, since its steps may end in the next plan.
    async fn start_created(&mut self, id: &InstanceId) {
        let needs = self.needs(id);
        let now = self.ports.clock.now();
        if needs == lifecycle::Needs::default() {
            if let Some(live) = self.live.get_mut(id) {
                let blank = crate::pool::observation::Observation::blank(now);
                live.seen = Some(std::sync::Arc::new(blank));
            }
            Box::pin(self.steps(id)).await;
        } else {
            self.ask(id, super::children::Job::Inspect(needs)).await;
        }
    }

    async fn drain(&mut self, id: &InstanceId, reason: &PlanReason) {
        let Some(live) = self.live.get(id) else { return };
        if !live.only_cordons() || self.open_steps.of(id).next().is_some() {
            // What it does already, or may have done, is settled first; the plan comes again.
            tracing::debug!(pool = %self.pool, instance = %id, "a drain waits for what is not settled");
            return;
        }
        let Some(request) = lifecycle::drain_request(&live.row) else {
            tracing::warn!(pool = %self.pool, instance = %id, "a drain was planned without a member");
            return;
        };
        if !self.gateway.accepts(self.epoch()) {
            // The reason of the plan stands; the drain starts once the gateway is back.
            return;
        }
        self.tell_action(id, "drain", reason);
        self.perform(id, Effect::Member(request)).await;
    }

    fn tell_action(&mut self, id: &InstanceId, action: &'static str, reason: &PlanReason) {
        let text = reason.to_string();
        ActionStarted {
            pool: &self.pool,
            instance: id,
            action,
            reason: &text,
        }
        .emit();
        self.announce(false, reason.label(), format!("{action} {id}: {text}"));
    }

    /// An id that no row, retired ones included, ever had.
    async fn new_id(&mut self) -> Option<InstanceId> {
        let store = self.ports.store.clone();
        for _ in 0..ID_ATTEMPTS {
            let id = InstanceId::from_bits(self.ports.entropy.next_u64());
            match self.call(store.instance(&id)).await {
                Ok(None) => return Some(id),
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::warn!(pool = %self.pool, error = %error, "no new id: the store did not answer");
                    return None;
                }
            }
        }
        None
    }

    /// Nodes known to be leaving, most relevant first: those of this pool's own rows, deleting before
    /// drifted, then those of the inventory, likewise (L5).
    fn leaving_nodes(&self) -> Vec<NodeName> {
        if self.nodes().is_none() {
            return Vec::new();
        }
        let mut ranked: Vec<(u8, NodeName)> = Vec::new();
        for live in self.live.values() {
            let first = live.row.evidence.valid().map(|e| (&e.node_name, e.reason));
            let further = live
                .row
                .replacement_nodes
                .iter()
                .map(|n| (&n.node_name, n.reason));
            for (node, reason) in first.into_iter().chain(further) {
                ranked.push((rank(reason), node.clone()));
            }
        }
        let claims = self
            .snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.claims.as_ref().ok());
        for claim in claims.iter().flat_map(|inventory| inventory.claims.values()) {
            if let (Some(reason), Some(node)) = (leaving(claim), &claim.node) {
                ranked.push((2 + rank(reason), node.clone()));
            }
        }
        ranked.sort();
        let mut nodes: Vec<NodeName> = Vec::new();
        for (_, node) in ranked {
            if nodes.len() < EXCLUDED_MAX && !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// Whether the pool holds a place in the budget of the whole cluster.
    pub(super) fn is_replacing(&self, views: &[InstanceView]) -> bool {
        let desired = self.desired().map(|desired| desired.instances);
        let timings = PlanTimings::from(&self.timings());
        let acts = self.may_act() && standstill(&self.mode).is_none();
        holds_a_place(views, desired, acts, &timings, self.ports.clock.now())
    }
}

fn rank(reason: Disruption) -> u8 {
    match reason {
        Disruption::Deleting => 0,
        Disruption::Drifted => 1,
    }
}

fn leaving(claim: &ClaimFacts) -> Option<Disruption> {
    if claim.deleted_at.is_some() {
        Some(Disruption::Deleting)
    } else {
        claim.drifted.is_some().then_some(Disruption::Drifted)
    }
}

fn view(live: &Live, desired: Option<&DesiredPool>, timings: &Timings, now: Duration) -> InstanceView {
    let row = &live.row;
    let refused = live.refused_drain.as_ref().filter(|(_, at)| {
        // Asked again after a while: another member may serve by then.
        now.saturating_sub(*at) < REFUSED_DRAIN_KEPT
    });
    InstanceView {
        id: row.id.clone(),
        phase: row.phase,
        suspected_locally: desired.is_some_and(|desired| live.is_doubtful(desired.timings.suspect_after)),
        answering: live.health.is_well(),
        unregistered: live.unregistered,
        leaving: live.sends_away(),
        leaving_since: None,
        member: row.member.as_ref().map(|member| member.phase),
        // Without a desired state nothing is behind it.
        outdated: desired.map_or(Outdated::No, |desired| {
            let wanted = &desired.blueprint;
            match outdated(&row.release, &row.spec_digest, &row.blueprint, wanted) {
                Outdated::No if live.edited.is_some() => Outdated::Edited,
                recorded => recorded,
            }
        }),
        evidence: evidence_view(live),
        at_risk: live
            .placement
            .as_ref()
            .is_some_and(|report| !report.at_risk.is_empty()),
        repair_for: row.repair_for.clone(),
        created_at: row.created_at,
        phase_changed_at: row.phase_changed_at,
        deadline: lifecycle::deadline(row, timings),
        outstanding: live.outstanding_work,
        waiting: refused
            .map(|(waiting, _)| waiting.clone())
            .or_else(|| live.waiting.clone()),
    }
}

/// Urgency follows the live reason without rewriting evidence (S3).
fn evidence_view(live: &Live) -> EvidenceView {
    match &live.row.evidence {
        RecordedEvidence::None => EvidenceView::None,
        RecordedEvidence::Unreadable(_) => EvidenceView::Unreadable,
        RecordedEvidence::Some(evidence) => {
            let seen = live.placement.iter().flat_map(|report| &report.evidence);
            let further = live.row.replacement_nodes.iter().map(|node| node.reason);
            let urgency = seen
                .clone()
                .map(|node| node.reason)
                .chain(further)
                .fold(evidence.reason, Disruption::max);
            EvidenceView::Some {
                urgency,
                observed_at: evidence.observed_at,
                deadline: seen.filter_map(|node| node.deadline).min(),
            }
        }
    }
}
