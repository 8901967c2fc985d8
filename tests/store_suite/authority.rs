//! Who may write (S8), and that a refused commit leaves nothing.

use trino_pool_operator::pool::desired::PoolMode;
use trino_pool_operator::pool::ids::{Epoch, PoolId};
use trino_pool_operator::store::port::{Authority, StoreError, Write};

use crate::bed::Bed;
use crate::fixtures::{advance, at, create, id, identity, pool, write};
use trino_pool_operator::pool::phase::Phase;

crate::on_every_store![
    a_store_keeps_its_identity,
    seeding_again_changes_nothing,
    a_pool_never_seeded_is_a_conflict_and_fences_every_write,
    s8_an_authority_takes_one_above_everything_seen,
    s8_a_stale_epoch_writes_nothing,
    s8_the_same_epoch_of_another_owner_writes_nothing,
    s8_a_higher_epoch_that_was_never_acquired_writes_nothing,
    one_refused_write_undoes_the_whole_commit,
    a_commit_may_build_on_its_own_earlier_writes,
    two_leaders_racing_have_one_winner,
];

async fn a_store_keeps_its_identity(bed: &Bed) {
    let id = bed.store.id().await.unwrap();
    assert!(!id.is_empty());
    assert_eq!(bed.reopened().await.id().await.unwrap(), id);
}

async fn seeding_again_changes_nothing(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let mut other = identity("a");
    other.routing_group = "elsewhere".into();
    bed.store.seed(&other).await.unwrap();
    pool(&*bed.store, "b").await;
    assert_eq!(
        bed.store.pools().await.unwrap(),
        [identity("a"), identity("b")],
        "identities never change"
    );
    let row = bed.store.load(&authority.pool).await.unwrap().pool;
    assert_eq!((row.epoch, row.owner), (authority.epoch, authority.owner));
    assert_eq!((row.desired, row.mode), (None, PoolMode::Open));
}

async fn a_pool_never_seeded_is_a_conflict_and_fences_every_write(bed: &Bed) {
    let ghost = PoolId::new("trino/ghost");
    let load = bed.store.load(&ghost).await;
    assert!(matches!(load, Err(StoreError::Conflict(..))), "{load:?}");
    let acquired = bed.store.acquire(&ghost, &"me".into(), Epoch::default()).await;
    assert!(matches!(acquired, Err(StoreError::Conflict(..))), "{acquired:?}");
    // A wiped store must not be written to on the strength of memory (O06).
    let authority = Authority {
        pool: ghost.clone(),
        owner: "me".into(),
        epoch: Epoch::new(1),
    };
    assert_eq!(
        bed.store.commit(&authority, at(0), &[create("cell-1")]).await,
        Err(StoreError::Fenced(ghost))
    );
}

async fn s8_an_authority_takes_one_above_everything_seen(bed: &Bed) {
    let first = pool(&*bed.store, "a").await;
    assert_eq!(first.epoch, Epoch::new(1));
    let second = bed
        .store
        .acquire(&first.pool, &"second".into(), Epoch::new(40))
        .await;
    assert_eq!(second.unwrap().epoch, Epoch::new(41));
    let third = bed
        .store
        .acquire(&first.pool, &"third".into(), Epoch::new(7))
        .await;
    assert_eq!(third.unwrap().epoch, Epoch::new(42));
    let nobody = bed.store.acquire(&first.pool, &"".into(), Epoch::default()).await;
    assert!(matches!(nobody, Err(StoreError::Conflict(..))), "{nobody:?}");
    let most = Epoch::new(i64::MAX.unsigned_abs());
    let beyond = bed.store.acquire(&first.pool, &"fourth".into(), most).await;
    assert!(matches!(beyond, Err(StoreError::Conflict(..))), "{beyond:?}");
    let row = bed.reopened().await.load(&first.pool).await.unwrap().pool;
    assert_eq!((row.epoch, row.owner), (Epoch::new(42), "third".into()));
}

async fn refuses(bed: &Bed, authority: &Authority) {
    let writes = [create("cell-1"), Write::SetMode(PoolMode::Retained)];
    let fenced = Err(StoreError::Fenced(authority.pool.clone()));
    assert_eq!(bed.store.commit(authority, at(0), &writes).await, fenced);
    assert_eq!(
        bed.store.commit(authority, at(0), &[]).await,
        fenced,
        "even an empty one"
    );
    let now = bed.store.load(&authority.pool).await.unwrap();
    assert_eq!((now.instances.len(), now.pool.mode), (0, PoolMode::Open));
}

async fn s8_a_stale_epoch_writes_nothing(bed: &Bed) {
    let old = pool(&*bed.store, "a").await;
    bed.store
        .acquire(&old.pool, &old.owner, Epoch::default())
        .await
        .unwrap();
    refuses(bed, &old).await;
}

async fn s8_the_same_epoch_of_another_owner_writes_nothing(bed: &Bed) {
    let mut other = pool(&*bed.store, "a").await;
    other.owner = "other".into();
    refuses(bed, &other).await;
}

async fn s8_a_higher_epoch_that_was_never_acquired_writes_nothing(bed: &Bed) {
    let mut claimed = pool(&*bed.store, "a").await;
    claimed.epoch = claimed.epoch.next();
    refuses(bed, &claimed).await;
}

async fn one_refused_write_undoes_the_whole_commit(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, vec![create("cell-1")]).await;
    let writes = [
        Write::SetMode(PoolMode::Retained),
        advance("cell-1", Phase::Pending, Phase::Creating),
        create("cell-2"),
        create("cell-1"),
    ];
    let refused = bed.store.commit(&authority, at(1), &writes).await;
    assert!(matches!(refused, Err(StoreError::Conflict(..))), "{refused:?}");
    let now = bed.reopened().await.load(&authority.pool).await.unwrap();
    assert_eq!(now.pool.mode, PoolMode::Open);
    assert_eq!(now.instances.len(), 1);
    assert_eq!(now.instances[0].phase, Phase::Pending);
    assert_eq!(bed.store.instance(&id("cell-2")).await.unwrap(), None);
}

async fn a_commit_may_build_on_its_own_earlier_writes(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let writes = vec![
        create("cell-1"),
        advance("cell-1", Phase::Pending, Phase::Creating),
        advance("cell-1", Phase::Creating, Phase::Preparing),
    ];
    write(&*bed.store, &authority, writes).await;
    let row = bed.store.instance(&id("cell-1")).await.unwrap().unwrap();
    assert_eq!(row.phase, Phase::Preparing);
}

async fn two_leaders_racing_have_one_winner(bed: &Bed) {
    let pool = pool(&*bed.store, "a").await.pool;
    let successor = bed.reopened().await;
    let (one, other) = ("a".into(), "b".into());
    let (a, b) = tokio::join!(
        bed.store.acquire(&pool, &one, Epoch::default()),
        successor.acquire(&pool, &other, Epoch::default()),
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_ne!(a.epoch, b.epoch);
    let one = [create("cell-a")];
    let other = [create("cell-b")];
    let (first, second) = tokio::join!(
        bed.store.commit(&a, at(0), &one),
        successor.commit(&b, at(0), &other),
    );
    assert_eq!(first.is_ok(), a.epoch > b.epoch);
    assert_eq!(second.is_ok(), b.epoch > a.epoch);
}
