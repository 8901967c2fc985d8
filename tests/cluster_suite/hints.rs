//! Hints: whatever changes is hinted at, and the hints go on.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::json;
use trino_pool_operator::cluster::port::{Cluster, Hint};

use super::claims::claim;
use super::outsider::{ClusterDriver, create, namespace};
use super::pools::pool;

/// Takes hints until each of `wanted` was seen, while the outsider lets time pass.
async fn seen(hints: &mut BoxStream<'static, Hint>, driver: &dyn ClusterDriver, wanted: &[Hint]) {
    let mut missing: BTreeSet<Hint> = wanted.iter().copied().collect();
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

const ALL: [Hint; 3] = [Hint::Pool, Hint::Pod, Hint::Claim];

async fn change_everything(driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let pod = json!({
        "metadata": {"name": "p", "labels": {"app.kubernetes.io/managed-by": "trino-pool-operator"}},
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
}

pub async fn every_kind_of_change_is_hinted_at(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let mut hints = cluster.hints(true);
    // Each watch hints once when it starts.
    seen(&mut hints, driver, &ALL).await;
    change_everything(driver).await;
    seen(&mut hints, driver, &ALL).await;
}

pub async fn hints_survive_a_compaction(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let mut hints = cluster.hints(true);
    seen(&mut hints, driver, &ALL).await;
    driver.compact().await;
    change_everything(driver).await;
    seen(&mut hints, driver, &ALL).await;
}
