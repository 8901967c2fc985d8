//! What holds for every pool, however torn.

use proptest::prelude::*;

use super::super::census::is_serving;
use super::super::{Finding, Rule};
use super::*;

const PHASES: [Phase; 15] = [
    Phase::Pending,
    Phase::Creating,
    Phase::Preparing,
    Phase::Validating,
    Phase::Admitted,
    Phase::Serving,
    Phase::Draining,
    Phase::Sealed,
    Phase::Retiring,
    Phase::Retired,
    Phase::Suspect,
    Phase::Lost,
    Phase::FailureRetired,
    Phase::FailedPreparing,
    Phase::Unrecognised,
];

fn any_phase() -> impl Strategy<Value = Phase> {
    // Serving ones are what most rules are about.
    prop_oneof![3 => Just(Phase::Serving), 2 => proptest::sample::select(PHASES.to_vec())]
}

fn any_evidence() -> impl Strategy<Value = EvidenceView> {
    let some = (any::<bool>(), 0_u64..10_000, proptest::option::of(0_u64..10_000)).prop_map(
        |(deleting, observed, deadline)| EvidenceView::Some {
            urgency: if deleting {
                Disruption::Deleting
            } else {
                Disruption::Drifted
            },
            observed_at: ago(observed),
            deadline: deadline.map(ago),
        },
    );
    prop_oneof![4 => Just(EvidenceView::None), 2 => some, 1 => Just(EvidenceView::Unreadable)]
}

fn any_view() -> impl Strategy<Value = InstanceView> {
    let outdated = proptest::sample::select(vec![
        Outdated::No,
        Outdated::No,
        Outdated::Release,
        Outdated::Spec,
        Outdated::Edited,
        Outdated::Unreadable,
    ]);
    let repair_for = proptest::option::weighted(0.2, 0_usize..12);
    let odd_member = proptest::option::weighted(
        0.2,
        proptest::sample::select(vec![
            MemberPhase::Active,
            MemberPhase::Suspect,
            MemberPhase::Draining,
        ]),
    );
    (
        any_phase(),
        (
            proptest::bool::weighted(0.2),
            proptest::bool::weighted(0.8),
            proptest::bool::weighted(0.1),
            proptest::option::weighted(0.1, 0_u64..10_000),
        ),
        outdated,
        any_evidence(),
        any::<bool>(),
        repair_for,
        odd_member,
        0_u64..10_000,
        (0_u64..10_000, proptest::option::weighted(0.3, 0_u64..10_000)),
    )
        .prop_map(
            |(
                phase,
                (doubtful, answering, unregistered, leaving),
                outdated,
                evidence,
                at_risk,
                repair_for,
                odd,
                born,
                (since, overdue),
            )| {
                instance("unnamed", phase).born(born).since(since).with(|view| {
                    view.suspected_locally = doubtful;
                    view.answering = answering && !doubtful;
                    view.unregistered = unregistered;
                    view.leaving = leaving.is_some();
                    view.leaving_since = leaving.map(ago);
                    view.outdated = outdated;
                    view.evidence = evidence;
                    view.at_risk = at_risk;
                    view.repair_for = repair_for.map(|target| id(&format!("i{target}")));
                    view.member = odd.or(view.member);
                    view.deadline = overdue.map(ago);
                })
            },
        )
}

