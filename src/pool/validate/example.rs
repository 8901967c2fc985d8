//! The smallest useful spec: what the documentation shows and `simulate` starts from.

use serde_json::{Value, json};

/// A valid spec of a pool with this routing group: three instances of two workers each, node replacement
/// on, everything else by default.
#[must_use]
pub fn example_spec(routing_group: &str) -> Value {
    let pod = json!({
        "spec": {
            "containers": [{
                "name": "trino",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }],
            // Trino workers and coordinators do not share a node: one node leaving takes one of them.
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "trino-pool-operator"}},
                "topologyKey": "kubernetes.io/hostname",
            }]}},
        },
    });
    json!({
        "routingGroup": routing_group,
        "instances": 3,
        "minServing": 2,
        "release": "1",
        "nodeReplacement": {"enabled": true},
        "template": {
            "image": "trinodb/trino:483",
            "environment": "production",
            "coordinator": {"podTemplate": pod.clone()},
            "workers": {"replicas": 2, "podTemplate": pod},
            "configFiles": {
                "coordinator": {
                    "config.properties": "coordinator=true\n\
                                          node-scheduler.include-coordinator=false\n\
                                          http-server.http.port=8080\n\
                                          discovery.uri=${ENV:TRINO_POOL_DISCOVERY_URI}\n",
                },
                "worker": {
                    "config.properties": "coordinator=false\n\
                                          http-server.http.port=8080\n\
                                          discovery.uri=${ENV:TRINO_POOL_DISCOVERY_URI}\n",
                },
            },
            "catalogs": {"tpch": "connector.name=tpch\n"},
        },
    })
}
