//! What goes wrong: nothing, a script, the k-th effect, or whatever a seed draws.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Call, Class, Decision, Port};

/// Decides what happens to each call.
pub trait Plan: Send + 'static {
    /// `effects` counts the effects begun so far, this call included if it is one.
    fn decide(&mut self, call: &Call, effects: u64) -> Decision;
}

/// Nothing goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Plan for Nothing {
    fn decide(&mut self, _: &Call, _: u64) -> Decision {
        Decision::Pass
    }
}

/// One rule of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Through which port.
    pub port: Port,
    /// Which method; every one when absent.
    pub method: Option<&'static str>,
    /// Only calls whose arguments contain this.
    pub about: String,
    /// Matching calls that pass before it takes hold.
    pub skip: u32,
    /// Matching calls it takes hold of; `None`: all from then on.
    pub times: Option<u32>,
    /// What happens to them.
    pub decision: Decision,
}

impl Rule {
    /// All calls through a port.
    #[must_use]
    pub const fn all(port: Port, decision: Decision) -> Self {
        Self {
            port,
            method: None,
            about: String::new(),
            skip: 0,
            times: None,
            decision,
        }
    }

    /// The next call of one method.
    #[must_use]
    pub const fn next(port: Port, method: &'static str, decision: Decision) -> Self {
        Self {
            port,
            method: Some(method),
            about: String::new(),
            skip: 0,
            times: Some(1),
            decision,
        }
    }

    /// Only when its arguments contain `text`.
    #[must_use]
    pub fn about(mut self, text: impl Into<String>) -> Self {
        self.about = text.into();
        self
    }

    /// Only after `skip` matching calls went well.
    #[must_use]
    pub const fn after(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }

    /// So many times.
    #[must_use]
    pub const fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    fn take(&mut self, call: &Call) -> bool {
        let matches = self.port == call.port
            && self.method.is_none_or(|method| method == call.method)
            && call.about.contains(&self.about);
        if !matches || self.times == Some(0) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }
}

/// The first rule that takes hold of a call decides.
#[derive(Clone, Debug, Default)]
pub struct Scripted(pub Vec<Rule>);

impl Plan for Scripted {
    fn decide(&mut self, call: &Call, _: u64) -> Decision {
        self.0
            .iter_mut()
            .find_map(|rule| rule.take(call).then_some(rule.decision))
            .unwrap_or(Decision::Pass)
    }
}

/// The process ends at the k-th effect, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashAt {
    /// Which effect.
    pub effect: u64,
    /// After it was carried out, instead of before it was sent.
    pub after: bool,
}

impl Plan for CrashAt {
    fn decide(&mut self, call: &Call, effects: u64) -> Decision {
        if call.class != Class::Effect || effects != self.effect {
            Decision::Pass
        } else if self.after {
            Decision::CrashAfter
        } else {
            Decision::CrashBefore
        }
    }
}

/// How often each fault is drawn, in calls out of 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Lost requests.
    pub lose_request: u32,
    /// Lost responses.
    pub lose_response: u32,
    /// Broken connections.
    pub error: u32,
    /// Late arrivals.
    pub delay: u32,
    /// Duplicates of gateway and cluster calls. The store has no network in between that repeats.
    pub duplicate: u32,
    /// Longest delay.
    pub longest: Duration,
}

impl Rates {
    /// One call in `one_in` meets some fault, each kind as often as the others.
    #[must_use]
    pub const fn one_in(one_in: u32) -> Self {
        let share = 200 / if one_in == 0 { 1 } else { one_in };
        Self {
            lose_request: share,
            lose_response: share,
            error: share,
            delay: share,
            duplicate: share,
            longest: Duration::from_secs(5),
        }
    }
}

/// Faults drawn from a seed.
#[derive(Clone, Debug)]
pub struct Seeded {
    /// Where they are drawn from.
    pub rng: ChaCha8Rng,
    /// How often.
    pub rates: Rates,
}

impl Plan for Seeded {
    fn decide(&mut self, call: &Call, _: u64) -> Decision {
        let rates = self.rates;
        let mut drawn = self.rng.random_range(0..1000_u32);
        let mut falls_in = |share: u32| {
            let within = drawn < share;
            drawn = drawn.saturating_sub(share);
            within
        };
        if falls_in(rates.lose_request) {
            return Decision::LoseRequest;
        }
        if falls_in(rates.lose_response) {
            return Decision::LoseResponse;
        }
        if falls_in(rates.error) {
            return Decision::Error;
        }
        if falls_in(rates.delay) {
            let longest = u64::try_from(rates.longest.as_millis()).unwrap_or(u64::MAX);
            return Decision::Delay(Duration::from_millis(self.rng.random_range(0..=longest)));
        }
        if falls_in(rates.duplicate) && call.port != Port::Store && call.class == Class::Effect {
            return Decision::Duplicate;
        }
        Decision::Pass
    }
}
