//! What an inspection brought: evidence is durable before anything else happens, then nodes are
//! cordoned, and only on the strength of a durable row and a clean inspection.

use std::sync::Arc;
use std::time::Duration;

use super::Brain;
use super::children::Job;
use crate::actors::faults;
use crate::actors::messages::{CordonOutcome, Cordoned, Inspected};
use crate::actors::status::Probes;
use crate::pool::edited::edited;
use crate::pool::health::{self, Failing, Health};
use crate::pool::ids::InstanceId;
use crate::pool::observation::{Fault, Reading};
use crate::pool::phase::Phase;
use crate::pool::{cordon, evidence};
use crate::store::port::{Committed, Write};
use crate::telemetry::events::{CordonAttempted, ReplacementAccepted};

impl Brain {
    pub(super) async fn inspected(&mut self, inspected: Inspected) {
        let Inspected {
            ticket,
            instance,
            observation,
            faults,
            nodes,
        } = inspected;
        let Some(asked) = self.take_outstanding(&instance, ticket, "Inspected") else {
            return;
        };
        let Some(live) = self.live.get_mut(&instance) else {
            return;
        };
        if observation.placement != Reading::NotAsked {
            let denied = faults
                .iter()
                .find(|fault| fault.label == faults::PROTECTION_DENIED);
            live.protection_fault = denied.cloned();
            live.nodes = nodes;
        }
        if let (Reading::Seen(member), Some(known)) = (&observation.member, &live.row.member) {
            let held = member.as_ref().map(|member| &member.incarnation);
            live.unregistered = held != Some(&known.incarnation);
        }
        live.seen = Some(Arc::new(observation));
        live.looked_at = Some(asked.asked_at);
        live.faults.extend(faults);
        self.inspection_ended(&instance).await;
    }

    /// Records what was seen of an instance's nodes and health. Positive evidence is kept whatever else
    /// went wrong in the same look (L3).
    pub(super) async fn absorb(&mut self, id: &InstanceId) {
        let now = self.ports.clock.now();
        let Some(live) = self.live.get_mut(id) else { return };
        let Some(seen) = live.seen.clone() else { return };
        live.note_health(&seen, now);
        if let Some(owned) = seen.owned.seen() {
            live.edited = edited(live.row.receipt.as_ref(), owned, seen.at);
        }
        if let Some(Some(obligations)) = seen.obligations.seen() {
            live.outstanding_work = Some(obligations.outstanding());
        }
        let report = match &seen.placement {
            Reading::Seen(report) => report,
            Reading::Unknown(fault) => {
                live.faults.push(fault.clone());
                return;
            }
            Reading::NotAsked => return,
        };
        live.placement = Some(report.clone());
        // Protection and the rest of the look. What placement found is weighed by the report itself: a node that
        // the policy merely dislikes must not keep a leaving one schedulable (K02).
        let protected = live.faults.is_empty();
        live.faults.extend(report.faults.iter().cloned());
        let writes = evidence::records(&live.row, report, now);
        if self.authority.is_none() || self.ended || self.store_fault.is_some() {
            // Nothing can be recorded now; the next round looks again.
            return;
        }
        if !writes.is_empty() {
            let Some(results) = self.commit(writes.clone()).await else {
                // Not durable: nothing may rest on it (R04).
                return;
            };
            self.tell_accepted(id, &writes, &results);
        }
        // Only a look without any fault proves enough for a write on a shared node (L3).
        if report.clean && protected && self.may_act() {
            let orders = self
                .live
                .get(id)
                .map(|live| cordon::to_cordon(&live.row, report))
                .unwrap_or_default();
            if let (true, Some(live)) = (orders.is_empty(), self.live.get_mut(id)) {
                // Nothing is left to cordon, whatever was refused before.
                live.cordon_fault = None;
            }
            for order in orders {
                self.ask(id, Job::Cordon(Box::new(order))).await;
            }
        }
    }

    fn tell_accepted(&mut self, id: &InstanceId, writes: &[Write], results: &[Committed]) {
        for (write, result) in writes.iter().zip(results) {
            if let (Write::RecordEvidence { evidence, .. }, Committed::Done) = (write, result) {
                ReplacementAccepted {
                    pool: &self.pool,
                    instance: id,
                    evidence,
                }
                .emit();
                let message = format!(
                    "instance {id} will be replaced: node {} ({}) is {}",
                    evidence.node_name,
                    evidence.nodeclaim_name,
                    evidence.reason.as_str()
                );
                self.announce(false, "ReplacementAccepted", message);
            }
        }
    }

    pub(super) async fn cordoned(&mut self, cordoned: Cordoned) {
        let Cordoned {
            ticket,
            instance,
            order,
            outcome,
        } = cordoned;
        if self.take_outstanding(&instance, ticket, "Cordoned").is_none() {
            return;
        }
        let (detail, fault) = match &outcome {
            CordonOutcome::Applied => ("", None),
            CordonOutcome::LeftAlone(why) | CordonOutcome::Conflict(why) => (why.as_str(), None),
            CordonOutcome::Denied(why) => {
                let fault = Fault {
                    label: faults::CORDON_DENIED,
                    subject: format!("node {}", order.node),
                    detail: why.clone(),
                };
                (why.as_str(), Some(fault))
            }
            CordonOutcome::Unknown(fault) => (fault.detail.as_str(), Some(fault.clone())),
        };
        CordonAttempted {
            pool: &self.pool,
            instance: &instance,
            node: &order.node,
            node_uid: &order.node_uid,
            outcome: outcome.label(),
            detail,
        }
        .emit();
        if let Some(live) = self.live.get_mut(&instance) {
            live.cordon_fault = fault;
        }
        self.rest(&instance).await;
    }

