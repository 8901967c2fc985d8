//! Rows: what is written is read, ids are never reused, phases move along permitted ways only.

use trino_pool_operator::cluster::facts::ObjectKind;
use trino_pool_operator::pool::evidence::RecordedEvidence;
use trino_pool_operator::pool::ids::Epoch;
use trino_pool_operator::pool::instance::{InstanceChanges, InstanceRow};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::{Committed, StoreError, Write};

use crate::bed::Bed;
use crate::fixtures::{advance, at, create, every_change, id, life, new, pool, write};

crate::on_every_store![
    every_column_survives,
    a_change_leaves_other_columns_alone,
    an_id_is_never_used_twice,
    a_phase_moves_from_where_it_is_and_along_permitted_ways,
    another_pools_instance_is_not_there,
    live_rows_come_by_age_and_terminal_ones_only_by_name,
    s1_only_orphans_of_terminal_rows_are_recorded,
];

crate::on_every_database![a_load_is_one_statement_and_a_commit_few];

async fn every_column_survives(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let created = at(10);
    let moved = at(20);
    let mut first = new("cell-1");
    first.repair_for = Some(id("cell-0"));
    bed.store
        .commit(
            &authority,
            created,
            &[Write::CreateInstance(Box::new(first.clone()))],
        )
        .await
        .unwrap();
    let changes = every_change();
    let write = Write::Advance {
        instance: id("cell-1"),
        from: Phase::Pending,
        to: Phase::Creating,
        changes: Box::new(changes.clone()),
    };
    // A successor's epoch is the epoch of the change.
    let successor = bed
        .store
        .acquire(&authority.pool, &"next".into(), Epoch::default())
        .await
        .unwrap();
    bed.store.commit(&successor, moved, &[write]).await.unwrap();
    let expected = InstanceRow {
        id: id("cell-1"),
        pool: authority.pool.clone(),
        release: first.release,
        spec_digest: first.spec_digest,
        blueprint: Ok(first.blueprint),
        phase: Phase::Creating,
        phase_changed_at: moved,
        owner_epoch: successor.epoch,
        repair_for: Some(id("cell-0")),
        failure: changes.failure,
        objects: changes.objects,
        process: changes.process,
        member: changes.member,
        receipt: changes.receipt,
        excluded_nodes: vec!["n9".into(), "n3".into()],
        evidence: RecordedEvidence::None,
        replacement_nodes: Vec::new(),
        created_at: created,
    };
    let again = bed.reopened().await;
    assert_eq!(
        again.instance(&id("cell-1")).await.unwrap().as_ref(),
        Some(&expected)
    );
    assert_eq!(again.load(&authority.pool).await.unwrap().instances, [expected]);
}

async fn a_change_leaves_other_columns_alone(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let update = |changes| Write::Update {
        instance: id("cell-1"),
        changes: Box::new(changes),
    };
    write(
        &*bed.store,
        &authority,
        vec![create("cell-1"), update(every_change())],
    )
    .await;
    let before = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
    let mut member = every_change().member.unwrap();
    member.generation = member.generation.next();
    let only_member = InstanceChanges {
        member: Some(member.clone()),
        ..Default::default()
    };
    bed.store
        .commit(
            &authority,
            at(99),
            &[update(only_member), update(InstanceChanges::default())],
        )
        .await
        .unwrap();
    let mut expected = before;
    expected.member = Some(member);
    assert_eq!(
        bed.store.instance(&id("cell-1")).await.unwrap(),
        Some(expected),
        "an update is no phase change"
    );
}

async fn an_id_is_never_used_twice(bed: &Bed) {
    let a = pool(&*bed.store, "a").await;
    let b = pool(&*bed.store, "b").await;
    write(&*bed.store, &a, life("cell-1", Phase::Retired)).await;
    for authority in [&a, &b] {
        let again = bed.store.commit(authority, at(1), &[create("cell-1")]).await;
        assert!(matches!(again, Err(StoreError::Conflict(..))), "{again:?}");
    }
}

async fn a_phase_moves_from_where_it_is_and_along_permitted_ways(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Serving)).await;
    for refused in [
        advance("cell-1", Phase::Draining, Phase::Sealed),
        advance("cell-1", Phase::Suspect, Phase::Serving),
        advance("cell-1", Phase::Serving, Phase::Retired),
        advance("cell-1", Phase::Unrecognised, Phase::Retired),
        advance("cell-9", Phase::Pending, Phase::Creating),
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
    let row = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Serving);
}

async fn another_pools_instance_is_not_there(bed: &Bed) {
    let a = pool(&*bed.store, "a").await;
    let b = pool(&*bed.store, "b").await;
    write(&*bed.store, &a, vec![create("cell-1")]).await;
    let update = Write::Update {
        instance: id("cell-1"),
        changes: Box::default(),
    };
    for theirs in [advance("cell-1", Phase::Pending, Phase::Creating), update] {
        let result = bed.store.commit(&b, at(1), std::slice::from_ref(&theirs)).await;
        assert!(
            matches!(result, Err(StoreError::Conflict(..))),
            "{theirs:?}: {result:?}"
        );
    }
    assert!(bed.store.load(&b.pool).await.unwrap().instances.is_empty());
}

async fn live_rows_come_by_age_and_terminal_ones_only_by_name(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    for (name, when) in [("cell-b", 5), ("cell-a", 5), ("cell-c", 1), ("cell-Z", 5)] {
        bed.store
            .commit(&authority, at(when), &[create(name)])
            .await
            .unwrap();
    }
    write(&*bed.store, &authority, life("cell-0", Phase::Retired)).await;
    let loaded = bed.store.load(&authority.pool).await.unwrap().instances;
    let names: Vec<&str> = loaded.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(
        names,
        ["cell-c", "cell-Z", "cell-a", "cell-b"],
        "bytes, not a locale, order names"
    );
    let gone = bed.store.instance(&id("cell-0")).await.unwrap().unwrap();
    assert_eq!(gone.phase, Phase::Retired);
    assert_eq!(bed.store.instance(&id("cell-9")).await.unwrap(), None);
}

async fn s1_only_orphans_of_terminal_rows_are_recorded(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Retiring)).await;
    let orphan = [Write::RecordOrphan {
        instance: id("cell-1"),
        kind: ObjectKind::Deployment,
        uid: "uid-7".into(),
    }];
    let early = bed.store.commit(&authority, at(1), &orphan).await;
    assert!(matches!(early, Err(StoreError::Conflict(..))), "{early:?}");
    write(
        &*bed.store,
        &authority,
        vec![advance("cell-1", Phase::Retiring, Phase::Retired)],
    )
    .await;
    assert_eq!(
        bed.store.commit(&authority, at(2), &orphan).await,
        Ok(vec![Committed::Done])
    );
    assert_eq!(
        bed.store.commit(&authority, at(3), &orphan).await,
        Ok(vec![Committed::Kept])
    );
}

async fn a_load_is_one_statement_and_a_commit_few(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Serving)).await;
    let before = bed.store.statements();
    bed.store.load(&authority.pool).await.unwrap();
    assert_eq!(bed.store.statements() - before, 1);
    let before = bed.store.statements();
    let writes = [
        advance("cell-1", Phase::Serving, Phase::Draining),
        create("cell-2"),
        Write::ForgetFailures,
    ];
    bed.store.commit(&authority, at(1), &writes).await.unwrap();
    // Begin, fence, one for each write, commit.
    assert_eq!(bed.store.statements() - before, 3 + writes.len() as u64);
}
