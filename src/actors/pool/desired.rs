//! The desired state of a tick: what the resource says, and what may be made of it.
//!
//! Pure. *Held*: the spec is invalid, and the last good one stays in force. *Frozen*: the resource is
//! missing, foreign, or went backwards, or the store is not the one that acted before. In none of these
//! is anything read as zero (S11).

use super::authority::World;
use crate::actors::messages::ResourceReading;
use crate::cluster::facts::PoolResource;
use crate::pool::desired::{DeletionPolicy, DesiredPool, FreezeReason, PoolMode};
use crate::pool::ids::{ObjectUid, SpecGeneration, StoreId};
use crate::pool::observation::Fault;
use crate::pool::validate::{SpecProblem, confirms_emptying, describe, identity_change, validate};
use crate::store::port::PoolRow;

/// What the rest of the tick acts on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resolution {
    /// Whether the pool may act, and how.
    pub(super) mode: PoolMode,
    /// Whether the mode is written down; a single failed read is not.
    pub(super) durable: bool,
    /// A newer desired state to write down first.
    pub(super) publish: Option<Box<Published>>,
    /// Our finalizer is to be set, or removed.
    pub(super) finalizer: Option<bool>,
    /// What is wrong, for status and Events.
    pub(super) fault: Option<Fault>,
    /// The resource is gone and nothing is left.
    pub(super) finished: bool,
}

/// A desired state with the resource it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Published {
    pub(super) resource: ObjectUid,
    pub(super) generation: SpecGeneration,
    pub(super) desired: DesiredPool,
}

impl Resolution {
    fn new(mode: PoolMode) -> Self {
        Self {
            mode,
            durable: true,
            publish: None,
            finalizer: None,
            fault: None,
            finished: false,
        }
    }

    fn because(mut self, label: &'static str, detail: impl Into<String>) -> Self {
        self.fault = Some(Fault {
            label,
            subject: "trinopool".to_owned(),
            detail: detail.into(),
        });
        self
    }
}

/// The desired state that a resource describes, as far as it is valid.
pub(super) fn read(resource: &PoolResource) -> Result<DesiredPool, Vec<SpecProblem>> {
    validate(&resource.namespace, &resource.spec)
}

/// Decides what holds in this tick. `live` counts instances that are not terminal.
pub(super) fn resolve(
    reading: &ResourceReading,
    row: &PoolRow,
    store: &StoreId,
    world: &World,
    live: usize,
) -> Resolution {
    match reading {
        ResourceReading::Present(resource) => present(resource, row, store, world, live),
        ResourceReading::Absent => absent(row, live),
        ResourceReading::Unreadable(fault) => {
            let mut resolution = Resolution::new(PoolMode::Frozen(FreezeReason::Missing));
            resolution.durable = false;
            resolution.fault = Some(fault.clone());
            resolution
        }
    }
}

/// What holds after the store answered that it cannot hold the desired state: the last good one.
pub(super) fn refused_by_store(why: String) -> Resolution {
    Resolution::new(PoolMode::Held(why.clone())).because("SpecInvalid", why)
}

fn absent(row: &PoolRow, live: usize) -> Resolution {
    let policy = stored(row).map_or(DeletionPolicy::Retain, |desired| desired.deletion_policy);
    let mode = match policy {
        DeletionPolicy::Retain => PoolMode::Retained,
        // It went without our finalizer: nobody confirmed that the pool may be emptied.
        DeletionPolicy::Drain => PoolMode::Frozen(FreezeReason::Missing),
    };
    let mut resolution = Resolution::new(mode);
    resolution.finished = live == 0;
    if live > 0 {
        resolution = resolution.because(
            "ResourceGone",
            format!("the TrinoPool is gone; its {live} instances go on serving, protected and watched"),
        );
    }
    resolution
}

fn present(
    resource: &PoolResource,
    row: &PoolRow,
    store: &StoreId,
    world: &World,
    live: usize,
) -> Resolution {
    if let Some(why) = mismatch(resource, store, world) {
        return Resolution::new(PoolMode::Frozen(FreezeReason::StoreMismatch)).because("StoreMismatch", why);
    }
    let desired = read(resource);
    if resource.deleting {
        return deleting(resource, row, desired.as_ref().ok(), live);
    }
    let desired = match desired {
        Ok(desired) => desired,
        Err(problems) => {
            let problem = describe(&problems);
            return Resolution::new(PoolMode::Held(problem.clone())).because("SpecInvalid", problem);
        }
    };
    if let Some(change) = identity_change(&row.identity, &desired) {
        return Resolution::new(PoolMode::Frozen(FreezeReason::IdentityChanged(change.clone())))
            .because("IdentityChanged", change);
    }
    let same_resource = row.resource.as_ref() == Some(&resource.uid);
    if same_resource && resource.generation < row.generation {
        return Resolution::new(PoolMode::Frozen(FreezeReason::WentBackwards)).because(
            "WentBackwards",
            format!(
                "generation {} was read after {} was recorded",
                resource.generation, row.generation
            ),
        );
    }
    let mut resolution = Resolution::new(PoolMode::Open);
    let wanted = desired.deletion_policy == DeletionPolicy::Drain;
    resolution.finalizer = (resource.finalizer != wanted).then_some(wanted);
    let current = same_resource && resource.generation == row.generation && stored(row) == Some(&desired);
    if !current {
        resolution.publish = Some(Box::new(Published {
            resource: resource.uid.clone(),
            generation: resource.generation,
            desired,
        }));
    }
    resolution
}

/// A resource that is being deleted: `Drain` empties the pool only with a confirmation of this very
/// resource, and the finalizer stays until nothing is left.
fn deleting(
    resource: &PoolResource,
    row: &PoolRow,
    desired: Option<&DesiredPool>,
    live: usize,
) -> Resolution {
    let policy = desired
        .or_else(|| stored(row))
        .map_or(DeletionPolicy::Retain, |desired| desired.deletion_policy);
    match policy {
        DeletionPolicy::Retain => {
            let mut resolution = Resolution::new(PoolMode::Retained);
            resolution.finalizer = resource.finalizer.then_some(false);
            resolution.because(
                "Retained",
                format!("the TrinoPool is being deleted under Retain; its {live} instances go on serving"),
            )
        }
        DeletionPolicy::Drain if confirms_emptying(&resource.spec, &resource.uid) => {
            let mut resolution = Resolution::new(PoolMode::Emptying);
            resolution.finalizer = (resource.finalizer && live == 0).then_some(false);
            resolution.finished = live == 0;
            resolution
        }
        DeletionPolicy::Drain => Resolution::new(PoolMode::Retained).because(
            "EmptyingNotConfirmed",
            format!(
                "the TrinoPool is being deleted under Drain; set spec.confirmEmpty to {} to empty it",
                resource.uid
            ),
        ),
    }
}

/// Another store acted for this pool, or this one is empty where something of ours stands. Ends when
/// the status names this store: the explicit adoption.
fn mismatch(resource: &PoolResource, store: &StoreId, world: &World) -> Option<String> {
    match &resource.store {
        Some(known) if known == store => None,
        Some(other) if !world.instances.is_empty() => Some(format!(
            "store {other} acted for this pool and {} instances of it stand; this is store {store}",
            world.instances.len()
        )),
        None if !world.strangers.is_empty() => Some(format!(
            "{} instances stand that store {store} knows nothing of",
            world.strangers.len()
        )),
        Some(_) | None => None,
    }
}

fn stored(row: &PoolRow) -> Option<&DesiredPool> {
    row.desired.as_ref()?.as_ref().ok()
}

#[cfg(test)]
#[path = "desired_tests.rs"]
mod tests;