    /// The instance is free again: what is queued, else its next step.
    pub(super) async fn rest(&mut self, id: &InstanceId) {
        if let Some(live) = self.live.get_mut(id) {
            live.reconsider_departure();
        }
        let idle = self.live.get(id).is_some_and(super::children::Live::is_idle);
        if idle {
            self.drive(id).await;
        } else {
            self.pump(id).await;
        }
    }

    /// How many probes failed in this round, for S6.
    pub(super) fn weigh_probes(&mut self) {
        self.probes = weigh(self.live.values());
    }

    /// Whether what the probes say may be told to the gateway.
    pub(super) fn probes_trusted(&self) -> bool {
        let others = self
            .order
            .as_ref()
            .map(|order| order.other_probes)
            .unwrap_or_default();
        let pool = failing(self.probes);
        let cluster = Failing {
            failing: pool.failing + failing(others).failing,
            probed: pool.probed + failing(others).probed,
        };
        health::probes_trusted(pool, cluster)
    }
}

/// A member that was failing still is until it is seen well: silence of one unlocks nothing about another.
fn weigh<'a>(live: impl Iterator<Item = &'a super::children::Live>) -> Probes {
    let mut probes = Probes::default();
    for live in live {
        let failing = live.failing_for.is_some() && (live.probed || is_asked(live.row.phase));
        probes.probed += u32::from(live.probed || failing);
        probes.failing += u32::from(failing);
    }
    probes
}

fn failing(probes: Probes) -> Failing {
    Failing {
        failing: usize::try_from(probes.failing).unwrap_or(usize::MAX),
        probed: usize::try_from(probes.probed).unwrap_or(usize::MAX),
    }
}

impl super::children::Live {
    fn note_health(&mut self, seen: &crate::pool::observation::Observation, now: jiff::Timestamp) {
        if !is_watched(self.row.phase) {
            return;
        }
        if health::answers(&self.row, seen) {
            self.health.hear();
        }
        let reading = health::read(&self.row, seen);
        match &reading {
            Health::Good | Health::Bad(_) => self.probed = true,
            Health::Unknown(_) => {}
        }
        self.failing_for = self.health.push(&reading, now);
    }

    /// Whether it has been failing for long enough not to be counted on (local, and reversible).
    pub(super) fn is_doubtful(&self, suspect_after: Duration) -> bool {
        self.failing_for
            .is_some_and(|failing| failing >= suspect_after / 4)
    }
}

/// Members whose process is expected to answer.
const fn is_watched(phase: Phase) -> bool {
    match phase {
        Phase::Admitted | Phase::Serving | Phase::Draining | Phase::Sealed => true,
        Phase::Pending
        | Phase::Creating
        | Phase::Preparing
        | Phase::Validating
        | Phase::Retiring
        | Phase::Retired
        | Phase::Suspect
        | Phase::Lost
        | Phase::FailureRetired
        | Phase::FailedPreparing
        | Phase::Unrecognised => false,
    }
}

/// Of these, members whose coordinator is asked in every round: a SEALED one is not, and would never be
/// seen well again.
const fn is_asked(phase: Phase) -> bool {
    is_watched(phase) && !matches!(phase, Phase::Sealed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::pool::children::Live;
    use crate::pool::testing::{self, at};

    fn bad(live: &mut Live, second: i64) {
        let mut seen = testing::observation(&live.row);
        seen.info = testing::unknown();
        live.note_health(&seen, at(second));
    }

    #[test]
    fn s6_one_unknown_reading_does_not_make_a_failing_member_well() {
        let mut pair = [
            Live::new(testing::row(Phase::Serving)),
            Live::new(testing::row(Phase::Serving)),
        ];
        for live in &mut pair {
            bad(live, 0);
            live.begin_round();
        }
        bad(&mut pair[0], 5);
        let mut blank = testing::observation(&pair[1].row);
        blank.owned = testing::unknown();
        pair[1].note_health(&blank, at(5));
        assert!(!pair[1].probed);
        let probes = weigh(pair.iter());
        assert_eq!((probes.failing, probes.probed), (2, 2));
        assert!(!health::probes_trusted(failing(probes), failing(probes)));
    }

    #[test]
    fn a_member_that_is_no_longer_asked_blinds_nobody() {
        for phase in [Phase::Sealed, Phase::Suspect, Phase::Retiring] {
            let mut live = Live::new(testing::row(Phase::Serving));
            bad(&mut live, 0);
            live.row.phase = phase;
            live.begin_round();
            assert_eq!(weigh([live].iter()), Probes::default(), "{phase}");
        }
    }
}
