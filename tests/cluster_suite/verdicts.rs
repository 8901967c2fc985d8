//! Preconditions and refusals of the server itself: what the adapter reads its verdicts from.

use serde_json::{Value, json};
use trino_pool_operator::cluster::port::Cluster;
use trino_pool_operator::pool::ids::Namespace;

use super::claims::claim;
use super::outsider::{ClusterDriver, create, delete, get, merge, namespace, uid, version};
use super::pools::pool;

const OTHER: &str = "00000000-0000-0000-0000-000000000000";
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

fn config_maps(space: &Namespace) -> String {
    format!("/api/v1/namespaces/{space}/configmaps")
}

/// Asks, and reads of the refusal: code, reason and details.
async fn refused(
    driver: &dyn ClusterDriver,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, String, Value) {
    let content = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let (code, mut status) = driver.request(method, path, content, body).await;
    assert_eq!(
        (status["kind"].as_str(), status["status"].as_str()),
        (Some("Status"), Some("Failure")),
        "{status}"
    );
    assert_eq!(status["code"].as_u64(), Some(code.into()));
    assert!(!status["message"].as_str().unwrap().is_empty());
    let reason = status["reason"].as_str().unwrap().to_owned();
    (code, reason, status["details"].take())
}

fn refusal(code: u16, reason: &str, details: Value) -> (u16, String, Value) {
    (code, reason.to_owned(), details)
}

pub async fn a_patch_carries_its_preconditions(_: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let maps = config_maps(&space);
    let path = format!("{maps}/m");
    let first = create(
        driver,
        &maps,
        &json!({"metadata": {"name": "m"}, "data": {"k": "1"}}),
    )
    .await;
    let change = |uid: &str, version: &str, value: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}, "data": {"k": value}});
    let second = merge(driver, &path, &change(uid(&first), version(&first), "2")).await;
    assert_eq!(second["data"]["k"], "2");

    let conflict = refusal(409, "Conflict", json!({"name": "m", "kind": "configmaps"}));
    let stale = change(uid(&first), version(&first), "3");
    assert_eq!(refused(driver, "PATCH", &path, Some(&stale)).await, conflict);
    // Another identity at the right version can only be a mistake, and is called one.
    let other = change(OTHER, version(&second), "3");
    let (code, reason, _) = refused(driver, "PATCH", &path, Some(&other)).await;
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    // Of both, the version is compared first.
    let both = change(OTHER, version(&first), "3");
    assert_eq!(refused(driver, "PATCH", &path, Some(&both)).await, conflict);
    let (_, after) = get(driver, &path).await;
    assert_eq!(after, second, "nothing was written");

    // A patch that changes nothing makes no new version.
    let same = merge(driver, &path, &json!({"data": {"k": "2"}})).await;
    assert_eq!(version(&same), version(&second));
}

pub async fn a_delete_carries_its_preconditions(_: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let maps = config_maps(&space);
    let path = format!("{maps}/m");
    let first = create(driver, &maps, &json!({"metadata": {"name": "m"}})).await;
    let second = merge(driver, &path, &json!({"data": {"k": "2"}})).await;
    let conflict = refusal(409, "Conflict", json!({"name": "m", "kind": "ConfigMap"}));
    for preconditions in [json!({"uid": OTHER}), json!({"resourceVersion": version(&first)})] {
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        let seen = refused(driver, "DELETE", &path, Some(&body)).await;
        assert_eq!(seen, conflict, "{preconditions}");
    }
    let body = json!({"apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": uid(&second), "resourceVersion": version(&second)}});
    let (code, status) = driver
        .request("DELETE", &path, "application/json", Some(&body))
        .await;
    assert_eq!((code, status["status"].as_str()), (200, Some("Success")));
    assert_eq!(
        status["details"],
        json!({"name": "m", "kind": "configmaps", "uid": uid(&second)})
    );
}

