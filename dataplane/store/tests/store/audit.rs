//! The rows of the audit: written, read in pages, and deleted when they are old or too many.

use docket_domain::audit::{Actor, AuditEvent, AuditRecord, Origin};
use docket_program::clock::Clock;
use docket_rig::tenant_database::{Place, TenantDatabase};
use docket_rig::{on_both_databases, postgres, scratch};
use docket_store::audit::{self, AuditFilter};
use docket_store::sql::Param;

use crate::buffers::pages;
use crate::upgrade::version;

on_both_databases!(
    an_entry_comes_back_as_it_was_stored,
    entries_are_found_newest_first_in_pages,
    entries_are_found_by_event_and_time,
    entries_are_found_by_webhook_and_person,
    removed_webhooks_are_found_with_their_names,
    last_time_of_an_event_is_found_for_each_subject,
    what_is_old_is_deleted_the_oldest_first,
    newest_of_an_event_push_out_no_other,
    last_sign_ins_are_found_by_user_and_address,
);

fn entry(number: u8, event: AuditEvent, at_ms: i64) -> AuditRecord {
    AuditRecord::new(event, at_ms, [number; 8]).by(&Actor::Employee("52".into()))
}

async fn add(rig: &TenantDatabase, entries: &[AuditRecord]) {
    rig.write(async |t| audit::insert(t, entries).await).await;
}

async fn find(rig: &TenantDatabase, filter: AuditFilter) -> Vec<AuditRecord> {
    let page = audit::search(&mut rig.reader().await, &filter, 1000).await.expect("a statement");
    assert_eq!(page.next, None);
    page.items
}

async fn times(rig: &TenantDatabase) -> Vec<i64> {
    find(rig, AuditFilter::default()).await.iter().map(|entry| entry.at_ms).collect()
}

async fn an_entry_comes_back_as_it_was_stored(rig: TenantDatabase) {
    let address = Some("2001:db8::7".parse().expect("an address"));
    let whole = entry(2, AuditEvent::ResendStarted, 2)
        .about("resend", "r1")
        .at(Origin { address, request_id: Some("q1".into()) })
        .times(7)
        .saying(Some("displayName"));
    let bare = AuditRecord::new(AuditEvent::SignInRefused, 1, [1; 8]);
    add(&rig, &[whole.clone(), bare.clone()]).await;
    add(&rig, &[]).await;
    assert_eq!(find(&rig, AuditFilter::default()).await, [whole, bare]);
    // Another program stores a text that is not an address.
    rig.run("UPDATE audit SET address = 'somewhere'").await;
    assert!(find(&rig, AuditFilter::default()).await.iter().all(|entry| entry.origin.address.is_none()));
    // A newer version stores an event that this version does not know.
    rig.run("UPDATE audit SET event = 'OfANewerVersion'").await;
    let unknown = AuditEvent::Unknown("OfANewerVersion");
    assert!(find(&rig, AuditFilter::default()).await.iter().all(|entry| entry.event == unknown));
}

