-- Raised by one in every transaction that changes anything of the pool, so that one statement tells which pools have
-- changed since they were loaded. A binary that knows no revision leaves it alone: what it writes comes with an epoch of
-- its own, which is looked at beside the revision.
ALTER TABLE pools ADD COLUMN revision BIGINT NOT NULL DEFAULT 0 CHECK (revision >= 0);
