use std::sync::Arc;

use super::*;
use crate::cluster::facts::ClaimInventory;
use crate::pool::observation::Claims;
use crate::pool::testing::{at, claim, fault, node, owner, pod, readings};

fn named(name: &str) -> PodRef {
    PodRef {
        namespace: Some("trino".into()),
        name: name.to_owned(),
    }
}

fn in_trino(pod: PodFacts) -> NamespacedPod {
    NamespacedPod {
        namespace: Some("trino".into()),
        pod: Ok(pod),
    }
}

/// A coordinator on node-1 and a worker on node-2, protected, on nodes that wait.
fn sound() -> (Vec<NamespacedPod>, NodeReadings) {
    let pods = vec![
        in_trino(pod("coordinator", "node-1")),
        in_trino(pod("worker", "node-2")),
    ];
    (pods, readings(vec![node(1), node(2)], vec![claim(1), claim(2)]))
}

/// The audit once the worker, its node and its claim were bent.
fn bent(bend: impl FnOnce(&mut PodFacts, &mut NodeFacts, &mut ClaimFacts)) -> Audit {
    let (mut worker, mut host, mut owner) = (pod("worker", "node-2"), node(2), claim(2));
    bend(&mut worker, &mut host, &mut owner);
    let pods = [in_trino(pod("coordinator", "node-1")), in_trino(worker)];
    audit(&pods, &readings(vec![node(1), host], vec![claim(1), owner]))
}

#[track_caller]
fn only(audit: &Audit) -> &Finding {
    let [finding] = &audit.findings[..] else {
        panic!("not one finding: {:?}", audit.findings)
    };
    finding
}

fn words(audit: &Audit) -> Vec<&'static str> {
    audit
        .findings
        .iter()
        .map(|finding| finding.problem.word())
        .collect()
}

#[test]
fn what_is_as_it_must_be_is_counted_and_nothing_is_found() {
    let (pods, readings) = sound();
    let expected = Audit {
        live: 2,
        protected: 2,
        nodes: 2,
        sound: 2,
        ..Audit::default()
    };
    assert_eq!(audit(&pods, &readings), expected);
    let nodes: Vec<_> = nodes_of(&pods).into_iter().collect();
    assert_eq!(nodes, ["node-1".into(), "node-2".into()]);
}

