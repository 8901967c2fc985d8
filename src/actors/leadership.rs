//! One coordination Lease decides which process runs.
//!
//! [`LeaseMachine`] is pure: it is told what was read and what a write came to, on this process's own
//! monotonic clock, and says what to write next. [`drive`] does the reading and writing. Timestamps
//! written by other hosts are compared for change only, never with a clock (fault R06). The Lease
//! fences nothing: a leader that did not notice its end is stopped by the epoch.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::ports::{LeaseSettings, Ports};
use crate::cluster::facts::{LeaseFacts, Lookup};
use crate::cluster::port::{ClusterError, Written};
use crate::pool::ids::ResourceVersion;

/// What happened to this process's leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It leads from now on; counts the terms of this process from 1.
    Gained {
        /// Which term.
        term: u64,
    },
    /// It does not lead any more, and why. Everything it runs must stop now.
    Lost {
        /// One sentence.
        reason: String,
    },
}

/// What the driver is told to do.
#[derive(Debug)]
pub enum Command {
    /// Stop leading and hand the Lease over; then stay out for one more lease duration if `sit_out`.
    Release {
        /// Whether to stay out.
        sit_out: bool,
        /// Why.
        reason: String,
        /// Answered once the Lease was given up, or the attempt failed.
        done: Option<oneshot::Sender<()>>,
    },
}

/// What to do with the Lease now.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Leave it alone.
    Wait,
    /// Write this over that version (`None`: create).
    Put {
        /// The version that must still stand.
        expected: Option<ResourceVersion>,
        /// What to write.
        lease: LeaseFacts,
    },
}

/// The Lease as this process sees it. All durations are readings of its own monotonic clock.
#[derive(Clone, Debug)]
pub struct LeaseMachine {
    identity: String,
    settings: LeaseSettings,
    /// The last version read, and when it was first seen.
    seen: Option<(LeaseFacts, Duration)>,
    /// When the last successful write was *sent*.
    renewed: Option<Duration>,
    barred_until: Option<Duration>,
}

impl LeaseMachine {
    /// A process that holds nothing.
    #[must_use]
    pub fn new(identity: impl Into<String>, settings: LeaseSettings) -> Self {
        Self {
            identity: identity.into(),
            settings,
            seen: None,
            renewed: None,
            barred_until: None,
        }
    }

    /// Whether a Lease as read is held by this process.
    fn is_ours(&self, lease: &LeaseFacts) -> bool {
        lease.holder.as_deref() == Some(self.identity.as_str())
    }

    /// Until when this process may act on the Lease; `None` when it does not hold it.
    #[must_use]
    pub fn holds_until(&self) -> Option<Duration> {
        self.renewed.map(|sent| sent + self.settings.renew_deadline)
    }

    /// Whether it may act at `now`. The last moment is excluded.
    #[must_use]
    pub fn holds(&self, now: Duration) -> bool {
        self.holds_until().is_some_and(|until| now < until)
    }

    /// What to do after the Lease was read as `lookup` at `now`; `wall` is only written down.
    pub fn read(&mut self, lookup: Lookup<LeaseFacts>, now: Duration, wall: Timestamp) -> Intent {
        let Lookup::Found(lease) = lookup else {
            self.seen = None;
            self.renewed = None;
            if self.is_barred(now) {
                return Intent::Wait;
            }
            return Intent::Put {
                expected: None,
                lease: self.claim(None, wall),
            };
        };
        let first_seen = match &self.seen {
            Some((seen, since)) if *seen == lease => *since,
            Some(_) | None => now,
        };
        self.seen = Some((lease.clone(), first_seen));

        let ours = self.is_ours(&lease);
        if !ours {
            // Somebody else wrote it: whatever we thought we held is gone.
            self.renewed = None;
        }
        if self.is_barred(now) {
            return Intent::Wait;
        }
        let patience = lease.duration.max(self.settings.duration);
        let free = lease.holder.is_none() || now.saturating_sub(first_seen) >= patience;
        if ours || free {
            Intent::Put {
                expected: Some(lease.resource_version.clone()),
                lease: self.claim(Some(&lease), wall),
            }
        } else {
            Intent::Wait
        }
    }

