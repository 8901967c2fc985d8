-- The first observed fact that a node under an instance is drifted or being deleted: written once, never
-- changed, never cleared, whoever asks. There is no down migration, because it would drop the evidence.
ALTER TABLE instances ADD COLUMN node_replacement_evidence JSONB;

CREATE INDEX instances_evidence_node ON instances ((node_replacement_evidence ->> 'node_uid'))
    WHERE node_replacement_evidence IS NOT NULL;

CREATE FUNCTION refuse_evidence_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node replacement evidence is immutable' USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER evidence_is_immutable BEFORE UPDATE ON instances FOR EACH ROW
    WHEN (OLD.node_replacement_evidence IS NOT NULL
          AND NEW.node_replacement_evidence IS DISTINCT FROM OLD.node_replacement_evidence)
    EXECUTE FUNCTION refuse_evidence_change();

CREATE TRIGGER evidence_is_kept BEFORE DELETE ON instances FOR EACH ROW
    WHEN (OLD.node_replacement_evidence IS NOT NULL)
    EXECUTE FUNCTION refuse_evidence_change();

CREATE TRIGGER instances_are_kept BEFORE TRUNCATE ON instances
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_evidence_change();
