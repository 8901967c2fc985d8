//! Candidates whose Deployments somebody edits, or whose pods go, between the validation and the admission.

use super::*;
use crate::pool::edited::replica_sets;

fn edited_since_its_validation() -> Story {
    let mut story = Story::of(Phase::Validating);
    story.seen.at = at(30);
    let sets = story.seen.owned.seen().map(replica_sets);
    story.row.receipt.as_mut().unwrap().replica_sets = sets;
    if let Reading::Seen(owned) = &mut story.seen.owned {
        owned.workers[0].owners[0].uid = "uid-rs-worker-2".into();
    }
    story
}

/// A controller that edits every Deployment once must not end every candidate (L1).
#[test]
fn a11_a_candidate_whose_pods_were_replaced_since_its_validation_is_validated_again_where_it_stands() {
    let mut story = edited_since_its_validation();
    assert_eq!(effect(&story.next()), &Effect::Validate);
    // Proven: what runs now is what was validated.
    let receipt = story.row.receipt.as_mut().unwrap();
    receipt
        .replica_sets
        .as_mut()
        .unwrap()
        .insert("uid-rs-worker-2".into());
    assert_eq!(effect(&story.next()), &Effect::CheckCandidate);
}

/// Something that edits it again and again.
#[test]
fn l6_a_candidate_that_is_edited_for_ever_is_given_up_at_its_deadline() {
    let mut story = edited_since_its_validation();
    if let Reading::Seen(owned) = &mut story.seen.owned {
        owned.workers_ready = Some(0);
    }
    assert_eq!(reason(&story.next()), WaitReason::PodsNotReady);
    story.now = at(3600);
    story.row.receipt.as_mut().unwrap().validated_at = at(3590);
    story.seen.at = at(3599);
    assert_eq!(cause(&story.next()), FailureCause::DeadlineExceeded);
}

/// The old workers are gone and the new ones are not there yet: clients would be sent to none.
#[test]
fn a11_a_candidate_without_its_workers_is_not_admitted_whatever_its_receipt_says() {
    let mut story = edited_since_its_validation();
    if let Reading::Seen(owned) = &mut story.seen.owned {
        owned.workers.clear();
        owned.workers_ready = Some(0);
        owned.wanted_sets.truncate(1);
    }
    assert_eq!(reason(&story.next()), WaitReason::PodsNotReady);
}

/// The same body is sent again or none: one that tells of pods that are gone is not, and its end is the deadline.
#[test]
fn a11_an_admission_without_an_answer_is_not_repeated_while_something_else_runs() {
    let mut story = edited_since_its_validation();
    let receipt = super::super::requests::admission(&story.row, story.row.receipt.as_ref().unwrap());
    story.opens(MemberAction::Admit {
        expected: crate::pool::ids::Generation::new(0),
        receipt,
    });
    assert_eq!(reason(&story.next()), WaitReason::PodsNotReady);
    story.now = at(3600);
    assert_eq!(cause(&story.next()), FailureCause::DeadlineExceeded);
}