async fn last_sign_ins_are_found_by_user_and_address(rig: TenantDatabase) {
    rig.run(
        "INSERT INTO contact (code, customer_code, email, email_key, name, active, created_at_ms)
           VALUES ('11', 'SMITH', 'Ada@one.example', 'ada@one.example', 'Ada', TRUE, 0)",
    )
    .await;
    rig.run(
        "INSERT INTO employee (code, user_name, user_key, name, administrator, active, created_at_ms)
           VALUES ('11', 'Mo', 'mo', 'Mo', FALSE, TRUE, 0)",
    )
    .await;
    let here = |last: u8| Some([192, 0, 2, last].into());
    let at = |number, actor: Actor, at_ms, address| {
        let origin = Origin { address, request_id: None };
        AuditRecord::new(AuditEvent::SignedIn, at_ms, [number; 8]).by(&actor).at(origin)
    };
    let (ada, mo) = (|| Actor::Contact("11".into()), || Actor::Employee("11".into()));
    let entries = [
        at(1, ada(), 10, here(1)),
        at(2, ada(), 30, here(1)),
        at(3, mo(), 20, here(1)),
        at(4, ada(), 40, here(2)),
        at(5, mo(), 9, here(9)),
        at(6, Actor::Employee("gone".into()), 50, here(1)),
        at(7, mo(), 60, None),
        AuditRecord { event: AuditEvent::SignedOut, ..at(8, mo(), 70, here(8)) },
    ];
    add(&rig, &entries).await;
    let found = async |limit| {
        let found = audit::signed_in(&mut rig.reader().await, 10, limit).await.expect("a statement");
        found.into_iter().map(|one| (one.user, one.address.to_string(), one.at_ms)).collect::<Vec<_>>()
    };
    let row = |user: &str, last: u8, at_ms| (user.to_owned(), format!("192.0.2.{last}"), at_ms);
    let all = [
        row("contact ada@one.example", 2, 40),
        row("contact ada@one.example", 1, 30),
        row("employee mo", 1, 20),
    ];
    assert_eq!(found(100).await, all);
    assert_eq!(found(2).await, all[..1], "the newest is of one who is gone");
    // A user with many addresses leaves room for other users.
    let many: Vec<AuditRecord> =
        (100..130).map(|number| at(number, mo(), i64::from(number), here(number))).collect();
    add(&rig, &many).await;
    let users: Vec<String> = found(12).await.into_iter().map(|(user, ..)| user).collect();
    assert_eq!(users.iter().filter(|user| *user == "employee mo").count(), 8);
    assert_eq!(users.iter().filter(|user| *user == "contact ada@one.example").count(), 2);
}

async fn entries_are_found_newest_first_in_pages(rig: TenantDatabase) {
    // Three entries have the same millisecond.
    let entries: Vec<AuditRecord> =
        (0..9).map(|number| entry(number, AuditEvent::SignedIn, i64::from(number / 3))).collect();
    add(&rig, &entries).await;
    let (mut found, mut filter, mut pages) = (Vec::new(), AuditFilter::default(), 0);
    loop {
        let page = audit::search(&mut rig.reader().await, &filter, 2).await.expect("a statement");
        assert!(page.items.len() == 2 || page.next.is_none());
        found.extend(page.items);
        (filter.after, pages) = (page.next, pages + 1);
        if filter.after.is_none() {
            break;
        }
    }
    let newest_first: Vec<AuditRecord> = entries.into_iter().rev().collect();
    assert_eq!((found, pages), (newest_first, 5));
}

async fn entries_are_found_by_event_and_time(rig: TenantDatabase) {
    let entries: Vec<AuditRecord> = AuditEvent::ALL
        .into_iter()
        .zip(0..)
        .map(|(event, number)| entry(number, event, i64::from(number)))
        .collect();
    add(&rig, &entries).await;
    for wanted in &entries {
        let filter = AuditFilter { event: Some(wanted.event), ..AuditFilter::default() };
        assert_eq!(find(&rig, filter).await, std::slice::from_ref(wanted));
    }
    let filter = AuditFilter { from_ms: Some(2), to_ms: Some(4), ..AuditFilter::default() };
    assert_eq!(find(&rig, filter).await, [entries[3].clone(), entries[2].clone()]);
}

async fn entries_are_found_by_webhook_and_person(rig: TenantDatabase) {
    let long = format!("a/{}", "x".repeat(250));
    let by = |number: u8, code: &str| {
        AuditRecord::new(AuditEvent::PasswordChanged, i64::from(number), [number; 8])
            .by(&Actor::Employee(code.into()))
            .about("employee", "53")
    };
    let changed = |number: u8, name: &str| {
        entry(number, AuditEvent::WebhookChanged, i64::from(number)).about("webhook", name)
    };
    let entries =
        [changed(0, "a/one"), changed(1, "a/one-more"), changed(2, &long), by(3, "53"), by(4, "520")];
    add(&rig, &entries).await;
    let webhook = |name: &str| AuditFilter { webhook: Some(name.into()), ..AuditFilter::default() };
    let person = |actor: &str| AuditFilter { person: Some(actor.into()), ..AuditFilter::default() };
    for (filter, found) in [
        (webhook("a/one"), &[0_i64][..]),
        (webhook(&long), &[2]),
        (webhook("a/none"), &[]),
        (person("employee 52"), &[2, 1, 0]),
        (person("employee 53"), &[4, 3]),
        (person("employee 520"), &[4]),
        (AuditFilter { event: Some(AuditEvent::SignedIn), ..person("employee 53") }, &[]),
        (AuditFilter { from_ms: Some(1), ..person("employee 52") }, &[2, 1]),
        (AuditFilter { person: Some("employee 53".into()), ..webhook("a/one") }, &[]),
    ] {
        let times: Vec<i64> = find(&rig, filter.clone()).await.iter().map(|entry| entry.at_ms).collect();
        assert_eq!(times, found, "{filter:?}");
    }
}

