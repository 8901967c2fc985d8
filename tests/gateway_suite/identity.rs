//! One process, one registration, for ever (protocol sections 3.1, 5).

use trino_pool_operator::gateway::model::{AdmissionReceipt, MemberAction, MemberPhase, RefusalCode};
use trino_pool_operator::gateway::port::{GatewayFault, Outcome};
use trino_pool_operator::pool::ids::{BackendName, BootId, Generation, TrinoNodeId};

use crate::stage::{
    Stage, admit, applied, backend, in_phase, receipt, refused, register, request, retire, retired, url,
};
use crate::stories;

stories! {
    a_receipt_must_prove_the_registered_process;
    a_restarted_process_is_never_the_registered_one;
    a_coordinator_that_does_not_answer_leaves_the_candidate_as_it_is;
    no_identity_is_ever_used_twice;
    a_publication_barrier_holds_admissions_back_and_then_lets_them_through;
}

async fn a_receipt_must_prove_the_registered_process(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    let good = receipt(&member);
    let wrong: [(&str, AdmissionReceipt); 6] = [
        (
            "boot",
            AdmissionReceipt {
                boot_id: BootId::new("other"),
                ..good.clone()
            },
        ),
        (
            "node",
            AdmissionReceipt {
                node_id: TrinoNodeId::new("other"),
                ..good.clone()
            },
        ),
        (
            "revision",
            AdmissionReceipt {
                config_revision: "r2".into(),
                ..good.clone()
            },
        ),
        (
            "workers",
            AdmissionReceipt {
                ready_workers: 0,
                ..good.clone()
            },
        ),
        (
            "checks",
            AdmissionReceipt {
                checks: vec!["image".into(), "workers".into()],
                ..good.clone()
            },
        ),
        (
            "no checks",
            AdmissionReceipt {
                checks: Vec::new(),
                ..good.clone()
            },
        ),
    ];
    for (what, receipt) in wrong {
        let action = MemberAction::Admit {
            expected: member.generation,
            receipt,
        };
        assert_eq!(
            refused(stage.step("cell-a", "admit", action).await),
            RefusalCode::NotCertified,
            "{what}"
        );
    }
    let unhashed = AdmissionReceipt {
        certificate_hash: "AB".repeat(32),
        ..good
    };
    let action = MemberAction::Admit {
        expected: member.generation,
        receipt: unhashed,
    };
    assert_eq!(
        refused(stage.step("cell-a", "admit", action).await),
        RefusalCode::Validation
    );
    // None of it left a trace.
    in_phase(
        &applied(stage.step("cell-a", "admit", admit(&member)).await),
        MemberPhase::Active,
        1,
    );
}

async fn a_restarted_process_is_never_the_registered_one(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    stage.host().fleet.start(&url("cell-a"), "cell-a");
    assert_ne!(stage.coordinator_id("cell-a"), member.coordinator_id);
    assert_eq!(
        refused(stage.step("cell-a", "admit", admit(&member)).await),
        RefusalCode::NotCertified
    );

    // Nor is one restarted after its admission: a client is told, and nothing is owed.
    let serving = stage.serving("cell-b").await;
    stage.host().fleet.start(&url("cell-b"), "cell-b");
    assert_ne!(stage.coordinator_id("cell-b"), serving.coordinator_id);
    assert_eq!(stage.submit("SELECT 1", None).await.status(), 409);
    assert_eq!(stage.obligations("cell-b").await.outstanding(), 0);
}

async fn a_coordinator_that_does_not_answer_leaves_the_candidate_as_it_is(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    let unavailable = Outcome::Unknown(GatewayFault::Unavailable { status: 503 });
    let origin = url("cell-a");
    stage.host().fleet.processes.get_mut(&origin).unwrap().starting = true;
    assert_eq!(stage.step("cell-a", "admit", admit(&member)).await, unavailable);
    stage.host().fleet.processes.clear();
    assert_eq!(stage.step("cell-a", "admit", admit(&member)).await, unavailable);
    in_phase(&stage.member("cell-a").await, MemberPhase::Preparing, 0);
}

async fn no_identity_is_ever_used_twice(stage: &Stage) {
    stage.configured(2, 1).await;
    let member = stage.prepared("cell-a").await;
    applied(stage.step("cell-a", "retire", retire(0)).await);
    applied(stage.step("cell-a", "retired", retired(1)).await);

    // The same instance id with everything else new.
    stage.coordinator("cell-b").await;
    let renamed = |pod: &str| {
        let MemberAction::Register(mut registration) = register("cell-b", None) else {
            unreachable!("register makes a registration")
        };
        registration.pod_uid = pod.into();
        registration
    };
    let again = request("cell-a", "register-2", MemberAction::Register(renamed("pod-new")));
    let send = |step| async move { stage.gateway.send(&crate::stage::leader(1), &step).await };
    assert_eq!(refused(send(again).await), RefusalCode::IdentityConflict);

    // The same pod and boot under a new instance.
    let mut same_process = renamed(member.pod_uid.as_str());
    same_process.boot_id = member.boot_id.clone();
    let step = request("cell-b", "register", MemberAction::Register(same_process));
    assert_eq!(refused(send(step).await), RefusalCode::IdentityConflict);

    // The same endpoint under a new backend name.
    let mut alias = backend("cell-a");
    alias.name = BackendName::new("analytics-alias");
    assert_eq!(stage.gateway.ensure_backend(&alias).await, Outcome::Applied(()));
    stage.host().fleet.start(&url("cell-a"), "cell-new");
    let mut same_endpoint = renamed("pod-c");
    same_endpoint.backend_name = alias.name;
    let step = request("cell-c", "register", MemberAction::Register(same_endpoint));
    assert_eq!(refused(send(step).await), RefusalCode::IdentityConflict);

    // What is new in everything is welcome.
    in_phase(&stage.prepared("cell-d").await, MemberPhase::Preparing, 0);
}

async fn a_publication_barrier_holds_admissions_back_and_then_lets_them_through(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    stage.host().sim.open_publication(crate::stage::POOL, "p1", "r2");
    let step = || stage.step("cell-a", "admit", admit(&member));
    assert_eq!(refused(step().await), RefusalCode::PublicationBarrier);
    assert_eq!(refused(step().await), RefusalCode::PublicationBarrier);
    assert_eq!(stage.member("cell-a").await.generation, Generation::new(0));
    stage.host().sim.close_publication(crate::stage::POOL, "p1");
    in_phase(&applied(step().await), MemberPhase::Active, 1);
}
