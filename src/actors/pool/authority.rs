//! Authority over the pool: taken once per term, above everything seen; and the gateway told about it.
//!
//! S8: the epoch is 1 + max(store, the gateway's, our objects' annotations). An unreachable gateway does
//! not hold authority up, since it only stops gateway steps (S11, weakness 1c): a gateway that turns out
//! to be ahead refuses the configuration, which ends the term, and the next one starts above it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Brain;
use crate::actors::faults;
use crate::actors::messages::{PoolMsg, RoundRead, Survey};
use crate::gateway::model::{Controller, MemberPhase, PoolSettings, PoolState, RefusalCode};
use crate::gateway::port::{GatewayFault, Outcome};
use crate::pool::desired::{FreezeReason, PoolMode};
use crate::pool::ids::{Epoch, InstanceId, StepId};
use crate::pool::names::{ANNOTATION_EPOCH, LABEL_INSTANCE};
use crate::pool::observation::Fault;

/// What stands in the world for this pool, as seen when authority was taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct World {
    /// Instances with objects or a live member.
    pub(super) instances: BTreeSet<InstanceId>,
    /// Of these, those without any row in this store.
    pub(super) strangers: BTreeSet<InstanceId>,
}

/// What the gateway was told and said.
#[derive(Debug, Default)]
pub(super) struct GatewayLink {
    /// The last accepted configuration.
    confirmed: Option<(Epoch, PoolSettings)>,
    /// When it was accepted.
    pub(super) confirmed_at: Option<Duration>,
    attempt: Option<Attempt>,
    sequence: u64,
    /// Why gateway steps wait.
    pub(super) fault: Option<Fault>,
    /// What it said of the pool in this round.
    pub(super) pool: Option<PoolState>,
}

#[derive(Debug)]
struct Attempt {
    id: u64,
    epoch: Epoch,
    step: StepId,
    settings: PoolSettings,
    in_flight: bool,
}

impl GatewayLink {
    /// Whether the gateway accepted this epoch.
    pub(super) fn accepts(&self, epoch: Epoch) -> bool {
        self.confirmed.as_ref().is_some_and(|(known, _)| *known == epoch)
    }
}

impl Brain {
    /// Reads what authority is taken from.
    pub(super) fn survey(&mut self) {
        let (Some(order), Some(identity)) = (&self.order, &self.identity) else {
            return;
        };
        let (tick, identity, ports) = (order.tick, identity.clone(), self.ports.clone());
        let limit = self.settings.inspection_budget;
        self.surveying = true;
        let otherwise = Survey {
            tick,
            gateway: Err(silent(limit)),
            members: Err(silent(limit)),
            objects: Err(faults::timed_out("objects", limit)),
        };
        self.start(PoolMsg::Surveyed(Box::new(otherwise)), async move {
            let (group, namespace) = (&identity.routing_group, &identity.namespace);
            let (gateway, members, objects) = tokio::join!(
                biased;
                ports.within(limit, ports.gateway.pool(group)),
                ports.within(limit, ports.gateway.members(group)),
                ports.within(limit, ports.cluster.objects(namespace, &identity.id)),
            );
            let gateway = gateway.unwrap_or_else(|| Err(silent(limit)));
            let members = members.unwrap_or_else(|| Err(silent(limit)));
            PoolMsg::Surveyed(Box::new(Survey {
                tick,
                gateway: gateway.map(|pool| pool.map(|pool| pool.controller_epoch)),
                members: members.map(|members| {
                    let stands = members.into_iter().filter(|member| stands(member.phase));
                    stands.map(|member| member.instance_id).collect()
                }),
                objects: match objects {
                    Some(Ok(listing)) => Ok(listing),
                    Some(Err(error)) => Err(faults::of_cluster("objects", &error)),
                    None => Err(faults::timed_out("objects", limit)),
                },
            }))
        });
    }

