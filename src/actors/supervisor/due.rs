//! Why a tick is due, and for whom.
//!
//! The timer's ticks are for every pool, and so is news that may concern any. What is news to one pool, a hint
//! that names it or what it asks for itself, is for that pool alone: a tick that met the others in the middle of
//! their rounds would make each of them ask for one more, for ever.

use std::collections::BTreeSet;

use crate::cluster::port::Hint;
use crate::pool::ids::PoolId;

/// Everything that one tick serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    timer: bool,
    news_for_all: bool,
    news_for: BTreeSet<PoolId>,
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
    pub(super) fn news_for_all() -> Self {
        Self {
            news_for_all: true,
            ..Self::default()
        }
    }

    /// Something of this pool may have changed, or it wants to look again.
    pub(super) fn news_for(pool: PoolId) -> Self {
        Self {
            news_for: BTreeSet::from([pool]),
            ..Self::default()
        }
    }

    /// What a watch hints at.
    pub(super) fn hinted(hint: Hint) -> Self {
        match hint {
            Hint::Pool(Some(pool)) | Hint::Pod(Some(pool)) => Self::news_for(pool),
            Hint::Pool(None) | Hint::Pod(None) | Hint::Claim => Self::news_for_all(),
        }
    }

    /// One tick for both.
    pub(super) fn join(&mut self, more: Self) {
        self.timer |= more.timer;
        self.news_for_all |= more.news_for_all;
        self.news_for.extend(more.news_for);
    }

    /// Whether the timer asks for it, alone or beside others.
    pub(super) const fn is_regular(&self) -> bool {
        self.timer
    }

    /// Whether a pool gets the tick.
    pub(super) fn is_for(&self, pool: &PoolId) -> bool {
        self.timer || self.is_early_for(pool)
    }

    /// Whether something is new to a pool, so that a tick that meets its round must not be lost on it.
    pub(super) fn is_early_for(&self, pool: &PoolId) -> bool {
        self.news_for_all || self.news_for.contains(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str) -> PoolId {
        PoolId::new(name)
    }

    #[test]
    fn what_is_news_to_one_pool_is_not_for_the_others() {
        let mut due = Due::news_for(pool("trino/a"));
        due.join(Due::news_for(pool("trino/b")));
        assert!(due.is_for(&pool("trino/a")) && due.is_for(&pool("trino/b")));
        assert!(!due.is_for(&pool("trino/c")));
    }

    #[test]
    fn a_tick_of_the_timer_is_for_all_and_news_only_to_whom_it_is() {
        let mut due = Due::timer();
        due.join(Due::news_for(pool("trino/a")));
        assert!(due.is_for(&pool("trino/b")) && !due.is_early_for(&pool("trino/b")));
        assert!(due.is_early_for(&pool("trino/a")));
    }

    #[test]
    fn a_hint_is_news_to_the_pool_that_it_names() {
        for hint in [Hint::Pod, Hint::Pool] {
            let due = Due::hinted(hint(Some(pool("trino/a"))));
            assert!(due.is_for(&pool("trino/a")) && due.is_early_for(&pool("trino/a")));
            assert!(!due.is_for(&pool("trino/b")) && !due.is_for(&pool("adhoc/a")));
        }
    }

    #[test]
    fn a_hint_that_names_no_pool_is_news_to_all() {
        for hint in [Hint::Pod(None), Hint::Pool(None), Hint::Claim] {
            let due = Due::hinted(hint);
            assert!(due.is_for(&pool("trino/a")) && due.is_early_for(&pool("trino/a")));
        }
    }
}
