//! Pod templates: they must decode completely, leave to the operator what is the operator's, and not
//! undo what protects them.

use k8s_openapi::api::core::v1::{Container, NodeSelectorTerm, PodSpec, PodTemplateSpec, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::Problems;
use super::fields::Fields;
use crate::pool::names::{
    ANNOTATION_DO_NOT_DISRUPT, ANNOTATION_EPOCH, ANNOTATION_RELEASE, ANNOTATION_SPEC_DIGEST, CONFIG_DIR,
    CONFIG_VOLUME, DO_NOT_DISRUPT, INJECTED_ENV, LABEL_COMPONENT, LABEL_INSTANCE, LABEL_MANAGED_BY,
    LABEL_POOL,
};

const OURS: &str = "remove it: the operator sets it";
const NODE_HOSTNAME: &str = "kubernetes.io/hostname";

/// What the templates are checked against.
pub(super) struct Checks<'a> {
    pub(super) image: &'a str,
    pub(super) container: &'a str,
    pub(super) service_account: Option<&'a str>,
    /// Node replacement is enabled: Karpenter has to launch nodes for these pods.
    pub(super) on_karpenter: bool,
    pub(super) problems: &'a Problems,
}

impl Checks<'_> {
    /// Reads and checks `podTemplate`; the value is stored as it was given.
    pub(super) fn pod_template(&self, fields: &mut Fields<'_>) -> Value {
        let path = fields.path_of("podTemplate");
        let Some(raw) = fields.raw("podTemplate") else {
            self.problems.add(path, "is missing", "it is required");
            return json!({});
        };
        match serde_json::from_value::<PodTemplateSpec>(raw.clone()) {
            Err(error) => {
                self.problems.add(
                    path,
                    format!("is no pod template: {error}"),
                    "see v1.PodTemplateSpec",
                );
            }
            Ok(template) => {
                self.unknown(&path, raw, &template);
                if let Some(metadata) = &template.metadata {
                    self.metadata(&format!("{path}.metadata"), metadata);
                }
                let spec = template.spec.unwrap_or_default();
                self.pod(&format!("{path}.spec"), &spec);
            }
        }
        raw.clone()
    }

    /// A field that does not survive decoding would be dropped in silence.
    fn unknown(&self, path: &str, raw: &Value, template: &PodTemplateSpec) {
        match serde_json::to_value(template) {
            Ok(known) => self.dropped(path, raw, &known),
            Err(error) => self.problems.add(
                path,
                format!("cannot be encoded: {error}"),
                "see v1.PodTemplateSpec",
            ),
        }
    }

    fn dropped(&self, path: &str, raw: &Value, known: &Value) {
        match (raw, known) {
            (Value::Object(raw), Value::Object(known)) => {
                for (key, value) in raw.iter().filter(|(_, value)| !value.is_null()) {
                    let path = format!("{path}.{key}");
                    match known.get(key) {
                        Some(known) => self.dropped(&path, value, known),
                        None => self.problems.add(
                            path,
                            "is not a field of a v1.PodTemplateSpec this operator knows",
                            "remove it or correct its spelling",
                        ),
                    }
                }
            }
            (Value::Array(raw), Value::Array(known)) => {
                for (index, (raw, known)) in raw.iter().zip(known).enumerate() {
                    self.dropped(&format!("{path}[{index}]"), raw, known);
                }
            }
            _ => {}
        }
    }

    fn metadata(&self, path: &str, metadata: &ObjectMeta) {
        let set = [
            ("name", metadata.name.is_some()),
            ("generateName", metadata.generate_name.is_some()),
            ("namespace", metadata.namespace.is_some()),
            ("ownerReferences", metadata.owner_references.is_some()),
            ("finalizers", metadata.finalizers.is_some()),
        ];
        for (field, _) in set.into_iter().filter(|(_, set)| *set) {
            self.problems
                .add(format!("{path}.{field}"), "is set", "remove it");
        }
        for label in [LABEL_INSTANCE, LABEL_POOL, LABEL_MANAGED_BY, LABEL_COMPONENT] {
            if metadata
                .labels
                .as_ref()
                .is_some_and(|labels| labels.contains_key(label))
            {
                self.problems
                    .add(format!("{path}.labels[{label}]"), "is set", OURS);
            }
        }
        let annotation = |name: &str| metadata.annotations.as_ref().and_then(|all| all.get(name));
        for name in [ANNOTATION_SPEC_DIGEST, ANNOTATION_EPOCH, ANNOTATION_RELEASE] {
            if annotation(name).is_some() {
                self.problems
                    .add(format!("{path}.annotations[{name}]"), "is set", OURS);
            }
        }
        if annotation(ANNOTATION_DO_NOT_DISRUPT).is_some_and(|value| value != DO_NOT_DISRUPT) {
            self.problems.add(
                format!("{path}.annotations[{ANNOTATION_DO_NOT_DISRUPT}]"),
                "does not protect: Karpenter honours only the exact word true without an end",
                "write \"true\" or leave it out",
            );
        }
    }

    fn pod(&self, path: &str, spec: &PodSpec) {
        let forbidden = [
            (
                "nodeName",
                spec.node_name.is_some(),
                "it binds every instance to one node",
            ),
            (
                "hostNetwork",
                spec.host_network == Some(true),
                "instances would share ports",
            ),
            (
                "hostPID",
                spec.host_pid == Some(true),
                "an instance must not reach others' processes",
            ),
            (
                "hostIPC",
                spec.host_ipc == Some(true),
                "an instance must not reach others' memory",
            ),
            (
                "activeDeadlineSeconds",
                spec.active_deadline_seconds.is_some(),
                "it would end a serving instance",
            ),
            (
                "restartPolicy",
                spec.restart_policy
                    .as_deref()
                    .is_some_and(|policy| policy != "Always"),
                "a Deployment allows Always only",
            ),
        ];
        for (field, _, why) in forbidden.into_iter().filter(|(_, set, _)| *set) {
            self.problems
                .add(format!("{path}.{field}"), format!("is set: {why}"), "remove it");
        }
        let account = spec.service_account_name.as_deref();
        if self.service_account.is_some() && account.is_some() && account != self.service_account {
            self.problems.add(
                format!("{path}.serviceAccountName"),
                "differs from spec.template.serviceAccountName",
                "set it in one place",
            );
        }
        self.containers(path, spec);
        for (index, volume) in spec.volumes.iter().flatten().enumerate() {
            if volume.name == CONFIG_VOLUME {
                self.problems.add(
                    format!("{path}.volumes[{index}]"),
                    format!("is called {CONFIG_VOLUME}"),
                    OURS,
                );
            }
        }
        for (index, toleration) in spec.tolerations.iter().flatten().enumerate() {
            self.toleration(&format!("{path}.tolerations[{index}]"), toleration);
        }
        if self.on_karpenter {
            self.placement(path, spec);
        }
    }

    fn containers(&self, path: &str, spec: &PodSpec) {
        let count = spec.containers.len();
        if !(1..=8).contains(&count) {
            self.problems.add(
                format!("{path}.containers"),
                format!("has {count} containers"),
                "use 1 to 8",
            );
        }
        let main = spec
            .containers
            .iter()
            .filter(|container| container.name == self.container)
            .count();
        if main != 1 {
            self.problems.add(
                format!("{path}.containers"),
                format!("has {main} containers named {}", self.container),
                "name exactly one so, or set spec.template.containerName",
            );
        }
        let mut all: Vec<(String, &Container, bool)> = Vec::new();
        for (index, container) in spec.containers.iter().enumerate() {
            all.push((
                format!("{path}.containers[{index}]"),
                container,
                container.name == self.container,
            ));
        }
        for (index, container) in spec.init_containers.iter().flatten().enumerate() {
            all.push((format!("{path}.initContainers[{index}]"), container, false));
        }
        for (path, container, main) in all {
            self.container(&path, container, main);
        }
    }

    fn container(&self, path: &str, container: &Container, main: bool) {
        let image = container.image.as_deref();
        if main && image.is_some_and(|image| image != self.image) {
            self.problems.add(
                format!("{path}.image"),
                "differs from spec.template.image",
                "leave it out: spec.template.image is used",
            );
        }
        if !main && image.is_none_or(str::is_empty) {
            self.problems
                .add(format!("{path}.image"), "is missing", "it is required");
        }
        for variable in container.env.iter().flatten() {
            if INJECTED_ENV.contains(&variable.name.as_str()) {
                self.problems
                    .add(format!("{path}.env[{}]", variable.name), "is set", OURS);
            }
        }
        for mount in container.volume_mounts.iter().flatten() {
            let taken = mount.mount_path.trim_end_matches('/') == CONFIG_DIR;
            if main && taken {
                self.problems.add(
                    format!("{path}.volumeMounts[{}]", mount.name),
                    format!("covers {CONFIG_DIR}"),
                    "mount it elsewhere: the instance's config files are there",
                );
            }
        }
    }

    /// A pod that tolerates being disrupted is put back on the cordoned node, and Karpenter neither
    /// evicts it nor waits for it (Karpenter pkg/utils/pod/scheduling.go).
    fn toleration(&self, path: &str, toleration: &Toleration) {
        const TAINTS: [&str; 3] = [
            "node.kubernetes.io/unschedulable",
            "karpenter.sh/disrupted",
            "karpenter.sh/disruption",
        ];
        // All three taints have effect NoSchedule; a toleration without an effect covers every effect.
        let covers_effect = matches!(toleration.effect.as_deref(), None | Some("" | "NoSchedule"));
        let covered = match toleration.key.as_deref() {
            None | Some("") => Some("every taint"),
            Some(key) => TAINTS.into_iter().find(|taint| *taint == key),
        };
        if let Some(covered) = covered.filter(|_| covers_effect) {
            self.problems.add(
                path,
                format!("tolerates {covered}: the pod would return to a node that is leaving, unprotected"),
                "tolerate only the taints of your own node pools",
            );
        }
    }

    /// Karpenter launches nothing for a pod whose required placement names a host or a field
    /// (Karpenter pkg/controllers/provisioning/provisioner.go).
    fn placement(&self, path: &str, spec: &PodSpec) {
        const FIX: &str = "name labels of your node pools instead";
        if spec
            .node_selector
            .as_ref()
            .is_some_and(|labels| labels.contains_key(NODE_HOSTNAME))
        {
            self.problems.add(
                format!("{path}.nodeSelector[{NODE_HOSTNAME}]"),
                "names a host: Karpenter launches no node for such a pod",
                FIX,
            );
        }
        let required = spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref())
            .and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref());
        for (index, term) in required
            .iter()
            .flat_map(|required| &required.node_selector_terms)
            .enumerate()
        {
            if names_a_host(term) {
                self.problems.add(
                    format!(
                        "{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.\
                         nodeSelectorTerms[{index}]"
                    ),
                    "names a host: Karpenter launches no node for such a pod",
                    FIX,
                );
            }
        }
    }
}

fn names_a_host(term: &NodeSelectorTerm) -> bool {
    term.match_fields
        .as_ref()
        .is_some_and(|fields| !fields.is_empty())
        || term
            .match_expressions
            .iter()
            .flatten()
            .any(|expression| expression.key == NODE_HOSTNAME)
}
