-- Who this store is. One row, made by the first migration and never changed: TrinoPool.status remembers it.
CREATE TABLE store_identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id TEXT NOT NULL,
    -- The lowest schema version a binary must know to use this store. Additive migrations leave it alone; one
    -- that older binaries must not touch raises it.
    usable_from INTEGER NOT NULL DEFAULT 1
) STRICT;

-- Columns that hold JSON are TEXT; times are RFC 3339 in UTC with six decimals, so that their order is the order of
-- time.
CREATE TABLE pools (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    routing_group TEXT NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    owner TEXT NOT NULL DEFAULT '',
    resource TEXT,
    generation INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
    desired TEXT,
    mode TEXT NOT NULL
) STRICT;

-- Rows are never deleted: ids are never reused, and a tombstone is what an orphan is judged by.
CREATE TABLE instances (
    id TEXT PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 63),
    pool_id TEXT NOT NULL REFERENCES pools (id),
    release_id TEXT NOT NULL,
    spec_digest TEXT NOT NULL,
    blueprint TEXT NOT NULL,
    -- No CHECK: a newer binary may know more phases, an older one keeps what it does not know.
    phase TEXT NOT NULL,
    phase_changed_at TEXT NOT NULL,
    owner_epoch INTEGER NOT NULL CHECK (owner_epoch >= 0),
    repair_for TEXT,
    failure TEXT,
    objects TEXT,
    process TEXT,
    member TEXT,
    receipt TEXT,
    excluded_nodes TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX instances_live ON instances (pool_id) WHERE phase NOT IN ('RETIRED', 'FAILURE_RETIRED');

CREATE TABLE pool_failures (
    pool_id TEXT NOT NULL REFERENCES pools (id),
    cause TEXT NOT NULL,
    count INTEGER NOT NULL CHECK (count >= 1),
    last_at TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (pool_id, cause)
) STRICT;
