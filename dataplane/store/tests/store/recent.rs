//! Figures of the last hours for the overview.

use docket_domain::delivery::{FailureClass, Status};
use docket_domain::failure::Cause;
use docket_rig::tenant_database::{Place, T0, TenantDatabase, WEBHOOK, delivery_id, ended_sql, new_delivery};
use docket_rig::{on_both_databases, postgres};
use docket_store::deliveries::NewDelivery;
use docket_store::recent::{self, EndedDelivery, Failures, LastFailure, MAX_COUNT, SAMPLE};
use docket_store::{deliveries, events};

use crate::buffers::pages;

on_both_databases!(
    ends_are_counted_and_sampled_by_hour,
    failures_are_grouped,
    counts_and_samples_are_bounded,
    figures_of_webhooks_are_read_from_their_own_indexes,
    last_response_with_a_body_is_found,
    last_failure_is_the_last_dead_letter_or_else_a_delivery_that_is_tried_again,
);

const HOUR: i64 = 3_600_000;

/// Ends a delivery, with an event of its own, at `at_ms`.
async fn ended(rig: &TenantDatabase, number: u16, status: Status, at_ms: i64) {
    let event = rig.event(&format!("W{number}")).await;
    rig.write(async |t| deliveries::insert(t, &new_delivery(delivery_id(number), &event), T0).await).await;
    rig.run(&ended_sql(status, &at_ms.to_string(), &format!("id = '{}'", delivery_id(number)))).await;
}

async fn ends_are_counted_and_sampled_by_hour(rig: TenantDatabase) {
    ended(&rig, 1, Status::Succeeded, T0).await;
    ended(&rig, 2, Status::DeadLetter, T0 + HOUR - 1).await;
    ended(&rig, 3, Status::Succeeded, T0 + HOUR).await;
    let test = rig.event("TEST-1").await;
    rig.write(async |t| {
        events::mark_as_test(t, &test, WEBHOOK).await?;
        deliveries::insert(t, &new_delivery(delivery_id(9), &test), T0).await
    })
    .await;
    rig.run(&ended_sql(Status::Succeeded, &T0.to_string(), &format!("id = '{}'", delivery_id(9)))).await;
    rig.run(&format!(
        "UPDATE delivery_history SET total_us = 7, attempt_count = 2 WHERE id = '{}'",
        delivery_id(3)
    ))
    .await;

    let mut reader = rig.reader().await;
    for (webhook, expected) in [(WEBHOOK, vec![delivery_id(9).to_string()]), ("zulu", Vec::new())] {
        let tests = deliveries::last_tests(&mut reader, webhook, 3).await.expect("a statement");
        let ids: Vec<String> = tests.into_iter().map(|test| test.id).collect();
        assert_eq!(ids, expected, "{webhook}");
    }
    let hooks = ["zulu".to_owned(), WEBHOOK.to_owned()];
    for (status, from_ms, expected) in [
        (Status::Succeeded, T0, 2),
        (Status::Succeeded, T0 + 1, 1),
        (Status::DeadLetter, T0, 1),
        (Status::DeadLetter, T0 + HOUR, 0),
    ] {
        let found = recent::count(&mut reader, &hooks, status, from_ms).await.expect("a statement");
        assert_eq!(found, expected, "{status} {from_ms}");
    }
    assert_eq!(recent::count(&mut reader, &hooks[..1], Status::Succeeded, 0).await.expect("a statement"), 0);
    let hours = [(T0, T0 + HOUR), (T0 + HOUR, T0 + 2 * HOUR)];
    let mut sample = recent::sample(&mut reader, None, &hours).await.expect("a statement");
    sample.sort_by_key(|ended| (ended.span, ended.status.as_str()));
    let of = |span, status, attempts, total_us| EndedDelivery { span, status, attempts, total_us };
    let [first, second, third] = sample[..] else { panic!("{sample:?}") };
    assert_eq!((first.span, first.status), (0, Status::DeadLetter));
    assert_eq!((second.span, second.status), (0, Status::Succeeded));
    assert_eq!(third, of(1, Status::Succeeded, 2, Some(7)));
    for (uids, found) in [(&hooks[..], 3), (&hooks[..1], 0), (&hooks[1..], 3), (&[][..], 0)] {
        let sample = recent::sample(&mut reader, Some(uids), &hours).await.expect("a statement");
        assert_eq!(sample.len(), found, "{uids:?}");
    }
}

