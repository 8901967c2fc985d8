//! What the pool says about itself: the report to the supervisor, the TrinoPool's status, and Events.
//!
//! The status is written when something but the wording changed, or a minute after the last write, so
//! that a quiet pool costs no requests.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::Brain;
use super::children::Live;
use crate::actors::faults;
use crate::actors::messages::{PoolMsg, PoolReport, ResourceReading, SupervisorMsg};
use crate::actors::status::{InstanceStatus, PoolStatus, Switch};
use crate::cluster::facts::PoolResource;
use crate::cluster::port::{ClusterError, EventRecord, EventSubject, Written};
use crate::pool::desired::{FreezeReason, PoolMode};
use crate::pool::ids::StoreId;
use crate::pool::observation::Fault;
use crate::pool::plan::InstanceView;
use crate::pool::status::{NodeReplacementState, StatusInput, pool_status, standstill};
use crate::pool::step::WaitReason;
use crate::pool::validate::{SpecProblem, describe};
use crate::telemetry::counters::{COUNTERS, bump};

/// Wording alone is written at most this often.
const WORDING_EVERY: Duration = Duration::from_mins(1);

/// What was written to the resource last.
#[derive(Debug, Default)]
pub(super) struct Published {
    status: Option<(Value, Duration)>,
    writing_status: bool,
    writing_finalizer: bool,
    /// The conditions as they stand, for their transition times.
    conditions: Vec<Condition>,
    announced: Option<Fault>,
}

impl Brain {
    /// Tells the supervisor, and the resource if it has to be told.
    pub(super) fn report(&mut self) {
        let status = self.pool_status();
        let views = self.views();
        self.write_status(&status, &views);
        let report = PoolReport {
            pool: self.pool.clone(),
            status,
            replacing: self.row.is_some().then(|| self.is_replacing(&views)),
            wants_to_replace: self.wish,
            finished: self.finished,
        };
        let _ = self
            .supervisor
            .send_message(SupervisorMsg::Report(Box::new(report)));
    }

    fn pool_status(&self) -> PoolStatus {
        let desired = self.desired().filter(|_| self.mode.trusts_its_store());
        PoolStatus {
            mode: self.mode.clone(),
            epoch: self.epoch(),
            generation: self.row.as_ref().map(|row| row.generation).unwrap_or_default(),
            desired: desired.map(|desired| desired.instances),
            floor: desired.map(|desired| desired.min_serving),
            serving: self.serving(),
            release: desired.map(|desired| desired.blueprint.release.clone()),
            plan: self.plan.clone(),
            node_replacement: self.switch(),
            gateway: self.gateway.fault.clone(),
            store: self
                .store_fault
                .as_ref()
                .map(|fault| (fault.fault.clone(), fault.since)),
            faults: self.faults.values().cloned().collect(),
            instances: self
                .live
                .iter()
                .filter(|(_, live)| !live.row.phase.is_terminal())
                .map(|(id, live)| (id.clone(), instance_status(live)))
                .collect(),
            restarts: None,
            probes: self.probes,
            counts: self.counts,
            in_flight: self.live.values().filter(|live| !live.is_idle()).count(),
        }
    }

