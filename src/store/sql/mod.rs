//! The store on a relational database: what Postgres and SQLite have in common, which is nearly everything.
//!
//! Owns the order of statements: every commit is one transaction that locks the pool's row first, compares
//! (owner, epoch), performs the writes in order and ends. Locking the row raises its revision; what changed
//! nothing is therefore rolled back. It holds one connection at a time (R02), waits
//! for nothing while it holds a lock (O05), and gives up at a deadline (O06). It never retries: only the
//! caller knows whether repeating is right.

pub(in crate::store) mod migrations;
pub mod session;
mod writes;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::port::{
    Authority, Committed, Connections, Mark, NodeHold, PoolIdentity, PoolSnapshot, Recovery, Store,
    StoreError, Write,
};
use super::rows::{self, FenceDocument};
use super::rules;
use crate::pool::desired::PoolMode;
use crate::pool::ids::{Epoch, InstanceId, NodeUid, OwnerId, PoolId, StoreId};
use crate::pool::instance::InstanceRow;
use session::{Arg, Database, End, Session};

/// How long one call may take altogether, the wait for a connection included. A commit cut off here has
/// an unknown outcome.
pub const DEADLINE: Duration = Duration::from_secs(8);
/// How long a call may wait for a free connection: below one tick.
pub const ACQUIRE_DEADLINE: Duration = Duration::from_secs(4);
/// How long a transaction may wait for another one's lock.
pub const LOCK_DEADLINE: Duration = Duration::from_secs(4);

/// A store on a database whose schema was checked.
#[derive(Debug)]
pub struct SqlStore<D> {
    id: StoreId,
    database: D,
}

impl<D: Database> SqlStore<D> {
    /// Wraps a database that was opened and whose schema fits.
    pub const fn new(id: StoreId, database: D) -> Self {
        Self { id, database }
    }

    /// Locks the pool's row, raises its revision and reads its authority: the first statement of every transaction.
    async fn lock(
        &self,
        session: &mut dyn Session,
        pool: &PoolId,
    ) -> Result<Option<FenceDocument>, StoreError> {
        let found = session
            .fetch(self.database.reads().fence, vec![Arg::text(pool)])
            .await?;
        found.first().map(rows::document).transpose()
    }

    async fn take_authority(
        &self,
        session: &mut dyn Session,
        pool: &PoolId,
        owner: &OwnerId,
        above: Epoch,
    ) -> Result<(End, Authority), StoreError> {
        let fence = self.lock(session, pool).await?;
        let fence = fence.ok_or_else(|| rules::missing_pool(pool))?;
        let epoch = rules::next_epoch(pool, owner, fence.epoch, above)?;
        let args = vec![Arg::count(epoch.get())?, Arg::text(owner), Arg::text(pool)];
        session
            .execute("UPDATE pools SET epoch = $1, owner = $2 WHERE id = $3", args)
            .await?;
        let authority = Authority {
            pool: pool.clone(),
            owner: owner.clone(),
            epoch,
        };
        Ok((End::Commit, authority))
    }

    async fn write(
        &self,
        session: &mut dyn Session,
        authority: &Authority,
        now: Timestamp,
        writes: &[Write],
    ) -> Result<(End, Vec<Committed>), StoreError> {
        let fence = self.lock(session, &authority.pool).await?;
        let fence = fence
            .filter(|held| held.owner == authority.owner && held.epoch == authority.epoch)
            .ok_or_else(|| StoreError::Fenced(authority.pool.clone()))?;
        let mut fenced = writes::Fenced {
            session,
            reads: self.database.reads(),
            authority,
            fence,
            now: rules::stored_time(now),
        };
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            results.push(fenced.write(write).await?);
        }
        let end = if results.iter().any(Committed::changed) {
            End::Commit
        } else {
            End::Rollback
        };
        Ok((end, results))
    }

    async fn accept_recovery(
        &self,
        session: &mut dyn Session,
        pool: &PoolId,
        min_serving: u32,
        recovery: &Recovery,
    ) -> Result<(End, ()), StoreError> {
        if self.lock(session, pool).await?.is_none() {
            return Err(rules::missing_pool(pool));
        }
        let args = vec![
            Arg::text(&recovery.operation),
            Arg::text(&recovery.instance),
            Arg::text(pool),
        ];
        let found = session.fetch(self.database.reads().recovery, args).await?;
        let rows = rows::collect(&found)?;
        let row = rows
            .instances
            .first()
            .ok_or_else(|| rules::missing_instance(&recovery.instance))?;
        match rows.recoveries.first() {
            Some(earlier) if rules::same_recovery(earlier, recovery) => Ok((End::Rollback, ())),
            Some(_) => Err(rules::conflict(&recovery.instance, rules::OTHER_RECOVERY)),
            None => {
                rules::may_recover(recovery, row, rows.serving, min_serving)?;
                writes::insert_recovery(session, recovery).await?;
                Ok((End::Commit, ()))
            }
        }
    }
}

