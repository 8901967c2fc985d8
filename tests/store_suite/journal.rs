//! Intent before an effect, outcome after it; the recorded request is the one that is replayed (S9).

use trino_pool_operator::store::port::{Committed, JournalStep, StepOutcome, StoreError, Write};

use crate::bed::Bed;
use crate::fixtures::{at, create, drain, every_action, pool, request, write};

crate::on_every_store![
    s9_an_open_step_is_found_by_the_successor_word_for_word,
    s9_an_open_step_is_replayed_as_recorded_whatever_the_caller_has_in_mind,
    a_refused_step_may_be_begun_again_with_another_request,
    an_applied_step_is_never_overwritten,
    w12_a_refused_step_that_was_applied_after_all_ends_applied,
    a_step_never_begun_cannot_end,
    an_operation_belongs_to_one_pool,
    a_step_of_an_instance_that_is_not_there_is_refused,
];

fn finish(name: &str, step: &str, outcome: StepOutcome) -> Write {
    Write::FinishStep {
        operation: format!("instance:{name}").as_str().into(),
        step: step.into(),
        outcome,
    }
}

fn recorded(
    request: &trino_pool_operator::gateway::model::MemberRequest,
    outcome: StepOutcome,
    attempts: u32,
    micros: i64,
) -> Committed {
    Committed::Recorded(Box::new(JournalStep {
        request: request.clone(),
        outcome,
        attempts,
        at: at(micros),
    }))
}

async fn s9_an_open_step_is_found_by_the_successor_word_for_word(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    write(&*bed.store, &authority, vec![create("cell-1")]).await;
    let mut expected = Vec::new();
    for action in every_action() {
        let request = request("cell-1", &format!("{}.1", action.label()), action);
        let begin = Write::BeginStep(request.clone());
        assert_eq!(
            bed.store.commit(&authority, at(3), &[begin]).await,
            Ok(vec![Committed::Done])
        );
        expected.push(JournalStep {
            request,
            outcome: StepOutcome::Unknown,
            attempts: 1,
            at: at(3),
        });
    }
    expected.sort_by(|a, b| a.request.step.cmp(&b.request.step));
    let open = bed
        .reopened()
        .await
        .load(&authority.pool)
        .await
        .unwrap()
        .open_steps;
    assert_eq!(open, expected);
    for (found, sent) in open.iter().zip(&expected) {
        assert_eq!(
            serde_json::to_string(&found.request).unwrap(),
            serde_json::to_string(&sent.request).unwrap()
        );
    }
    let settled: Vec<Write> = expected
        .iter()
        .map(|step| finish("cell-1", step.request.step.as_str(), StepOutcome::Applied))
        .collect();
    write(&*bed.store, &authority, settled).await;
    assert!(
        bed.store
            .load(&authority.pool)
            .await
            .unwrap()
            .open_steps
            .is_empty()
    );
}

async fn s9_an_open_step_is_replayed_as_recorded_whatever_the_caller_has_in_mind(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let sent = request("cell-1", "drain.1", drain(3));
    write(
        &*bed.store,
        &authority,
        vec![create("cell-1"), Write::BeginStep(sent.clone())],
    )
    .await;
    for (attempts, wanted) in [(2, drain(3)), (3, drain(9))] {
        let begin = Write::BeginStep(request("cell-1", "drain.1", wanted));
        assert_eq!(
            bed.store.commit(&authority, at(attempts.into()), &[begin]).await,
            Ok(vec![recorded(
                &sent,
                StepOutcome::Unknown,
                attempts,
                attempts.into()
            )])
        );
    }
    let open = bed.store.load(&authority.pool).await.unwrap().open_steps;
    assert_eq!(
        (open[0].request.clone(), open[0].attempts, open[0].at),
        (sent, 3, at(3))
    );
}

async fn a_refused_step_may_be_begun_again_with_another_request(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let second = request("cell-1", "drain.1", drain(9));
    let writes = [
        create("cell-1"),
        Write::BeginStep(request("cell-1", "drain.1", drain(3))),
        finish("cell-1", "drain.1", StepOutcome::Refused),
        Write::BeginStep(second.clone()),
        Write::BeginStep(second.clone()),
    ];
    assert_eq!(
        bed.store.commit(&authority, at(4), &writes).await,
        Ok(vec![
            Committed::Done,
            Committed::Done,
            Committed::Done,
            Committed::Done,
            recorded(&second, StepOutcome::Unknown, 3, 4),
        ])
    );
    let open = bed.store.load(&authority.pool).await.unwrap().open_steps;
    assert_eq!(open[0].request, second);
}

