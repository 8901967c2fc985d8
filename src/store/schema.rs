//! Whether a store's schema fits this binary.
//!
//! The rule of compatibility: migrations are additive, so a binary works on a newer schema, keeps what it
//! does not know, and a rollout or a rollback needs no second migration. A migration that older binaries
//! must not touch raises `store_identity.usable_from`, and they refuse the store from then on. An older
//! schema is always refused: `run` never migrates by itself.

use super::port::StoreError;

/// One migration: its version and what its text hashes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Ascending from 1.
    pub version: i64,
    /// Of its text.
    pub checksum: Vec<u8>,
}

/// What a store says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Migrations it has seen.
    pub steps: Vec<Step>,
    /// Its UUID, if it has one.
    pub id: Option<String>,
    /// The lowest schema version a binary must know to use it; 0 if it does not say.
    pub usable_from: i64,
}

/// How far a migration went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema version before; 0 for an empty database.
    pub from: i64,
    /// The schema version now.
    pub to: i64,
}

impl Migrated {
    /// What a migration by a binary that knows `known` made of a store that was at `before`: a newer one
    /// stays where it is.
    #[must_use]
    pub fn after(before: &Applied, known: &[Step]) -> Self {
        let from = version(&before.steps);
        Self {
            from,
            to: from.max(version(known)),
        }
    }
}

/// The newest version of a list; 0 when there is none.
#[must_use]
pub fn version(steps: &[Step]) -> i64 {
    steps.iter().map(|step| step.version).max().unwrap_or(0)
}

/// Whether this binary, which knows `known`, may use the store.
///
/// # Errors
/// `Schema`, which says what to do.
pub fn fits(applied: &Applied, known: &[Step]) -> Result<(), StoreError> {
    may_migrate(applied, known)?;
    let (have, need) = (version(&applied.steps), version(known));
    if have == 0 {
        return Err(StoreError::Schema(
            "it is empty; run `trino-pool-operator migrate`".into(),
        ));
    }
    let missing = known
        .iter()
        .any(|step| !applied.steps.iter().any(|a| a.version == step.version));
    if missing {
        return Err(StoreError::Schema(format!(
            "it is at version {have}, this binary needs {need}; run `trino-pool-operator migrate`"
        )));
    }
    Ok(())
}

/// Whether this binary may migrate the store, or leave it alone because it is newer.
///
/// # Errors
/// `Schema`: the store is too new, or was migrated with other texts.
pub fn may_migrate(applied: &Applied, known: &[Step]) -> Result<(), StoreError> {
    let (have, need) = (version(&applied.steps), version(known));
    if applied.usable_from > need {
        return Err(StoreError::Schema(format!(
            "it is at version {have} and can be used by binaries that know version {} or newer; this one knows {need}: \
             run a newer trino-pool-operator",
            applied.usable_from
        )));
    }
    let changed = applied.steps.iter().find(|a| {
        known
            .iter()
            .any(|step| step.version == a.version && step.checksum != a.checksum)
    });
    if let Some(step) = changed {
        return Err(StoreError::Schema(format!(
            "its version {} was made by another text than this binary's: it is not a store of this program's releases",
            step.version
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(versions: std::ops::RangeInclusive<i64>) -> Vec<Step> {
        versions
            .map(|version| Step {
                version,
                checksum: vec![version.to_le_bytes()[0]],
            })
            .collect()
    }

    fn store(versions: std::ops::RangeInclusive<i64>, usable_from: i64) -> Applied {
        Applied {
            steps: steps(versions),
            id: None,
            usable_from,
        }
    }

    #[test]
    fn an_older_schema_is_refused_and_says_to_migrate() {
        for old in [Applied::default(), store(1..=2, 1)] {
            let error = fits(&old, &steps(1..=3)).unwrap_err();
            assert!(error.to_string().contains("migrate"), "{error}");
            assert_eq!(may_migrate(&old, &steps(1..=3)), Ok(()));
        }
    }

    #[test]
    fn a_newer_additive_schema_fits_and_a_breaking_one_does_not() {
        assert_eq!(fits(&store(1..=5, 1), &steps(1..=3)), Ok(()));
        assert_eq!(fits(&store(1..=5, 3), &steps(1..=3)), Ok(()));
        let error = fits(&store(1..=5, 4), &steps(1..=3)).unwrap_err();
        assert!(error.to_string().contains("newer trino-pool-operator"), "{error}");
        assert!(may_migrate(&store(1..=5, 4), &steps(1..=3)).is_err());
    }

    #[test]
    fn a_schema_made_by_other_texts_is_refused() {
        let mut other = store(1..=3, 1);
        other.steps[1].checksum = vec![99];
        assert!(fits(&other, &steps(1..=3)).is_err());
    }
}
