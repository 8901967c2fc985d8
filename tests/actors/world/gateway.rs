//! The gateway of the world: its members and their phases, its epochs, and the requests that it has answered.

use async_trait::async_trait;
use trino_pool_operator::gateway::model::{
    Backend, Controller, Member, MemberAction, MemberPhase, MemberRequest, Obligations, PoolSettings,
    PoolState, RefusalCode, RetirementKind,
};
use trino_pool_operator::gateway::port::{Gateway, GatewayFault, Outcome, Refusal};
use trino_pool_operator::pool::ids::{
    BackendName, CoordinatorId, Generation, Incarnation, InstanceId, RoutingGroup, StepId, TrinoNodeId,
};

use super::{Inner, World};

fn down() -> GatewayFault {
    GatewayFault::Unreachable("down on purpose".into())
}

fn refused<T>(code: RefusalCode) -> Outcome<T> {
    Outcome::Refused(Refusal { code })
}

impl Inner {
    fn active(&self, group: &RoutingGroup) -> u32 {
        let prefix = format!("{group}-");
        let active = self.members.values().filter(|member| {
            member.phase == MemberPhase::Active && member.backend_name.as_str().starts_with(&prefix)
        });
        u32::try_from(active.count()).unwrap()
    }

    fn apply(&mut self, group: &RoutingGroup, request: &MemberRequest) -> Outcome<Member> {
        use MemberPhase as P;
        if let MemberAction::Register(body) = &request.action {
            if !self.backends.contains_key(body.backend_name.as_str()) {
                return refused(RefusalCode::NotFound);
            }
            let member = Member {
                instance_id: request.instance.clone(),
                incarnation: Incarnation::new(self.next("incarnation")),
                backend_name: body.backend_name.clone(),
                phase: P::Preparing,
                generation: Generation::new(0),
                pod_uid: body.pod_uid.clone(),
                boot_id: body.boot_id.clone(),
                node_id: TrinoNodeId::new(format!("node-{}", request.instance)),
                coordinator_id: CoordinatorId::new(format!("boot-{}", request.instance)),
                retirement_kind: None,
                eligible: false,
                replayed: false,
            };
            self.members.insert(request.instance.clone(), member.clone());
            return Outcome::Applied(member);
        }
        let floor = self.pool_states[group.as_str()].min_serving;
        let active = self.active(group);
        let Some(member) = self.members.get_mut(&request.instance) else {
            return refused(RefusalCode::NotFound);
        };
        let (expected, next) = match (&request.action, member.phase) {
            (MemberAction::Admit { expected, .. }, P::Preparing) => (expected, P::Active),
            (MemberAction::Drain { .. }, P::Active) if active <= floor => {
                return refused(RefusalCode::ServingFloor);
            }
            (MemberAction::Drain { expected }, P::Active | P::Suspect) => (expected, P::Draining),
            (MemberAction::Seal { .. }, P::Draining) if self.owed > 0 => {
                return refused(RefusalCode::NotDrained);
            }
            (MemberAction::Seal { expected }, P::Draining) => (expected, P::Sealed),
            (MemberAction::Suspect { expected, .. }, P::Preparing | P::Active | P::Draining | P::Sealed) => {
                (expected, P::Suspect)
            }
            (MemberAction::Lost { expected, .. }, P::Suspect) => (expected, P::Lost),
            (MemberAction::Retire { expected }, P::Sealed | P::Lost | P::Preparing) => {
                (expected, P::Retiring)
            }
            (MemberAction::Retired { expected }, P::Retiring) => (expected, P::Retired),
            _ => return refused(RefusalCode::Phase),
        };
        if *expected != member.generation {
            return refused(RefusalCode::StaleGeneration);
        }
        if next == P::Retiring {
            member.retirement_kind = Some(if member.phase == P::Lost {
                RetirementKind::Failed
            } else {
                RetirementKind::Drained
            });
        }
        member.phase = next;
        member.generation = member.generation.next();
        member.eligible = next == P::Active;
        Outcome::Applied(member.clone())
    }
}

#[async_trait]
impl Gateway for World {
    async fn pool(&self, pool: &RoutingGroup) -> Result<Option<PoolState>, GatewayFault> {
        self.gate("gateway", pool.as_str()).await.map_err(|_| down())?;
        let inner = self.lock();
        let mut state = inner.pool_states.get(pool.as_str()).cloned();
        if let Some(state) = &mut state {
            state.serving_members = inner.active(pool);
        }
        Ok(state)
    }

