-- Every further node of the same instance that was seen going. Append-only.
CREATE TABLE replacement_nodes (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance_id TEXT COLLATE "C" NOT NULL REFERENCES instances (id),
    node_name TEXT COLLATE "C" NOT NULL,
    node_uid TEXT NOT NULL,
    nodeclaim_name TEXT NOT NULL,
    nodeclaim_uid TEXT NOT NULL,
    reason TEXT NOT NULL,
    observed_at TIMESTAMPTZ NOT NULL,
    UNIQUE (instance_id, node_uid, nodeclaim_uid, reason)
);
CREATE INDEX replacement_nodes_node ON replacement_nodes (node_uid);

CREATE FUNCTION refuse_replacement_node_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'replacement nodes are append-only' USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER replacement_nodes_are_append_only BEFORE UPDATE OR DELETE ON replacement_nodes
    FOR EACH ROW EXECUTE FUNCTION refuse_replacement_node_change();
CREATE TRIGGER replacement_nodes_are_kept BEFORE TRUNCATE ON replacement_nodes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_replacement_node_change();
