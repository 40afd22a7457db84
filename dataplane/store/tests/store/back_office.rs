//! Runs each block of SQL in the pages of docs/back-office/ on both databases, as a program of the back office would.

use std::path::Path;

use docket_rig::on_both_databases;
use docket_rig::tenant_database::{T0, TenantDatabase};
use docket_store::Database;

/// The pages, in the order of the documentation.
const PAGES: [&str; 4] = ["work-orders", "service", "notes", "invoices"];

on_both_databases!(the_statements_of_the_pages_work);

/// The statements for this database on a page.
fn statements(document: &str, database: &str) -> Vec<String> {
    let mut statements = Vec::new();
    for block in document.split("```sql").skip(1) {
        let (info, rest) = block.split_once('\n').expect("a line end");
        let text = rest.split("```").next().expect("a block ends");
        if info.trim().is_empty() || info.trim() == database {
            // BEGIN and COMMIT are left out, because each block is its own transaction here.
            let counts = |one: &&str| !["", "BEGIN", "COMMIT"].contains(one);
            statements.extend(text.split(';').map(str::trim).filter(counts).map(str::to_owned));
        }
    }
    statements
}

async fn the_statements_of_the_pages_work(rig: TenantDatabase) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/back-office");
    let kind = match rig.database {
        Database::Sqlite(_) => "sqlite",
        Database::Postgres(_) => "postgresql",
    };
    let page = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.md"))).expect("readable");
    let statements: Vec<String> = PAGES.iter().flat_map(|name| statements(&page(name), kind)).collect();
    assert!(statements.len() >= 12, "{statements:#?}");
    // Rows that an export of the examples would have created.
    let customer = format!("INSERT INTO customer VALUES ('C-1001', 'Quillfeather', {T0})");
    let orders = "INSERT INTO work_order (number, work_order_type, customer_code, created_at_ms) VALUES \
                  ('PC1000001', 'PhotoCopy', 'C-1001', 0), ('CT1000001', 'Court', 'C-1001', 0), \
                  ('DL1000001', 'Delivery', 'C-1001', 0)";
    rig.write(async |t| {
        t.execute(&customer, Vec::new()).await?;
        t.execute(orders, Vec::new()).await
    })
    .await;
    for statement in &statements {
        let touched = rig.write(async |t| t.execute(statement, Vec::new()).await).await;
        assert!(touched > 0 || statement.contains("ON CONFLICT"), "{statement}");
    }
    let now =
        rig.number("SELECT created_at_ms FROM photo_copy_invoice WHERE invoice_number = 'INV-1001'").await;
    #[expect(clippy::disallowed_methods, reason = "the database reads the same clock")]
    let clock = jiff::Timestamp::now().as_millisecond();
    assert!((clock - 60_000..=clock + 60_000).contains(&now), "the expression for now: {now}");
    let new = "SELECT count(*) FROM (SELECT invoice_number FROM photo_copy_invoice WHERE detected_at_ms IS NULL \
               UNION ALL SELECT invoice_number FROM court_invoice WHERE detected_at_ms IS NULL) AS new";
    assert_eq!(rig.number(new).await, 2);
    assert_eq!(rig.number("SELECT count(*) FROM note WHERE milestone_code = 220").await, 1);
}