async fn removed_webhooks_are_found_with_their_names(rig: TenantDatabase) {
    let removed = |number: u8, name: &str, detail: Option<&str>| {
        entry(number, AuditEvent::WebhookRemoved, i64::from(number)).about("webhook", name).saying(detail)
    };
    let entries = [
        removed(1, "a/one", Some("Orders")),
        entry(2, AuditEvent::WebhookChanged, 2).about("webhook", "a/two").saying(Some("displayName")),
        removed(3, "a/three", None),
    ];
    add(&rig, &entries).await;
    let found = audit::removed_webhooks(&mut rig.reader().await).await.expect("a statement");
    let one = ("webhook a/one".to_owned(), Some("Orders".to_owned()));
    assert_eq!(found, [("webhook a/three".to_owned(), None), one]);
}

/// During an upgrade, a process of this version uses a database of the previous release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entry_is_stored_without_its_detail_until_the_database_has_the_column() {
    for place in [Place::File(scratch::Folder::new("store")), Place::Url(postgres::database().await)] {
        let rig = TenantDatabase { database: place.open(2), place };
        let steps = &docket_schema::MIGRATIONS[..usize::try_from(docket_schema::OLDEST).expect("a number")];
        rig.database.migrate_to(&Clock::System, steps).await.expect("the previous release");
        let removed = |number: u8| {
            entry(number, AuditEvent::WebhookRemoved, i64::from(number))
                .about("webhook", "a/b")
                .saying(Some("Orders"))
        };
        let names = async || {
            let found = audit::removed_webhooks(&mut rig.reader().await).await.expect("a statement");
            found.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        add(&rig, &[removed(1)]).await;
        assert_eq!(find(&rig, AuditFilter::default()).await, [AuditRecord { detail: None, ..removed(1) }]);
        assert!(names().await.is_empty(), "no index finds them");
        rig.database.migrate(&Clock::System).await.expect("it is migrated");
        add(&rig, &[removed(2)]).await;
        assert_eq!(names().await, [Some("Orders".to_owned()), None]);
    }
}

async fn last_time_of_an_event_is_found_for_each_subject(rig: TenantDatabase) {
    let changed = |number, webhook: &str, at_ms| {
        entry(number, AuditEvent::WebhookChanged, at_ms).about("webhook", webhook)
    };
    let of_no_subject = entry(4, AuditEvent::WebhookChanged, 8);
    let added = entry(5, AuditEvent::WebhookAdded, 9).about("webhook", "default/a");
    let [first, last] = [changed(1, "default/a", 5), changed(2, "default/a", 7)];
    add(&rig, &[first, last, changed(3, "default/b", 6), of_no_subject, added]).await;
    let found = async |from_ms| {
        let mut reader = rig.reader().await;
        let found = audit::last_times(&mut reader, AuditEvent::WebhookChanged, from_ms).await;
        let mut found: Vec<(String, i64)> = found.expect("a statement").into_iter().collect();
        found.sort();
        found
    };
    let [a, b] = [("webhook default/a", 7), ("webhook default/b", 6)].map(|(name, at)| (name.to_owned(), at));
    assert_eq!(found(6).await, [a.clone(), b]);
    assert_eq!(found(7).await, std::slice::from_ref(&a));
    assert_eq!(found(8).await, []);
    // Only the newest 5,000 entries are read: here 4,997 new ones, and the last three earlier ones.
    let many: Vec<AuditRecord> = (0..4_998_u32)
        .map(|number| {
            let [b, c, d, e] = number.to_be_bytes();
            AuditRecord::new(AuditEvent::SignedIn, 10, [255, 0, 0, 0, b, c, d, e])
        })
        .collect();
    let (one_more, many) = many.split_last().expect("some");
    for few in many.chunks(500) {
        add(&rig, few).await;
    }
    assert_eq!(found(0).await, [a]);
    add(&rig, std::slice::from_ref(one_more)).await;
    assert_eq!(found(0).await, []);
}

