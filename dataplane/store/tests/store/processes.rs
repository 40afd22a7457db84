//! Process work orders, and the attempts to serve.

use docket_domain::process::ServiceStatus;
use docket_domain::work_order::WorkOrderType;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::processes::{self, Process, ProcessFilter};
use docket_store::work_orders::{self, NewServee, NewWorkOrder};

use super::orders::{self, order};

on_both_databases!(
    an_export_makes_a_status_row_per_servee,
    names_are_found_in_any_case_and_by_any_part,
    the_statuses_are_those_of_the_table,
    attempts_come_back_as_they_were_written,
);

async fn export(rig: &TenantDatabase, id: &str, servees: &[&str]) {
    orders::insert(rig, &order(id)).await;
    let new: Vec<NewWorkOrder> = (1..)
        .zip(servees)
        .map(|(number, servee)| NewWorkOrder {
            number: format!("{id}{number}"),
            work_order_type: WorkOrderType::Process,
            servee: Some(NewServee {
                name: (*servee).to_owned(),
                address: Some(format!("{number} Example Street")),
            }),
            facilities: Vec::new(),
        })
        .collect();
    rig.write(async |t| work_orders::insert(t, &order(id).head, &new, T0).await).await;
}

async fn execute(rig: &TenantDatabase, sql: &str) {
    rig.write(async |t| t.execute(sql, Vec::new()).await).await;
}

async fn search(rig: &TenantDatabase, filter: ProcessFilter) -> Vec<Process> {
    processes::search(&mut rig.reader().await, &filter, 100).await.expect("a statement")
}

fn numbers(found: &[Process]) -> Vec<&str> {
    found.iter().map(|process| process.work_order.as_str()).collect()
}

async fn an_export_makes_a_status_row_per_servee(rig: TenantDatabase) {
    export(&rig, "a", &["Ann", "Bob"]).await;
    assert_eq!(rig.number("SELECT count(*) FROM process_status WHERE status = 'New'").await, 2);
    let found = search(&rig, ProcessFilter::default()).await;
    assert_eq!(numbers(&found), ["a2", "a1"]);
    assert_eq!((found[0].servee.as_deref(), found[0].status.as_str()), (Some("Bob"), "New"));
    assert_eq!(found[0].servee_address.as_deref(), Some("2 Example Street"));
    // The back office created this work order, without a row in the process table.
    execute(&rig, "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) VALUES ('desk', 'Process', 'SMITH', 0)").await;
    let new = ProcessFilter { status: Some(ServiceStatus::New), ..ProcessFilter::default() };
    assert_eq!(numbers(&search(&rig, new).await), ["a2", "a1", "desk"]);
}

async fn names_are_found_in_any_case_and_by_any_part(rig: TenantDatabase) {
    export(&rig, "a", &["Élodie 100%_Ö", "Orrin O'Brindle"]).await;
    execute(&rig, "INSERT INTO work_order (number, work_order_type, customer_code, servee, created_at_ms) VALUES ('desk', 'Process', 'SMITH', 'ORRIN Desk', 0)").await;
    for (servee, expected) in [
        ("élodie", vec!["a1"]),
        ("0%_ö", vec!["a1"]),
        ("0%xö", vec![]),
        ("o'brin", vec!["a2"]),
        ("orrin", vec!["a2", "desk"]),
        ("\\", vec![]),
    ] {
        let filter = ProcessFilter { servee: Some(servee.into()), ..ProcessFilter::default() };
        assert_eq!(numbers(&search(&rig, filter).await), expected, "{servee}");
    }
}

async fn the_statuses_are_those_of_the_table(rig: TenantDatabase) {
    export(&rig, "a", &["Ann"]).await;
    for status in ServiceStatus::ALL {
        execute(&rig, &format!("UPDATE process_status SET status = '{}'", status.as_str())).await;
        let filter = ProcessFilter { status: Some(status), ..ProcessFilter::default() };
        assert_eq!(search(&rig, filter).await.len(), 1, "{status:?}");
    }
    let refused =
        rig.try_write(async |t| t.execute("UPDATE process_status SET status = 'Lost'", Vec::new()).await);
    assert!(refused.await.is_err());
}

async fn attempts_come_back_as_they_were_written(rig: TenantDatabase) {
    let names: Vec<String> = (0..30).map(|n| format!("Servee {n}")).collect();
    export(&rig, "a", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    execute(
        &rig,
        "INSERT INTO process_attempt (work_order, sequence, attempted_at_ms, outcome, comments, latitude, longitude, \
         gps_accuracy_meters, photo_count, recorded_at_ms) SELECT number, 2, 5, 'NotIn', number, 34.0522, -118.25, 5, 3, 6 \
         FROM work_order",
    )
    .await;
    execute(
        &rig,
        "INSERT INTO process_attempt (work_order, sequence, attempted_at_ms, outcome, recorded_at_ms) \
         VALUES ('a7', 1, 3, 'NoAnswer', 4)",
    )
    .await;
    let found = search(&rig, ProcessFilter::default()).await;
    let attempts = processes::attempts(&mut rig.reader().await, &numbers(&found)).await.expect("a statement");
    assert_eq!(attempts.len(), 30);
    for (number, its) in &attempts {
        let last = its.last().expect("one");
        assert_eq!((last.sequence, last.comments.as_ref()), (2, Some(number)));
        assert_eq!(
            (last.latitude, last.longitude, last.gps_accuracy_meters),
            (Some(34.0522), Some(-118.25), Some(5.0))
        );
        assert_eq!((last.photo_count, last.attempted_at_ms, last.recorded_at_ms), (Some(3), 5, 6));
    }
    let sevenths: Vec<i64> = attempts["a7"].iter().map(|attempt| attempt.sequence).collect();
    assert_eq!(sevenths, [1, 2]);
}
