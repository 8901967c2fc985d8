//! The reads in Postgres' dialect: `row_to_json` names columns itself, so that a column added by a newer
//! schema is simply another name.

use crate::store::sql::session::Reads;

/// See [`Reads`] for what each takes and answers.
pub const READS: Reads = Reads {
    fence: "UPDATE pools p SET revision = p.revision + 1 WHERE p.id = $1
        RETURNING 'fence' AS part,
            json_build_object('epoch', p.epoch, 'owner', p.owner, 'namespace', p.namespace,
                'routing_group', p.routing_group, 'resource', p.resource, 'generation', p.generation)::text AS document",
    pools: "SELECT 'pool' AS part, row_to_json(p)::text AS document FROM pools p ORDER BY p.id",
    marks: "SELECT 'mark' AS part, json_build_object('id', p.id, 'epoch', p.epoch, 'owner', p.owner,
            'revision', p.revision)::text AS document
        FROM pools p",
    load: "WITH live AS (
            SELECT i.* FROM instances i WHERE i.pool_id = $1 AND i.phase NOT IN ('RETIRED', 'FAILURE_RETIRED'))
        SELECT 'pool' AS part, row_to_json(p)::text AS document FROM pools p WHERE p.id = $1
        UNION ALL SELECT 'failure', row_to_json(f)::text FROM pool_failures f WHERE f.pool_id = $1
        UNION ALL SELECT 'instance', row_to_json(i)::text FROM live i
        UNION ALL SELECT 'node', row_to_json(n)::text FROM replacement_nodes n JOIN live i ON i.id = n.instance_id
        UNION ALL SELECT 'step', row_to_json(s)::text
            FROM operations o JOIN operation_steps s ON s.operation_id = o.id
            WHERE o.pool_id = $1 AND s.outcome = 'UNKNOWN'
        UNION ALL SELECT 'recovery', row_to_json(r)::text FROM recoveries r JOIN live i ON i.id = r.instance",
    instance: "SELECT 'instance' AS part, row_to_json(i)::text AS document FROM instances i WHERE i.id = $1
        UNION ALL SELECT 'node', row_to_json(n)::text FROM replacement_nodes n WHERE n.instance_id = $1",
    known: "SELECT 'known' AS part, json_build_object('phase', i.phase)::text AS document
        FROM instances i WHERE i.id = $1 AND i.pool_id = $2",
    holds: "SELECT DISTINCT 'hold' AS part, h.document FROM (
            SELECT json_build_object('pool_id', i.pool_id, 'id', i.id, 'phase', i.phase,
                'node_name', i.node_replacement_evidence ->> 'node_name')::text AS document
            FROM instances i
            WHERE i.node_replacement_evidence ->> 'node_uid' = $1
                AND i.node_replacement_evidence ->> 'node_name' IS NOT NULL
            UNION ALL SELECT json_build_object('pool_id', i.pool_id, 'id', i.id, 'phase', i.phase,
                'node_name', n.node_name)::text
            FROM replacement_nodes n JOIN instances i ON i.id = n.instance_id
            WHERE n.node_uid = $1) h",
    step: "SELECT 'context' AS part, json_build_object(
                'pool_id', (SELECT o.pool_id FROM operations o WHERE o.id = $1),
                'instance_known', (SELECT count(*) FROM instances i WHERE i.id = $3 AND i.pool_id = $4))::text AS document
        UNION ALL SELECT 'step', row_to_json(s)::text
            FROM operation_steps s WHERE s.operation_id = $1 AND s.step_id = $2",
    recovery: "SELECT 'instance' AS part, row_to_json(i)::text AS document
            FROM instances i WHERE i.id = $2 AND i.pool_id = $3
        UNION ALL SELECT 'recovery', row_to_json(r)::text
            FROM recoveries r WHERE r.operation = $1 OR r.instance = $2
        UNION ALL SELECT 'serving', json_build_object('count', count(*))::text
            FROM instances i WHERE i.pool_id = $3 AND i.phase = 'SERVING'",
};
