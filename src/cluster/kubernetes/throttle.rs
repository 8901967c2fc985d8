//! One limiter for all callers of one process, so that an overloaded API server meets one patient client
//! and not a hundred impatient actors (A05).
//!
//! Two things hold requests back: a bucket of our own, and the server's 429. While the server's
//! `Retry-After` runs, calls are answered [`ClusterError::Throttled`] at once instead of queueing up; a
//! 429 without one pauses 1 s, doubling to 30 s, with jitter. The Lease has a lane of its own: neither
//! our load nor a 429 to a listing may cost us leadership.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use tokio::time::{Instant, sleep_until};

use crate::clock::{Clock, Entropy};
use crate::cluster::port::ClusterError;

/// The longest pause that a server's `Retry-After` is granted.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// First and longest pause after a 429 that names none.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_OWN_PAUSE: Duration = Duration::from_secs(30);

/// How many requests this process may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time between two requests when many wait. Zero: no limit.
    pub spacing: Duration,
    /// Requests that may go at once after a quiet time, at least 1.
    pub burst: u32,
}

impl Default for Limits {
    /// 100 requests a second, 200 at once: a hundred instances are read within one tick of 5 s, and a
    /// small API server still serves others.
    fn default() -> Self {
        Self {
            spacing: Duration::from_millis(10),
            burst: 200,
        }
    }
}

impl Limits {
    /// No limit of our own; the server's 429 still counts. For simulated servers, whose time may run
    /// faster than ours.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            spacing: Duration::ZERO,
            burst: 1,
        }
    }
}

/// Which budget a request is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Everything but the Lease.
    Ordinary,
    /// Reads and writes of the Lease: held back only by a 429 to one of themselves.
    Lease,
}

#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    streak: u32,
}

#[derive(Debug, Default)]
struct State {
    /// When the next request would be due if all were spaced out evenly.
    due: Option<Instant>,
    ordinary: Pause,
    lease: Pause,
}

impl State {
    const fn pause(&mut self, lane: Lane) -> &mut Pause {
        match lane {
            Lane::Ordinary => &mut self.ordinary,
            Lane::Lease => &mut self.lease,
        }
    }
}

pub(super) struct Throttle {
    limits: Limits,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    state: Mutex<State>,
}

