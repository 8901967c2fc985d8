//! Rules that the world alone can judge, after every single effect.

use std::collections::BTreeMap;

use super::look::WorldLook;
use super::{Violation, broken};
use crate::gateway::model::{Member, MemberPhase, RetirementKind};
use crate::pool::ids::RoutingGroup;
use crate::sim::kube::{Destruction, Destructive, Resource};

/// Serving floors by routing group, as far as they are known.
pub type Floors = BTreeMap<RoutingGroup, u32>;

/// All rules of this module, over what changed between two looks.
pub(super) fn judge(before: &WorldLook, now: &WorldLook, floors: &Floors, found: &mut Vec<Violation>) {
    let fresh = now.destroyed.get(before.destroyed.len()..).unwrap_or_default();
    for act in fresh {
        destruction(act, now, found);
    }
    for ended in now.ended.get(before.ended.len()..).unwrap_or_default() {
        lost_with_its_process(&ended.node_id, ended.live_queries.len(), now, found);
    }
    if now.cancelled > before.cancelled {
        found.push(broken(
            "S2",
            "a client's query was cancelled past the gateway".to_owned(),
        ));
    }
    for ((group, instance), member) in &now.members {
        if let Some(earlier) = before.members.get(&(group.clone(), instance.clone())) {
            progress(earlier, member, found);
        }
    }
    for key in before.members.keys() {
        if !now.members.contains_key(key) {
            found.push(broken(
                "S10",
                format!("the member of {} vanished from the gateway", key.1),
            ));
        }
    }
    for (group, epoch) in &now.epochs {
        if before.epochs.get(group).is_some_and(|earlier| earlier > epoch) {
            found.push(broken(
                "S8",
                format!("the gateway's epoch of {group} fell to {epoch}"),
            ));
        }
    }
    for (uid, node) in &now.nodes {
        let Some(earlier) = before.nodes.get(uid) else {
            continue;
        };
        if earlier.mark.is_some() && earlier.unschedulable && !node.unschedulable {
            found.push(broken(
                "S4",
                format!("the cordon of node {} was undone", node.name),
            ));
        }
        if earlier.mark.is_some() && earlier.mark != node.mark {
            found.push(broken(
                "S4",
                format!("the mark of node {} was rewritten", node.name),
            ));
        }
        if earlier.unschedulable && earlier.mark.is_none() && node.mark.is_some() {
            let text = format!(
                "node {} was unschedulable already and was marked as ours",
                node.name
            );
            found.push(broken("S4", text));
        }
    }
    floor(before, now, floors, found);
}

/// S1 and S2: what was asked to be destroyed.
fn destruction(act: &Destructive, now: &WorldLook, found: &mut Vec<Violation>) {
    let name = &act.name;
    match act.resource {
        Resource::Nodes | Resource::NodeClaims | Resource::NodePools => found.push(broken(
            "S2",
            format!(
                "{} asked to delete {} {name}",
                act.actor,
                act.resource.kind().kind
            ),
        )),
        Resource::Pods => found.push(broken("S2", format!("{} asked to end pod {name}", act.actor))),
        Resource::TrinoPools | Resource::Namespaces | Resource::CustomResourceDefinitions => {
            found.push(broken(
                "S1",
                format!(
                    "{} asked to delete {} {name}",
                    act.actor,
                    act.resource.kind().kind
                ),
            ));
        }
        Resource::Deployments | Resource::Services | Resource::ConfigMaps => {
            let member = instance_of(name).and_then(|instance| now.member(instance));
            if let Some(member) = member
                && !matches!(member.phase, MemberPhase::Retiring | MemberPhase::Retired)
            {
                let text = format!(
                    "{} {name} was asked to be deleted while its member is {:?}: no retirement was claimed",
                    act.resource.kind().kind,
                    member.phase
                );
                found.push(broken("S1", text));
            }
            if act.how == Destruction::Delete && act.uid.is_none() {
                found.push(broken(
                    "S1",
                    format!(
                        "{} {name} was asked to be deleted without its UID",
                        act.resource.kind().kind
                    ),
                ));
            }
        }
        // ReplicaSets follow their Deployments; Events and Leases carry nothing that serves.
        Resource::ReplicaSets | Resource::Events | Resource::Leases => {}
    }
}

/// The instance that an object or a pod of ours belongs to: `cell-` and eight digits begin every name.
pub(super) fn instance_of(name: &str) -> Option<&str> {
    name.get(..13).filter(|id| id.starts_with("cell-"))
}

/// S2: a process that we let end takes no query along, unless it was given up as lost.
fn lost_with_its_process(pod: &str, live: usize, now: &WorldLook, found: &mut Vec<Violation>) {
    let Some(instance) = instance_of(pod).filter(|_| live > 0) else {
        return;
    };
    let deleted = now
        .destroyed
        .iter()
        .any(|act| act.resource == Resource::Deployments && instance_of(&act.name) == Some(instance));
    let given_up = now
        .member(instance)
        .is_some_and(|member| member.retirement_kind == Some(RetirementKind::Failed));
    if deleted && !given_up {
        found.push(broken(
            "S2",
            format!("our deletion of {instance} took {live} live queries along"),
        ));
    }
}

/// S10 and the protocol's own order: what a member became is never taken back.
fn progress(earlier: &Member, member: &Member, found: &mut Vec<Violation>) {
    let id = &member.instance_id;
    if earlier.incarnation != member.incarnation {
        found.push(broken("S10", format!("{id} is registered a second time")));
        return;
    }
    if member.generation < earlier.generation {
        found.push(broken("S10", format!("the generation of {id} fell")));
    }
    let (from, to) = (earlier.phase, member.phase);
    let erased = match from {
        MemberPhase::Preparing | MemberPhase::Unrecognised => false,
        MemberPhase::Active | MemberPhase::Draining | MemberPhase::Sealed | MemberPhase::Suspect => {
            to == MemberPhase::Preparing
        }
        MemberPhase::Lost => !matches!(
            to,
            MemberPhase::Lost | MemberPhase::Retiring | MemberPhase::Retired
        ),
        MemberPhase::Retiring => !matches!(to, MemberPhase::Retiring | MemberPhase::Retired),
        MemberPhase::Retired => to != MemberPhase::Retired,
    };
    if erased {
        found.push(broken("S10", format!("{id} went from {from:?} back to {to:?}")));
    }
    if earlier.retirement_kind.is_some() && earlier.retirement_kind != member.retirement_kind {
        found.push(broken(
            "S1",
            format!("the retirement claim of {id} changed its kind"),
        ));
    }
}

/// S6: a member that stops being routable by our doing leaves the floor standing. A process that ended or
/// changed was not taken away by us.
fn floor(before: &WorldLook, now: &WorldLook, floors: &Floors, found: &mut Vec<Violation>) {
    for (group, floor) in floors {
        let active = |look: &WorldLook| {
            look.members
                .iter()
                .filter(|((of, _), member)| of == group && member.phase == MemberPhase::Active)
                .count()
        };
        let left = active(now);
        if left >= usize::try_from(*floor).unwrap_or(usize::MAX) {
            continue;
        }
        for ((of, instance), earlier) in &before.members {
            let member = now.members.get(&(of.clone(), instance.clone()));
            let taken = of == group
                && earlier.phase == MemberPhase::Active
                && member.is_some_and(|member| member.phase != MemberPhase::Active);
            let alive = now.processes.contains(earlier.coordinator_id.as_str());
            if taken && alive {
                found.push(broken(
                    "S6",
                    format!("{instance} was taken out of {group}: {left} members left, the floor is {floor}"),
                ));
            }
        }
    }
}
