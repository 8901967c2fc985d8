//! Objects with our labels that no live row accounts for (S1).
//!
//! A create whose answer was lost, or that a predecessor sent late, can leave an object behind after its
//! row has ended. Such an object is deleted only if *everything* fits: our exact labels, the name that only
//! that instance's object has, a terminal row, and a gateway that holds no member of the instance but a
//! RETIRED one (the row may come from a restored store); and only after its UID was recorded under the fence.
//! Whatever fits less is reported and left alone. A pod or a ReplicaSet is never deleted by us. Pure.

use std::collections::BTreeMap;

use super::ids::{InstanceId, Namespace, ObjectName, ObjectUid, PoolId};
use super::instance::{InstanceObjects, InstanceRow};
use super::names::{LABEL_INSTANCE, LABEL_MANAGED_BY, LABEL_POOL, MANAGED_BY, ObjectNames, pool_name};
use super::observation::{Fault, Reading};
use crate::cluster::facts::{ObjectFacts, ObjectKind};
use crate::gateway::model::{Member, MemberPhase};

/// An object of a terminal row: its UID is recorded under the fence first, then it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Whose label it carries.
    pub instance: InstanceId,
    /// What it is.
    pub kind: ObjectKind,
    /// Where it is.
    pub namespace: Namespace,
    /// Its name.
    pub name: ObjectName,
    /// Its UID, for the record and for the delete.
    pub uid: ObjectUid,
}

/// What the gateway said about the member of each instance that was asked about.
pub type Members = BTreeMap<InstanceId, Reading<Option<Member>>>;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Orphans {
    /// To be recorded and then deleted.
    pub delete: Vec<Orphan>,
    /// Only reported.
    pub report: Vec<Fault>,
}

/// Sorts the objects that carry the pool's label.
///
/// `rows` holds every row whose instance is named by a label, terminal ones included: a row that was not
/// looked up counts as missing, and a label without a row is only reported. `members` holds what the gateway
/// said about instances without a live row; one that is missing there was not asked about.
#[must_use]
pub fn orphans(
    pool: &PoolId,
    objects: &[ObjectFacts],
    rows: &BTreeMap<InstanceId, InstanceRow>,
    members: &Members,
) -> Orphans {
    let mut found = Orphans::default();
    for object in objects.iter().filter(|object| !object.deleting) {
        match judge(pool, object, rows, members) {
            Verdict::Accounted => {}
            Verdict::Orphan(instance) => found.delete.push(Orphan {
                instance,
                kind: object.kind,
                namespace: object.namespace.clone(),
                name: object.name.clone(),
                uid: object.uid.clone(),
            }),
            Verdict::Stranger(detail) => found.report.push(Fault {
                label: "UnaccountedObject",
                subject: format!("{} {}", object.kind.as_str(), object.name),
                detail,
            }),
        }
    }
    found
}

enum Verdict {
    /// A live row holds it, or may come to hold it.
    Accounted,
    /// Of a terminal row, and provably of our making.
    Orphan(InstanceId),
    /// Anything else: says what.
    Stranger(String),
}

fn judge(
    pool: &PoolId,
    object: &ObjectFacts,
    rows: &BTreeMap<InstanceId, InstanceRow>,
    members: &Members,
) -> Verdict {
    let label = |key: &str| object.labels.get(key).map(String::as_str);
    let Some(instance) = label(LABEL_INSTANCE).map(InstanceId::from) else {
        return Verdict::Stranger("it carries the pool's label and names no instance".to_owned());
    };
    let Some(row) = rows.get(&instance) else {
        return Verdict::Stranger(format!("no row is known of instance {instance}"));
    };
    if !row.phase.is_terminal() {
        return match &row.objects {
            Some(recorded) if !holds(recorded, object) => {
                Verdict::Stranger(format!("instance {instance} records other objects"))
            }
            // Not recorded yet: its create is under way, or is adopted by the next one.
            Some(_) | None => Verdict::Accounted,
        };
    }
    let ours = label(LABEL_MANAGED_BY) == Some(MANAGED_BY)
        && label(LABEL_POOL).is_some()
        && label(LABEL_POOL) == pool_name(pool)
        && row.pool == *pool;
    if !ours {
        return Verdict::Stranger("its labels are not exactly ours".to_owned());
    }
    if !is_named_like(object, &instance) {
        return Verdict::Stranger(format!(
            "instance {instance} has no {} of that name",
            object.kind.as_str()
        ));
    }
    match still_registered(members.get(&instance).unwrap_or(&Reading::NotAsked)) {
        Some(why) => Verdict::Stranger(format!("instance {instance} has ended here, but {why}")),
        None => Verdict::Orphan(instance),
    }
}

/// Why the gateway may still route to an instance whose row is terminal; `None`: it certainly does not.
fn still_registered(member: &Reading<Option<Member>>) -> Option<String> {
    let member = match member {
        Reading::Seen(None) => return None,
        Reading::Seen(Some(member)) => member,
        Reading::NotAsked => return Some("the gateway was not asked about its member".to_owned()),
        Reading::Unknown(fault) => return Some(format!("its member is not known: {}", fault.detail)),
    };
    match member.phase {
        MemberPhase::Retired => None,
        MemberPhase::Preparing
        | MemberPhase::Active
        | MemberPhase::Draining
        | MemberPhase::Sealed
        | MemberPhase::Retiring
        | MemberPhase::Suspect
        | MemberPhase::Lost
        | MemberPhase::Unrecognised => Some(format!("the gateway's member is {:?}", member.phase)),
    }
}

