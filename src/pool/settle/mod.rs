//! What the outcome of an effect means for the row and the journal.

use jiff::Timestamp;

use super::instance::InstanceRow;
use super::step::{Effect, EffectOutcome, Settled, StepContext};

/// Maps an outcome to the change of the row and the end of the journaled step.
#[must_use]
pub fn settle(
    row: &InstanceRow,
    effect: &Effect,
    outcome: &EffectOutcome,
    ctx: &StepContext,
    now: Timestamp,
) -> Settled {
    let _ = (row, effect, outcome, ctx, now);
    Settled {
        change: None,
        step: None,
        waiting: None,
        fenced: false,
    }
}

/// Notes in the context what an outcome confirmed, for the rest of this tick. Called after [`settle`].
pub fn remember(ctx: &mut StepContext, effect: &Effect, outcome: &EffectOutcome) {
    let _ = (ctx, effect, outcome);
}
