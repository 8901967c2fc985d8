//! What the world and the rows say of themselves, and the end of a story.

use super::*;

#[test]
fn s1_objects_go_only_after_the_retirement_was_claimed() {
    let name = format!("{}-coordinator", id(1));
    let with_member = |phase| {
        let name = name.clone();
        Story::begin().after(move |story| {
            story.a_fourth_serves();
            story.drain(1);
            story.member(1).phase = phase;
            story.destroy(Resource::Deployments, &name);
        })
    };
    for phase in [
        MemberPhase::Draining,
        MemberPhase::Sealed,
        MemberPhase::Lost,
        MemberPhase::Active,
        MemberPhase::Preparing,
    ] {
        assert!(with_member(phase).contains(&"S1"), "{phase:?}");
    }
    assert_eq!(with_member(MemberPhase::Retiring), FINE);
    let without_uid = Story::begin().after(|story| {
        story.destroy(Resource::Services, id(9).as_str());
        story.world.destroyed[0].uid = None;
    });
    assert_eq!(without_uid, ["S1"]);
    // A candidate that was never registered has no member at all.
    let unregistered = Story::begin().after(|story| {
        let name = format!("{}-worker-config", id(9));
        story.destroy(Resource::ConfigMaps, &name);
    });
    assert_eq!(unregistered, FINE);
}

#[test]
fn s2_nothing_of_others_is_destroyed_and_no_query_is_taken_along() {
    for (resource, name) in [
        (Resource::Nodes, "node-1"),
        (Resource::NodeClaims, "claim-1"),
        (Resource::Pods, "cell-00000001-coordinator-abc"),
    ] {
        assert_eq!(
            Story::begin().after(|story| story.destroy(resource, name)),
            ["S2"]
        );
    }
    assert_eq!(Story::begin().after(|story| story.world.cancelled = 1), ["S2"]);

    let ended = |live: usize, kind| {
        Story::begin().after(move |story| {
            story.a_fourth_serves();
            story.drain(1);
            story.member(1).phase = MemberPhase::Retiring;
            story.member(1).retirement_kind = Some(kind);
            let name = format!("{}-coordinator", id(1));
            story.destroy(Resource::Deployments, &name);
            story.world.ended.push(Ended {
                pod: "pod-1".into(),
                container: "c".into(),
                node_id: format!("{}-coordinator-7d9f-abcde", id(1)),
                coordinator: "boot1".into(),
                live_queries: vec!["q".into(); live],
                open_transactions: 0,
                at: at(100),
            });
        })
    };
    assert_eq!(ended(1, RetirementKind::Drained), ["S2"]);
    assert_eq!(ended(0, RetirementKind::Drained), FINE);
    assert_eq!(ended(1, RetirementKind::Failed), FINE);
}

#[test]
fn s3_evidence_is_written_once_and_nodes_are_only_appended() {
    let written = || {
        let mut story = Story::begin();
        story.row(1).evidence = RecordedEvidence::Some(evidence("node-a"));
        story.row(1).nodes = vec![further("node-b")];
        story.look();
        story
    };
    assert_eq!(written().broken(), FINE);
    assert_eq!(
        written().after(|story| story.row(1).nodes.push(further("node-c"))),
        FINE
    );
    assert_eq!(
        written().after(|story| story.row(1).evidence = RecordedEvidence::None),
        ["S3"]
    );
    assert_eq!(
        written().after(|story| story.row(1).evidence = RecordedEvidence::Some(evidence("node-c"))),
        ["S3"]
    );
    assert_eq!(written().after(|story| story.row(1).nodes.clear()), ["S3"]);
}

#[test]
fn s4_a_cordon_needs_a_row_with_that_uid_and_is_never_undone() {
    let cordoned = |held: bool| {
        let mut story = Story::begin();
        story
            .world
            .nodes
            .insert("node-a-uid".into(), node(true, Some("ours")));
        if held {
            story.row(1).evidence = RecordedEvidence::Some(evidence("node-a"));
        }
        story.look();
        story
    };
    assert_eq!(cordoned(false).broken(), ["S4"]);
    assert_eq!(cordoned(true).broken(), FINE);
    let then = |look: NodeLook| {
        cordoned(true).after(|story| {
            story.world.nodes.insert("node-a-uid".into(), look);
        })
    };
    assert_eq!(then(node(false, Some("ours"))), ["S4"]);
    assert_eq!(then(node(true, Some("another"))), ["S4"]);
    let foreign = Story::begin().after(|story| {
        story.row(1).evidence = RecordedEvidence::Some(evidence("node-a"));
        story.world.nodes.insert("node-a-uid".into(), node(true, None));
        story.look();
        story
            .world
            .nodes
            .insert("node-a-uid".into(), node(true, Some("ours")));
    });
    assert_eq!(foreign, ["S4"]);
}

