//! This process's own fence: raising the epoch over a request whose answer was lost (S9), and telling that
//! fence from another leader's (S8).
//!
//! What was sent under which epoch stands with the open steps. An authority whose answer was lost is read back, never
//! taken once more on suspicion: an owner is one actor's alone, so whatever the store holds for it is ours.
//! Never decides that a step is over; the rules do, from what [`Brain::step_fenced`] says.

use std::time::Duration;

use super::Brain;
use super::children::Live;
use super::open_steps::OpenStep;
use crate::actors::faults;
use crate::pool::desired::{FreezeReason, PoolMode};
use crate::pool::ids::{Epoch, InstanceId};
use crate::pool::observation::Reading;
use crate::store::port::{Authority, PoolRow, StoreError};

impl Brain {
    /// Takes authority above everything seen. One that was asked for before, and whose answer was lost, is
    /// found again instead, so that attempts do not use epochs up.
    pub(super) async fn take_authority(&mut self, above: Epoch) -> Result<Authority, StoreError> {
        if self.acquire_unanswered
            && let Some(own) = self.own_above(&self.stored_pool().await?, above)
        {
            return Ok(own);
        }
        self.acquire(above).await
    }

    /// One attempt, remembered when its answer is lost.
    async fn acquire(&mut self, above: Epoch) -> Result<Authority, StoreError> {
        let store = self.ports.store.clone();
        let taken = self.call(store.acquire(&self.pool, &self.owner, above)).await;
        self.acquire_unanswered |= matches!(taken, Err(StoreError::Unavailable(_)));
        taken
    }

    async fn stored_pool(&self) -> Result<PoolRow, StoreError> {
        let store = self.ports.store.clone();
        Ok(self.call(store.load(&self.pool)).await?.pool)
    }

    /// This actor's authority as the store holds it, if it is above an epoch.
    fn own_above(&self, row: &PoolRow, above: Epoch) -> Option<Authority> {
        (row.owner == self.owner && row.epoch > above).then(|| Authority {
            pool: self.pool.clone(),
            owner: self.owner.clone(),
            epoch: row.epoch,
        })
    }

    /// Raises this process's own epoch, so that a request whose answer was lost can never be applied any
    /// more. At most once per round.
    pub(super) async fn raise_epoch(&mut self) {
        let Some(tick) = self.order.as_ref().map(|order| order.tick) else {
            return;
        };
        // The gateway could not be told (S11).
        let mute = self.mode == PoolMode::Frozen(FreezeReason::StoreMismatch);
        if self.raised_in == Some(tick) || mute || !self.may_act() {
            return;
        }
        self.raised_in = Some(tick);
        let held = self.epoch();
        let row = match self.stored_pool().await {
            Ok(row) => row,
            Err(error) => return self.note("authority", Some(faults::of_store("authority", &error))),
        };
        let ours = row.owner == self.owner && row.epoch >= held;
        if !ours {
            // A superseded leader never raises itself above its successor (S8).
            return self.end_term("store");
        }
        let raised = match self.own_above(&row, held) {
            // An earlier raise, whose answer was lost.
            Some(own) => Ok(own),
            None => self.acquire(held).await,
        };
        match raised {
            Ok(authority) => {
                tracing::info!(pool = %self.pool, epoch = authority.epoch.get(), "epoch raised to fence a request without an answer");
                // Anything but the very next one: somebody was in between, or an earlier raise landed late.
                self.must_reload |= authority.epoch != held.next();
                self.authority = Some(authority);
                self.note("authority", None);
                self.configure();
            }
            Err(error) => self.note("authority", Some(faults::of_store("acquire", &error))),
        }
    }

    /// After the store refused the fence: whether it did so for a raise of our own that landed unanswered.
    /// Then that epoch is held from now on, and the rows are read again before anything is decided.
    pub(super) async fn overtook_itself(&mut self) -> bool {
        let Ok(row) = self.stored_pool().await else {
            return false;
        };
        let Some(own) = self.own_above(&row, self.epoch()) else {
            return false;
        };
        tracing::info!(pool = %self.pool, epoch = own.epoch.get(), "a raise of the epoch had landed without an answer");
        self.authority = Some(own);
        self.must_reload = true;
        self.hurry();
        true
    }

    /// Whether an open step can no longer be applied (S9), and what was read of its member says so.
    pub(super) fn step_fenced(&self, live: &Live, open: &OpenStep) -> bool {
        let read = live.seen.as_ref();
        let member_read = read.is_some_and(|seen| seen.member != Reading::NotAsked);
        let fence = Fence {
            held: self.epoch(),
            accepted_at: self
                .gateway
                .confirmed_at
                .filter(|_| self.gateway.accepts(self.epoch())),
        };
        fence.is_past(open.last_sent(), live.looked_at.filter(|_| member_read))
    }

    /// Whether a step of this instance is open that only a raise can fence.
    pub(super) fn wants_a_fence(&self, id: &InstanceId) -> bool {
        self.open_steps
            .of(id)
            .any(|open| open.last_sent() == Some(self.epoch()))
    }
}

/// The epoch in force, and since when the gateway refuses every older one. By the monotonic clock: the wall's may be
/// set back.
#[derive(Clone, Copy, Debug)]
struct Fence {
    held: Epoch,
    /// `None` while the gateway has not accepted it.
    accepted_at: Option<Duration>,
}

impl Fence {
    /// Whether a request that was last sent under `sent` can have left no trace but one that a look begun
    /// at `looked_at` shows.
    fn is_past(self, sent: Option<Epoch>, looked_at: Option<Duration>) -> bool {
        let older = sent.is_none_or(|sent| sent < self.held);
        // At the same instant, it may have been read first.
        let read_after = match (self.accepted_at, looked_at) {
            (Some(accepted), Some(looked)) => looked > accepted,
            (None, _) | (_, None) => false,
        };
        older && read_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn s9_a_fence_needs_an_older_request_an_accepted_epoch_and_a_look_after_that() {
        let epoch = |number| Some(Epoch::new(number));
        let fence = Fence {
            held: Epoch::new(8),
            accepted_at: Some(second(60)),
        };
        assert!(fence.is_past(epoch(7), Some(second(61))));
        assert!(
            fence.is_past(None, Some(second(61))),
            "sent by an earlier actor, if at all"
        );
        assert!(
            !fence.is_past(epoch(8), Some(second(61))),
            "it may still be applied"
        );
        assert!(
            !fence.is_past(epoch(7), Some(second(60))),
            "not certainly read after it"
        );
        assert!(
            !fence.is_past(epoch(7), Some(second(59))),
            "it may have landed in between"
        );
        assert!(!fence.is_past(epoch(7), None), "not read");
        let told = Fence {
            accepted_at: None,
            ..fence
        };
        assert!(
            !told.is_past(epoch(7), Some(second(61))),
            "raised, and not accepted"
        );
    }
}
