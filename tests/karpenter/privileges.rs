//! The operator's ServiceAccount, the roles in deploy/ that it is bound to, and what they grant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::audit::{Asked, FORBIDDEN};
use crate::cluster::Cluster;

pub const ACCOUNT: &str = "trino-pool-operator";

/// The roles of deploy/roles.yaml, and whether each is bound in the whole cluster.
const ROLES: [(&str, bool); 3] = [
    ("trino-pool-operator", true),
    ("trino-pool-operator-pools", false),
    ("trino-pool-operator-lease", false),
];

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A permission that is taken away: a verb, and a resource.
#[derive(Clone, Copy)]
pub struct Without(pub &'static str, pub &'static str);

/// Makes the account in a namespace, bound to the roles; where its kubeconfig is.
pub async fn service_account(
    cluster: &Cluster,
    namespace: &str,
    without: Option<Without>,
    folder: &Path,
) -> PathBuf {
    let admin = &cluster.admin;
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    admin
        .create(&accounts, &json!({"metadata": {"name": ACCOUNT}}))
        .await;
    for (role, everywhere) in ROLES {
        let role = match without {
            Some(without) => reduced(cluster, role, namespace, without).await,
            None => role.to_owned(),
        };
        let (kind, path) = if everywhere {
            ("ClusterRoleBinding", format!("{RBAC}/clusterrolebindings"))
        } else {
            (
                "RoleBinding",
                format!("{RBAC}/namespaces/{namespace}/rolebindings"),
            )
        };
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": format!("{role}-{namespace}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        });
        admin.create(&path, &binding).await;
    }
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 7200},
    });
    let granted = admin
        .create(&format!("{accounts}/{ACCOUNT}/token"), &request)
        .await;
    let kubeconfig = Kubeconfig::read_from(cluster.plane.kubeconfig()).unwrap();
    let own = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "story",
        "contexts": [{"name": "story", "context": {"cluster": "real", "user": ACCOUNT}}],
        "clusters": [{"name": "real", "cluster": kubeconfig.clusters[0].cluster}],
        "users": [{"name": ACCOUNT, "user": {"token": granted["status"]["token"]}}],
    });
    let path = folder.join("kubeconfig");
    std::fs::write(&path, own.to_string()).unwrap();
    path
}

/// A copy of a role without one permission, under a name of the story's own.
async fn reduced(cluster: &Cluster, role: &str, story: &str, Without(verb, resource): Without) -> String {
    let mut copy = read(cluster, role).await;
    let copied = format!("{role}-{story}");
    for rule in copy["rules"].as_array_mut().unwrap() {
        let concerned = rule["resources"].as_array().unwrap().contains(&json!(resource));
        let verbs = rule["verbs"].as_array_mut().unwrap();
        verbs.retain(|granted| !concerned || granted != verb);
    }
    copy["metadata"] = json!({"name": copied});
    cluster.admin.create(&format!("{RBAC}/clusterroles"), &copy).await;
    copied
}

async fn read(cluster: &Cluster, role: &str) -> Value {
    let role = cluster.admin.get(&format!("{RBAC}/clusterroles/{role}")).await;
    role.unwrap()
}

/// Everything that the roles grant, as `patch pods` or `list nodeclaims.karpenter.sh`.
pub async fn granted(cluster: &Cluster) -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    let texts = |values: &Value| -> Vec<String> {
        let values = values.as_array().unwrap().iter();
        values.map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    for (role, _) in ROLES {
        for rule in read(cluster, role).await["rules"].as_array().unwrap() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        granted.insert(match group.as_str() {
                            "" => format!("{verb} {resource}"),
                            group => format!("{verb} {resource}.{group}"),
                        });
                    }
                }
            }
        }
    }
    granted
}

/// Asserts that every granted verb was used with success, and that nothing was tried that is not granted. (What a story
/// takes away the whole roles grant.)
pub async fn check(cluster: &Cluster, asked: &[Asked]) {
    let granted = granted(cluster).await;
    let tried: BTreeSet<String> = asked.iter().map(Asked::kind).collect();
    let permitted = asked.iter().filter(|one| one.code != FORBIDDEN);
    let used: BTreeSet<String> = permitted.map(Asked::kind).collect();
    let unused: Vec<_> = granted.difference(&used).collect();
    let lacking: Vec<_> = tried.difference(&granted).collect();
    assert!(unused.is_empty(), "granted and never used: {unused:?}");
    assert!(lacking.is_empty(), "tried and not granted: {lacking:?}");
}

/// Gives a story's reduced roles everything that deploy/roles.yaml grants.
pub async fn restore(cluster: &Cluster, story: &str) {
    for (role, _) in ROLES {
        let rules = read(cluster, role).await["rules"].take();
        let path = format!("{RBAC}/clusterroles/{role}-{story}");
        cluster.admin.patch(&path, &json!({"rules": rules})).await;
    }
}
