//! One healthy instance: coordinator on node-1, worker on node-2. Each test bends one thing.

use std::sync::Arc;

use super::*;
use crate::cluster::facts::Undecodable;
use crate::pool::ids::{NodeUid, ProviderId};
use crate::pool::observation::Claims;
use crate::pool::phase::Phase;
use crate::pool::testing::{self, at, claim, minutes, node, owned, owner, readings, row};

struct Scene {
    owned: OwnedWorkload,
    nodes: Vec<NodeFacts>,
    claims: Vec<ClaimFacts>,
    policy: NodeReplacement,
}

fn scene() -> Scene {
    Scene {
        owned: owned(1),
        nodes: vec![node(1), node(2)],
        claims: vec![claim(1), claim(2)],
        policy: NodeReplacement::default(),
    }
}

impl Scene {
    fn inspect(&self) -> PlacementReport {
        self.inspect_with(&readings(self.nodes.clone(), self.claims.clone()))
    }

    fn inspect_with(&self, readings: &NodeReadings) -> PlacementReport {
        inspect(&row(Phase::Serving), &self.owned, readings, &self.policy, at(0))
    }

    /// As a candidate is checked: named reads of its claims.
    fn check(&self) -> PlacementReport {
        let mut readings = readings(self.nodes.clone(), Vec::new());
        readings.claims = Claims::Named(
            ["claim-1", "claim-2"]
                .into_iter()
                .map(|name| {
                    let found = self.claims.iter().find(|claim| claim.name.as_str() == name);
                    (name.into(), Reading::Seen(found.cloned()))
                })
                .collect(),
        );
        self.inspect_with(&readings)
    }
}

fn causes(report: &PlacementReport) -> Vec<FailureCause> {
    report.invalid.iter().map(|failure| failure.cause).collect()
}

fn labels(report: &PlacementReport) -> Vec<&'static str> {
    report.faults.iter().map(|fault| fault.label).collect()
}

fn evidence(report: &PlacementReport) -> Vec<(&str, Disruption)> {
    report
        .evidence
        .iter()
        .map(|leaving| (leaving.node.as_str(), leaving.reason))
        .collect()
}

#[test]
fn a_healthy_instance_is_clean() {
    let report = scene().inspect();
    assert_eq!(
        report,
        PlacementReport {
            clean: true,
            ..PlacementReport::default()
        }
    );
    assert!(scene().check().clean);
}

#[test]
fn nodes_of_terminating_pods_are_read_and_of_finished_ones_not() {
    let mut scene = scene();
    scene.owned.coordinators[0].terminating = true;
    scene.owned.workers[0].finished = true;
    assert_eq!(nodes_of(&scene.owned), BTreeSet::from(["node-1".into()]));
}

#[test]
fn k17_drift_is_seen_with_and_without_a_reason() {
    for reason in [Some("NodePoolDrifted".to_owned()), None] {
        let mut scene = scene();
        scene.claims[1].drifted = Some(reason.clone());
        let report = scene.inspect();
        assert_eq!(evidence(&report), [("node-2", Disruption::Drifted)]);
        assert_eq!(report.evidence[0].detail, reason);
        assert_eq!(report.evidence[0].claim_uid.as_str(), "uid-claim-2");
        assert_eq!(causes(&report), [FailureCause::NodeLeaving]);
        assert!(report.clean, "a leaving node alone does not spoil the inspection");
    }
}

#[test]
fn deletion_of_node_or_claim_is_evidence_and_outranks_drift() {
    let mut scene = scene();
    scene.claims[0].drifted = Some(None);
    scene.nodes[1].deleting = true;
    assert_eq!(
        evidence(&scene.inspect()),
        [("node-2", Disruption::Deleting), ("node-1", Disruption::Drifted)],
        "by urgency, then by name"
    );
    scene.claims[0].deleted_at = Some(at(-1));
    assert_eq!(
        evidence(&scene.inspect()),
        [("node-1", Disruption::Deleting), ("node-2", Disruption::Deleting)]
    );
}