    /// What a write that was sent at `sent` came to. A missing answer is no success: the deadline of
    /// the last known one goes on counting.
    pub fn wrote(&mut self, sent: Duration, result: &Result<Written, ClusterError>) {
        match result {
            Ok(Written::Applied) => self.renewed = Some(sent),
            Ok(Written::Conflict(_) | Written::Absent | Written::Denied(_)) | Err(_) => {}
        }
    }

    /// Gives up what it holds, and stays out until `now` + one lease duration if asked.
    pub fn release(&mut self, now: Duration, sit_out: bool) {
        if sit_out {
            self.barred_until = Some(now + self.settings.duration);
        }
        self.renewed = None;
    }

    /// The write that hands over `lease`, as just read; `None` when it is not this process's.
    #[must_use]
    pub fn handing_over(&self, lease: &LeaseFacts) -> Option<Intent> {
        self.is_ours(lease).then(|| Intent::Put {
            expected: Some(lease.resource_version.clone()),
            lease: LeaseFacts {
                holder: None,
                ..lease.clone()
            },
        })
    }

    /// Forgets a deadline that has passed.
    pub fn expire(&mut self) {
        self.renewed = None;
    }

    fn is_barred(&self, now: Duration) -> bool {
        self.barred_until.is_some_and(|until| now < until)
    }

    fn claim(&self, current: Option<&LeaseFacts>, wall: Timestamp) -> LeaseFacts {
        let ours = current.is_some_and(|lease| self.is_ours(lease));
        let transitions = current.map_or(0, |lease| lease.transitions);
        LeaseFacts {
            // Ignored on a write: the version travels as the precondition.
            resource_version: current.map_or_else(
                || ResourceVersion::new(""),
                |lease| lease.resource_version.clone(),
            ),
            holder: Some(self.identity.clone()),
            duration: self.settings.duration,
            renewed_at: Some(wall),
            transitions: if ours {
                transitions
            } else {
                transitions.saturating_add(u32::from(current.is_some()))
            },
        }
    }
}

/// Reads and writes the Lease until `commands` closes, and says what happened through `tell`. Calls
/// of its own are bounded, so a dead API server cannot keep it from noticing its own deadline.
pub async fn drive(
    ports: Ports,
    identity: String,
    settings: LeaseSettings,
    mut commands: mpsc::Receiver<Command>,
    tell: impl Fn(Leadership) + Send,
) {
    let mut driver = Driver {
        machine: LeaseMachine::new(identity, settings.clone()),
        ports,
        settings,
        term: 0,
        leading: false,
        followed: None,
        tell,
    };
    loop {
        driver.round().await;
        let pause = driver.pause();
        let clock = driver.ports.clock.clone();
        let command = tokio::select! {
            biased;
            command = commands.recv() => command,
            () = clock.sleep(pause) => {
                driver.check_deadline();
                continue;
            }
        };
        let Some(Command::Release {
            sit_out,
            reason,
            done,
        }) = command
        else {
            return;
        };
        driver.hand_over(sit_out, reason).await;
        if let Some(done) = done {
            // The one who asked may be gone; the Lease is released all the same.
            let _ = done.send(());
        }
        if !sit_out {
            // The process ends: it must not take back what it just handed over.
            return;
        }
    }
}

struct Driver<T> {
    machine: LeaseMachine,
    ports: Ports,
    settings: LeaseSettings,
    term: u64,
    leading: bool,
    /// Who was last said to lead instead.
    followed: Option<String>,
    tell: T,
}

impl<T: Fn(Leadership) + Send> Driver<T> {
    fn now(&self) -> Duration {
        self.ports.clock.monotonic()
    }

