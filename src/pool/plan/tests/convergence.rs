//! Whole lives in small: a pool that is planned for again and again, whatever fails, ends as desired.
//!
//! The world here is as small as it can be: phases advance by themselves, sometimes fail, drains end when
//! they end. It knows nothing of the planner's rules.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::census::is_serving;
use super::*;

const TICK: Duration = Duration::from_secs(5);
/// Twenty hours: a candidate that fails again and again is held back for half an hour each time.
const TICKS: u32 = 14_400;

struct World {
    input: PlanInput,
    rng: ChaCha8Rng,
    born: u32,
    /// Chance in percent that a candidate fails in a tick, and that a serving instance crashes, while
    /// trouble lasts.
    candidate_fails: u32,
    crashes: u32,
    /// Chance in percent that a candidate is such that it can neither be proven nor refuted while trouble
    /// lasts.
    sticks: u32,
    stuck: std::collections::BTreeSet<InstanceId>,
    trouble_until: u32,
}

impl World {
    fn new(input: PlanInput, seed: u64, candidate_fails: u32, crashes: u32) -> Self {
        Self {
            input,
            rng: ChaCha8Rng::seed_from_u64(seed),
            born: 0,
            candidate_fails,
            crashes,
            sticks: 0,
            stuck: std::collections::BTreeSet::new(),
            trouble_until: 400,
        }
    }

    fn serving(&self) -> usize {
        self.input.views.iter().filter(|view| is_serving(view)).count()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::None => {}
            Action::Create { repair_for } => {
                self.born += 1;
                let view = instance(&format!("n{:04}", self.born), Phase::Pending).with(|view| {
                    view.repair_for.clone_from(repair_for);
                    view.created_at = self.input.now;
                    view.phase_changed_at = self.input.now;
                    view.deadline = deadline(Phase::Pending, self.input.now);
                });
                if self.chance(self.sticks) {
                    self.stuck.insert(view.id.clone());
                }
                self.input.views.push(view);
            }
            Action::Drain(drained) => {
                let now = self.input.now;
                let view = self
                    .input
                    .views
                    .iter_mut()
                    .find(|view| view.id == *drained)
                    .unwrap();
                enter(view, Phase::Draining, now);
            }
        }
    }

    fn pass(&mut self, tick: u32) {
        self.input.now = self.input.now.saturating_add(TICK).unwrap();
        let trouble = tick < self.trouble_until;
        for index in 0..self.input.views.len() {
            let phase = self.input.views[index].phase;
            let stuck = trouble && self.stuck.contains(&self.input.views[index].id);
            if stuck && phase == Phase::Validating {
                continue;
            }
            if let Some(next) = self.next(phase, trouble) {
                self.enter(index, next);
            }
        }
        self.input.views.retain(|view| view.phase.occupies_capacity());
    }

    fn next(&mut self, phase: Phase, trouble: bool) -> Option<Phase> {
        let fails = trouble && self.chance(self.candidate_fails);
        let crashes = trouble && self.chance(self.crashes);
        let moves = self.chance(30);
        match phase {
            Phase::Pending | Phase::Creating | Phase::Preparing | Phase::Validating if fails => {
                Some(Phase::FailedPreparing)
            }
            Phase::Serving if crashes => Some(Phase::Suspect),
            Phase::Pending if moves => Some(Phase::Creating),
            Phase::Creating if moves => Some(Phase::Preparing),
            Phase::Preparing if moves => Some(Phase::Validating),
            Phase::Validating if moves => Some(Phase::Admitted),
            Phase::Admitted if moves => Some(Phase::Serving),
            Phase::Draining if moves => Some(Phase::Sealed),
            Phase::Sealed if moves => Some(Phase::Retiring),
            Phase::Retiring if moves => Some(Phase::Retired),
            Phase::Suspect if moves => Some(Phase::Lost),
            Phase::Lost | Phase::FailedPreparing if moves => Some(Phase::FailureRetired),
            _ => None,
        }
    }

    fn enter(&mut self, index: usize, phase: Phase) {
        let now = self.input.now;
        enter(&mut self.input.views[index], phase, now);
        if phase == Phase::FailedPreparing {
            let count = self.input.failures.first().map_or(0, |memory| memory.count) + 1;
            self.input.failures = vec![FailureMemory {
                last_at: now,
                ..failed(FailureCause::DeadlineExceeded, count, 0)
            }];
        }
        if phase == Phase::Serving {
            self.input.failures.clear();
        }
    }
}

