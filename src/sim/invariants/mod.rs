//! The safety and progress rules as executable checks over what is, never over what the operator says.
//!
//! Owns the looks, the rules, and the memory of one story ([`Watch`]). World rules are judged after every
//! effect (they need no waiting), rules about rows whenever the store is looked at. Each violation names its
//! rule (S1..S11, L1..L7 of `docs/safety.md`) in words.

mod at_end;
mod look;
mod of_gateway;
mod of_requests;
mod of_store;
mod of_world;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use at_end::{Ending, unfinished};
pub use look::{NodeLook, PoolLook, RowLook, StoreLook, WorldLook};
pub use of_gateway::Patience;
pub use of_world::Floors;

use jiff::SignedDuration;

use crate::pool::desired::PoolMode;
use crate::sim::world::SharedWorld;
use crate::store::port::{Store, StoreError};

/// The world's time stands still between its steps, and the time that rows are written at does not. No order is
/// concluded from less than this.
const GRAIN: SignedDuration = SignedDuration::from_secs(1);

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Which: `S1` .. `S11`, `L1` .. `L7`.
    pub rule: &'static str,
    /// What happened.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

const fn broken(rule: &'static str, text: String) -> Violation {
    Violation { rule, text }
}

/// The world and the store, seen one after the other.
pub type Pair = (WorldLook, StoreLook);

/// Watches one story from its beginning. Every broken rule is kept once.
#[derive(Debug, Default)]
pub struct Watch {
    world: Option<WorldLook>,
    pair: Option<Arc<Pair>>,
    floors: Floors,
    patience: Patience,
    violations: Vec<Violation>,
}

impl Watch {
    /// Judges what changed in the world since the last such look. Call it after every effect and every step.
    pub fn see_world(&mut self, now: WorldLook) {
        let mut found = Vec::new();
        if let Some(before) = &self.world {
            of_world::judge(before, &now, &self.floors, &mut found);
            of_gateway::judge(before, &now, &self.patience, &mut found);
        }
        self.world = Some(now);
        self.keep(found);
    }

    /// Judges what changed in the rows since the last such look. `world` was taken before `store` was read:
    /// whatever justifies an effect was written before it was done, so it is in `store`.
    pub fn see_store(&mut self, world: WorldLook, store: StoreLook) {
        self.floors = store
            .pools
            .values()
            .filter(|pool| pool.mode != PoolMode::Emptying)
            .filter_map(|pool| Some((pool.group.clone(), pool.desired.as_ref()?.min_serving)))
            .collect();
        self.patience = store
            .pools
            .values()
            .filter_map(|pool| {
                let timings = &pool.desired.as_ref()?.timings;
                Some((pool.group.clone(), timings.drain_stuck_after))
            })
            .collect();
        let mut found = Vec::new();
        if let Some(pair) = &self.pair {
            of_store::judge((&pair.0, &pair.1), (&world, &store), &mut found);
            of_requests::judge((&pair.0, &pair.1), (&world, &store), &mut found);
        }
        self.pair = Some(Arc::new((world, store)));
        self.keep(found);
    }

    /// Everything that was broken so far, in order.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The last look at both.
    #[must_use]
    pub fn last(&self) -> Option<Arc<Pair>> {
        self.pair.clone()
    }

    fn keep(&mut self, found: Vec<Violation>) {
        for violation in found {
            if !self.violations.contains(&violation) {
                self.violations.push(violation);
            }
        }
    }
}

/// A watch that the injector's observer and the driver of time share.
#[derive(Clone, Debug, Default)]
pub struct SharedWatch(Arc<Mutex<Watch>>);

impl SharedWatch {
    /// Does something with the watch. Never hold it across an await.
    pub fn with<R>(&self, act: impl FnOnce(&mut Watch) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the world alone.
    pub fn see_world(&self, world: &SharedWorld) {
        let seen = world.peek(WorldLook::take);
        self.with(|watch| watch.see_world(seen));
    }

    /// Looks at the world, then at the store.
    pub async fn see_both(&self, world: &SharedWorld, store: &dyn Store) -> Result<(), StoreError> {
        let seen = world.peek(WorldLook::take);
        let earlier = self.with(|watch| {
            watch.see_world(seen.clone());
            watch.last()
        });
        let rows = StoreLook::take(store, earlier.as_deref().map(|pair| &pair.1), &seen).await?;
        self.with(|watch| watch.see_store(seen, rows));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