/// Ends a transaction: what it did stands only if it succeeded, and changed something.
async fn settle<T>(session: Box<dyn Session>, done: Result<(End, T), StoreError>) -> Result<T, StoreError> {
    let result = match done {
        Ok((End::Commit, value)) => return session.end(End::Commit).await.map(|()| value),
        Ok((End::Rollback, value)) => Ok(value),
        Err(refusal) => Err(refusal),
    };
    // Whether or not the rollback is answered, an unfinished transaction never stands.
    if let Err(error) = session.end(End::Rollback).await {
        tracing::debug!(%error, "a transaction that leaves nothing was dropped");
    }
    result
}

/// Bounds a call by [`DEADLINE`].
pub(super) async fn within<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    tokio::time::timeout(DEADLINE, work).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable(format!(
            "no answer within {} s",
            DEADLINE.as_secs()
        )))
    })
}

#[async_trait]
impl<D: Database> Store for SqlStore<D> {
    async fn id(&self) -> Result<StoreId, StoreError> {
        Ok(self.id.clone())
    }

    async fn seed(&self, pool: &PoolIdentity) -> Result<(), StoreError> {
        let args = vec![
            Arg::text(&pool.id),
            Arg::text(&pool.namespace),
            Arg::text(&pool.routing_group),
            Arg::json(&PoolMode::default())?,
        ];
        within(self.database.execute(
            "INSERT INTO pools (id, namespace, routing_group, mode) VALUES ($1, $2, $3, $4)
             ON CONFLICT (id) DO NOTHING",
            args,
        ))
        .await
        .map(|_| ())
    }

    async fn pools(&self) -> Result<Vec<PoolIdentity>, StoreError> {
        let found = within(self.database.fetch(self.database.reads().pools, Vec::new())).await?;
        Ok(rows::collect(&found)?
            .pools
            .into_iter()
            .map(|p| p.identity)
            .collect())
    }

    async fn marks(&self) -> Result<BTreeMap<PoolId, Mark>, StoreError> {
        let found = within(self.database.fetch(self.database.reads().marks, Vec::new())).await?;
        Ok(rows::collect(&found)?.marks)
    }

    async fn acquire(&self, pool: &PoolId, owner: &OwnerId, above: Epoch) -> Result<Authority, StoreError> {
        within(async {
            let mut session = self.database.begin().await?;
            let done = self.take_authority(&mut *session, pool, owner, above).await;
            settle(session, done).await
        })
        .await
    }

    async fn load(&self, pool: &PoolId) -> Result<PoolSnapshot, StoreError> {
        let read = self
            .database
            .fetch(self.database.reads().load, vec![Arg::text(pool)]);
        rows::collect(&within(read).await?)?.snapshot(pool)
    }

    async fn commit(
        &self,
        authority: &Authority,
        now: Timestamp,
        writes: &[Write],
    ) -> Result<Vec<Committed>, StoreError> {
        within(async {
            let mut session = self.database.begin().await?;
            let done = self.write(&mut *session, authority, now, writes).await;
            settle(session, done).await
        })
        .await
    }

    async fn instance(&self, instance: &InstanceId) -> Result<Option<InstanceRow>, StoreError> {
        let read = self
            .database
            .fetch(self.database.reads().instance, vec![Arg::text(instance)]);
        Ok(rows::collect(&within(read).await?)?.instances.pop())
    }

    async fn request_recovery(
        &self,
        pool: &PoolId,
        min_serving: u32,
        recovery: &Recovery,
    ) -> Result<(), StoreError> {
        rules::well_formed_recovery(recovery)?;
        within(async {
            let mut session = self.database.begin().await?;
            let done = self
                .accept_recovery(&mut *session, pool, min_serving, recovery)
                .await;
            settle(session, done).await
        })
        .await
    }

    async fn node_holds(&self, node: &NodeUid) -> Result<Vec<NodeHold>, StoreError> {
        let read = self
            .database
            .fetch(self.database.reads().holds, vec![Arg::text(node)]);
        Ok(rows::collect(&within(read).await?)?.holds)
    }

    fn statements(&self) -> u64 {
        self.database.statements()
    }

    fn connections(&self) -> Connections {
        self.database.connections()
    }
}
