//! Discovery, version and health: enough for kubectl and for a client that asks what is served.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::super::resource::Resource;
use super::status::{ApiError, answer, plain};

/// Answers a path outside the resources.
pub(crate) fn discover(
    path: &[String],
    served: impl Fn(Resource) -> bool,
) -> Result<Response<Bytes>, ApiError> {
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let served: Vec<Resource> = Resource::ALL
        .into_iter()
        .filter(|resource| served(*resource))
        .collect();
    match words.as_slice() {
        ["version"] => Ok(answer(
            StatusCode::OK,
            &json!({
                "major": "1", "minor": "35", "gitVersion": "v1.35.0", "gitCommit": "simulated",
                "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z", "goVersion": "none",
                "compiler": "none", "platform": "linux/amd64",
            }),
        )),
        ["healthz" | "readyz" | "livez", ..] => Ok(plain(StatusCode::OK, "ok", "text/plain; charset=utf-8")),
        ["api"] => Ok(answer(
            StatusCode::OK,
            &json!({
                "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
            }),
        )),
        ["apis"] => Ok(answer(
            StatusCode::OK,
            &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(&served)}),
        )),
        ["apis", group] => groups(&served)
            .into_iter()
            .find(|entry| entry["name"] == *group)
            .map(|mut entry| {
                entry["kind"] = json!("APIGroup");
                entry["apiVersion"] = json!("v1");
                answer(StatusCode::OK, &entry)
            })
            .ok_or(ApiError::NotServed),
        ["api", version] => resources(&served, "", version),
        ["apis", group, version] => resources(&served, group, version),
        _ => Err(ApiError::NotServed),
    }
}

fn groups(served: &[Resource]) -> Vec<Value> {
    let mut groups: Vec<(&str, &str)> = served
        .iter()
        .map(|resource| (resource.kind().group, resource.kind().version))
        .filter(|(group, _)| !group.is_empty())
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
        .into_iter()
        .map(|(group, version)| {
            let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
            json!({"name": group, "versions": [version.clone()], "preferredVersion": version})
        })
        .collect()
}

fn resources(served: &[Resource], group: &str, version: &str) -> Result<Response<Bytes>, ApiError> {
    let mut entries = Vec::new();
    for resource in served {
        let kind = resource.kind();
        if kind.group != group || kind.version != version {
            continue;
        }
        entries.push(json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        }));
        if kind.status {
            entries.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "",
                "namespaced": kind.namespaced, "kind": kind.kind, "verbs": ["get", "patch", "update"],
            }));
        }
        if *resource == Resource::Pods {
            entries.push(json!({
                "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy",
                "version": "v1", "kind": "Eviction", "verbs": ["create"],
            }));
        }
    }
    if entries.is_empty() {
        return Err(ApiError::NotServed);
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Ok(answer(
        StatusCode::OK,
        &json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": entries,
        }),
    ))
}
