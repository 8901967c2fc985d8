-- Who this store is. One row, made by the first migration and never changed: TrinoPool.status remembers it.
CREATE TABLE store_identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id TEXT NOT NULL,
    -- The lowest schema version a binary must know to use this store. Additive migrations leave it alone; one
    -- that older binaries must not touch raises it.
    usable_from BIGINT NOT NULL DEFAULT 1
);

-- Identities are compared and ordered byte by byte, whatever the database's locale.
CREATE TABLE pools (
    id TEXT COLLATE "C" PRIMARY KEY,
    namespace TEXT NOT NULL,
    routing_group TEXT NOT NULL,
    epoch BIGINT NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    owner TEXT NOT NULL DEFAULT '',
    resource TEXT,
    generation BIGINT NOT NULL DEFAULT 0 CHECK (generation >= 0),
    desired JSONB,
    mode JSONB NOT NULL
);

-- Rows are never deleted: ids are never reused, and a tombstone is what an orphan is judged by.
CREATE TABLE instances (
    id TEXT COLLATE "C" PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 63),
    pool_id TEXT COLLATE "C" NOT NULL REFERENCES pools (id),
    release_id TEXT NOT NULL,
    spec_digest TEXT NOT NULL,
    blueprint JSONB NOT NULL,
    -- No CHECK: a newer binary may know more phases, an older one keeps what it does not know.
    phase TEXT NOT NULL,
    phase_changed_at TIMESTAMPTZ NOT NULL,
    owner_epoch BIGINT NOT NULL CHECK (owner_epoch >= 0),
    repair_for TEXT,
    failure JSONB,
    objects JSONB,
    process JSONB,
    member JSONB,
    receipt JSONB,
    excluded_nodes JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX instances_live ON instances (pool_id) WHERE phase NOT IN ('RETIRED', 'FAILURE_RETIRED');

CREATE TABLE pool_failures (
    pool_id TEXT COLLATE "C" NOT NULL REFERENCES pools (id),
    cause TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL CHECK (count >= 1),
    last_at TIMESTAMPTZ NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (pool_id, cause)
);
