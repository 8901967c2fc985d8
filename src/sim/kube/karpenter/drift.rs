//! Drift: a claim whose recorded template hash is not its NodePool's any more is Drifted, all claims
//! of the pool at once. "Not drifted" removes the entry (nodeclaim/disruption/drift.go).

use serde_json::{Value, json};

use super::super::Turn;
use super::super::json as j;
use super::super::resource::Resource;
use super::{HASH, HASH_VERSION, Karpenter, pool_of};

/// The version under which hashes are comparable.
const VERSION: &str = "v3";

/// A decimal hash of a NodePool's template, as the hash annotations hold it.
pub(crate) fn template_hash(pool: &Value) -> String {
    let template = pool["spec"]["template"].to_string();
    let hash = template.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.to_string()
}

/// Keeps the NodePools' own hashes current, then every claim's condition.
pub(super) fn step(karpenter: &Karpenter, turn: &mut Turn<'_>) {
    for pool in turn.store.list(Resource::NodePools) {
        // A loaded pool keeps its recorded hash until somebody changes it.
        let generation = pool["metadata"]["generation"].clone();
        let hashed = j::at(&pool, &["status", "observedGeneration"]).cloned();
        if j::annotation(&pool, HASH).is_some() && hashed == Some(generation.clone()) {
            continue;
        }
        let hash = template_hash(&pool);
        turn.store.edit(Resource::NodePools, "", j::name(&pool), |pool| {
            j::set(pool, &["metadata", "annotations", HASH], json!(hash));
            j::set(pool, &["metadata", "annotations", HASH_VERSION], json!(VERSION));
            j::set(pool, &["status", "observedGeneration"], generation);
        });
    }
    for claim in karpenter.due_claims(turn.store) {
        let Some(pool) = turn.store.get(Resource::NodePools, "", pool_of(&claim)) else {
            continue;
        };
        let (recorded, current) = (j::annotation(&claim, HASH), j::annotation(pool, HASH));
        let comparable = j::annotation(&claim, HASH_VERSION) == j::annotation(pool, HASH_VERSION);
        let drifted =
            j::is_true(&claim, "Launched") && comparable && recorded.is_some() && recorded != current;
        if drifted == j::is_true(&claim, "Drifted") || j::is_deleting(&claim) {
            continue;
        }
        let now = turn.now;
        turn.store
            .edit(Resource::NodeClaims, "", j::name(&claim), |claim| {
                if drifted {
                    j::set_condition(
                        claim,
                        "Drifted",
                        "True",
                        "NodePoolDrifted",
                        "NodePoolDrifted",
                        now,
                    );
                } else {
                    j::clear_condition(claim, "Drifted");
                }
            });
    }
}
