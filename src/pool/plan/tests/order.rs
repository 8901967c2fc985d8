//! Which instance is replaced first.

use super::*;

/// The order in which these are drained, each one vanishing once it was chosen, in a pool that always has
/// one more than it needs.
fn drained(mut views: Vec<InstanceView>) -> Vec<String> {
    let mut order = Vec::new();
    loop {
        let desired = u32::try_from(views.len()).unwrap() - 1;
        if desired == 0 {
            return order;
        }
        let Action::Drain(next) = plan(&pool(desired, desired, views.clone())).action else {
            return order;
        };
        views.retain(|view| view.id != next);
        order.push(next.to_string());
    }
}

#[test]
fn w08_deleting_outranks_drifted_outranks_a_release_change() {
    use Disruption::{Deleting, Drifted};
    let soon = Some(noon().saturating_add(Duration::from_mins(5)).unwrap());
    let later = Some(noon().saturating_add(Duration::from_hours(5)).unwrap());
    let views = vec![
        serving("g-release").old_release().born(90_000),
        serving("f-drifted").leaving(Drifted, 50, None),
        serving("e-drifted-long-ago").leaving(Drifted, 500, None),
        serving("d-drifted-at-risk")
            .leaving(Drifted, 5, None)
            .with(|view| view.at_risk = true),
        serving("c-deleting").leaving(Deleting, 900, None),
        serving("b-deleting-later").leaving(Deleting, 1, later),
        serving("a-deleting-soon").leaving(Deleting, 1, soon),
        serving("h-current"),
    ];
    assert_eq!(
        drained(views)[..7],
        [
            "a-deleting-soon",
            "b-deleting-later",
            "c-deleting",
            "d-drifted-at-risk",
            "e-drifted-long-ago",
            "f-drifted",
            "g-release",
        ]
    );
}

#[test]
fn w08_a_drifted_instance_whose_claim_is_deleted_moves_up() {
    let first = |urgency| {
        let views = vec![
            serving("a").leaving(Disruption::Drifted, 900, None),
            serving("b").leaving(urgency, 10, None),
            serving("c"),
            serving("d"),
        ];
        plan(&pool(3, 3, views)).action
    };
    assert_eq!(first(Disruption::Drifted), drain("a"));
    assert_eq!(first(Disruption::Deleting), drain("b"));
}
