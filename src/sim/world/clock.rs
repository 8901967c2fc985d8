//! Virtual time and seeded randomness behind the operator's own ports.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::clock::{Clock, Entropy};

/// The clock of a runtime whose time is paused: it moves only when every task waits, so a story of hours
/// takes as long as its work, and always happens in the same order.
#[derive(Clone, Copy, Debug)]
pub struct SimClock {
    started: tokio::time::Instant,
    started_at: Timestamp,
}

impl SimClock {
    /// Begins now, and calls that moment `at`. Must be called inside the runtime.
    #[must_use]
    pub fn begin(at: Timestamp) -> Self {
        Self {
            started: tokio::time::Instant::now(),
            started_at: at,
        }
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.started_at
            .saturating_add(self.monotonic())
            .unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Randomness from a seed.
#[derive(Debug)]
pub struct SimEntropy(Mutex<ChaCha8Rng>);

impl SimEntropy {
    /// The same seed gives the same bits.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(ChaCha8Rng::seed_from_u64(seed)))
    }
}

impl Entropy for SimEntropy {
    fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}
