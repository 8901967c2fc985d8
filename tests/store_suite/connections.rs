//! What only a server can do to us: run out of connections, become read-only, cut a wire, say nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use trino_pool_operator::pool::desired::PoolMode;
use trino_pool_operator::pool::ids::Epoch;
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::{Authority, Committed, Store, StoreError, Write};
use trino_pool_operator::store::{connect, migrate, postgres};

use crate::bed::Raw;
use crate::fixtures::{advance, at, create, drain, id, life, pool, request, write};
use crate::postgres::{Server, own, shared};

const OURS: &str = "application_name = 'trino-pool-operator' AND datname = current_database()";

async fn store(server: &Server, most: u32) -> (Arc<dyn Store>, String) {
    let name = server.database().await;
    let url = server.url(&name);
    migrate(&url).await.unwrap();
    (Arc::new(postgres::open(&url, most).await.unwrap()), name)
}

/// Waits for something that happens inside the server, which nobody announces: the server itself looks
/// again a hundred times a second. A server that never gets there fails the test.
async fn until(server: &Server, database: &str, condition: &str) {
    let mut raw = raw(server, database).await;
    for _ in 0..3_000 {
        let look = format!("SELECT 1 / (CASE WHEN {condition} THEN 1 ELSE 0 END)");
        if raw.run(&look).await.is_ok() {
            return raw.close().await;
        }
        raw.run("SELECT pg_sleep(0.01)").await.unwrap();
    }
    panic!("never came true: {condition}");
}

async fn raw(server: &Server, database: &str) -> Raw {
    let options = server.options(database);
    Raw::Postgres(sqlx::ConnectOptions::connect(&options).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_fifty_commits_at_once_share_two_connections() {
    let Some(server) = shared() else { return };
    let (store, _) = store(server, 2).await;
    let mut authorities = Vec::new();
    for n in 0..10 {
        authorities.push(pool(&*store, &format!("p{n}")).await);
    }
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let (store, authority) = (Arc::clone(&store), authorities[n % 10].clone());
            tokio::spawn(async move {
                let name = format!("cell-{n}");
                store
                    .commit(&authority, at(0), &life(&name, Phase::Serving))
                    .await?;
                store.load(&authority.pool).await?;
                store.instance(&id(&name)).await
            })
        })
        .collect();
    for task in tasks {
        let row = task.await.unwrap().unwrap().unwrap();
        assert_eq!(row.phase, Phase::Serving);
    }
    let connections = store.connections();
    assert_eq!(connections.most, 2);
    assert!(
        connections.open <= 2 && connections.idle <= connections.open,
        "{connections:?}"
    );
}

#[tokio::test]
async fn r04_a_server_that_became_read_only_is_noticed_left_and_found_again() {
    let Some(server) = own() else { return };
    let (store, name) = store(&server, 3).await;
    let authority = pool(&*store, "a").await;
    write(&*store, &authority, life("cell-1", Phase::Serving)).await;
    // Three connections, opened while all was well.
    let _ = tokio::join!(
        store.load(&authority.pool),
        store.load(&authority.pool),
        store.load(&authority.pool)
    );
    let set = async |value: &str| {
        server
            .run(
                "postgres",
                &format!("ALTER SYSTEM SET default_transaction_read_only = {value}"),
            )
            .await;
        server.run("postgres", "SELECT pg_reload_conf()").await;
        until(
            &server,
            &name,
            &format!("current_setting('default_transaction_read_only') = '{value}'"),
        )
        .await;
    };
    set("on").await;
    server
        .run(
            "postgres",
            "BEGIN READ WRITE; CREATE TABLE old AS SELECT pid FROM pg_stat_activity
                WHERE application_name = 'trino-pool-operator'; COMMIT",
        )
        .await;
    let evidence = crate::fixtures::evidence(
        "n1",
        "u1",
        trino_pool_operator::pool::evidence::Disruption::Drifted,
    );
    let record = [crate::fixtures::record("cell-1", &evidence)];
    let mut refused = store.commit(&authority, at(1), &record[..0]).await;
    // A backend that sat idle reads the new setting with its next command, or the one after.
    for _ in 0..1_000 {
        if refused.is_ok() {
            refused = store.commit(&authority, at(1), &record[..0]).await;
        }
    }
    assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
    let refused = store.commit(&authority, at(1), &record).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
    let row = store.instance(&id("cell-1")).await.unwrap().unwrap();
    assert!(
        !row.evidence.is_present(),
        "nothing is acted on that did not commit"
    );
    // Every connection of before is left, not only the one that failed.
    let _ = tokio::join!(
        store.load(&authority.pool),
        store.load(&authority.pool),
        store.load(&authority.pool)
    );
    until(
        &server,
        "postgres",
        "NOT EXISTS (SELECT FROM old JOIN pg_stat_activity a ON a.pid = old.pid)",
    )
    .await;
    set("off").await;
    let mut recovered = store.commit(&authority, at(2), &record).await;
    for _ in 0..1_000 {
        if matches!(recovered, Err(StoreError::ReadOnly(_))) {
            recovered = store.commit(&authority, at(2), &record).await;
        }
    }
    assert_eq!(recovered, Ok(vec![Committed::Done]));
}

