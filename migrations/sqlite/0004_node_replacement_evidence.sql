-- The first observed fact that a node under an instance is drifted or being deleted: written once, never
-- changed, never cleared, whoever asks. There is no down migration, because it would drop the evidence.
ALTER TABLE instances ADD COLUMN node_replacement_evidence TEXT;

CREATE TRIGGER evidence_is_immutable BEFORE UPDATE ON instances FOR EACH ROW
    WHEN OLD.node_replacement_evidence IS NOT NULL
         AND NEW.node_replacement_evidence IS NOT OLD.node_replacement_evidence
BEGIN
    SELECT RAISE(ABORT, 'node replacement evidence is immutable');
END;

CREATE TRIGGER evidence_is_kept BEFORE DELETE ON instances FOR EACH ROW
    WHEN OLD.node_replacement_evidence IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'node replacement evidence is immutable');
END;