    /// One read, and the write it asks for.
    async fn round(&mut self) {
        let lookup = {
            let call = self
                .ports
                .cluster
                .lease(&self.settings.namespace, &self.settings.name);
            self.ports.within(self.call_limit(), call).await
        };
        let lookup = match lookup {
            Some(Ok(lookup)) => lookup,
            Some(Err(error)) => {
                tracing::warn!(error = %error, "the leadership Lease cannot be read");
                return self.check_deadline();
            }
            None => {
                tracing::warn!("reading the leadership Lease took too long");
                return self.check_deadline();
            }
        };
        self.say_who_leads(&lookup);
        let (now, wall) = (self.now(), self.ports.clock.now());
        match self.machine.read(lookup, now, wall) {
            Intent::Wait => {}
            Intent::Put { expected, lease } => self.put(expected, lease).await,
        }
        self.check_deadline();
    }

    /// A process that stands by is silent otherwise, and whoever looks at it wants to know whom it waits for.
    fn say_who_leads(&mut self, lookup: &Lookup<LeaseFacts>) {
        let other = match lookup {
            Lookup::Found(lease) if !self.machine.is_ours(lease) => lease.holder.clone(),
            Lookup::Found(_) | Lookup::Absent => None,
        };
        if let Some(holder) = other.as_deref().filter(|_| other != self.followed) {
            tracing::info!(holder, "standing by: another process holds the leadership Lease");
        }
        self.followed = other;
    }

    async fn put(&mut self, expected: Option<ResourceVersion>, lease: LeaseFacts) {
        // Counted from before the send: a late answer must not lengthen the term.
        let sent = self.now();
        let result = {
            let call = self.ports.cluster.put_lease(
                &self.settings.namespace,
                &self.settings.name,
                expected.as_ref(),
                &lease,
            );
            self.ports.within(self.call_limit(), call).await
        };
        if let Some(result) = result {
            if let Err(error) = &result {
                tracing::warn!(error = %error, "the leadership Lease was not written");
            }
            self.machine.wrote(sent, &result);
        } else {
            tracing::warn!("writing the leadership Lease took too long");
        }
    }

    fn check_deadline(&mut self) {
        let holds = self.machine.holds(self.now());
        if holds && !self.leading {
            self.term = self.term.saturating_add(1);
            self.leading = true;
            (self.tell)(Leadership::Gained { term: self.term });
        } else if !holds && self.leading {
            self.machine.expire();
            self.leading = false;
            (self.tell)(Leadership::Lost {
                reason: "the Lease was not renewed in time, or is held by another process".to_owned(),
            });
        }
    }

    async fn hand_over(&mut self, sit_out: bool, reason: String) {
        self.machine.release(self.now(), sit_out);
        if self.leading {
            self.leading = false;
            (self.tell)(Leadership::Lost { reason });
        }
        let handover = async {
            let (namespace, name) = (&self.settings.namespace, &self.settings.name);
            let Lookup::Found(lease) = self.ports.cluster.lease(namespace, name).await? else {
                return Ok(None);
            };
            let Some(Intent::Put { expected, lease }) = self.machine.handing_over(&lease) else {
                return Ok(None);
            };
            let call = self
                .ports
                .cluster
                .put_lease(namespace, name, expected.as_ref(), &lease);
            call.await.map(Some)
        };
        let limit = self.settings.renew_deadline / 2;
        let result: Option<Result<Option<Written>, ClusterError>> = self.ports.within(limit, handover).await;
        match result {
            Some(Ok(None | Some(Written::Applied))) => {}
            Some(Ok(Some(other))) => tracing::info!(outcome = ?other, "the Lease had moved on"),
            Some(Err(error)) => tracing::warn!(error = %error, "the Lease was not handed over; it expires"),
            None => tracing::warn!("handing the Lease over took too long; it expires"),
        }
    }

    /// No single call may outlast what is left of the term, nor half of it.
    fn call_limit(&self) -> Duration {
        let half = self.settings.renew_deadline / 2;
        match self.machine.holds_until() {
            Some(until) if self.leading => until.saturating_sub(self.now()).min(half),
            Some(_) | None => half,
        }
    }

    fn pause(&self) -> Duration {
        match self.machine.holds_until() {
            Some(until) if self.leading => until.saturating_sub(self.now()).min(self.settings.retry),
            Some(_) | None => self.settings.retry,
        }
    }
}

#[cfg(test)]
#[path = "leadership_tests.rs"]
mod tests;
