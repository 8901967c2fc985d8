//! What the store says of the pool "analytics": who leads it, which requests are without an answer, and what a person
//! ordered.

use jiff::Timestamp;
use trino_pool_operator::gateway::model::{Controller, MemberRequest};
use trino_pool_operator::pool::ids::{Epoch, OperationId, PoolId, RoutingGroup};
use trino_pool_operator::pool::instance::InstanceRow;
use trino_pool_operator::store::memory::MemoryStore;
use trino_pool_operator::store::port::{JournalStep, Recovery, Store};

use crate::{eventually, seconds};

pub fn pool_id() -> PoolId {
    PoolId::new("trino/analytics")
}

pub async fn open_steps(store: &MemoryStore) -> Vec<JournalStep> {
    store.load(&pool_id()).await.unwrap().open_steps
}

/// The first request without an answer, as soon as there is one, which is one to do this; fails when there is none
/// within ten minutes.
pub async fn lost_request(store: &MemoryStore, action: &str) -> MemberRequest {
    let never = format!("no request to {action} was ever sent");
    let first = async || open_steps(store).await.into_iter().next();
    let request = eventually(&never, 600, seconds(1), first).await.request;
    assert_eq!(request.action.label(), action, "{request:?}");
    request
}

pub async fn stored_epoch(store: &MemoryStore) -> Epoch {
    store.load(&pool_id()).await.unwrap().pool.epoch
}

/// Who leads now, as the gateway is told.
pub async fn leader(store: &MemoryStore) -> Controller {
    let row = store.load(&pool_id()).await.unwrap().pool;
    Controller {
        pool: RoutingGroup::new("analytics"),
        epoch: row.epoch,
        owner: row.owner,
    }
}

/// A person gives this one up, exactly as its row describes it.
pub async fn order_recovery(store: &MemoryStore, row: InstanceRow, reason: &str, now: Timestamp) {
    let (member, registered) = (row.member.unwrap(), row.process.unwrap());
    let recovery = Recovery {
        operation: OperationId::new("ticket-7"),
        instance: row.id,
        expected_generation: member.generation,
        incarnation: member.incarnation,
        pod_uid: registered.pod,
        boot_id: registered.boot,
        node_id: registered.node,
        coordinator_id: registered.coordinator,
        requested_by: "somebody".into(),
        reason: reason.into(),
        created_at: now,
    };
    store.request_recovery(&row.pool, 2, &recovery).await.unwrap();
}
