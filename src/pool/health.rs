//! When a member counts as failing: sustained bad readings, never a single one.
//!
//! Owns one reading's meaning, how readings add up, and when they may be believed at all. Suspicion here is
//! local and reversible; telling the gateway is a step of its own, which this module only permits. In
//! memory, per instance and term: a successor starts from nothing, and so suspects later, not sooner.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::instance::InstanceRow;
use super::observation::{Observation, Reading};

/// One reading of a member's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The registered process answers, in its registered pod, which is ready.
    Good,
    /// It does not: says what.
    Bad(String),
    /// Not known: neither good nor bad.
    Unknown(String),
}

/// Reads the health of a registered member.
///
/// No answer of the coordinator is bad, and so is a pod that somebody ends; no answer of Kubernetes says
/// nothing about the member.
#[must_use]
pub fn read(row: &InstanceRow, observation: &Observation) -> Health {
    let Some(process) = &row.process else {
        return Health::Unknown("the row records no process".to_owned());
    };
    let owned = match &observation.owned {
        Reading::Seen(owned) => owned,
        Reading::NotAsked => return Health::Unknown("its pods were not read".to_owned()),
        Reading::Unknown(fault) => return Health::Unknown(fault.detail.clone()),
    };
    match owned.coordinators.iter().find(|pod| pod.uid == process.pod) {
        None => return Health::Bad("its registered pod is not there".to_owned()),
        Some(pod) if pod.finished => return Health::Bad(format!("pod {} has ended", pod.name)),
        Some(_) => {}
    }
    let ending = owned
        .coordinators
        .iter()
        .chain(&owned.workers)
        .find(|pod| pod.terminating && !pod.finished);
    if let Some(pod) = ending {
        return Health::Bad(format!("pod {} is being terminated from outside", pod.name));
    }
    if owned.coordinator_ready.unwrap_or(0) == 0 {
        return Health::Bad("its coordinator Deployment is not ready".to_owned());
    }
    match &observation.info {
        Reading::NotAsked => Health::Unknown("its coordinator was not probed".to_owned()),
        Reading::Unknown(fault) => Health::Bad(format!("its coordinator does not answer: {}", fault.detail)),
        Reading::Seen(info) => match info.boot() {
            None => Health::Bad("its coordinator does not say which process it is".to_owned()),
            Some(boot) if boot != process.boot => Health::Bad(format!(
                "another process answers: {boot} instead of {}",
                process.boot
            )),
            Some(_) if !info.ready => Health::Bad("its coordinator says that it still starts".to_owned()),
            Some(_) => Health::Good,
        },
    }
}

/// Whether the registered process itself answers and is ready, whatever Kubernetes says or does not say.
#[must_use]
pub fn answers(row: &InstanceRow, observation: &Observation) -> bool {
    let (Some(process), Some(info)) = (&row.process, observation.info.seen()) else {
        return false;
    };
    info.ready && info.boot().as_ref() == Some(&process.boot)
}

/// The last reading of a tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Good,
    Bad,
    Unknown,
}

/// How long one member has been failing without interruption.
///
/// Only time between two bad readings that follow each other counts, at most [`HealthTracker::MAX_GAP`]
/// of it at once: neither silence nor a process that slept makes a member look worse.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HealthTracker {
    failing: Option<Duration>,
    well: bool,
    last: Option<(Last, Timestamp)>,
}

impl HealthTracker {
    /// The most that may count between two readings; several ticks of 5 s.
    pub const MAX_GAP: Duration = Duration::from_secs(30);

    /// Takes one reading; answers like [`HealthTracker::failing_for`].
    pub fn push(&mut self, reading: &Health, now: Timestamp) -> Option<Duration> {
        let last = match reading {
            Health::Good => {
                self.failing = None;
                self.well = true;
                Last::Good
            }
            Health::Bad(_) => {
                self.well = false;
                let passed = match self.last {
                    Some((Last::Bad, then)) => gap(then, now),
                    Some((Last::Good | Last::Unknown, _)) | None => Duration::ZERO,
                };
                self.failing = Some(self.failing.unwrap_or_default().saturating_add(passed));
                Last::Bad
            }
            Health::Unknown(_) => Last::Unknown,
        };
        self.last = Some((last, now));
        self.failing
    }

