//! What requests cost, as the log says it.

use super::*;

const PATH: &str = "/api/v1/namespaces/trino/configmaps";

fn cost(fleet: &Fleet, what: &str) -> Cost {
    let costs = fleet.kube.log().costs_without("nobody");
    costs.get(what).copied().unwrap_or_default()
}

#[test]
fn a_request_is_counted_with_the_bytes_of_both_messages() {
    let mut fleet = Fleet::empty(3);
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let request = Request::post(PATH)
        .header("x-sim-actor", "test")
        .body(Bytes::from(body.to_string()))
        .unwrap();
    let answer = fleet.kube.handle(&request, fleet.now);
    let asked = format!("POST {PATH} HTTP/1.1\r\nx-sim-actor: test\r\n\r\n{body}");
    let head = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\r\n";
    assert_eq!(
        cost(&fleet, "POST configmaps"),
        Cost {
            requests: 1,
            bytes_in: asked.len() as u64,
            bytes_out: (head.len() + answer.body().len()) as u64,
            seats: 1,
        }
    );
    assert_eq!(fleet.kube.log().counts_of("test")["POST configmaps"], 1);
    assert!(fleet.kube.log().costs_without("test").is_empty());
}

#[test]
fn a_watch_is_one_request_and_the_bytes_that_it_streams() {
    let mut fleet = Fleet::empty(3);
    let request = Request::get(format!("{PATH}?watch=true&resourceVersion=1"))
        .body(Bytes::new())
        .unwrap();
    let mut cursor = fleet.kube.open_watch(&request, fleet.now).unwrap().unwrap();
    let opened = cost(&fleet, "WATCH configmaps");
    assert_eq!((opened.requests, opened.seats), (1, 1));
    let mut streamed = 0;
    for name in ["a", "b"] {
        fleet.send("POST", PATH, &json!({"metadata": {"name": name}}));
        let lines = fleet.kube.poll_watch(&mut cursor, fleet.now);
        streamed += lines.iter().map(Bytes::len).sum::<usize>();
    }
    assert!(fleet.kube.poll_watch(&mut cursor, fleet.now).is_empty());
    let told = cost(&fleet, "WATCH configmaps").since(opened);
    assert!(streamed > 0);
    assert_eq!(
        told,
        Cost {
            bytes_out: streamed as u64,
            ..Cost::default()
        }
    );
}

#[test]
fn an_answer_that_is_lost_has_no_bytes_and_a_refusal_has() {
    let mut fleet = Fleet::empty(3);
    let rule = FaultRule::on(Resource::ConfigMaps, Fault::LoseAnswer).of(Verb::Create);
    fleet.kube.inject(rule.times(1));
    fleet.send("POST", PATH, &json!({"metadata": {"name": "a"}}));
    let lost = cost(&fleet, "POST configmaps");
    assert_eq!((lost.requests, lost.bytes_out), (1, 0));
    assert_eq!(
        fleet.send("POST", PATH, &json!({"metadata": {"name": "a"}})).0,
        409
    );
    assert!(cost(&fleet, "POST configmaps").since(lost).bytes_out > 100);
}

#[test]
fn requests_are_kept_one_by_one_only_while_that_is_asked_for() {
    let mut fleet = Fleet::empty(3);
    fleet.send("GET", PATH, &Value::Null);
    assert!(fleet.kube.record_requests(true).is_empty());
    fleet.send("POST", PATH, &json!({"metadata": {"name": "a"}}));
    fleet.send("GET", &format!("{PATH}/b"), &Value::Null);
    let kept = fleet.kube.record_requests(false);
    let seen: Vec<(&str, Option<&str>, u16)> = kept
        .iter()
        .map(|one| (one.what.as_str(), one.name.as_deref(), one.code))
        .collect();
    assert_eq!(
        seen,
        [("POST configmaps", None, 201), ("GET configmaps", Some("b"), 404)]
    );
    assert_eq!(kept[0].actor, "test");
    fleet.send("GET", PATH, &Value::Null);
    assert!(fleet.kube.record_requests(false).is_empty());
}