impl Throttle {
    pub(super) fn new(limits: Limits, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            limits,
            clock,
            entropy,
            state: Mutex::default(),
        }
    }

    /// Waits for its turn, or says that it would not come before `deadline`.
    pub(super) async fn admit(&self, lane: Lane, deadline: Instant) -> Result<(), ClusterError> {
        let turn = self.reserve(lane, deadline)?;
        if let Some(turn) = turn {
            sleep_until(turn).await;
            // The server may have asked for a pause meanwhile.
            self.paused(lane)?;
        }
        Ok(())
    }

    fn reserve(&self, lane: Lane, deadline: Instant) -> Result<Option<Instant>, ClusterError> {
        self.paused(lane)?;
        if lane == Lane::Lease {
            return Ok(None);
        }
        let now = Instant::now();
        let mut state = self.state();
        let due = state.due.map_or(now, |due| due.max(now));
        let slack = self.limits.spacing * self.limits.burst.saturating_sub(1);
        let turn = due.checked_sub(slack).unwrap_or(now);
        if turn > deadline {
            return Err(ClusterError::Throttled { retry_after: None });
        }
        state.due = Some(due + self.limits.spacing);
        Ok((turn > now).then_some(turn))
    }

    fn paused(&self, lane: Lane) -> Result<(), ClusterError> {
        let now = Instant::now();
        match self.state().pause(lane).until {
            Some(until) if until > now => Err(ClusterError::Throttled {
                retry_after: Some(whole_seconds(until - now)),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Notes a 429 and returns the error that its caller gets.
    pub(super) fn refused(&self, lane: Lane, retry_after: Option<&str>) -> ClusterError {
        let asked = retry_after
            .and_then(|header| self.read_retry_after(header))
            .map(|pause| pause.min(LONGEST_PAUSE));
        let mut state = self.state();
        let pause = state.pause(lane);
        let length = asked.unwrap_or_else(|| {
            jittered(
                doubled(FIRST_PAUSE, pause.streak, LONGEST_OWN_PAUSE),
                self.entropy.as_ref(),
            )
        });
        pause.streak = pause.streak.saturating_add(1);
        let until = Instant::now() + length;
        // A shorter wish of a later answer does not shorten an earlier one.
        pause.until = Some(pause.until.map_or(until, |earlier| earlier.max(until)));
        ClusterError::Throttled {
            retry_after: asked.map(whole_seconds),
        }
    }

    /// Notes an answer that was not a 429.
    pub(super) fn answered(&self, lane: Lane) {
        self.state().pause(lane).streak = 0;
    }

    pub(super) fn jittered(&self, length: Duration) -> Duration {
        jittered(length, self.entropy.as_ref())
    }

    /// Seconds, or an HTTP date (RFC 9110 section 10.2.3); anything else counts as absent.
    fn read_retry_after(&self, header: &str) -> Option<Duration> {
        let header = header.trim();
        if let Ok(seconds) = header.parse::<u64>() {
            return Some(Duration::from_secs(seconds));
        }
        // Servers are known to send a wrong day of the week; it carries nothing.
        let parser = DateTimeParser::new().relaxed_weekday(true);
        let at = parser.parse_timestamp(header).ok()?;
        let wait = at.duration_since(self.clock.now());
        Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid after every statement, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `first`, doubled `times` times, at most `longest`.
pub(super) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}

/// Between half of `length` and all of it.
fn jittered(length: Duration, entropy: &dyn Entropy) -> Duration {
    let half = length / 2;
    let spread = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    half + Duration::from_nanos(entropy.next_u64() % spread.saturating_add(1))
}

/// Seconds, rounded up: "in 0 seconds" would mean "now".
fn whole_seconds(length: Duration) -> u64 {
    length.as_secs() + u64::from(length.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    struct At(&'static str);

    #[async_trait]
    impl Clock for At {
        fn now(&self) -> jiff::Timestamp {
            self.0.parse().unwrap()
        }
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
        async fn sleep(&self, _: Duration) {}
    }

    struct Least;

    impl Entropy for Least {
        fn next_u64(&self) -> u64 {
            0
        }
    }

    fn throttle(limits: Limits) -> Throttle {
        Throttle::new(limits, Arc::new(At("2031-10-21T07:27:00Z")), Arc::new(Least))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_is_spaced() {
        let throttle = throttle(Limits {
            spacing: Duration::from_secs(1),
            burst: 3,
        });
        let start = Instant::now();
        for _ in 0..3 {
            throttle.admit(Lane::Ordinary, soon()).await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        throttle.admit(Lane::Ordinary, soon()).await.unwrap();
        throttle.admit(Lane::Ordinary, soon()).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 2);
        // A turn beyond the deadline is refused, and not taken from the others.
        let now = Instant::now();
        assert!(throttle.admit(Lane::Ordinary, now).await.is_err());
        throttle.admit(Lane::Lease, now).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a05_retry_after_holds_everybody_back_but_not_the_lease() {
        let throttle = throttle(Limits::none());
        let error = throttle.refused(Lane::Ordinary, Some("7"));
        assert_eq!(error, ClusterError::Throttled { retry_after: Some(7) });
        throttle.admit(Lane::Lease, soon()).await.unwrap();
        tokio::time::advance(Duration::from_millis(6_500)).await;
        assert_eq!(
            throttle.admit(Lane::Ordinary, soon()).await,
            Err(ClusterError::Throttled { retry_after: Some(1) })
        );
        tokio::time::advance(Duration::from_millis(500)).await;
        throttle.admit(Lane::Ordinary, soon()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a05_every_form_of_retry_after() {
        for (header, seconds) in [
            (Some("7"), Some(7)),
            (Some(" 7 "), Some(7)),
            // A wrong weekday: 21 October 2031 is a Tuesday.
            (Some("Wed, 21 Oct 2031 07:28:00 GMT"), Some(60)),
            (Some("Tue, 21 Oct 2031 07:28:00 GMT"), Some(60)),
            (Some("Tue, 21 Oct 2031 07:00:00 GMT"), Some(0)),
            (Some("99999999999"), Some(300)),
            (Some("abc"), None),
            (Some("-1"), None),
            (None, None),
        ] {
            let error = throttle(Limits::none()).refused(Lane::Ordinary, header);
            assert_eq!(
                error,
                ClusterError::Throttled { retry_after: seconds },
                "{header:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a05_without_a_header_the_pause_doubles_until_an_answer() {
        let throttle = throttle(Limits::none());
        let pause = |throttle: &Throttle| {
            throttle.refused(Lane::Ordinary, None);
            let until = throttle.state().ordinary.until.unwrap();
            until - Instant::now()
        };
        // Jitter at its least: half of 1, 2, 4 … 30 seconds.
        assert_eq!(pause(&throttle), Duration::from_millis(500));
        assert_eq!(pause(&throttle), Duration::from_secs(1));
        assert_eq!(pause(&throttle), Duration::from_secs(2));
        for _ in 0..40 {
            pause(&throttle);
        }
        assert_eq!(pause(&throttle), Duration::from_secs(15));
        throttle.answered(Lane::Ordinary);
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(pause(&throttle), Duration::from_millis(500));
    }

    #[test]
    fn jitter_stays_between_half_and_whole() {
        let entropy = crate::clock::OsEntropy;
        for _ in 0..100 {
            let length = jittered(Duration::from_secs(4), &entropy);
            assert!((Duration::from_secs(2)..=Duration::from_secs(4)).contains(&length));
        }
        assert_eq!(jittered(Duration::ZERO, &entropy), Duration::ZERO);
    }
}
