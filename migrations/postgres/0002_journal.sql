-- Intent before an ambiguous effect, outcome after it. An operation belongs to one pool for ever.
CREATE TABLE operations (
    id TEXT COLLATE "C" PRIMARY KEY,
    pool_id TEXT COLLATE "C" NOT NULL REFERENCES pools (id),
    created_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE operation_steps (
    operation_id TEXT COLLATE "C" NOT NULL REFERENCES operations (id),
    step_id TEXT COLLATE "C" NOT NULL,
    instance_id TEXT COLLATE "C" NOT NULL REFERENCES instances (id),
    -- TEXT, not JSONB: a replay sends exactly what was recorded.
    request TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('UNKNOWN', 'APPLIED', 'REFUSED')),
    attempts BIGINT NOT NULL CHECK (attempts >= 1),
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (operation_id, step_id)
);
CREATE INDEX operation_steps_open ON operation_steps (operation_id) WHERE outcome = 'UNKNOWN';
