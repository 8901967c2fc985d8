//! Members that fail: suspicion, loss, repair (protocol sections 3.1, 6; 9: A.5, A.6).

use trino_pool_operator::gateway::model::{
    LossEvidence, Member, MemberAction, MemberPhase, RefusalCode, RetirementKind,
};
use trino_pool_operator::gateway::port::Outcome;
use trino_pool_operator::pool::ids::{BootId, Generation, InstanceId};

use crate::stage::{
    Stage, admit, applied, drain, in_phase, pool, refused, register, replayed, request, retire, retired,
    seal, suspect,
};
use crate::stories;

stories! {
    suspicion_has_no_way_back_but_through_a_drain;
    a_suspect_drain_ignores_the_floor_and_a_planned_one_does_not;
    loss_needs_suspicion_and_the_exact_process;
    an_override_needs_no_process_but_a_reason;
    a_lost_member_is_retired_as_failed_and_frees_its_slot;
    repairs_have_a_budget_of_their_own_and_one_per_member;
    a_whole_pool_of_suspects_is_replaced;
}

fn lost(member: &Member, expected: u64) -> MemberAction {
    MemberAction::Lost {
        expected: Generation::new(expected),
        evidence: LossEvidence::ProcessTerminated {
            pod_uid: member.pod_uid.clone(),
            boot_id: member.boot_id.clone(),
            node_id: member.node_id.clone(),
            coordinator_id: member.coordinator_id.clone(),
            source: "kubernetes-pod-absent".into(),
        },
    }
}

async fn repair(stage: &Stage, instance: &str, target: &str) -> Outcome<Member> {
    stage.coordinator(instance).await;
    stage
        .step(instance, "register", register(instance, Some(target)))
        .await
}

async fn suspicion_has_no_way_back_but_through_a_drain(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.serving("cell-a").await;
    let page = stage.submit("SELECT 1", None).await;
    let suspected = applied(stage.step("cell-a", "suspect", suspect(1)).await);
    in_phase(&suspected, MemberPhase::Suspect, 2);
    assert!(!suspected.eligible);
    assert_eq!(stage.submit("SELECT 1", None).await.status(), 503, "no new work");
    assert_eq!(
        stage.follow("GET", &page).await.status(),
        200,
        "pinned work lives"
    );

    let again = MemberAction::Admit {
        expected: suspected.generation,
        receipt: crate::stage::receipt(&member),
    };
    assert_eq!(
        refused(stage.step("cell-a", "admit-2", again).await),
        RefusalCode::Phase
    );
    in_phase(
        &applied(stage.step("cell-a", "drain", drain(2)).await),
        MemberPhase::Draining,
        3,
    );
    in_phase(
        &replayed(stage.step("cell-a", "drain", drain(2)).await),
        MemberPhase::Draining,
        3,
    );
    stage.advance(std::time::Duration::from_mins(2));
    applied(stage.step("cell-a", "seal", seal(3)).await);
    let claimed = applied(stage.step("cell-a", "retire", retire(4)).await);
    assert_eq!(claimed.retirement_kind, Some(RetirementKind::Drained));
}

async fn a_suspect_drain_ignores_the_floor_and_a_planned_one_does_not(stage: &Stage) {
    stage.configured(2, 2).await;
    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "suspect", suspect(1)).await);
    assert_eq!(
        refused(stage.step("cell-b", "drain", drain(1)).await),
        RefusalCode::ServingFloor
    );
    applied(stage.step("cell-a", "drain", drain(2)).await);
    assert_eq!(stage.serving_count().await, 1);
}

async fn loss_needs_suspicion_and_the_exact_process(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.serving("cell-a").await;
    assert_eq!(
        refused(stage.step("cell-a", "lost", lost(&member, 1)).await),
        RefusalCode::Phase
    );
    applied(stage.step("cell-a", "suspect", suspect(1)).await);
    let other = Member {
        boot_id: BootId::new("another-boot"),
        ..member.clone()
    };
    assert_eq!(
        refused(stage.step("cell-a", "lost", lost(&other, 2)).await),
        RefusalCode::EvidenceRequired
    );
    assert_eq!(
        refused(stage.step("cell-a", "retire", retire(2)).await),
        RefusalCode::Phase
    );
    in_phase(
        &applied(stage.step("cell-a", "lost", lost(&member, 2)).await),
        MemberPhase::Lost,
        3,
    );
    assert_eq!(
        refused(stage.step("cell-a", "drain", drain(3)).await),
        RefusalCode::Phase
    );
}

