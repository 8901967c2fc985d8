//! What a row renders to, and what it never does.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Service};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pool::ids::Namespace;
use crate::pool::names::{ANNOTATION_DO_NOT_DISRUPT, ANNOTATION_SPEC_DIGEST, LABEL_POOL};
use crate::pool::outdated::blueprint_digest;
use crate::pool::validate::{example_spec, validate};

fn blueprint() -> Blueprint {
    validate(&Namespace::from("trino"), &example_spec("analytics"))
        .unwrap()
        .blueprint
}

struct Row {
    instance: InstanceId,
    pool: PoolId,
    blueprint: Blueprint,
    digest: Digest,
    excluded: Vec<NodeName>,
    epoch: u64,
    protect: bool,
}

impl Row {
    fn new() -> Self {
        let blueprint = blueprint();
        Self {
            instance: InstanceId::from("cell-1a2b3c4d"),
            pool: PoolId::from("trino/analytics"),
            digest: blueprint_digest(&blueprint),
            blueprint,
            excluded: Vec::new(),
            epoch: 7,
            protect: false,
        }
    }

    fn render(&self) -> Result<[Manifest; 5], RenderError> {
        render(&Rendering {
            instance: &self.instance,
            pool: &self.pool,
            blueprint: &self.blueprint,
            spec_digest: &self.digest,
            release: &self.blueprint.release,
            epoch: Epoch::new(self.epoch),
            excluded_nodes: &self.excluded,
            protect: self.protect,
        })
    }

    fn objects(&self) -> Objects {
        let [
            Manifest::ConfigMap(coordinator_config),
            Manifest::ConfigMap(worker_config),
            Manifest::Service(service),
            Manifest::Deployment(coordinator),
            Manifest::Deployment(worker),
        ] = self.render().unwrap()
        else {
            panic!("five objects in the order in which they are applied");
        };
        Objects {
            coordinator_config: *coordinator_config,
            worker_config: *worker_config,
            service: *service,
            coordinator: *coordinator,
            worker: *worker,
        }
    }
}

struct Objects {
    coordinator_config: ConfigMap,
    worker_config: ConfigMap,
    service: Service,
    coordinator: Deployment,
    worker: Deployment,
}

fn pod(deployment: &Deployment) -> PodSpec {
    deployment.spec.clone().unwrap().template.spec.unwrap()
}

fn pod_annotation(deployment: &Deployment, name: &str) -> Option<String> {
    let metadata = deployment.spec.clone().unwrap().template.metadata.unwrap();
    metadata.annotations.unwrap().get(name).cloned()
}

#[test]
fn the_workers_of_an_instance_as_a_person_reads_them() {
    let row = Row {
        digest: Digest::from("d1"),
        excluded: vec![NodeName::from("ip-10-0-1-7"), NodeName::from("ip-10-0-1-8")],
        protect: true,
        ..Row::new()
    };
    insta::assert_json_snapshot!(row.objects().worker);
}

#[test]
fn the_coordinator_runs_once_and_is_recreated_rather_than_doubled() {
    let spec = Row::new().objects().coordinator.spec.unwrap();
    assert_eq!(spec.replicas, Some(1));
    assert_eq!(spec.strategy.unwrap().type_.as_deref(), Some("Recreate"));
}

#[test]
fn the_service_selects_the_coordinator_of_this_instance_and_no_other_pod() {
    let objects = Row::new().objects();
    let selector = objects.service.spec.unwrap().selector.unwrap();
    let labels = |deployment: &Deployment| {
        deployment
            .spec
            .clone()
            .unwrap()
            .template
            .metadata
            .unwrap()
            .labels
            .unwrap()
    };
    let selected = |labels: &std::collections::BTreeMap<String, String>| {
        selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    assert!(selected(&labels(&objects.coordinator)));
    assert!(!selected(&labels(&objects.worker)));
    let other = Row {
        instance: InstanceId::from("cell-00000000"),
        ..Row::new()
    }
    .objects();
    assert!(!selected(&labels(&other.coordinator)));
}

#[test]
fn nothing_is_owned_finalized_or_mutable() {
    let objects = Row::new().objects();
    assert_eq!(objects.coordinator_config.immutable, Some(true));
    assert_eq!(objects.worker_config.immutable, Some(true));
    for metadata in [
        &objects.coordinator_config.metadata,
        &objects.worker_config.metadata,
        &objects.service.metadata,
        &objects.coordinator.metadata,
        &objects.worker.metadata,
    ] {
        assert_eq!(metadata.owner_references, None);
        assert_eq!(metadata.finalizers, None);
        assert_eq!(metadata.labels.as_ref().unwrap()[LABEL_POOL], "analytics");
        let annotations = metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations[ANNOTATION_SPEC_DIGEST], Row::new().digest.as_str());
        assert_eq!(annotations["trinopool.dev/authority-epoch"], "7");
    }
}

