//! Defaults and validation of content: only the rules that a client of these kinds can run into.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::super::json as j;
use super::super::resource::Resource;
use super::status::ApiError;

/// Fills in what the real server defaults on create.
pub(crate) fn defaults(resource: Resource, object: &mut Value, rng: &mut ChaCha8Rng) {
    match resource {
        Resource::Deployments => {
            default(object, &["spec", "replicas"], json!(1));
            default(object, &["spec", "progressDeadlineSeconds"], json!(600));
            default(object, &["spec", "revisionHistoryLimit"], json!(10));
            default(
                object,
                &["spec", "strategy"],
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
            );
            pod_defaults(object, &["spec", "template", "spec"]);
        }
        Resource::ReplicaSets => {
            default(object, &["spec", "replicas"], json!(1));
            pod_defaults(object, &["spec", "template", "spec"]);
        }
        Resource::Pods => {
            pod_defaults(object, &["spec"]);
            tolerate_brief_outages(object);
            j::set(object, &["status"], json!({"phase": "Pending"}));
        }
        Resource::Services => {
            default(object, &["spec", "type"], json!("ClusterIP"));
            default(object, &["spec", "sessionAffinity"], json!("None"));
            let ip = format!("10.96.{}.{}", rng.random_range(0..255), rng.random_range(1..255));
            default(object, &["spec", "clusterIP"], json!(ip));
            j::set(object, &["status"], json!({"loadBalancer": {}}));
        }
        Resource::Namespaces => {
            let name = j::name(object).to_owned();
            j::set(
                object,
                &["metadata", "labels", "kubernetes.io/metadata.name"],
                json!(name),
            );
            j::set(object, &["status"], json!({"phase": "Active"}));
        }
        Resource::Nodes
        | Resource::ConfigMaps
        | Resource::Events
        | Resource::Leases
        | Resource::NodeClaims
        | Resource::NodePools
        | Resource::TrinoPools
        | Resource::CustomResourceDefinitions => {}
    }
}

/// Every pod outlives a node's outage of five minutes (the admission plugin DefaultTolerationSeconds).
fn tolerate_brief_outages(pod: &mut Value) {
    let Some(list) = j::list_mut(pod, &["spec", "tolerations"]) else {
        return;
    };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if list.iter().all(|entry| j::text(entry, &["key"]) != Some(key)) {
            list.push(json!({
                "effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300,
            }));
        }
    }
}

/// Defaults of a pod spec at `path`.
pub(crate) fn pod_defaults(object: &mut Value, path: &[&str]) {
    let spec = j::slot(object, path);
    default(spec, &["restartPolicy"], json!("Always"));
    default(spec, &["terminationGracePeriodSeconds"], json!(30));
    default(spec, &["dnsPolicy"], json!("ClusterFirst"));
    default(spec, &["schedulerName"], json!("default-scheduler"));
    default(spec, &["securityContext"], json!({}));
    if let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) {
        for container in containers {
            default(container, &["imagePullPolicy"], json!("IfNotPresent"));
            default(
                container,
                &["terminationMessagePath"],
                json!("/dev/termination-log"),
            );
            default(container, &["terminationMessagePolicy"], json!("File"));
        }
    }
}

fn default(object: &mut Value, path: &[&str], value: Value) {
    let slot = j::slot(object, path);
    if slot.is_null() {
        *slot = value;
    }
}

/// Checks a new object.
pub(crate) fn created(resource: Resource, object: &Value) -> Result<(), ApiError> {
    let name = j::name(object);
    let stem = j::text(object, &["metadata", "generateName"]).unwrap_or_default();
    if name.is_empty() && stem.is_empty() {
        return Err(ApiError::invalid(
            resource,
            "",
            "metadata.name: Required value: name or generateName is required",
        ));
    }
    if !name.is_empty() && !is_dns_name(name) {
        return Err(ApiError::invalid(
            resource,
            name,
            format!(
                "metadata.name: Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
            ),
        ));
    }
    labels(resource, object)?;
    match resource {
        Resource::Deployments | Resource::ReplicaSets => {
            let Some(selector) = j::map(object, &["spec", "selector", "matchLabels"]) else {
                return Err(ApiError::invalid(resource, name, "spec.selector: Required value"));
            };
            let template = j::map(object, &["spec", "template", "metadata", "labels"]);
            let matches = selector
                .iter()
                .all(|(key, value)| template.and_then(|labels| labels.get(key)) == Some(value));
            if !matches {
                return Err(ApiError::invalid(
                    resource,
                    name,
                    "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`",
                ));
            }
            containers(resource, object, &["spec", "template", "spec", "containers"])
        }
        Resource::Pods => containers(resource, object, &["spec", "containers"]),
        Resource::Services => {
            if j::items(object, &["spec", "ports"]).is_empty() {
                return Err(ApiError::invalid(resource, name, "spec.ports: Required value"));
            }
            Ok(())
        }
        Resource::TrinoPools => {
            if object.get("spec").is_none_or(|spec| !spec.is_object()) {
                return Err(ApiError::invalid(resource, name, "spec: Required value"));
            }
            Ok(())
        }
        Resource::Namespaces
        | Resource::Nodes
        | Resource::ConfigMaps
        | Resource::Events
        | Resource::Leases
        | Resource::NodeClaims
        | Resource::NodePools
        | Resource::CustomResourceDefinitions => Ok(()),
    }
}

