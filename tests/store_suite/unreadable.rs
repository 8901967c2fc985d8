//! What a newer binary wrote, or nobody can read, blocks its own row and nothing else (L2).

use trino_pool_operator::pool::desired::PoolMode;
use trino_pool_operator::pool::evidence::{Disruption, RecordedEvidence};
use trino_pool_operator::pool::ids::NodeUid;
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::{Committed, StoreError, Write};

use crate::bed::Bed;
use crate::fixtures::{
    advance, append, at, create, drain, evidence, id, life, node, pool, record, request, write,
};

crate::on_every_database![
    an_unknown_phase_is_kept_and_never_advanced,
    unreadable_evidence_is_shown_and_stands,
    an_unreadable_blueprint_spoils_only_itself,
    a_row_with_another_unreadable_part_is_set_aside,
    an_open_step_that_cannot_be_replayed_sets_its_row_aside,
    unreadable_pool_columns_fail_no_load,
    no_secret_of_a_blueprint_is_repeated,
    a_newer_schema_that_only_adds_is_used,
];

async fn an_unknown_phase_is_kept_and_never_advanced(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Serving)).await;
    write(&*bed.store, &authority, life("cell-2", Phase::Serving)).await;
    bed.sql("UPDATE instances SET phase = 'TELEPORTING' WHERE id = 'cell-1'")
        .await;
    let loaded = bed.store.load(&authority.pool).await.unwrap().instances;
    let phases: Vec<Phase> = loaded.iter().map(|row| row.phase).collect();
    assert_eq!(phases, [Phase::Unrecognised, Phase::Serving]);
    for from in [Phase::Serving, Phase::Unrecognised] {
        let result = bed
            .store
            .commit(&authority, at(1), &[advance("cell-1", from, Phase::Draining)])
            .await;
        assert!(matches!(result, Err(StoreError::Conflict(..))), "{result:?}");
    }
    // The stored word is untouched, so that the newer binary finds it again.
    bed.sql("UPDATE instances SET phase = 'SERVING' WHERE phase = 'TELEPORTING'")
        .await;
    let row = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Serving);
}

async fn unreadable_evidence_is_shown_and_stands(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let newer = r#"{"node_name":"n1","node_uid":"u1","nodeclaim_name":"c1","nodeclaim_uid":"cu1","reason":"Expired","observed_at":"2026-01-01T00:00:00Z"}"#;
    let added = r#"{"node_name":"n1","node_uid":"u1","nodeclaim_name":"c1","nodeclaim_uid":"cu1","reason":"Drifted","observed_at":"2026-01-01T00:00:00Z","zone":"hunter2"}"#;
    for (name, content) in [
        ("cell-1", newer),
        ("cell-2", added),
        ("cell-3", "[1]"),
        ("cell-4", r#""hunter2""#),
    ] {
        write(&*bed.store, &authority, life(name, Phase::Serving)).await;
        bed.sql(&format!(
            "UPDATE instances SET node_replacement_evidence = '{content}' WHERE id = '{name}'"
        ))
        .await;
        let row = bed.store.instance(&id(name)).await.unwrap().unwrap();
        assert_eq!(row.phase, Phase::Serving);
        let RecordedEvidence::Unreadable(why) = &row.evidence else {
            panic!("{name}: {:?}", row.evidence)
        };
        assert!(!why.is_empty() && !why.contains("hunter2"), "{why}");
        // It stands: nothing is written over it.
        assert_eq!(
            bed.store
                .commit(
                    &authority,
                    at(1),
                    &[record(name, &evidence("n1", "u1", Disruption::Drifted))]
                )
                .await,
            Ok(vec![Committed::Kept])
        );
    }
    // Postgres would not have taken this one.
    if let crate::bed::Database::Sqlite(_) = bed.database() {
        write(&*bed.store, &authority, life("cell-5", Phase::Serving)).await;
        bed.sql("UPDATE instances SET node_replacement_evidence = '{u1' WHERE id = 'cell-5'")
            .await;
        let row = bed.store.instance(&id("cell-5")).await.unwrap().unwrap();
        assert_eq!(
            row.evidence,
            RecordedEvidence::Unreadable("not valid JSON".to_owned())
        );
    }
    assert!(bed.store.load(&authority.pool).await.unwrap().instances.len() >= 4);
    // And it still holds its node.
    assert_eq!(bed.store.node_holds(&NodeUid::new("u1")).await.unwrap().len(), 2);
}

async fn an_unreadable_blueprint_spoils_only_itself(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Serving)).await;
    write(&*bed.store, &authority, life("cell-2", Phase::Serving)).await;
    bed.sql(r#"UPDATE instances SET blueprint = '{"release":"r1"}' WHERE id = 'cell-1'"#)
        .await;
    let loaded = bed.store.load(&authority.pool).await.unwrap().instances;
    assert_eq!(
        loaded[0].blueprint,
        Err("blueprint: missing field image".to_owned())
    );
    assert_eq!(loaded[0].phase, Phase::Serving);
    assert!(loaded[1].blueprint.is_ok());
    write(
        &*bed.store,
        &authority,
        vec![advance("cell-1", Phase::Serving, Phase::Draining)],
    )
    .await;
}

