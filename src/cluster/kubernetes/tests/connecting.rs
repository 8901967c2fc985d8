//! From configuration to a client: one clear line for each way in which it fails.

use std::path::PathBuf;

use super::*;

/// A file that is removed when the test ends.
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn written(name: &str, text: &str) -> Written {
    let path = std::env::temp_dir().join(format!("trino-pool-operator-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    Written(path)
}

async fn connect(path: &std::path::Path, context: Option<&str>) -> Result<KubernetesCluster, ConnectError> {
    let options = ConnectOptions {
        kubeconfig: Some(path.to_owned()),
        context: context.map(str::to_owned),
    };
    KubernetesCluster::from_environment(&options, Scope::All).await
}

const GOOD: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}]}"#;

#[tokio::test]
async fn a_wrong_configuration_is_one_clear_line() {
    let missing = PathBuf::from("/nowhere/kubeconfig");
    let garbled = written("garbled", "clusters: [oops");
    let good = written("good", GOOD);
    let url = written("url", &GOOD.replace("http://127.0.0.1:1", "http://[::1"));
    for (path, context) in [
        (&missing, None),
        (&garbled.0, None),
        (&good.0, Some("elsewhere")),
        (&url.0, None),
    ] {
        let message = match connect(path, context).await {
            Ok(_) => panic!("{} was accepted", path.display()),
            Err(error) => error.to_string(),
        };
        assert!(!message.contains('\n'), "{message}");
        assert!(message.contains(&path.display().to_string()), "{message}");
    }
    assert!(connect(&good.0, Some("here")).await.is_ok());
}

#[tokio::test]
async fn a_broken_kubeconfig_is_never_repeated_since_it_may_hold_a_token() {
    for text in [
        "users:\n- name: u\n  user:\n    token: hunter2\n  broken: [\n",
        "hunter2-a-bare-token",
        "apiVersion: v1\nkind: Config\nusers: {token: hunter2}\n",
    ] {
        let file = written("secret", text);
        let Err(error) = connect(&file.0, None).await else {
            panic!("{text:?} was accepted")
        };
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn nobody_there_is_told_by_the_check() {
    let file = written("nobody", GOOD);
    let cluster = connect(&file.0, None).await.unwrap();
    match cluster.check().await {
        Err(ClusterError::Unreachable(why)) => assert!(why.contains("refused"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tls_needs_nothing_installed_beforehand() {
    let file = written("tls", &GOOD.replace("http://", "https://"));
    let cluster = connect(&file.0, None).await.unwrap();
    assert_eq!(
        cluster.check().await.unwrap_err().label(),
        "KubernetesUnreachable"
    );
}
