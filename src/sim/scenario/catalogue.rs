//! Every story, by name.

use super::Scenario;
use super::stories::{failing, gateway, nodes, pools, processes, replacing};

/// All stories, in the order in which they are listed and told.
const ALL: &[&[Scenario]] = &[
    replacing::STORIES,
    nodes::STORIES,
    gateway::STORIES,
    failing::STORIES,
    pools::STORIES,
    processes::STORIES,
];

/// Every story.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    ALL.iter().flat_map(|group| group.iter())
}

/// The story of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    all().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_stories_share_a_name_and_each_says_what_it_expects() {
        let names: BTreeSet<&str> = all().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all().count());
        for scenario in all() {
            assert!(
                scenario.story.starts_with("Given ") && scenario.story.contains(" then "),
                "{}",
                scenario.name
            );
        }
    }
}