async fn what_is_old_is_deleted_the_oldest_first(rig: TenantDatabase) {
    let entries: Vec<AuditRecord> =
        (0..6).map(|number| entry(number, AuditEvent::SignedIn, i64::from(number))).collect();
    add(&rig, &entries).await;
    let delete = async |before_ms, limit| {
        rig.write(async |t| audit::delete_before(t, None, before_ms, limit).await).await
    };
    assert_eq!(delete(0, 9).await, 0);
    assert_eq!(delete(4, 3).await, 3);
    assert_eq!(times(&rig).await, [5, 4, 3]);
    assert_eq!(delete(4, 9).await, 1);
    assert_eq!(times(&rig).await, [5, 4]);
}

async fn newest_of_an_event_push_out_no_other(rig: TenantDatabase) {
    let refused = |number| entry(number, AuditEvent::SignInRefused, i64::from(number));
    let mut entries: Vec<AuditRecord> = (1..6).map(refused).collect();
    entries.push(entry(0, AuditEvent::PayloadRead, 0));
    add(&rig, &entries).await;
    let crowded = async |most| rig.write(async |t| audit::crowded(t, most).await).await;
    assert_eq!(crowded(0).await, ["PayloadRead", "SignInRefused"]);
    assert_eq!((crowded(4).await, crowded(5).await), (vec!["SignInRefused".to_owned()], Vec::new()));
    let event = "SignInRefused";
    let surplus = async |most| rig.write(async |t| audit::surplus(t, event, most).await).await;
    assert_eq!((surplus(5).await, surplus(2).await, surplus(0).await), (None, Some(3), Some(5)));
    assert_eq!(rig.write(async |t| audit::delete_before(t, Some(event), 4, 9).await).await, 3);
    assert_eq!(times(&rig).await, [5, 4, 0]);
}

/// The version before sign-outs and the audit. Its rows stay, and its writes are accepted.
const BEFORE: usize = 5;
/// Up to this version, each later version works beside that version.
const ADDITIVE: usize = 11;
const PEOPLE: &str = "INSERT INTO customer VALUES ('C-1', 'One', 0);
    INSERT INTO contact (code, customer_code, email, email_key, name, active, created_at_ms)
      VALUES ('11', 'C-1', 'a@x.example', 'a@x.example', 'Ada', TRUE, 0);";

