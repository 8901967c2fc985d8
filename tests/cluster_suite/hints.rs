//! Hints: whatever changes is hinted at, and the hints go on.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::json;
use trino_pool_operator::cluster::port::{Cluster, Hint};
use trino_pool_operator::pool::ids::ObjectName;
use trino_pool_operator::pool::names::pool_id;

use super::claims::claim;
use super::outsider::{ClusterDriver, create, namespace};
use super::pools::pool;

/// Takes hints until each of `wanted` was seen, while the outsider lets time pass.
async fn seen(hints: &mut BoxStream<'static, Hint>, driver: &dyn ClusterDriver, wanted: &[Hint]) {
    let mut missing: BTreeSet<Hint> = wanted.iter().cloned().collect();
    for _ in 0..300 {
        if missing.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            hint = hints.next() => {
                missing.remove(&hint.expect("hints never end"));
            }
            () = driver.pause() => {}
        }
    }
    panic!("no hint at {missing:?}");
}

/// What a watch says when it starts: something may have been missed, in whatever pool.
const STARTED: [Hint; 3] = [Hint::Pool(None), Hint::Pod(None), Hint::Claim];

/// Returns the hints that say it.
async fn change_everything(driver: &dyn ClusterDriver) -> [Hint; 3] {
    let space = namespace(driver).await;
    let pod = json!({
        "metadata": {"name": "p", "labels": {
            "app.kubernetes.io/managed-by": "trino-pool-operator",
            "trinopool.dev/pool": "a",
        }},
        "spec": {"containers": [{"name": "trino", "image": "example/trino:483"}]},
    });
    create(driver, &format!("/api/v1/namespaces/{space}/pods"), &pod).await;
    let pools = format!("/apis/trinopool.dev/v1alpha1/namespaces/{space}/trinopools");
    create(driver, &pools, &pool("a")).await;
    create(
        driver,
        "/apis/karpenter.sh/v1/nodeclaims",
        &claim(&driver.unique("hint")),
    )
    .await;
    let named = Some(pool_id(&space, &ObjectName::from("a")));
    [Hint::Pool(named.clone()), Hint::Pod(named), Hint::Claim]
}

pub async fn every_kind_of_change_is_hinted_at(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let mut hints = cluster.hints(true);
    // Each watch hints once when it starts.
    seen(&mut hints, driver, &STARTED).await;
    let changes = change_everything(driver).await;
    seen(&mut hints, driver, &changes).await;
}

pub async fn hints_survive_a_compaction(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let mut hints = cluster.hints(true);
    seen(&mut hints, driver, &STARTED).await;
    driver.compact().await;
    change_everything(driver).await;
    // Told by watches that go on, or missed by watches that begin anew and say no more than that.
    let mut nameless = hints
        .map(|hint| match hint {
            Hint::Pool(_) => Hint::Pool(None),
            Hint::Pod(_) => Hint::Pod(None),
            Hint::Claim => Hint::Claim,
        })
        .boxed();
    seen(&mut nameless, driver, &STARTED).await;
}