#[test]
fn catalogs_become_files_below_catalog_and_keys_hold_no_slash() {
    let objects = Row::new().objects();
    let data = objects.worker_config.data.unwrap();
    assert_eq!(data["catalog.tpch.properties"], "connector.name=tpch\n");
    assert_eq!(data["node.properties"], "node.environment=production\n");
    assert!(data.keys().all(|key| !key.contains('/')));
    let volume = pod(&objects.worker).volumes.unwrap().pop().unwrap();
    let source = volume.config_map.unwrap();
    assert_eq!(source.name, "cell-1a2b3c4d-worker-config");
    let paths: Vec<String> = source.items.unwrap().into_iter().map(|item| item.path).collect();
    assert_eq!(
        paths,
        ["catalog/tpch.properties", "config.properties", "node.properties"]
    );
}

#[test]
fn a_pool_s_own_node_properties_are_left_as_they_are() {
    let mut row = Row::new();
    let own = "node.environment=production\nnode.data-dir=/data\n".to_owned();
    row.blueprint
        .coordinator_files
        .insert("node.properties".to_owned(), own.clone());
    assert_eq!(
        row.objects().coordinator_config.data.unwrap()["node.properties"],
        own
    );
}

#[test]
fn every_container_knows_its_own_instance_and_only_that() {
    let mut row = Row::new();
    row.blueprint.worker_template = json!({"spec": {
        "containers": [
            {"name": "trino", "env": [{"name": "TRINO_POOL_INSTANCE", "value": "forged"}, {"name": "A", "value": "1"}]},
            {"name": "sidecar", "image": "s:1"},
        ],
        "initContainers": [{"name": "init", "image": "i:1"}],
    }});
    let pod = pod(&row.objects().worker);
    for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
        let env = container.env.clone().unwrap();
        let values = |name: &str| -> Vec<String> {
            let named = env.iter().filter(|variable| variable.name == name);
            named.filter_map(|variable| variable.value.clone()).collect()
        };
        assert_eq!(
            values("TRINO_POOL_INSTANCE"),
            ["cell-1a2b3c4d"],
            "{}",
            container.name
        );
        assert_eq!(values("TRINO_POOL_ENVIRONMENT"), ["production"]);
        assert_eq!(
            values("TRINO_POOL_DISCOVERY_URI"),
            ["http://cell-1a2b3c4d.trino.svc:8080"]
        );
    }
    assert_eq!(pod.containers[0].image.as_deref(), Some("trinodb/trino:483"));
    assert_eq!(pod.containers[1].image.as_deref(), Some("s:1"));
    assert_eq!(pod.containers[1].volume_mounts, None);
}

#[test]
fn pods_are_protected_from_birth_only_while_node_replacement_is_on() {
    let off = Row::new().objects();
    assert_eq!(pod_annotation(&off.worker, ANNOTATION_DO_NOT_DISRUPT), None);
    let on = Row {
        protect: true,
        ..Row::new()
    }
    .objects();
    for deployment in [&on.coordinator, &on.worker] {
        assert_eq!(
            pod_annotation(deployment, ANNOTATION_DO_NOT_DISRUPT).as_deref(),
            Some("true")
        );
    }
}

#[test]
fn k14_a_word_that_does_not_protect_is_overwritten() {
    let mut row = Row {
        protect: true,
        ..Row::new()
    };
    row.blueprint.worker_template["metadata"] = json!({"annotations": {ANNOTATION_DO_NOT_DISRUPT: "True"}});
    assert_eq!(
        pod_annotation(&row.objects().worker, ANNOTATION_DO_NOT_DISRUPT).as_deref(),
        Some("true")
    );
}

