//! Who may write: epochs, owners, credentials (protocol sections 1.1, 2.1, 2.3).

use trino_pool_operator::gateway::model::{MemberPhase, RefusalCode};
use trino_pool_operator::gateway::port::{GatewayFault, Outcome};
use trino_pool_operator::pool::ids::{Epoch, OwnerId, StepId};

use crate::stage::{
    Stage, admit, applied, drain, in_phase, leader, pool, refused, replayed, request, seal, settings,
};
use crate::stories;

stories! {
    a_successor_takes_over_and_the_predecessor_is_fenced;
    a_predecessors_step_replays_for_its_successor;
    two_owners_cannot_share_an_epoch;
    a_configuration_replays_for_its_own_authority_only;
    a_wrong_credential_is_no_verdict;
}

async fn configure(
    stage: &Stage,
    epoch: u64,
    step: &str,
) -> Outcome<trino_pool_operator::gateway::model::PoolState> {
    stage
        .gateway
        .configure(&leader(epoch), &StepId::new(step), &settings(2, 1))
        .await
}

async fn a_successor_takes_over_and_the_predecessor_is_fenced(stage: &Stage) {
    stage.configured(2, 1).await;
    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    assert!(matches!(configure(stage, 2, "e2").await, Outcome::Applied(_)));

    assert_eq!(
        refused(stage.step("cell-a", "drain", drain(1)).await),
        RefusalCode::StaleEpoch
    );
    assert_eq!(
        refused(configure(stage, 1, "e1-again").await),
        RefusalCode::StaleEpoch
    );
    in_phase(&stage.member("cell-a").await, MemberPhase::Active, 1);
    assert_eq!(
        stage
            .gateway
            .pool(&pool())
            .await
            .unwrap()
            .unwrap()
            .controller_epoch,
        Epoch::new(2),
        "reading is open to all"
    );
    let drained = stage
        .gateway
        .send(&leader(2), &request("cell-a", "drain", drain(1)))
        .await;
    in_phase(&applied(drained), MemberPhase::Draining, 2);
}

async fn a_predecessors_step_replays_for_its_successor(stage: &Stage) {
    stage.configured(2, 1).await;
    let member = stage.prepared("cell-a").await;
    let step = request("cell-a", "admit", admit(&member));
    let first = applied(stage.gateway.send(&leader(1), &step).await);
    configure(stage, 2, "e2").await;

    // The body is the same but for epoch and owner: the intent is the journaled one.
    let resent = replayed(stage.gateway.send(&leader(2), &step).await);
    assert_eq!(
        (resent.incarnation, resent.generation),
        (first.incarnation.clone(), first.generation)
    );
    // Read-only, so even the fenced one may learn what became of its step.
    assert_eq!(
        replayed(stage.gateway.send(&leader(1), &step).await).incarnation,
        first.incarnation
    );

    let another = request("cell-a", "admit", seal(1));
    assert_eq!(
        refused(stage.gateway.send(&leader(2), &another).await),
        RefusalCode::IntentChanged
    );
}

async fn two_owners_cannot_share_an_epoch(stage: &Stage) {
    stage.configured(2, 1).await;
    stage.serving("cell-a").await;
    stage.serving("cell-b").await;
    let mut twin = leader(1);
    twin.owner = OwnerId::new("controller-1-twin");
    let step = request("cell-a", "drain", drain(1));
    assert_eq!(
        refused(stage.gateway.send(&twin, &step).await),
        RefusalCode::StaleEpoch
    );
    let claim = stage
        .gateway
        .configure(&twin, &StepId::new("twin"), &settings(2, 1))
        .await;
    assert_eq!(refused(claim), RefusalCode::StaleEpoch);
}

async fn a_configuration_replays_for_its_own_authority_only(stage: &Stage) {
    stage.configured(2, 1).await;
    let same = stage
        .gateway
        .configure(&leader(1), &StepId::new("e1"), &settings(2, 1))
        .await;
    assert!(matches!(same, Outcome::Replayed(_)), "{same:?}");
    let changed = stage
        .gateway
        .configure(&leader(1), &StepId::new("e1"), &settings(3, 1))
        .await;
    assert_eq!(refused(changed), RefusalCode::IntentChanged);
    // A new leader that reuses its predecessor's step id takes nothing over.
    assert_eq!(
        refused(configure(stage, 2, "e1").await),
        RefusalCode::IntentChanged
    );
}

async fn a_wrong_credential_is_no_verdict(stage: &Stage) {
    stage.configured(2, 1).await;
    let stranger = stage.client_with("another-token-of-at-least-32-bytes-xx");
    let denied = GatewayFault::Credential { status: 403 };
    assert_eq!(stranger.pool(&pool()).await, Err(denied.clone()));
    let outcome = stranger
        .send(&leader(1), &request("cell-a", "drain", drain(1)))
        .await;
    assert_eq!(outcome, Outcome::Unknown(denied));
}
