//! The fault tests T-1 to T-28: what each proves, its long form, and the tests of `tests/run` that are its short form.

use crate::scenarios::Scenario;

/// A fault test.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) invariant: &'static str,
    /// The number of trials, or the conditions, that would prove enough.
    pub(crate) aim: &'static str,
    pub(crate) long: Long,
    /// Tests that `tests/run` runs, each with its target in front.
    pub(crate) short: &'static [&'static str],
}

/// The long form of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Long {
    /// A scenario of this program, with the largest number of trials, and its minutes of the hour.
    Scenario(Scenario, u32, u32),
    /// The short form, repeated at most this number of times, and its minutes of the hour.
    Repeated(u32, u32),
}

/// A target of cargo with tests: its name in the table, how cargo is to choose it, and the folder of its sources.
pub(crate) const TARGETS: [(&str, &[&str], &str); 9] = [
    ("docket", &["--test", "docket"], "tests/docket"),
    ("operator", &["--test", "operator"], "tests/operator"),
    ("faults", &["--example", "faults"], "tests/faults"),
    ("worker", &["--lib"], "dataplane/src"),
    ("schedule", &["--test", "schedule"], "dataplane/schedule/tests"),
    ("store", &["--test", "store"], "dataplane/store/tests"),
    ("egress", &["--lib"], "dataplane/egress/src"),
    ("model", &["--test", "search"], "tests/model/tests"),
    ("replay", &["--test", "replay"], "tests/model/tests/replay"),
];

