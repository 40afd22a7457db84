//! What other programs may try to write into the back office's tables, and what they may not.

use std::time::Duration;

use docket::detector::detect_invoices::detect_invoices;
use docket_domain::invoice::InvoiceFamily;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::TenantDatabase;
use docket_store::invoices::{self, InvoiceFilter};
use docket_store::processes::{self, ProcessFilter};

use super::invoices::{outbox, tenant};

on_both_databases!(a_value_of_another_type_is_refused_in_every_column);

/// One sound row of each table.
const ROWS: [&str; 10] = [
    "INSERT INTO work_order (number, work_order_type, customer_code, servee, servee_key, case_number, caption, \
     created_at_ms) VALUES ('PC1', 'PhotoCopy', 'SMITH', 'Ann', 'ann', '1', 'A v. B', 5)",
    "INSERT INTO process_status (work_order) VALUES ('PC1')",
    "INSERT INTO process_attempt (work_order, sequence, attempted_at_ms, outcome, recorded_at_ms) \
     VALUES ('PC1', 1, 5, 'NotIn', 6)",
    "INSERT INTO facility VALUES ('PC1', 1, 'F1', 'A clinic')",
    "INSERT INTO milestone VALUES (555, 'Ours', FALSE, TRUE)",
    "INSERT INTO note VALUES ('PC1', 1, 1, 'Noted.', 555, 'Desk', 5)",
    "INSERT INTO photo_copy_invoice VALUES ('1', 'PC1', 1, '2026-11-21', 'C', 100, 5, 6)",
    "INSERT INTO court_invoice VALUES ('1', 'PC1', '2026-11-21', 'C', 5, 6)",
    "INSERT INTO delivery_invoice VALUES ('1', 'PC1', '2026-11-21 09:30:00', 'C', 5, 6)",
    "INSERT INTO investigation_invoice VALUES ('1', 'PC1', '2026-11-21T09:30', 'C', 5, 6)",
];

/// The tables' columns with their types, out of the migration that makes them.
fn columns() -> Vec<(String, String, String)> {
    let sql = docket_schema::MIGRATIONS[1].sql.postgres();
    let mut columns = Vec::new();
    let mut table = None;
    for line in sql.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("CREATE"), Some("TABLE"), Some(name)) => {
                table = Some(name.to_owned()).filter(|name| name != "resend")
            }
            (Some(name), Some(kind @ ("BIGINT" | "TEXT" | "BOOLEAN" | "DOUBLE")), _) => {
                let kind = kind.trim_end_matches(',');
                columns.extend(table.iter().map(|table| (table.clone(), name.to_owned(), kind.to_owned())));
            }
            (Some(");"), ..) => table = None,
            _ => {}
        }
    }
    columns
}

async fn a_value_of_another_type_is_refused_in_every_column(rig: TenantDatabase) {
    for row in ROWS {
        rig.write(async |t| t.execute(row, Vec::new()).await).await;
    }
    let columns = columns();
    assert!(columns.len() > 60, "{columns:?}");
    for (table, column, kind) in columns {
        let wrong: &[&str] = match kind.as_str() {
            "BIGINT" => &["'2026-11-21'", "1.5", "-100000000000000", "9223372036854775807"],
            "BOOLEAN" => &["'yes?'"],
            "DOUBLE" => &["'x'"],
            _ => &["X'FFFE'"],
        };
        for value in wrong {
            let sql = format!("UPDATE {table} SET {column} = {value}");
            let Err(_) = rig.try_write(async |t| t.execute(&sql, Vec::new()).await).await else {
                // PostgreSQL rounds 1.5 and takes X'FFFE' as the bits of a number's text.
                let rounds = matches!(rig.database, docket_store::Database::Postgres(_));
                assert!(rounds && ["1.5", "X'FFFE'"].contains(value), "{sql}");
                continue;
            };
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_never_missing() {
    let rig = TenantDatabase::sqlite().await;
    for row in ROWS {
        rig.write(async |t| t.execute(row, Vec::new()).await).await;
    }
    for (table, key) in [
        ("work_order", "number"),
        ("process_status", "work_order"),
        ("milestone", "code"),
        ("photo_copy_invoice", "invoice_number"),
        ("court_invoice", "invoice_number"),
        ("delivery_invoice", "invoice_number"),
        ("investigation_invoice", "invoice_number"),
    ] {
        let sql = format!("INSERT INTO {table} ({key}) VALUES (NULL)");
        assert!(rig.try_write(async |t| t.execute(&sql, Vec::new()).await).await.is_err(), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_in_another_encoding_hides_no_other_row() {
    let rig = TenantDatabase::sqlite().await;
    rig.write(async |t| t.execute(ROWS[0], Vec::new()).await).await;
    // "Müller" in Windows-1252.
    let odd = "INSERT INTO court_invoice (invoice_number, work_order, bill_to_customer_code, created_at_ms) \
               VALUES ('1', 'PC1', CAST(x'4dfc6c6c6572' AS TEXT), 5), ('2', 'PC1', 'Sound', 5)";
    rig.write(async |t| t.execute(odd, Vec::new()).await).await;
    let detected = detect_invoices(
        &rig.database,
        &tenant(rig.database.clone(), 1),
        &outbox(),
        InvoiceFamily::Court,
        Duration::ZERO,
        &Clock::System,
    )
    .await;
    assert_eq!(detected.expect("a batch").count, 2);
    let found =
        invoices::search(&mut rig.reader().await, &InvoiceFilter::default(), 9).await.expect("a page");
    let odd = "INSERT INTO work_order (number, work_order_type, customer_code, servee, created_at_ms) VALUES \
               ('PR1', 'Process', 'SMITH', CAST(x'4dfc6c6c6572' AS TEXT), 1), ('PR2', 'Process', 'SMITH', 'Óscar', 1)";
    rig.write(async |t| t.execute(odd, Vec::new()).await).await;
    for (servee, expected) in [("óscar", vec!["PR2"]), ("ller", vec!["PR1"])] {
        let filter = ProcessFilter { servee: Some(servee.into()), ..ProcessFilter::default() };
        let found = processes::search(&mut rig.reader().await, &filter, 9).await.expect("a page");
        assert_eq!(found.iter().map(|one| one.work_order.as_str()).collect::<Vec<_>>(), expected);
    }
    let payers: Vec<_> = found.iter().map(|invoice| invoice.bill_to_customer_code.as_deref()).collect();
    assert_eq!(payers, [Some("Sound"), Some("M\u{fffd}ller")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invoice_number_in_another_encoding_fails_and_stops_no_other() {
    let rig = TenantDatabase::sqlite().await;
    rig.write(async |t| t.execute(ROWS[0], Vec::new()).await).await;
    let odd = "INSERT INTO court_invoice (invoice_number, work_order, created_at_ms) \
               VALUES (CAST(x'41e9' AS TEXT), 'PC1', 5), ('B', 'PC1', 5)";
    rig.write(async |t| t.execute(odd, Vec::new()).await).await;
    let (tenant, outbox) = (tenant(rig.database.clone(), 1), outbox());
    let (family, max_age) = (InvoiceFamily::Court, Duration::ZERO);
    let detected = detect_invoices(&rig.database, &tenant, &outbox, family, max_age, &Clock::System).await;
    let detected = detected.expect("the database is there");
    assert_eq!((detected.count, detected.failed.is_some()), (1, true));
}