    /// Takes authority above everything seen, then goes on with the round.
    pub(super) async fn surveyed(&mut self, survey: Survey) {
        self.surveying = false;
        if self.quiescing || self.authority.is_some() {
            return;
        }
        let objects = match survey.objects {
            Ok(objects) => objects,
            Err(fault) => {
                // Without our own objects' epochs no epoch is certain to be above them.
                self.note("authority", Some(fault));
                return self.report();
            }
        };
        let annotated = objects.items.iter().filter_map(|object| {
            let epoch = object.annotations.get(ANNOTATION_EPOCH)?;
            epoch.parse::<u64>().ok().map(Epoch::new)
        });
        let at_gateway = survey.gateway.ok().flatten();
        let above = annotated.chain(at_gateway).max().unwrap_or_default();

        let mut instances: BTreeSet<InstanceId> = objects
            .items
            .iter()
            .filter_map(|object| object.labels.get(LABEL_INSTANCE))
            .map(InstanceId::new)
            .collect();
        instances.extend(survey.members.unwrap_or_default());
        let store = self.ports.store.clone();
        let mut strangers = BTreeSet::new();
        for id in &instances {
            match self.call(store.instance(id)).await {
                Ok(Some(row)) if row.pool == self.pool => {}
                Ok(_) => {
                    strangers.insert(id.clone());
                }
                Err(error) => {
                    self.note("authority", Some(faults::of_store("instances", &error)));
                    return self.report();
                }
            }
        }
        match self.take_authority(above).await {
            Ok(authority) => {
                tracing::info!(pool = %self.pool, epoch = authority.epoch.get(), "authority taken");
                self.authority = Some(authority);
                self.world = World { instances, strangers };
                self.note("authority", None);
                self.enter_round().await;
            }
            Err(error) => {
                self.note("authority", Some(faults::of_store("acquire", &error)));
                self.report();
            }
        }
    }

    /// Tells the gateway the settings under the current epoch, if it does not hold them.
    pub(super) fn configure(&mut self) {
        if self.mode == PoolMode::Frozen(FreezeReason::StoreMismatch) || !self.may_act() {
            return;
        }
        let (Some(settings), Some(identity)) = (self.settings_in_force(), &self.identity) else {
            return;
        };
        let epoch = self.epoch();
        let wanted = (epoch, settings);
        let drifted = self
            .gateway
            .pool
            .as_ref()
            .is_some_and(|pool| pool.controller_epoch == epoch && !holds(pool, &wanted.1));
        if self.gateway.confirmed.as_ref() == Some(&wanted) && !drifted {
            return;
        }
        let (epoch, settings) = wanted;
        let same = self
            .gateway
            .attempt
            .as_ref()
            .is_some_and(|attempt| attempt.epoch == epoch);
        if !same {
            self.gateway.attempt = None;
        }
        if self.gateway.attempt.is_none() {
            self.gateway.sequence += 1;
            let sequence = self.gateway.sequence;
            self.gateway.attempt = Some(Attempt {
                id: sequence,
                epoch,
                step: StepId::new(format!("configure.e{epoch}.s{sequence}")),
                settings,
                in_flight: false,
            });
        }
        let controller = Controller {
            pool: identity.routing_group.clone(),
            epoch,
            owner: self.owner.clone(),
        };
        let Some(attempt) = &mut self.gateway.attempt else {
            return;
        };
        if attempt.in_flight {
            return;
        }
        attempt.in_flight = true;
        let (id, step, settings) = (attempt.id, attempt.step.clone(), attempt.settings.clone());
        let gateway = self.ports.gateway.clone();
        self.writes_in_flight += 1;
        let otherwise = PoolMsg::Configured {
            attempt: id,
            outcome: Outcome::Unknown(silent(self.settings.effect_deadline)),
        };
        self.start(otherwise, async move {
            let outcome = gateway.configure(&controller, &step, &settings).await;
            PoolMsg::Configured { attempt: id, outcome }
        });
    }

