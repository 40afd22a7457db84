//! The statements of the core with the schema of the previous release, which a program meets during an upgrade.

use docket::actions::export_order::export_order;
use docket::actions::save_order::save_order;
use docket::refusal::Versions;
use docket_domain::delivery::{DeliveryId, Next, Outcome, Report, Status};
use docket_domain::token::{TokenSubject, UserKind};
use docket_orders::{OrderType, SaveRequest};
use docket_program::clock::Clock;
use docket_rig::tenant_database::{CUSTOMER, Place, T0, TenantDatabase, at, tenant_config};
use docket_rig::{postgres, scratch};
use docket_schema::{MIGRATIONS, OLDEST};
use docket_store::deliveries::{self, DeliveryFilter};
use docket_store::people::{self, Person};
use docket_store::{StoreError, contacts, ended_sessions, retention, subscriptions};
use serde_json::json;

use super::tenant_of;

fn order() -> SaveRequest {
    let example = docket_orders::examples().into_iter().find(|(kind, _)| *kind == OrderType::Court);
    SaveRequest::read(example.expect("one of each").1.as_bytes()).expect("an example")
}

async fn story(place: Place) {
    let rig = TenantDatabase { database: place.open(8), place };
    let steps = &MIGRATIONS[..usize::try_from(OLDEST).expect("a number")];
    rig.database.migrate_to(&Clock::System, steps).await.expect("an empty database takes the steps");
    rig.write(async |t| contacts::insert_customer(t, CUSTOMER, "Smith & Partners", T0).await).await;
    let mut config = tenant_config("uid", "ACME", CUSTOMER, 1);
    config["activeEvents"] = json!(["order.created"]);
    config["webhooks"][0]["events"] = json!(["order.created"]);
    let tenant = tenant_of(config, rig.database.clone());
    let caller = TokenSubject::Contact { contact_code: "11".into(), customer_code: CUSTOMER.into() };

    // Saved and exported.
    let mut transaction = rig.database.begin(&Clock::System).await.expect("a transaction");
    let saved = save_order(&mut transaction, &tenant, &caller, order(), &Versions::Any, at(T0)).await;
    let (saved, _) = saved.unwrap_or_else(|_| panic!("it is saved"));
    let id = saved.web_order_id.as_str();
    let exported = export_order(&mut transaction, &tenant, &caller, (id, None), &Versions::Any, at(T0)).await;
    assert!(exported.is_ok(), "it is exported");
    transaction.commit().await.expect("a commit");

    // Delivered and logged.
    let listed = async || {
        let filter = DeliveryFilter::default();
        let found = deliveries::search(&mut rig.reader().await, &Clock::System, &filter, 9).await;
        found.expect("a statement").items
    };
    let queued: Vec<DeliveryId> = listed().await.iter().map(|one| one.id.parse().expect("an id")).collect();
    assert_eq!(queued.len(), 1);
    let started = rig.begin(&queued, "mine", T0, T0 + 4_000).await;
    let succeeded = Outcome::Succeeded(Report { http_status: Some(204), ..Report::default() });
    assert!(rig.finish(&started[0], "mine", &succeeded, Next::Succeeded, T0 + 3).await);
    assert_eq!(listed().await[0].status, Status::Succeeded);

    // The user is signed out. A session counts as valid unless the database knows that it has ended.
    rig.write(async |t| {
        people::end_tokens(t, Person { kind: UserKind::Contact, code: "11" }).await.map(drop)
    })
    .await;
    let ended = ended_sessions::has_ended(&mut rig.reader().await, "digest").await;
    assert!(!ended.expect("there is no table of ended sessions yet"));

    // Retention works with the tables that exist.
    let oldest = rig.write(async |t| retention::oldest(t).await).await;
    assert_eq!((oldest[0], oldest[3]), (Some(T0 + 3), None));
    assert_eq!(rig.write(async |t| subscriptions::delete_old_links(t, T0, 9).await).await, 0);

    // An action that needs a newer step says so, and breaks nothing.
    let recipients = subscriptions::recipients(&mut rig.reader().await).await.err();
    let end = rig.try_write(async |t| ended_sessions::end(t, "digest", T0 + 9, T0).await).await.err();
    for error in [recipients, end] {
        let error: StoreError = error.expect("it needs a newer step");
        assert!(error.needs_migration() && matches!(error, StoreError::Unavailable(_)), "{error}");
    }

    // After the migration, all rows are there.
    rig.database.migrate(&Clock::System).await.expect("it is migrated");
    assert!(subscriptions::recipients(&mut rig.reader().await).await.expect("a table").is_empty());
    rig.write(async |t| ended_sessions::end(t, "digest", T0 + 9, T0).await).await;
    let ended = ended_sessions::has_ended(&mut rig.reader().await, "digest").await;
    assert!(ended.expect("a table"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn core_works_with_a_file_of_the_previous_release() {
    story(Place::File(scratch::Folder::new("older"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn core_works_with_a_postgresql_database_of_the_previous_release() {
    story(Place::Url(postgres::database().await)).await;
}
