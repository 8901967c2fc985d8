use serde_json::{Value, json};

use super::*;
use crate::pool::ids::{
    Epoch, InstanceId, Namespace, ObjectName, OwnerId, PoolId, ResourceVersion, Revision,
};
use crate::pool::validate::example_spec;
use crate::store::port::PoolIdentity;

fn resource(spec: Value) -> PoolResource {
    PoolResource {
        namespace: Namespace::new("trino"),
        name: ObjectName::new("analytics"),
        uid: ObjectUid::new("uid-1"),
        resource_version: ResourceVersion::new("5"),
        generation: SpecGeneration::new(3),
        deleting: false,
        finalizer: false,
        spec,
        store: None,
    }
}

fn row_of(resource: &PoolResource) -> PoolRow {
    let desired = read(resource).unwrap();
    PoolRow {
        identity: PoolIdentity {
            id: PoolId::new("trino/analytics"),
            namespace: desired.namespace.clone(),
            routing_group: desired.routing_group.clone(),
        },
        epoch: Epoch::new(1),
        owner: OwnerId::new("me"),
        revision: Revision::default(),
        resource: Some(resource.uid.clone()),
        generation: resource.generation,
        desired: Some(Ok(desired)),
        mode: PoolMode::Open,
        failures: Vec::new(),
    }
}

fn world(instances: &[&str], strangers: &[&str]) -> World {
    let ids = |names: &[&str]| names.iter().map(|name| InstanceId::new(*name)).collect();
    World {
        instances: ids(instances),
        strangers: ids(strangers),
    }
}

fn ours() -> StoreId {
    StoreId::new("store-a")
}

fn decide(resource: &PoolResource, row: &PoolRow, world: &World, live: usize) -> Resolution {
    let reading = ResourceReading::Present(Box::new(resource.clone()));
    resolve(&reading, row, &ours(), world, live)
}

fn with(field: &str, value: Value) -> PoolResource {
    let mut spec = example_spec("analytics");
    spec[field] = value;
    resource(spec)
}

#[test]
fn a_valid_spec_is_published_once() {
    let resource = resource(example_spec("analytics"));
    let mut row = row_of(&resource);
    row.desired = None;
    row.resource = None;
    let first = decide(&resource, &row, &World::default(), 0);
    assert_eq!(first.mode, PoolMode::Open);
    assert!(first.publish.is_some());
    let again = decide(&resource, &row_of(&resource), &World::default(), 0);
    assert_eq!(again.publish, None);
}

#[test]
fn s11_an_invalid_spec_holds_the_last_good_one_and_says_which_field() {
    let row = row_of(&resource(example_spec("analytics")));
    let resolution = decide(&with("instances", json!(0)), &row, &World::default(), 2);
    let PoolMode::Held(why) = &resolution.mode else {
        panic!("{:?}", resolution.mode)
    };
    assert!(why.contains("spec.instances"), "{why}");
    assert_eq!(resolution.publish, None);
}

#[test]
fn s11_a_missing_resource_is_retained_and_an_unreadable_one_frozen_but_not_written_down() {
    let row = row_of(&resource(example_spec("analytics")));
    let gone = resolve(&ResourceReading::Absent, &row, &ours(), &World::default(), 2);
    assert_eq!((gone.mode, gone.finished), (PoolMode::Retained, false));
    let fault = Fault {
        label: "KubernetesUnreachable",
        subject: "trinopools".into(),
        detail: String::new(),
    };
    let unreadable = resolve(
        &ResourceReading::Unreadable(fault),
        &row,
        &ours(),
        &World::default(),
        0,
    );
    assert_eq!(unreadable.mode, PoolMode::Frozen(FreezeReason::Missing));
    assert!(!unreadable.durable);
    assert!(!unreadable.finished, "unknown is not gone");
}

#[test]
fn a_pool_that_went_without_a_confirmed_drain_is_frozen() {
    let row = row_of(&with("deletionPolicy", json!("Drain")));
    let gone = resolve(&ResourceReading::Absent, &row, &ours(), &World::default(), 2);
    assert_eq!(gone.mode, PoolMode::Frozen(FreezeReason::Missing));
}

