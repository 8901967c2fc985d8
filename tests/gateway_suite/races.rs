//! Two want the same member: compare-and-set lets one win (protocol section 3.2, S10).

use trino_pool_operator::gateway::model::{MemberPhase, RefusalCode};
use trino_pool_operator::gateway::port::Outcome;

use crate::stage::{Stage, admit, applied, drain, in_phase, refused, retire, seal, suspect};
use crate::stories;

stories! {
    admission_and_retirement_race_and_one_wins;
    a_candidate_whose_retirement_won_is_never_admitted;
    an_admission_that_won_is_never_undone_by_the_retirement;
    two_admissions_of_one_member_race_and_one_wins;
    two_drains_cannot_both_spend_the_last_spare_member;
    a_step_on_an_old_generation_is_refused;
}

async fn admission_and_retirement_race_and_one_wins(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    let (admitted, retired) = tokio::join!(
        stage.step("cell-a", "admit", admit(&member)),
        stage.step("cell-a", "retire", retire(0)),
    );
    let phase = stage.member("cell-a").await.phase;
    match (admitted, retired) {
        (Outcome::Applied(_), Outcome::Refused(refusal)) => {
            assert_eq!(
                (phase, refusal.code),
                (MemberPhase::Active, RefusalCode::StaleGeneration)
            );
        }
        (Outcome::Refused(refusal), Outcome::Applied(_)) => {
            assert_eq!(
                (phase, refusal.code),
                (MemberPhase::Retiring, RefusalCode::StaleGeneration)
            );
        }
        both => panic!("both or neither: {both:?}"),
    }
}

async fn a_candidate_whose_retirement_won_is_never_admitted(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    applied(stage.step("cell-a", "retire", retire(0)).await);
    assert_eq!(
        refused(stage.step("cell-a", "admit", admit(&member)).await),
        RefusalCode::StaleGeneration
    );
    let current = stage.member("cell-a").await;
    assert_eq!(
        refused(stage.step("cell-a", "admit-2", admit(&current)).await),
        RefusalCode::Irreversible
    );
    in_phase(&stage.member("cell-a").await, MemberPhase::Retiring, 1);
}

async fn an_admission_that_won_is_never_undone_by_the_retirement(stage: &Stage) {
    stage.configured(1, 1).await;
    stage.serving("cell-a").await;
    assert_eq!(
        refused(stage.step("cell-a", "retire", retire(0)).await),
        RefusalCode::StaleGeneration
    );
    assert_eq!(
        refused(stage.step("cell-a", "retire-2", retire(1)).await),
        RefusalCode::Phase
    );
    in_phase(&stage.member("cell-a").await, MemberPhase::Active, 1);
}

async fn two_admissions_of_one_member_race_and_one_wins(stage: &Stage) {
    stage.configured(1, 1).await;
    let member = stage.prepared("cell-a").await;
    let (one, two) = tokio::join!(
        stage.step("cell-a", "admit-1", admit(&member)),
        stage.step("cell-a", "admit-2", admit(&member)),
    );
    let (won, lost): (Vec<_>, Vec<_>) = [one, two].into_iter().partition(|it| it.accepted().is_some());
    assert_eq!(won.len(), 1);
    for outcome in lost {
        assert_eq!(refused(outcome), RefusalCode::StaleGeneration);
    }
    in_phase(&stage.member("cell-a").await, MemberPhase::Active, 1);
}

async fn two_drains_cannot_both_spend_the_last_spare_member(stage: &Stage) {
    stage.configured(2, 1).await;
    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    let (a, b) = tokio::join!(
        stage.step("cell-a", "drain", drain(1)),
        stage.step("cell-b", "drain", drain(1)),
    );
    let (won, lost): (Vec<_>, Vec<_>) = [a, b].into_iter().partition(|it| it.accepted().is_some());
    assert_eq!(won.len(), 1);
    for outcome in lost {
        assert_eq!(refused(outcome), RefusalCode::ServingFloor);
    }
    assert_eq!(stage.serving_count().await, 1);
}

async fn a_step_on_an_old_generation_is_refused(stage: &Stage) {
    stage.configured(2, 1).await;
    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    applied(stage.step("cell-a", "drain", drain(1)).await);
    applied(stage.step("cell-a", "suspect", suspect(2)).await);
    assert_eq!(
        refused(stage.step("cell-a", "seal", seal(2)).await),
        RefusalCode::StaleGeneration
    );
    assert_eq!(
        refused(stage.step("cell-a", "seal", seal(3)).await),
        RefusalCode::Phase
    );
}
