//! What the cluster's own controllers make of an object: Deployments get pods, and pods get nodes, all at once.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trino_pool_operator::cluster::facts::{
    ContainerFacts, DeploymentFacts, ObjectFacts, ObjectKind, OwnerRef, PodFacts, ReplicaSetFacts,
};
use trino_pool_operator::pool::ids::{
    ContainerId, Namespace, NodeName, ObjectName, ObjectUid, PodUid, ResourceVersion,
};

use super::Inner;

const PROTECTION: &str = "karpenter.sh/do-not-disrupt";

impl Inner {
    /// What is known of an object once it is made.
    pub fn object(&mut self, kind: ObjectKind, meta: &ObjectMeta) -> ObjectFacts {
        ObjectFacts {
            kind,
            namespace: Namespace::new(meta.namespace.clone().unwrap()),
            name: ObjectName::new(meta.name.clone().unwrap()),
            uid: ObjectUid::new(self.next("uid")),
            resource_version: ResourceVersion::new("1"),
            labels: meta.labels.clone().unwrap_or_default(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            deleting: false,
        }
    }

    /// The Deployment controller, the scheduler and the kubelet, all at once.
    pub fn run(&mut self, object: &ObjectFacts, replicas: i32, template: &PodTemplateSpec) {
        let mut ready = 0;
        let set = ReplicaSetFacts {
            name: ObjectName::new(format!("{}-rs", object.name)),
            uid: ObjectUid::new(self.next("rs")),
            owners: vec![controller(
                "apps/v1",
                "Deployment",
                object.name.as_str(),
                object.uid.as_str(),
            )],
            wanted: u32::try_from(replicas).unwrap(),
        };
        for index in 0..replicas {
            let node = self.place(&serde_json::to_string(template).unwrap());
            let meta = template.metadata.clone().unwrap_or_default();
            let spec = template.spec.clone().unwrap();
            let mut containers = BTreeMap::new();
            for container in &spec.containers {
                let running = ContainerId::new(self.next("container"));
                let facts = ContainerFacts {
                    image: container.image.clone(),
                    running: Some(running),
                    ..ContainerFacts::default()
                };
                containers.insert(container.name.clone(), facts);
            }
            let config_maps = spec
                .volumes
                .unwrap_or_default()
                .into_iter()
                .filter_map(|volume| Some(ObjectName::new(volume.config_map?.name)))
                .collect();
            ready += u32::from(node.is_some());
            let uid = PodUid::new(self.next("pod"));
            self.pods.push(PodFacts {
                name: ObjectName::new(format!("{}-{index}", set.name)),
                uid,
                resource_version: ResourceVersion::new("1"),
                labels: meta.labels.unwrap_or_default(),
                owners: vec![controller(
                    "apps/v1",
                    "ReplicaSet",
                    set.name.as_str(),
                    set.uid.as_str(),
                )],
                do_not_disrupt: meta.annotations.unwrap_or_default().get(PROTECTION).cloned(),
                finished: false,
                terminating: false,
                ready: node.is_some(),
                node,
                ip: Some("10.0.0.1".into()),
                started_at: None,
                containers,
                config_maps,
                unschedulable_because: None,
            });
        }
        self.replica_sets.push(set);
        self.deployments.push(DeploymentFacts {
            object: object.clone(),
            replicas: Some(u32::try_from(replicas).unwrap()),
            ready,
            generation: 1,
        });
    }

    /// The emptiest schedulable node that the template does not exclude by name.
    fn place(&self, template: &str) -> Option<NodeName> {
        let load = |name: &NodeName| {
            self.pods
                .iter()
                .filter(|pod| pod.node.as_ref() == Some(name))
                .count()
        };
        self.nodes
            .values()
            .filter(|node| !node.unschedulable && !template.contains(&format!("\"{}\"", node.name)))
            .map(|node| (load(&node.name), node.name.clone()))
            .min()
            .map(|(_, name)| name)
    }
}

fn controller(api: &str, kind: &str, name: &str, uid: &str) -> OwnerRef {
    OwnerRef {
        api_version: api.into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
        controller: true,
    }
}