#[test]
fn s5_an_instance_is_drained_for_its_node_only_once_a_replacement_serves() {
    let drained = |replacement: bool| {
        Story::begin().after(move |story| {
            story.row(1).evidence = RecordedEvidence::Some(evidence("node-a"));
            if replacement {
                story.a_fourth_serves();
            }
            story.drain(1);
        })
    };
    assert_eq!(drained(false), ["S5"]);
    assert_eq!(drained(true), FINE);
}

#[test]
fn s6_our_own_steps_leave_the_floor_standing() {
    let suspected = |alive: bool| {
        Story::begin().after(move |story| {
            for nth in [1, 2] {
                story.member(nth).phase = MemberPhase::Suspect;
                if !alive {
                    story.world.processes.remove(&format!("boot{nth}"));
                }
            }
        })
    };
    assert_eq!(suspected(true), ["S6"]);
    assert_eq!(suspected(false), FINE);
    let one = Story::begin().after(|story| story.member(1).phase = MemberPhase::Suspect);
    assert_eq!(one, FINE);
}

#[test]
fn s7_planned_candidates_are_prepared_one_at_a_time() {
    let candidates = |repair: bool| {
        Story::begin().after(move |story| {
            for nth in [5, 6] {
                story.pool().rows.insert(id(nth), row(Phase::Creating));
            }
            story.row(6).repair = repair;
        })
    };
    assert_eq!(candidates(false), ["S7"]);
    assert_eq!(candidates(true), FINE);
    // One that outlived its deadline is no longer the one that is being prepared (L6).
    let beside_a_stuck_one = |later: i64| {
        Story::begin().after(move |story| {
            story.pool().rows.insert(id(5), row(Phase::Creating));
            story.world.at = at(later);
            story.pool().rows.insert(id(6), row(Phase::Creating));
            story.row(6).phase_changed_at = at(later);
            story.row(6).created_at = at(later);
        })
    };
    assert_eq!(beside_a_stuck_one(15 * 60 - 1), ["S7"]);
    assert_eq!(beside_a_stuck_one(15 * 60), FINE);
}

#[test]
fn s8_an_epoch_never_falls() {
    assert_eq!(
        Story::begin().after(|story| story.pool().epoch = Epoch::new(4)),
        ["S8"]
    );
    let at_gateway = Story::begin().after(|story| {
        story.world.epochs.insert(group(), Epoch::new(4));
    });
    assert_eq!(at_gateway, ["S8"]);
}

#[test]
fn s10_what_a_member_became_is_never_taken_back() {
    let goes = |from: MemberPhase, to: MemberPhase| {
        let mut story = Story::begin();
        story.a_fourth_serves();
        story.member(1).phase = from;
        story.look();
        story.after(move |story| story.member(1).phase = to)
    };
    assert_eq!(goes(MemberPhase::Retiring, MemberPhase::Active), ["S10"]);
    assert_eq!(goes(MemberPhase::Active, MemberPhase::Preparing), ["S10"]);
    assert_eq!(goes(MemberPhase::Retiring, MemberPhase::Retired), FINE);
    let vanished = Story::begin().after(|story| {
        story.world.members.remove(&(group(), id(1)));
    });
    assert!(vanished.contains(&"S10"));
    let backwards = Story::begin().after(|story| story.row(1).phase = Phase::Creating);
    assert_eq!(backwards, ["S10"]);
}

#[test]
fn s11_a_frozen_pool_creates_nothing_and_begins_no_drain() {
    let frozen = || {
        let mut story = Story::begin();
        story.a_fourth_serves();
        story.pool().mode = PoolMode::Frozen(FreezeReason::Missing);
        story.look();
        story
    };
    let created = frozen().after(|story| {
        story.pool().rows.insert(id(9), row(Phase::Pending));
    });
    assert_eq!(created, ["S11"]);
    assert_eq!(frozen().after(|story| story.drain(1)), ["S11"]);
    let suspected = frozen().after(|story| {
        story.row(1).phase = Phase::Suspect;
        story.member(1).phase = MemberPhase::Suspect;
    });
    assert_eq!(suspected, FINE);
}

#[test]
fn the_end_names_what_has_not_happened() {
    let mut story = Story::begin();
    let ending = Ending::default();
    assert_eq!(unfinished(&story.world, &story.store, &ending), []);
    story.row(1).evidence = RecordedEvidence::Some(evidence("node-a"));
    story.pool().rows.insert(id(9), row(Phase::Preparing));
    story.member(2).phase = MemberPhase::Suspect;
    let rules: Vec<_> = unfinished(&story.world, &story.store, &ending)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(rules.len(), 3, "{rules:?}");
    assert!(rules[0].starts_with("L1: the node of"));
    assert!(rules[1].starts_with("L1: 2 members"));
    assert!(rules[2].starts_with("L6: "));
}
