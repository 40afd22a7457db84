//! Which dead letters count: the latest delivery of each event to a webhook, unless it is set aside.

use docket_crds::EventCode;
use docket_domain::delivery::{DeliveryId, Status};
use docket_domain::event::EventId;
use docket_program::clock::Clock;
use docket_rig::tenant_database::{Place, T0, TenantDatabase, WEBHOOK, delivery_id, ended_sql, new_delivery};
use docket_rig::{on_both_databases, postgres};
use docket_store::deliveries as rows;
use docket_store::resends::DeadFilter;
use docket_store::{dead_letters, health, recent, resends};

use super::upgrade;

on_both_databases!(
    what_was_sent_again_counts_once_more_at_most,
    what_is_set_aside_counts_nowhere_until_that_ends,
    a_withdrawn_resend_leaves_its_dead_letter,
    what_a_worker_has_attempted_is_not_withdrawn,
    what_cannot_be_sent_again_takes_no_place_of_a_limit,
    dead_letters_of_before_keys_are_marked_as_others_are,
    each_bound_of_a_choice_counts,
    last_webhook_of_a_name_is_found,
    bulk_resends_are_found_newest_first_in_pages,
);

fn filter(set_aside: bool) -> DeadFilter {
    DeadFilter { webhook: WEBHOOK.into(), limit: 100, set_aside, ..DeadFilter::default() }
}

/// A dead letter with an event of its own.
async fn dead(rig: &TenantDatabase, number: u16) -> (DeliveryId, EventId) {
    let (id, event) = (delivery_id(number), rig.event(&format!("W{number}")).await);
    rig.write(async |t| rows::insert(t, &new_delivery(id, &event), T0 + i64::from(number)).await).await;
    end(rig, id, Status::DeadLetter).await;
    (id, event)
}

async fn end(rig: &TenantDatabase, id: DeliveryId, status: Status) {
    let columns = "failure_class = 'Dns'";
    rig.run(&ended_sql(status, &T0.to_string(), &format!("id = '{id}'"))).await;
    rig.run(&format!("UPDATE delivery_history SET {columns} WHERE id = '{id}' AND status = 'DeadLetter'"))
        .await;
}

async fn resend(rig: &TenantDatabase, of: DeliveryId, event: &EventId, number: u16) -> DeliveryId {
    let id = delivery_id(number);
    let resend_id = Some("bulk".to_owned());
    let new = rows::NewDelivery { resend_of: Some(of.to_string()), resend_id, ..new_delivery(id, event) };
    rig.write(async |t| rows::insert(t, &new, T0 + i64::from(number)).await).await;
    id
}

/// The dead letters that count. Every way of counting them must give the same result.
async fn open(rig: &TenantDatabase) -> Vec<String> {
    let mut reader = rig.reader().await;
    let dead = resends::dead_letters(&mut reader, &filter(false)).await.expect("a statement");
    let count = dead.len() as i64;
    let found = health::by_webhook(&mut reader).await.expect("a statement");
    assert_eq!(found[0].dead_letter, count);
    assert_eq!(found[0].last_dead_letter_at_ms.is_some(), count > 0);
    let hooks = [WEBHOOK.to_owned()];
    let today = recent::count(&mut reader, &hooks, Status::DeadLetter, 0).await.expect("a statement");
    assert_eq!(today, count);
    let failures = recent::failures(&mut reader, &hooks).await.expect("a statement");
    assert_eq!(failures.iter().map(|failures| failures.count).sum::<i64>(), count);
    dead.into_iter().map(|dead| dead.id).collect()
}

