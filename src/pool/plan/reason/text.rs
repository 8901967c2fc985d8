//! A reason in one sentence that an operator can act on (L7). Words only: nothing is decided here.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::PlanReason;
use crate::pool::desired::FreezeReason;
use crate::pool::ids::InstanceId;

impl fmt::Display for PlanReason {
    #[allow(clippy::too_many_lines)] // one sentence per reason, kept side by side so that they stay alike
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repairs {
                target,
                held,
                serving,
                target_serving,
            } => write!(
                f,
                "creates a repair of {target}, which the gateway holds as {held}: {serving} of {target_serving} serve"
            ),
            Self::FillsCapacity { live, desired } => {
                write!(f, "creates an instance: {live} of {desired} desired are there")
            }
            Self::CoversBlocked {
                blocked,
                serving,
                desired,
            } => write!(
                f,
                "creates an instance on the surge budget: {serving} of {desired} serve, and {} still {} a slot",
                list(blocked),
                if blocked.len() == 1 { "holds" } else { "hold" }
            ),
            Self::Surges { instance, cause } => write!(f, "creates a replacement of {instance}: {cause}"),
            Self::Drains {
                instance,
                cause,
                serving,
            } => {
                write!(f, "drains {instance}, one of {serving} serving: {cause}")
            }
            Self::ScalesIn {
                instance,
                serving,
                desired,
            } => {
                write!(f, "drains {instance}: {serving} serve, {desired} are desired")
            }
            Self::Empties { instance, serving } => {
                write!(
                    f,
                    "drains {instance}, one of {serving} serving: the pool is being emptied"
                )
            }
            Self::Converged { serving } => write!(f, "nothing to do: {serving} serve as desired"),
            Self::Frozen(why) => write!(f, "frozen, creates and drains nothing: {}", frozen(why)),
            Self::Retained => f.write_str(
                "the TrinoPool is gone or being deleted, and its instances are kept: they go on serving, and none is \
                 created or drained; create the TrinoPool again to manage them, or, where it still stands under \
                 deletionPolicy Drain, set spec.confirmEmpty to its UID to empty the pool",
            ),
            Self::NoDesiredCount => f.write_str(
                "there is no desired count, which never means zero: set spec.instances to at least 1",
            ),
            Self::Emptied { leaving: 0 } => f.write_str("the pool is empty"),
            Self::Emptied { leaving } => {
                write!(f, "nothing serves any more, {leaving} still on the way out")
            }
            Self::LastMemberHeld { instance } => write!(
                f,
                "the gateway does not drain {instance}, its last serving member: authorize its recovery, or remove \
                 the pool at the gateway"
            ),
            Self::CandidateInProgress {
                instance,
                phase,
                age,
                waiting,
            } => {
                write!(f, "candidate {instance} is {phase} for {}", span(*age))?;
                match waiting {
                    Some(waiting) => write!(f, ": {waiting}"),
                    None => Ok(()),
                }
            }
            Self::CandidateStuck {
                instance,
                phase,
                age,
                waiting,
                live,
                limit,
            } => {
                write!(
                    f,
                    "candidate {instance} is {phase} for {}, past its deadline, and is kept",
                    span(*age)
                )?;
                match waiting {
                    Some(waiting) => write!(f, ": {}, {}", waiting.reason.label(), waiting.detail)?,
                    None => f.write_str(": it has not said why")?,
                }
                if live < limit {
                    write!(
                        f,
                        "; others may be made beside it, {live} of at most {limit} are live"
                    )
                } else {
                    write!(
                        f,
                        "; no room is left beside it, {live} of at most {limit} are live: mend what it waits for, or \
                         raise spec.maxSurge"
                    )
                }
            }
            Self::AwaitsAdmitted { instance, age } => write!(
                f,
                "{instance} was admitted {} ago and is about to serve",
                span(*age)
            ),
            Self::BackingOff(hold) => write!(
                f,
                "the next candidate waits until {}: {} failed in a row with {}, the last one said: {}",
                clock(hold.until),
                hold.count,
                hold.cause.as_str(),
                hold.detail
            ),
            Self::ClusterBudgetSpent { instance, .. } => write!(
                f,
                "the replacement of {instance} waits: as many planned replacements as the cluster-wide budget \
                 allows are under way"
            ),
            Self::SurgeZero { instance, cause } => write!(
                f,
                "{instance} cannot be replaced ({cause}): maxSurge is 0; set spec.maxSurge to at least 1"
            ),
            Self::SurgeExhausted {
                instance,
                live,
                limit,
                held_by,
            } => {
                match instance {
                    Some(instance) => write!(f, "the replacement of {instance} waits for surge budget")?,
                    None => f.write_str("a create waits for surge budget")?,
                }
                write!(f, ": {live} of at most {limit} live")?;
                if held_by.is_empty() {
                    Ok(())
                } else {
                    write!(f, ", slots are held by {}", list(held_by))
                }
            }
            Self::RepairBudgetExhausted {
                target,
                repairing,
                limit,
            } => write!(
                f,
                "{target} waits for repair budget: {repairing} of at most {limit} instances are repairs; raise \
                 spec.maxRepair or wait until {target} is closed"
            ),
            Self::PoolFull { live, limit } => write!(
                f,
                "the pool is full: {live} live, at most {limit} with surge and repair budgets"
            ),
            Self::NothingToRepair {
                serving,
                target_serving,
                live,
            } => write!(
                f,
                "{serving} of {target_serving} serve, {live} live: the others must recover, fail at the gateway or be \
                 closed first"
            ),
            Self::DrainHeldBy {
                instance,
                phase,
                outstanding,
                age,
                stuck,
            } => {
                let age = span(*age);
                write!(f, "the next drain waits for {instance}, {phase} ")?;
                match outstanding {
                    _ if !phase.is_departing() => write!(f, "and asked to go {age} ago without an answer")?,
                    Some(count) => write!(f, "for {age}, {count} obligations left")?,
                    None => write!(f, "for {age}, obligations not known")?,
                }
                if *stuck {
                    f.write_str(
                        "; it is past drainStuckAfter and no surge room is left: raise spec.maxSurge, or \
                                 authorize its recovery",
                    )?;
                }
                Ok(())
            }
            Self::AwaitsCapacity {
                instance,
                cause,
                serving,
                needed,
                not_counted,
            } => {
                write!(
                    f,
                    "{instance} waits to be drained ({cause}): {serving} serve and answer, {needed} must"
                )?;
                if *not_counted > 0 {
                    write!(f, "; {not_counted} more serve without being known to answer")?;
                }
                Ok(())
            }
            Self::YieldsToEvidence { instance, evidence } => write!(
                f,
                "the rollout of {instance} leaves the next replacement to {evidence}, whose node goes away"
            ),
            Self::RestsAfterEdit {
                instance,
                served,
                rest,
            } => write!(
                f,
                "somebody edited a Deployment of {instance}, which has served for {}: nothing is replaced for an edit \
                 until that is {}, so that what edits every Deployment does not make the pool roll without a pause",
                span(*served),
                span(*rest)
            ),
            Self::NotAtTheGateway { instances } => write!(
                f,
                "the gateway does not hold the registration of {} and sends no work there; that is covered from the \
                 surge budget, and nothing of {} is deleted: restore the gateway's database",
                list(instances),
                if instances.len() == 1 { "it" } else { "them" }
            ),
            Self::RolloutBlocked { instances } => write!(
                f,
                "what is stored of {} cannot be read, so no rollout moves {}: see the instance's faults",
                list(instances),
                if instances.len() == 1 { "it" } else { "them" }
            ),
        }
    }
}

fn frozen(why: &FreezeReason) -> String {
    match why {
        FreezeReason::Missing => "the TrinoPool is missing or cannot be read".to_owned(),
        FreezeReason::IdentityChanged(what) => format!("the TrinoPool describes another pool: {what}"),
        FreezeReason::StoreMismatch => {
            "the store is not the one that made these instances: start the operator with that one, which \
             status.storeId names"
                .to_owned()
        }
        FreezeReason::WentBackwards => "the TrinoPool went back to an older generation".to_owned(),
    }
}

fn list(instances: &[InstanceId]) -> String {
    let words: Vec<&str> = instances.iter().map(InstanceId::as_str).collect();
    words.join(", ")
}

/// A duration at the precision a person cares for.
fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600.. => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn clock(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
