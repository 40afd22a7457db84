//! A scan for new invoices reads only new ones, even if there are many old ones.

use docket_rig::on_both_databases;
use docket_rig::tenant_database::{INVOICE_TABLES, Place, TenantDatabase};
use docket_store::invoices;

on_both_databases!(new_ones_are_found_by_their_own_index);

/// The plan of a statement as text.
async fn plan(rig: &TenantDatabase, statement: &str) -> String {
    let (explain, column) = match &rig.place {
        Place::File(_) => ("EXPLAIN QUERY PLAN ", 3),
        Place::Url(_) => ("EXPLAIN ", 0),
    };
    // On PostgreSQL, EXPLAIN accepts no parameters.
    let sql = format!("{explain}{}", statement.replace("$1", "100"));
    let rows = rig.opened_again().reader().await.expect("a connection").query(&sql, Vec::new()).await;
    rows.expect("a plan").iter().map(|row| row.get::<String>(column).expect("text") + "\n").collect()
}

async fn new_ones_are_found_by_their_own_index(rig: TenantDatabase) {
    let numbers = |from: i64, to: i64| match &rig.place {
        Place::File(_) => format!(
            "WITH RECURSIVE s(n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM s WHERE n < {to}) SELECT n FROM s"
        ),
        Place::Url(_) => format!("SELECT n FROM generate_series({from}, {to}) AS s(n)"),
    };
    let orders = format!(
        "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) \
         SELECT 'WO' || n, 'PhotoCopy', 'SMITH', 0 FROM ({}) AS q",
        numbers(1, 5_000)
    );
    let history = |table: &str, from: i64, to: i64, detected: &str| {
        format!(
            "INSERT INTO {table} (invoice_number, work_order, created_at_ms, detected_at_ms) \
             SELECT 'N' || n, 'WO' || (1 + n % 5000), n, {detected} FROM ({}) AS q",
            numbers(from, to)
        )
    };
    rig.run(&orders).await;
    for (_, table) in INVOICE_TABLES {
        rig.run(&history(table, 1, 20_000, "n")).await;
        rig.run(&history(table, 20_001, 20_100, "NULL")).await;
    }
    for analyzed in [false, true] {
        if analyzed {
            rig.run("ANALYZE").await;
        }
        let all = plan(&rig, &invoices::count_without_work_order_sql()).await;
        let by_number = plan(&rig, &invoices::with_numbers_sql("'N7', 'n7'")).await;
        assert!(!by_number.contains("Seq Scan") && !by_number.contains("SCAN"), "{by_number}");
        for (family, table) in INVOICE_TABLES {
            let one = plan(&rig, &invoices::find_new_sql(family)).await;
            for plan in [one, all.clone()] {
                assert!(plan.contains(&format!("{table}_new")), "analyzed: {analyzed}\n{plan}");
                // The work orders are not read whole either.
                let whole = ["SCAN w", "Seq Scan", "SCAN i\n"].iter().any(|scan| plan.contains(scan));
                assert!(!whole, "analyzed: {analyzed}\n{plan}");
            }
        }
    }
}
