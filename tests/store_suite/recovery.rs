//! A recovery is accepted for exactly the process a person saw, once, while enough others serve.

use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::{Authority, Recovery, StoreError};

use crate::bed::Bed;
use crate::fixtures::{self, advance, at, life, pool, recovery, write};

crate::on_every_store![
    an_exact_recovery_is_accepted_and_the_same_intent_again,
    a_recovery_of_another_process_or_member_is_refused,
    a_recovery_waits_for_the_floor,
    only_a_draining_instance_is_recovered,
    one_recovery_for_each_instance_and_operation_ever,
    a_recovery_that_cannot_be_stored_is_refused,
    a_recovery_is_listed_until_its_instance_is_terminal,
];

/// One instance draining as [`recovery`] says, two others serving.
async fn draining(bed: &Bed) -> Authority {
    let authority = fixtures::draining(&*bed.store, "cell-1").await;
    write(&*bed.store, &authority, life("cell-2", Phase::Serving)).await;
    write(&*bed.store, &authority, life("cell-3", Phase::Serving)).await;
    authority
}

async fn refused(bed: &Bed, authority: &Authority, floor: u32, asked: &Recovery) {
    let result = bed.store.request_recovery(&authority.pool, floor, asked).await;
    assert!(
        matches!(result, Err(StoreError::Conflict(..))),
        "{asked:?}: {result:?}"
    );
}

async fn an_exact_recovery_is_accepted_and_the_same_intent_again(bed: &Bed) {
    let authority = draining(bed).await;
    let asked = recovery("ticket-1", "cell-1");
    bed.store
        .request_recovery(&authority.pool, 2, &asked)
        .await
        .unwrap();
    // Asked again later, when the row has moved on and fewer serve.
    write(
        &*bed.store,
        &authority,
        vec![
            advance("cell-1", Phase::Draining, Phase::Suspect),
            advance("cell-2", Phase::Serving, Phase::Draining),
        ],
    )
    .await;
    let mut again = asked.clone();
    again.created_at = at(77);
    bed.store
        .request_recovery(&authority.pool, 2, &again)
        .await
        .unwrap();
    let loaded = bed.reopened().await.load(&authority.pool).await.unwrap();
    assert_eq!(loaded.recoveries, [asked]);
}

async fn a_recovery_of_another_process_or_member_is_refused(bed: &Bed) {
    let authority = draining(bed).await;
    let exact = recovery("ticket-1", "cell-1");
    let other = |change: fn(&mut Recovery)| {
        let mut asked = exact.clone();
        change(&mut asked);
        asked
    };
    for asked in [
        other(|r| r.expected_generation = r.expected_generation.next()),
        other(|r| r.incarnation = "inc-2".into()),
        other(|r| r.pod_uid = "pod-2".into()),
        other(|r| r.boot_id = "boot-2".into()),
        other(|r| r.node_id = "node-2".into()),
        other(|r| r.coordinator_id = "c2".into()),
        other(|r| r.instance = "cell-9".into()),
    ] {
        refused(bed, &authority, 1, &asked).await;
    }
    let elsewhere = pool(&*bed.store, "b").await;
    refused(bed, &elsewhere, 0, &exact).await;
    assert!(
        bed.store
            .load(&authority.pool)
            .await
            .unwrap()
            .recoveries
            .is_empty()
    );
}

async fn a_recovery_waits_for_the_floor(bed: &Bed) {
    let authority = draining(bed).await;
    let asked = recovery("ticket-1", "cell-1");
    refused(bed, &authority, 3, &asked).await;
    bed.store
        .request_recovery(&authority.pool, 2, &asked)
        .await
        .unwrap();
}

async fn only_a_draining_instance_is_recovered(bed: &Bed) {
    let authority = draining(bed).await;
    write(
        &*bed.store,
        &authority,
        vec![advance("cell-1", Phase::Draining, Phase::Sealed)],
    )
    .await;
    refused(bed, &authority, 1, &recovery("ticket-1", "cell-1")).await;
    // No member and no process are known of this one.
    write(&*bed.store, &authority, life("cell-4", Phase::Draining)).await;
    refused(bed, &authority, 1, &recovery("ticket-1", "cell-4")).await;
}

async fn one_recovery_for_each_instance_and_operation_ever(bed: &Bed) {
    let authority = draining(bed).await;
    write(&*bed.store, &authority, life("cell-4", Phase::Draining)).await;
    let asked = recovery("ticket-1", "cell-1");
    bed.store
        .request_recovery(&authority.pool, 1, &asked)
        .await
        .unwrap();
    let mut reworded = asked.clone();
    reworded.reason = "another reason".into();
    refused(bed, &authority, 1, &reworded).await;
    refused(bed, &authority, 1, &recovery("ticket-2", "cell-1")).await;
    refused(bed, &authority, 1, &recovery("ticket-1", "cell-4")).await;
}

async fn a_recovery_that_cannot_be_stored_is_refused(bed: &Bed) {
    let authority = draining(bed).await;
    let exact = recovery("ticket-1", "cell-1");
    for (operation, who, why) in [
        ("", "jo", "why"),
        ("ticket 1", "jo", "why"),
        (&*"x".repeat(129), "jo", "why"),
        ("ticket-1", "", "why"),
        ("ticket-1", "jo", ""),
        ("ticket-1", "jo", &*"\u{e9}".repeat(257)),
    ] {
        let mut asked = exact.clone();
        asked.operation = operation.into();
        asked.requested_by = who.into();
        asked.reason = why.into();
        refused(bed, &authority, 1, &asked).await;
    }
    let mut longest = exact;
    longest.reason = "\u{e9}".repeat(256);
    longest.requested_by = "\u{e9}".repeat(320);
    bed.store
        .request_recovery(&authority.pool, 1, &longest)
        .await
        .unwrap();
}

async fn a_recovery_is_listed_until_its_instance_is_terminal(bed: &Bed) {
    let authority = draining(bed).await;
    bed.store
        .request_recovery(&authority.pool, 1, &recovery("ticket-1", "cell-1"))
        .await
        .unwrap();
    for (from, to, listed) in [
        (Phase::Draining, Phase::Suspect, 1),
        (Phase::Suspect, Phase::Lost, 1),
        (Phase::Lost, Phase::FailureRetired, 0),
    ] {
        write(&*bed.store, &authority, vec![advance("cell-1", from, to)]).await;
        let loaded = bed.store.load(&authority.pool).await.unwrap();
        assert_eq!(loaded.recoveries.len(), listed, "{to}");
    }
}
