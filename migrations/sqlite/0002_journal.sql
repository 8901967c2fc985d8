-- Intent before an ambiguous effect, outcome after it. An operation belongs to one pool for ever.
CREATE TABLE operations (
    id TEXT PRIMARY KEY,
    pool_id TEXT NOT NULL REFERENCES pools (id),
    created_at TEXT NOT NULL
) STRICT;

CREATE TABLE operation_steps (
    operation_id TEXT NOT NULL REFERENCES operations (id),
    step_id TEXT NOT NULL,
    instance_id TEXT NOT NULL REFERENCES instances (id),
    -- Never rewritten as JSON: a replay sends exactly what was recorded.
    request TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('UNKNOWN', 'APPLIED', 'REFUSED')),
    attempts INTEGER NOT NULL CHECK (attempts >= 1),
    at TEXT NOT NULL,
    PRIMARY KEY (operation_id, step_id)
) STRICT;
CREATE INDEX operation_steps_open ON operation_steps (operation_id) WHERE outcome = 'UNKNOWN';