#[test]
fn k14_a_pod_without_the_exact_word_is_named_with_what_it_says_instead() {
    let weak = ["True", " true", "1", "", "5m", "24h", "0s", "forever"];
    for value in weak.map(Some).into_iter().chain([None]) {
        let audit = bent(|pod, _, _| pod.do_not_disrupt = value.map(str::to_owned));
        let finding = only(&audit);
        assert_eq!(finding.subject, Subject::Pod(named("worker")));
        assert_eq!(
            finding.problem,
            Problem::PodUnprotected {
                found: value.map(str::to_owned)
            }
        );
        assert_eq!((audit.live, audit.protected, audit.sound), (2, 1, 2), "{value:?}");
        assert!(!finding.detail.contains('\n'));
    }
    let several_lines = bent(|pod, _, _| pod.do_not_disrupt = Some("true\n".to_owned()));
    assert!(only(&several_lines).detail.contains(r#"is "true\n";"#));
}

#[test]
fn k15_a_finished_or_terminating_pod_is_left_out_with_its_node() {
    for (finished, terminating) in [(true, false), (false, true)] {
        let mut leaving = pod("worker", "node-2");
        (leaving.finished, leaving.terminating) = (finished, terminating);
        leaving.do_not_disrupt = None;
        let pods = [in_trino(leaving)];
        assert!(nodes_of(&pods).is_empty());
        let expected = Audit {
            left_out: 1,
            ..Audit::default()
        };
        assert_eq!(audit(&pods, &readings(Vec::new(), Vec::new())), expected);
    }
}

#[test]
fn a_pod_without_a_node_is_judged_by_its_annotation_alone() {
    let mut waiting = pod("worker", "node-2");
    waiting.node = None;
    let none = readings(Vec::new(), Vec::new());
    let audited = audit(&[in_trino(waiting.clone())], &none);
    assert_eq!((audited.live, audited.unplaced, audited.nodes), (1, 1, 0));
    assert_eq!(audited.findings, []);
    waiting.do_not_disrupt = None;
    assert_eq!(words(&audit(&[in_trino(waiting)], &none)), ["PodUnprotected"]);
}

#[test]
fn a_pod_that_cannot_be_read_is_a_finding_under_whatever_name_it_has() {
    let (mut pods, readings) = sound();
    for (name, uid) in [(Some("broken"), None), (None, Some("u-7")), (None, None)] {
        pods.push(NamespacedPod {
            namespace: name.map(|_| "trino".into()),
            pod: Err(Undecodable {
                name: name.map(str::to_owned),
                uid: uid.map(str::to_owned),
                problem: "metadata.uid: missing".to_owned(),
            }),
        });
    }
    let audit = audit(&pods, &readings);
    assert_eq!(words(&audit), ["PodUnreadable"; 3]);
    let names: Vec<_> = audit
        .findings
        .iter()
        .map(|finding| finding.pods[0].to_string())
        .collect();
    assert_eq!(
        names,
        ["(no name, UID u-7)", "(no name, UID unknown)", "trino/broken"]
    );
    assert_eq!((audit.live, audit.unreadable), (2, 3));
}

#[test]
fn k02_a_finite_grace_is_a_finding_of_any_length_and_tells_its_deadline() {
    for (grace, found) in [
        (Grace::Finite(Duration::from_mins(30)), "1800s"),
        (Grace::Finite(Duration::from_hours(48)), "172800s"),
        (Grace::Finite(Duration::ZERO), "0s"),
        (Grace::Finite(Duration::from_millis(1500)), "1.5s"),
        (Grace::Unreadable("soon".to_owned()), "soon"),
    ] {
        let audit = bent(|_, _, claim| claim.grace = grace.clone());
        let finding = only(&audit);
        assert_eq!(finding.subject, Subject::Claim("claim-2".into()));
        assert_eq!(
            finding.problem,
            Problem::FiniteGrace {
                found: found.to_owned()
            }
        );
        assert_eq!(finding.node, Some("node-2".into()));
        assert_eq!(finding.pods, [named("worker")]);
        assert_eq!((audit.protected, audit.nodes, audit.sound), (2, 2, 1));
    }
    let deleting = bent(|_, _, claim| {
        claim.grace = Grace::Finite(Duration::from_mins(30));
        claim.deleted_at = Some(at(0));
    });
    assert!(only(&deleting).detail.contains(&at(1800).to_string()));
}

#[test]
fn k16_node_repair_forces_an_end_without_any_grace() {
    let repaired = bent(|_, _, claim| {
        claim.deleted_at = Some(at(0));
        claim.termination_at = Some(at(5));
    });
    assert_eq!(only(&repaired).problem, Problem::ForcedEnd { at: at(5) });
    // Deletion alone waits for protected pods without end.
    let deleted = bent(|_, _, claim| claim.deleted_at = Some(at(0)));
    assert_eq!(deleted.findings, []);
}

#[test]
fn k08_the_owner_counts_by_group_kind_and_uid_and_needs_no_controller_flag() {
    let of = |api: &str, uid: &str| owner(api, "NodeClaim", "claim-2", uid, false);
    let upgraded = bent(|_, node, _| node.owners = vec![of("karpenter.sh/v1beta1", "uid-claim-2")]);
    assert_eq!(upgraded.findings, []);
    let foreign = bent(|_, node, _| node.owners.insert(0, of("example.io/v1", "uid-other")));
    assert_eq!(foreign.findings, []);
    let twice = bent(|_, node, _| node.owners.push(of("karpenter.sh/v1", "uid-other")));
    assert_eq!(only(&twice).problem, Problem::NodeOwnersAmbiguous);
    let nameless = bent(|_, node, _| node.owners = vec![of("karpenter.sh/v1", "")]);
    assert_eq!(only(&nameless).problem, Problem::NodeOwnersAmbiguous);
    let another = bent(|_, node, _| node.owners = vec![of("karpenter.sh/v1", "uid-other")]);
    assert_eq!(only(&another).problem, Problem::ClaimAbsent);
}

#[test]
fn k05_a_node_that_no_claim_owns_is_never_joined_to_one() {
    let bare = bent(|_, node, claim| {
        node.owners.clear();
        node.provider_id = None;
        claim.provider_id = None;
    });
    let finding = only(&bare);
    assert_eq!(finding.problem, Problem::NodeUnowned);
    assert_eq!(finding.subject, Subject::Node("node-2".into()));
    assert_eq!(finding.pods, [named("worker")]);
}

#[test]
fn k04_a_claim_and_a_node_that_contradict_each_other_prove_nothing() {
    let stale = bent(|_, _, claim| claim.provider_id = Some("kwok:///elsewhere".into()));
    let finding = only(&stale);
    assert_eq!(finding.problem, Problem::PlacementNotProven);
    assert!(finding.detail.contains("kwok:///elsewhere"), "{}", finding.detail);
    let launching = bent(|_, _, claim| claim.node = None);
    assert_eq!(only(&launching).problem, Problem::PlacementNotProven);
}

#[test]
fn a_claim_that_cannot_be_read_is_a_finding_for_the_node_it_may_own_and_no_other() {
    let (pods, mut readings) = sound();
    let unreadable = |uid: &str| {
        vec![Undecodable {
            name: Some("claim-2".to_owned()),
            uid: Some(uid.to_owned()),
            problem: "status.conditions: not a list".to_owned(),
        }]
    };
    let known = |readings: &mut NodeReadings, number: u32, undecodable| {
        let claim = claim(number);
        readings.claims = Claims::Inventory(Arc::new(ClaimInventory {
            claims: BTreeMap::from([(claim.uid.clone(), claim)]),
            undecodable,
            ..ClaimInventory::default()
        }));
    };
    known(&mut readings, 1, unreadable("uid-claim-2"));
    let audited = audit(&pods, &readings);
    let finding = only(&audited);
    assert_eq!(finding.problem, Problem::ClaimUndecodable);
    assert_eq!(finding.subject, Subject::Claim("claim-2".into()));
    assert!(finding.detail.contains("status.conditions"), "{}", finding.detail);
    known(&mut readings, 1, unreadable("uid-of-a-stranger"));
    assert_eq!(words(&audit(&pods, &readings)), ["ClaimAbsent"]);
}

#[test]
fn a07_a_pod_that_is_older_than_its_node_is_named_and_proves_nothing_of_that_node() {
    let older = bent(|pod, node, claim| {
        (pod.started_at, node.created_at) = (Some(at(-600)), Some(at(-60)));
        claim.grace = Grace::Finite(Duration::from_secs(1));
    });
    let finding = only(&older);
    assert_eq!(finding.problem, Problem::PodOlderThanNode);
    assert_eq!(finding.subject, Subject::Pod(named("worker")));
    assert_eq!((older.nodes, older.sound), (2, 1));
}

#[test]
fn what_was_not_read_is_never_taken_for_good() {
    let (pods, mut all) = sound();
    for (reading, word) in [
        (Reading::Seen(None), "NodeAbsent"),
        (Reading::NotAsked, "NodeUnreadable"),
        (Reading::Unknown(fault("Undecodable")), "NodeUnreadable"),
    ] {
        all.nodes.insert("node-2".into(), reading);
        let audited = audit(&pods, &all);
        assert_eq!(words(&audited), [word]);
        assert_eq!(audited.sound, 1);
        assert_eq!(only(&audited).pods, [named("worker")]);
    }
    all.nodes.clear();
    assert_eq!(words(&audit(&pods, &all)), ["NodeUnreadable"; 2]);
    let (_, mut blind) = sound();
    blind.claims = Claims::Unknown(fault("KubernetesUnreachable"));
    assert_eq!(words(&audit(&pods, &blind)), ["PlacementNotProven"; 2]);
}

#[test]
fn findings_come_by_name_and_each_node_once_whatever_the_order_of_the_pods() {
    let mut second = pod("another", "node-2");
    second.do_not_disrupt = Some("5m".to_owned());
    let mut first = pod("worker", "node-2");
    first.do_not_disrupt = None;
    let mut finite = claim(2);
    finite.grace = Grace::Finite(Duration::from_mins(1));
    let readings = readings(vec![node(2)], vec![finite]);
    let mut pods = vec![in_trino(first), in_trino(second)];
    let audited = audit(&pods, &readings);
    pods.reverse();
    assert_eq!(audit(&pods, &readings), audited);
    let subjects: Vec<_> = audited.findings.iter().map(|one| one.subject.clone()).collect();
    assert_eq!(
        subjects,
        [
            Subject::Pod(named("another")),
            Subject::Pod(named("worker")),
            Subject::Claim("claim-2".into()),
        ]
    );
    assert_eq!(audited.findings[2].pods, [named("another"), named("worker")]);
}