/// All tests, in the order of their numbers.
pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "T-1a",
        invariant: "An acknowledged order has all its deliveries, and no delivery is without its order.",
        aim: "1,000 kills, 100,000 acknowledged saves",
        long: Long::Scenario(Scenario::SaveKills, 1_000, 3),
        short: &["docket::delivery::kills::sixty_kills_lose_nothing_repeat_nothing_and_leave_no_orphans"],
    },
    Test {
        name: "T-1b",
        invariant: "The same under faults of PostgreSQL; a save with a 5xx never counts as acknowledged.",
        aim: "30 of each of 12 faults",
        long: Long::Scenario(Scenario::Databases, 360, 4),
        short: &[
            "docket::serve::faults::a_commit_without_a_response_sends_nothing_until_another_attempt_takes_over",
            "docket::serve::faults::a_postgresql_that_crashes_under_load_loses_nothing_acknowledged",
            "docket::api::faults::a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing",
            "docket::api::faults::a_locked_database_refuses_writes_for_as_long_and_still_reads",
        ],
    },
    Test {
        name: "T-1c",
        invariant: "A client that leaves never poisons a connection to PostgreSQL.",
        aim: "20,000 clients that leave",
        long: Long::Scenario(Scenario::Cancels, 20_000, 1),
        short: &[
            "faults::short::clients_that_leave_poison_no_connection",
            "store::cancellation::cancelled_at_each_step",
            "docket::api::wire::a_client_that_hangs_up_after_its_request_has_saved_one_whole_order_or_none",
        ],
    },
    Test {
        name: "T-2",
        invariant: "Each delivery ends as Succeeded or DeadLetter.",
        aim: "60 minutes, 50,000 deliveries",
        long: Long::Scenario(Scenario::Mixed, 10_000, 3),
        short: &["faults::short::mixed_faults_break_no_rule"],
    },
    Test {
        name: "T-3",
        invariant: "A delivery has at most five POSTs. It is a dead letter exactly after its fifth failure, and each attempt has a row.",
        aim: "50 kills at each of 9 points",
        long: Long::Scenario(Scenario::AttemptKills, 750, 4),
        short: &[
            "docket::delivery::kills::attempts_cut_off_by_a_kill_are_noted_and_taken_over_within_seconds",
            "docket::delivery::kills::a_fifth_attempt_that_is_cut_off_is_the_last_one",
            "docket::serve::faults::a_killed_workers_deliveries_are_taken_over_within_seconds",
        ],
    },
    Test {
        name: "T-4",
        invariant: "Two attempts of a delivery overlap only if the lease of the first one has expired, and a late end changes nothing.",
        aim: "500 pauses",
        long: Long::Scenario(Scenario::Pauses, 500, 3),
        short: &[
            "docket::serve::faults::a_frozen_workers_late_end_changes_nothing",
            "docket::delivery::faults::an_overtaken_attempt_leaves_its_successors_lease_alone",
            "schedule::many::four_processes_claim_each_entry_once",
        ],
    },
    Test {
        name: "T-5",
        invariant: "A loss of Redis loses no delivery, and causes no early, further or parallel attempt.",
        aim: "50 of each of 12 faults, 20,000 deliveries",
        long: Long::Scenario(Scenario::Stores, 600, 3),
        short: &[
            "docket::serve::faults::an_emptied_redis_loses_no_delivery_and_no_retry",
            "docket::serve::faults::an_older_redis_repeats_nothing_and_forgets_nothing",
            "docket::serve::faults::a_redis_that_hangs_costs_no_attempt_its_lease",
        ],
    },
    Test {
        name: "T-6",
        invariant: "Saves continue while Redis hangs or is away, and deliveries continue once it is back.",
        aim: "5 minutes; save p99 at most 1 s, no error, back within 10 s",
        long: Long::Scenario(Scenario::Away, 1, 2),
        short: &[
            "docket::serve::away::saves_succeed_without_redis_and_are_delivered_once_it_is_back",
            "schedule::connection::calls_to_a_redis_that_hangs_end_and_it_is_found_again",
        ],
    },
    Test {
        name: "T-7",
        invariant: "No attempt is before its due time by PostgreSQL's clock, whatever the clock of the worker shows.",
        aim: "10,000 retries",
        long: Long::Scenario(Scenario::Clocks, 1_000, 1),
        short: &[
            "faults::short::clocks_that_jump_make_no_attempt_early",
            "docket::delivery::backoff::retries_come_after_60_120_240_and_480_seconds_and_not_a_moment_earlier",
        ],
    },
    Test {
        name: "T-8",
        invariant: "A poll takes at most 25 deliveries.",
        aim: "10,000 polls",
        long: Long::Repeated(50, 1),
        short: &[
            "worker::delivery::attempt::claim::tests::poll_claims_at_most_25_due_deliveries",
            "schedule::many::many_processes_share_a_busy_index",
        ],
    },
    Test {
        name: "T-9",
        invariant: "A schedule that was lost is built again from the rows, and no row is left out, whatever the order of commits.",
        aim: "100 rounds",
        long: Long::Repeated(100, 1),
        short: &[
            "schedule::loss::an_emptied_redis_is_rebuilt",
            "schedule::loss::a_loss_during_the_rebuilding_is_one_more",
            "docket::serve::away::entries_missed_by_redis_are_scheduled_when_it_is_back",
            "docket::delivery::invoices::a_row_of_a_slow_transaction_arrives_whatever_its_number_and_time",
        ],
    },
    Test {
        name: "T-10",
        invariant: "Requests under one idempotency key are one order, and its deliveries are scheduled whatever cut them off.",
        aim: "10,000 keys, five requests each",
        long: Long::Scenario(Scenario::RepeatedSaves, 1_000, 1),
        short: &[
            "docket::api::idempotency::sixteen_at_once_under_one_key_are_one_order",
            "docket::delivery::kills::a_save_repeated_after_a_kill_is_done_once",
        ],
    },
    Test {
        name: "T-11",
        invariant: "One tenant cannot delay another.",
        aim: "15 minutes; beside this: tests/bench/run silent beside hostile",
        long: Long::Repeated(20, 1),
        short: &[
            "docket::serve::faults::a_thousand_deliveries_to_a_hanging_endpoint_delay_no_other_tenant",
            "docket::delivery::fairness::a_flood_of_two_thousand_orders_does_not_delay_another_tenant",
            "schedule::many::a_tenant_of_5000_webhooks_does_not_delay_another",
        ],
    },
    Test {
        name: "T-12",
        invariant: "One webhook cannot delay another one of its tenant.",
        aim: "15 minutes; beside this: tests/bench/run silent",
        long: Long::Repeated(20, 1),
        short: &["docket::delivery::fairness::a_hanging_endpoint_with_a_thousand_deliveries_delays_no_other"],
    },
    Test {
        name: "T-13",
        invariant: "Each POST is signed over its exact bytes, which are the same for each attempt of an event, also while secrets change.",
        aim: "20,000 attempts",
        long: Long::Scenario(Scenario::Rotations, 1_000, 1),
        short: &[
            "docket::delivery::contract::every_attempt_carries_the_same_bytes_and_ids",
            "docket::delivery::contract::next_secret_signs_beside_the_current_one_until_it_takes_its_place",
            "docket::delivery::lifecycle::a_retry_is_signed_with_the_secret_of_the_day_over_the_same_bytes",
        ],
    },
    Test {
        name: "T-14",
        invariant: "Hostile receivers cost a worker a bounded amount of memory and time.",
        aim: "20 kinds, 200 of each",
        long: Long::Repeated(200, 1),
        short: &[
            "egress::tests::malformed::endless_body_is_read_up_to_8_kib",
            "egress::tests::malformed::endless_header_block_is_cut_off",
            "egress::tests::malformed::answer_that_is_not_http_names_the_rule_that_it_breaks",
            "egress::tests::slow::dripping_headers_are_a_first_byte_timeout",
            "egress::tests::slow::endless_interim_answers_are_a_first_byte_timeout",
            "egress::tests::slow::dripping_body_of_an_error_is_a_body_timeout",
            "egress::tests::answer::compressed_answer_is_kept_as_it_came",
        ],
    },
    Test {
        name: "T-15",
        invariant: "Docket connects to no forbidden address.",
        aim: "90 ways to name one, and 10,000 lookups that change",
        long: Long::Repeated(200, 1),
        short: &[
            "docket::delivery::addresses::forbidden_addresses_are_blocked_before_any_connection",
            "docket::delivery::addresses::a_redirect_to_a_forbidden_address_is_not_followed",
            "egress::connector::tests::odd_spellings_of_forbidden_addresses_are_refused",
            "egress::connector::tests::rebinding_name_is_refused_at_its_second_answer",
            "egress::tests::forbidden::forbidden_target_gets_no_packet",
        ],
    },
    Test {
        name: "T-16",
        invariant: "A key or a token of one tenant never reads or changes another.",
        aim: "the whole matrix",
        long: Long::Repeated(20, 1),
        short: &[
            "docket::api::tenancy::only_matching_key_token_and_host_reach_a_tenants_orders",
            "docket::api::tokens::a_token_of_another_tenant_is_refused_however_it_is_labelled",
            "docket::portal::matrix::each_route_answers_each_user_as_the_table_says",
        ],
    },
    Test {
        name: "T-17",
        invariant: "No trick with the host chooses a tenant.",
        aim: "60 cases",
        long: Long::Repeated(50, 1),
        short: &[
            "docket::api::auth_refused::forwarded_headers_choose_no_tenant",
            "docket::api::wire::a_request_names_one_host",
            "docket::api::wire::an_absolute_uri_counts_as_the_host",
            "docket::api::wire::a_second_request_is_never_smuggled_past_the_length",
        ],
    },
    Test {
        name: "T-18",
        invariant: "A refused sign-in shows nothing by its body or its time.",
        aim: "5,000 of each of 4 kinds",
        long: Long::Repeated(20, 1),
        short: &[
            "docket::api::auth_refused::every_unknown_user_gets_the_same_response",
            "docket::api::auth_refused::no_refusal_is_quicker_than_that_of_a_wrong_password",
        ],
    },
    Test {
        name: "T-19",
        invariant: "A flood of sign-ins takes neither the API nor its memory.",
        aim: "5 minutes",
        long: Long::Repeated(10, 1),
        short: &[
            "docket::serve::hostile_clients::hostile_clients_of_one_tenant_are_not_noticed_by_another",
            "docket::api::limits::strangers_do_not_take_the_sign_ins_of_users_who_are_known",
        ],
    },
    Test {
        name: "T-20",
        invariant: "No secret and nothing of an order leaves in a log, a metric or an error. The checker looks for both in each scenario.",
        aim: "all output of all tests",
        long: Long::Repeated(10, 1),
        short: &[
            "docket::story::privacy::nothing_personal_in_text_logs_of_any_level",
            "docket::delivery::telemetry::the_log_names_each_attempt_and_holds_nothing_that_is_secret",
            "faults::short::mixed_faults_break_no_rule",
        ],
    },
    Test {
        name: "T-21",
        invariant: "A rotation refuses no valid caller, and a removed credential ends in time.",
        aim: "500 rotations",
        long: Long::Repeated(10, 1),
        short: &[
            "docket::serve::redis_changes::a_new_user_is_taken_up_before_the_old_one_is_removed",
            "docket::api::tokens::token_ends_when_its_user_is_dismissed_deleted_or_changed",
        ],
    },
    Test {
        name: "T-22",
        invariant: "The operator reaches the declared state after any order of crashes, and changes nothing of another tenant.",
        aim: "each write 20 times, 500 random histories",
        long: Long::Repeated(20, 4),
        short: &[
            "operator::faults::kills::killed_after_each_write_about_a_tenant_it_ends_in_the_same_state",
            "operator::faults::kills::killed_after_each_write_about_a_removed_tenant_it_leaves_what_its_policy_says",
            "operator::faults::kills::killed_after_each_write_about_a_webhook_it_ends_in_the_same_state",
            "operator::faults::calls::tenants_end_right_although_a_tenth_of_the_calls_fails",
            "operator::faults::leaders::writes_of_a_frozen_leader_that_arrive_late_change_nothing",
            "operator::faults::watches::what_happens_while_watches_are_broken_is_found",
            "operator::faults::watches::lists_from_the_past_undo_nothing",
            "operator::leadership::one_that_was_frozen_does_not_write_when_it_wakes_up",
        ],
    },
    Test {
        name: "T-23",
        invariant: "The API and the workers serve while the API server of Kubernetes is away.",
        aim: "30 minutes",
        long: Long::Repeated(30, 2),
        short: &[
            "docket::serve::cluster::secrets_are_followed_and_an_api_server_that_is_away_changes_nothing",
            "docket::serve::cluster::an_api_server_that_is_away_at_start_is_waited_for_and_named",
        ],
    },
    Test {
        name: "T-24",
        invariant: "A process that ends in order loses nothing and repeats nothing.",
        aim: "200 restarts",
        long: Long::Scenario(Scenario::Restarts, 200, 2),
        short: &[
            "docket::delivery::drain::attempts_under_way_are_finished_and_nothing_is_sent_twice",
            "docket::delivery::drain::a_request_under_way_is_answered_and_its_order_delivered",
        ],
    },
    Test {
        name: "T-25",
        invariant: "A webhook or tenant that is deleted and made again gets its own deliveries and no others.",
        aim: "200 rounds",
        long: Long::Repeated(200, 1),
        short: &[
            "docket::delivery::lifecycle::a_webhook_of_the_same_name_for_another_customer_gets_nothing_of_the_first_ones",
            "docket::delivery::lifecycle::a_tenant_that_is_removed_and_added_again_keeps_its_deliveries",
            "docket::delivery::lifecycle::an_inactive_webhook_gets_nothing_new_and_its_queued_deliveries_are_sent",
        ],
    },
    Test {
        name: "T-26",
        invariant: "Slow clients do not hold the API.",
        aim: "5,000 sockets, 10 minutes",
        long: Long::Repeated(20, 1),
        short: &[
            "docket::api::wire::slow_clients_are_given_up_while_others_are_served",
            "docket::api::wire::two_hundred_silent_connections_delay_no_other",
        ],
    },
    Test {
        name: "T-27",
        invariant: "No input causes a panic or a 5xx.",
        aim: "an hour",
        long: Long::Scenario(Scenario::Inputs, 1, 3),
        short: &["docket::api::wire::what_is_no_http_is_refused_or_closed"],
    },
    Test {
        name: "T-28",
        invariant: "The protocol of claims and leases is right, and each of its guards is needed.",
        aim: "all histories to a depth of 20",
        long: Long::Repeated(1, 2),
        short: &[
            "model::invariants_hold_with_all_guards",
            "model::without_each_guard_an_invariant_breaks",
            "replay::histories_on_postgresql_and_redis_are_those_of_the_model",
            "store::attempts::two_claimers_never_share_a_delivery",
            "store::attempts::a_late_end_after_a_takeover_counts_for_nothing",
        ],
    },
];

