//! NodeClaims: complete listings, drift, deletion.

use serde_json::{Value, json};
use trino_pool_operator::cluster::facts::{Grace, Lookup};
use trino_pool_operator::cluster::port::Cluster;
use trino_pool_operator::pool::ids::{ClaimName, ClaimUid};

use super::outsider::{ClusterDriver, create, delete, get, merge, name, uid, until, version};

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// A claim of a cloud provider that no Karpenter here has: then it stays as it was made.
pub fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name},
        "spec": {
            "nodeClassRef": {"group": "example.test", "kind": "NodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        },
    })
}

pub async fn a_listing_is_complete_whatever_its_pages(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let stem = driver.unique("page");
    let mut uids = Vec::new();
    // One more than a page of the adapter.
    for n in 0..501 {
        uids.push(uid(&create(driver, CLAIMS, &claim(&format!("{stem}-{n:03}"))).await).to_owned());
    }
    let inventory = cluster.claims().await.unwrap();
    assert!(
        uids.iter()
            .all(|uid| inventory.claims.contains_key(&ClaimUid::new(uid.clone())))
    );
    assert!(!inventory.resource_version.is_empty());

    // What the adapter relies on: a limit is kept, and its token leads on to exactly the rest.
    let (code, page) = get(driver, &format!("{CLAIMS}?limit=2")).await;
    assert_eq!((code, page["items"].as_array().unwrap().len()), (200, 2));
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (code, rest) = get(driver, &format!("{CLAIMS}?limit=10000&continue={token}")).await;
    assert_eq!(code, 200);
    assert!(rest["items"].as_array().unwrap().len() >= 499);
    assert!(
        rest["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
    );
    // A listing of "any version" ignores the limit, which is why the adapter names none.
    let (_, cached) = get(driver, &format!("{CLAIMS}?limit=2&resourceVersion=0")).await;
    assert!(cached["items"].as_array().unwrap().len() > 2);
    for n in 0..501 {
        delete(driver, &format!("{CLAIMS}/{stem}-{n:03}")).await;
    }
}

pub async fn a_listing_that_was_compacted_says_so_and_a_new_one_is_whole(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let stem = driver.unique("compact");
    for n in 0..3 {
        create(driver, CLAIMS, &claim(&format!("{stem}-{n}"))).await;
    }
    let (_, page) = get(driver, &format!("{CLAIMS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    driver.compact().await;
    // A server that keeps versions in memory lets go of them some seconds after its store has.
    let status = until(driver, "the token to expire", async || {
        match get(driver, &format!("{CLAIMS}?limit=1&continue={token}")).await {
            (200, _) => None,
            (410, status) => Some(status),
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(status["reason"], json!("Expired"));
    let inventory = cluster.claims().await.unwrap();
    let ours = inventory
        .claims
        .values()
        .filter(|claim| claim.name.as_str().starts_with(&stem));
    assert_eq!(ours.count(), 3);
}

pub async fn k17_a_drift_is_seen_from_its_beginning_to_its_end(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let name = ClaimName::new(driver.unique("drift"));
    let made = create(driver, CLAIMS, &claim(name.as_str())).await;
    let status = format!("{CLAIMS}/{name}/status");
    let found = async || cluster.claim(&name).await.unwrap().found().unwrap();

    // A claim that was just made has no status at all.
    let bare = found().await;
    assert_eq!(bare.uid.as_str(), uid(&made));
    assert_eq!((bare.node, bare.provider_id, bare.drifted), (None, None, None));
    assert_eq!((bare.grace, bare.deleted_at), (Grace::Unlimited, None));

    let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "",
        "lastTransitionTime": "2031-07-08T08:08:55Z", "severity": "Warning"});
    let launched = json!({"type": "Launched", "status": "True", "reason": "Launched", "message": "",
        "lastTransitionTime": "2031-07-08T08:08:55Z"});
    merge(
        driver,
        &status,
        &json!({"status": {"nodeName": "n1", "providerID": "kwok://n1", "conditions": [launched, drifted]}}),
    )
    .await;
    let seen = found().await;
    assert_eq!(seen.drifted, Some(Some("NodePoolDrifted".to_owned())));
    assert_eq!(seen.node.unwrap().as_str(), "n1");
    assert_eq!(seen.provider_id.unwrap().as_str(), "kwok://n1");
    let listed = cluster.claims().await.unwrap();
    assert!(listed.claims[&seen.uid].drifted.is_some());

    // "Not drifted" is the entry's absence.
    merge(driver, &status, &json!({"status": {"conditions": [launched]}})).await;
    assert_eq!(found().await.drifted, None);
    delete(driver, &format!("{CLAIMS}/{name}")).await;
    assert_eq!(cluster.claim(&name).await, Ok(Lookup::Absent));
}

pub async fn a_claim_that_is_being_deleted_stays_until_its_finalizer_goes(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let name = ClaimName::new(driver.unique("going"));
    let mut body = claim(name.as_str());
    body["metadata"]["finalizers"] = json!(["example.test/hold"]);
    body["spec"]["terminationGracePeriod"] = json!("30m");
    create(driver, CLAIMS, &body).await;
    let path = format!("{CLAIMS}/{name}");
    delete(driver, &path).await;
    let going = cluster.claim(&name).await.unwrap().found().unwrap();
    assert!(going.deleted_at.is_some());
    assert_eq!(going.grace, Grace::Finite(std::time::Duration::from_mins(30)));
    merge(driver, &path, &json!({"metadata": {"finalizers": null}})).await;
    until(driver, "the claim to go", async || {
        match cluster.claim(&name).await.unwrap() {
            Lookup::Absent => Some(()),
            Lookup::Found(_) => None,
        }
    })
    .await;
}

pub async fn pages_of_one_listing_never_mix_versions(_: &dyn Cluster, driver: &dyn ClusterDriver) {
    let stem = driver.unique("pages");
    let team = json!({"team": stem});
    let make = async |name: &str| {
        let mut body = claim(&format!("{stem}-{name}"));
        body["metadata"]["labels"] = team.clone();
        create(driver, CLAIMS, &body).await
    };
    for name in ["a", "c", "d"] {
        make(name).await;
    }
    let list = format!("{CLAIMS}?labelSelector=team%3D{stem}&limit=2");
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| name(item).replace(&stem, "")).collect()
    };
    let (_, first) = get(driver, &list).await;
    assert_eq!(names(&first), ["-a", "-c"]);
    // Both would come later than what was read.
    make("e").await;
    delete(driver, &format!("{CLAIMS}/{stem}-d")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, second) = get(driver, &format!("{list}&continue={token}")).await;
    assert_eq!((code, names(&second)), (200, vec!["-d".to_owned()]));
    assert_eq!(version(&second), version(&first));
    let (_, fresh) = get(driver, &format!("{CLAIMS}?labelSelector=team%3D{stem}")).await;
    assert_eq!(names(&fresh), ["-a", "-c", "-e"]);
}

pub async fn k17_only_a_true_condition_is_a_drift(cluster: &dyn Cluster, driver: &dyn ClusterDriver) {
    let name = ClaimName::new(driver.unique("odd"));
    create(driver, CLAIMS, &claim(name.as_str())).await;
    let status = format!("{CLAIMS}/{name}/status");
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": "2031-07-08T08:08:55Z"});
    let drifted = async |conditions: Value| {
        merge(driver, &status, &json!({"status": {"conditions": conditions}})).await;
        cluster.claim(&name).await.unwrap().found().unwrap().drifted
    };
    for (conditions, expected) in [
        (json!([condition("Drifted", "Unknown")]), None),
        (json!([condition("Drifted", "False")]), None),
        (
            json!([
                condition("NotDrifted", "True"),
                condition("example.test/Drifted", "True")
            ]),
            None,
        ),
        (json!([condition("Drifted", "True")]), Some(None)),
        (json!([]), None),
        (Value::Null, None),
    ] {
        assert_eq!(drifted(conditions.clone()).await, expected, "{conditions}");
    }
    delete(driver, &format!("{CLAIMS}/{name}")).await;
}

/// Fields and conditions that nobody knows yet: whether the server keeps or drops them, the claim is read.
pub async fn what_a_later_version_adds_to_a_claim_does_no_harm(
    cluster: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let name = ClaimName::new(driver.unique("later"));
    let mut later = claim(name.as_str());
    later["spec"]["terminationGracePeriod"] = json!("10m");
    later["spec"]["aLaterField"] = json!({"of": ["any", 1, "shape"]});
    let made = create(driver, CLAIMS, &later).await;
    let status = json!({"status": {
        "nodeName": "later-1",
        "aLaterField": true,
        "conditions": [
            {"type": "ALaterCondition", "status": "True", "reason": "Later", "message": "", "lastTransitionTime": "2031-07-08T08:08:55Z"},
            {"type": "Drifted", "status": "True", "reason": "ALaterReason", "message": "", "lastTransitionTime": "2031-07-08T08:08:55Z"},
        ],
    }});
    merge(driver, &format!("{CLAIMS}/{name}/status"), &status).await;
    let inventory = cluster.claims().await.unwrap();
    let read = &inventory.claims[&ClaimUid::new(uid(&made))];
    assert_eq!(read.drifted, Some(Some("ALaterReason".to_owned())));
    assert_eq!(read.grace, Grace::Finite(std::time::Duration::from_mins(10)));
    assert_eq!(read.node, Some("later-1".into()));
    assert!(
        inventory
            .undecodable
            .iter()
            .all(|one| one.name.as_deref() != Some(name.as_str()))
    );
    delete(driver, &format!("{CLAIMS}/{name}")).await;
}