async fn what_was_sent_again_counts_once_more_at_most(rig: TenantDatabase) {
    let ((first, event), (other, _)) = (dead(&rig, 1).await, dead(&rig, 2).await);
    assert_eq!(open(&rig).await, [first.to_string(), other.to_string()]);
    let second = resend(&rig, first, &event, 11).await;
    assert_eq!(open(&rig).await, [other.to_string()], "it is being sent");
    end(&rig, second, Status::DeadLetter).await;
    assert_eq!(open(&rig).await, [other.to_string(), second.to_string()], "once, as the latest");
    // This resends the first delivery, not the latest.
    let third = resend(&rig, first, &event, 12).await;
    end(&rig, third, Status::Succeeded).await;
    assert_eq!(open(&rig).await, [other.to_string()]);
    assert!(rig.delivery(first).await.resent && rig.delivery(second).await.resent);
    assert!(!rig.delivery(third).await.resent && !rig.delivery(other).await.resent);
    let mut reader = rig.reader().await;
    let listed = rows::find(&mut reader, first).await.expect("a statement").expect("it is there");
    let later = rows::later(&mut reader, &listed).await.expect("a statement");
    let later: Vec<_> = later.iter().map(|later| (later.id.clone(), later.status)).collect();
    assert_eq!(later, [(third.to_string(), Status::Succeeded), (second.to_string(), Status::DeadLetter)]);
}

async fn what_is_set_aside_counts_nowhere_until_that_ends(rig: TenantDatabase) {
    let ((first, event), (other, _)) = (dead(&rig, 1).await, dead(&rig, 2).await);
    let aside =
        async |id| rig.write(async |t| dead_letters::set_aside_one(t, id, "employee 1", T0 + 50).await).await;
    assert!(aside(first).await && !aside(first).await, "once");
    assert_eq!(open(&rig).await, [other.to_string()]);
    assert_eq!(rig.delivery(first).await.set_aside, Some(("employee 1".to_owned(), T0 + 50)));
    assert!(rig.write(async |t| dead_letters::undo_one(t, first).await).await);
    assert!(!rig.write(async |t| dead_letters::undo_one(t, first).await).await);
    assert_eq!(open(&rig).await.len(), 2);

    // With a filter, the oldest dead letters are set aside first, and no more than the limit.
    let few = DeadFilter { limit: 1, ..filter(false) };
    let all = async |filter: &DeadFilter| {
        rig.write(async |t| dead_letters::set_aside(t, filter, "employee 2", T0 + 60).await).await
    };
    assert_eq!((all(&few).await, open(&rig).await), (1, vec![other.to_string()]));
    let mut reader = rig.reader().await;
    let (extent, total) = resends::extent(&mut reader, &filter(true), 10).await.expect("a statement");
    assert_eq!((extent.count, total, extent.oldest_ms), (1, 1, Some(T0 + 1)));
    drop(reader);
    assert_eq!(all(&filter(false)).await, 1);
    assert_eq!(open(&rig).await, Vec::<String>::new());
    let undone = rig.write(async |t| dead_letters::undo(t, &filter(true)).await).await;
    assert_eq!((undone, open(&rig).await.len()), (2, 2));

    // Resending a dead letter that is set aside ends setting it aside.
    assert!(aside(first).await);
    let again = resend(&rig, first, &event, 11).await;
    assert_eq!(rig.delivery(first).await.set_aside, None);
    end(&rig, again, Status::DeadLetter).await;
    assert_eq!(open(&rig).await, [other.to_string(), again.to_string()]);
    assert!(!aside(first).await, "it does not count anyway");
}

/// The bulk resend to which [`resend`] adds deliveries.
async fn insert_bulk_resend(rig: &TenantDatabase) {
    rig.run(
        "INSERT INTO resend (id, webhook, webhook_name, per_second, count, requested_by, created_at_ms) \
         VALUES ('bulk', 'w', 'a/w', 1, 1, 'x', 0)",
    )
    .await;
}

async fn what_a_worker_has_attempted_is_not_withdrawn(rig: TenantDatabase) {
    let (first, event) = dead(&rig, 1).await;
    let again = resend(&rig, first, &event, 11).await;
    insert_bulk_resend(&rig).await;
    // The first attempt of the resend has failed, and the resend waits for the second attempt.
    rig.set_status(again, Status::Failed).await;
    rig.run(&format!("UPDATE delivery_queue SET attempt_count = 1 WHERE id = '{again}'")).await;
    let stopped = rig.write(async |t| resends::stop(t, "bulk", "x", T0).await).await;
    assert_eq!((stopped, rig.delivery(again).await.status), (Some(0), Status::Failed));
}