/// The tests with these names, in their order; all tests if there is no name. `T-1` means T-1a, T-1b and T-1c. Returns an error that
/// names an unknown test.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Test>, String> {
    let is = |test: &Test, name: &str| {
        test.name == name || test.name.trim_end_matches(|c: char| c.is_ascii_lowercase()) == name
    };
    if let Some(unknown) = names.iter().find(|name| !TESTS.iter().any(|test| is(test, name))) {
        return Err(format!("there is no test {unknown}: the tests are T-1a, T-1b, T-1c and T-2 to T-28"));
    }
    let wanted = |test: &&Test| names.is_empty() || names.iter().any(|name| is(test, name));
    Ok(TESTS.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// The text of all Rust files below a folder.
    fn sources(folder: &Path) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                text += &sources(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &std::fs::read_to_string(&path).expect("a text");
            }
        }
        text
    }

    #[test]
    fn each_short_form_is_there() {
        let texts: BTreeMap<&str, String> =
            TARGETS.iter().map(|(name, _, folder)| (*name, sources(&root().join(folder)))).collect();
        for test in TESTS {
            assert!(!test.short.is_empty(), "{} has no short form", test.name);
            for name in test.short {
                let (target, path) = name.split_once("::").expect("a target");
                let function = path.rsplit("::").next().expect("a function");
                assert!(texts[target].contains(&format!("fn {function}(")), "{}: {name}", test.name);
            }
        }
    }

    #[test]
    fn the_long_forms_take_an_hour_at_most() {
        let minutes = |test: &Test| match test.long {
            // Each scenario takes half a minute more, to start and to end.
            Long::Scenario(_, _, minutes) => f64::from(minutes) + 0.5,
            Long::Repeated(_, minutes) => f64::from(minutes),
        };
        let all: f64 = TESTS.iter().map(minutes).sum();
        assert!(all <= 60.0, "{all} minutes");
    }

    #[test]
    fn the_readme_has_each_test() {
        let readme = std::fs::read_to_string(root().join("tests/faults/README.md")).expect("a page");
        let rows: BTreeSet<&str> =
            readme.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next()).collect();
        for test in TESTS {
            assert!(rows.contains(test.name), "{}", test.name);
            assert!(readme.contains(test.invariant), "{}: {}", test.name, test.invariant);
        }
    }

    #[test]
    fn tests_are_chosen_by_name_or_number() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            chosen(&wanted).map(|tests| tests.iter().map(|test| test.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["T-5", "T-1"]), Ok(vec!["T-1a", "T-1b", "T-1c", "T-5"]));
        assert_eq!(names(&["T-1b"]), Ok(vec!["T-1b"]));
        assert_eq!(names(&[]).map(|names| names.len()), Ok(TESTS.len()));
        assert!(names(&["T-29"]).is_err_and(|error| error.contains("T-29")));
    }
}