    /// The process itself answered as the registered one, while the rest of its health was not known: a
    /// successor that cannot read pods counts on it all the same (L2). It ends no failing streak.
    pub const fn hear(&mut self) {
        self.well |= self.failing.is_none();
    }

    /// Whether the last known reading was good; not before there is one.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.well
    }

    /// Time covered by consecutive bad readings; `None` when the last known reading was good.
    #[must_use]
    pub const fn failing_for(&self) -> Option<Duration> {
        self.failing
    }
}

fn gap(then: Timestamp, now: Timestamp) -> Duration {
    let passed: SignedDuration = now.duration_since(then);
    Duration::try_from(passed)
        .unwrap_or_default()
        .min(HealthTracker::MAX_GAP)
}

/// How many members fail among those probed in the same window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Failing {
    /// Members whose tracker says failing.
    pub failing: usize,
    /// Members probed, and those of which the last thing known is that they fail.
    pub probed: usize,
}

/// Whether suspicion may be told to the gateway (S6): not while more than one member of the pool, or a
/// third of all probed coordinators, fail at once. Then the fault is more likely ours.
///
/// One failing member alone is believed, even if it is a third of a small fleet.
#[must_use]
pub const fn probes_trusted(pool: Failing, cluster: Failing) -> bool {
    let third = cluster.failing > 1 && cluster.failing.saturating_mul(3) >= cluster.probed;
    pool.failing <= 1 && !third
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::observation::Fault;
    use crate::pool::phase::Phase;
    use crate::pool::testing::{self, at, observation, row};

    fn bad() -> Health {
        Health::Bad("x".into())
    }

    fn unknown() -> Health {
        Health::Unknown("x".into())
    }

    #[test]
    fn w02_g03_one_bad_reading_suspects_nothing() {
        let mut tracker = HealthTracker::default();
        for second in 0..3600 {
            tracker.push(&Health::Good, at(second));
        }
        assert_eq!(tracker.push(&bad(), at(3600)), Some(Duration::ZERO));
        assert_eq!(tracker.push(&Health::Good, at(3605)), None);
        assert_eq!(
            tracker.push(&bad(), at(3610)),
            Some(Duration::ZERO),
            "a flap starts again"
        );
    }

    #[test]
    fn sustained_bad_readings_add_up() {
        let mut tracker = HealthTracker::default();
        for tick in 0..=24 {
            tracker.push(&bad(), at(tick * 5));
        }
        assert_eq!(tracker.failing_for(), Some(Duration::from_mins(2)));
    }

    #[test]
    fn unknown_is_neither_good_nor_bad() {
        let mut tracker = HealthTracker::default();
        tracker.push(&bad(), at(0));
        tracker.push(&bad(), at(5));
        tracker.push(&unknown(), at(10));
        tracker.push(&unknown(), at(400));
        assert_eq!(tracker.failing_for(), Some(Duration::from_secs(5)));
        assert_eq!(tracker.push(&bad(), at(405)), Some(Duration::from_secs(5)));
        assert_eq!(tracker.push(&bad(), at(410)), Some(Duration::from_secs(10)));
        let mut silent = HealthTracker::default();
        assert_eq!(silent.push(&unknown(), at(0)), None);
    }

    #[test]
    fn s5_a_member_never_read_is_not_known_to_be_well_and_one_bad_reading_is_enough() {
        let mut tracker = HealthTracker::default();
        assert!(!tracker.is_well(), "a successor knows nothing yet");
        tracker.push(&unknown(), at(0));
        assert!(!tracker.is_well(), "and learns nothing from silence");
        tracker.push(&Health::Good, at(5));
        tracker.push(&unknown(), at(10));
        assert!(tracker.is_well(), "the last known reading was good");
        tracker.push(&bad(), at(15));
        tracker.push(&unknown(), at(20));
        assert!(!tracker.is_well(), "the streak is zero seconds long");
        tracker.push(&Health::Good, at(25));
        assert!(tracker.is_well());
    }

    #[test]
    fn l2_a_successor_that_cannot_read_pods_counts_on_a_process_that_answers_by_itself() {
        let row = row(Phase::Serving);
        let mut seen = observation(&row);
        seen.owned = testing::unknown();
        assert!(matches!(read(&row, &seen), Health::Unknown(_)));
        assert!(answers(&row, &seen));
        let mut tracker = HealthTracker::default();
        tracker.hear();
        assert!(tracker.is_well());
        tracker.push(&bad(), at(0));
        tracker.hear();
        assert!(!tracker.is_well(), "it ends no streak");
        if let Reading::Seen(info) = &mut seen.info {
            info.coordinator = Some("fffff".into());
        }
        assert!(!answers(&row, &seen), "another process");
        seen.info = testing::unknown();
        assert!(!answers(&row, &seen), "silence");
    }

    #[test]
    fn a_process_that_slept_or_a_clock_that_jumped_proves_nothing() {
        let mut tracker = HealthTracker::default();
        tracker.push(&bad(), at(0));
        assert_eq!(tracker.push(&bad(), at(7200)), Some(HealthTracker::MAX_GAP));
        assert_eq!(tracker.push(&bad(), at(10)), Some(HealthTracker::MAX_GAP));
    }

    #[test]
    fn a_member_is_good_only_as_the_registered_process() {
        let row = row(Phase::Serving);
        assert_eq!(read(&row, &observation(&row)), Health::Good);
        let bends: testing::Bends<Observation> = vec![
            ("T05 another boot under the same pod", |seen| {
                if let Reading::Seen(info) = &mut seen.info {
                    info.coordinator = Some("fffff".into());
                }
            }),
            ("T04 still starting", |seen| {
                if let Reading::Seen(info) = &mut seen.info {
                    info.ready = false;
                }
            }),
            ("no answer", |seen| {
                seen.info = Reading::Unknown(Fault {
                    label: "Unreachable",
                    subject: "x".into(),
                    detail: "refused".into(),
                });
            }),
            ("another pod", |seen| {
                if let Reading::Seen(owned) = &mut seen.owned {
                    owned.coordinators[0].uid = "other".into();
                }
            }),
            ("w03 its Deployment was deleted", |seen| {
                if let Reading::Seen(owned) = &mut seen.owned {
                    owned.coordinator_ready = None;
                }
            }),
            ("K15 a worker is terminated from outside", |seen| {
                if let Reading::Seen(owned) = &mut seen.owned {
                    owned.workers[0].terminating = true;
                }
            }),
        ];
        for (what, bend) in bends {
            let mut seen = observation(&row);
            bend(&mut seen);
            assert!(matches!(read(&row, &seen), Health::Bad(_)), "{what}");
        }
    }

    #[test]
    fn silence_of_kubernetes_says_nothing_about_the_member() {
        let row = row(Phase::Serving);
        let mut seen = observation(&row);
        seen.owned = Reading::Unknown(Fault {
            label: "KubernetesUnreachable",
            subject: "pods".into(),
            detail: "no answer".into(),
        });
        assert!(matches!(read(&row, &seen), Health::Unknown(_)));
        assert!(matches!(
            read(&row, &Observation::blank(at(0))),
            Health::Unknown(_)
        ));
    }

    #[test]
    fn s6_too_many_failing_at_once_is_our_own_fault() {
        let count = |failing, probed| Failing { failing, probed };
        assert!(probes_trusted(count(1, 3), count(1, 3)), "one of three, alone");
        assert!(
            !probes_trusted(count(2, 5), count(2, 50)),
            "two members of the pool"
        );
        assert!(!probes_trusted(count(1, 3), count(10, 30)), "a third of all");
        assert!(
            probes_trusted(count(1, 3), count(9, 30)),
            "less than a third of all"
        );
        assert!(probes_trusted(count(0, 0), count(0, 0)));
    }
}