async fn an_override_needs_no_process_but_a_reason(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    applied(stage.step("cell-a", "suspect", suspect(1)).await);
    let override_with = |reason: &str| MemberAction::Lost {
        expected: Generation::new(2),
        evidence: LossEvidence::DestructiveOverride {
            reason: reason.into(),
        },
    };
    let unexplained = stage.step("cell-a", "lost", override_with("")).await;
    assert_eq!(refused(unexplained), RefusalCode::EvidenceRequired);
    applied(
        stage
            .step("cell-a", "lost", override_with("the node burnt down"))
            .await,
    );
}

async fn a_lost_member_is_retired_as_failed_and_frees_its_slot(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.serving("cell-a").await;
    stage.submit("SELECT 1", None).await;
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "suspect", suspect(1)).await);
    stage.coordinator("cell-c").await;
    let third = || stage.step("cell-c", "register", register("cell-c", None));
    assert_eq!(
        refused(third().await),
        RefusalCode::SurgeBudget,
        "a suspect keeps its slot"
    );
    applied(stage.step("cell-a", "lost", lost(&member, 2)).await);
    applied(third().await);

    assert_eq!(
        stage.obligations("cell-a").await.active_queries,
        1,
        "counters are not zeroed"
    );
    let claimed = applied(stage.step("cell-a", "retire", retire(3)).await);
    in_phase(&claimed, MemberPhase::Retiring, 4);
    assert_eq!(claimed.retirement_kind, Some(RetirementKind::Failed));
    applied(stage.step("cell-a", "retired", retired(4)).await);
}

async fn repairs_have_a_budget_of_their_own_and_one_per_member(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    assert_eq!(
        refused(repair(stage, "cell-r1", "cell-a").await),
        RefusalCode::RepairBudget,
        "it serves"
    );
    assert_eq!(
        refused(repair(stage, "cell-r1", "cell-x").await),
        RefusalCode::NotFound
    );
    applied(stage.step("cell-a", "suspect", suspect(1)).await);
    // Surge is spent; the repair budget is not.
    applied(repair(stage, "cell-r1", "cell-a").await);
    assert_eq!(
        refused(repair(stage, "cell-r2", "cell-a").await),
        RefusalCode::RepairBudget,
        "one each"
    );
    let mut settings = crate::stage::settings(1, 1);
    settings.max_repair = 1;
    let step = trino_pool_operator::pool::ids::StepId::new("e1-2");
    stage
        .gateway
        .configure(&crate::stage::leader(1), &step, &settings)
        .await;
    applied(stage.step("cell-b", "suspect", suspect(1)).await);
    assert_eq!(
        refused(repair(stage, "cell-r3", "cell-b").await),
        RefusalCode::RepairBudget,
        "spent"
    );
}

async fn a_whole_pool_of_suspects_is_replaced(stage: &Stage) {
    stage.configured(3, 1).await;
    let cells = ["cell-a", "cell-b", "cell-c", "cell-d"];
    for instance in cells {
        stage.serving(instance).await;
    }
    let page = stage.submit("SELECT 1", None).await;
    for instance in cells {
        applied(stage.step(instance, "suspect", suspect(1)).await);
        applied(stage.step(instance, "drain", drain(2)).await);
    }
    assert_eq!(stage.serving_count().await, 0);
    for (index, target) in cells.iter().take(3).enumerate() {
        let instance = format!("cell-r{index}");
        let member = applied(repair(stage, &instance, target).await);
        let again = request(&instance, "register", register(&instance, Some(target)));
        replayed(stage.gateway.send(&crate::stage::leader(1), &again).await);
        applied(stage.step(&instance, "admit", admit(&member)).await);
    }
    assert_eq!(stage.serving_count().await, 3);
    let draining = stage.gateway.members(&pool()).await.unwrap();
    assert_eq!(
        draining
            .iter()
            .filter(|member| member.phase == MemberPhase::Draining)
            .count(),
        4
    );
    assert_eq!(
        stage.follow("GET", &page).await.status(),
        200,
        "the drained owner still serves it"
    );
    assert!(
        stage
            .gateway
            .member(&pool(), &InstanceId::new("cell-r3"))
            .await
            .unwrap()
            .is_none()
    );
}