#[test]
fn l3_evidence_survives_whatever_else_went_wrong_in_the_pass() {
    let bends: testing::Bends<Scene> = vec![
        ("an unrelated cordon on an earlier node", |scene| {
            scene.nodes[0].unschedulable = true;
        }),
        ("an earlier node that no claim owns", |scene| {
            scene.nodes[0].owners.clear();
        }),
        ("an earlier node with a contradicting claim", |scene| {
            scene.claims[0].provider_id = Some("kwok:///other".into());
        }),
        ("a missing worker", |scene| scene.owned.workers_wanted = Some(2)),
        ("a pod not yet scheduled", |scene| {
            scene.owned.coordinators[0].node = None;
        }),
        ("an unreadable worker Deployment", |scene| {
            scene.owned.workers_wanted = None;
        }),
        ("a foreign pod", |scene| {
            scene.owned.faults.push(Fault {
                label: "ForeignPod",
                subject: "x".into(),
                detail: "x".into(),
            });
        }),
    ];
    for (what, bend) in bends {
        let mut scene = scene();
        scene.claims[1].drifted = Some(None);
        bend(&mut scene);
        assert_eq!(
            evidence(&scene.inspect()),
            [("node-2", Disruption::Drifted)],
            "{what}"
        );
    }
    let mut scene = scene();
    scene.claims[1].drifted = Some(None);
    let mut readings = readings(scene.nodes.clone(), scene.claims.clone());
    let broken = Fault {
        label: "KubernetesUnreachable",
        subject: "node-1".into(),
        detail: "no answer".into(),
    };
    readings
        .nodes
        .insert("node-1".into(), Reading::Unknown(broken.clone()));
    let report = scene.inspect_with(&readings);
    assert_eq!(evidence(&report), [("node-2", Disruption::Drifted)]);
    assert_eq!(report.faults, [broken]);
    assert!(!report.clean, "only the cordon needs a clean inspection");
}

#[test]
fn a_node_that_is_both_cordoned_and_drifted_is_evidence() {
    let mut scene = scene();
    scene.claims[0].drifted = Some(None);
    scene.nodes[0].unschedulable = true;
    let report = scene.inspect();
    assert_eq!(evidence(&report), [("node-1", Disruption::Drifted)]);
    assert!(report.evidence[0].unschedulable);
    assert!(report.clean);
}

#[test]
fn o04_a_plain_cordon_is_no_evidence_and_refuses_a_candidate() {
    let mut scene = scene();
    scene.nodes[0].unschedulable = true;
    let report = scene.inspect();
    assert_eq!(evidence(&report), []);
    assert_eq!(causes(&report), [FailureCause::NodeCordoned]);
    assert_eq!(report.faults, []);
}

#[test]
fn incomplete_inventory_waits_and_is_no_fault() {
    let mut scene = scene();
    scene.owned.workers_wanted = Some(3);
    let report = scene.inspect();
    assert_eq!(
        report.incomplete.as_deref(),
        Some("1 worker pods are placed, 3 are wanted")
    );
    assert_eq!(report.faults, []);
    assert_eq!(causes(&report), []);
    assert!(!report.clean);
}

#[test]
fn k15_a_terminating_pod_does_not_count_as_placed() {
    let mut scene = scene();
    scene.owned.coordinators[0].terminating = true;
    let report = scene.inspect();
    assert!(report.incomplete.is_some());
    assert!(!report.clean);
}

#[test]
fn k04_a_claim_that_disagrees_with_its_node_proves_nothing() {
    let bends: testing::Bends<ClaimFacts> = vec![
        ("provider ID of another machine", |claim| {
            claim.provider_id = Some("kwok:///n-new".into());
        }),
        ("name of another node", |claim| claim.node = Some("n-new".into())),
        ("another name under the same UID", |claim| {
            claim.name = "claim-9".into();
        }),
        ("several nodes match it", |claim| claim.ambiguous = true),
    ];
    for (what, bend) in bends {
        let mut scene = scene();
        scene.claims[0].drifted = Some(None);
        scene.claims[1].drifted = Some(None);
        bend(&mut scene.claims[0]);
        let report = scene.inspect();
        assert_eq!(evidence(&report), [("node-2", Disruption::Drifted)], "{what}");
        assert_eq!(labels(&report), ["PlacementNotProven"], "{what}");
        assert!(!report.clean, "{what}");
        // A shared inventory may be older than the node: nothing definitive follows from it.
        assert_eq!(causes(&report), [FailureCause::NodeLeaving], "{what}");
    }
    let mut scene = scene();
    scene.claims[0].provider_id = Some("kwok:///n-new".into());
    let detail = &scene.inspect().faults[0].detail;
    assert!(
        detail.contains("kwok:///node-1") && detail.contains("kwok:///n-new"),
        "{detail}"
    );
    assert_eq!(
        causes(&scene.check()),
        [FailureCause::NodeUnowned],
        "fresh reads contradict"
    );
}