async fn an_applied_step_is_never_overwritten(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let sent = request("cell-1", "drain.1", drain(3));
    write(
        &*bed.store,
        &authority,
        vec![
            create("cell-1"),
            Write::BeginStep(sent.clone()),
            finish("cell-1", "drain.1", StepOutcome::Applied),
        ],
    )
    .await;
    let writes = [
        finish("cell-1", "drain.1", StepOutcome::Refused),
        finish("cell-1", "drain.1", StepOutcome::Unknown),
        finish("cell-1", "drain.1", StepOutcome::Applied),
        Write::BeginStep(request("cell-1", "drain.1", drain(9))),
    ];
    assert_eq!(
        bed.store.commit(&authority, at(9), &writes).await,
        Ok(vec![
            Committed::Kept,
            Committed::Kept,
            Committed::Kept,
            recorded(&sent, StepOutcome::Applied, 1, 0),
        ])
    );
}

async fn w12_a_refused_step_that_was_applied_after_all_ends_applied(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let sent = request("cell-1", "admit.1", drain(3));
    let writes = [
        create("cell-1"),
        Write::BeginStep(sent.clone()),
        finish("cell-1", "admit.1", StepOutcome::Refused),
        finish("cell-1", "admit.1", StepOutcome::Refused),
        finish("cell-1", "admit.1", StepOutcome::Unknown),
        finish("cell-1", "admit.1", StepOutcome::Applied),
        Write::BeginStep(sent.clone()),
    ];
    assert_eq!(
        bed.store.commit(&authority, at(5), &writes).await,
        Ok(vec![
            Committed::Done,
            Committed::Done,
            Committed::Done,
            Committed::Kept,
            Committed::Kept,
            Committed::Done,
            recorded(&sent, StepOutcome::Applied, 1, 5),
        ])
    );
}

async fn a_step_never_begun_cannot_end(bed: &Bed) {
    let a = pool(&*bed.store, "a").await;
    let b = pool(&*bed.store, "b").await;
    write(
        &*bed.store,
        &a,
        vec![
            create("cell-1"),
            Write::BeginStep(request("cell-1", "drain.1", drain(3))),
        ],
    )
    .await;
    for (authority, step) in [(&a, "drain.2"), (&b, "drain.1")] {
        let result = bed
            .store
            .commit(authority, at(1), &[finish("cell-1", step, StepOutcome::Applied)])
            .await;
        assert!(matches!(result, Err(StoreError::Conflict(..))), "{result:?}");
    }
    assert_eq!(bed.store.load(&a.pool).await.unwrap().open_steps.len(), 1);
}

async fn an_operation_belongs_to_one_pool(bed: &Bed) {
    let a = pool(&*bed.store, "a").await;
    let b = pool(&*bed.store, "b").await;
    write(
        &*bed.store,
        &a,
        vec![
            create("cell-1"),
            Write::BeginStep(request("cell-1", "drain.1", drain(3))),
        ],
    )
    .await;
    write(&*bed.store, &b, vec![create("cell-2")]).await;
    for step in ["drain.1", "drain.2"] {
        let mut theirs = request("cell-2", step, drain(3));
        theirs.operation = "instance:cell-1".into();
        let result = bed.store.commit(&b, at(1), &[Write::BeginStep(theirs)]).await;
        assert_eq!(
            result,
            Err(StoreError::IntentChanged("instance:cell-1".into(), step.into()))
        );
    }
}

async fn a_step_of_an_instance_that_is_not_there_is_refused(bed: &Bed) {
    let authority = pool(&*bed.store, "a").await;
    let begin = Write::BeginStep(request("cell-9", "drain.1", drain(3)));
    let result = bed.store.commit(&authority, at(1), &[begin]).await;
    assert!(matches!(result, Err(StoreError::Conflict(..))), "{result:?}");
}
