//! The steps of the journal that are not settled, each with what this actor knows of the copies that it sent.
//!
//! Owns nothing durable: the journal says which steps are open, and everything else here is forgotten with the
//! actor. A predecessor's copies are not counted; they went out under an older epoch, which a fence is for (S9).

use jiff::Timestamp;

use crate::gateway::model::MemberRequest;
use crate::pool::ids::{Epoch, InstanceId, OperationId, StepId};
use crate::store::port::JournalStep;

/// The open steps of one pool, in the journal's order.
#[derive(Debug, Default)]
pub(super) struct OpenSteps(Vec<OpenStep>);

/// One step that is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenStep {
    /// What the journal holds, and what is sent.
    pub(super) request: MemberRequest,
    /// When it was begun; what a predecessor began is as old as its last sending, for the journal keeps only that.
    pub(super) since: Timestamp,
    /// The copies that this actor sent; `None` before the first.
    sent: Option<Sent>,
    /// The last copy was refused, and an earlier one may be on its way (S9).
    pub(super) refused_in_doubt: bool,
}

/// How often a request was sent under the last epoch that it was sent under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    epoch: Epoch,
    copies: u32,
}

impl OpenSteps {
    /// Takes over what the journal holds. What is known of a step that is still open stays known: sending it
    /// again does not make it younger.
    pub(super) fn adopt(&mut self, journal: Vec<JournalStep>) {
        let known = std::mem::take(&mut self.0);
        self.0 = journal
            .into_iter()
            .map(|step| {
                let before = known
                    .iter()
                    .find(|open| open.is(&step.request.operation, &step.request.step));
                OpenStep {
                    since: before.map_or(step.at, |open| open.since),
                    sent: before.and_then(|open| open.sent),
                    refused_in_doubt: before.is_some_and(|open| open.refused_in_doubt),
                    request: step.request,
                }
            })
            .collect();
    }

    /// A step was begun, perhaps again after a refusal: its age, and the count of its copies, start here.
    pub(super) fn begin(&mut self, request: MemberRequest, now: Timestamp) {
        self.0.push(OpenStep {
            request,
            since: now,
            sent: None,
            refused_in_doubt: false,
        });
    }

    /// A step was settled.
    pub(super) fn finish(&mut self, operation: &OperationId, step: &StepId) {
        self.0.retain(|open| !open.is(operation, step));
    }

    /// Remembers that a copy is sent under an epoch.
    pub(super) fn note_sent(&mut self, request: &MemberRequest, epoch: Epoch) {
        if let Some(open) = self.get_mut(request) {
            open.sent = Some(Sent::next(open.sent, epoch));
        }
    }

    /// Remembers that the last copy was refused, which says nothing of an earlier one.
    pub(super) fn note_refused_in_doubt(&mut self, request: &MemberRequest) {
        if let Some(open) = self.get_mut(request) {
            open.refused_in_doubt = true;
        }
    }

    /// The open steps of one instance; the rules leave it at most one at a time.
    pub(super) fn of(&self, id: &InstanceId) -> impl Iterator<Item = &OpenStep> {
        self.0.iter().filter(move |open| open.request.instance == *id)
    }

    fn get_mut(&mut self, request: &MemberRequest) -> Option<&mut OpenStep> {
        self.0
            .iter_mut()
            .find(|open| open.is(&request.operation, &request.step))
    }
}

impl OpenStep {
    fn is(&self, operation: &OperationId, step: &StepId) -> bool {
        self.request.operation == *operation && self.request.step == *step
    }

    /// Whether an earlier copy may still be applied, whatever came of the last one. The journal's count of attempts
    /// does not say: it goes on over refusals, which leave nothing on its way. Copies of an older epoch may not:
    /// nothing is sent before the gateway has accepted the one in force.
    pub(super) fn has_earlier_copy(&self) -> bool {
        self.sent.is_some_and(|sent| sent.copies > 1)
    }

    /// Under which epoch this actor sent it last; an earlier actor's are all older.
    pub(super) fn last_sent(&self) -> Option<Epoch> {
        self.sent.map(|sent| sent.epoch)
    }
}

impl Sent {
    /// One copy more.
    fn next(before: Option<Self>, epoch: Epoch) -> Self {
        let same = before.filter(|sent| sent.epoch == epoch);
        Self {
            epoch,
            copies: same.map_or(1, |sent| sent.copies.saturating_add(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::lifecycle::drain_request;
    use crate::pool::phase::Phase;
    use crate::pool::testing::row;
    use crate::store::port::StepOutcome;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_second(number).unwrap()
    }

    fn drain() -> MemberRequest {
        drain_request(&row(Phase::Serving)).unwrap()
    }

    fn journaled(at: Timestamp) -> JournalStep {
        JournalStep {
            request: drain(),
            outcome: StepOutcome::Unknown,
            attempts: 2,
            at,
        }
    }

    fn only(steps: &OpenSteps) -> &OpenStep {
        let instance = drain().instance;
        let mut own = steps.of(&instance);
        let only = own.next().unwrap();
        assert!(own.next().is_none());
        only
    }

    #[test]
    fn s9_copies_are_counted_under_one_epoch() {
        let mut steps = OpenSteps::default();
        steps.begin(drain(), second(1));
        assert_eq!(
            (only(&steps).last_sent(), only(&steps).has_earlier_copy()),
            (None, false)
        );
        steps.note_sent(&drain(), Epoch::new(7));
        assert!(!only(&steps).has_earlier_copy());
        steps.note_sent(&drain(), Epoch::new(7));
        assert!(only(&steps).has_earlier_copy());
        steps.note_sent(&drain(), Epoch::new(8));
        assert_eq!(only(&steps).last_sent(), Some(Epoch::new(8)));
        assert!(!only(&steps).has_earlier_copy(), "the older epoch is fenced");
    }

    #[test]
    fn s9_what_is_known_of_a_step_outlives_another_look_at_the_journal() {
        let mut steps = OpenSteps::default();
        steps.begin(drain(), second(1));
        steps.note_sent(&drain(), Epoch::new(7));
        steps.note_sent(&drain(), Epoch::new(7));
        steps.note_refused_in_doubt(&drain());
        let before = only(&steps).clone();
        steps.adopt(vec![journaled(second(9))]);
        assert_eq!(*only(&steps), before, "nor is it any younger");
    }

    #[test]
    fn a_step_of_a_predecessor_is_as_old_as_its_last_sending() {
        let mut steps = OpenSteps::default();
        steps.adopt(vec![journaled(second(9))]);
        assert_eq!(only(&steps).since, second(9));
        assert_eq!(only(&steps).last_sent(), None);
    }

    #[test]
    fn s9_a_step_that_is_begun_anew_has_no_copies_yet() {
        let mut steps = OpenSteps::default();
        steps.begin(drain(), second(1));
        steps.note_sent(&drain(), Epoch::new(7));
        steps.note_refused_in_doubt(&drain());
        steps.finish(&drain().operation, &drain().step);
        assert!(steps.of(&drain().instance).next().is_none());
        steps.begin(drain(), second(5));
        steps.note_sent(&drain(), Epoch::new(7));
        let anew = only(&steps);
        assert_eq!(anew.since, second(5));
        assert!(!anew.has_earlier_copy() && !anew.refused_in_doubt);
    }
}
