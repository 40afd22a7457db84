//! Work orders that an export creates.

use docket_domain::work_order::WorkOrderType;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::StoreError;
use docket_store::work_orders::{self, NewServee, NewWorkOrder};

use super::orders::{self, order};

on_both_databases!(
    work_orders_keep_the_order_of_the_export,
    a_work_order_number_is_taken_once,
    work_orders_beside_a_number_are_the_last_before_and_the_first_after_it,
);

async fn work_orders_keep_the_order_of_the_export(rig: TenantDatabase) {
    orders::insert(&rig, &order("a")).await;
    orders::insert(&rig, &order("b")).await;
    let new: Vec<NewWorkOrder> = (0..12)
        .map(|n| NewWorkOrder {
            number: (1_000_012 - n).to_string(),
            work_order_type: if n == 0 { WorkOrderType::Court } else { WorkOrderType::Process },
            servee: (n > 0).then(|| NewServee { name: format!("Servee 🦊 {n}"), address: None }),
            facilities: Vec::new(),
        })
        .collect();
    rig.write(async |t| work_orders::insert(t, &order("a").head, &new, T0).await).await;
    let mut reader = rig.reader().await;
    let stored = work_orders::of_web_order(&mut reader, "a").await.expect("a statement");
    let expected: Vec<_> = new.iter().map(|order| (order.number.clone(), order.work_order_type)).collect();
    assert_eq!(stored, expected);
    assert!(work_orders::of_web_order(&mut reader, "b").await.expect("a statement").is_empty());
}

async fn a_work_order_number_is_taken_once(rig: TenantDatabase) {
    orders::insert(&rig, &order("a")).await;
    orders::insert(&rig, &order("b")).await;
    let work_order = [NewWorkOrder {
        number: "1".into(),
        work_order_type: WorkOrderType::Court,
        servee: None,
        facilities: Vec::new(),
    }];
    rig.write(async |t| work_orders::insert(t, &order("a").head, &work_order, T0).await).await;
    for order in [order("a"), order("b")] {
        let again = rig.try_write(async |t| work_orders::insert(t, &order.head, &work_order, T0).await).await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    }
}

async fn work_orders_beside_a_number_are_the_last_before_and_the_first_after_it(rig: TenantDatabase) {
    for number in ["CT1", "CT3"] {
        rig.add_work_order(number).await;
    }
    for (number, expected) in [("CT2", &["CT1", "CT3"][..]), ("CT1", &["CT3"]), ("CT4", &["CT3"])] {
        let found = work_orders::beside(&mut rig.reader().await, number).await.expect("a statement");
        assert_eq!(found, expected, "{number}");
    }
}
