//! The coordinator port through an [`Injector`].

use std::sync::Arc;

use async_trait::async_trait;

use super::{Call, Class, Injector, Port};
use crate::trino::port::{ClusterNode, Coordinator, CoordinatorInfo, CoordinatorTarget, ProbeError};

pub(super) struct FaultyCoordinator {
    pub(super) inner: Arc<dyn Coordinator>,
    pub(super) injector: Injector,
}

fn read(method: &'static str, target: &CoordinatorTarget) -> Call {
    Call {
        port: Port::Coordinator,
        method,
        class: Class::Read,
        about: target.instance.to_string(),
    }
}

#[async_trait]
impl Coordinator for FaultyCoordinator {
    fn url(&self, target: &CoordinatorTarget) -> Result<String, ProbeError> {
        self.inner.url(target)
    }

    async fn info(&self, target: &CoordinatorTarget) -> Result<CoordinatorInfo, ProbeError> {
        let call = read("info", target);
        self.injector.around(call, &|| self.inner.info(target)).await
    }

    async fn nodes(&self, target: &CoordinatorTarget) -> Result<Vec<ClusterNode>, ProbeError> {
        let call = read("nodes", target);
        self.injector.around(call, &|| self.inner.nodes(target)).await
    }

    async fn catalogs(&self, target: &CoordinatorTarget) -> Result<Vec<String>, ProbeError> {
        let call = read("catalogs", target);
        self.injector.around(call, &|| self.inner.catalogs(target)).await
    }
}
