//! Searches for web orders.

use docket_domain::order_type::OrderType;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::contacts;
use docket_store::orders::{self, OrderFilter, OrderHead, OrderStatus};
use docket_store::unfolded;
use docket_store::walk::Page;

use super::orders::order;

on_both_databases!(
    each_filter_keeps_what_it_names,
    filters_add_up,
    wildcards_in_a_text_are_letters,
    texts_of_any_script_are_found,
    texts_of_before_are_found_and_folded,
    newest_come_first_and_no_more_than_the_limit,
    pages_are_stable_while_orders_arrive,
);

async fn search(rig: &TenantDatabase, filter: &OrderFilter, page_size: i64) -> Page<OrderHead> {
    orders::search(&mut rig.reader().await, &Clock::System, filter, page_size).await.expect("a statement")
}

async fn ids(rig: &TenantDatabase, filter: OrderFilter) -> Vec<String> {
    search(rig, &filter, 100).await.items.into_iter().map(|head| head.id).collect()
}

async fn insert(rig: &TenantDatabase, id: &str, change: impl Fn(&mut OrderHead)) {
    let mut order = order(id);
    change(&mut order.head);
    rig.write(async |t| orders::insert(t, &order).await).await;
}

async fn insert_text(rig: &TenantDatabase, id: &str, search_text: &str) {
    let order = orders::StoredOrder { search_text: search_text.into(), ..order(id) };
    rig.write(async |t| orders::insert(t, &order).await).await;
}

async fn three_orders(rig: &TenantDatabase) {
    rig.write(async |t| contacts::insert_customer(t, "JONES", "Jones", T0).await).await;
    insert(rig, "plain", |_| {}).await;
    insert(rig, "court", |head| {
        head.order_type = OrderType::Court;
        head.created_at_ms = T0 + 10;
        head.status = OrderStatus::Exported;
    })
    .await;
    insert(rig, "jones", |head| {
        head.customer_code = "JONES".into();
        head.created_at_ms = T0 + 20;
    })
    .await;
}

async fn each_filter_keeps_what_it_names(rig: TenantDatabase) {
    three_orders(&rig).await;
    insert_text(&rig, "text", "in re: the fox").await;
    let all = OrderFilter::default();
    let cases = [
        (OrderFilter { customer_code: Some("JONES".into()), ..all.clone() }, vec!["jones"]),
        (OrderFilter { customer_code: Some("jones".into()), ..all.clone() }, vec![]),
        (OrderFilter { order_type: Some(OrderType::Court), ..all.clone() }, vec!["court"]),
        (OrderFilter { status: Some(OrderStatus::Exported), ..all.clone() }, vec!["court"]),
        (OrderFilter { status: Some(OrderStatus::Cancelled), ..all.clone() }, vec![]),
        (OrderFilter { from_ms: Some(T0 + 10), ..all.clone() }, vec!["jones", "court"]),
        (OrderFilter { to_ms: Some(T0 + 10), ..all.clone() }, vec!["text", "plain"]),
        (OrderFilter { text: Some("the fox".into()), ..all.clone() }, vec!["text"]),
        (OrderFilter { after: Some((T0 + 10, "court".into())), ..all.clone() }, vec!["text", "plain"]),
        (OrderFilter { after: Some((T0, "text".into())), ..all.clone() }, vec!["plain"]),
        (all, vec!["jones", "court", "text", "plain"]),
    ];
    for (number, (filter, expected)) in cases.into_iter().enumerate() {
        assert_eq!(ids(&rig, filter).await, expected, "case {number}");
    }
}

async fn filters_add_up(rig: TenantDatabase) {
    three_orders(&rig).await;
    rig.run("UPDATE web_order SET external_reference = 'own key', search_text = 'the fox'").await;
    let every = OrderFilter {
        customer_code: Some("SMITH".into()),
        order_type: Some(OrderType::Court),
        status: Some(OrderStatus::Exported),
        from_ms: Some(T0),
        to_ms: Some(T0 + 11),
        external_reference: Some("own key".into()),
        text: Some("fox".into()),
        after: Some((T0 + 11, String::new())),
    };
    assert_eq!(ids(&rig, every.clone()).await, ["court"]);
    assert!(ids(&rig, OrderFilter { customer_code: Some("JONES".into()), ..every }).await.is_empty());
}

