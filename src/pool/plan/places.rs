//! Who gets the places of the cluster's replacement budget.
//!
//! A place is one pool's: it may have planned replacements under way. Who has one keeps it, however urgent
//! the next is; a free one goes to the most urgent that waits. What is left is lent to pools at rest, so that
//! one which finds something to replace need not ask first.

use std::collections::BTreeSet;

use super::urgency::Urgency;
use crate::pool::ids::PoolId;

/// How a pool stands before the places are given out; the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It replaces, or was given a place and has not told yet what it made of it.
    Holds,
    /// It would replace something.
    Waits(Urgency),
    /// It has nothing to replace, as far as it told.
    Rests,
}

/// How many places there are unless somebody says so: a quarter of the pools, and at least four.
#[must_use]
pub fn default_places(pools: usize) -> usize {
    (pools / 4).max(4)
}

/// Which pools may start a planned replacement. More than `places` only where more hold one already: a
/// replacement under way is never taken back, because it holds a surge instance.
#[must_use]
pub fn permitted<'a>(
    places: usize,
    pools: impl IntoIterator<Item = (&'a PoolId, Standing)>,
) -> BTreeSet<PoolId> {
    let mut queue: Vec<(Standing, &PoolId)> =
        pools.into_iter().map(|(id, standing)| (standing, id)).collect();
    queue.sort_unstable();
    queue
        .into_iter()
        .enumerate()
        .filter(|(place, (standing, _))| *standing == Standing::Holds || *place < places)
        .map(|(_, (_, id))| id.clone())
        .collect()
}
