//! Searches for invoices: one order over four tables.

use docket_domain::invoice::InvoiceFamily;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{INVOICE_TABLES, T0, TenantDatabase, insert_invoice_sql};
use docket_store::invoices::{self, InvoiceFilter};

on_both_databases!(
    pages_run_through_all_families_whatever_the_ties,
    each_filter_keeps_what_it_names,
    invoices_of_a_number_are_found_in_each_family,
);

async fn ids(rig: &TenantDatabase, filter: &InvoiceFilter, limit: i64) -> Vec<String> {
    let found = invoices::search(&mut rig.reader().await, filter, limit).await.expect("a statement");
    found.into_iter().map(|invoice| invoice.id()).collect()
}

async fn pages_run_through_all_families_whatever_the_ties(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    let mut expected = Vec::new();
    for number in 0..12 {
        for (family, table) in INVOICE_TABLES {
            // Three numbers per millisecond, the same numbers in every family.
            let at = T0 + number / 3;
            rig.run(&insert_invoice_sql(table, &format!("{number:02}"), at)).await;
            expected.push((at, family.as_str(), format!("{number:02}")));
        }
    }
    expected.sort_by(|a, b| b.cmp(a));
    let expected: Vec<String> =
        expected.into_iter().map(|(_, word, number)| format!("{word}:{number}")).collect();
    for size in [1, 5, 7, 48, 100] {
        let (mut filter, mut seen) = (InvoiceFilter::default(), Vec::new());
        loop {
            let page = invoices::search(&mut rig.reader().await, &filter, size).await.expect("a statement");
            let Some(last) = page.last() else { break };
            filter.after = Some((last.created_at_ms, last.id()));
            seen.extend(page.iter().map(invoices::Invoice::id));
        }
        assert_eq!(seen, expected, "pages of {size}");
    }
}

async fn each_filter_keeps_what_it_names(rig: TenantDatabase) {
    rig.run("INSERT INTO customer (code, name, created_at_ms) VALUES ('JONES', 'Jones', 0)").await;
    rig.add_work_order("WO1").await;
    rig.add_work_order("WO2").await;
    rig.run("UPDATE work_order SET customer_code = 'JONES' WHERE number = 'WO2'").await;
    rig.run(&insert_invoice_sql("court_invoice", "7", 10)).await;
    rig.run(&insert_invoice_sql("photo_copy_invoice", "7", 20)).await;
    rig.run(&insert_invoice_sql("photo_copy_invoice", "8", 30)).await;
    rig.run("UPDATE photo_copy_invoice SET work_order = 'WO2' WHERE invoice_number = '8'").await;
    let all = InvoiceFilter::default();
    let cases = [
        (InvoiceFilter { customer_code: Some("JONES".into()), ..all.clone() }, vec!["PhotoCopy:8"]),
        (InvoiceFilter { customer_code: Some("jones".into()), ..all.clone() }, vec![]),
        (InvoiceFilter { family: Some(InvoiceFamily::Court), ..all.clone() }, vec!["Court:7"]),
        (InvoiceFilter { family: Some(InvoiceFamily::Delivery), ..all.clone() }, vec![]),
        (InvoiceFilter { work_order: Some("WO2".into()), ..all.clone() }, vec!["PhotoCopy:8"]),
        (InvoiceFilter { invoice_number: Some("7".into()), ..all.clone() }, vec!["PhotoCopy:7", "Court:7"]),
        (InvoiceFilter { from_ms: Some(20), ..all.clone() }, vec!["PhotoCopy:8", "PhotoCopy:7"]),
        (InvoiceFilter { to_ms: Some(20), ..all.clone() }, vec!["Court:7"]),
        (InvoiceFilter { after: Some((20, "Court:9".into())), ..all.clone() }, vec!["Court:7"]),
        // This place is not a cursor of the route, but is a place in the order all the same.
        (
            InvoiceFilter { after: Some((20, "W00000001".into())), ..all.clone() },
            vec!["PhotoCopy:7", "Court:7"],
        ),
        (all, vec!["PhotoCopy:8", "PhotoCopy:7", "Court:7"]),
    ];
    for (number, (filter, expected)) in cases.into_iter().enumerate() {
        assert_eq!(ids(&rig, &filter, 100).await, expected, "case {number}");
    }
}

async fn invoices_of_a_number_are_found_in_each_family(rig: TenantDatabase) {
    rig.add_work_order("WO1").await;
    rig.run(&insert_invoice_sql("court_invoice", "A7", 10)).await;
    rig.run(&insert_invoice_sql("photo_copy_invoice", "a7", 20)).await;
    rig.run(&insert_invoice_sql("photo_copy_invoice", "A8", 30)).await;
    rig.run("UPDATE court_invoice SET detected_at_ms = 15").await;
    let numbers = ["A7", "a7"].map(str::to_owned);
    let found = invoices::with_numbers(&mut rig.reader().await, &numbers).await.expect("a statement");
    let found: Vec<_> = found
        .iter()
        .map(|one| {
            (one.family, one.invoice_number.as_str(), one.detected_at_ms, one.customer_code.as_deref())
        })
        .collect();
    let expected = [
        (InvoiceFamily::Court, "A7", Some(15), Some("SMITH")),
        (InvoiceFamily::PhotoCopy, "a7", None, Some("SMITH")),
    ];
    assert_eq!(found, expected);
}