async fn a_row_with_another_unreadable_part_is_set_aside(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    for column in [
        "objects",
        "process",
        "member",
        "receipt",
        "failure",
        "excluded_nodes",
    ] {
        let name = format!("cell-{column}");
        write(&*bed.store, &authority, life(&name, Phase::Serving)).await;
        bed.sql(&format!(
            "UPDATE instances SET {column} = '{{\"from\":\"the future\"}}' WHERE id = '{name}'"
        ))
        .await;
        let row = bed.store.instance(&id(&name)).await.unwrap().unwrap();
        assert_eq!(row.phase, Phase::Unrecognised, "{column}");
        let why = row.blueprint.unwrap_err();
        assert!(why.contains(&column.replace('_', " ")), "{why}");
    }
}

async fn an_open_step_that_cannot_be_replayed_sets_its_row_aside(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    for name in ["cell-1", "cell-2"] {
        write(&*bed.store, &authority, life(name, Phase::Serving)).await;
        write(
            &*bed.store,
            &authority,
            vec![Write::BeginStep(request(name, "drain.1", drain(3)))],
        )
        .await;
    }
    bed.sql(
        r#"UPDATE operation_steps SET request = '{"action":{"Teleport":{}}}' WHERE instance_id = 'cell-1'"#,
    )
    .await;
    let loaded = bed.store.load(&authority.pool).await.unwrap();
    assert_eq!(loaded.open_steps.len(), 1);
    assert_eq!(loaded.instances[0].phase, Phase::Unrecognised);
    assert_eq!(loaded.instances[1].phase, Phase::Serving);
    let begun = bed
        .store
        .commit(
            &authority,
            at(1),
            &[Write::BeginStep(request("cell-1", "drain.1", drain(3)))],
        )
        .await;
    assert!(matches!(begun, Err(StoreError::Corrupt(..))), "{begun:?}");
}

async fn unreadable_pool_columns_fail_no_load(bed: &Bed) {
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
    bed.sql(
        r#"UPDATE pools SET mode = '"Levitating"', desired = '{"instances":"many"}';
        INSERT INTO pool_failures (pool_id, cause, count, last_at, detail)
            VALUES ('trino/a', 'Moonlight', 3, '2026-01-01T00:00:00.000000Z', 'full');
        INSERT INTO replacement_nodes (instance_id, node_name, node_uid, nodeclaim_name, nodeclaim_uid, reason, observed_at)
            VALUES ('cell-1', 'n2', 'u2', 'c2', 'cu2', 'Expired', '2026-01-01T00:00:00.000000Z')"#,
    )
    .await;
    let loaded = bed.store.load(&authority.pool).await.unwrap();
    assert!(
        matches!(&loaded.pool.mode, PoolMode::Held(why) if why.contains("cannot be read")),
        "{:?}",
        loaded.pool.mode
    );
    assert!(
        matches!(&loaded.pool.desired, Some(Err(_))),
        "never absent, never zero"
    );
    assert!(loaded.pool.failures.is_empty());
    assert_eq!(
        loaded.instances[0].replacement_nodes,
        [node("n1", "u1", Disruption::Drifted)]
    );
    // The node is held all the same.
    assert_eq!(bed.store.node_holds(&NodeUid::new("u2")).await.unwrap().len(), 1);
}

async fn no_secret_of_a_blueprint_is_repeated(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, vec![create("cell-1")]).await;
    for spoilt in [
        r#"{"release":["hunter2"]}"#,
        r#""hunter2""#,
        r#"{"http_port":"hunter2"}"#,
    ] {
        bed.sql(&format!("UPDATE instances SET blueprint = '{spoilt}'"))
            .await;
        let row = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
        let why = row.blueprint.unwrap_err();
        assert!(!why.contains("hunter2"), "{why}");
    }
}

async fn a_newer_schema_that_only_adds_is_used(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, life("cell-1", Phase::Serving)).await;
    let newer = match bed.database() {
        crate::bed::Database::Sqlite(_) => "x'00'",
        crate::bed::Database::Postgres(..) => "'\\x00'",
    };
    bed.sql(&format!(
        "ALTER TABLE instances ADD COLUMN zone TEXT;
         ALTER TABLE pools ADD COLUMN colour TEXT DEFAULT 'blue';
         CREATE TABLE future (id TEXT PRIMARY KEY);
         INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
            VALUES (999, 'the future', TRUE, {newer}, 0)"
    ))
    .await;
    let store = bed.reopened().await;
    assert_eq!(store.load(&authority.pool).await.unwrap().instances.len(), 1);
    write(
        &*store,
        &authority,
        vec![
            create("cell-2"),
            advance("cell-1", Phase::Serving, Phase::Draining),
        ],
    )
    .await;
    // A migration by this binary leaves the newer schema alone.
    let migrated = trino_pool_operator::store::migrate(&bed.database().url())
        .await
        .unwrap();
    assert_eq!((migrated.from, migrated.to), (999, 999));
    // One that older binaries must not touch says so.
    bed.sql("UPDATE store_identity SET usable_from = 999").await;
    let refused = bed.reopen().await.map(|_| ()).unwrap_err();
    assert!(
        matches!(&refused, StoreError::Schema(why) if why.contains("newer trino-pool-operator")),
        "{refused}"
    );
    let refused = trino_pool_operator::store::migrate(&bed.database().url()).await;
    assert!(matches!(refused, Err(StoreError::Schema(_))), "{refused:?}");
}
