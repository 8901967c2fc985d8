-- Every further node of the same instance that was seen going. Append-only.
CREATE TABLE replacement_nodes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    instance_id TEXT NOT NULL REFERENCES instances (id),
    node_name TEXT NOT NULL,
    node_uid TEXT NOT NULL,
    nodeclaim_name TEXT NOT NULL,
    nodeclaim_uid TEXT NOT NULL,
    reason TEXT NOT NULL,
    observed_at TEXT NOT NULL,
    UNIQUE (instance_id, node_uid, nodeclaim_uid, reason)
) STRICT;
CREATE INDEX replacement_nodes_node ON replacement_nodes (node_uid);

CREATE TRIGGER replacement_nodes_are_append_only BEFORE UPDATE ON replacement_nodes FOR EACH ROW
BEGIN
    SELECT RAISE(ABORT, 'replacement nodes are append-only');
END;

CREATE TRIGGER replacement_nodes_are_kept BEFORE DELETE ON replacement_nodes FOR EACH ROW
BEGIN
    SELECT RAISE(ABORT, 'replacement nodes are append-only');
END;
