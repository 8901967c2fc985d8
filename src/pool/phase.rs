//! The phase of an instance and the transitions that may ever be written.
//!
//! A phase is durable and moves only along [`Phase::permits`]. There is no way from SUSPECT back to
//! SERVING: the gateway has none either. A row whose phase this binary does not know is kept as
//! [`Phase::Unrecognised`]: it occupies capacity, is never advanced, and is reported.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an instance stands between its first row and its verified absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Phase {
    /// A row exists; no object may exist yet.
    Pending,
    /// The five objects exist under recorded UIDs.
    Creating,
    /// Registered at the gateway; not validated.
    Preparing,
    /// Validated; its receipt is durable.
    Validating,
    /// The gateway accepted the admission.
    Admitted,
    /// The gateway routes new work to it.
    Serving,
    /// The gateway routes no new work to it; obligations end.
    Draining,
    /// The gateway confirmed that nothing is owed.
    Sealed,
    /// The gateway granted the irreversible retirement claim: objects may be deleted.
    Retiring,
    /// Absent and closed. Terminal.
    Retired,
    /// The gateway was told that it fails. One-way.
    Suspect,
    /// The gateway accepted proof, or an authorized declaration, that the process ended.
    Lost,
    /// A lost or never-admitted instance, absent and closed. Terminal.
    FailureRetired,
    /// A candidate given up before admission; still owns objects and perhaps a gateway slot.
    FailedPreparing,
    /// Written by a newer binary. Never defaulted, never advanced, counted as occupying capacity.
    #[serde(other)]
    Unrecognised,
}

impl Phase {
    /// Every phase this binary knows, in the order of a life.
    pub const KNOWN: [Self; 14] = [
        Self::Pending,
        Self::Creating,
        Self::Preparing,
        Self::Validating,
        Self::Admitted,
        Self::Serving,
        Self::Draining,
        Self::Sealed,
        Self::Retiring,
        Self::Retired,
        Self::Suspect,
        Self::Lost,
        Self::FailureRetired,
        Self::FailedPreparing,
    ];

    /// The word stored in the database and shown to people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Creating => "CREATING",
            Self::Preparing => "PREPARING",
            Self::Validating => "VALIDATING",
            Self::Admitted => "ADMITTED",
            Self::Serving => "SERVING",
            Self::Draining => "DRAINING",
            Self::Sealed => "SEALED",
            Self::Retiring => "RETIRING",
            Self::Retired => "RETIRED",
            Self::Suspect => "SUSPECT",
            Self::Lost => "LOST",
            Self::FailureRetired => "FAILURE_RETIRED",
            Self::FailedPreparing => "FAILED_PREPARING",
            Self::Unrecognised => "UNRECOGNISED",
        }
    }

    /// The phase a stored word names; any other word is [`Phase::Unrecognised`].
    #[must_use]
    pub fn from_stored(word: &str) -> Self {
        Self::KNOWN
            .into_iter()
            .find(|phase| phase.as_str() == word)
            .unwrap_or(Self::Unrecognised)
    }

    /// Whether a row may be moved from `self` to `to`.
    #[must_use]
    pub const fn permits(self, to: Self) -> bool {
        use Phase::{
            Admitted, Creating, Draining, FailedPreparing, FailureRetired, Lost, Pending, Preparing, Retired,
            Retiring, Sealed, Serving, Suspect, Validating,
        };
        matches!(
            (self, to),
            (Pending, Creating | FailedPreparing)
                | (Creating, Preparing | FailedPreparing)
                | (Preparing, Validating | FailedPreparing)
                | (Validating, Admitted | Preparing | FailedPreparing)
                | (Admitted, Serving | Draining | Suspect)
                | (Serving, Draining | Suspect)
                | (Draining, Sealed | Suspect)
                | (Sealed, Retiring | Suspect)
                | (Retiring, Retired)
                | (Suspect, Lost | Draining)
                | (Lost | FailedPreparing, FailureRetired)
        )
    }

    /// Nothing more will happen to the row.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Retired | Self::FailureRetired)
    }

    /// It counts against the pool's budgets. An unrecognised phase does: forgetting it could create
    /// an instance too many, or drain one too many.
    #[must_use]
    pub const fn occupies_capacity(self) -> bool {
        !self.is_terminal()
    }

    /// It has not been admitted yet.
    #[must_use]
    pub const fn is_candidate(self) -> bool {
        matches!(
            self,
            Self::Pending | Self::Creating | Self::Preparing | Self::Validating
        )
    }

    /// On its way out by way of a drain.
    #[must_use]
    pub const fn is_departing(self) -> bool {
        matches!(self, Self::Draining | Self::Sealed | Self::Retiring)
    }

    /// Its pods stand and must not be disrupted, so what happens to their nodes matters. Pods of an
    /// instance that is being deleted lose theirs anyway.
    #[must_use]
    pub const fn needs_its_nodes(self) -> bool {
        match self {
            Self::Creating
            | Self::Preparing
            | Self::Validating
            | Self::Admitted
            | Self::Serving
            | Self::Draining
            | Self::Sealed
            | Self::Suspect => true,
            Self::Pending
            | Self::Retiring
            | Self::Retired
            | Self::Lost
            | Self::FailureRetired
            | Self::FailedPreparing
            | Self::Unrecognised => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_phase_survives_its_stored_word() {
        for phase in Phase::KNOWN {
            assert_eq!(Phase::from_stored(phase.as_str()), phase);
        }
        assert_eq!(Phase::from_stored("TELEPORTING"), Phase::Unrecognised);
    }

    #[test]
    fn suspicion_told_to_the_gateway_has_no_way_back() {
        assert!(!Phase::Suspect.permits(Phase::Serving));
        assert!(!Phase::Suspect.permits(Phase::Admitted));
    }

    #[test]
    fn terminal_and_unrecognised_phases_go_nowhere() {
        for from in [Phase::Retired, Phase::FailureRetired, Phase::Unrecognised] {
            for to in Phase::KNOWN {
                assert!(!from.permits(to), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn an_unrecognised_phase_still_occupies_capacity() {
        assert!(Phase::Unrecognised.occupies_capacity());
        assert!(!Phase::Unrecognised.is_terminal());
    }
}
