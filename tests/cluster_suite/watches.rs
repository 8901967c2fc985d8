//! Watches of the server itself: what the adapter's hints rest on.

use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use trino_pool_operator::cluster::port::Cluster;
use trino_pool_operator::pool::ids::Namespace;

use super::outsider::{ClusterDriver, create, delete, get, merge, name, namespace, version};

/// Leases, since nobody else makes any in a new namespace.
fn leases(space: &Namespace) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{space}/leases")
}

fn lease(name: &str, team: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"team": team}}, "spec": {"holderIdentity": "somebody"}})
}

/// Gives a lease to another team; the lease as it is then.
async fn join(driver: &dyn ClusterDriver, path: &str, team: &str) -> Value {
    merge(driver, path, &json!({"metadata": {"labels": {"team": team}}})).await
}

/// A version as the number that it is.
fn number(version: &str) -> u64 {
    version.parse().unwrap()
}

/// The version of the collection at `path` now.
async fn now(driver: &dyn ClusterDriver, path: &str) -> String {
    let (code, list) = get(driver, path).await;
    assert_eq!(code, 200, "{list}");
    version(&list).to_owned()
}

/// The next line of a watch, while the outsider lets time pass; nothing at its end.
async fn line(lines: &mut BoxStream<'static, Value>, driver: &dyn ClusterDriver) -> Option<Value> {
    for _ in 0..300 {
        tokio::select! {
            biased;
            line = lines.next() => return line,
            () = driver.pause() => {}
        }
    }
    panic!("the watch says nothing and does not end");
}

/// The next event: its type and its object.
async fn event(lines: &mut BoxStream<'static, Value>, driver: &dyn ClusterDriver) -> (String, Value) {
    let mut line = line(lines, driver).await.expect("the watch goes on");
    (line["type"].as_str().unwrap().to_owned(), line["object"].take())
}

pub async fn a_watch_tells_what_enters_changes_and_leaves_its_selector(
    _: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let space = namespace(driver).await;
    let leases = leases(&space);
    let from = now(driver, &leases).await;
    let path = format!("{leases}?watch=true&resourceVersion={from}&labelSelector=team%3Dours");
    let mut lines = driver.watch(&path).await;

    let made = create(driver, &leases, &lease("a", "ours")).await;
    create(driver, &leases, &lease("b", "theirs")).await;
    let (kind, seen) = event(&mut lines, driver).await;
    assert_eq!((kind.as_str(), &seen["metadata"]), ("ADDED", &made["metadata"]));
    assert_eq!(
        (seen["kind"].as_str(), seen["apiVersion"].as_str()),
        (Some("Lease"), Some("coordination.k8s.io/v1"))
    );

    let path = format!("{leases}/a");
    let changed = merge(driver, &path, &json!({"spec": {"holderIdentity": "else"}})).await;
    let (kind, seen) = event(&mut lines, driver).await;
    assert_eq!((kind.as_str(), &seen), ("MODIFIED", &changed));

    // What leaves is told as it was while it was inside, at the version at which it left.
    let left = join(driver, &path, "theirs").await;
    let (kind, seen) = event(&mut lines, driver).await;
    assert_eq!((kind.as_str(), version(&seen)), ("DELETED", version(&left)));
    assert_eq!(seen["metadata"]["labels"]["team"], "ours");

    // And what is deleted outside of the selector is not told at all.
    delete(driver, &path).await;
    join(driver, &format!("{leases}/b"), "ours").await;
    let (kind, seen) = event(&mut lines, driver).await;
    assert_eq!((kind.as_str(), name(&seen)), ("ADDED", "b"));
    delete(driver, &format!("{leases}/b")).await;
    let (kind, gone) = event(&mut lines, driver).await;
    assert_eq!((kind.as_str(), name(&gone)), ("DELETED", "b"));
    assert_ne!(
        version(&gone),
        version(&seen),
        "a deletion has a version of its own"
    );
}

pub async fn a_watch_goes_on_from_a_version_without_a_gap(_: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let leases = leases(&space);
    let from = now(driver, &leases).await;
    let first = create(driver, &leases, &lease("a", "ours")).await;
    create(driver, &leases, &lease("b", "ours")).await;
    delete(driver, &format!("{leases}/a")).await;
    for (from, expected) in [
        (
            from.as_str(),
            &[("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")][..],
        ),
        (version(&first), &[("ADDED", "b"), ("DELETED", "a")][..]),
    ] {
        let mut lines = driver
            .watch(&format!("{leases}?watch=true&resourceVersion={from}"))
            .await;
        for (kind, object) in expected {
            let (seen, told) = event(&mut lines, driver).await;
            assert_eq!((seen.as_str(), name(&told)), (*kind, *object));
        }
    }
}

