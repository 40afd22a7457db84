//! Web orders. The file `search` tests searches for them.

use docket_domain::order_type::OrderType;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase};
use docket_store::orders::{self, OrderHead, OrderStatus, StoredOrder};
use docket_store::{StoreError, contacts};

on_both_databases!(
    an_order_comes_back_as_it_was_stored,
    every_type_and_status_survives_storage,
    an_order_of_another_customer_is_not_found,
    an_order_of_another_customer_or_type_is_not_locked,
    an_order_needs_its_customer,
    an_order_id_is_taken_once,
    an_update_changes_all_that_may_change,
    an_update_of_another_version_changes_nothing,
    of_two_updates_at_once_one_wins,
    orders_beside_an_id_are_the_last_before_and_the_first_after_it,
);

pub(super) fn order(id: &str) -> StoredOrder {
    let head = OrderHead {
        id: id.into(),
        order_type: OrderType::Process,
        customer_code: CUSTOMER.into(),
        status: OrderStatus::Draft,
        finalized: None,
        case_number: None,
        caption: None,
        client_matter_number: None,
        created_at_ms: T0,
        updated_at_ms: T0,
        exported_at_ms: None,
        version: 1,
    };
    StoredOrder { head, body: "{}".into(), search_text: String::new(), external_reference: None }
}

/// The order as text. `StoredOrder` has no `Debug`, so that no log can show it.
fn shown(order: &StoredOrder) -> String {
    let StoredOrder { head, body, search_text, external_reference } = order;
    let OrderHead { id, order_type, customer_code, status, finalized, case_number, caption, .. } = head;
    let OrderHead { client_matter_number, created_at_ms, updated_at_ms, exported_at_ms, version, .. } = head;
    format!(
        "{id} {order_type} {customer_code} {status:?} {finalized:?} {case_number:?} {caption:?} \
         {client_matter_number:?} {created_at_ms} {updated_at_ms} {exported_at_ms:?} {body} {search_text} {external_reference:?} {version}"
    )
}

pub(super) async fn insert(rig: &TenantDatabase, order: &StoredOrder) {
    rig.write(async |t| orders::insert(t, order).await).await;
}

async fn stored(rig: &TenantDatabase, id: &str) -> StoredOrder {
    orders::find(&mut rig.reader().await, id, None).await.expect("a statement").expect("the order is there")
}

fn full(id: &str) -> StoredOrder {
    let mut order = order(id);
    order.head.order_type = OrderType::PhotoCopy;
    order.head.finalized = Some(false);
    order.head.case_number = Some("23-CV-00417".into());
    order.head.caption = Some("Müller v. 🦊 \"Fox\" & Söhne\n".into());
    order.head.client_matter_number = Some(String::new());
    order.head.exported_at_ms = Some(T0 + 9);
    order.body = "{\"caption\":\"Müller v. 🦊\",\"n\":1.50}".into();
    order.search_text = "müller 🦊".into();
    order.external_reference = Some("🦊-4410".into());
    order
}

async fn an_order_comes_back_as_it_was_stored(rig: TenantDatabase) {
    for order in [order("a"), full("b")] {
        insert(&rig, &order).await;
        assert_eq!(shown(&stored(&rig, &order.head.id).await), shown(&order));
    }
    assert!(orders::find(&mut rig.reader().await, "c", None).await.expect("a statement").is_none());
}

async fn every_type_and_status_survives_storage(rig: TenantDatabase) {
    for order_type in OrderType::ALL {
        for status in OrderStatus::ALL {
            let mut order = order(&format!("{order_type} {status:?}"));
            order.head.order_type = order_type;
            order.head.status = status;
            insert(&rig, &order).await;
            assert_eq!(shown(&stored(&rig, &order.head.id).await), shown(&order));
        }
    }
}

async fn an_order_of_another_customer_is_not_found(rig: TenantDatabase) {
    rig.write(async |t| contacts::insert_customer(t, "JONES", "Jones", T0).await).await;
    insert(&rig, &order("a")).await;
    let mut reader = rig.reader().await;
    for (customer, found) in
        [(None, true), (Some(CUSTOMER), true), (Some("JONES"), false), (Some("smith"), false)]
    {
        let order = orders::find(&mut reader, "a", customer).await.expect("a statement");
        assert_eq!(order.is_some(), found, "{customer:?}");
        let read = orders::read(&mut reader, [("a", customer)]).await.expect("a statement");
        assert_eq!(read.len(), usize::from(found), "{customer:?}");
    }
    insert(&rig, &order("b")).await;
    // An order that one customer asks for is not read for another customer or an employee who asks for other orders.
    let asked = [("a", Some("JONES")), ("b", Some(CUSTOMER)), ("b", Some("JONES")), ("c", None)];
    let read = orders::read(&mut reader, asked).await.expect("a statement");
    assert_eq!(read.iter().map(|order| order.head.id.as_str()).collect::<Vec<_>>(), ["b"]);
}