/// Checks a change of an object.
pub(crate) fn updated(resource: Resource, old: &Value, new: &Value) -> Result<(), ApiError> {
    let name = j::name(old);
    labels(resource, new)?;
    let changed = |path: &[&str]| j::at(old, path) != j::at(new, path);
    match resource {
        Resource::ConfigMaps if j::at(old, &["immutable"]) == Some(&json!(true)) => {
            for field in ["data", "binaryData"] {
                if changed(&[field]) {
                    return Err(ApiError::invalid(
                        resource,
                        name,
                        format!("{field}: Forbidden: field is immutable when `immutable` is set"),
                    ));
                }
            }
            if changed(&["immutable"]) {
                return Err(ApiError::invalid(
                    resource,
                    name,
                    "immutable: Forbidden: field is immutable when `immutable` is set",
                ));
            }
            Ok(())
        }
        Resource::Deployments | Resource::ReplicaSets if changed(&["spec", "selector"]) => Err(
            ApiError::invalid(resource, name, "spec.selector: Invalid value: field is immutable"),
        ),
        Resource::NodeClaims if changed(&["spec"]) => Err(ApiError::invalid(
            resource,
            name,
            "spec: Invalid value: spec is immutable",
        )),
        Resource::Pods if pod_spec_changed(old, new) => Err(ApiError::invalid(
            resource,
            name,
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )),
        Resource::Nodes
            if changed(&["spec", "providerID"]) && j::text(old, &["spec", "providerID"]).is_some() =>
        {
            Err(ApiError::invalid(
                resource,
                name,
                "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            ))
        }
        Resource::Namespaces
        | Resource::Nodes
        | Resource::Pods
        | Resource::Services
        | Resource::ConfigMaps
        | Resource::Events
        | Resource::Deployments
        | Resource::ReplicaSets
        | Resource::Leases
        | Resource::NodeClaims
        | Resource::NodePools
        | Resource::TrinoPools
        | Resource::CustomResourceDefinitions => Ok(()),
    }
}

fn pod_spec_changed(old: &Value, new: &Value) -> bool {
    let frozen = |pod: &Value| {
        let mut spec = pod.get("spec").cloned().unwrap_or_default();
        for field in ["activeDeadlineSeconds", "tolerations"] {
            j::remove(&mut spec, &[field]);
        }
        if let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) {
            for container in containers {
                j::remove(container, &["image"]);
            }
        }
        spec
    };
    frozen(old) != frozen(new)
}

fn containers(resource: Resource, object: &Value, path: &[&str]) -> Result<(), ApiError> {
    let containers = j::items(object, path);
    let field = path.join(".");
    if containers.is_empty() {
        return Err(ApiError::invalid(
            resource,
            j::name(object),
            format!("{field}: Required value"),
        ));
    }
    for (index, container) in containers.iter().enumerate() {
        for key in ["name", "image"] {
            if j::text(container, &[key]).is_none_or(str::is_empty) {
                return Err(ApiError::invalid(
                    resource,
                    j::name(object),
                    format!("{field}[{index}].{key}: Required value"),
                ));
            }
        }
    }
    Ok(())
}

fn labels(resource: Resource, object: &Value) -> Result<(), ApiError> {
    let Some(labels) = j::map(object, &["metadata", "labels"]) else {
        return Ok(());
    };
    for (key, value) in labels {
        let value = value.as_str();
        let valid = value.is_some_and(is_label_value) && is_label_key(key);
        if !valid {
            return Err(ApiError::invalid(
                resource,
                j::name(object),
                format!(
                    "metadata.labels: Invalid value: \"{}\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, and must be no more than 63 characters",
                    value.unwrap_or(key)
                ),
            ));
        }
    }
    Ok(())
}

fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, n)| (Some(p), n));
    prefix.is_none_or(is_dns_name) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(value: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && edge(value.chars().next())
        && edge(value.chars().next_back())
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_dns_name(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= 253
        && edge(name.chars().next())
        && edge(name.chars().next_back())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
}
