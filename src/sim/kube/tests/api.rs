//! What a client of the API server meets.

use super::*;
use crate::pool::validate::example_spec;

#[test]
fn a07_a_reused_node_name_refuses_a_patch_meant_for_the_old_machine() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    let name = fleet.kube.nodes()[0].name.clone();
    let path = format!("/api/v1/nodes/{name}");
    let old = fleet.kube.object(Resource::Nodes, "", &name).unwrap();
    fleet.kube.reuse_node_name(&name, fleet.now);
    let cordon = |metadata: Value| json!({"metadata": metadata, "spec": {"unschedulable": true}});
    let both = json!({"uid": j::uid(&old), "resourceVersion": old["metadata"]["resourceVersion"].clone()});
    let (code, status) = fleet.send("PATCH", &path, &cordon(both));
    assert_eq!((code, status["reason"].as_str()), (409, Some("Conflict")));
    let (code, status) = fleet.send("PATCH", &path, &cordon(json!({"uid": j::uid(&old)})));
    assert_eq!(code, 422);
    assert!(status["message"].as_str().unwrap().contains("metadata.uid"));
    assert!(!fleet.kube.nodes()[0].unschedulable);
    let new = fleet.kube.object(Resource::Nodes, "", &name).unwrap();
    let right = json!({"uid": j::uid(&new), "resourceVersion": new["metadata"]["resourceVersion"].clone()});
    assert_eq!(fleet.send("PATCH", &path, &cordon(right)).0, 200);
    assert!(fleet.kube.nodes()[0].unschedulable);
}

#[test]
fn a01_pages_are_one_consistent_listing_and_expire_with_compaction() {
    let mut fleet = Fleet::empty(3);
    let path = "/api/v1/namespaces/trino/configmaps";
    for index in 0..7 {
        let body = json!({"metadata": {"name": format!("c{index}")}, "data": {}});
        assert_eq!(fleet.send("POST", path, &body).0, 201);
    }
    let (_, first) = fleet.send("GET", &format!("{path}?limit=3"), &Value::Null);
    assert_eq!(first["items"].as_array().unwrap().len(), 3);
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    fleet.send("DELETE", &format!("{path}/c5"), &Value::Null);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let (_, second) = fleet.send("GET", &format!("{path}?limit=30&continue={token}"), &Value::Null);
    let names: Vec<&str> = second["items"].as_array().unwrap().iter().map(j::name).collect();
    assert_eq!(
        names,
        ["c3", "c4", "c5", "c6"],
        "the page is of the first page's revision"
    );
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert!(second["metadata"].get("continue").is_none());
    fleet.kube.compact();
    let (code, status) = fleet.send("GET", &format!("{path}?limit=3&continue={token}"), &Value::Null);
    assert_eq!((code, status["reason"].as_str()), (410, Some("Expired")));
    let rest = status["metadata"]["continue"].as_str().unwrap().to_owned();
    let (_, rest) = fleet.send("GET", &format!("{path}?continue={rest}"), &Value::Null);
    let names: Vec<&str> = rest["items"].as_array().unwrap().iter().map(j::name).collect();
    assert_eq!(names, ["c3", "c4", "c6"], "the second token lists inconsistently");
    let (_, all) = fleet.send("GET", &format!("{path}?limit=2&resourceVersion=0"), &Value::Null);
    assert_eq!(
        all["items"].as_array().unwrap().len(),
        6,
        "the watch cache ignores the limit"
    );
}

#[test]
fn a02_a_watch_resumes_and_tells_expiry_inside_the_stream() {
    let mut fleet = Fleet::empty(3);
    let path = "/api/v1/namespaces/trino/configmaps";
    let open = |fleet: &mut Fleet, query: &str| {
        let uri = format!("{path}?watch=true&{query}");
        let request = Request::get(uri).body(Bytes::new()).unwrap();
        fleet.kube.open_watch(&request, fleet.now).unwrap().unwrap()
    };
    let poll = |fleet: &mut Fleet, cursor: &mut WatchCursor| -> Vec<(String, String)> {
        fleet
            .kube
            .poll_watch(cursor, fleet.now)
            .iter()
            .map(|line| {
                let event: Value = serde_json::from_slice(line).unwrap();
                let name = j::name(&event["object"]).to_owned();
                (event["type"].as_str().unwrap().to_owned(), name)
            })
            .collect()
    };
    let start = fleet.kube.revision();
    let body = |tier: &str| json!({"metadata": {"name": "c", "labels": {"tier": tier}}, "data": {}});
    fleet.send("POST", path, &body("a"));
    let mut cursor = open(
        &mut fleet,
        &format!("resourceVersion={start}&labelSelector=tier%3Da"),
    );
    assert_eq!(
        poll(&mut fleet, &mut cursor),
        [("ADDED".to_owned(), "c".to_owned())]
    );
    fleet.send("PATCH", &format!("{path}/c"), &body("b"));
    assert_eq!(
        poll(&mut fleet, &mut cursor),
        [("DELETED".to_owned(), "c".to_owned())],
        "it left the selection"
    );
    let mut marked = open(
        &mut fleet,
        &format!("resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=100"),
    );
    fleet.now = j::later(fleet.now, Duration::from_secs(70));
    let seen = poll(&mut fleet, &mut marked);
    assert_eq!(seen.last().unwrap().0, "BOOKMARK");
    fleet.now = j::later(fleet.now, Duration::from_secs(40));
    poll(&mut fleet, &mut marked);
    assert!(marked.ended());
    fleet.kube.compact();
    let mut stale = open(&mut fleet, &format!("resourceVersion={start}"));
    let lines = fleet.kube.poll_watch(&mut stale, fleet.now);
    let event: Value = serde_json::from_slice(&lines[0]).unwrap();
    assert_eq!(
        (event["type"].as_str(), event["object"]["code"].as_u64()),
        (Some("ERROR"), Some(410))
    );
    assert!(stale.ended());
    let mut fresh = open(&mut fleet, "resourceVersion=0");
    assert_eq!(
        poll(&mut fleet, &mut fresh),
        [("ADDED".to_owned(), "c".to_owned())]
    );
    fleet.kube.cut_watches();
    assert!(poll(&mut fleet, &mut fresh).is_empty() && fresh.ended());
}