#[test]
fn w07_nodes_known_to_be_leaving_are_avoided_at_most_a_hundred_and_most_relevant_first() {
    let excluded = (0..150).map(|n| NodeName::new(format!("node-{n}"))).collect();
    let pod = pod(&Row {
        excluded,
        ..Row::new()
    }
    .objects()
    .worker);
    let nodes = pod.affinity.unwrap().node_affinity.unwrap();
    let preferred = nodes
        .preferred_during_scheduling_ignored_during_execution
        .unwrap();
    assert_eq!(
        preferred.len(),
        1,
        "one preference: a node is avoided by one weight, however many there are"
    );
    let fields = preferred[0].preference.match_fields.clone().unwrap();
    assert_eq!(fields.len(), EXCLUDED_NODES_MAX);
    assert_eq!(fields[0].values, Some(vec!["node-0".to_owned()]));
    assert!(
        fields
            .iter()
            .all(|field| field.key == "metadata.name" && field.operator == "NotIn")
    );
}

/// Karpenter launches no node for a pod whose required affinity names fields or hosts.
#[test]
fn excluded_nodes_never_keep_karpenter_from_launching_one() {
    let row = Row {
        excluded: vec![NodeName::from("a")],
        ..Row::new()
    };
    let nodes = pod(&row.objects().worker)
        .affinity
        .unwrap()
        .node_affinity
        .unwrap();
    assert_eq!(nodes.required_during_scheduling_ignored_during_execution, None);
}

#[test]
fn a_pool_s_own_affinity_is_kept() {
    let row = Row {
        excluded: vec![NodeName::from("a")],
        ..Row::new()
    };
    let own = row.blueprint.worker_template["spec"]["affinity"]["podAntiAffinity"].clone();
    let kept = pod(&row.objects().worker).affinity.unwrap().pod_anti_affinity;
    assert_eq!(serde_json::to_value(kept).unwrap(), own);
    assert!(own.is_object());
}

#[test]
fn w10_the_epoch_is_written_down_and_changes_nothing_else() {
    let strip = |epoch: u64| {
        let objects = Row { epoch, ..Row::new() }.objects();
        let mut value = serde_json::to_value(objects.worker).unwrap();
        value["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove("trinopool.dev/authority-epoch");
        value
    };
    assert_eq!(strip(7), strip(8));
    assert_ne!(
        Row {
            epoch: 7,
            ..Row::new()
        }
        .objects()
        .worker,
        Row {
            epoch: 8,
            ..Row::new()
        }
        .objects()
        .worker
    );
}

#[test]
fn what_cannot_be_rendered_says_why() {
    let broken = |change: fn(&mut Row)| {
        let mut row = Row::new();
        change(&mut row);
        row.render().unwrap_err().to_string()
    };
    assert_eq!(
        broken(|row| row.blueprint.container = "server".to_owned()),
        "the coordinator pod template has no container named server"
    );
    assert_eq!(
        broken(|row| row.pool = PoolId::from("analytics")),
        "analytics is not a pool id"
    );
    assert_eq!(
        broken(|row| row.instance = InstanceId::new("c".repeat(50))),
        format!(
            "the name {}-coordinator-config is longer than 63 characters",
            "c".repeat(50)
        )
    );
    assert!(
        broken(|row| row.blueprint.worker_template = json!({"spec": {"containers": "none"}}))
            .starts_with("the worker pod template cannot be read: ")
    );
    assert_eq!(
        broken(|row| row.blueprint.workers = u32::MAX),
        "4294967295 workers are too many"
    );
}

proptest! {
    /// A stored template may be anything: it renders or says why, and never panics.
    #[test]
    fn any_stored_template_renders_or_says_why(name in "[a-z]{0,8}", labels in proptest::collection::btree_map("[a-z]{1,4}", "[a-z]{0,4}", 0..4), odd in any::<bool>()) {
        let mut row = Row::new();
        row.blueprint.worker_template = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": name}, {"name": "trino"}], "volumes": if odd { Value::Null } else { json!([]) }},
        });
        let first = row.render();
        prop_assert_eq!(first.is_ok(), row.render().is_ok());
        if let Ok(manifests) = first {
            prop_assert_eq!(manifests.to_vec(), row.render().unwrap().to_vec());
        }
    }
}
