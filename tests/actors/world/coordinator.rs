//! The coordinators of the world: they answer while their pod runs and nobody makes them fail.

use async_trait::async_trait;
use trino_pool_operator::pool::ids::{CoordinatorId, TrinoNodeId};
use trino_pool_operator::trino::port::{
    ClusterNode, Coordinator, CoordinatorInfo, CoordinatorTarget, ProbeError,
};

use super::World;

impl World {
    async fn probe(&self, target: &CoordinatorTarget) -> Result<(), ProbeError> {
        let down = || ProbeError::Unreachable("down on purpose".into());
        self.gate("coordinator", target.instance.as_str())
            .await
            .map_err(|_| down())?;
        let prefix = format!("{}-coordinator", target.instance);
        let runs = self
            .lock()
            .pods
            .iter()
            .any(|pod| pod.ready && pod.name.as_str().starts_with(&prefix));
        if runs { Ok(()) } else { Err(down()) }
    }
}

#[async_trait]
impl Coordinator for World {
    fn url(&self, target: &CoordinatorTarget) -> Result<String, ProbeError> {
        Ok(format!(
            "http://{}.{}.svc:{}",
            target.instance, target.namespace, target.port
        ))
    }

    async fn info(&self, target: &CoordinatorTarget) -> Result<CoordinatorInfo, ProbeError> {
        self.probe(target).await?;
        Ok(CoordinatorInfo {
            ready: true,
            node: Some(TrinoNodeId::new(format!("node-{}", target.instance))),
            coordinator: Some(CoordinatorId::new(format!("boot-{}", target.instance))),
            version: Some("483".into()),
            environment: Some("production".into()),
        })
    }

    async fn nodes(&self, target: &CoordinatorTarget) -> Result<Vec<ClusterNode>, ProbeError> {
        self.probe(target).await?;
        let node = |id: String, coordinator| ClusterNode {
            id: TrinoNodeId::new(id),
            coordinator,
            active: true,
        };
        let prefix = format!("{}-worker", target.instance);
        let inner = self.lock();
        let workers = inner
            .pods
            .iter()
            .filter(|pod| pod.name.as_str().starts_with(&prefix));
        Ok(std::iter::once(node(format!("node-{}", target.instance), true))
            .chain(workers.map(|pod| node(pod.name.to_string(), false)))
            .collect())
    }

    async fn catalogs(&self, target: &CoordinatorTarget) -> Result<Vec<String>, ProbeError> {
        self.probe(target).await?;
        Ok(vec!["system".into(), "tpch".into()])
    }
}
