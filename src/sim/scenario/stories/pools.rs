//! The TrinoPool itself: an invalid spec, and two ways of deleting it.

use serde_json::json;

use super::{evidence, minutes, replaced};
use crate::pool::desired::PoolMode;
use crate::pool::phase::Phase;
use crate::sim::kube::Resource;
use crate::sim::scenario::{Broken, Scenario, Stage};
use crate::sim::world::{NAMESPACE, World};

pub(in crate::sim::scenario) const STORIES: &[Scenario] = &[
    Scenario {
        name: "held-spec",
        story: "Given a spec that becomes invalid, then the last good one stays in force, drift is handled, the other \
                pool is untouched, and the status says which field.",
        setup: |setup| {
            setup.world.pools = 2;
            setup.world.instances = 2;
            setup.world.workers = 1;
        },
        play: |stage| Box::pin(held_spec(stage)),
    },
    Scenario {
        name: "pool-retain",
        story: "Given a deleted TrinoPool under Retain, then its instances go on serving, protected, with evidence \
                recorded when their nodes drift, and nothing is created or drained.",
        setup: |setup| setup.ending = None,
        play: |stage| Box::pin(pool_retain(stage)),
    },
    Scenario {
        name: "pool-drain",
        story: "Given a deleted TrinoPool under a confirmed Drain, then instances drain one by one, and the last one \
                is held where the gateway refuses.",
        setup: |setup| {
            setup.ending = None;
            // Clients would wait for a pool that is meant to end.
            setup.world.clients = 0;
        },
        play: |stage| Box::pin(pool_drain(stage)),
    },
];

async fn held_spec(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    // Something that the schema lets through: the API server refuses the rest itself.
    stage.say("the spec of analytics becomes invalid");
    stage.world(|world| world.patch_pool("analytics", &json!({"timings": {"suspectAfter": "soon"}})))?;
    stage
        .until("analytics is held and says why", minutes(2), |scene| {
            let held = scene.pool("analytics").is_some_and(
                |pool| matches!(&pool.mode, PoolMode::Held(why) if why.contains("spec.timings.suspectAfter")),
            );
            held && scene
                .pool("adhoc")
                .is_some_and(|pool| pool.mode == PoolMode::Open)
        })
        .await?;
    stage.say("every node drifts; the last good spec stays in force");
    stage.world(World::drift_all)?;
    replaced(stage, 4, minutes(40)).await?;
    stage.say("the spec is mended");
    stage.world(|world| world.patch_pool("analytics", &json!({"timings": {"suspectAfter": null}})))?;
    stage
        .until("analytics is open again", minutes(2), |scene| {
            scene
                .pool("analytics")
                .is_some_and(|pool| pool.mode == PoolMode::Open)
        })
        .await
}

async fn pool_retain(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    let all = stage.world(|world| world.instances(None).len());
    stage.say("the TrinoPool is deleted");
    stage.world(|world| world.delete_pool("analytics"))?;
    stage
        .until("the pool is retained", minutes(2), |scene| {
            scene
                .pool("analytics")
                .is_some_and(|pool| pool.mode == PoolMode::Retained)
        })
        .await?;
    stage.say("every node drifts");
    stage.world(World::drift_all)?;
    evidence(stage, all).await?;
    stage.pass(minutes(5)).await?;
    stage.expect("everything serves, nothing was created", |scene| {
        scene.in_phase(Phase::Serving).len() == all && scene.store.rows().count() == all
    })
}

async fn pool_drain(stage: &mut Stage) -> Result<(), Broken> {
    stage.settle().await?;
    stage.say("the TrinoPool is set to drain, confirmed by its UID, and deleted");
    stage.world(|world| {
        let pool = world.kube.object(Resource::TrinoPools, NAMESPACE, "analytics");
        let uid = pool
            .map(|pool| pool["metadata"]["uid"].clone())
            .unwrap_or_default();
        world.patch_pool(
            "analytics",
            &json!({"deletionPolicy": "Drain", "confirmEmpty": uid}),
        )?;
        Ok::<(), crate::sim::world::AdminError>(())
    })?;
    stage.pass(minutes(1)).await?;
    stage.world(|world| world.delete_pool("analytics"))?;
    stage
        .until("the last member is held, or all are gone", minutes(30), |scene| {
            let live = scene
                .store
                .rows()
                .filter(|(_, row)| !row.phase.is_terminal())
                .count();
            live == 0 || (live == 1 && scene.plan("analytics") == "LastMemberHeld")
        })
        .await
}