async fn is_migrated_beside_the_version_before(place: Place) {
    let rig = TenantDatabase { database: place.open(2), place };
    rig.database.migrate(&Clock::System).await.expect("it is migrated");
    rig.run(
        "INSERT INTO contact (code, customer_code, email, email_key, name, active, created_at_ms) \
         VALUES ('12', 'C-1', 'b@x.example', 'b@x.example', 'Bea', TRUE, 0)",
    )
    .await;
    assert_eq!(rig.number("SELECT count(*) FROM contact WHERE sign_outs = 0").await, 2);
    add(&rig, &[entry(1, AuditEvent::SignedIn, 1)]).await;
    assert_eq!(times(&rig).await, [1]);
    for step in &docket_schema::MIGRATIONS[BEFORE..ADDITIVE] {
        assert!(step.name.ends_with(" (additive)"), "{}", step.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_version_before_the_audit_is_migrated() {
    let place = Place::File(scratch::Folder::new("store"));
    let file = rusqlite::Connection::open(place.file()).expect("a file");
    let mut sql = format!("{};", docket_schema::CREATE_VERSION_TABLE);
    for step in &docket_schema::MIGRATIONS[..BEFORE] {
        sql.push_str(step.sql.sqlite());
        sql.push_str(&format!("; INSERT INTO schema_version VALUES ({}, '{}', 0);", step.version, step.name));
    }
    file.execute_batch(&(sql + PEOPLE)).expect("the version before");
    drop(file);
    is_migrated_beside_the_version_before(place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_database_of_the_version_before_the_audit_is_migrated() {
    let url = postgres::database().await;
    postgres::client(&url)
        .await
        .batch_execute(&(version(BEFORE) + PEOPLE))
        .await
        .expect("the version before");
    is_migrated_beside_the_version_before(Place::Url(url)).await;
}

/// Each page is read from the index, whatever the planner estimates for the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_long_audit_is_read_from_the_index() {
    let rig = TenantDatabase::postgres().await;
    let fill = "INSERT INTO audit (at_ms, id, event, count) SELECT n, n::text, 'SignedIn', 1 FROM generate_series(1, 20000) n";
    rig.write(async |t| t.execute(fill, Vec::<Param>::new()).await).await;
    let plan = "EXPLAIN SELECT at_ms, id, event FROM audit WHERE TRUE AND (at_ms, id) < (15000, 'x') \
                ORDER BY at_ms DESC, id DESC LIMIT 26";
    let rows = rig.reader().await.query(plan, Vec::new()).await.expect("a plan");
    let text: Vec<String> = rows.iter().map(|row| row.get(0).expect("text")).collect();
    let text = text.join("\n");
    assert!(text.contains("Index Scan Backward using audit_pkey") && !text.contains("Sort"), "{text}");
}

/// An index finds few entries of many by their event, webhook or person, also after PostgreSQL has planned the search for any values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_entries_of_a_long_audit_cost_few_pages() {
    let rig = TenantDatabase::postgres().await;
    let Place::Url(url) = &rig.place else { panic!("a URL") };
    let client = postgres::client(url).await;
    for sql in [
        "ALTER TABLE audit SET (autovacuum_enabled = off)",
        "INSERT INTO audit (at_ms, id, event, actor, subject, count) SELECT n, n::text, 'PayloadRead', 'employee 1', \
         'delivery ' || n, 1 FROM generate_series(1, 20000) n",
        "UPDATE audit SET event = 'WebhookAdded', actor = 'employee 52', subject = 'webhook a/rare' WHERE at_ms IN (7, 11)",
        "UPDATE audit SET subject = 'employee 52' WHERE at_ms = 9",
        "VACUUM ANALYZE audit",
    ] {
        client.batch_execute(sql).await.expect("a statement");
    }
    let database = rig.opened_with(1);
    let all = AuditFilter::default();
    for (filter, expected) in [
        (AuditFilter { event: Some(AuditEvent::WebhookAdded), ..all.clone() }, &[11_i64, 7][..]),
        (AuditFilter { event: Some(AuditEvent::TestSent), ..all.clone() }, &[]),
        (AuditFilter { webhook: Some("a/rare".into()), ..all.clone() }, &[11, 7]),
        (AuditFilter { webhook: Some("a/none".into()), ..all.clone() }, &[]),
        (AuditFilter { person: Some("employee 52".into()), ..all.clone() }, &[11, 9, 7]),
        (AuditFilter { person: Some("employee 53".into()), ..all }, &[]),
    ] {
        for _ in 0..7 {
            let before = pages(&database, &client, &["audit"]).await;
            let mut reader = database.reader().await.expect("a connection");
            let page = audit::search(&mut reader, &filter, 25).await.expect("a statement");
            drop(reader);
            let read = pages(&database, &client, &["audit"]).await - before;
            let times: Vec<i64> = page.items.iter().map(|entry| entry.at_ms).collect();
            assert_eq!((times.as_slice(), page.next), (expected, None), "{filter:?}");
            assert!(read < 60, "{read} pages for {filter:?}");
        }
    }
}