async fn wildcards_in_a_text_are_letters(rig: TenantDatabase) {
    for (id, text) in
        [("percent", "100% sure"), ("under", "a_b"), ("back", r"c:\d"), ("none", "1000 axb c:d")]
    {
        insert_text(&rig, id, text).await;
    }
    for (text, found) in [
        ("%", vec!["percent"]),
        ("0%", vec!["percent"]),
        ("100%s", vec![]),
        ("_", vec!["under"]),
        ("a_b", vec!["under"]),
        (r"\", vec!["back"]),
        (r"\d", vec!["back"]),
        (r"\\", vec![]),
        (r"\%", vec![]),
        ("?", vec![]),
        ("$1", vec![]),
        ("' or 1=1 --", vec![]),
        ("", vec![]),
        ("\u{301}", vec![]),
    ] {
        let filter = OrderFilter { text: Some(text.into()), ..OrderFilter::default() };
        assert_eq!(ids(&rig, filter).await, found, "{text:?}");
    }
}

async fn texts_of_any_script_are_found(rig: TenantDatabase) {
    insert_text(&rig, "order", "müller v. fox 🦊🏛 東京 مرحبا").await;
    for text in ["🦊", "🦊🏛", "müller", "üll", "東", "مرحبا", "fox 🦊"] {
        let filter = OrderFilter { text: Some(text.into()), ..OrderFilter::default() };
        assert_eq!(ids(&rig, filter).await, ["order"], "{text:?}");
    }
    for text in ["🦝", "muller", "京東"] {
        let filter = OrderFilter { text: Some(text.into()), ..OrderFilter::default() };
        assert!(ids(&rig, filter).await.is_empty(), "{text:?}");
    }
}

/// An older version has stored the search texts in lower case, with all marks.
async fn texts_of_before_are_found_and_folded(rig: TenantDatabase) {
    for number in 0..5 {
        insert_text(&rig, &format!("o{number}"), "o’brien v. núñez").await;
    }
    insert_text(&rig, "plain", "smith").await;
    rig.run(
        "INSERT INTO work_order (number, work_order_type, customer_code, servee, servee_key, created_at_ms) \
         VALUES ('PR1', 'Process', 'SMITH', 'Łucja Straße', 'łucja straße', 1), \
         ('PR2', 'Process', 'SMITH', 'Ærø', NULL, 1)",
    )
    .await;
    let found = async |text: &str| {
        ids(&rig, OrderFilter { text: Some(text.into()), ..OrderFilter::default() }).await.len()
    };
    assert_eq!((found("O’Brien").await, found("o'brien").await), (5, 0), "as before");
    let mut rounds = 0;
    while rig.write(async |t| unfolded::fold(t, 2).await).await {
        rounds += 1;
    }
    assert_eq!(rounds, 4 + 2, "two tables, two rows at a time, and one more to see the end of each");
    assert!(!unfolded::are_left(&mut rig.reader().await).await.expect("a statement"));
    for text in [" O’Brien ", "o'brien", "NUNEZ", "Nu\u{301}ñez", "Núñez"] {
        assert_eq!(found(text).await, 5, "{text}");
    }
    assert_eq!(found("smith").await, 1);
    let sql = "SELECT count(*) FROM work_order WHERE servee_key IN ('lucja strasse', 'aero')";
    assert_eq!(rig.number(sql).await, 2);
}

async fn newest_come_first_and_no_more_than_the_limit(rig: TenantDatabase) {
    // Three orders have the same millisecond. Their ids decide the order.
    for (id, at) in [("b", 5), ("c", 5), ("a", 5), ("oldest", 1), ("newest", 9)] {
        insert(&rig, id, |head| head.created_at_ms = T0 + at).await;
    }
    let found = search(&rig, &OrderFilter::default(), 4).await.items;
    let ids: Vec<_> = found.into_iter().map(|head| head.id).collect();
    assert_eq!(ids, ["newest", "c", "b", "a"]);
}

async fn pages_are_stable_while_orders_arrive(rig: TenantDatabase) {
    let at = |number: i64| T0 + number / 4; // four per millisecond, so that pages end between equal times
    for number in 0..30 {
        insert(&rig, &format!("{number:03}"), |head| head.created_at_ms = at(number)).await;
    }
    let mut seen = Vec::new();
    let mut filter = OrderFilter::default();
    loop {
        let Page { items, next } = search(&rig, &filter, 7).await;
        seen.extend(items.into_iter().map(|head| head.id));
        filter.after = next;
        if filter.after.is_none() {
            break;
        }
        let newer = i64::try_from(seen.len()).expect("few") + 100;
        insert(&rig, &format!("{newer:03}"), |head| head.created_at_ms = at(newer)).await;
    }
    let expected: Vec<_> = (0..30).rev().map(|number| format!("{number:03}")).collect();
    assert_eq!(seen, expected);
}
