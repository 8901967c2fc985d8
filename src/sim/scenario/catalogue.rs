//! Every story, by name.

use super::Scenario;
use super::stories::replacing;

/// All stories, in the order in which they are listed and run.
pub const ALL: &[&[Scenario]] = &[replacing::STORIES];

/// Every story.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    ALL.iter().flat_map(|group| group.iter())
}

/// The story of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    all().find(|scenario| scenario.name == name)
}
