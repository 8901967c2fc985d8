//! The cluster suite: what the `Cluster` port must do against an API server, whichever one it is, and what its
//! adapter relies on in that server.
//!
//! Each story takes the port and an outsider with an administrator's hands, and makes everything it needs
//! under names of its own, so that stories may share one cluster. The same stories run on the simulated API
//! server and on a real one: that is what keeps the simulation honest. Nothing here sleeps; where controllers
//! must act, the outsider is asked to let them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise, and so may its suite"
)]

pub mod claims;
pub mod hints;
pub mod nodes;
pub mod objects;
pub mod outsider;
pub mod pods;
pub mod pools;
pub mod verdicts;
pub mod watches;

/// Makes one test of each story. `$stage` is an async expression that gives the port and the outsider, or nothing
/// where there can be no such cluster (it has said so).
macro_rules! cluster_stories {
    ($stage:expr; $($part:ident { $($story:ident,)+ })+) => {$(
        mod $part {
            $(
                #[tokio::test]
                async fn $story() {
                    let Some((cluster, outsider)) = $stage.await else {
                        return;
                    };
                    $crate::cluster_suite::$part::$story(&cluster, &outsider).await;
                }
            )+
        }
    )+};
}
pub(crate) use cluster_stories;

/// Every story, by the part of the port that it is about.
macro_rules! all_cluster_stories {
    ($stage:expr) => {
        $crate::cluster_suite::cluster_stories! { $stage;
            claims {
                a_listing_is_complete_whatever_its_pages,
                a_listing_that_was_compacted_says_so_and_a_new_one_is_whole,
                k17_a_drift_is_seen_from_its_beginning_to_its_end,
                a_claim_that_is_being_deleted_stays_until_its_finalizer_goes,
                pages_of_one_listing_never_mix_versions,
                k17_only_a_true_condition_is_a_drift,
                what_a_later_version_adds_to_a_claim_does_no_harm,
            }
            nodes {
                a_cordon_needs_the_exact_node_and_version,
                a07_a_new_node_under_an_old_name_is_left_alone,
                a_node_carries_its_owners_and_taints,
            }
            objects {
                an_object_is_created_once_and_deleted_by_uid,
                a_new_object_under_an_old_name_has_another_uid,
                invalid_content_is_denied,
                objects_are_found_by_the_pools_label,
                an_instance_is_applied_adopted_and_removed,
            }
            pods {
                k14_protection_repairs_one_annotation_and_nothing_else,
                a_terminating_pod_is_still_listed,
                ownership_leads_from_pod_to_deployment_by_uid,
                during_a_roll_two_sets_own_pods_of_one_deployment,
                only_the_exact_word_true_is_ready,
            }
            pools {
                a_status_replaces_and_never_touches_the_spec,
                our_finalizer_stands_beside_others,
                a_lease_is_won_once_and_replaced_by_version,
                an_event_said_twice_is_one_event,
            }
            verdicts {
                a_patch_carries_its_preconditions,
                a_delete_carries_its_preconditions,
                a_refusal_says_what_it_is_about,
                a_put_of_a_lease_that_is_gone_makes_a_new_one,
                unknown_fields_are_dropped_where_the_schema_knows_better,
                what_the_schema_forbids_is_invalid,
            }
            watches {
                a_watch_tells_what_enters_changes_and_leaves_its_selector,
                a_watch_goes_on_from_a_version_without_a_gap,
                a_watch_that_ends_says_before_up_to_where_it_saw,
                a02_a_watch_from_a_forgotten_version_is_told_so_in_the_stream,
                a_streaming_list_sends_what_there_is_then_a_mark_then_changes,
                options_of_a_watch_that_contradict_each_other_are_invalid,
            }
            hints {
                every_kind_of_change_is_hinted_at,
                hints_survive_a_compaction,
            }
        }
    };
}
pub(crate) use all_cluster_stories;
