//! That the looks see what is there: a check over nothing would never fail.

use http::{Method, Request};
use serde_json::{Value, json};

use super::*;
use crate::sim::kube::ACTOR_HEADER;
use crate::sim::world::{NAMESPACE, StartState, World, WorldOptions};

/// Nodes and claims as they were recorded.
fn recorded() -> World {
    let options = WorldOptions {
        state: StartState::Recorded,
        ..WorldOptions::default()
    };
    let mut world = World::new(options).unwrap();
    pass_a_second(&mut world);
    world
}

fn pass_a_second(world: &mut World) {
    let now = world.now();
    world.step(now.saturating_add(SignedDuration::from_secs(1)).unwrap());
}

/// One request of the operator to the API server.
fn send(world: &mut World, method: Method, path: &str, body: &Value) -> u16 {
    let request = Request::builder()
        .method(method)
        .uri(format!("/api/v1/namespaces/{NAMESPACE}/{path}"))
        .header(ACTOR_HEADER, "operator")
        .body(body.to_string().into())
        .unwrap();
    let now = world.now();
    world.kube.handle(&request, now).status().as_u16()
}

#[test]
fn what_is_made_and_deleted_is_seen_by_name_and_uid() {
    let mut world = recorded();
    let config = json!({"metadata": {"name": "cell-00000009-worker-config"}});
    assert_eq!(send(&mut world, Method::POST, "configmaps", &config), 201);
    assert_eq!(send(&mut world, Method::POST, "configmaps", &config), 409);
    let stale = json!({"preconditions": {"uid": "another"}});
    let path = "configmaps/cell-00000009-worker-config";
    assert_eq!(send(&mut world, Method::DELETE, path, &stale), 409);
    let look = WorldLook::take(&world);
    let made: Vec<_> = look
        .made
        .iter()
        .map(|made| (made.actor.as_str(), made.name.as_str()))
        .collect();
    assert_eq!(made, [("operator", "cell-00000009-worker-config")]);
    let deleted: Vec<_> = look.destroyed.iter().map(|act| act.uid.as_deref()).collect();
    assert_eq!(deleted, [Some("another")]);
}
