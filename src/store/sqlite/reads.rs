//! The reads in SQLite's dialect. JSON columns are handed on as strings and never parsed by SQLite, because
//! one malformed value would fail the whole statement.

use crate::store::sql::session::Reads;

macro_rules! pool {
    () => {
        "json_object('id', p.id, 'namespace', p.namespace, 'routing_group', p.routing_group, 'epoch', p.epoch,
            'owner', p.owner, 'revision', p.revision, 'resource', p.resource, 'generation', p.generation, 'desired', p.desired, 'mode', p.mode)"
    };
}

macro_rules! instance {
    () => {
        "json_object('id', i.id, 'pool_id', i.pool_id, 'release_id', i.release_id, 'spec_digest', i.spec_digest,
            'blueprint', i.blueprint, 'phase', i.phase, 'phase_changed_at', i.phase_changed_at,
            'owner_epoch', i.owner_epoch, 'repair_for', i.repair_for, 'failure', i.failure, 'objects', i.objects,
            'process', i.process, 'member', i.member, 'receipt', i.receipt, 'excluded_nodes', i.excluded_nodes,
            'node_replacement_evidence', i.node_replacement_evidence, 'created_at', i.created_at)"
    };
}

macro_rules! node {
    () => {
        "json_object('seq', n.seq, 'instance_id', n.instance_id, 'node_name', n.node_name, 'node_uid', n.node_uid,
            'nodeclaim_name', n.nodeclaim_name, 'nodeclaim_uid', n.nodeclaim_uid, 'reason', n.reason,
            'observed_at', n.observed_at)"
    };
}

macro_rules! step {
    () => {
        "json_object('operation_id', s.operation_id, 'step_id', s.step_id, 'instance_id', s.instance_id,
            'request', s.request, 'outcome', s.outcome, 'attempts', s.attempts, 'at', s.at)"
    };
}

macro_rules! recovery {
    () => {
        "json_object('operation', r.operation, 'instance', r.instance, 'expected_generation', r.expected_generation,
            'incarnation', r.incarnation, 'pod_uid', r.pod_uid, 'boot_id', r.boot_id, 'node_id', r.node_id,
            'coordinator_id', r.coordinator_id, 'requested_by', r.requested_by, 'reason', r.reason,
            'created_at', r.created_at)"
    };
}

/// See [`Reads`] for what each takes and answers. The fence needs no row lock: a transaction that may write
/// holds the only write lock of the file from its first statement on.
pub const READS: Reads = Reads {
    fence: "UPDATE pools SET revision = revision + 1 WHERE id = $1
        RETURNING 'fence' AS part,
            json_object('epoch', epoch, 'owner', owner, 'namespace', namespace, 'routing_group', routing_group,
                'resource', resource, 'generation', generation) AS document",
    pools: concat!(
        "SELECT 'pool' AS part, ",
        pool!(),
        " AS document FROM pools p ORDER BY p.id"
    ),
    marks: "SELECT 'mark' AS part,
            json_object('id', p.id, 'epoch', p.epoch, 'owner', p.owner, 'revision', p.revision) AS document
        FROM pools p",
    load: concat!(
        "WITH live AS (
            SELECT i.* FROM instances i WHERE i.pool_id = $1 AND i.phase NOT IN ('RETIRED', 'FAILURE_RETIRED'))
        SELECT 'pool' AS part, ",
        pool!(),
        " AS document FROM pools p WHERE p.id = $1
        UNION ALL SELECT 'failure',
            json_object('cause', f.cause, 'count', f.count, 'last_at', f.last_at, 'detail', f.detail)
            FROM pool_failures f WHERE f.pool_id = $1
        UNION ALL SELECT 'instance', ",
        instance!(),
        " FROM live i
        UNION ALL SELECT 'node', ",
        node!(),
        " FROM replacement_nodes n JOIN live i ON i.id = n.instance_id
        UNION ALL SELECT 'step', ",
        step!(),
        " FROM operations o JOIN operation_steps s ON s.operation_id = o.id
            WHERE o.pool_id = $1 AND s.outcome = 'UNKNOWN'
        UNION ALL SELECT 'recovery', ",
        recovery!(),
        " FROM recoveries r JOIN live i ON i.id = r.instance"
    ),
    instance: concat!(
        "SELECT 'instance' AS part, ",
        instance!(),
        " AS document FROM instances i WHERE i.id = $1
        UNION ALL SELECT 'node', ",
        node!(),
        " FROM replacement_nodes n WHERE n.instance_id = $1"
    ),
    known: "SELECT 'known' AS part, json_object('phase', i.phase) AS document
        FROM instances i WHERE i.id = $1 AND i.pool_id = $2",
    holds: "SELECT DISTINCT 'hold' AS part, h.document FROM (
            SELECT json_object('pool_id', i.pool_id, 'id', i.id, 'phase', i.phase,
                'node_name', i.node_replacement_evidence ->> 'node_name') AS document
            FROM instances i
            WHERE CASE WHEN json_valid(i.node_replacement_evidence)
                THEN i.node_replacement_evidence ->> 'node_uid' = $1
                    AND i.node_replacement_evidence ->> 'node_name' IS NOT NULL END
            UNION ALL SELECT json_object('pool_id', i.pool_id, 'id', i.id, 'phase', i.phase,
                'node_name', n.node_name)
            FROM replacement_nodes n JOIN instances i ON i.id = n.instance_id
            WHERE n.node_uid = $1) h",
    step: concat!(
        "SELECT 'context' AS part, json_object(
                'pool_id', (SELECT o.pool_id FROM operations o WHERE o.id = $1),
                'instance_known', (SELECT count(*) FROM instances i WHERE i.id = $3 AND i.pool_id = $4)) AS document
        UNION ALL SELECT 'step', ",
        step!(),
        " FROM operation_steps s WHERE s.operation_id = $1 AND s.step_id = $2"
    ),
    recovery: concat!(
        "SELECT 'instance' AS part, ",
        instance!(),
        " AS document FROM instances i WHERE i.id = $2 AND i.pool_id = $3
        UNION ALL SELECT 'recovery', ",
        recovery!(),
        " FROM recoveries r WHERE r.operation = $1 OR r.instance = $2
        UNION ALL SELECT 'serving', json_object('count', count(*))
            FROM instances i WHERE i.pool_id = $3 AND i.phase = 'SERVING'"
    ),
};
