//! The desired state, the mode and the memory of failures.

use trino_pool_operator::pool::desired::{FreezeReason, PoolMode};
use trino_pool_operator::pool::ids::SpecGeneration;
use trino_pool_operator::pool::instance::{CandidateFailure, FailureCause};
use trino_pool_operator::store::port::{Committed, FailureMemory, PoolIdentity, StoreError, Write};

use crate::bed::Bed;
use crate::fixtures::{at, desired, identity, pool, write};

crate::on_every_store![
    s11_the_last_good_desired_state_survives,
    s11_generations_are_ordered_within_one_resource,
    s11_a_new_resource_takes_over_only_with_the_same_identity,
    every_mode_survives,
    l5_failures_are_counted_by_cause_until_forgotten,
];

fn publish(pool: &PoolIdentity, resource: &str, generation: u64) -> Write {
    let mut desired = desired(pool);
    desired.instances = u32::try_from(generation).unwrap();
    Write::PublishDesired {
        resource: resource.into(),
        generation: SpecGeneration::new(generation),
        desired: Box::new(desired),
    }
}

async fn s11_the_last_good_desired_state_survives(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let a = identity("a");
    write(&*bed.store, &authority, vec![publish(&a, "uid-1", 3)]).await;
    let row = bed.reopened().await.load(&authority.pool).await.unwrap().pool;
    assert_eq!(row.resource, Some("uid-1".into()));
    assert_eq!(row.generation, SpecGeneration::new(3));
    assert_eq!(row.desired, Some(Ok(desired(&a))));
    assert_eq!(row.identity, a);
}

async fn s11_generations_are_ordered_within_one_resource(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let a = identity("a");
    write(&*bed.store, &authority, vec![publish(&a, "uid-1", 5)]).await;
    let backwards = bed
        .store
        .commit(&authority, at(1), &[publish(&a, "uid-1", 4)])
        .await;
    assert!(
        matches!(backwards, Err(StoreError::Conflict(..))),
        "not a fence: {backwards:?}"
    );
    // Also within one commit.
    let backwards = bed
        .store
        .commit(
            &authority,
            at(1),
            &[publish(&a, "uid-1", 7), publish(&a, "uid-1", 6)],
        )
        .await;
    assert!(
        matches!(backwards, Err(StoreError::Conflict(..))),
        "{backwards:?}"
    );
    write(
        &*bed.store,
        &authority,
        vec![publish(&a, "uid-1", 5), publish(&a, "uid-1", 6)],
    )
    .await;
    let row = bed.store.load(&authority.pool).await.unwrap().pool;
    assert_eq!(row.generation, SpecGeneration::new(6));
}

async fn s11_a_new_resource_takes_over_only_with_the_same_identity(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let a = identity("a");
    write(&*bed.store, &authority, vec![publish(&a, "uid-1", 5)]).await;
    let mut elsewhere = a.clone();
    elsewhere.routing_group = "elsewhere".into();
    let mut other_namespace = a.clone();
    other_namespace.namespace = "other".into();
    for other in [
        publish(&elsewhere, "uid-2", 9),
        publish(&elsewhere, "uid-1", 9),
        publish(&other_namespace, "uid-2", 1),
    ] {
        let result = bed.store.commit(&authority, at(1), &[other]).await;
        assert!(matches!(result, Err(StoreError::Conflict(..))), "{result:?}");
    }
    write(&*bed.store, &authority, vec![publish(&a, "uid-2", 1)]).await;
    let row = bed.store.load(&authority.pool).await.unwrap().pool;
    assert_eq!(
        (row.resource, row.generation),
        (Some("uid-2".into()), SpecGeneration::new(1))
    );
}

async fn every_mode_survives(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    for mode in [
        PoolMode::Held("spec.instances: 0 is \"too few\"".into()),
        PoolMode::Frozen(FreezeReason::Missing),
        PoolMode::Frozen(FreezeReason::IdentityChanged("routing group".into())),
        PoolMode::Frozen(FreezeReason::StoreMismatch),
        PoolMode::Frozen(FreezeReason::WentBackwards),
        PoolMode::Retained,
        PoolMode::Emptying,
        PoolMode::Open,
    ] {
        write(&*bed.store, &authority, vec![Write::SetMode(mode.clone())]).await;
        assert_eq!(bed.store.load(&authority.pool).await.unwrap().pool.mode, mode);
    }
}

async fn l5_failures_are_counted_by_cause_until_forgotten(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let other = pool(&*bed.store, "b").await;
    let fail = |cause, detail: &str| {
        Write::RememberFailure(CandidateFailure {
            cause,
            detail: detail.into(),
        })
    };
    write(
        &*bed.store,
        &other,
        vec![fail(FailureCause::NodeUnowned, "theirs")],
    )
    .await;
    for (micros, cause, detail) in [
        (1, FailureCause::NodeUnowned, "n1"),
        (2, FailureCause::DeadlineExceeded, "slow"),
        (3, FailureCause::NodeUnowned, "n2"),
    ] {
        bed.store
            .commit(&authority, at(micros), &[fail(cause, detail)])
            .await
            .unwrap();
    }
    let memory = |cause, count, micros, detail: &str| FailureMemory {
        cause,
        count,
        last_at: at(micros),
        detail: detail.into(),
    };
    assert_eq!(
        bed.reopened()
            .await
            .load(&authority.pool)
            .await
            .unwrap()
            .pool
            .failures,
        [
            memory(FailureCause::DeadlineExceeded, 1, 2, "slow"),
            memory(FailureCause::NodeUnowned, 2, 3, "n2"),
        ]
    );
    assert_eq!(
        bed.store
            .commit(&authority, at(4), &[Write::ForgetFailures])
            .await,
        Ok(vec![Committed::Done])
    );
    assert!(
        bed.store
            .load(&authority.pool)
            .await
            .unwrap()
            .pool
            .failures
            .is_empty()
    );
    assert_eq!(bed.store.load(&other.pool).await.unwrap().pool.failures.len(), 1);
}
