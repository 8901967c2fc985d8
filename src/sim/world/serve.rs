//! The world's faces on 127.0.0.1: real HTTP for the production clients of `simulate`, and for curl and
//! kubectl beside it.

use std::net::SocketAddr;

use axum::Router;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{NAMESPACE, SharedWorld};
use crate::sim::{gateway, kube, trino};

/// Where the faces of a world are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The API server.
    pub kube: SocketAddr,
    /// The gateway: `/gateway/…` and `/v1/statement`.
    pub gateway: SocketAddr,
    /// Every coordinator, by the Host header.
    pub trino: SocketAddr,
}

/// The faces, served until this is dropped.
#[derive(Debug)]
pub struct Served {
    /// Where they are.
    pub addresses: Addresses,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl SharedWorld {
    /// Serves all faces on free ports of 127.0.0.1.
    pub async fn serve(&self) -> std::io::Result<Served> {
        let gateway_world = self.clone();
        let gateway = gateway::server::router(move |request| {
            gateway_world.with(|world| world.gateway_exchange(&request))
        });
        let trino_world = self.clone();
        let trino = trino::server::router(move |host, request| {
            trino_world.with(|world| world.coordinator_exchange(host, request))
        });
        let mut tasks = Vec::new();
        let kube = listen(kube::server::router(self.kube_face()), &mut tasks).await?;
        let gateway = listen(gateway, &mut tasks).await?;
        let trino = listen(trino, &mut tasks).await?;
        Ok(Served {
            addresses: Addresses { kube, gateway, trino },
            tasks,
        })
    }
}

/// A kubeconfig of a simulated API server at this URL, without a credential.
#[must_use]
pub fn kubeconfig(server: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "simulated",
        "clusters": [{"name": "simulated", "cluster": {"server": server}}],
        "contexts": [{"name": "simulated",
            "context": {"cluster": "simulated", "user": "nobody", "namespace": NAMESPACE}}],
        "users": [{"name": "nobody", "user": {}}],
    })
    .to_string()
}

async fn listen(router: Router, tasks: &mut Vec<JoinHandle<()>>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tasks.push(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%address, %error, "a face of the simulated world ended");
        }
    }));
    Ok(address)
}
