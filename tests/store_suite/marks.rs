//! A mark moves with every change of its pool, and with nothing else: who loads a pool only when its mark
//! moved misses nothing, and loads a quiet pool never again.

use trino_pool_operator::cluster::facts::ObjectKind;
use trino_pool_operator::pool::desired::PoolMode;
use trino_pool_operator::pool::evidence::Disruption;
use trino_pool_operator::pool::ids::{Epoch, NodeUid, PoolId, Revision, SpecGeneration};
use trino_pool_operator::pool::instance::{CandidateFailure, FailureCause};
use trino_pool_operator::pool::phase::Phase;
use trino_pool_operator::store::port::{Committed, Mark, StepOutcome, StoreError, Write};

use crate::bed::Bed;
use crate::fixtures::{
    advance, append, at, create, desired, drain, draining, every_change, evidence, id, identity, life, node,
    pool, record, recovery, request, write,
};

crate::on_every_store![
    a_mark_says_who_holds_authority_and_moves_when_it_is_taken,
    every_write_that_changes_something_moves_the_mark_of_its_pool_by_one,
    a_commit_that_changes_nothing_leaves_the_mark,
    a_refused_commit_leaves_the_mark,
    an_accepted_recovery_moves_the_mark_and_asking_again_does_not,
    reads_leave_the_marks,
    load_and_marks_agree,
    marks_of_all_pools_take_one_statement,
];

async fn mark(bed: &Bed, pool: &PoolId) -> Mark {
    bed.store.marks().await.unwrap()[pool].clone()
}

async fn revision(bed: &Bed, pool: &PoolId) -> Revision {
    mark(bed, pool).await.revision
}

async fn a_mark_says_who_holds_authority_and_moves_when_it_is_taken(bed: &Bed) {
    assert!(bed.store.marks().await.unwrap().is_empty());
    let pool = identity("a");
    bed.store.seed(&pool).await.unwrap();
    let mut expected = Mark {
        epoch: Epoch::new(0),
        owner: "".into(),
        revision: Revision::new(0),
    };
    assert_eq!(mark(bed, &pool.id).await, expected);
    bed.store.seed(&pool).await.unwrap();
    assert_eq!(
        mark(bed, &pool.id).await,
        expected,
        "seeding again changes nothing"
    );
    let mut taken = Vec::new();
    for (owner, epoch) in [("me", 1), ("another", 2), ("another", 3)] {
        let got = bed.store.acquire(&pool.id, &owner.into(), Epoch::default()).await;
        taken.push(got.unwrap());
        expected = Mark {
            epoch: Epoch::new(epoch),
            owner: owner.into(),
            revision: expected.revision.next(),
        };
        assert_eq!(mark(bed, &pool.id).await, expected);
    }
    let nobody = bed.store.acquire(&pool.id, &"".into(), Epoch::default()).await;
    assert!(matches!(nobody, Err(StoreError::Conflict(..))), "{nobody:?}");
    assert_eq!(bed.reopened().await.marks().await.unwrap()[&pool.id], expected);
}

async fn every_write_that_changes_something_moves_the_mark_of_its_pool_by_one(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let quiet = pool(&*bed.store, "b").await.pool;
    let before = mark(bed, &quiet).await;
    let begin = |step: &str| Write::BeginStep(request("cell-1", step, drain(3)));
    let finish = |outcome| Write::FinishStep {
        operation: "instance:cell-1".into(),
        step: "s1".into(),
        outcome,
    };
    let retired = life("cell-0", Phase::Retired);
    let changes: Vec<Vec<Write>> = vec![
        vec![Write::PublishDesired {
            resource: "uid-1".into(),
            generation: SpecGeneration::new(1),
            desired: Box::new(desired(&identity("a"))),
        }],
        vec![Write::SetMode(PoolMode::Retained)],
        vec![create("cell-1")],
        vec![advance("cell-1", Phase::Pending, Phase::Creating)],
        vec![Write::Update {
            instance: id("cell-1"),
            changes: Box::new(every_change()),
        }],
        vec![record("cell-1", &evidence("n1", "u1", Disruption::Drifted))],
        vec![append("cell-1", &node("n2", "u2", Disruption::Deleting))],
        vec![begin("s1")],
        // It is sent once more: one attempt more.
        vec![begin("s1")],
        vec![finish(StepOutcome::Refused)],
        vec![begin("s1")],
        vec![finish(StepOutcome::Applied)],
        vec![Write::RememberFailure(CandidateFailure {
            cause: FailureCause::NodeLeaving,
            detail: "n1".into(),
        })],
        vec![Write::ForgetFailures],
        // However many writes, and whatever was there already: one transaction, one step.
        retired,
        vec![Write::RecordOrphan {
            instance: id("cell-0"),
            kind: ObjectKind::Service,
            uid: "uid-7".into(),
        }],
        vec![
            record("cell-1", &evidence("n1", "u1", Disruption::Drifted)),
            begin("s2"),
        ],
    ];
    for writes in changes {
        let revision = revision(bed, &authority.pool).await;
        let said = format!("{writes:?}");
        write(&*bed.store, &authority, writes).await;
        let expected = Mark {
            epoch: authority.epoch,
            owner: authority.owner.clone(),
            revision: revision.next(),
        };
        assert_eq!(mark(bed, &authority.pool).await, expected, "{said}");
    }
    assert_eq!(mark(bed, &quiet).await, before, "another pool's");
}

