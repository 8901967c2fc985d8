//! From the row to a registered member: objects, pods, process, backend, registration.

use super::doom::{give_up, reason, wait_or_expire};
use super::requests::{backend_name, registration, registration_attempt};
use super::resolve;
use super::view::View;
use crate::cluster::facts::PodFacts;
use crate::gateway::model::{Backend, Member, MemberAction};
use crate::pool::instance::{InstanceChanges, ProcessIdentity};
use crate::pool::observation::{OwnedWorkload, Reading};
use crate::pool::phase::Phase;
use crate::pool::settle;
use crate::pool::step::{Effect, Next, RowChange, WaitReason};
use crate::store::port::StepOutcome;

/// PENDING: a row, and no object yet. What its deadline means is decided with the outcome.
pub(super) fn pending(view: View<'_>) -> Next {
    match reason(view) {
        Some(failure) => give_up(view, failure),
        None => Next::perform(Effect::ApplyObjects),
    }
}

/// CREATING: the gateway is read back first, always; an earlier registration may have landed.
pub(super) fn creating(view: View<'_>) -> Next {
    let member = match view.member() {
        Ok(member) => member,
        Err(wait) => return wait,
    };
    if let Some(member) = member {
        return adopt(view, member);
    }
    if let Some(open) = &view.ctx.open_step {
        return resolve::registration(view, open);
    }
    // Not registered, and no registration is under way: nothing stands in the way of giving it up.
    if let Some(failure) = reason(view) {
        return give_up(view, failure);
    }
    let owned = match view.owned() {
        Ok(owned) => owned,
        Err(wait) => return wait,
    };
    if let Err(missing) = pods_ready(owned) {
        return wait_or_expire(view, WaitReason::PodsNotReady, missing);
    }
    let process = match process(view, owned) {
        Ok(process) => process,
        Err(next) => return next,
    };
    if view.row.process.as_ref() != Some(&process) {
        // Durable before the registration: it names the container that a later loss is proven by.
        return Next::change(InstanceChanges {
            process: Some(process),
            ..InstanceChanges::default()
        });
    }
    register(view, &process)
}

fn register(view: View<'_>, process: &ProcessIdentity) -> Next {
    if !view.ctx.confirmed.backend {
        let url = match &view.seen.endpoint {
            Reading::Seen(url) => url,
            Reading::NotAsked => {
                return view.wait(WaitReason::Unknown, "how the gateway can dial it was not asked");
            }
            Reading::Unknown(fault) => return view.unknown(fault),
        };
        return Next::perform(Effect::EnsureBackend(Backend {
            name: backend_name(&view.ctx.pool, view.row),
            proxy_to: url.clone(),
            external_url: None,
            routing_group: view.ctx.pool.clone(),
            active: false,
        }));
    }
    let body = registration(&view.ctx.pool, view.row, process);
    view.send(MemberAction::Register(body), &registration_attempt(process))
}

/// The gateway holds a member of this instance: its identities are adopted as they are.
pub(super) fn adopt(view: View<'_>, member: &Member) -> Next {
    if member.instance_id != view.row.id {
        return view.wait(
            WaitReason::Refused,
            format!("the gateway answered about {}", member.instance_id),
        );
    }
    let observed = view.seen.owned.seen().and_then(|owned| {
        let blueprint = view.row.blueprint.as_ref().ok()?;
        let pod = owned.coordinators.iter().find(|pod| pod.uid == member.pod_uid)?;
        pod.containers.get(&blueprint.container)?.running.clone()
    });
    let mut process = settle::registered_process(view.row, member);
    if process.container.is_none() {
        process.container = observed;
    }
    Next::record(RowChange {
        to: view
            .row
            .phase
            .permits(Phase::Preparing)
            .then_some(Phase::Preparing),
        changes: InstanceChanges {
            process: Some(process),
            member: Some(settle::handle(member)),
            ..InstanceChanges::default()
        },
        closes: view.closed(StepOutcome::Applied),
    })
}

/// The one live coordinator pod, if there is exactly one and no other that still ends.
pub(super) fn live_coordinator(owned: &OwnedWorkload) -> Option<&PodFacts> {
    let mut present = owned.coordinators.iter().filter(|pod| !pod.finished);
    match (present.next(), present.next()) {
        (Some(only), None) if !only.terminating => Some(only),
        (Some(_) | None, _) => None,
    }
}

/// Whether coordinator and workers are ready; otherwise what is missing, as specific as Kubernetes says it.
pub(super) fn pods_ready(owned: &OwnedWorkload) -> Result<(), String> {
    let why = || {
        owned
            .coordinators
            .iter()
            .chain(&owned.workers)
            .filter(|pod| !pod.finished && !pod.terminating && !pod.ready)
            .find_map(why_not_ready)
            .map_or_else(String::new, |why| format!(": {why}"))
    };
    if owned.coordinator_ready.unwrap_or(0) == 0 || live_coordinator(owned).is_none() {
        return Err(format!("the coordinator is not ready{}", why()));
    }
    match (owned.workers_ready, owned.workers_wanted) {
        (Some(ready), Some(wanted)) if ready > 0 && ready == wanted => Ok(()),
        (Some(ready), Some(wanted)) => Err(format!("{ready} of {wanted} workers are ready{}", why())),
        (None, _) | (_, None) => Err("the worker Deployment does not say how many it wants".to_owned()),
    }
}

fn why_not_ready(pod: &PodFacts) -> Option<String> {
    if let Some(message) = &pod.unschedulable_because {
        return Some(format!("pod {} cannot be scheduled: {message}", pod.name));
    }
    pod.containers
        .iter()
        .find_map(|(name, status)| Some((name, status.waiting.as_ref()?)))
        .map(|(name, waiting)| format!("pod {}, container {name}: {waiting}", pod.name))
}

/// The live process with its whole identity, once its coordinator is ready.
fn process(view: View<'_>, owned: &OwnedWorkload) -> Result<ProcessIdentity, Next> {
    let not_ready = |detail: String| Err(wait_or_expire(view, WaitReason::CoordinatorNotReady, detail));
    let info = match &view.seen.info {
        Reading::Seen(info) => info,
        Reading::NotAsked => return Err(view.wait(WaitReason::Unknown, "its coordinator was not probed")),
        Reading::Unknown(fault) => return not_ready(format!("it does not answer: {}", fault.detail)),
    };
    if !info.ready {
        return not_ready("it still starts".to_owned());
    }
    match view.live_process(owned) {
        Some(process) => Ok(process),
        None => not_ready("/v1/info carries no nodeId and coordinatorId (Trino 483 or newer)".to_owned()),
    }
}
