//! Why a tick is due, and for whom.
//!
//! The timer's ticks and hints from watches are for every pool. What a pool asks for itself is for that pool alone:
//! a tick that met the others in the middle of their rounds would make each of them ask for one more, for ever.

use std::collections::BTreeSet;

use crate::pool::ids::PoolId;

/// Everything that one tick serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    timer: bool,
    hint: bool,
    asked_by: BTreeSet<PoolId>,
}

impl Due {
    /// It is time.
    pub(super) fn timer() -> Self {
        Self {
            timer: true,
            ..Self::default()
        }
    }

    /// Something relevant may have changed, wherever.
    pub(super) fn hint() -> Self {
        Self {
            hint: true,
            ..Self::default()
        }
    }

    /// A pool wants to look again.
    pub(super) fn asked_by(pool: PoolId) -> Self {
        Self {
            asked_by: BTreeSet::from([pool]),
            ..Self::default()
        }
    }

    /// One tick for both.
    pub(super) fn join(&mut self, more: Self) {
        self.timer |= more.timer;
        self.hint |= more.hint;
        self.asked_by.extend(more.asked_by);
    }

    /// Whether a pool gets the tick.
    pub(super) fn is_for(&self, pool: &PoolId) -> bool {
        self.timer || self.is_early_for(pool)
    }

    /// Whether something is new to a pool, so that a tick that meets its round must not be lost on it.
    pub(super) fn is_early_for(&self, pool: &PoolId) -> bool {
        self.hint || self.asked_by.contains(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str) -> PoolId {
        PoolId::new(name)
    }

    #[test]
    fn what_one_pool_asks_for_is_not_for_the_others() {
        let mut due = Due::asked_by(pool("trino/a"));
        due.join(Due::asked_by(pool("trino/b")));
        assert!(due.is_for(&pool("trino/a")) && due.is_for(&pool("trino/b")));
        assert!(!due.is_for(&pool("trino/c")));
    }

    #[test]
    fn a_tick_of_the_timer_is_for_all_and_news_to_none_but_who_asked() {
        let mut due = Due::timer();
        due.join(Due::asked_by(pool("trino/a")));
        assert!(due.is_for(&pool("trino/b")) && !due.is_early_for(&pool("trino/b")));
        assert!(due.is_early_for(&pool("trino/a")));
    }

    #[test]
    fn a_hint_is_news_to_all() {
        assert!(Due::hint().is_for(&pool("trino/a")) && Due::hint().is_early_for(&pool("trino/a")));
    }
}
