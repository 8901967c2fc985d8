//! What is sent.

use proptest::prelude::*;

use super::*;
use crate::gateway::model::{AdmissionReceipt, LossEvidence, Registration};

async fn sends(cases: impl IntoIterator<Item = (MemberAction, &'static str, Value)>) {
    for (action, path, fields) in cases {
        let canned = Canned::with([ok(&member_json())]);
        canned.gateway().send(&controller(), &request(action)).await;
        let path = format!("/gateway/v1/pools/analytics/members{path}");
        assert_eq!(canned.sent(), [("POST".to_owned(), path, enveloped(fields))]);
    }
}

#[tokio::test]
async fn a_registration_names_its_member_and_says_nothing_it_does_not_mean() {
    let registration = |repair_for: Option<&str>| {
        MemberAction::Register(Registration {
            backend_name: "analytics-cell-a".into(),
            pod_uid: "p".into(),
            boot_id: "b".into(),
            config_revision: "r1".into(),
            repair_for: repair_for.map(InstanceId::from),
        })
    };
    let registered = json!({
        "instanceId": "cell-a", "backendName": "analytics-cell-a", "podUid": "p", "bootId": "b",
        "configRevision": "r1",
    });
    let mut repairing = registered.clone();
    repairing["repairFor"] = json!("cell-z");
    sends([
        (registration(None), "", registered),
        (registration(Some("cell-z")), "", repairing),
    ])
    .await;
}

#[tokio::test]
async fn loss_is_claimed_with_its_evidence() {
    let expected = Generation::new(3);
    let terminated = LossEvidence::ProcessTerminated {
        pod_uid: "p".into(),
        boot_id: "b".into(),
        node_id: "n".into(),
        coordinator_id: "abcde".into(),
        source: "kubernetes-pod-absent".into(),
    };
    sends([
        (
            MemberAction::Lost {
                expected,
                evidence: terminated,
            },
            "/cell-a/lost",
            json!({"expectedGeneration": 3, "evidence": "PROCESS_TERMINATED", "termination": {
                "podUid": "p", "bootId": "b", "nodeId": "n", "coordinatorId": "abcde",
                "source": "kubernetes-pod-absent",
            }}),
        ),
        (
            MemberAction::Lost {
                expected,
                evidence: LossEvidence::DestructiveOverride {
                    reason: "burnt".into(),
                },
            },
            "/cell-a/lost",
            json!({"expectedGeneration": 3, "evidence": "DESTRUCTIVE_OVERRIDE",
                "destructiveAuthorization": true, "reason": "burnt"}),
        ),
    ])
    .await;
}

#[tokio::test]
async fn each_action_has_its_own_path_and_exactly_its_own_fields() {
    let expected = Generation::new(3);
    let receipt = AdmissionReceipt {
        certificate_hash: "c".repeat(64),
        config_revision: "r1".into(),
        auth_revision: "a1".into(),
        pod_uid: "p".into(),
        boot_id: "b".into(),
        node_id: "n".into(),
        coordinator_id: "abcde".into(),
        ready_workers: 2,
        checks: vec!["image".into()],
    };
    let cases = [
        (
            MemberAction::Admit { expected, receipt },
            "/cell-a/admit",
            json!({"expectedGeneration": 3, "receipt": {
                "certificateHash": "c".repeat(64), "configRevision": "r1", "authRevision": "a1", "podUid": "p",
                "bootId": "b", "nodeId": "n", "coordinatorId": "abcde", "readyWorkers": 2, "checks": ["image"],
            }}),
        ),
        (
            MemberAction::Drain { expected },
            "/cell-a/drain",
            json!({"expectedGeneration": 3}),
        ),
        (
            MemberAction::Seal { expected },
            "/cell-a/seal",
            json!({"expectedGeneration": 3}),
        ),
        (
            MemberAction::Suspect {
                expected,
                reason: "it fails".into(),
            },
            "/cell-a/suspect",
            json!({"expectedGeneration": 3, "reason": "it fails"}),
        ),
        (
            MemberAction::Retire { expected },
            "/cell-a/retire",
            json!({"expectedGeneration": 3}),
        ),
        (
            MemberAction::Retired { expected },
            "/cell-a/retired",
            json!({"expectedGeneration": 3, "resourcesAbsent": true}),
        ),
    ];
    sends(cases).await;
}

#[tokio::test]
async fn every_request_carries_both_credentials_marked_sensitive() {
    let canned = Canned::with([ok(&pool_json()), ok(&member_json()), ok(&json!([]))]);
    let gateway = canned.gateway();
    gateway.pool(&controller().pool).await.unwrap();
    gateway.send(&controller(), &drain()).await;
    gateway.remove_backend(&"b".into()).await;
    for request in canned.requests.lock().unwrap().iter() {
        let headers = request.headers();
        assert_eq!(headers[TOKEN_HEADER], TOKEN);
        assert_eq!(headers["authorization"], format!("Bearer {TOKEN}"));
        assert_eq!(headers["accept"], "application/json");
        assert!(headers[TOKEN_HEADER].is_sensitive() && headers["authorization"].is_sensitive());
        assert!(!format!("{request:?}").contains(TOKEN));
    }
    assert!(!format!("{gateway:?}").contains(TOKEN));
}

#[tokio::test]
async fn a_dot_segment_is_never_sent() {
    for name in ["", ".", ".."] {
        let canned = Canned::with([]);
        let read = canned.gateway().pool(&RoutingGroup::new(name)).await;
        assert!(matches!(read, Err(GatewayFault::Protocol(_))), "{read:?}");
        assert!(canned.sent().is_empty());
    }
}

proptest! {
    #[test]
    fn any_name_is_one_path_segment_and_survives_it(name in "\\PC{1,40}") {
        prop_assume!(!matches!(name.as_str(), "." | ".."));
        let canned = Canned::with([ok(&json!({}))]);
        let asked = canned.gateway();
        let read = futures::executor::block_on(asked.pool(&RoutingGroup::new(name.clone())));
        prop_assert!(read.is_err(), "an empty object is no pool");
        let sent = canned.sent();
        let segments: Vec<&str> = sent[0].1.split('/').collect();
        prop_assert_eq!(segments.len(), 5);
        let mut bytes = Vec::new();
        let mut rest = segments[4].as_bytes();
        while let Some((&first, after)) = rest.split_first() {
            if first == b'%' {
                let digits = std::str::from_utf8(&after[..2]).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &after[2..];
            } else {
                bytes.push(first);
                rest = after;
            }
        }
        prop_assert_eq!(String::from_utf8(bytes).unwrap(), name);
    }
}