async fn a_withdrawn_resend_leaves_its_dead_letter(rig: TenantDatabase) {
    let (first, event) = dead(&rig, 1).await;
    resend(&rig, first, &event, 11).await;
    insert_bulk_resend(&rig).await;
    assert_eq!(open(&rig).await, Vec::<String>::new());
    let stopped = rig.write(async |t| resends::stop(t, "bulk", "x", T0).await).await;
    assert_eq!((stopped, open(&rig).await), (Some(1), vec![first.to_string()]));
    let again = rig.write(async |t| resends::stop(t, "bulk", "x", T0 + 1).await).await;
    assert_eq!(again, Some(0));
    rig.run("DELETE FROM delivery_history").await;
    let found = resends::search(&mut rig.reader().await, None, Some("bulk"), None, 1).await;
    assert_eq!(found.expect("a statement")[0].taken_back, 1, "retention changes nothing of it");
}

async fn bulk_resends_are_found_newest_first_in_pages(rig: TenantDatabase) {
    // Three in each millisecond, to two webhooks in turn.
    for number in 0..9 {
        let webhook = if number % 2 == 0 { WEBHOOK } else { "smith/other/SMITH" };
        rig.run(&format!(
            "INSERT INTO resend (id, webhook, webhook_name, per_second, count, requested_by, created_at_ms) \
             VALUES ('r{number}', '{webhook}', 'smith/x', 1, 1, 'x', {})",
            number / 3
        ))
        .await;
    }
    let (own, none): ([String; 1], [String; 0]) = ([WEBHOOK.to_owned()], []);
    let all: Vec<String> = (0..9).rev().map(|number| format!("r{number}")).collect();
    for (webhooks, expected) in [
        (None, all),
        (Some(&own[..]), ["r8", "r6", "r4", "r2", "r0"].map(str::to_owned).to_vec()),
        (Some(&none[..]), Vec::new()),
    ] {
        for size in [1, 2, 4, 100] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let found =
                    resends::search(&mut rig.reader().await, webhooks, None, after.as_ref(), size).await;
                let page = found.expect("a statement");
                let Some(last) = page.last() else { break };
                assert!(page.len() as i64 <= size, "{page:?}");
                after = Some((last.created_at_ms, last.id.clone()));
                seen.extend(page.into_iter().map(|resend| resend.id));
            }
            assert_eq!(seen, expected, "pages of {size}");
        }
    }
}

async fn what_cannot_be_sent_again_takes_no_place_of_a_limit(rig: TenantDatabase) {
    let ((_, event), (good, _), (last, _)) = (dead(&rig, 1).await, dead(&rig, 2).await, dead(&rig, 3).await);
    let spoil = async |from: &str, to: &str| {
        rig.run(&format!(
            "INSERT INTO event (id, code, customer_code, body, occurred_at_ms) \
             SELECT '{to}', code, customer_code, body, occurred_at_ms FROM event WHERE id = '{from}'"
        ))
        .await;
        rig.run(&format!("UPDATE delivery_history SET event_id = '{to}' WHERE event_id = '{from}'")).await;
    };
    let sendable = DeadFilter { limit: 1, sendable: true, ..filter(false) };
    let mut from = event.as_str().to_owned();
    for spoiled in ["evt_x\nINJECTED", "evt \u{e9}", "a b", " evt_1", "evt_1 ", "\u{7f}", "", &"x".repeat(65)]
    {
        spoil(&from, spoiled).await;
        from = spoiled.to_owned();
        let mut reader = rig.reader().await;
        let found = resends::dead_letters(&mut reader, &sendable).await.expect("a statement");
        assert_eq!(found.iter().map(|dead| &*dead.id).collect::<Vec<_>>(), [good.to_string()], "{spoiled:?}");
        let (extent, total) = resends::extent(&mut reader, &sendable, 10).await.expect("a statement");
        assert_eq!((extent, total), (resends::DeadLetterRange::of(&found), 2), "{spoiled:?}");
        let (_, all) = resends::extent(&mut reader, &filter(false), 10).await.expect("a statement");
        assert_eq!(all, 3, "it still counts, and can be set aside: {spoiled:?}");
    }
    let sent = async |what: &str| {
        let found = resends::dead_letters(&mut rig.reader().await, &sendable).await.expect("a statement");
        assert_eq!(found.iter().map(|dead| &*dead.id).collect::<Vec<_>>(), [good.to_string()], "{what}");
    };
    let refer = async |from: &str, to: &str| {
        rig.run(&format!("UPDATE delivery_history SET event_id = {to} WHERE event_id = {from}")).await;
    };
    let event = format!("'{from}'");
    match rig.place {
        // A text of PostgreSQL has no NUL.
        Place::File(_) => {
            rig.run(&format!(
                "INSERT INTO event (id, code, customer_code, body, occurred_at_ms) \
                 SELECT 'evt' || char(0), code, customer_code, body, occurred_at_ms FROM event WHERE id = {event}"
            ))
            .await;
            refer(&event, "'evt' || char(0)").await;
            sent("an id with a NUL").await;
            refer("'evt' || char(0)", &event).await;
        }
        // A file does not let another program delete the event of a delivery.
        Place::Url(_) => {
            refer(&event, "'evt_gone'").await;
            sent("an event that is gone").await;
            refer("'evt_gone'", &event).await;
        }
    }
    spoil(&from, &"~".repeat(64)).await;
    let sendable = DeadFilter { limit: 10, ..sendable };
    let found = resends::dead_letters(&mut rig.reader().await, &sendable).await.expect("a statement");
    assert_eq!(found.len(), 3, "an id of another form can be sent");
    assert_eq!(found[2].id, last.to_string());
}