#[tokio::test]
async fn r04_connections_ended_by_the_server_cost_one_call() {
    let Some(server) = shared() else { return };
    let (store, name) = store(server, 3).await;
    let authority = pool(&*store, "a").await;
    let _ = tokio::join!(
        store.load(&authority.pool),
        store.load(&authority.pool),
        store.load(&authority.pool)
    );
    server
        .run(
            &name,
            &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}"),
        )
        .await;
    until(
        server,
        &name,
        &format!("NOT EXISTS (SELECT FROM pg_stat_activity WHERE {OURS})"),
    )
    .await;
    let first = store.commit(&authority, at(1), &[create("cell-1")]).await;
    assert!(matches!(first, Err(StoreError::Unavailable(_))), "{first:?}");
    write(&*store, &authority, vec![create("cell-1")]).await;
}

/// What the wire does with the next COMMIT.
const PASS: u8 = 0;
const LOSE_THE_ANSWER: u8 = 1;
const LOSE_THE_REQUEST: u8 = 2;

/// A wire that can be cut around a COMMIT; its URL.
async fn wire(server: &'static Server, database: &str, cut: Arc<AtomicU8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = UnixStream::connect(server.socket()).await.unwrap();
            tokio::spawn(carry(client, server, Arc::clone(&cut)));
        }
    });
    format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable")
}