#[test]
fn k05_nothing_joins_on_an_empty_name() {
    // A launching claim, deleted again, and a machine that Karpenter did not make.
    let mut scene = scene();
    scene.nodes[0].owners.clear();
    scene.nodes[0].provider_id = None;
    let mut launching = claim(9);
    launching.node = None;
    launching.provider_id = None;
    launching.deleted_at = Some(at(-5));
    scene.claims[0] = launching;
    let report = scene.inspect();
    assert_eq!(evidence(&report), []);
    assert_eq!(labels(&report), ["NodeUnowned"]);

    // Both sides empty never agree.
    let mut scene = self::scene();
    scene.nodes[0].provider_id = None;
    scene.claims[0].provider_id = None;
    scene.claims[0].drifted = Some(None);
    let report = scene.inspect();
    assert_eq!(evidence(&report), []);
    assert_eq!(labels(&report), ["PlacementNotProven"]);
    assert_eq!(
        causes(&scene.check()),
        [],
        "a claim still registering is waited for"
    );
}

#[test]
fn k08_owner_references_are_decided_by_group_kind_and_uid() {
    let cases: Vec<(&str, Vec<crate::cluster::facts::OwnerRef>, Option<&str>)> = vec![
        (
            "v1beta1 names the same object",
            vec![owner(
                "karpenter.sh/v1beta1",
                "NodeClaim",
                "claim-1",
                "uid-claim-1",
                false,
            )],
            None,
        ),
        (
            "a foreign group is skipped",
            vec![
                owner("example.io/v1", "NodeClaim", "claim-x", "uid-x", true),
                owner("karpenter.sh/v1", "NodeClaim", "claim-1", "uid-claim-1", false),
            ],
            None,
        ),
        (
            "two owners",
            vec![
                owner("karpenter.sh/v1", "NodeClaim", "claim-1", "uid-claim-1", false),
                owner("karpenter.sh/v1", "NodeClaim", "claim-2", "uid-claim-2", false),
            ],
            Some("NodeOwnersAmbiguous"),
        ),
        (
            "right name, wrong UID",
            vec![owner("karpenter.sh/v1", "NodeClaim", "claim-1", "uid-old", false)],
            Some("ClaimAbsent"),
        ),
        (
            "no UID",
            vec![owner("karpenter.sh/v1", "NodeClaim", "claim-1", "", false)],
            Some("NodeOwnersAmbiguous"),
        ),
    ];
    for (what, owners, fault) in cases {
        let mut scene = scene();
        scene.claims[0].drifted = Some(None);
        scene.nodes[0].owners = owners;
        let report = scene.inspect();
        assert_eq!(labels(&report), fault.into_iter().collect::<Vec<_>>(), "{what}");
        assert_eq!(report.evidence.len(), usize::from(fault.is_none()), "{what}");
    }
}

#[test]
fn k11_a_candidate_is_refused_on_any_sign_of_disruption() {
    let bends: testing::Bends<Scene> = vec![
        ("taint", |scene| {
            scene.nodes[1].taints.push(Taint {
                key: "karpenter.sh/disrupted".into(),
                value: String::new(),
                effect: "NoSchedule".into(),
            });
        }),
        ("drifted claim", |scene| scene.claims[1].drifted = Some(None)),
        ("DisruptionReason", |scene| {
            scene.claims[1].disruption = Some(Some("Underutilized".into()));
        }),
        ("deleting node", |scene| scene.nodes[1].deleting = true),
        ("deleting claim", |scene| {
            scene.claims[1].deleted_at = Some(at(-1));
        }),
    ];
    for (what, bend) in bends {
        let mut scene = scene();
        bend(&mut scene);
        assert_eq!(causes(&scene.check()), [FailureCause::NodeLeaving], "{what}");
    }
    let mut scene = scene();
    scene.claims[1].disruption = Some(Some("Underutilized".into()));
    assert_eq!(evidence(&scene.check()), [], "a command may still be taken back");
}