async fn each_bound_of_a_choice_counts(rig: TenantDatabase) {
    for number in 1..=3 {
        dead(&rig, number).await;
    }
    rig.run("UPDATE delivery_history SET finished_at_ms = created_at_ms + 10").await;
    let all = filter(false);
    for (filter, expected) in [
        (DeadFilter { from_ms: Some(T0 + 2), ..all.clone() }, vec![2, 3]),
        (DeadFilter { to_ms: Some(T0 + 2), ..all.clone() }, vec![1]),
        (DeadFilter { ended_before_ms: Some(T0 + 12), ..all.clone() }, vec![1]),
        (DeadFilter { limit: 2, ..all.clone() }, vec![1, 2]),
        (DeadFilter { customer_code: Some("SMITH".into()), ..all.clone() }, vec![1, 2, 3]),
        (DeadFilter { customer_code: Some("JONES".into()), ..all.clone() }, vec![]),
        (DeadFilter { event_codes: Some(vec![EventCode::OrderCreated]), ..all.clone() }, vec![1, 2, 3]),
        (DeadFilter { event_codes: Some(vec![EventCode::NoteCreated]), ..all.clone() }, vec![]),
        (DeadFilter { event_codes: Some(Vec::new()), ..all }, vec![]),
    ] {
        let found = resends::dead_letters(&mut rig.reader().await, &filter).await.expect("a statement");
        let ids: Vec<String> = found.into_iter().map(|dead| dead.id).collect();
        let expected: Vec<String> =
            expected.into_iter().map(|number| delivery_id(number).to_string()).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
}

async fn last_webhook_of_a_name_is_found(rig: TenantDatabase) {
    let ((first, _), (_, event)) = (dead(&rig, 1).await, dead(&rig, 2).await);
    rig.run(&format!("UPDATE event SET customer_code = 'JONES' WHERE id = '{}'", event.as_str())).await;
    rig.run(&format!("UPDATE delivery_history SET webhook = 'uid' WHERE id = '{first}'")).await;
    let of = async |name: &str| {
        let found = resends::webhook_of_dead(&mut rig.reader().await, name).await.expect("a statement");
        found.map(|(name, customer)| format!("{name} {customer}"))
    };
    assert_eq!(of("smith/orders").await.as_deref(), Some("smith/orders JONES"));
    assert_eq!(of(WEBHOOK).await.as_deref(), Some("smith/orders JONES"));
    assert_eq!(of("uid").await.as_deref(), Some("smith/orders SMITH"));
    assert_eq!(of("smith").await, None);
}

/// The older rows have the uid of a webhook that was created again since. Dead letters that ended with the webhook
/// have no time from which it was missing.
async fn dead_letters_of_before_keys_are_marked_as_others_are(rig: TenantDatabase) {
    let ((first, event), (other, _)) = (dead(&rig, 1).await, dead(&rig, 2).await);
    rig.run("UPDATE delivery_history SET webhook = 'old-uid'").await;
    rig.run("UPDATE delivery_history SET failure_class = 'WebhookGone'").await;
    let all = async |filter: DeadFilter| {
        rig.write(async |t| dead_letters::set_aside(t, &filter, "employee 1", T0 + 50).await).await
    };
    assert_eq!(all(filter(false)).await, 2);
    assert_eq!(rig.write(async |t| dead_letters::undo(t, &filter(true)).await).await, 2);
    let again = resend(&rig, first, &event, 11).await;
    assert!(rig.delivery(first).await.resent && !rig.delivery(other).await.resent);
    let mut reader = rig.reader().await;
    let listed = rows::find(&mut reader, first).await.expect("a statement").expect("it is there");
    let later = rows::later(&mut reader, &listed).await.expect("a statement");
    assert_eq!(later.iter().map(|later| later.id.clone()).collect::<Vec<_>>(), [again.to_string()]);
    let left = resends::dead_letters(&mut reader, &filter(false)).await.expect("a statement");
    assert_eq!(left.iter().map(|dead| dead.id.clone()).collect::<Vec<_>>(), [other.to_string()]);
}

/// An older version has resent dead letters without a mark. They are marked before the index that counts dead letters is built.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_that_were_resent_before_an_upgrade_do_not_count_after_it() {
    let url = postgres::database().await;
    let client = postgres::client(&url).await;
    let before = docket_schema::MIGRATIONS.iter().position(|step| step.name.starts_with("open dead letters"));
    let rows = "INSERT INTO event (id, code, customer_code, body, occurred_at_ms) VALUES ('e1', 'order.created', 'C', '', 0), \
                ('e2', 'order.created', 'C', '', 0); \
                INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, \
                created_at_ms, finished_at_ms) VALUES ('a', 'e1', 'w', 'a/w', 'DeadLetter', 5, 1, 1, 1), \
                ('b', 'e1', 'w', 'a/w', 'Succeeded', 1, 2, 2, 2), ('c', 'e2', 'w', 'a/w', 'DeadLetter', 5, 3, 3, 3); \
                UPDATE delivery_history SET failure_class = 'WebhookGone' WHERE id = 'a'";
    let version = upgrade::version(before.expect("the step is there"));
    client.batch_execute(&format!("{version} {rows}")).await.expect("the version before");
    let database = Place::Url(url).open(1);
    database.migrate(&Clock::System).await.expect("it is migrated");
    assert!(database.build_indexes().await.expect("they are built"));
    let found = health::by_webhook(&mut database.reader().await.expect("a connection")).await;
    assert_eq!(found.expect("a statement")[0].dead_letter, 1);
}

