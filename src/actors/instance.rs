//! The actor of one instance: it looks and it acts, and answers with what it saw and what came of it.
//!
//! Owns nothing durable and writes no row. It performs one request at a time, each fully specified by
//! the pool; a panic or a hang costs its own instance, since the pool replaces it and asks again.

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::messages::{InstanceMsg, Performed, PoolMsg};
use super::ports::Ports;
use super::{effects, inspect};
use crate::pool::ids::{InstanceId, Namespace, PoolId, RoutingGroup};

/// The actor.
#[derive(Debug)]
pub struct InstanceActor;

/// Which instance, of which pool, and where its answers go.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The pool.
    pub pool: PoolId,
    /// The gateway's name of it.
    pub group: RoutingGroup,
    /// Where the objects live.
    pub namespace: Namespace,
    /// The instance.
    pub instance: InstanceId,
    /// The world.
    pub ports: Ports,
    /// The pool's actor.
    pub reply_to: ActorRef<PoolMsg>,
}

impl Actor for InstanceActor {
    type Msg = InstanceMsg;
    type State = Subject;
    type Arguments = Subject;

    async fn pre_start(
        &self,
        _myself: ActorRef<InstanceMsg>,
        subject: Subject,
    ) -> Result<Subject, ActorProcessingErr> {
        Ok(subject)
    }

    async fn handle(
        &self,
        _myself: ActorRef<InstanceMsg>,
        message: InstanceMsg,
        subject: &mut Subject,
    ) -> Result<(), ActorProcessingErr> {
        let answer = match message {
            InstanceMsg::Inspect(order) => {
                PoolMsg::Inspected(Box::new(inspect::inspect(subject, &order).await))
            }
            InstanceMsg::Cordon(request) => {
                PoolMsg::Cordoned(Box::new(effects::cordon(subject, *request).await))
            }
            InstanceMsg::Admit(order) => PoolMsg::Admitted(perform(subject, *order).await),
            InstanceMsg::Retire(order) => PoolMsg::Retired(perform(subject, *order).await),
            InstanceMsg::Perform(order) => PoolMsg::Performed(perform(subject, *order).await),
        };
        // Without its pool an instance has nobody to answer; it is ended by supervision.
        let _ = subject.reply_to.send_message(answer);
        Ok(())
    }
}

async fn perform(subject: &Subject, order: super::messages::Order) -> Box<Performed> {
    let outcome = effects::perform(subject, &order).await;
    Box::new(Performed {
        ticket: order.ticket,
        instance: subject.instance.clone(),
        effect: order.effect,
        outcome,
    })
}
