//! Evidence is written once and never changes, whoever asks (S3); nodes are held by every pool's rows (S4).

use trino_pool_operator::pool::evidence::{Disruption, RecordedEvidence};
use trino_pool_operator::pool::ids::{Epoch, NodeUid};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::{Committed, NodeHold, StoreError};

use crate::bed::Bed;
use crate::fixtures::{
    advance, append, at, create, every_change, evidence, id, life, node, pool, record, write,
};

crate::on_every_store![
    s3_the_first_evidence_wins,
    s3_evidence_may_follow_in_every_live_phase,
    s3_a_terminal_row_keeps_what_it_has,
    s3_evidence_without_an_identity_is_refused,
    s3_a_superseded_leader_records_no_evidence,
    s3_further_nodes_are_appended_once_and_in_order,
    s4_a_node_is_held_by_every_pool_that_named_its_uid,
    a07_a_new_machine_under_an_old_name_is_another_node,
];

crate::on_every_database![
    s3_the_database_refuses_to_change_or_clear_evidence,
    s3_the_database_refuses_to_rewrite_further_nodes,
];

async fn s3_the_first_evidence_wins(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Serving)).await;
    let first = evidence("n1", "u1", Disruption::Drifted);
    let later = evidence("n1", "u1", Disruption::Deleting);
    let writes = [
        record("cell-1", &first),
        record("cell-1", &later),
        record("cell-1", &first),
    ];
    assert_eq!(
        bed.store.commit(&authority, at(1), &writes).await,
        Ok(vec![Committed::Done, Committed::Kept, Committed::Kept])
    );
    // Not under a later authority either.
    let successor = bed
        .store
        .acquire(&authority.pool, &"next".into(), Epoch::default())
        .await
        .unwrap();
    assert_eq!(
        bed.store
            .commit(&successor, at(2), &[record("cell-1", &later)])
            .await,
        Ok(vec![Committed::Kept])
    );
    let row = bed
        .reopened()
        .await
        .instance(&id("cell-1"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.evidence, RecordedEvidence::Some(first));
}

async fn s3_evidence_may_follow_in_every_live_phase(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let seen = evidence("n1", "u1", Disruption::Drifted);
    for (n, phase) in [
        Phase::Pending,
        Phase::Validating,
        Phase::Draining,
        Phase::Retiring,
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("cell-{n}");
        write(&*bed.store, &authority, life(&name, phase)).await;
        assert_eq!(
            bed.store.commit(&authority, at(1), &[record(&name, &seen)]).await,
            Ok(vec![Committed::Done]),
            "{phase}"
        );
        // An accepted admission, or whatever else the row says, is not touched by it (S10).
        assert_eq!(
            bed.store.instance(&id(&name)).await.unwrap().unwrap().phase,
            phase
        );
    }
}

async fn s3_a_terminal_row_keeps_what_it_has(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Retired)).await;
    let seen = evidence("n1", "u1", Disruption::Drifted);
    assert_eq!(
        bed.store
            .commit(&authority, at(1), &[record("cell-1", &seen)])
            .await,
        Ok(vec![Committed::Kept])
    );
    let row = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
    assert_eq!(row.evidence, RecordedEvidence::None);
}

async fn s3_evidence_without_an_identity_is_refused(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, vec![create("cell-1")]).await;
    let mut partial = evidence("n1", "u1", Disruption::Drifted);
    partial.nodeclaim_uid = "".into();
    for refused in [
        record("cell-1", &partial),
        record("cell-9", &evidence("n1", "u1", Disruption::Drifted)),
    ] {
        let result = bed
            .store
            .commit(&authority, at(1), std::slice::from_ref(&refused))
            .await;
        assert!(
            matches!(result, Err(StoreError::Conflict(..))),
            "{refused:?}: {result:?}"
        );
    }
}

async fn s3_a_superseded_leader_records_no_evidence(bed: &Bed) {
    let old = pool(&*bed.store, "a").await;
    write(&*bed.store, &old, life("cell-1", Phase::Serving)).await;
    bed.store
        .acquire(&old.pool, &"next".into(), Epoch::default())
        .await
        .unwrap();
    let seen = evidence("n1", "u1", Disruption::Drifted);
    let result = bed.store.commit(&old, at(1), &[record("cell-1", &seen)]).await;
    assert_eq!(result, Err(StoreError::Fenced(old.pool.clone())));
    let row = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
    assert_eq!(row.evidence, RecordedEvidence::None);
}