fn enter(view: &mut InstanceView, phase: Phase, now: Timestamp) {
    view.phase = phase;
    view.member = member_in(phase);
    view.phase_changed_at = now;
    view.deadline = deadline(phase, now);
}

fn deadline(phase: Phase, now: Timestamp) -> Option<Timestamp> {
    let patience = Timings::default().validating_deadline;
    phase
        .is_candidate()
        .then(|| now.saturating_add(patience).unwrap())
}

/// Runs until the plan is converged; panics when it never is. Returns how many instances were made.
fn run(world: &mut World) -> u32 {
    for tick in 0..TICKS {
        let made = plan(&world.input);
        let before = world.serving();
        world.act(&made.action);
        let after = world.serving();
        let floor = world.input.min_serving as usize;
        assert!(
            after >= floor.min(before),
            "{} serve after: {}",
            after,
            made.reason
        );
        if tick >= world.trouble_until
            && made.reason.label() == "Converged"
            && world.input.views.iter().all(is_serving)
        {
            return world.born;
        }
        world.pass(tick);
    }
    panic!(
        "never converged: {}\n{:#?}",
        told(&plan(&world.input)),
        world.input.views
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn l01_every_drifted_instance_is_replaced_whatever_fails_on_the_way(
        seed in any::<u64>(),
        desired in 1_u32..5,
        floor in 1_u32..5,
        surge in 1_u32..3,
        max_repair in 0_u32..3,
        candidate_fails in 0_u32..6,
        crashes in 0_u32..2,
        sticks in 0_u32..60,
        drifted in proptest::collection::vec(any::<bool>(), 5),
        outdated in proptest::collection::vec(any::<bool>(), 5),
    ) {
        let views = (0..desired as usize)
            .map(|n| {
                let view = serving(&format!("o{n}"));
                let view = if drifted[n] { view.drifted(n as u64) } else { view };
                if outdated[n] { view.old_release() } else { view }
            })
            .collect();
        let mut input = pool(desired, floor.min(desired), views);
        input.max_surge = surge;
        input.max_repair = max_repair;
        let mut world = World::new(input, seed, candidate_fails, crashes);
        world.sticks = sticks;
        run(&mut world);
        let views = &world.input.views;
        prop_assert_eq!(views.len(), desired as usize);
        prop_assert!(views.iter().all(|view| view.evidence == EvidenceView::None && view.outdated == Outdated::No));
    }

    #[test]
    fn a_quiet_rollout_makes_exactly_as_many_as_it_replaces(seed in any::<u64>(), desired in 1_u32..6, floor in 1_u32..6, surge in 1_u32..4, drift in any::<bool>()) {
        let views = (0..desired)
            .map(|n| if drift { serving(&format!("o{n}")).drifted(60) } else { serving(&format!("o{n}")).old_release() })
            .collect();
        let mut input = pool(desired, floor.min(desired), views);
        input.max_surge = surge;
        let mut world = World::new(input, seed, 0, 0);
        prop_assert_eq!(run(&mut world), desired);
    }
}

/// Trouble that never ends makes candidates fail for ever: how many are made is bounded by the pauses.
#[test]
fn w07_a_day_of_failing_candidates_makes_only_a_few_an_hour() {
    let views = vec![serving("a").drifted(60), serving("b"), serving("c")];
    let mut world = World::new(pool(3, 2, views), 7, 100, 0);
    world.trouble_until = u32::MAX;
    for tick in 0..(24 * 720) {
        let made = plan(&world.input);
        world.act(&made.action);
        world.pass(tick);
    }
    // 30 s doubling to 30 min: about 7 on the way up, then two an hour.
    assert!(
        (40..=60).contains(&world.born),
        "{} were made in a day",
        world.born
    );
    assert_eq!(world.serving(), 3);
}