#[test]
fn k13_both_spellings_of_the_taint_and_never_evidence() {
    let cases = [
        ("karpenter.sh/disruption", "disrupting", "NoSchedule", true),
        ("karpenter.sh/disruption", "other", "NoSchedule", false),
        ("karpenter.sh/disrupted", "", "NoSchedule", true),
        ("karpenter.sh/disrupted", "x", "NoExecute", true),
        ("karpenter.sh/unregistered", "", "NoExecute", false),
        ("node.kubernetes.io/unschedulable", "", "NoSchedule", false),
    ];
    for (key, value, effect, refused) in cases {
        let mut scene = scene();
        scene.nodes[0].taints = vec![Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        }];
        let report = scene.check();
        assert_eq!(!causes(&report).is_empty(), refused, "{key}={value}");
        assert_eq!(evidence(&report), [], "{key}={value}");
    }
}

#[test]
fn k02_a_finite_grace_is_loud_and_its_deadline_known() {
    let mut scene = scene();
    scene.claims[0].grace = Grace::Finite(minutes(30));
    let report = scene.inspect();
    assert_eq!(causes(&report), [FailureCause::NodeFiniteGrace]);
    assert_eq!(labels(&report), ["FiniteGrace"]);
    assert_eq!(report.at_risk[0].deadline, None);
    assert!(
        report.clean,
        "a serving instance there still gets evidence and a cordon"
    );

    // Deleted: deletion plus grace, unless Karpenter wrote the moment itself.
    scene.claims[0].deleted_at = Some(at(60));
    let report = scene.inspect();
    assert_eq!(report.at_risk[0].deadline, Some(at(60 + 1800)));
    assert_eq!(report.evidence[0].deadline, Some(at(60 + 1800)));
    scene.claims[0].termination_at = Some(at(90));
    assert_eq!(scene.inspect().evidence[0].deadline, Some(at(90)));
    // In the past: shown as now to people, kept as it is in the evidence.
    scene.claims[0].termination_at = Some(at(-5));
    let report = scene.inspect();
    assert_eq!(report.evidence[0].deadline, Some(at(-5)));
    assert_eq!(report.at_risk[0].deadline, Some(at(0)));

    // Zero is finite too; absent is not; unreadable is finite of unknown length.
    for (grace, risky) in [
        (Grace::Finite(Duration::ZERO), true),
        (Grace::Unreadable("soon".into()), true),
        (Grace::Unlimited, false),
    ] {
        let mut scene = self::scene();
        scene.claims[0].grace = grace;
        assert_eq!(scene.inspect().at_risk.len(), usize::from(risky));
    }
}

#[test]
fn finite_grace_may_be_accepted_from_a_length_on() {
    for (grace, accepted) in [
        (Grace::Finite(minutes(60)), true),
        (Grace::Finite(minutes(59)), false),
        (Grace::Unreadable("1 hour".into()), false),
    ] {
        let mut scene = scene();
        scene.policy.finite_grace = FiniteGrace::AcceptAtLeast(minutes(60));
        scene.claims[0].grace = grace.clone();
        let report = scene.check();
        assert_eq!(causes(&report).is_empty(), accepted, "{grace:?}");
        assert_eq!(report.at_risk.len(), 1, "at risk it is in any case");
    }
}

#[test]
fn an_unowned_node_is_judged_by_the_policy() {
    let mut scene = scene();
    scene.nodes[0].owners.clear();
    let report = scene.check();
    assert_eq!(causes(&report), [FailureCause::NodeUnowned]);
    assert_eq!(labels(&report), ["NodeUnowned"]);
    scene.policy.unowned_nodes = UnownedNodes::Allow;
    let report = scene.check();
    assert_eq!(
        (causes(&report), labels(&report), report.clean),
        (vec![], vec![], true)
    );
}

