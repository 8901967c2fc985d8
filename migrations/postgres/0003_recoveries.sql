-- A person declared one exact process lost. One for each instance and operation, ever.
CREATE TABLE recoveries (
    operation TEXT COLLATE "C" PRIMARY KEY CHECK (length(operation) BETWEEN 1 AND 128),
    instance TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES instances (id),
    expected_generation BIGINT NOT NULL CHECK (expected_generation > 0),
    incarnation TEXT NOT NULL,
    pod_uid TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    node_id TEXT NOT NULL,
    coordinator_id TEXT NOT NULL,
    requested_by TEXT NOT NULL CHECK (length(requested_by) BETWEEN 1 AND 320),
    reason TEXT NOT NULL CHECK (length(reason) BETWEEN 1 AND 256),
    created_at TIMESTAMPTZ NOT NULL
);