#[test]
fn an_older_generation_of_the_same_resource_freezes_and_a_new_resource_takes_over() {
    let current = resource(example_spec("analytics"));
    let row = row_of(&current);
    let mut older = current.clone();
    older.generation = SpecGeneration::new(2);
    assert_eq!(
        decide(&older, &row, &World::default(), 0).mode,
        PoolMode::Frozen(FreezeReason::WentBackwards)
    );
    let mut recreated = older;
    recreated.uid = ObjectUid::new("uid-2");
    let taken = decide(&recreated, &row, &World::default(), 0);
    assert_eq!(taken.mode, PoolMode::Open);
    assert_eq!(taken.publish.unwrap().resource, ObjectUid::new("uid-2"));
}

#[test]
fn identity_fields_never_change_not_even_with_a_new_resource() {
    let row = row_of(&resource(example_spec("analytics")));
    let mut other = with("routingGroup", json!("another"));
    other.uid = ObjectUid::new("uid-2");
    let resolution = decide(&other, &row, &World::default(), 1);
    assert!(
        matches!(
            resolution.mode,
            PoolMode::Frozen(FreezeReason::IdentityChanged(_))
        ),
        "{:?}",
        resolution.mode
    );
    assert_eq!(resolution.publish, None);
}

#[test]
fn o06_an_empty_store_facing_live_instances_is_frozen_until_it_is_adopted() {
    let mut resource = resource(example_spec("analytics"));
    let row = row_of(&resource);
    let facing = world(&["cell-1"], &["cell-1"]);
    let mismatch = PoolMode::Frozen(FreezeReason::StoreMismatch);
    assert_eq!(decide(&resource, &row, &facing, 0).mode, mismatch);
    resource.store = Some(StoreId::new("store-b"));
    assert_eq!(
        decide(&resource, &row, &world(&["cell-1"], &[]), 0).mode,
        mismatch
    );
    // Nothing stands: the other store's pool never came to be.
    assert_eq!(decide(&resource, &row, &World::default(), 0).mode, PoolMode::Open);
    resource.store = Some(ours());
    assert_eq!(decide(&resource, &row, &facing, 0).mode, PoolMode::Open);
}

#[test]
fn deleting_under_drain_empties_only_with_a_confirmation_of_this_very_resource() {
    let mut resource = with("deletionPolicy", json!("Drain"));
    resource.finalizer = true;
    let row = row_of(&resource);
    resource.deleting = true;
    let unconfirmed = decide(&resource, &row, &World::default(), 2);
    assert_eq!(unconfirmed.mode, PoolMode::Retained);
    assert_eq!(unconfirmed.finalizer, None);
    assert!(unconfirmed.fault.unwrap().detail.contains("uid-1"));

    resource.spec["confirmEmpty"] = json!("uid-of-an-earlier-one");
    assert_eq!(
        decide(&resource, &row, &World::default(), 2).mode,
        PoolMode::Retained
    );

    resource.spec["confirmEmpty"] = json!("uid-1");
    let emptying = decide(&resource, &row, &World::default(), 2);
    assert_eq!((emptying.mode, emptying.finalizer), (PoolMode::Emptying, None));
    let emptied = decide(&resource, &row, &World::default(), 0);
    assert_eq!((emptied.finalizer, emptied.finished), (Some(false), true));
}

#[test]
fn the_finalizer_is_set_under_drain_and_taken_off_under_retain() {
    let mut resource = with("deletionPolicy", json!("Drain"));
    let row = row_of(&resource);
    assert_eq!(
        decide(&resource, &row, &World::default(), 1).finalizer,
        Some(true)
    );
    resource.finalizer = true;
    assert_eq!(decide(&resource, &row, &World::default(), 1).finalizer, None);
    resource.spec["deletionPolicy"] = json!("Retain");
    assert_eq!(
        decide(&resource, &row, &World::default(), 1).finalizer,
        Some(false)
    );
}