    /// A hard prerequisite that fails shows as Blocked.
    fn switch(&self) -> Switch {
        if self.settings.node_replacement && self.desired().is_none() {
            return Switch::Unknown;
        }
        if self.nodes().is_none() {
            return Switch::Off;
        }
        if let Some((label, detail)) = standstill(&self.mode) {
            return Switch::Blocked(Fault {
                label,
                subject: "trinopool".to_owned(),
                detail,
            });
        }
        let inventory = self
            .snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.claims.as_ref().err());
        let surge = self.desired().is_some_and(|desired| desired.max_surge == 0);
        if let Some(fault) = inventory {
            Switch::Blocked(fault.clone())
        } else if surge {
            Switch::Blocked(Fault {
                label: "SurgeZero",
                subject: "spec.maxSurge".to_owned(),
                detail: "a replacement needs at least one surge instance".to_owned(),
            })
        } else {
            Switch::On
        }
    }

    /// A spec that was never valid: there is no pool yet, only something to say.
    pub(super) fn refuse_first_spec(&mut self, problems: &[SpecProblem]) {
        let detail = describe(problems);
        self.mode = PoolMode::Held(detail.clone());
        let fault = Fault {
            label: "SpecInvalid",
            subject: "trinopool".to_owned(),
            detail,
        };
        self.announce_fault(Some(&fault));
        self.note("resource", Some(fault));
    }

    /// An Event and a count when the fault of the resource is another one than before.
    pub(super) fn announce_fault(&mut self, fault: Option<&Fault>) {
        if self.published.announced.as_ref() == fault {
            return;
        }
        self.published.announced = fault.cloned();
        let Some(fault) = fault.cloned() else { return };
        if fault.label == "SpecInvalid" {
            bump(&COUNTERS.invalid_specs, &[("pool", self.pool.as_str())]);
        }
        self.announce(true, fault.label, fault.detail);
    }

    /// Publishes an Event about the TrinoPool. Losing one is not a fault.
    pub(super) fn announce(&mut self, warning: bool, reason: &str, message: String) {
        let Some(resource) = self.resource() else { return };
        let event = EventRecord {
            about: EventSubject::Pool(
                resource.namespace.clone(),
                resource.name.clone(),
                resource.uid.clone(),
            ),
            warning,
            reason: reason.to_owned(),
            message,
        };
        let (ports, limit) = (self.ports.clone(), self.settings.effect_deadline);
        self.reap();
        self.tasks.spawn(async move {
            match ports.guarded(limit, ports.cluster.publish(&event)).await {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!(error = %error, reason = %event.reason, "an Event was lost");
                }
                None => tracing::debug!(reason = %event.reason, "an Event was lost"),
            }
        });
    }

    fn resource(&self) -> Option<&PoolResource> {
        match &self.order.as_ref()?.resource {
            ResourceReading::Present(resource) => Some(resource),
            ResourceReading::Absent | ResourceReading::Unreadable(_) => None,
        }
    }

    pub(super) fn write_finalizer(&mut self, present: bool) {
        let Some(resource) = self.resource().cloned() else {
            return;
        };
        if self.published.writing_finalizer || !self.may_act() {
            return;
        }
        self.published.writing_finalizer = true;
        let cluster = self.ports.cluster.clone();
        self.write_resource("finalizer", async move {
            let call = cluster.set_pool_finalizer(
                &resource.namespace,
                &resource.name,
                &resource.uid,
                &resource.resource_version,
                present,
            );
            call.await
        });
    }

    fn write_resource(
        &mut self,
        what: &'static str,
        write: impl Future<Output = Result<Written, ClusterError>> + Send + 'static,
    ) {
        self.writes_in_flight += 1;
        let limit = self.settings.effect_deadline;
        let otherwise = PoolMsg::ResourceWritten {
            what,
            result: Err(faults::timed_out(what, limit)),
        };
        self.start(otherwise, async move {
            let result = write.await.map_err(|error| faults::of_cluster(what, &error));
            PoolMsg::ResourceWritten { what, result }
        });
    }

    fn write_status(&mut self, status: &PoolStatus, views: &[InstanceView]) {
        let Some(resource) = self.resource().cloned() else {
            return;
        };
        let Some(store) = self.store_id.clone() else {
            return;
        };
        if self.published.writing_status || self.quiescing {
            return;
        }
        // A store that is not the one that acted before does not claim to be.
        let store = match &self.mode {
            PoolMode::Frozen(FreezeReason::StoreMismatch) => resource.store.clone(),
            PoolMode::Open
            | PoolMode::Held(_)
            | PoolMode::Frozen(_)
            | PoolMode::Retained
            | PoolMode::Emptying => match self.authority {
                Some(_) => Some(store),
                None => resource.store.clone(),
            },
        };
        let Some(body) = self.status_body(status, views, store.as_ref(), &resource) else {
            return;
        };
        let now = self.ports.clock.monotonic();
        if let Some((last, at)) = &self.published.status {
            let reworded_lately = now.saturating_sub(*at) < WORDING_EVERY;
            if *last == body || (without_wording(last) == without_wording(&body) && reworded_lately) {
                return;
            }
        }
        self.published.status = Some((body.clone(), now));
        self.published.writing_status = true;
        let cluster = self.ports.cluster.clone();
        self.write_resource("status", async move {
            let call = cluster.set_pool_status(&resource.namespace, &resource.name, &resource.uid, &body);
            call.await
        });
    }

    pub(super) fn resource_written(&mut self, what: &'static str, result: Result<Written, Fault>) {
        self.writes_in_flight = self.writes_in_flight.saturating_sub(1);
        if what == "status" {
            self.published.writing_status = false;
        } else {
            self.published.writing_finalizer = false;
        }
        let fault = match result {
            Ok(Written::Applied) => None,
            // Another version or another resource: the next tick writes over what it reads then.
            Ok(Written::Conflict(_) | Written::Absent) => {
                self.published.status = None;
                None
            }
            Ok(Written::Denied(detail)) => Some(Fault {
                label: "WriteDenied",
                subject: what.to_owned(),
                detail,
            }),
            Err(fault) => Some(fault),
        };
        if fault.is_some() {
            self.published.status = None;
        }
        self.note(what, fault);
    }

    /// The status as the resource carries it (`pool::status`), from the last plan.
    fn status_body(
        &mut self,
        status: &PoolStatus,
        views: &[InstanceView],
        store: Option<&StoreId>,
        resource: &PoolResource,
    ) -> Option<Value> {
        let node_replacement = match &status.node_replacement {
            Switch::Off if self.settings.node_replacement => {
                NodeReplacementState::Off("spec.nodeReplacement.enabled is not true".to_owned())
            }
            Switch::Off => NodeReplacementState::Off("the process flag is off".to_owned()),
            Switch::Unknown => NodeReplacementState::Unknown,
            Switch::On => NodeReplacementState::Active,
            Switch::Blocked(fault) => NodeReplacementState::Blocked {
                reason: fault.label.to_owned(),
                message: fault.detail.clone(),
            },
        };
        let blind = |live: &Live| {
            live.waiting
                .as_ref()
                .is_some_and(|waiting| waiting.reason == WaitReason::ProbesBlind)
        };
        let input = StatusInput {
            generation: resource.generation,
            store,
            mode: &self.mode,
            desired: self.desired(),
            views,
            plan: self.last_plan.as_ref(),
            node_replacement: &node_replacement,
            impediment: self.live.values().find_map(impediment),
            probes_blind: self.live.values().any(blind),
            gateway: self
                .gateway
                .fault
                .as_ref()
                .map(|fault| (fault.label, fault.detail.as_str())),
            now: self.ports.clock.now(),
            previous: &self.published.conditions,
        };
        let derived = pool_status(&input);
        let body = serde_json::to_value(&derived);
        self.published.conditions = derived.conditions;
        match body {
            Ok(body) => Some(body),
            Err(error) => {
                tracing::error!(pool = %self.pool, error = %error, "the status cannot be encoded");
                None
            }
        }
    }
}