async fn an_order_of_another_customer_or_type_is_not_locked(rig: TenantDatabase) {
    let order = order("a");
    insert(&rig, &order).await;
    let (own, other) = (order.head.order_type, OrderType::PhotoCopy);
    assert_ne!(own, other);
    for (customer, order_type, waits) in [
        (Some("JONES"), None, false),
        (Some(CUSTOMER), None, true),
        (None, None, true),
        (Some(CUSTOMER), Some(own), true),
        (Some(CUSTOMER), Some(other), false),
    ] {
        let mut first = rig.database.begin(&Clock::System).await.expect("begins");
        orders::lock(&mut first, "a", customer, order_type).await.expect("a statement");
        if matches!(rig.database, docket_store::Database::Sqlite(_)) {
            // SQLite has one writer at a time and no row locks.
            return;
        }
        let mut second = rig.database.begin(&Clock::System).await.expect("begins");
        let locked = orders::lock(&mut second, "a", None, None);
        let locked = tokio::time::timeout(std::time::Duration::from_millis(200), locked).await;
        assert_eq!(locked.is_err(), waits, "{customer:?} {order_type:?}");
    }
}

async fn an_order_needs_its_customer(rig: TenantDatabase) {
    let mut order = order("a");
    order.head.customer_code = "UNKNOWN".into();
    let result = rig.try_write(async |t| orders::insert(t, &order).await).await;
    assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
}

async fn an_order_id_is_taken_once(rig: TenantDatabase) {
    insert(&rig, &order("a")).await;
    let again = rig.try_write(async |t| orders::insert(t, &full("a")).await).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    assert_eq!(shown(&stored(&rig, "a").await), shown(&order("a")));
}

async fn an_update_changes_all_that_may_change(rig: TenantDatabase) {
    insert(&rig, &order("a")).await;
    insert(&rig, &order("b")).await;
    let mut changed = full("a");
    changed.head.order_type = OrderType::Process;
    changed.head.status = OrderStatus::Exported;
    changed.head.updated_at_ms = T0 + 5;
    changed.head.version = 2;
    assert!(rig.write(async |t| orders::update(t, &changed).await).await);
    assert_eq!(shown(&stored(&rig, "a").await), shown(&changed));
    assert_eq!(shown(&stored(&rig, "b").await), shown(&order("b")));
}

async fn an_update_of_another_version_changes_nothing(rig: TenantDatabase) {
    insert(&rig, &order("a")).await;
    for version in [0, 1, 3] {
        let mut changed = StoredOrder { body: "{\"changed\":true}".into(), ..order("a") };
        changed.head.version = version;
        assert!(!rig.write(async |t| orders::update(t, &changed).await).await, "{version}");
    }
    let mut unknown = order("b");
    unknown.head.version = 2;
    assert!(!rig.write(async |t| orders::update(t, &unknown).await).await);
    assert_eq!(shown(&stored(&rig, "a").await), shown(&order("a")));
}

async fn of_two_updates_at_once_one_wins(rig: TenantDatabase) {
    insert(&rig, &order("a")).await;
    let update = async |body: &str| {
        let mut changed = StoredOrder { body: body.to_owned(), ..order("a") };
        changed.head.version = 2;
        let database = rig.opened_again();
        let mut transaction = database.begin(&Clock::System).await.expect("a turn");
        let won = orders::update(&mut transaction, &changed).await.expect("a statement");
        transaction.commit().await.expect("a commit");
        won.then_some(changed)
    };
    let both = async { tokio::join!(update("0"), update("1")) };
    let (one, two) = rig.meeting(2, "web_order", both).await;
    let winners: Vec<StoredOrder> = [one, two].into_iter().flatten().collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(shown(&stored(&rig, "a").await), shown(&winners[0]));
}

async fn orders_beside_an_id_are_the_last_before_and_the_first_after_it(rig: TenantDatabase) {
    for id in ["W1", "W3", "W5"] {
        rig.write(async |t| orders::insert(t, &order(id)).await).await;
    }
    for (id, expected) in [("W4", &["W3", "W5"][..]), ("W3", &["W1", "W5"]), ("W0", &["W1"]), ("W9", &["W5"])]
    {
        assert_eq!(orders::beside(&mut rig.reader().await, id).await.expect("a statement"), expected, "{id}");
    }
}
