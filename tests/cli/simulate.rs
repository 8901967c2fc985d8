//! `simulate`, as scripts use it.

use tempfile::TempDir;
use trino_pool_operator::sim::scenario::catalogue;

use crate::said::say;

#[test]
fn the_list_names_every_scenario_and_what_it_expects() {
    let said = say(["simulate", "--list"]);
    assert_eq!(said.code, Some(0));
    for scenario in catalogue::all() {
        assert!(
            said.out.lines().any(|line| line == scenario.name),
            "{}",
            scenario.name
        );
    }
}

#[test]
fn a_story_ends_with_one_json_object_and_its_store_is_not_used_twice() {
    let folder = TempDir::new().unwrap();
    let store = format!("sqlite:{}", folder.path().join("store.db").display());
    let line = [
        "simulate",
        "--scenario",
        "nodeclaim-deletion",
        "--speed",
        "30",
        "--output",
        "json",
        "--store",
        &store,
    ];
    let said = say(line);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["scenario"], "nodeclaim-deletion");
    assert_eq!(report["passed"], true);
    assert_eq!(report["queries"]["failed"], 0);
    assert_eq!(report["replacements"]["completed"], 1);
    // The store holds that world's rows now, which another world would only be confused by.
    assert!(say(line).refused().contains("empty"));
}

#[test]
fn options_that_do_not_go_together_are_named() {
    let said = say(["simulate", "--scenario", "all", "--keep-open"]);
    assert!(said.refused().contains("--keep-open"), "{said:?}");
    let said = say(["simulate", "--scenario", "all", "--store", "sqlite:x.db"]);
    assert!(said.refused().contains("--store"), "{said:?}");
}