async fn failures_are_grouped(rig: TenantDatabase) {
    for number in 1..=3_u16 {
        ended(&rig, number, Status::DeadLetter, T0 + i64::from(number)).await;
    }
    rig.run("UPDATE delivery_history SET failure_class = 'Dns'").await;
    let id = delivery_id(3);
    rig.run(&format!("UPDATE delivery_history SET failure_class = 'Refused' WHERE id = '{id}'")).await;
    for number in [1, 2] {
        let insert = "INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, failure_class, failure_cause)";
        rig.run(&format!("{insert} VALUES ('{}', 5, 0, 'TlsUntrusted', 'SelfSigned')", delivery_id(number)))
            .await;
    }
    // These failures are more frequent than any dead letter, and still come after them.
    for number in 8..=11 {
        let event = rig.event(&format!("W{number}")).await;
        rig.write(async |t| deliveries::insert(t, &new_delivery(delivery_id(number), &event), T0).await)
            .await;
    }
    rig.run("UPDATE delivery_queue SET status = 'Failed', attempt_count = 1, failure_class = 'Connect'")
        .await;

    let mut reader = rig.reader().await;
    let found = recent::failures(&mut reader, &[WEBHOOK.to_owned()]).await.expect("a statement");
    let dead = |class, count| of(Status::DeadLetter, class, count);
    assert_eq!(
        found,
        [
            dead(FailureClass::Dns, 2),
            dead(FailureClass::Refused, 1),
            of(Status::Failed, FailureClass::Connect, 4)
        ]
    );
    assert_eq!(recent::failures(&mut reader, &["zulu".to_owned()]).await.expect("a statement"), []);

    // The remedy is chosen by values that all these failures have in common.
    let common = async |change: &str| {
        rig.run(&format!("UPDATE delivery_history SET {change} WHERE failure_class <> 'Refused'")).await;
        let mut reader = rig.reader().await;
        let found = recent::failures(&mut reader, &[WEBHOOK.to_owned()]).await.expect("a statement");
        (found[0].class, found[0].http_status, found[0].cause)
    };
    let class = FailureClass::TlsUntrusted;
    assert_eq!(common("failure_class = 'TlsUntrusted'").await, (class, None, Some(Cause::SelfSigned)));
    let class = FailureClass::ClientError;
    assert_eq!(common("failure_class = 'ClientError', http_status = 429").await, (class, Some(429), None));
    let mixed = format!("http_status = CASE WHEN id = '{}' THEN 401 ELSE 429 END", delivery_id(1));
    assert_eq!(common(&mixed).await, (class, None, None));
    let class = FailureClass::Unknown("OfANewerVersion");
    assert_eq!(common("failure_class = 'OfANewerVersion', http_status = NULL").await, (class, None, None));

    fn of(status: Status, class: FailureClass, count: i64) -> Failures {
        Failures { webhook: WEBHOOK.to_owned(), status, class, count, http_status: None, cause: None }
    }
}

async fn counts_and_samples_are_bounded(rig: TenantDatabase) {
    let event = rig.event("W1").await;
    let fill = format!(
        "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
         finished_at_ms) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {}) \
         SELECT CAST(n AS TEXT), '{}', '{WEBHOOK}', 'n', 'Succeeded', 1, {T0}, {T0}, {T0} FROM s",
        MAX_COUNT + 50,
        event.as_str()
    );
    rig.run(&fill).await;
    let mut reader = rig.reader().await;
    let hooks = [WEBHOOK.to_owned()];
    let found = recent::count(&mut reader, &hooks, Status::Succeeded, T0).await.expect("a statement");
    assert_eq!(found, MAX_COUNT + 1);
    // Test events do not count, and take no place of the bound.
    let test = rig.event("TEST-1").await;
    rig.write(async |t| events::mark_as_test(t, &test, WEBHOOK).await).await;
    for (tests, expected) in [(40, MAX_COUNT + 1), (60, MAX_COUNT - 10)] {
        rig.run(&format!(
            "UPDATE delivery_history SET event_id = '{}' WHERE CAST(id AS BIGINT) <= {tests}",
            test.as_str()
        ))
        .await;
        let found = recent::count(&mut reader, &hooks, Status::Succeeded, T0).await.expect("a statement");
        assert_eq!(found, expected, "{tests} tests");
    }
    rig.run(&format!("UPDATE delivery_history SET event_id = '{}'", event.as_str())).await;
    let sample = recent::sample(&mut reader, None, &[(T0, T0 + HOUR)]).await.expect("a statement");
    assert_eq!(sample.len() as i64, SAMPLE);
    let sample =
        recent::sample(&mut reader, Some(&hooks[..]), &[(T0, T0 + HOUR)]).await.expect("a statement");
    assert_eq!(sample.len() as i64, SAMPLE);
    // A sample of one webhook, too, has the last ends of both statuses.
    ended(&rig, 1, Status::DeadLetter, T0 + 1).await;
    let sample =
        recent::sample(&mut reader, Some(&hooks[..]), &[(T0, T0 + HOUR)]).await.expect("a statement");
    let dead = sample.iter().filter(|ended| ended.status == Status::DeadLetter).count();
    assert_eq!((sample.len() as i64, dead), (SAMPLE, 1));
    // A sample of two webhooks has the same bound, also if one of them has few deliveries.
    rig.run("UPDATE delivery_history SET webhook = 'zulu' WHERE status = 'DeadLetter'").await;
    let hooks = [WEBHOOK.to_owned(), "zulu".to_owned()];
    let sample =
        recent::sample(&mut reader, Some(&hooks[..]), &[(T0, T0 + HOUR)]).await.expect("a statement");
    let dead = sample.iter().filter(|ended| ended.status == Status::DeadLetter).count();
    assert_eq!((sample.len() as i64, dead), (SAMPLE, 1));
}

