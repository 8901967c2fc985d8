//! The stories themselves, grouped by what goes wrong.

pub(super) mod replacing;

use std::time::Duration;

use super::{Broken, Setup, Stage};

/// The ordinary world.
pub(super) fn ordinary(_: &mut Setup) {}

/// A story's patience: minutes of its own time.
pub(super) const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Waits until `count` instances with evidence are retired and everything desired serves again.
pub(super) async fn replaced(stage: &mut Stage, count: usize, limit: Duration) -> Result<(), Broken> {
    stage
        .until(&format!("{count} instances are replaced"), limit, |scene| {
            scene.replaced() >= count && scene.settled()
        })
        .await
}