/// A bookmark is a courtesy that may fail to come; so the watch is opened until one did.
pub async fn a_watch_that_ends_says_before_up_to_where_it_saw(_: &dyn Cluster, driver: &dyn ClusterDriver) {
    let space = namespace(driver).await;
    let leases = leases(&space);
    let made = create(driver, &leases, &lease("a", "ours")).await;
    let from = version(&made);
    let path = format!("{leases}?watch=true&timeoutSeconds=4&resourceVersion={from}");
    let mut bookmark = None;
    for _ in 0..10 {
        let mut lines = driver.watch(&format!("{path}&allowWatchBookmarks=true")).await;
        while let Some(line) = line(&mut lines, driver).await {
            assert_eq!(line["type"], "BOOKMARK", "nothing else happens: {line}");
            bookmark = Some(line);
        }
        if bookmark.is_some() {
            break;
        }
    }
    let bookmark = bookmark.expect("one watch of ten has a bookmark")["object"].take();
    assert_eq!(
        (&bookmark["kind"], &bookmark["apiVersion"]),
        (&json!("Lease"), &json!("coordination.k8s.io/v1"))
    );
    assert!(number(version(&bookmark)) >= number(from));

    // Only who asked for bookmarks gets any.
    let mut lines = driver.watch(&path).await;
    assert_eq!(line(&mut lines, driver).await, None);
}

pub async fn a02_a_watch_from_a_forgotten_version_is_told_so_in_the_stream(
    _: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    // Claims are served later than the first version, so no server that starts anew remembers it either.
    driver.compact().await;
    let mut lines = driver
        .watch("/apis/karpenter.sh/v1/nodeclaims?watch=true&resourceVersion=1")
        .await;
    let (kind, status) = event(&mut lines, driver).await;
    assert_eq!(kind, "ERROR");
    assert_eq!(
        (status["kind"].as_str(), status["code"].as_u64()),
        (Some("Status"), Some(410))
    );
    assert_eq!(status["reason"], "Expired");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .starts_with("too old resource version: 1 (")
    );
    assert_eq!(line(&mut lines, driver).await, None);
}

pub async fn a_streaming_list_sends_what_there_is_then_a_mark_then_changes(
    _: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let space = namespace(driver).await;
    let leases = leases(&space);
    for (name, team) in [("a", "ours"), ("b", "theirs"), ("c", "ours")] {
        create(driver, &leases, &lease(name, team)).await;
    }
    let from = now(driver, &leases).await;
    let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let path = format!("{leases}?watch=true&{streaming}&allowWatchBookmarks=true&labelSelector=team%3Dours");
    let mut lines = driver.watch(&path).await;
    for expected in ["a", "c"] {
        let (kind, seen) = event(&mut lines, driver).await;
        assert_eq!((kind.as_str(), name(&seen)), ("ADDED", expected));
    }
    let (kind, mark) = event(&mut lines, driver).await;
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(
        mark["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    assert_eq!(
        (&mark["kind"], &mark["metadata"]["name"]),
        (&json!("Lease"), &Value::Null)
    );
    assert!(number(version(&mark)) >= number(&from));

    join(driver, &format!("{leases}/b"), "ours").await;
    let (kind, seen) = event(&mut lines, driver).await;
    assert_eq!((kind.as_str(), name(&seen)), ("ADDED", "b"));
    delete(driver, &format!("{leases}/a")).await;
    let (kind, seen) = event(&mut lines, driver).await;
    assert_eq!((kind.as_str(), name(&seen)), ("DELETED", "a"));
}

pub async fn options_of_a_watch_that_contradict_each_other_are_invalid(
    _: &dyn Cluster,
    driver: &dyn ClusterDriver,
) {
    let space = namespace(driver).await;
    let leases = leases(&space);
    for (options, field) in [
        ("watch=true&sendInitialEvents=true", "resourceVersionMatch"),
        (
            "watch=true&resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch",
        ),
        ("sendInitialEvents=true", "sendInitialEvents"),
        ("resourceVersionMatch=NotOlderThan", "resourceVersionMatch"),
    ] {
        let (code, status) = get(driver, &format!("{leases}?{options}")).await;
        assert_eq!(
            (code, status["reason"].as_str()),
            (422, Some("Invalid")),
            "{options} {status}"
        );
        assert_eq!(status["details"]["kind"], "ListOptions", "{options} {status}");
        let cause = &status["details"]["causes"][0];
        assert_eq!(
            (cause["reason"].as_str(), cause["field"].as_str()),
            (Some("FieldValueForbidden"), Some(field)),
            "{options} {status}"
        );
    }
}
