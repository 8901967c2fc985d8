//! Time and randomness as ports, so that a whole process can run under virtual time from one seed.
//!
//! Owns nothing but the two traits and their production implementations. Rules in `pool/` never see
//! these traits: they are handed a [`Timestamp`] as data.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

/// Where "now" comes from and how one waits.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time, for what is recorded and shown. Never used to judge a lease.
    fn now(&self) -> Timestamp;

    /// Time since an arbitrary fixed point of this process; never goes backwards. Leases, deadlines
    /// and ages of a running term are judged by this.
    fn monotonic(&self) -> Duration;

    /// Waits for `duration` of this clock's time.
    async fn sleep(&self, duration: Duration);
}

/// Where unpredictable bits come from: instance ids and jitter.
pub trait Entropy: Send + Sync + 'static {
    /// 64 uniformly random bits.
    fn next_u64(&self) -> u64;
}

/// The machine's clock, run `speed` times faster than it passes (1.0 in production; `simulate`
/// uses more so that a story of minutes is shown in seconds).
#[derive(Debug)]
pub struct SystemClock {
    started: std::time::Instant,
    started_at: Timestamp,
    speed: f64,
}

impl SystemClock {
    /// The clock of production: one second per second.
    #[must_use]
    pub fn new() -> Self {
        Self::at_speed(1.0)
    }

    /// A clock on which `speed` seconds pass per real second. `speed` must be positive and finite;
    /// anything else counts as 1.
    #[must_use]
    pub fn at_speed(speed: f64) -> Self {
        let speed = if speed.is_finite() && speed > 0.0 {
            speed
        } else {
            1.0
        };
        Self {
            started: std::time::Instant::now(),
            started_at: Timestamp::now(),
            speed,
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        if (self.speed - 1.0).abs() < f64::EPSILON {
            // Follows corrections of the machine's wall clock, which a long-lived process must see.
            return Timestamp::now();
        }
        self.started_at
            .saturating_add(self.monotonic())
            .unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed().mul_f64(self.speed)
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration.div_f64(self.speed)).await;
    }
}

/// The operating system's randomness.
#[derive(Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn next_u64(&self) -> u64 {
        rand::random()
    }
}
