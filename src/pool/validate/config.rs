//! Config files and catalogs: what must be in them for an instance to be itself, and what must not be
//! for a drain to lose nothing.

use std::collections::BTreeMap;

use super::Problems;
use crate::pool::blueprint::config_data;
use crate::pool::desired::Blueprint;
use crate::pool::names::{CATALOG_KEY_PREFIX, ENV_DISCOVERY_URI, ENV_ENVIRONMENT};

/// Kubernetes' own limit is 1 MiB for the whole object; this leaves room for names and metadata.
const CONFIG_MAP_MAX: usize = 1_000_000;

pub(super) fn check(blueprint: &Blueprint, files_path: &str, catalogs_path: &str, problems: &Problems) {
    for (component, files) in [
        ("coordinator", &blueprint.coordinator_files),
        ("worker", &blueprint.worker_files),
    ] {
        let path = format!("{files_path}.{component}");
        for name in files.keys() {
            check_file_name(&path, name, problems);
        }
        check_config_properties(&path, component, files, blueprint, problems);
        check_node_properties(&path, files, blueprint, problems);
        let size: usize = config_data(blueprint, files)
            .iter()
            .map(|(key, text)| key.len() + text.len())
            .sum();
        if size > CONFIG_MAP_MAX {
            problems.add(
                path,
                format!("is {size} bytes with the catalogs, more than {CONFIG_MAP_MAX}"),
                "shorten it: a ConfigMap holds no more",
            );
        }
    }
    for (catalog, text) in &blueprint.catalogs {
        check_catalog(&format!("{catalogs_path}.{catalog}"), catalog, text, problems);
    }
}

fn check_file_name(path: &str, name: &str, problems: &Problems) {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let usable = !name.is_empty() && name.len() <= 200 && name.bytes().all(valid) && !name.starts_with("..");
    if !usable || name == "." {
        problems.add(
            format!("{path}.{name}"),
            "is no name of a config file",
            "use at most 200 of A-Z a-z 0-9 _ - . without a leading ..",
        );
    } else if name.starts_with(CATALOG_KEY_PREFIX) {
        problems.add(
            format!("{path}.{name}"),
            format!("begins with {CATALOG_KEY_PREFIX}, which is kept for catalogs"),
            "move it to spec.template.catalogs",
        );
    }
}

fn check_config_properties(
    path: &str,
    component: &str,
    files: &BTreeMap<String, String>,
    blueprint: &Blueprint,
    problems: &Problems,
) {
    let path = format!("{path}.config.properties");
    let Some(text) = files.get("config.properties") else {
        problems.add(
            path,
            "is missing",
            "the instance's own files replace the image's etc directory, so Trino needs it",
        );
        return;
    };
    let properties = properties(text);
    let value = |key: &str| properties.get(key).map(String::as_str);
    let at = |key: &str| format!("{path}[{key}]");

    let coordinator = component == "coordinator";
    let role = value("coordinator");
    if coordinator && role.is_some_and(|role| role != "true") {
        problems.add(
            at("coordinator"),
            "is not true",
            "a coordinator's file says coordinator=true",
        );
    }
    if !coordinator && role != Some("false") {
        problems.add(
            at("coordinator"),
            "is not false",
            "a worker's file says coordinator=false",
        );
    }
    let own = format!("${{ENV:{ENV_DISCOVERY_URI}}}");
    let uri = value("discovery.uri");
    if uri.is_some_and(|uri| uri != own) || (uri.is_none() && !coordinator) {
        problems.add(
            at("discovery.uri"),
            "does not name the instance's own coordinator",
            format!("write discovery.uri={own}, or workers join another instance"),
        );
    }
    let port = value("http-server.http.port");
    if coordinator && port.is_some_and(|port| port != blueprint.http_port.to_string()) {
        problems.add(
            at("http-server.http.port"),
            format!("differs from spec.template.httpPort, {}", blueprint.http_port),
            "make them equal",
        );
    }
    check_spooling(&at("protocol.spooling.retrieval-mode"), &properties, problems);
}

/// With spooling, a client fetches result segments after its query has finished and the gateway counts
/// nothing for it any more. Only `STORAGE` keeps the instance out of that; every other retrieval mode
/// sends the client through this coordinator or its workers, which a retirement removes.
fn check_spooling(path: &str, properties: &BTreeMap<String, String>, problems: &Problems) {
    let value = |key: &str| properties.get(key).map(String::as_str);
    let enabled = value("protocol.spooling.enabled").is_some_and(|enabled| enabled != "false");
    let mode = value("protocol.spooling.retrieval-mode").unwrap_or("STORAGE");
    if enabled && !mode.eq_ignore_ascii_case("STORAGE") {
        problems.add(
            path,
            format!("is {mode}: clients fetch segments through the instance after their query has ended"),
            "use STORAGE, so that a retired instance takes no result with it",
        );
    }
}

fn check_node_properties(
    path: &str,
    files: &BTreeMap<String, String>,
    blueprint: &Blueprint,
    problems: &Problems,
) {
    // Rendered by us when it is left out.
    let Some(text) = files.get("node.properties") else {
        return;
    };
    let own = format!("${{ENV:{ENV_ENVIRONMENT}}}");
    let properties = properties(text);
    let environment = properties.get("node.environment");
    if environment.is_none_or(|environment| *environment != own && *environment != blueprint.environment) {
        problems.add(
            format!("{path}.node.properties[node.environment]"),
            "is not spec.template.environment",
            format!("write node.environment={own}, or leave node.properties out"),
        );
    }
}

fn check_catalog(path: &str, catalog: &str, text: &str, problems: &Problems) {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if catalog.is_empty() || catalog.len() > 100 || !catalog.bytes().all(valid) {
        problems.add(
            path,
            "is no name of a catalog",
            "use at most 100 of A-Z a-z 0-9 _ -",
        );
    }
    if catalog == "system" {
        problems.add(path, "is Trino's own catalog", "choose another name");
    }
    if properties(text)
        .get("connector.name")
        .is_none_or(String::is_empty)
    {
        problems.add(path, "names no connector", "write connector.name=<connector>");
    }
}

/// Java properties, as far as Trino's own files go: one `key=value` or `key: value` a line.
fn properties(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '!']))
        .filter_map(|line| line.split_once(['=', ':']))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}
