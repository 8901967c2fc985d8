//! From every older schema with rows in it to this binary's, once, whoever starts together (R03).

use trino_pool_operator::pool::evidence::{Disruption, RecordedEvidence};
use trino_pool_operator::pool::ids::{Epoch, PoolId, Revision};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::{Committed, StepOutcome, StoreError, Write};
use trino_pool_operator::store::{connect, migrate};

use crate::bed::Database;
use crate::fixtures::{append, at, blueprint, evidence, id, member, node, process, record, request};

/// Rows as each version could hold them, one entry for each version from 1 on.
fn rows(version: usize) -> String {
    let json = |value: &dyn erased::Json| value.text().replace('\'', "''");
    let request = request("cell-1", "drain.1", crate::fixtures::drain(3));
    [
        format!(
            "INSERT INTO store_identity (one, id) VALUES (1, '11111111-2222-3333-4444-555555555555');
             INSERT INTO pools (id, namespace, routing_group, epoch, owner, resource, generation, mode)
                VALUES ('trino/a', 'trino', 'a', 7, 'first', 'uid-1', 3, '\"Retained\"');
             INSERT INTO instances (id, pool_id, release_id, spec_digest, blueprint, phase, phase_changed_at,
                owner_epoch, repair_for, process, member, excluded_nodes, created_at)
                VALUES ('cell-1', 'trino/a', 'r1', 'd1', '{}', 'DRAINING', '2026-01-02T00:00:00.000000Z', 6, 'cell-0',
                    '{}', '{}', '[\"n9\"]', '2026-01-01T00:00:00.000000Z');
             INSERT INTO instances (id, pool_id, release_id, spec_digest, blueprint, phase, phase_changed_at,
                owner_epoch, excluded_nodes, created_at)
                VALUES ('cell-0', 'trino/a', 'r0', 'd0', '{{}}', 'RETIRED', '2026-01-02T00:00:00.000000Z', 6,
                    '[]', '2026-01-01T00:00:00.000000Z');
             INSERT INTO pool_failures (pool_id, cause, count, last_at, detail)
                VALUES ('trino/a', 'NodeLeaving', 2, '2026-01-01T00:00:00.000000Z', 'n1')",
            json(&blueprint()),
            json(&process(1)),
            json(&member(4)),
        ),
        format!(
            "INSERT INTO operations (id, pool_id, created_at)
                VALUES ('instance:cell-1', 'trino/a', '2026-01-01T00:00:00.000000Z');
             INSERT INTO operation_steps (operation_id, step_id, instance_id, request, outcome, attempts, at)
                VALUES ('instance:cell-1', 'drain.1', 'cell-1', '{}', 'UNKNOWN', 2, '2026-01-01T00:00:00.000000Z')",
            json(&request)
        ),
        "INSERT INTO recoveries (operation, instance, expected_generation, incarnation, pod_uid, boot_id, node_id,
            coordinator_id, requested_by, reason, created_at)
            VALUES ('ticket-1', 'cell-1', 4, 'inc-1', 'pod-1', 'boot-1', 'node-1', 'c1', 'jo', 'gone',
                '2026-01-01T00:00:00.000000Z')"
            .to_owned(),
        format!(
            "UPDATE instances SET node_replacement_evidence = '{}' WHERE id = 'cell-1'",
            json(&evidence("n1", "u1", Disruption::Drifted))
        ),
        "INSERT INTO replacement_nodes
            (instance_id, node_name, node_uid, nodeclaim_name, nodeclaim_uid, reason, observed_at)
            VALUES ('cell-1', 'n2', 'u2', 'claim-n2', 'claim-u2', 'Drifted', '2026-01-01T00:00:00.000000Z')"
            .to_owned(),
        "INSERT INTO orphans (instance_id, kind, uid, recorded_at)
            VALUES ('cell-0', 'Service', 'uid-7', '2026-01-01T00:00:00.000000Z')"
            .to_owned(),
        "UPDATE pools SET revision = 41 WHERE id = 'trino/a'".to_owned(),
    ][..version]
        .join(";\n")
}