async fn a_commit_that_changes_nothing_leaves_the_mark(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let begin = Write::BeginStep(request("cell-1", "s1", drain(3)));
    let finish = Write::FinishStep {
        operation: "instance:cell-1".into(),
        step: "s1".into(),
        outcome: StepOutcome::Applied,
    };
    let seen = record("cell-1", &evidence("n1", "u1", Disruption::Drifted));
    let further = append("cell-1", &node("n2", "u2", Disruption::Drifted));
    let orphan = Write::RecordOrphan {
        instance: id("cell-0"),
        kind: ObjectKind::Service,
        uid: "uid-7".into(),
    };
    write(&*bed.store, &authority, life("cell-0", Phase::Retired)).await;
    let writes = vec![
        create("cell-1"),
        seen.clone(),
        further.clone(),
        begin.clone(),
        finish.clone(),
        orphan.clone(),
    ];
    write(&*bed.store, &authority, writes).await;
    let loaded = bed.store.load(&authority.pool).await.unwrap();
    let kept = [seen, further, finish, orphan];
    for writes in [&[][..], &kept] {
        let results = bed.store.commit(&authority, at(9), writes).await.unwrap();
        assert_eq!(results, vec![Committed::Kept; writes.len()]);
        assert_eq!(mark(bed, &authority.pool).await, loaded.pool.mark(), "{writes:?}");
    }
    let stands = bed.store.commit(&authority, at(9), &[begin]).await.unwrap();
    assert!(matches!(&stands[..], [Committed::Recorded(_)]), "{stands:?}");
    assert_eq!(mark(bed, &authority.pool).await, loaded.pool.mark());
    assert_eq!(bed.store.load(&authority.pool).await.unwrap(), loaded);
}

async fn a_refused_commit_leaves_the_mark(bed: &Bed) {
    let old = pool(&*bed.store, "a").await;
    let second = "second".into();
    let now = bed.store.acquire(&old.pool, &second, Epoch::default());
    let now = now.await.unwrap();
    write(&*bed.store, &now, vec![create("cell-1")]).await;
    let before = mark(bed, &now.pool).await;
    let change = Write::SetMode(PoolMode::Retained);
    let fenced = bed.store.commit(&old, at(1), std::slice::from_ref(&change)).await;
    assert_eq!(fenced, Err(StoreError::Fenced(old.pool.clone())));
    assert_eq!(mark(bed, &now.pool).await, before, "fenced");
    // The first write of it would have changed something.
    let conflict = bed.store.commit(&now, at(1), &[change, create("cell-1")]).await;
    assert!(matches!(conflict, Err(StoreError::Conflict(..))), "{conflict:?}");
    assert_eq!(mark(bed, &now.pool).await, before, "in conflict");
}

async fn an_accepted_recovery_moves_the_mark_and_asking_again_does_not(bed: &Bed) {
    let pool = draining(&*bed.store, "cell-1").await.pool;
    let before = revision(bed, &pool).await;
    let asked = recovery("t-1", "cell-1");
    let refused = bed.store.request_recovery(&pool, 1, &asked);
    assert!(matches!(refused.await, Err(StoreError::Conflict(..))));
    assert_eq!(revision(bed, &pool).await, before, "the floor refused it");
    for time in ["first", "second"] {
        bed.store.request_recovery(&pool, 0, &asked).await.unwrap();
        assert_eq!(
            revision(bed, &pool).await,
            before.next(),
            "asked for the {time} time"
        );
    }
    let loaded = bed.store.load(&pool).await.unwrap();
    assert_eq!(
        (loaded.recoveries.len(), loaded.pool.revision),
        (1, before.next())
    );
}

async fn reads_leave_the_marks(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, vec![create("cell-1")]).await;
    let before = bed.store.marks().await.unwrap();
    bed.store.id().await.unwrap();
    bed.store.pools().await.unwrap();
    bed.store.load(&authority.pool).await.unwrap();
    bed.store.instance(&id("cell-1")).await.unwrap();
    bed.store.node_holds(&NodeUid::new("u1")).await.unwrap();
    assert_eq!(bed.store.marks().await.unwrap(), before);
}

async fn load_and_marks_agree(bed: &Bed) {
    let authority = draining(&*bed.store, "cell-1").await;
    pool(&*bed.store, "b").await;
    bed.store
        .request_recovery(&authority.pool, 0, &recovery("t-1", "cell-1"))
        .await
        .unwrap();
    let marks = bed.reopened().await.marks().await.unwrap();
    assert_eq!(marks.len(), 2);
    for (pool, mark) in marks {
        assert_eq!(bed.store.load(&pool).await.unwrap().pool.mark(), mark, "{pool}");
    }
}

async fn marks_of_all_pools_take_one_statement(bed: &Bed) {
    for name in ["a", "b", "c"] {
        pool(&*bed.store, name).await;
    }
    let before = bed.store.statements();
    assert_eq!(bed.store.marks().await.unwrap().len(), 3);
    assert_eq!(bed.store.statements() - before, 1);
}