/// Even if many dead letters were resent or set aside, counting the open ones reads few pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_that_count_have_an_index_of_their_own() {
    let url = postgres::database().await;
    let rig = TenantDatabase::at(Place::Url(url.clone())).await;
    let event = rig.event("W1").await;
    let fill = format!(
        "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, created_at_ms, \
         finished_at_ms, resent, set_aside_at_ms) SELECT n::text, '{}', 'w', 'n', 'DeadLetter', 5, n, n, n, \
         CASE WHEN n % 2 = 0 AND n > 20 THEN TRUE END, CASE WHEN n % 2 = 1 AND n > 20 THEN 1 END \
         FROM generate_series(1, 50000) AS s(n)",
        event.as_str()
    );
    rig.run(&fill).await;
    postgres::client(&url).await.batch_execute("VACUUM ANALYZE delivery_history").await.expect("analyzed");
    let mut reader = rig.reader().await;
    for bound in ["", health::BOUND] {
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS) {}", health::sql(bound));
        let rows = reader.query(&explain, Vec::new()).await.expect("a plan");
        let plan: Vec<String> = rows.iter().map(|row| row.get(0).expect("text")).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("delivery_open") && !plan.contains("delivery_dead"), "{plan}");
        let first =
            plan.lines().find(|line| line.trim_start().starts_with("Buffers: shared")).expect("buffers");
        let pages: i64 = first.split(['=', ' ']).filter_map(|word| word.parse::<i64>().ok()).sum();
        assert!(pages < 300, "{plan}");
    }
}
