//! Each rule is broken once and seen, beside what is as close to that and legal.

mod looks;
mod requests;
mod safety;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::gateway::model::{Member, MemberPhase, RetirementKind};
use crate::pool::desired::{DesiredPool, FreezeReason};
use crate::pool::evidence::{Disruption, Evidence, RecordedEvidence, ReplacementNode};
use crate::pool::ids::{
    BackendName, BootId, CoordinatorId, Epoch, Generation, Incarnation, InstanceId, Namespace, PodUid,
    PoolId, RoutingGroup, TrinoNodeId,
};
use crate::pool::phase::Phase;
use crate::pool::validate::{example_spec, validate};
use crate::sim::clients::Counts;
use crate::sim::kube::{Destruction, Destructive, Resource};
use crate::sim::trino::Ended;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn id(nth: u32) -> InstanceId {
    InstanceId::from_bits(u64::from(nth))
}

fn group() -> RoutingGroup {
    RoutingGroup::new("analytics")
}

fn member(nth: u32, phase: MemberPhase) -> Member {
    Member {
        instance_id: id(nth),
        incarnation: Incarnation::new(format!("incarnation-{nth}")),
        backend_name: BackendName::new(format!("analytics-{}", id(nth))),
        phase,
        generation: Generation::new(1),
        pod_uid: PodUid::new(format!("pod-{nth}")),
        boot_id: BootId::new(format!("boot{nth}")),
        node_id: TrinoNodeId::new(format!("node-{nth}")),
        coordinator_id: CoordinatorId::new(format!("boot{nth}")),
        retirement_kind: None,
        eligible: phase == MemberPhase::Active,
        replayed: false,
    }
}

fn row(phase: Phase) -> RowLook {
    RowLook {
        phase,
        phase_changed_at: at(0),
        created_at: at(0),
        repair: false,
        evidence: RecordedEvidence::None,
        nodes: Vec::new(),
    }
}

fn evidence(node: &str) -> Evidence {
    Evidence {
        node_name: node.into(),
        node_uid: format!("{node}-uid").as_str().into(),
        nodeclaim_name: "claim".into(),
        nodeclaim_uid: "claim-uid".into(),
        reason: Disruption::Drifted,
        observed_at: at(0),
        detail: None,
    }
}

/// Three members serving, three desired, floor two; everything as it should be.
struct Story {
    watch: Watch,
    world: WorldLook,
    store: StoreLook,
}

impl Story {
    fn begin() -> Self {
        let desired: DesiredPool = validate(&Namespace::new("trino"), &example_spec("analytics")).unwrap();
        let members = (1..=3).map(|nth| ((group(), id(nth)), member(nth, MemberPhase::Active)));
        let rows = (1..=3).map(|nth| (id(nth), row(Phase::Serving)));
        let pool = PoolLook {
            group: group(),
            epoch: Epoch::new(5),
            desired: Some(desired),
            mode: PoolMode::Open,
            open: BTreeMap::new(),
            rows: rows.collect(),
        };
        let mut story = Self {
            watch: Watch::default(),
            world: WorldLook {
                at: at(100),
                members: members.collect(),
                epochs: BTreeMap::from([(group(), Epoch::new(5))]),
                destroyed: Vec::new(),
                processes: (1..=4).map(|nth| format!("boot{nth}")).collect(),
                ended: Vec::new(),
                nodes: BTreeMap::new(),
                asked: Arc::default(),
                made: Arc::default(),
                cancelled: 0,
                clients: Counts::default(),
            },
            store: StoreLook {
                pools: BTreeMap::from([(PoolId::new("trino/analytics"), pool)]),
            },
        };
        story.look();
        assert_eq!(story.broken(), [] as [&str; 0]);
        story
    }

    fn look(&mut self) {
        self.watch.see_world(self.world.clone());
        self.watch.see_store(self.world.clone(), self.store.clone());
    }

    fn broken(&self) -> Vec<&'static str> {
        let rules: BTreeSet<_> = self
            .watch
            .violations()
            .iter()
            .map(|violation| violation.rule)
            .collect();
        rules.into_iter().collect()
    }

    /// The rules that are broken once this has happened.
    fn after(mut self, happen: impl FnOnce(&mut Self)) -> Vec<&'static str> {
        happen(&mut self);
        self.look();
        self.broken()
    }

    fn pool(&mut self) -> &mut PoolLook {
        self.store.pools.values_mut().next().unwrap()
    }

    fn row(&mut self, nth: u32) -> &mut RowLook {
        self.pool().rows.get_mut(&id(nth)).unwrap()
    }

    fn member(&mut self, nth: u32) -> &mut Member {
        self.world.members.get_mut(&(group(), id(nth))).unwrap()
    }

    fn a_fourth_serves(&mut self) {
        self.world
            .members
            .insert((group(), id(4)), member(4, MemberPhase::Active));
        self.pool().rows.insert(id(4), row(Phase::Serving));
        self.look();
    }

    fn drain(&mut self, nth: u32) {
        self.member(nth).phase = MemberPhase::Draining;
        self.row(nth).phase = Phase::Draining;
        self.row(nth).phase_changed_at = self.world.at;
    }

    fn destroy(&mut self, resource: Resource, name: &str) {
        self.world.destroyed.push(Destructive {
            at: self.world.at,
            actor: "operator".into(),
            how: Destruction::Delete,
            resource,
            namespace: "trino".into(),
            name: name.into(),
            uid: Some(format!("{name}-uid")),
            code: 200,
            requested: true,
        });
    }
}

const FINE: [&str; 0] = [];

fn further(node: &str) -> ReplacementNode {
    let evidence = evidence(node);
    ReplacementNode {
        node_name: evidence.node_name,
        node_uid: evidence.node_uid,
        nodeclaim_name: evidence.nodeclaim_name,
        nodeclaim_uid: evidence.nodeclaim_uid,
        reason: evidence.reason,
        observed_at: evidence.observed_at,
    }
}

fn node(unschedulable: bool, mark: Option<&str>) -> NodeLook {
    NodeLook {
        name: "node-a".into(),
        unschedulable,
        mark: mark.map(str::to_owned),
    }
}