#[test]
fn writes_are_refused_as_the_real_server_refuses_them() {
    let mut fleet = Fleet::empty(3);
    let path = "/api/v1/namespaces/trino/configmaps";
    let body = json!({"metadata": {"name": "c"}, "data": {"a": "1"}, "immutable": true});
    let (_, made) = fleet.send("POST", path, &body);
    let one = format!("{path}/c");
    for (method, uri, body, code, reason) in [
        ("POST", path, body.clone(), 409, "AlreadyExists"),
        ("POST", path, json!({"metadata": {}}), 422, "Invalid"),
        (
            "POST",
            path,
            json!({"metadata": {"name": "Bad_Name"}}),
            422,
            "Invalid",
        ),
        (
            "POST",
            path,
            json!({"metadata": {"name": "l", "labels": {"k": "a/b"}}}),
            422,
            "Invalid",
        ),
        (
            "POST",
            "/api/v1/namespaces/nowhere/configmaps",
            body,
            404,
            "NotFound",
        ),
        (
            "GET",
            "/api/v1/namespaces/trino/configmaps/none",
            Value::Null,
            404,
            "NotFound",
        ),
        ("PATCH", &one, json!({"data": {"a": "2"}}), 422, "Invalid"),
        (
            "PATCH",
            &one,
            json!({"metadata": {"resourceVersion": "1"}}),
            409,
            "Conflict",
        ),
        (
            "DELETE",
            &one,
            json!({"preconditions": {"uid": "other"}}),
            409,
            "Conflict",
        ),
        (
            "DELETE",
            &one,
            json!({"preconditions": {"resourceVersion": "1"}}),
            409,
            "Conflict",
        ),
    ] {
        let (got, status) = fleet.send(method, uri, &body);
        assert_eq!(
            (got, status["reason"].as_str()),
            (code, Some(reason)),
            "{method} {uri} {status}"
        );
        assert_eq!(status["kind"], "Status");
    }
    let (_, missing) = fleet.send("GET", &format!("{path}/none"), &Value::Null);
    assert_eq!(missing["details"], json!({"name": "none", "kind": "configmaps"}));
    assert_eq!(missing["message"], "configmaps \"none\" not found");
    let mut other = made.clone();
    other["metadata"]["uid"] = json!("other");
    let (code, status) = fleet.send("PUT", &one, &other);
    assert_eq!(code, 409);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("UID in precondition: other")
    );
    let uid = json!({"preconditions": {"uid": made["metadata"]["uid"]}});
    assert_eq!(fleet.send("DELETE", &one, &uid).0, 200);
    let log = fleet.kube.log();
    assert_eq!(log.counts_of("test")["DELETE configmaps"], 3);
    assert_eq!(log.destructive().last().unwrap().name, "c");
}

#[test]
fn a_status_and_a_spec_are_written_apart_and_only_the_spec_counts_generations() {
    let mut fleet = Fleet::empty(3);
    let path = "/apis/trinopool.dev/v1alpha1/namespaces/trino/trinopools";
    let body = json!({"metadata": {"name": "p"}, "spec": example_spec("p"), "status": {"serving": 1}});
    let (code, made) = fleet.send("POST", path, &body);
    assert_eq!(code, 201);
    assert!(made.get("status").is_none(), "a create cannot set it");
    let one = format!("{path}/p");
    let both = json!({"spec": {"instances": 9}, "status": {"serving": 1}});
    let (_, status) = fleet.send("PATCH", &format!("{one}/status"), &both);
    assert_eq!(
        (&status["spec"], &status["status"]["serving"]),
        (&example_spec("p"), &json!(1))
    );
    assert_eq!(status["metadata"]["generation"], 1);
    let (_, spec) = fleet.send(
        "PATCH",
        &one,
        &json!({"spec": {"instances": 2}, "status": {"serving": 5}}),
    );
    assert_eq!(
        (&spec["metadata"]["generation"], &spec["status"]["serving"]),
        (&json!(2), &json!(1))
    );
    let (_, same) = fleet.send("PATCH", &one, &json!({"spec": {"instances": 2}}));
    assert_eq!(
        same["metadata"]["resourceVersion"],
        spec["metadata"]["resourceVersion"]
    );
    let hold = json!({"metadata": {"finalizers": ["trinopool.dev/pool"]}});
    fleet.send("PATCH", &one, &hold);
    let (_, deleting) = fleet.send("DELETE", &one, &Value::Null);
    assert!(j::is_deleting(&deleting));
    let (code, _) = fleet.send("PATCH", &one, &json!({"metadata": {"finalizers": null}}));
    assert_eq!(code, 200);
    assert_eq!(fleet.send("GET", &one, &Value::Null).0, 404);
}