fn any_pool() -> impl Strategy<Value = PlanInput> {
    let failures = proptest::option::of((0_u32..6, 0_u64..3000)).prop_map(|failure| {
        failure
            .map(|(count, seconds)| failed(FailureCause::NodeLeaving, count, seconds))
            .into_iter()
            .collect()
    });
    let mode = prop_oneof![
        6 => Just(PoolMode::Open),
        1 => Just(PoolMode::Held("spec".to_owned())),
        1 => Just(PoolMode::Emptying),
        1 => Just(PoolMode::Retained),
    ];
    let budget = prop_oneof![
        3 => Just(ReplacementBudget::Unlimited),
        1 => (0_u32..2).prop_map(ReplacementBudget::Left),
    ];
    (
        proptest::collection::vec(any_view(), 0..10),
        0_u32..6,
        0_u32..6,
        0_u32..3,
        0_u32..3,
        mode,
        failures,
        budget,
    )
        .prop_map(
            |(mut views, desired, floor, max_surge, max_repair, mode, failures, budget)| {
                for (index, view) in views.iter_mut().enumerate() {
                    view.id = id(&format!("i{index}"));
                }
                PlanInput {
                    max_surge,
                    max_repair,
                    mode,
                    failures,
                    budget,
                    ..pool(desired, floor.min(desired.max(1)), views)
                }
            },
        )
}

fn healthy(input: &PlanInput) -> usize {
    input
        .views
        .iter()
        .filter(|view| is_serving(view) && view.answering)
        .count()
}

fn live(input: &PlanInput) -> usize {
    input
        .views
        .iter()
        .filter(|view| view.phase.occupies_capacity())
        .count()
}