mod erased {
    /// Anything with a JSON text.
    pub trait Json {
        fn text(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn text(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}

/// The newest version there is; every one of them needs rows above.
const NEWEST: usize = 7;

async fn upgrades_from_every_older_version(fresh: impl AsyncFn() -> Option<Database>) {
    for version in 0..=NEWEST {
        let Some(database) = fresh().await else { return };
        let mut raw = database.raw().await;
        if version > 0 {
            raw.migrate_to(i64::try_from(version).unwrap()).await;
            raw.run(&rows(version)).await.unwrap();
        }
        raw.close().await;
        let (now, newest) = (i64::try_from(version).unwrap(), i64::try_from(NEWEST).unwrap());
        if version < NEWEST {
            let refused = connect(&database.url()).await.map(|_| ()).unwrap_err();
            assert!(
                matches!(&refused, StoreError::Schema(why) if why.contains("trino-pool-operator migrate")),
                "{version}: {refused}"
            );
        }
        let migrated = migrate(&database.url()).await.unwrap();
        assert_eq!((migrated.from, migrated.to), (now, newest));
        let again = migrate(&database.url()).await.unwrap();
        assert_eq!((again.from, again.to), (newest, newest));
        if version > 0 {
            reads(&database, version).await;
        }
    }
}

async fn reads(database: &Database, version: usize) {
    let store = connect(&database.url()).await.unwrap();
    assert_eq!(
        store.id().await.unwrap().as_str(),
        "11111111-2222-3333-4444-555555555555",
        "an upgrade changes no identity"
    );
    let pool = PoolId::new("trino/a");
    let loaded = store.load(&pool).await.unwrap();
    assert_eq!(loaded.pool.epoch, Epoch::new(7));
    assert_eq!(
        loaded.pool.mode,
        trino_pool_operator::pool::desired::PoolMode::Retained
    );
    assert_eq!(loaded.pool.failures[0].count, 2);
    assert_eq!(loaded.instances.len(), 1);
    let row = &loaded.instances[0];
    assert_eq!((row.phase, row.is_repair()), (Phase::Draining, true));
    assert_eq!(row.blueprint, Ok(blueprint()));
    assert_eq!(
        (row.process.clone(), row.member.clone()),
        (Some(process(1)), Some(member(4)))
    );
    assert_eq!(row.created_at, "2026-01-01T00:00:00Z".parse().unwrap());
    let steps: Vec<(u32, StepOutcome)> = loaded
        .open_steps
        .iter()
        .map(|s| (s.attempts, s.outcome))
        .collect();
    assert_eq!(steps.len(), usize::from(version >= 2));
    assert!(steps.iter().all(|step| *step == (2, StepOutcome::Unknown)));
    assert_eq!(loaded.recoveries.len(), usize::from(version >= 3));
    let seen = evidence("n1", "u1", Disruption::Drifted);
    let expected = if version >= 4 {
        RecordedEvidence::Some(seen.clone())
    } else {
        RecordedEvidence::None
    };
    assert_eq!(row.evidence, expected);
    assert_eq!(row.replacement_nodes.len(), usize::from(version >= 5));
    let revision = Revision::new(if version >= 7 { 41 } else { 0 });
    assert_eq!(loaded.pool.revision, revision);
    // And it can be written: the new columns and tables work on the old rows.
    let authority = store
        .acquire(&pool, &"next".into(), Epoch::default())
        .await
        .unwrap();
    let writes = [
        record("cell-1", &seen),
        append("cell-1", &node("n2", "u2", Disruption::Drifted)),
        Write::RecordOrphan {
            instance: id("cell-0"),
            kind: trino_pool_operator::cluster::facts::ObjectKind::Service,
            uid: "uid-7".into(),
        },
    ];
    let kept = |from: usize| {
        if version >= from {
            Committed::Kept
        } else {
            Committed::Done
        }
    };
    assert_eq!(
        store.commit(&authority, at(1), &writes).await,
        Ok(vec![kept(4), kept(5), kept(6)])
    );
    let committed = u64::from(version < 6);
    assert_eq!(
        store.marks().await.unwrap()[&pool].revision,
        Revision::new(revision.get() + 1 + committed)
    );
}

#[tokio::test]
async fn sqlite_upgrades_from_every_older_version() {
    upgrades_from_every_older_version(async || Some(Database::sqlite())).await;
}

#[tokio::test]
async fn postgres_upgrades_from_every_older_version() {
    upgrades_from_every_older_version(Database::postgres).await;
}

#[test]
fn every_version_has_rows_to_upgrade() {
    let sqlite = sqlx::migrate!("migrations/sqlite");
    let postgres = sqlx::migrate!("migrations/postgres");
    for migrator in [&sqlite, &postgres] {
        let versions: Vec<i64> = migrator.iter().map(|migration| migration.version).collect();
        let expected: Vec<i64> = (1..=i64::try_from(NEWEST).unwrap()).collect();
        assert_eq!(versions, expected);
    }
}

async fn r03_starters_take_turns(database: Option<Database>) {
    let Some(database) = database else { return };
    let url = database.url();
    let starters: Vec<_> = (0..3)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                let migrated = migrate(&url).await?;
                let id = connect(&url).await?.id().await?;
                Ok::<_, StoreError>((migrated, id))
            })
        })
        .collect();
    let mut ran = 0;
    let mut ids = std::collections::BTreeSet::new();
    for starter in starters {
        let (migrated, id) = starter.await.unwrap().unwrap();
        ran += usize::from(migrated.from == 0);
        ids.insert(id);
    }
    assert_eq!((ran, ids.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn r03_sqlite_starters_take_turns() {
    r03_starters_take_turns(Some(Database::sqlite())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r03_postgres_starters_take_turns() {
    r03_starters_take_turns(Database::postgres().await).await;
}

async fn a_schema_of_other_texts_is_refused(database: Option<Database>) {
    let Some(database) = database else { return };
    migrate(&database.url()).await.unwrap();
    let mut raw = database.raw().await;
    raw.run(
        "UPDATE _sqlx_migrations SET checksum = (SELECT checksum FROM _sqlx_migrations WHERE version = 2)",
    )
    .await
    .unwrap();
    raw.close().await;
    let opened = connect(&database.url()).await.map(|_| ());
    assert!(matches!(opened, Err(StoreError::Schema(_))), "{opened:?}");
    let migrated = migrate(&database.url()).await;
    assert!(matches!(migrated, Err(StoreError::Schema(_))), "{migrated:?}");
}

#[tokio::test]
async fn a_sqlite_schema_of_other_texts_is_refused() {
    a_schema_of_other_texts_is_refused(Some(Database::sqlite())).await;
}

#[tokio::test]
async fn a_postgres_schema_of_other_texts_is_refused() {
    a_schema_of_other_texts_is_refused(Database::postgres().await).await;
}

#[tokio::test]
async fn opening_a_file_that_is_not_there_creates_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none.db");
    let opened = connect(&format!("sqlite:{}", path.display())).await.map(|_| ());
    assert!(
        matches!(&opened, Err(StoreError::Schema(why)) if why.contains("migrate")),
        "{opened:?}"
    );
    assert!(!path.exists());
}

#[tokio::test]
async fn r03_a_migration_that_dies_leaves_nothing_and_the_next_one_runs() {
    let Some(database) = Database::postgres().await else {
        return;
    };
    let mut dying = database.raw().await;
    // As far as the first starter had come.
    dying
        .run(
            "BEGIN; SELECT pg_advisory_xact_lock(7305808869231650162);
             CREATE TABLE store_identity (one INTEGER)",
        )
        .await
        .unwrap();
    let url = database.url();
    let second = tokio::spawn(async move { migrate(&url).await });
    let mut watch = database.raw().await;
    // An error until somebody waits for the lock, which nobody announces.
    while watch
        .run(
            "SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        .await
        .is_err()
    {
        assert!(!second.is_finished(), "it did not wait");
        watch.run("SELECT pg_sleep(0.01)").await.unwrap();
    }
    drop(dying);
    let migrated = second.await.unwrap().unwrap();
    assert_eq!(migrated.from, 0);
    connect(&database.url()).await.unwrap();
}