#[test]
fn a_lease_is_replaced_only_at_its_exact_version() {
    let mut fleet = Fleet::empty(3);
    let path = "/apis/coordination.k8s.io/v1/namespaces/trino/leases";
    let body = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    let (_, made) = fleet.send("POST", path, &body);
    let one = format!("{path}/l");
    assert_eq!(
        fleet.send("PUT", &one, &body).0,
        422,
        "an update names its version"
    );
    assert_eq!(fleet.send("PUT", &one, &made).0, 200);
    let mut next = made.clone();
    next["spec"]["holderIdentity"] = json!("b");
    assert_eq!(fleet.send("PUT", &one, &next).0, 200);
    assert_eq!(fleet.send("PUT", &one, &next).0, 409);
}

#[test]
fn injected_faults_strike_only_what_they_name() {
    let mut fleet = Fleet::with(3, &NodePoolPlan::default());
    let claims = "/apis/karpenter.sh/v1/nodeclaims";
    let rule = FaultRule::on(Resource::NodeClaims, Fault::Broken).of(Verb::List);
    let id = fleet.kube.inject(rule.on_later_pages());
    let (code, first) = fleet.send("GET", &format!("{claims}?limit=2"), &Value::Null);
    assert_eq!(code, 200);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let next = format!("{claims}?limit=2&continue={token}");
    assert_eq!(fleet.send("GET", &next, &Value::Null).0, 500);
    fleet.kube.clear_fault(id);
    assert_eq!(fleet.send("GET", &next, &Value::Null).0, 200);
    fleet.kube.set_served(Resource::NodeClaims, false);
    let gone = fleet.raw("GET", claims, "", &Value::Null);
    assert_eq!(
        (gone.status().as_u16(), &gone.body()[..]),
        (404, &b"404 page not found\n"[..])
    );
    fleet.kube.clear_faults();
    let rule = FaultRule::on(Resource::Nodes, Fault::Html).times(1);
    fleet.kube.inject(rule);
    assert_eq!(
        fleet.send("GET", "/api/v1/nodes", &Value::Null),
        (502, Value::Null)
    );
    assert_eq!(fleet.send("GET", "/api/v1/nodes", &Value::Null).0, 200);
    fleet
        .kube
        .inject(FaultRule::everything(Fault::Hang).of(Verb::Patch));
    let name = fleet.kube.nodes()[0].name.clone();
    let cordon = json!({"spec": {"unschedulable": true}});
    let hung = fleet.raw(
        "PATCH",
        &format!("/api/v1/nodes/{name}"),
        "application/merge-patch+json",
        &cordon,
    );
    assert!(hung.extensions().get::<NoAnswer>().is_some());
    assert!(!fleet.kube.nodes()[0].unschedulable);
}

#[test]
fn frozen_reads_show_the_past_while_writes_go_on() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    let path = format!("/api/v1/nodes/{}", fleet.kube.nodes()[0].name);
    fleet.kube.freeze_reads();
    assert_eq!(
        fleet
            .send("PATCH", &path, &json!({"spec": {"unschedulable": true}}))
            .0,
        200
    );
    assert!(
        fleet.send("GET", &path, &Value::Null).1["spec"]
            .get("unschedulable")
            .is_none()
    );
    fleet.kube.thaw_reads();
    assert_eq!(
        fleet.send("GET", &path, &Value::Null).1["spec"]["unschedulable"],
        true
    );
}

#[test]
fn an_eviction_is_counted_and_honoured() {
    let mut fleet = Fleet::with(1, &NodePoolPlan::default());
    fleet.deploy("app", 1, &json!({}));
    fleet.pass(20);
    let pod = fleet.kube.pods()[0].clone();
    let uri = format!("/api/v1/namespaces/trino/pods/{}/eviction", pod.name);
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}});
    assert_eq!(fleet.send("POST", &uri, &body).0, 201);
    let object = fleet.kube.object(Resource::Pods, "trino", &pod.name).unwrap();
    assert!(j::is_deleting(&object) && j::is_true(&object, "DisruptionTarget"));
    let acts: Vec<&Destructive> = fleet.kube.log().requested_by(|actor| actor == "test").collect();
    assert_eq!(
        (acts.len(), acts[0].how, acts[0].name.as_str()),
        (1, Destruction::Evict, pod.name.as_str())
    );
}
