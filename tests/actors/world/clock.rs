//! The clocks of a process: Tokio's, which the tests pause, and one whose wall a test can set back.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use trino_pool_operator::clock::Clock;

/// Tokio's clock, which the tests pause.
pub struct PausedClock {
    start: tokio::time::Instant,
}

impl PausedClock {
    pub fn new() -> Self {
        Self {
            start: tokio::time::Instant::now(),
        }
    }
}

#[async_trait]
impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        let epoch: Timestamp = "2031-01-01T00:00:00Z".parse().unwrap();
        epoch.saturating_add(self.monotonic()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A clock whose wall can be set, as NTP or a person does; its monotonic reading goes on.
pub struct SteppedClock {
    inner: PausedClock,
    back: AtomicI64,
}

impl SteppedClock {
    pub fn new() -> Self {
        Self {
            inner: PausedClock::new(),
            back: AtomicI64::new(0),
        }
    }

    /// From now on the wall shows this many seconds less.
    pub fn step_back(&self, seconds: i64) {
        self.back.store(seconds, Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        self.inner.now() - SignedDuration::from_secs(self.back.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }

    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }
}