    pub(super) fn configured(&mut self, id: u64, outcome: Outcome<PoolState>) {
        self.writes_in_flight = self.writes_in_flight.saturating_sub(1);
        let Some(attempt) = self.gateway.attempt.take_if(|attempt| attempt.id == id) else {
            self.counts.stale_messages += 1;
            return;
        };
        match outcome {
            Outcome::Applied(pool) | Outcome::Replayed(pool) => {
                let first = !self.gateway.accepts(attempt.epoch);
                self.gateway.confirmed = Some((attempt.epoch, attempt.settings));
                self.gateway.confirmed_at = Some(self.ports.clock.monotonic());
                self.gateway.pool = Some(pool);
                self.gateway.fault = None;
                if first {
                    self.hurry();
                }
            }
            Outcome::Refused(refusal) if refusal.code == RefusalCode::StaleEpoch => {
                // Under an epoch that this process has left behind itself, it is our own fence.
                if attempt.epoch >= self.epoch() {
                    self.end_term("gateway");
                }
            }
            Outcome::Refused(refusal) => {
                // Answered: the next attempt is a new step.
                self.gateway.fault = Some(Fault {
                    label: "GatewayRefused",
                    subject: "pool settings".to_owned(),
                    detail: refusal.to_string(),
                });
            }
            Outcome::Unknown(fault) => {
                self.gateway.fault = Some(faults::of_gateway("pool settings", &fault));
                // Not answered: the identical request is sent again.
                self.gateway.attempt = Some(Attempt {
                    in_flight: false,
                    ..attempt
                });
            }
        }
    }

    /// Takes what the gateway and the inventory said at the beginning of the round.
    pub(super) fn take_round_read(&mut self, read: RoundRead) {
        if let Some(snapshot) = read.inventory {
            self.snapshot = Some(snapshot);
        }
        match read.gateway {
            Ok(pool) => {
                if pool
                    .as_ref()
                    .is_some_and(|pool| pool.controller_epoch > self.epoch())
                {
                    return self.end_term("gateway");
                }
                self.gateway.pool = pool;
                if self.gateway.accepts(self.epoch()) {
                    self.gateway.fault = None;
                }
            }
            Err(fault) => self.gateway.fault = Some(fault),
        }
        self.configure();
    }

    fn settings_in_force(&self) -> Option<PoolSettings> {
        let desired = self.desired()?;
        Some(PoolSettings {
            // A pool that is being emptied has no floor of its own (S6); the protocol's least is one.
            min_serving: match self.mode {
                PoolMode::Emptying => 1,
                PoolMode::Open | PoolMode::Held(_) | PoolMode::Frozen(_) | PoolMode::Retained => {
                    desired.min_serving
                }
            },
            desired_members: desired.instances,
            max_surge: desired.max_surge,
            max_repair: desired.max_repair,
            desired_revision: desired.blueprint.release.to_string(),
        })
    }
}

fn silent(limit: Duration) -> GatewayFault {
    GatewayFault::Unreachable(format!("no answer within {limit:?}"))
}

/// Whether a member of this phase still holds a slot, or may.
const fn stands(phase: MemberPhase) -> bool {
    match phase {
        MemberPhase::Retired | MemberPhase::Lost => false,
        MemberPhase::Preparing
        | MemberPhase::Active
        | MemberPhase::Draining
        | MemberPhase::Sealed
        | MemberPhase::Retiring
        | MemberPhase::Suspect
        | MemberPhase::Unrecognised => true,
    }
}

fn holds(pool: &PoolState, settings: &PoolSettings) -> bool {
    pool.min_serving == settings.min_serving
        && pool.desired_members == settings.desired_members
        && pool.max_surge == settings.max_surge
        && pool.max_repair == settings.max_repair
        && pool.desired_revision == settings.desired_revision
}