/// The indexes find counts and samples even if many deliveries of other webhooks ended in the period, also by a plan for any values.
async fn figures_of_webhooks_are_read_from_their_own_indexes(rig: TenantDatabase) {
    let event = rig.event("W1").await;
    let fill = format!(
        "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
         finished_at_ms) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) \
         SELECT CAST(n AS TEXT), '{}', CASE WHEN n % 1000 = 0 THEN 'rare' ELSE 'usual' END, 'n', 'Succeeded', 1, n, n, n FROM s",
        event.as_str()
    );
    rig.run(&fill).await;
    let is_postgres = matches!(rig.place, Place::Url(_));
    let sample = |webhooks| recent::sample_sql(is_postgres, Some(webhooks), 2);
    let count = |status| recent::count_sql(status).replace("{values}", "$3, $4");
    let (spans, period) = (["0", "10000", "10000", "20000"], ["0", "10001"]);
    let (one, two) = (["'rare'"], ["'rare'", "'none'"]);
    // Both have the time after the webhook.
    let of_lost = if is_postgres { "delivery_open" } else { "delivery_by_end" };
    let statements = [
        (sample(1), [&spans[..], &one].concat(), "delivery_by_end"),
        (sample(2), [&spans[..], &two].concat(), "delivery_by_end"),
        (count(Status::Succeeded), [&period[..], &two].concat(), "delivery_by_end"),
        (count(Status::DeadLetter), [&period[..], &two].concat(), of_lost),
    ];
    // SQLite has no statistics here: only PostgreSQL is tried with and without them.
    for analyzed in [false].into_iter().chain(is_postgres.then_some(true)) {
        if analyzed {
            rig.run("ANALYZE").await;
        }
        for (sql, values, index) in &statements {
            for plan in plans(&rig, sql, values).await {
                assert!(plan.contains(index), "analyzed: {analyzed}\n{sql}\n{plan}");
                let other = ["delivery_finished", "Seq Scan on delivery_history", "SCAN d\n", "SCAN last"];
                assert!(
                    !other.iter().any(|other| plan.contains(other)),
                    "analyzed: {analyzed}\n{sql}\n{plan}"
                );
            }
        }
    }
    // A scan ends with its span: ten spans with a hundred ends of the busy webhook each cost little of its index.
    if let Place::Url(url) = &rig.place {
        let (client, database) = (postgres::client(url).await, rig.opened_with(1));
        let spans: Vec<(i64, i64)> = (190..200).map(|span| (span * 100, (span + 1) * 100)).collect();
        let hooks = ["usual".to_owned()];
        let before = pages(&database, &client, &["delivery_history"]).await;
        let mut reader = database.reader().await.expect("a connection");
        let found = recent::sample(&mut reader, Some(&hooks), &spans).await.expect("a statement").len();
        drop(reader);
        let read = pages(&database, &client, &["delivery_history"]).await - before;
        assert!(found == 999 && read < 200, "{read} pages for {found} deliveries");
    }
}