fn view<'a>(input: &'a PlanInput, instance: &InstanceId) -> &'a InstanceView {
    input.views.iter().find(|view| view.id == *instance).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn s06_no_planned_drain_takes_serving_below_the_floor(input in any_pool()) {
        if let Action::Drain(instance) = plan(&input).action
            && input.mode != PoolMode::Emptying
        {
            let drained = view(&input, &instance);
            prop_assert_eq!(drained.phase, Phase::Serving);
            let left = healthy(&input) - usize::from(drained.answering);
            prop_assert!(left >= input.min_serving as usize);
        }
    }

    #[test]
    fn s05_evidence_drains_only_while_more_than_desired_serve(input in any_pool()) {
        let made = plan(&input);
        if let (Action::Drain(instance), PlanReason::Drains { cause: crate::pool::plan::Cause::Node(_), .. }) =
            (&made.action, &made.reason)
        {
            let rows = input.views.iter().filter(|view| is_serving(view)).count();
            prop_assert!(rows > input.desired as usize);
            let left = healthy(&input) - usize::from(view(&input, instance).answering);
            prop_assert!(left >= input.desired as usize);
        }
    }

    #[test]
    fn s05_l07_what_the_gateway_does_not_hold_never_serves_is_never_repaired_and_always_named(input in any_pool()) {
        let made = plan(&input);
        let unregistered: Vec<InstanceId> = input.views.iter()
            .filter(|view| view.unregistered && view.phase.occupies_capacity())
            .map(|view| view.id.clone())
            .collect();
        match &made.action {
            Action::Drain(instance) => prop_assert!(!unregistered.contains(instance)),
            Action::Create { repair_for: Some(target) } => prop_assert!(!unregistered.contains(target)),
            Action::Create { repair_for: None } | Action::None => {}
        }
        let acts = matches!(input.mode, PoolMode::Open | PoolMode::Held(_)) && input.desired > 0;
        if acts && !unregistered.is_empty() {
            prop_assert_ne!(made.reason.label(), "Converged");
            let named = made.report.iter().any(|line| matches!(&line.finding,
                Finding::Waits(PlanReason::NotAtTheGateway { instances }) if instances.len() == unregistered.len()));
            prop_assert!(named, "{}", told(&made));
        }
    }

    #[test]
    fn live_instances_never_outgrow_the_budgets(input in any_pool()) {
        if let Action::Create { repair_for } = plan(&input).action {
            let limit = input.desired.max(input.min_serving) + input.max_surge + input.max_repair;
            prop_assert!(live(&input) < limit as usize);
            let repairing = input.views.iter().filter(|view| view.phase.occupies_capacity() && view.repair_for.is_some()).count();
            if let Some(target) = repair_for {
                prop_assert!(repairing < input.max_repair as usize);
                let repaired_already = input.views.iter().any(|view| view.phase.occupies_capacity() && view.repair_for.as_ref() == Some(&target));
                prop_assert!(!repaired_already);
            }
        }
    }

    #[test]
    fn s07_planned_candidates_and_planned_drains_go_one_at_a_time(input in any_pool()) {
        let prepared = |view: &InstanceView| view.phase.is_candidate() && view.deadline.is_none_or(|deadline| input.now < deadline);
        let candidate = |repair: bool| input.views.iter().any(|view| prepared(view) && view.repair_for.is_some() == repair);
        match plan(&input).action {
            Action::Create { repair_for } => prop_assert!(!candidate(repair_for.is_some())),
            Action::Drain(_) => {
                let moving = input.views.iter().any(|view| {
                    let since = if view.phase.is_departing() { Some(view.phase_changed_at) } else { view.leaving_since };
                    view.phase.occupies_capacity()
                        && since.is_some_and(|since| since > ago(input.timings.drain_stuck_after.as_secs()))
                });
                prop_assert!(!moving);
            }
            Action::None => {}
        }
    }

    #[test]
    fn l06_candidates_past_their_deadline_never_outgrow_surge_and_are_always_named(input in any_pool()) {
        let made = plan(&input);
        if let Action::Create { repair_for: None } = made.action {
            let ordinary = input.views.iter().filter(|view| view.phase.occupies_capacity() && view.repair_for.is_none());
            let limit = input.desired.max(input.min_serving) + input.max_surge;
            prop_assert!(ordinary.count() < limit as usize);
        }
        if matches!(input.mode, PoolMode::Open | PoolMode::Held(_)) && input.desired > 0 {
            for view in input.views.iter().filter(|view| super::super::census::is_overdue(view, input.now)) {
                let named = made.report.iter().any(|line| matches!(&line.finding,
                    Finding::Waits(PlanReason::CandidateStuck { instance, .. }) if *instance == view.id));
                prop_assert!(named, "{} is not named: {}", view.id, told(&made));
            }
        }
    }

    #[test]
    fn the_same_pool_gives_the_same_plan_in_any_order(input in any_pool(), seed in any::<u64>()) {
        let mut shuffled = input.clone();
        let length = shuffled.views.len().max(1);
        shuffled.views.rotate_left(usize::try_from(seed % 97).unwrap() % length);
        if seed % 2 == 0 {
            shuffled.views.reverse();
        }
        prop_assert_eq!(plan(&input), plan(&shuffled));
    }

    #[test]
    fn w05_l07_every_plan_says_why_and_its_report_agrees(input in any_pool()) {
        let made = plan(&input);
        prop_assert!(!made.reason.to_string().is_empty());
        prop_assert!(!made.report.is_empty());
        let acts: Vec<_> = made.report.iter().filter(|line| matches!(line.finding, Finding::Acts(_))).collect();
        prop_assert_eq!(acts.len(), usize::from(made.action != Action::None));
        if let Some(last) = acts.first() {
            prop_assert_eq!(&last.finding, &Finding::Acts(made.reason.clone()));
            prop_assert_eq!(Some(*last), made.report.last());
        }
        if made.reason.label() == "Converged" {
            prop_assert!(made.report.iter().all(|line| line.finding == Finding::Idle));
            prop_assert!(healthy(&input) + input.views.iter().filter(|view| !view.answering).count() >= input.desired as usize);
        }
    }

    #[test]
    fn a_pool_that_may_not_act_does_not(input in any_pool()) {
        let made = plan(&PlanInput { mode: PoolMode::Retained, ..input.clone() });
        prop_assert_eq!(made.action, Action::None);
        let emptied = plan(&PlanInput { mode: PoolMode::Emptying, ..input });
        let creates = matches!(emptied.action, Action::Create { .. });
        prop_assert!(!creates);
        prop_assert!(emptied.report.iter().all(|line| matches!(line.rule, Rule::ScaleIn | Rule::Members)));
    }
}
