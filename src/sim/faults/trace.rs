//! The record of every call: what a determinism test compares and a failed seed is read from.

use std::fmt::{self, Write};

use jiff::Timestamp;

use super::{Call, Decision};

/// Longest text kept of an answer, in characters.
pub(super) const BRIEF: usize = 160;

/// One call that returned, or in which the process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it returned.
    pub at: Timestamp,
    /// What was called.
    pub call: Call,
    /// What happened to it.
    pub decision: Decision,
    /// What the caller saw, in short.
    pub outcome: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?}.{} {}",
            self.at, self.call.port, self.call.method, self.call.about
        )?;
        if self.decision != Decision::Pass {
            write!(f, " !{:?}", self.decision)?;
        }
        write!(f, " -> {}", self.outcome)
    }
}

/// Entries in the order in which the calls returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(Vec<Entry>);

impl Trace {
    pub(super) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Where two runs part: the number of the first entry that differs, with both entries.
    #[must_use]
    pub fn first_difference<'t>(&'t self, other: &'t Self) -> Option<Parting<'t>> {
        let longest = self.0.len().max(other.0.len());
        (0..longest).find_map(|at| {
            let (left, right) = (self.0.get(at), other.0.get(at));
            (left != right).then_some((at, left, right))
        })
    }
}

/// Number of an entry, and the entry in either run.
pub type Parting<'t> = (usize, Option<&'t Entry>, Option<&'t Entry>);

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

/// The beginning of a value's `Debug` text; stops formatting where it is cut.
pub(super) fn brief(value: &impl fmt::Debug) -> String {
    struct Clip {
        text: String,
        left: usize,
    }
    impl Write for Clip {
        fn write_str(&mut self, more: &str) -> fmt::Result {
            for character in more.chars() {
                if self.left == 0 {
                    return Err(fmt::Error);
                }
                self.left -= 1;
                self.text.push(character);
            }
            Ok(())
        }
    }
    let mut clip = Clip {
        text: String::new(),
        left: BRIEF,
    };
    if write!(clip, "{value:?}").is_err() {
        clip.text.push('…');
    }
    clip.text
}
