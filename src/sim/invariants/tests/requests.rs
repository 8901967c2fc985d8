//! The order of what was asked: S7 and S9 at the gateway, S8 in the cluster.

use super::*;
use crate::gateway::model::{MemberAction, MemberRequest, Registration};
use crate::pool::ids::{OperationId, StepId};
use crate::sim::gateway::Asked;
use crate::sim::kube::Made;

/// One step of instance `nth` that was granted, `seconds` after the beginning of the story.
fn asked(nth: u32, verb: &str, before: Option<MemberPhase>, after: MemberPhase, seconds: i64) -> Asked {
    Asked {
        at: at(seconds),
        pool: group().to_string(),
        instance: id(nth).to_string(),
        verb: verb.into(),
        operation: "operation".into(),
        step: format!("{verb}-{nth}"),
        body: "body".into(),
        before,
        after: Some(after),
        accepted: true,
        replayed: false,
    }
}

fn drain(nth: u32, seconds: i64) -> Asked {
    asked(
        nth,
        "drain",
        Some(MemberPhase::Active),
        MemberPhase::Draining,
        seconds,
    )
}

fn registration(nth: u32, seconds: i64) -> Asked {
    asked(nth, "register", None, MemberPhase::Preparing, seconds)
}

fn body(nth: u32) -> Registration {
    let member = member(nth, MemberPhase::Preparing);
    Registration {
        backend_name: member.backend_name,
        pod_uid: member.pod_uid,
        boot_id: member.boot_id,
        config_revision: "1".into(),
        repair_for: None,
    }
}

impl Story {
    /// The step arrives, at its own time.
    fn arrives(&mut self, step: Asked) {
        self.world.at = step.at;
        Arc::make_mut(&mut self.world.asked).push(step);
        self.look();
    }

    /// A part of the workload of instance `nth` is made now.
    fn makes(&mut self, nth: u32) {
        let made = Made {
            at: self.world.at,
            actor: "operator".into(),
            resource: Resource::Deployments,
            name: format!("{}-coordinator", id(nth)),
        };
        Arc::make_mut(&mut self.world.made).push(made);
        self.look();
    }

    /// A candidate whose row is written now.
    fn candidate(&mut self, nth: u32, phase: Phase) {
        let row = RowLook {
            created_at: self.world.at,
            phase_changed_at: self.world.at,
            ..row(phase)
        };
        self.pool().rows.insert(id(nth), row);
    }

    /// Nobody knows whether instance `nth` is registered.
    fn registration_is_open(&mut self, nth: u32) {
        let (operation, step) = (OperationId::new("create"), StepId::new(format!("register-{nth}")));
        let request = MemberRequest {
            instance: id(nth),
            operation: operation.clone(),
            step: step.clone(),
            action: MemberAction::Register(body(nth)),
        };
        self.pool().open.insert((operation, step), request);
    }
}

#[test]
fn s7_a_planned_drain_begins_only_while_none_is_in_flight() {
    let second = |between: Option<Asked>, then: Asked| {
        Story::begin().after(move |story| {
            story.arrives(drain(1, 200));
            if let Some(step) = between {
                story.arrives(step);
            }
            story.arrives(then);
        })
    };
    assert_eq!(second(None, drain(2, 201)), ["S7"]);
    let sealed = asked(1, "seal", Some(MemberPhase::Draining), MemberPhase::Sealed, 201);
    assert_eq!(second(Some(sealed), drain(2, 202)), ["S7"]);
    // One that ended, one that was given up as lost, and one that is stuck hold nobody up.
    let retired = asked(
        1,
        "retired",
        Some(MemberPhase::Retiring),
        MemberPhase::Retired,
        201,
    );
    assert_eq!(second(Some(retired), drain(2, 202)), FINE);
    let lost = asked(1, "lost", Some(MemberPhase::Draining), MemberPhase::Lost, 201);
    assert_eq!(second(Some(lost), drain(2, 202)), FINE);
    assert_eq!(second(None, drain(2, 200 + 30 * 60 - 10)), ["S7"]);
    assert_eq!(second(None, drain(2, 200 + 30 * 60)), FINE);
    // Refused, replayed, or of a suspect: no planned drain began.
    let refused = Asked {
        accepted: false,
        after: Some(MemberPhase::Active),
        ..drain(2, 201)
    };
    assert_eq!(second(None, refused), FINE);
    let replayed = Asked {
        replayed: true,
        before: Some(MemberPhase::Draining),
        ..drain(1, 201)
    };
    assert_eq!(second(None, replayed), FINE);
    let suspect = Asked {
        before: Some(MemberPhase::Suspect),
        ..drain(2, 201)
    };
    assert_eq!(second(None, suspect), FINE);
}

