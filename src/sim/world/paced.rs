//! The clock of a world that is shown to people: faster than real time, and never faster than the machine.
//!
//! Deadlines and leases of the operator run by this clock. If it only followed real time, a busy machine would
//! look like a slow network: a stall of half a second is ten seconds of a story at twenty times the speed. So
//! time stops a little after the world's last step and goes on with the next one, and a busy machine tells
//! the same story more slowly.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;

/// How far time may run ahead of the world's last step.
const AHEAD: Duration = Duration::from_millis(600);

/// How long ago the story begins, in hours: what it stamps lies in the past for whoever looks with kubectl.
const HOURS_AGO: i64 = 6;

/// A fast clock that waits for the world. Each step must be announced by [`PacedClock::stepped`], and whoever
/// makes the steps must not sleep by this clock.
#[derive(Debug)]
pub struct PacedClock {
    started_at: Timestamp,
    speed: f64,
    hand: Mutex<Hand>,
}

#[derive(Debug)]
struct Hand {
    /// Time that has passed.
    passed: Duration,
    /// Time that may pass before the next step.
    limit: Duration,
    /// When `passed` was last moved.
    moved: Instant,
}

impl PacedClock {
    /// Begins now: `speed` seconds pass per real second, as long as the world is stepped. `speed` must be
    /// positive and finite.
    #[must_use]
    pub fn at_speed(speed: f64) -> Self {
        Self {
            started_at: Timestamp::now()
                .saturating_sub(SignedDuration::from_hours(HOURS_AGO))
                .unwrap_or(Timestamp::MIN),
            speed,
            hand: Mutex::new(Hand {
                passed: Duration::ZERO,
                limit: AHEAD,
                moved: Instant::now(),
            }),
        }
    }

    /// The world has made a step: time may go on.
    pub fn stepped(&self) {
        let mut hand = self.moved();
        hand.limit = hand.passed.saturating_add(AHEAD);
    }

    /// Waits as long as `duration` takes when nothing is late, whether the world is stepped or not.
    pub async fn wait_really(&self, duration: Duration) {
        tokio::time::sleep(duration.div_f64(self.speed)).await;
    }

    fn moved(&self) -> MutexGuard<'_, Hand> {
        // A hand is whole between any two statements: a panic elsewhere leaves it usable.
        let mut hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let real = now.saturating_duration_since(hand.moved);
        hand.moved = now;
        hand.passed = hand
            .passed
            .saturating_add(real.mul_f64(self.speed))
            .min(hand.limit);
        hand
    }
}

#[async_trait]
impl Clock for PacedClock {
    fn now(&self) -> Timestamp {
        self.started_at
            .saturating_add(self.monotonic())
            .unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.moved().passed
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.monotonic().saturating_add(duration);
        loop {
            let left = until.saturating_sub(self.monotonic());
            if left.is_zero() {
                return;
            }
            // At least a little: a hand that waits for the world must not be watched without a pause.
            let pause = left.div_f64(self.speed).max(Duration::from_millis(1));
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stops_until_the_world_steps() {
        let clock = PacedClock::at_speed(1e9);
        while clock.monotonic() < AHEAD {
            std::hint::spin_loop();
        }
        assert_eq!(clock.monotonic(), AHEAD);
        clock.stepped();
        while clock.monotonic() < 2 * AHEAD {
            std::hint::spin_loop();
        }
        assert_eq!(clock.monotonic(), 2 * AHEAD);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sleeps_waits_for_steps_as_well() {
        let clock = std::sync::Arc::new(PacedClock::at_speed(1e9));
        let sleeper = {
            let clock = clock.clone();
            tokio::spawn(async move {
                clock.sleep(3 * AHEAD).await;
                clock.monotonic()
            })
        };
        let mut steps = 0;
        while !sleeper.is_finished() {
            clock.stepped();
            steps += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(sleeper.await.unwrap() >= 3 * AHEAD);
        assert!(steps >= 2);
    }
}