/// What was refused for good, for an instance that still needs it: it stays so until a person grants it.
fn impediment(live: &Live) -> Option<&Fault> {
    if live.row.phase.is_terminal() {
        return None;
    }
    let cordon = live
        .cordon_fault
        .as_ref()
        .filter(|fault| fault.label == faults::CORDON_DENIED);
    cordon.or(live.protection_fault.as_ref())
}

fn instance_status(live: &Live) -> InstanceStatus {
    let report = live.placement.as_ref();
    InstanceStatus {
        phase: live.row.phase,
        since: live.row.phase_changed_at,
        release: live.row.release.clone(),
        repair_for: live.row.repair_for.clone(),
        waiting: live.waiting.clone(),
        evidence: live.row.evidence.clone(),
        replacement_nodes: live.row.replacement_nodes.clone(),
        at_risk: report.map(|report| report.at_risk.clone()).unwrap_or_default(),
        nodes: live.nodes.clone(),
        faults: {
            // Several looks in one round may have said the same.
            let told = live.faults.iter().chain(&live.edited);
            let distinct: BTreeSet<Fault> = told.cloned().collect();
            distinct.into_iter().collect()
        },
        cordon: live.cordon_fault.clone(),
        performing: live.performing(),
    }
}

/// The status without sentences, which carry ages and counts.
fn without_wording(body: &Value) -> Value {
    match body {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(key, _)| *key != "message")
                .map(|(key, value)| (key.clone(), without_wording(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_wording).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => body.clone(),
    }
}
