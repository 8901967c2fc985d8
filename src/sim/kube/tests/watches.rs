//! What a watch begins with, and the forms in which objects are told.

use super::*;

const PATH: &str = "/api/v1/namespaces/trino/configmaps";
const STREAMING: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

fn accepting(uri: &str, accept: &str) -> Request<Bytes> {
    Request::get(uri)
        .header("accept", accept)
        .body(Bytes::new())
        .unwrap()
}

fn answered(fleet: &mut Fleet, uri: &str, accept: &str) -> (u16, Value) {
    let response = fleet.kube.handle(&accepting(uri, accept), fleet.now);
    (
        response.status().as_u16(),
        serde_json::from_slice(response.body()).unwrap(),
    )
}

fn opened(fleet: &mut Fleet, options: &str, accept: &str) -> WatchCursor {
    let request = accepting(&format!("{PATH}?watch=true&{options}"), accept);
    fleet.kube.open_watch(&request, fleet.now).unwrap().unwrap()
}

fn told(fleet: &mut Fleet, cursor: &mut WatchCursor) -> Vec<Value> {
    let lines = fleet.kube.poll_watch(cursor, fleet.now);
    lines
        .iter()
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn make(fleet: &mut Fleet, name: &str) {
    let body = json!({"metadata": {"name": name, "labels": {"tier": "a"}}, "data": {"k": "v"}});
    assert_eq!(fleet.send("POST", PATH, &body).0, 201);
}

#[test]
fn a_streaming_list_ends_with_a_mark_at_its_version() {
    let mut fleet = Fleet::empty(3);
    make(&mut fleet, "a");
    make(&mut fleet, "b");
    // An old version is as good as none: what there is now is not older.
    fleet.kube.compact();
    let mut cursor = opened(&mut fleet, &format!("{STREAMING}&resourceVersion=1"), "");
    let version = fleet.kube.revision().to_string();
    let events = told(&mut fleet, &mut cursor);
    let names: Vec<&str> = events[..2]
        .iter()
        .map(|event| j::name(&event["object"]))
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(
        events[2],
        json!({"type": "BOOKMARK", "object": {
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}},
        }})
    );
    assert_eq!(events.len(), 3);
    make(&mut fleet, "c");
    let events = told(&mut fleet, &mut cursor);
    assert_eq!(
        (events.len(), &events[0]["type"], j::name(&events[0]["object"])),
        (1, &json!("ADDED"), "c")
    );
}

#[test]
fn an_older_server_forbids_streaming_lists_and_nothing_else() {
    let mut fleet = Fleet::empty(3);
    fleet.kube.options.streaming_lists = false;
    make(&mut fleet, "a");
    let request = accepting(&format!("{PATH}?watch=true&{STREAMING}"), "");
    let refused = fleet.kube.open_watch(&request, fleet.now).unwrap().unwrap_err();
    let status: Value = serde_json::from_slice(refused.body()).unwrap();
    assert_eq!(
        (refused.status().as_u16(), &status["reason"]),
        (422, &json!("Invalid"))
    );
    assert_eq!(
        status["details"],
        json!({"group": "meta.k8s.io", "kind": "ListOptions", "causes": [{
            "reason": "FieldValueForbidden",
            "message": "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            "field": "sendInitialEvents",
        }]})
    );
    let mut plain = opened(&mut fleet, "resourceVersion=0&allowWatchBookmarks=true", "");
    let events = told(&mut fleet, &mut plain);
    assert_eq!(
        (events.len(), &events[0]["type"]),
        (1, &json!("ADDED")),
        "and no mark"
    );
}

#[test]
fn metadata_alone_is_told_of_objects_lists_and_changes() {
    let mut fleet = Fleet::empty(3);
    make(&mut fleet, "a");
    let metadata = fleet.kube.object(Resource::ConfigMaps, "trino", "a").unwrap()["metadata"].clone();
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
    assert_eq!(
        answered(&mut fleet, &format!("{PATH}/a"), METADATA),
        (200, partial.clone())
    );
    let (_, list) = answered(&mut fleet, PATH, METADATA_LIST);
    let version = fleet.kube.revision().to_string();
    assert_eq!(
        list,
        json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": version}, "items": [partial.clone()],
        })
    );
    let mut cursor = opened(&mut fleet, STREAMING, METADATA);
    let events = told(&mut fleet, &mut cursor);
    assert_eq!(events[0], json!({"type": "ADDED", "object": partial}));
    let mark = &events[1]["object"];
    assert_eq!(
        (
            &mark["kind"],
            &mark["metadata"]["annotations"]["k8s.io/initial-events-end"]
        ),
        (&json!("PartialObjectMetadata"), &json!("true"))
    );
    // An error is a whole Status in any form.
    let mut stale = opened(&mut fleet, "resourceVersion=1", METADATA);
    fleet.kube.compact();
    assert_eq!(told(&mut fleet, &mut stale)[0]["object"]["kind"], "Status");
}

#[test]
fn a_form_that_does_not_fit_is_not_acceptable() {
    let mut fleet = Fleet::empty(3);
    make(&mut fleet, "a");
    let metadata = METADATA.strip_suffix(",application/json").unwrap();
    for (uri, accept) in [
        (PATH.to_owned(), metadata),
        (format!("{PATH}/a"), METADATA_LIST),
        (format!("{PATH}?watch=true"), METADATA_LIST),
    ] {
        let (code, status) = answered(&mut fleet, &uri, accept);
        assert_eq!((code, &status["reason"]), (406, &json!("NotAcceptable")), "{uri}");
    }
}