/// The plans of a statement: on PostgreSQL for these values, and for any values, which a connection may prefer after some uses.
async fn plans(rig: &TenantDatabase, sql: &str, values: &[&str]) -> Vec<String> {
    let Place::Url(url) = &rig.place else {
        let sql = (1..=values.len())
            .rev()
            .fold(sql.to_owned(), |sql, n| sql.replace(&format!("${n}"), values[n - 1]));
        let database = rig.opened_again();
        let mut reader = database.reader().await.expect("a connection");
        let rows = reader.query(&format!("EXPLAIN QUERY PLAN {sql}"), Vec::new()).await.expect("a plan");
        return vec![rows.iter().map(|row| row.get::<String>(3).expect("text") + "\n").collect()];
    };
    let client = postgres::client(url).await;
    client
        .batch_execute(&format!("SET enable_seqscan = off; PREPARE asked AS {sql}"))
        .await
        .expect("prepared");
    let mut plans = Vec::new();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        client.batch_execute(&format!("SET plan_cache_mode = {mode}")).await.expect("a setting");
        let explain = format!("EXPLAIN EXECUTE asked ({})", values.join(", "));
        let rows = client.query(explain.as_str(), &[]).await.expect("a plan");
        plans.push(rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect());
    }
    plans
}

async fn last_response_with_a_body_is_found(rig: TenantDatabase) {
    for number in 1..=3 {
        ended(&rig, number, Status::DeadLetter, T0).await;
    }
    let attempt = |number: u16, attempt: u8, response: &str| {
        format!(
            "INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, response_body) \
             VALUES ('{}', {attempt}, {T0}, {T0}, 'ServerError', {response});",
            delivery_id(number)
        )
    };
    let long = format!("'{}'", "x".repeat(300));
    let attempts = [(1, 1, "'first'"), (1, 2, &long), (2, 1, "'only'"), (2, 2, "NULL"), (3, 1, "' '")];
    for (number, place, response) in attempts {
        rig.run(&attempt(number, place, response)).await;
    }
    let ids = [1, 2, 3].map(|number| delivery_id(number).to_string());
    let found = recent::last_responses(&mut rig.reader().await, &ids).await.expect("a statement");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [(ids[0].clone(), "x".repeat(200))]);
}

async fn last_failure_is_the_last_dead_letter_or_else_a_delivery_that_is_tried_again(rig: TenantDatabase) {
    for (number, after) in [(1, 1), (2, 5), (3, 3), (4, 9)] {
        ended(&rig, number, Status::DeadLetter, T0 + after).await;
    }
    // The last dead letter was set aside, so it does not count.
    let aside = "UPDATE delivery_history SET set_aside_by = 'employee 1', set_aside_at_ms = 1";
    rig.run(&format!("{aside} WHERE id = '{}'", delivery_id(4))).await;
    for (attempt, response) in [(1, "'first'".to_owned()), (2, format!("'{}'", "x".repeat(300)))] {
        rig.run(&format!(
            "INSERT INTO attempt_history (delivery_id, attempt_no, started_at_ms, finished_at_ms, failure_class, response_body) \
             VALUES ('{}', {attempt}, {}, {T0}, 'ServerError', {response})",
            delivery_id(2),
            T0 + attempt
        ))
        .await;
    }
    for (number, webhook, due, created) in [(8, WEBHOOK, 1, 0), (9, "zulu", 60, 0), (10, "zulu", 50, 1)] {
        let event = rig.event(&format!("W{number}")).await;
        let new = NewDelivery {
            webhook: webhook.into(),
            due_at_ms: Some(T0 + due),
            ..new_delivery(delivery_id(number), &event)
        };
        rig.write(async |t| deliveries::insert(t, &new, T0 + created).await).await;
    }
    rig.run("UPDATE delivery_queue SET status = 'Failed', attempt_count = 1, failure_class = 'Connect'")
        .await;

    let webhooks = ["none", "zulu", WEBHOOK].map(str::to_owned);
    let found = recent::last_failures(&mut rig.reader().await, &webhooks).await.expect("a statement");
    let lost = LastFailure {
        webhook: WEBHOOK.into(),
        id: delivery_id(2).to_string(),
        response: Some("x".repeat(200)),
        since_ms: T0 + 1,
        next_attempt_at_ms: None,
        attempted_at_ms: Some(T0 + 2),
    };
    let tried_again = LastFailure {
        webhook: "zulu".into(),
        id: delivery_id(10).to_string(),
        response: None,
        since_ms: T0,
        next_attempt_at_ms: Some(T0 + 50),
        attempted_at_ms: None,
    };
    assert_eq!(found, [lost, tried_again]);
}