pub async fn a_refusal_says_what_it_is_about(_: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let maps = config_maps(&space);
    let named = |name: &str| json!({"metadata": {"name": name}});
    let made = create(driver, &maps, &named("m")).await;
    let of_map = |name: &str| json!({"name": name, "kind": "configmaps"});
    assert_eq!(
        refused(driver, "GET", &format!("{maps}/none"), None).await,
        refusal(404, "NotFound", of_map("none"))
    );
    assert_eq!(
        refused(driver, "POST", &maps, Some(&named("m"))).await,
        refusal(409, "AlreadyExists", of_map("m"))
    );
    let nowhere = format!("/api/v1/namespaces/{}/configmaps", driver.unique("none"));
    let (code, reason, details) = refused(driver, "POST", &nowhere, Some(&named("m"))).await;
    assert_eq!(
        (code, reason.as_str(), details["kind"].as_str()),
        (404, "NotFound", Some("namespaces"))
    );
    let (code, reason, details) = refused(driver, "POST", &maps, Some(&named("Not_A_Name"))).await;
    assert_eq!(
        (code, reason.as_str(), details["kind"].as_str()),
        (422, "Invalid", Some("ConfigMap"))
    );
    assert_eq!(details["causes"][0]["field"], "metadata.name");

    merge(driver, &format!("{maps}/m"), &json!({"data": {"k": "v"}})).await;
    assert_eq!(
        refused(driver, "PUT", &format!("{maps}/m"), Some(&made)).await,
        refusal(409, "Conflict", of_map("m"))
    );

    // A custom resource: its group is named, and a replacement has to say what it replaces.
    let name = driver.unique("verdict");
    let mut made = create(driver, CLAIMS, &claim(&name)).await;
    assert_eq!(
        refused(driver, "POST", CLAIMS, Some(&claim(&name))).await,
        refusal(
            409,
            "AlreadyExists",
            json!({"name": name, "group": "karpenter.sh", "kind": "nodeclaims"})
        )
    );
    made["metadata"]["resourceVersion"].take();
    let path = format!("{CLAIMS}/{name}");
    let (code, reason, details) = refused(driver, "PUT", &path, Some(&made)).await;
    assert_eq!(
        (code, reason.as_str(), details["kind"].as_str()),
        (422, "Invalid", Some("nodeclaims"))
    );
    let change = json!({"spec": {"expireAfter": "1h"}});
    let (code, reason, _) = refused(driver, "PATCH", &path, Some(&change)).await;
    assert_eq!(
        (code, reason.as_str()),
        (422, "Invalid"),
        "a claim's spec is immutable"
    );
    delete(driver, &path).await;

    // A path that nothing is served at is no Status at all: no object's absence can be read from it.
    let (code, body) = get(driver, "/apis/nothing.example.test/v1/things/x").await;
    assert_eq!((code, body), (404, Value::Null));
}

/// Why the adapter replaces a Lease by a patch.
pub async fn a_put_of_a_lease_that_is_gone_makes_a_new_one(_: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{space}/leases");
    let path = format!("{leases}/leader");
    let body = json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}});
    let mut old = create(driver, &leases, &body).await;
    delete(driver, &path).await;
    let conflict = refusal(
        409,
        "Conflict",
        json!({"name": "leader", "group": "coordination.k8s.io", "kind": "leases"}),
    );
    assert_eq!(
        refused(driver, "PUT", &path, Some(&old)).await,
        conflict,
        "its UID holds it back"
    );
    old["metadata"].as_object_mut().unwrap().remove("uid");
    let (code, new) = driver.request("PUT", &path, "application/json", Some(&old)).await;
    assert_eq!((code, new["spec"]["holderIdentity"].as_str()), (201, Some("a")));
    let change = json!({"metadata": {"resourceVersion": version(&old)}, "spec": {"holderIdentity": "b"}});
    assert_eq!(refused(driver, "PATCH", &path, Some(&change)).await, conflict);
    delete(driver, &path).await;
    let (code, reason, _) = refused(driver, "PATCH", &path, Some(&change)).await;
    assert_eq!((code, reason.as_str()), (404, "NotFound"));
}

pub async fn unknown_fields_are_dropped_where_the_schema_knows_better(
    _: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let space = namespace(driver).await;
    let path = format!("/apis/trinopool.dev/v1alpha1/namespaces/{space}/trinopools");
    let mut body = pool("a");
    body["surprise"] = json!(1);
    body["spec"]["surprise"] = json!({"a": 1});
    body["spec"]["template"]["surprise"] = json!([1]);
    body["spec"]["template"]["workers"]["podTemplate"]["spec"]["surprise"] = json!("kept");
    let made = create(driver, &path, &body).await;
    let mut expected = pool("a")["spec"].take();
    expected["template"]["workers"]["podTemplate"]["spec"]["surprise"] = json!("kept");
    assert_eq!((&made["spec"], made.get("surprise")), (&expected, None));

    let status = json!({"status": {"serving": 1, "surprise": 2}});
    let whole = merge(driver, &format!("{path}/a/status"), &status).await;
    assert_eq!(
        (&whole["status"]["serving"], whole["status"].get("surprise")),
        (&json!(1), None)
    );
}

pub async fn what_the_schema_forbids_is_invalid(_: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let path = format!("/apis/trinopool.dev/v1alpha1/namespaces/{space}/trinopools");
    let with = |field: &str, value: Value| {
        let mut body = pool("a");
        match value {
            Value::Null => drop(body["spec"].as_object_mut().unwrap().remove(field)),
            value => body["spec"][field] = value,
        }
        body
    };
    for body in [
        with("release", Value::Null),
        with("instances", json!(0)),
        with("instances", json!("two")),
        with("release", json!("")),
        with("deletionPolicy", json!("Perhaps")),
    ] {
        let (code, reason, details) = refused(driver, "POST", &path, Some(&body)).await;
        assert_eq!(
            (code, reason.as_str(), details["kind"].as_str()),
            (422, "Invalid", Some("TrinoPool")),
            "{body}"
        );
    }
    create(driver, &path, &pool("a")).await;
    let odd = json!({"type": "Ready", "status": "Perhaps", "reason": "X", "message": "",
        "lastTransitionTime": "2031-07-08T08:08:55Z"});
    let change = json!({"status": {"conditions": [odd]}});
    let (code, reason, _) = refused(driver, "PATCH", &format!("{path}/a/status"), Some(&change)).await;
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
}