async fn carry(mut client: TcpStream, mut server: UnixStream, cut: Arc<AtomicU8>) {
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(n @ 1..) = read else { return };
                let commit = up[..n].windows(7).any(|word| word == b"COMMIT\0");
                let how = if commit { cut.swap(PASS, Ordering::SeqCst) } else { PASS };
                if how == LOSE_THE_REQUEST || server.write_all(&up[..n]).await.is_err() {
                    return;
                }
                if how == LOSE_THE_ANSWER {
                    // It was answered, so it stands; the answer goes nowhere.
                    let _ = server.read(&mut down).await;
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(n @ 1..) = read else { return };
                if client.write_all(&down[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Two writes whose commit is cut, and the store to look at afterwards.
async fn cut_commit(how: u8) -> Option<(Arc<dyn Store>, Authority, [Write; 2])> {
    let server = shared()?;
    let (direct, name) = store(server, 2).await;
    let authority = pool(&*direct, "a").await;
    write(&*direct, &authority, life("cell-1", Phase::Serving)).await;
    let cut = Arc::new(AtomicU8::new(PASS));
    let store = connect(&wire(server, &name, Arc::clone(&cut)).await)
        .await
        .unwrap();
    cut.store(how, Ordering::SeqCst);
    let writes = [
        Write::BeginStep(request("cell-1", "drain.1", drain(3))),
        advance("cell-1", Phase::Serving, Phase::Draining),
    ];
    let lost = store.commit(&authority, at(1), &writes).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    Some((store, authority, writes))
}

#[tokio::test]
async fn s9_a_commit_whose_answer_was_lost_is_found_by_reading_back() {
    let Some((store, authority, writes)) = cut_commit(LOSE_THE_ANSWER).await else {
        return;
    };
    let loaded = store.load(&authority.pool).await.unwrap();
    assert_eq!(loaded.instances[0].phase, Phase::Draining);
    assert_eq!(loaded.open_steps.len(), 1);
    let replayed = store.commit(&authority, at(2), &writes[..1]).await.unwrap();
    assert!(
        matches!(&replayed[..], [Committed::Recorded(step)] if step.attempts == 2),
        "{replayed:?}"
    );
}

#[tokio::test]
async fn s9_a_commit_that_never_arrived_left_nothing() {
    let Some((store, authority, writes)) = cut_commit(LOSE_THE_REQUEST).await else {
        return;
    };
    let loaded = store.load(&authority.pool).await.unwrap();
    assert_eq!(loaded.instances[0].phase, Phase::Serving);
    assert_eq!(loaded.open_steps, []);
    write(&*store, &authority, writes.to_vec()).await;
}

#[tokio::test]
async fn o05_a_call_that_is_given_up_leaves_no_lock() {
    let Some(server) = shared() else { return };
    let (store, name) = store(server, 2).await;
    let authority = pool(&*store, "a").await;
    let mut other = raw(server, &name).await;
    other.run("BEGIN; SELECT 1 FROM pools FOR UPDATE").await.unwrap();
    let waiting = tokio::spawn({
        let (store, authority) = (Arc::clone(&store), authority.clone());
        async move {
            store
                .commit(&authority, at(1), &[Write::SetMode(PoolMode::Retained)])
                .await
        }
    });
    let blocked = format!("EXISTS (SELECT FROM pg_stat_activity WHERE {OURS} AND wait_event_type = 'Lock')");
    until(server, &name, &blocked).await;
    // Another pool's row, and reads, are not behind that lock.
    pool(&*store, "b").await;
    store.load(&authority.pool).await.unwrap();
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    other.run("COMMIT; SET lock_timeout = '5s'").await.unwrap();
    until(server, &name, &format!("NOT {blocked}")).await;
    // The one given up had the lock next. Were its connection kept, it would have it until the server ends
    // idle transactions, which is later than this.
    other.run("SELECT 1 FROM pools FOR UPDATE").await.unwrap();
    write(&*store, &authority, vec![create("cell-1")]).await;
    assert_eq!(
        store.load(&authority.pool).await.unwrap().pool.mode,
        PoolMode::Open
    );
}

#[tokio::test]
async fn s8_a_new_leader_waits_for_the_commit_in_flight() {
    let Some(server) = shared() else { return };
    let (store, name) = store(server, 3).await;
    let old = pool(&*store, "a").await;
    write(&*store, &old, life("cell-1", Phase::Serving)).await;
    // The old leader has passed its fence and waits in the middle of its writes.
    let mut other = raw(server, &name).await;
    other
        .run("BEGIN; SELECT 1 FROM instances FOR UPDATE")
        .await
        .unwrap();
    let commit = tokio::spawn({
        let (store, old) = (Arc::clone(&store), old.clone());
        async move {
            let drain = [advance("cell-1", Phase::Serving, Phase::Draining)];
            store.commit(&old, at(1), &drain).await
        }
    });
    let waiting = |n: u8| {
        format!("(SELECT count(*) FROM pg_stat_activity WHERE {OURS} AND wait_event_type = 'Lock') = {n}")
    };
    until(server, &name, &waiting(1)).await;
    let takeover = tokio::spawn({
        let (store, pool) = (Arc::clone(&store), old.pool.clone());
        async move { store.acquire(&pool, &"new".into(), Epoch::default()).await }
    });
    until(server, &name, &waiting(2)).await;
    other.run("COMMIT").await.unwrap();
    assert_eq!(commit.await.unwrap(), Ok(vec![Committed::Done]));
    let new = takeover.await.unwrap().unwrap();
    // So what the new leader reads is all the old one ever wrote.
    let loaded = store.load(&new.pool).await.unwrap();
    assert_eq!(loaded.instances[0].phase, Phase::Draining);
    let late = store.commit(&old, at(2), &[create("cell-2")]).await;
    assert_eq!(late, Err(StoreError::Fenced(old.pool)));
}

/// Virtual time passes while nothing happens, and nothing ever does: the deadline comes at once.
#[tokio::test(start_paused = true)]
async fn o06_a_server_that_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "postgres://me:hunter2@{}/x?sslmode=disable",
        silent.local_addr().unwrap()
    );
    let opened = connect(&url).await.map(|_| ());
    assert!(
        matches!(&opened, Err(StoreError::Unavailable(why)) if !why.contains("hunter2")),
        "{opened:?}"
    );
    let migrated = migrate(&url).await;
    assert!(
        matches!(migrated, Err(StoreError::Unavailable(_))),
        "{migrated:?}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_in_one_line() {
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let opened = connect(&format!("postgres://me:hunter2@{free}/x"))
        .await
        .map(|_| ());
    let Err(StoreError::Unavailable(why)) = opened else {
        panic!("{opened:?}")
    };
    assert!(!why.contains('\n') && !why.contains("hunter2"), "{why}");
}
