//! What must hold for every input.

use proptest::prelude::*;

use super::super::{may_delete, next};
use super::*;
use crate::gateway::model::RetirementKind;
use crate::pool::evidence::RecordedEvidence;
use crate::pool::instance::CandidateFailure;
use crate::pool::observation::PlacementReport;
use crate::pool::settle;
use crate::pool::step::EffectOutcome;
use crate::pool::testing::{minutes, unknown};

fn phases() -> impl Strategy<Value = Phase> {
    let mut all = Phase::KNOWN.to_vec();
    all.push(Phase::Unrecognised);
    prop::sample::select(all)
}

fn member_phases() -> impl Strategy<Value = MemberPhase> {
    prop::sample::select(vec![
        MemberPhase::Preparing,
        MemberPhase::Active,
        MemberPhase::Draining,
        MemberPhase::Sealed,
        MemberPhase::Retiring,
        MemberPhase::Retired,
        MemberPhase::Suspect,
        MemberPhase::Lost,
        MemberPhase::Unrecognised,
    ])
}

fn kinds() -> impl Strategy<Value = Option<RetirementKind>> {
    prop::sample::select(vec![
        None,
        Some(RetirementKind::Drained),
        Some(RetirementKind::Failed),
    ])
}

fn actions() -> impl Strategy<Value = Option<MemberAction>> {
    let expected = crate::pool::ids::Generation::new(1);
    prop::sample::select(vec![
        None,
        Some(MemberAction::Drain { expected }),
        Some(MemberAction::Seal { expected }),
        Some(MemberAction::Retire { expected }),
        Some(MemberAction::Retired { expected }),
        Some(MemberAction::Suspect {
            expected,
            reason: "x".into(),
        }),
        Some(MemberAction::Register(crate::gateway::model::Registration {
            backend_name: "b".into(),
            pod_uid: "pod-uid-coordinator".into(),
            boot_id: "abcde".into(),
            config_revision: "r1".into(),
            repair_for: None,
        })),
    ])
}

prop_compose! {
    fn stories()(
        phase in phases(),
        recorded in prop::option::of((member_phases(), kinds())),
        gateway in prop::option::of((member_phases(), kinds(), 0_u64..6)),
        (member_known, owned_known, info_known, owed_known) in any::<(bool, bool, bool, bool)>(),
        (restarted, pods_listed, doomed, placed) in any::<(bool, bool, bool, bool)>(),
        (absent, backend, fenced, trusted) in any::<(bool, bool, bool, bool)>(),
        owed in 0_u64..3,
        failing in prop::option::of(0_u64..30),
        open in actions(),
        serving in 0_u32..5,
        now in 0_i64..10_000,
        unreadable in any::<bool>(),
    ) -> Story {
        let mut story = Story::of(phase);
        if let Some((phase, kind)) = recorded {
            let mut handle = testing::handle(phase, 1);
            handle.retirement = kind;
            story.row.member = Some(handle);
        }
        match gateway {
            Some((phase, kind, generation)) => {
                story.gateway_says(phase, generation).retirement_kind = kind;
            }
            None => story.seen.member = Reading::Seen(None),
        }
        if restarted {
            story.restarted();
        }
        if pods_listed {
            story.seen.namespace_pods = Reading::Seen(vec![]);
        }
        if doomed {
            story.row.failure = Some(CandidateFailure { cause: FailureCause::Superseded, detail: "x".into() });
        }
        if placed {
            story.ctx.fresh_placement = Some(PlacementReport { clean: true, ..PlacementReport::default() });
        }
        if unreadable {
            story.row.evidence = RecordedEvidence::Unreadable("x".into());
        }
        story.seen.obligations = Reading::Seen(Some(testing::obligations(MemberPhase::Draining, 2, owed)));
        if !owed_known {
            story.seen.obligations = unknown();
        }
        if !member_known {
            story.seen.member = unknown();
        }
        if !owned_known {
            story.seen.owned = unknown();
        }
        if !info_known {
            story.silent();
        }
        story.ctx.confirmed = crate::pool::step::Confirmed { backend, absent, step_fenced: fenced };
        story.ctx.probes_trusted = trusted;
        story.ctx.failing_for = failing.map(minutes);
        story.ctx.serving = serving;
        if let Some(action) = open {
            story.opens(action);
        }
        story.now = at(now);
        story
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn deletion_is_asked_for_only_where_the_row_permits_it(story in stories()) {
        if story.next() == Next::perform(Effect::DeleteObjects) {
            prop_assert!(may_delete(&story.row));
        }
    }

    #[test]
    fn a_phase_changes_only_along_a_permitted_transition_and_records_come_to_an_end(mut story in stories()) {
        for _ in 0..12 {
            match story.next() {
                Next::Record(change) => {
                    if let Some(to) = change.to {
                        prop_assert!(story.row.phase.permits(to), "{} -> {to}", story.row.phase);
                    }
                    prop_assert!(*change != RowChange::default(), "an empty change in {}", story.row.phase);
                    story.apply(&change);
                }
                Next::Perform(_) | Next::Wait(_) => return Ok(()),
            }
        }
        prop_assert!(false, "records without end in {}", story.row.phase);
    }

    #[test]
    fn what_is_unknown_never_retires_loses_deletes_or_suspects(mut story in stories()) {
        story.seen = Observation {
            member: unknown(),
            owned: unknown(),
            workload: unknown(),
            info: unknown(),
            obligations: unknown(),
            placement: unknown(),
            namespace_pods: unknown(),
            ..story.seen
        };
        let before = story.row.clone();
        match story.next() {
            Next::Perform(effect) => {
                prop_assert!(!matches!(*effect, Effect::Member(_)), "{effect:?}");
                // Deletion goes on where the claim was durable before anything became unknown.
                prop_assert!(*effect != Effect::DeleteObjects || may_delete(&before));
            }
            Next::Record(change) => {
                let over = [None, Some(Phase::FailedPreparing), Some(Phase::FailureRetired)];
                prop_assert!(over.contains(&change.to), "{change:?}");
                if change.to == Some(Phase::FailureRetired) {
                    prop_assert!(before.member.is_none(), "{change:?}");
                }
            }
            Next::Wait(_) => {}
        }
    }

    #[test]
    fn an_interruption_changes_nothing(story in stories()) {
        if let Next::Perform(effect) = story.next() {
            let settled = settle::settle(&story.row, &effect, &EffectOutcome::Interrupted, story.ctx.epoch, &story.ctx, story.now);
            prop_assert_eq!(&settled.change, &None);
            prop_assert_eq!(&settled.step, &None);
            prop_assert!(!settled.fenced);
            let mut ctx = story.ctx.clone();
            settle::remember(&mut ctx, &effect, &EffectOutcome::Interrupted);
            prop_assert_eq!(&ctx, &story.ctx);
        }
    }

    #[test]
    fn every_request_names_this_instance_by_the_protocols_alphabet(story in stories()) {
        if let Next::Perform(effect) = story.next()
            && let Effect::Member(request) = *effect
        {
            prop_assert_eq!(&request.instance, &story.row.id);
            let step = request.step.as_str();
            prop_assert!((1..=64).contains(&step.len()));
            prop_assert!(step.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c)));
            prop_assert!(step.starts_with(request.action.label()));
        }
    }

    #[test]
    fn the_same_input_gives_the_same_step(story in stories()) {
        prop_assert_eq!(story.next(), next(&story.row, &story.seen, &story.ctx, story.now));
    }
}