    async fn configure(
        &self,
        controller: &Controller,
        step: &StepId,
        settings: &PoolSettings,
    ) -> Outcome<PoolState> {
        if self.gate("gateway", step.as_str()).await.is_err() {
            return Outcome::Unknown(down());
        }
        let mut inner = self.lock();
        let known = inner.pool_states.get(controller.pool.as_str());
        if known.is_some_and(|known| known.controller_epoch > controller.epoch) {
            return refused(RefusalCode::StaleEpoch);
        }
        let state = PoolState {
            controller_epoch: controller.epoch,
            min_serving: settings.min_serving,
            desired_members: settings.desired_members,
            max_surge: settings.max_surge,
            max_repair: settings.max_repair,
            desired_revision: settings.desired_revision.clone(),
            serving_members: inner.active(&controller.pool),
            replayed: false,
        };
        inner
            .pool_states
            .insert(controller.pool.to_string(), state.clone());
        inner
            .log
            .push(format!("configure {} {}", controller.pool, controller.epoch));
        if inner.lose_answers_of.as_deref() == Some("configure") {
            return Outcome::Unknown(down());
        }
        Outcome::Applied(state)
    }

    async fn members(&self, pool: &RoutingGroup) -> Result<Vec<Member>, GatewayFault> {
        self.gate("gateway", pool.as_str()).await.map_err(|_| down())?;
        let prefix = format!("{pool}-");
        let inner = self.lock();
        let ours = inner
            .members
            .values()
            .filter(|m| m.backend_name.as_str().starts_with(&prefix));
        Ok(ours.cloned().collect())
    }

    async fn member(&self, _: &RoutingGroup, instance: &InstanceId) -> Result<Option<Member>, GatewayFault> {
        self.gate("gateway", instance.as_str())
            .await
            .map_err(|_| down())?;
        Ok(self.lock().members.get(instance).cloned())
    }

    async fn obligations(
        &self,
        _: &RoutingGroup,
        instance: &InstanceId,
    ) -> Result<Option<Obligations>, GatewayFault> {
        self.gate("gateway", instance.as_str())
            .await
            .map_err(|_| down())?;
        let inner = self.lock();
        Ok(inner.members.get(instance).map(|member| Obligations {
            incarnation: member.incarnation.clone(),
            phase: member.phase,
            generation: member.generation,
            pending_requests: 0,
            open_transactions: 0,
            active_queries: inner.owed,
            ready_to_seal: inner.owed == 0,
        }))
    }

    async fn send(&self, controller: &Controller, request: &MemberRequest) -> Outcome<Member> {
        if self.gate("gateway", request.instance.as_str()).await.is_err() {
            return Outcome::Unknown(down());
        }
        let about = format!("{} {}", request.action.label(), request.instance);
        if self.gate("send", &about).await.is_err() {
            return Outcome::Unknown(down());
        }
        let refusal = self.lock().refuse.clone();
        if let Some((what, code)) = refusal
            && about.contains(&what)
        {
            return refused(code);
        }
        let mut inner = self.lock();
        let key = (request.operation.to_string(), request.step.to_string());
        let lost = inner.lose_answers_of.as_deref() == Some(request.action.label());
        if let Some(known) = inner.steps.get(&key) {
            let known = known.clone();
            return if lost {
                Outcome::Unknown(down())
            } else {
                Outcome::Replayed(known)
            };
        }
        let epoch = inner
            .pool_states
            .get(controller.pool.as_str())
            .map(|pool| pool.controller_epoch);
        if epoch != Some(controller.epoch) {
            return refused(RefusalCode::StaleEpoch);
        }
        let outcome = inner.apply(&controller.pool, request);
        if let Outcome::Applied(member) = &outcome {
            inner.steps.insert(key, member.clone());
            inner
                .log
                .push(format!("{} {}", request.action.label(), request.instance));
        }
        if lost { Outcome::Unknown(down()) } else { outcome }
    }

    async fn ensure_backend(&self, backend: &Backend) -> Outcome<()> {
        if self.gate("gateway", backend.name.as_str()).await.is_err() {
            return Outcome::Unknown(down());
        }
        let mut inner = self.lock();
        let known = inner.backends.insert(backend.name.to_string(), backend.clone());
        if known.is_some() {
            Outcome::Replayed(())
        } else {
            Outcome::Applied(())
        }
    }

    async fn remove_backend(&self, name: &BackendName) -> Outcome<()> {
        if self.gate("gateway", name.as_str()).await.is_err() {
            return Outcome::Unknown(down());
        }
        self.lock().backends.remove(name.as_str());
        Outcome::Applied(())
    }
}