async fn s3_further_nodes_are_appended_once_and_in_order(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Serving)).await;
    let drifted = node("n2", "u2", Disruption::Drifted);
    let other = node("n1", "u1", Disruption::Drifted);
    let deleting = node("n2", "u2", Disruption::Deleting);
    let mut seen_again = drifted.clone();
    seen_again.observed_at = at(500);
    let writes = [
        append("cell-1", &drifted),
        append("cell-1", &other),
        append("cell-1", &seen_again),
        append("cell-1", &deleting),
    ];
    assert_eq!(
        bed.store.commit(&authority, at(1), &writes).await,
        Ok(vec![
            Committed::Done,
            Committed::Done,
            Committed::Kept,
            Committed::Done
        ])
    );
    let missing = bed
        .store
        .commit(&authority, at(1), &[append("cell-9", &drifted)])
        .await;
    assert!(matches!(missing, Err(StoreError::Conflict(..))), "{missing:?}");
    let loaded = bed.reopened().await.load(&authority.pool).await.unwrap();
    assert_eq!(loaded.instances[0].replacement_nodes, [drifted, other, deleting]);
}

async fn s4_a_node_is_held_by_every_pool_that_named_its_uid(bed: &Bed) {
    let a = pool(&*bed.store, "a").await;
    let b = pool(&*bed.store, "b").await;
    write(&*bed.store, &a, life("cell-1", Phase::Serving)).await;
    write(&*bed.store, &b, life("cell-2", Phase::Retiring)).await;
    let shared = evidence("n1", "u1", Disruption::Drifted);
    write(
        &*bed.store,
        &a,
        vec![
            record("cell-1", &shared),
            append("cell-1", &node("n1", "u1", Disruption::Deleting)),
        ],
    )
    .await;
    write(
        &*bed.store,
        &b,
        vec![
            record("cell-2", &evidence("n5", "u5", Disruption::Drifted)),
            append("cell-2", &node("n1", "u1", Disruption::Drifted)),
            advance("cell-2", Phase::Retiring, Phase::Retired),
        ],
    )
    .await;
    let hold = |pool: &trino_pool_operator::store::port::Authority, name: &str, phase| NodeHold {
        pool: pool.pool.clone(),
        instance: id(name),
        phase,
        node: "n1".into(),
    };
    assert_eq!(
        bed.store.node_holds(&NodeUid::new("u1")).await.unwrap(),
        [
            hold(&a, "cell-1", Phase::Serving),
            hold(&b, "cell-2", Phase::Retired)
        ]
    );
    assert!(
        bed.store
            .node_holds(&NodeUid::new("u9"))
            .await
            .unwrap()
            .is_empty()
    );
}

async fn a07_a_new_machine_under_an_old_name_is_another_node(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Serving)).await;
    let old = evidence("n1", "u1", Disruption::Deleting);
    let new = node("n1", "u2", Disruption::Drifted);
    write(
        &*bed.store,
        &authority,
        vec![record("cell-1", &old), append("cell-1", &new)],
    )
    .await;
    let row = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
    assert_eq!(row.evidence, RecordedEvidence::Some(old));
    assert_eq!(row.replacement_nodes, [new]);
    for uid in ["u1", "u2"] {
        assert_eq!(bed.store.node_holds(&NodeUid::new(uid)).await.unwrap().len(), 1);
    }
}

async fn s3_the_database_refuses_to_change_or_clear_evidence(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let seen = evidence("n1", "u1", Disruption::Drifted);
    write(
        &*bed.store,
        &authority,
        vec![create("cell-1"), create("cell-2"), record("cell-1", &seen)],
    )
    .await;
    for statement in [
        "UPDATE instances SET node_replacement_evidence = NULL WHERE id = 'cell-1'",
        "UPDATE instances SET node_replacement_evidence = '{}' WHERE id = 'cell-1'",
        "UPDATE instances SET node_replacement_evidence = NULL",
        "DELETE FROM instances WHERE id = 'cell-1'",
    ] {
        let said = bed.refused(statement).await;
        assert!(said.contains("immutable"), "{statement}: {said}");
    }
    // What is not evidence stays changeable, and evidence not set yet can be set.
    bed.sql("UPDATE instances SET release_id = 'r2', node_replacement_evidence = node_replacement_evidence")
        .await;
    write(
        &*bed.store,
        &authority,
        vec![
            trino_pool_operator::store::port::Write::Update {
                instance: id("cell-1"),
                changes: Box::new(every_change()),
            },
            advance("cell-1", Phase::Pending, Phase::Creating),
            record("cell-2", &seen),
        ],
    )
    .await;
    let row = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
    assert_eq!(row.evidence, RecordedEvidence::Some(seen));
    assert_eq!(row.release.as_str(), "r2");
}

async fn s3_the_database_refuses_to_rewrite_further_nodes(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(
        &*bed.store,
        &authority,
        vec![
            create("cell-1"),
            append("cell-1", &node("n1", "u1", Disruption::Drifted)),
        ],
    )
    .await;
    for statement in [
        "UPDATE replacement_nodes SET reason = 'Deleting'",
        "DELETE FROM replacement_nodes",
    ] {
        let said = bed.refused(statement).await;
        assert!(said.contains("append-only"), "{statement}: {said}");
    }
}