#[test]
fn l4_only_a_404_that_names_the_object_is_definitive() {
    // The named claim answers 404: definitive. Missing in the shared inventory: a fault, not a verdict.
    let mut scene = scene();
    scene.claims.remove(0);
    assert_eq!(causes(&scene.check()), [FailureCause::NodeUnowned]);
    let report = scene.inspect();
    assert_eq!(causes(&report), []);
    assert_eq!(labels(&report), ["ClaimAbsent"]);

    // An API error is neither, alone or beside an incomplete inventory; and both are told.
    let mut scene = self::scene();
    scene.owned.workers_wanted = Some(3);
    let mut readings = readings(scene.nodes.clone(), Vec::new());
    let down = Fault {
        label: "KubernetesFailed",
        subject: "nodeclaims".into(),
        detail: "conversion webhook".into(),
    };
    readings.claims = Claims::Unknown(down.clone());
    let report = scene.inspect_with(&readings);
    assert_eq!(causes(&report), []);
    assert!(report.incomplete.is_some());
    assert_eq!(report.faults, [down.clone(), down]);
}

#[test]
fn one_proven_invalid_node_is_definitive_whatever_else_failed() {
    let mut scene = scene();
    scene.nodes[1].unschedulable = true;
    let mut readings = readings(scene.nodes.clone(), scene.claims.clone());
    readings.nodes.remove(&NodeName::from("node-1"));
    let report = scene.inspect_with(&readings);
    assert_eq!(causes(&report), [FailureCause::NodeCordoned]);
    assert_eq!(labels(&report), ["NodeNotRead"]);
}

#[test]
fn a_node_that_is_gone_by_its_own_404_invalidates_a_candidate() {
    let scene = scene();
    let mut readings = readings(scene.nodes.clone(), scene.claims.clone());
    readings.nodes.insert("node-2".into(), Reading::Seen(None));
    let report = scene.inspect_with(&readings);
    assert_eq!(causes(&report), [FailureCause::NodeLeaving]);
    assert_eq!(evidence(&report), []);
    assert!(!report.clean);
}

#[test]
fn a06_an_undecodable_claim_is_unknown_not_absent() {
    for item in [
        Undecodable {
            name: Some("claim-1".into()),
            uid: Some("uid-claim-1".into()),
            problem: "oops".into(),
        },
        Undecodable {
            name: Some("claim-1".into()),
            uid: None,
            problem: "oops".into(),
        },
        Undecodable {
            name: None,
            uid: None,
            problem: "oops".into(),
        },
    ] {
        let mut scene = scene();
        scene.claims[1].drifted = Some(None);
        scene.claims.remove(0);
        let mut readings = readings(scene.nodes.clone(), scene.claims.clone());
        let Claims::Inventory(inventory) = &mut readings.claims else {
            panic!("an inventory was given")
        };
        Arc::make_mut(inventory).undecodable.push(item);
        let report = scene.inspect_with(&readings);
        assert_eq!(labels(&report), ["ClaimUndecodable"]);
        assert_eq!(
            evidence(&report),
            [("node-2", Disruption::Drifted)],
            "the good one is acted upon"
        );
        assert!(!report.clean);
    }
}

#[test]
fn a07_a_pod_older_than_its_node_ran_somewhere_else() {
    let mut scene = scene();
    scene.nodes[0].uid = NodeUid::from("uid-new-machine");
    scene.nodes[0].created_at = Some(at(-60));
    scene.claims[0].drifted = Some(None);
    let report = scene.inspect();
    assert_eq!(labels(&report), ["PodOlderThanNode"]);
    assert_eq!(evidence(&report), []);
    assert!(!report.clean);

    // A pod that did start there makes the new machine count, and the old pod stays a fault.
    let mut fresh = testing::pod("worker-9", "node-1");
    fresh.started_at = Some(at(-30));
    scene.owned.workers.push(fresh);
    let report = scene.inspect();
    assert_eq!(labels(&report), ["PodOlderThanNode"]);
    assert_eq!(evidence(&report), [("node-1", Disruption::Drifted)]);
}

#[test]
fn a_launching_machine_of_another_claim_is_nobodys_evidence() {
    let mut scene = scene();
    let mut other = claim(7);
    other.deleted_at = Some(at(-1));
    other.node = Some("node-1".into());
    other.provider_id = Some(ProviderId::from("kwok:///node-1"));
    scene.claims.push(other);
    assert_eq!(
        evidence(&scene.inspect()),
        [],
        "it names our node, and does not own it"
    );
}
