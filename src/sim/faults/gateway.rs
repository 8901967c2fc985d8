//! The gateway port through an [`Injector`].

use std::sync::Arc;

use async_trait::async_trait;

use super::{Call, Class, Injector, Port};
use crate::gateway::model::{
    Backend, Controller, Member, MemberRequest, Obligations, PoolSettings, PoolState,
};
use crate::gateway::port::{Gateway, GatewayFault, Outcome};
use crate::pool::ids::{BackendName, InstanceId, RoutingGroup, StepId};

pub(super) struct FaultyGateway {
    pub(super) inner: Arc<dyn Gateway>,
    pub(super) injector: Injector,
}

const fn call(class: Class, method: &'static str, about: String) -> Call {
    Call {
        port: Port::Gateway,
        method,
        class,
        about,
    }
}

#[async_trait]
impl Gateway for FaultyGateway {
    async fn pool(&self, pool: &RoutingGroup) -> Result<Option<PoolState>, GatewayFault> {
        let call = call(Class::Read, "pool", pool.to_string());
        self.injector.around(call, &|| self.inner.pool(pool)).await
    }

    async fn configure(
        &self,
        controller: &Controller,
        step: &StepId,
        settings: &PoolSettings,
    ) -> Outcome<PoolState> {
        let about = format!("{} epoch {} {step}", controller.pool, controller.epoch);
        let call = call(Class::Effect, "configure", about);
        self.injector
            .around(call, &|| self.inner.configure(controller, step, settings))
            .await
    }

    async fn members(&self, pool: &RoutingGroup) -> Result<Vec<Member>, GatewayFault> {
        let call = call(Class::Read, "members", pool.to_string());
        self.injector.around(call, &|| self.inner.members(pool)).await
    }

    async fn member(
        &self,
        pool: &RoutingGroup,
        instance: &InstanceId,
    ) -> Result<Option<Member>, GatewayFault> {
        let call = call(Class::Read, "member", instance.to_string());
        self.injector
            .around(call, &|| self.inner.member(pool, instance))
            .await
    }

    async fn obligations(
        &self,
        pool: &RoutingGroup,
        instance: &InstanceId,
    ) -> Result<Option<Obligations>, GatewayFault> {
        let call = call(Class::Read, "obligations", instance.to_string());
        self.injector
            .around(call, &|| self.inner.obligations(pool, instance))
            .await
    }

    async fn send(&self, controller: &Controller, request: &MemberRequest) -> Outcome<Member> {
        let about = format!(
            "{} {} {} epoch {}",
            request.action.label(),
            request.instance,
            request.step,
            controller.epoch
        );
        let call = call(Class::Effect, "send", about);
        self.injector
            .around(call, &|| self.inner.send(controller, request))
            .await
    }

    async fn ensure_backend(&self, backend: &Backend) -> Outcome<()> {
        let call = call(Class::Effect, "ensure_backend", backend.name.to_string());
        self.injector
            .around(call, &|| self.inner.ensure_backend(backend))
            .await
    }

    async fn remove_backend(&self, name: &BackendName) -> Outcome<()> {
        let call = call(Class::Effect, "remove_backend", name.to_string());
        self.injector
            .around(call, &|| self.inner.remove_backend(name))
            .await
    }
}