#[test]
fn s7_two_drains_within_one_look_are_told_apart_by_their_order() {
    let both = Story::begin().after(|story| {
        let asked = Arc::make_mut(&mut story.world.asked);
        asked.push(drain(1, 100));
        asked.push(drain(2, 100));
    });
    assert_eq!(both, ["S7"]);
    let one_after_the_other = Story::begin().after(|story| {
        let retired = asked(
            1,
            "retired",
            Some(MemberPhase::Retiring),
            MemberPhase::Retired,
            100,
        );
        let asked = Arc::make_mut(&mut story.world.asked);
        asked.extend([drain(1, 100), retired, drain(2, 100)]);
    });
    assert_eq!(one_after_the_other, FINE);
}

#[test]
fn s7_no_planned_candidate_is_begun_beside_one_that_waits_for_its_admission() {
    let second = |admitted: Option<i64>, repair: bool, later: i64| {
        Story::begin().after(move |story| {
            story.candidate(5, Phase::Preparing);
            story.look();
            story.arrives(registration(5, 110));
            if let Some(seconds) = admitted {
                let phase = Some(MemberPhase::Preparing);
                story.arrives(asked(5, "admit", phase, MemberPhase::Active, seconds));
            }
            // Whatever became of it before the next look at the rows.
            story.row(5).phase = Phase::Serving;
            story.world.at = at(later);
            story.candidate(6, Phase::Pending);
            story.row(6).repair = repair;
            story.makes(6);
        })
    };
    assert_eq!(second(None, false, 120), ["S7"]);
    assert_eq!(second(Some(120), false, 120), FINE);
    assert_eq!(second(None, true, 120), FINE, "a repair has its own budget");
    assert_eq!(
        second(None, false, 100 + 15 * 60),
        FINE,
        "it may be past its deadline"
    );
}

#[test]
fn s8_nothing_is_made_before_its_row() {
    let made = |written: Option<i64>| {
        Story::begin().after(move |story| {
            if let Some(seconds) = written {
                story.candidate(5, Phase::Creating);
                story.row(5).created_at = at(seconds);
            }
            story.makes(5);
        })
    };
    assert_eq!(made(None), ["S8"]);
    assert_eq!(made(Some(105)), ["S8"]);
    assert_eq!(made(Some(100)), FINE);
    let by_a_person = Story::begin().after(|story| {
        Arc::make_mut(&mut story.world.made).push(Made {
            at: at(100),
            actor: crate::sim::world::ADMIN.into(),
            resource: Resource::ConfigMaps,
            name: format!("{}-worker-config", id(9)),
        });
    });
    assert_eq!(by_a_person, FINE);
}

#[test]
fn s9_a_step_that_was_granted_is_never_sent_again_with_another_body() {
    let again = |granted: bool, body: &str| {
        Story::begin().after(|story| {
            story.arrives(Asked {
                accepted: granted,
                ..registration(5, 101)
            });
            story.arrives(Asked {
                body: body.into(),
                replayed: granted,
                ..registration(5, 102)
            });
        })
    };
    assert_eq!(again(true, "other"), ["S9"]);
    assert_eq!(again(true, "body"), FINE);
    // What was refused left no trace: the same step may begin again with a new request.
    assert_eq!(again(false, "other"), FINE);
}

#[test]
fn s9_objects_stay_while_a_registration_is_in_doubt() {
    let deleted = |closed: bool| {
        Story::begin().after(move |story| {
            story.candidate(5, Phase::Creating);
            story.registration_is_open(5);
            story.look();
            if closed {
                story.pool().open.clear();
                story.row(5).phase = Phase::FailedPreparing;
            }
            story.destroy(Resource::Deployments, &format!("{}-coordinator", id(5)));
        })
    };
    assert_eq!(deleted(false), ["S9"]);
    assert_eq!(deleted(true), FINE);
}

#[test]
fn s9_a_registration_that_lands_after_it_was_given_up_had_been_closed_too_early() {
    let lands = |open: bool, replayed: bool| {
        Story::begin().after(move |story| {
            story.candidate(5, Phase::FailedPreparing);
            if open {
                story.registration_is_open(5);
            }
            story.look();
            story.arrives(Asked {
                replayed,
                ..registration(5, 110)
            });
        })
    };
    assert_eq!(lands(false, false), ["S9"]);
    assert_eq!(lands(true, false), FINE);
    assert_eq!(lands(false, true), FINE);
}

#[test]
fn s9_a_story_ends_with_no_step_in_doubt() {
    let mut story = Story::begin();
    let ending = Ending::default();
    assert_eq!(unfinished(&story.world, &story.store, &ending), []);
    story.registration_is_open(3);
    let rules: Vec<_> = unfinished(&story.world, &story.store, &ending)
        .iter()
        .map(|violation| violation.rule)
        .collect();
    assert_eq!(rules, ["S9"]);
}