fn is_named_like(object: &ObjectFacts, instance: &InstanceId) -> bool {
    let names = ObjectNames::of(instance);
    match object.kind {
        ObjectKind::Deployment => object.name == names.coordinator || object.name == names.workers,
        ObjectKind::Service => object.name == names.service,
        ObjectKind::ConfigMap => {
            object.name == names.coordinator_config || object.name == names.worker_config
        }
    }
}

fn holds(recorded: &InstanceObjects, object: &ObjectFacts) -> bool {
    [
        &recorded.coordinator,
        &recorded.workers,
        &recorded.service,
        &recorded.coordinator_config,
        &recorded.worker_config,
    ]
    .into_iter()
    .any(|known| known.name == object.name && known.uid == object.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::phase::Phase;
    use crate::pool::testing::{self, ID, handle, object_facts, row};

    fn pool() -> PoolId {
        PoolId::from("trino/analytics")
    }

    fn rows(phase: Phase) -> BTreeMap<InstanceId, InstanceRow> {
        BTreeMap::from([(InstanceId::from(ID), row(phase))])
    }

    fn said(member: Reading<Option<Member>>) -> Members {
        BTreeMap::from([(InstanceId::from(ID), member)])
    }

    fn gone() -> Members {
        said(Reading::Seen(None))
    }

    fn sorted(phase: Phase, objects: &[ObjectFacts]) -> (usize, usize) {
        let found = orphans(&pool(), objects, &rows(phase), &gone());
        (found.delete.len(), found.report.len())
    }

    #[test]
    fn objects_of_a_terminal_row_are_orphans_by_their_own_uid() {
        for phase in [Phase::Retired, Phase::FailureRetired] {
            let found = orphans(&pool(), &object_facts(), &rows(phase), &gone());
            assert_eq!(found.delete.len(), 5);
            assert_eq!(found.report, []);
            assert_eq!(found.delete[0].uid.as_str(), "uid-cell-00000001-coordinator");
        }
    }

    #[test]
    fn a_live_row_accounts_for_its_objects_and_for_creates_under_way() {
        for phase in Phase::KNOWN.into_iter().filter(|phase| !phase.is_terminal()) {
            assert_eq!(sorted(phase, &object_facts()), (0, 0), "{phase}");
        }
        assert_eq!(sorted(Phase::Unrecognised, &object_facts()), (0, 0));
    }

    #[test]
    fn s1_nothing_is_deleted_while_the_gateway_may_hold_a_member_of_the_instance() {
        let member = |phase| said(Reading::Seen(Some(testing::member(&handle(phase, 1)))));
        let kept = [
            member(MemberPhase::Preparing),
            member(MemberPhase::Active),
            member(MemberPhase::Draining),
            member(MemberPhase::Sealed),
            member(MemberPhase::Retiring),
            member(MemberPhase::Suspect),
            member(MemberPhase::Lost),
            member(MemberPhase::Unrecognised),
            said(Reading::NotAsked),
            said(testing::unknown()),
            Members::new(),
        ];
        for phase in [Phase::Retired, Phase::FailureRetired] {
            for members in &kept {
                let found = orphans(&pool(), &object_facts(), &rows(phase), members);
                assert_eq!((found.delete.len(), found.report.len()), (0, 5), "{members:?}");
            }
            let closed = member(MemberPhase::Retired);
            assert_eq!(
                orphans(&pool(), &object_facts(), &rows(phase), &closed)
                    .delete
                    .len(),
                5
            );
        }
    }

    #[test]
    fn s1_a_label_without_a_row_is_only_reported() {
        let found = orphans(&pool(), &object_facts(), &BTreeMap::new(), &gone());
        assert_eq!((found.delete.len(), found.report.len()), (0, 5));
    }

    #[test]
    fn whatever_fits_less_than_exactly_is_left_alone() {
        let bends: crate::pool::testing::Bends<ObjectFacts> = vec![
            ("made by somebody else", |object| {
                object.labels.insert(LABEL_MANAGED_BY.into(), "helm".into());
            }),
            ("of another pool", |object| {
                object.labels.insert(LABEL_POOL.into(), "adhoc".into());
            }),
            ("without the pool's label", |object| {
                object.labels.remove(LABEL_POOL);
            }),
            ("without an instance", |object| {
                object.labels.remove(LABEL_INSTANCE);
            }),
            ("of a name that the instance never has", |object| {
                object.name = "cell-00000001-extra".into();
            }),
            ("of a kind that does not fit its name", |object| {
                object.kind = ObjectKind::Service;
            }),
        ];
        for (what, bend) in bends {
            let mut object = object_facts().remove(0);
            bend(&mut object);
            assert_eq!(sorted(Phase::Retired, &[object]), (0, 1), "{what}");
        }
        let mut other_row = rows(Phase::Retired);
        for row in other_row.values_mut() {
            row.pool = "other/analytics".into();
        }
        let found = orphans(&pool(), &object_facts(), &other_row, &gone());
        assert_eq!(found.delete, [], "a row of another pool permits nothing here");
    }

    #[test]
    fn an_object_that_is_going_already_is_left_to_go() {
        let mut object = object_facts().remove(0);
        object.deleting = true;
        assert_eq!(sorted(Phase::Retired, &[object]), (0, 0));
    }

    #[test]
    fn another_object_under_a_live_instances_name_is_reported() {
        let mut object = object_facts().remove(0);
        object.uid = "another".into();
        assert_eq!(sorted(Phase::Serving, &[object]), (0, 1));
    }
}
