-- What was found of a terminal instance under its exact labels, recorded before it is deleted by this UID.
CREATE TABLE orphans (
    instance_id TEXT NOT NULL REFERENCES instances (id),
    kind TEXT NOT NULL,
    uid TEXT NOT NULL,
    recorded_at TEXT NOT NULL,
    PRIMARY KEY (instance_id, kind, uid)
) STRICT;
