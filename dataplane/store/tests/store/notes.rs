//! Notes, status lines and milestones.

use docket_domain::work_order::WorkOrderType;
use docket_program::clock::Clock;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase};
use docket_store::notes::{self, NewNote, NoteFilter};
use docket_store::work_orders::{self, NewFacility, NewWorkOrder};

use super::orders::{self, order};

on_both_databases!(
    lines_are_numbered_in_their_work_order,
    notes_at_the_same_time_get_numbers_of_their_own,
    the_last_milestone_is_the_stops_or_the_work_orders,
    a_note_comes_back_with_its_work_order_and_milestone,
    pages_of_notes_are_stable,
);

/// A photocopy work order with two stops.
async fn photo_copy(rig: &TenantDatabase, number: &str) {
    orders::insert(rig, &order(number)).await;
    let facility =
        |id: &str| NewFacility { facility_id: Some(id.into()), name: Some("A 🦊 clinic".into()) };
    let new = [NewWorkOrder {
        number: number.into(),
        work_order_type: WorkOrderType::PhotoCopy,
        servee: None,
        facilities: vec![facility("F1"), facility("F2")],
    }];
    rig.write(async |t| work_orders::insert(t, &order(number).head, &new, T0).await).await;
}

fn new_note(number: &str, stop: Option<i64>, milestone_code: Option<i64>) -> NewNote<'_> {
    NewNote {
        work_order: number,
        line_item: 0,
        facility_line_item: stop,
        report: "Žofie’s 契約 📦",
        milestone_code,
        author: "contact 1",
    }
}

async fn add(rig: &TenantDatabase, note: NewNote<'_>, at_ms: i64) -> i64 {
    rig.write(async |t| {
        let line_item = notes::next_line_item(t, note.work_order).await?;
        notes::insert(t, &NewNote { line_item, ..note }, at_ms).await?;
        Ok(line_item)
    })
    .await
}

async fn lines_are_numbered_in_their_work_order(rig: TenantDatabase) {
    photo_copy(&rig, "PC1").await;
    photo_copy(&rig, "PC2").await;
    for (number, expected) in [("PC1", 1), ("PC2", 1), ("PC1", 2)] {
        assert_eq!(add(&rig, new_note(number, None, None), T0).await, expected, "{number}");
    }
    let theirs = "INSERT INTO note (work_order, line_item, report, created_at_ms) VALUES ('PC1', 7, 'x', 0)";
    rig.write(async |t| t.execute(theirs, Vec::new()).await).await;
    assert_eq!(add(&rig, new_note("PC1", None, None), T0).await, 8);
}

async fn notes_at_the_same_time_get_numbers_of_their_own(rig: TenantDatabase) {
    photo_copy(&rig, "PC1").await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let database = rig.opened_again();
            tokio::spawn(async move {
                let mut t = database.begin(&Clock::System).await.expect("begins");
                let line_item = notes::next_line_item(&mut t, "PC1").await.expect("a number");
                let note = NewNote { line_item, ..new_note("PC1", None, None) };
                notes::insert(&mut t, &note, T0).await.expect("its own");
                t.commit().await.expect("commits");
                line_item
            })
        })
        .collect();
    let mut numbers = Vec::new();
    for task in tasks {
        numbers.push(task.await.expect("no panic"));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
}

async fn the_last_milestone_is_the_stops_or_the_work_orders(rig: TenantDatabase) {
    photo_copy(&rig, "PC1").await;
    photo_copy(&rig, "PC2").await;
    let last = async |stop| {
        let found = notes::last_milestone(&mut rig.reader().await, "PC1", stop).await.expect("a statement");
        found.map(|milestone| milestone.code)
    };
    assert_eq!((last(Some(1)).await, last(None).await), (None, None));
    for (number, stop, code, expected) in [
        ("PC1", Some(1), Some(200), (Some(200), None, Some(200))),
        ("PC1", Some(2), Some(110), (Some(200), Some(110), Some(110))),
        // A note without a milestone is no status line, and notes of another work order do not count.
        ("PC1", Some(1), None, (Some(200), Some(110), Some(110))),
        ("PC2", None, Some(900), (Some(200), Some(110), Some(110))),
        ("PC1", None, Some(400), (Some(400), Some(400), Some(400))),
        ("PC1", Some(1), Some(410), (Some(410), Some(400), Some(410))),
    ] {
        add(&rig, new_note(number, stop, code), T0).await;
        assert_eq!((last(Some(1)).await, last(Some(2)).await, last(None).await), expected, "{code:?}");
    }
}

async fn a_note_comes_back_with_its_work_order_and_milestone(rig: TenantDatabase) {
    photo_copy(&rig, "PC1").await;
    add(&rig, new_note("PC1", Some(2), Some(210)), T0 + 5).await;
    let filter = NoteFilter { customer_code: Some(CUSTOMER.into()), ..NoteFilter::default() };
    let found = notes::search(&mut rig.reader().await, &filter, 10).await.expect("a statement");
    let [note] = &found[..] else { panic!("one note") };
    assert_eq!((note.work_order_type.as_str(), note.web_order_id.as_deref()), ("PhotoCopy", Some("PC1")));
    assert_eq!((note.line_item, note.facility_line_item, note.milestone_code), (1, Some(2), Some(210)));
    assert_eq!(
        (note.report.as_deref(), note.milestone.as_deref()),
        (Some("Žofie’s 契約 📦"), Some("Custodian served"))
    );
    assert_eq!((note.author.as_deref(), note.created_at_ms), (Some("contact 1"), T0 + 5));
    let filter = NoteFilter { customer_code: Some("ANOTHER".into()), ..NoteFilter::default() };
    assert!(notes::search(&mut rig.reader().await, &filter, 10).await.expect("a statement").is_empty());
}

async fn pages_of_notes_are_stable(rig: TenantDatabase) {
    photo_copy(&rig, "PC1").await;
    photo_copy(&rig, "PC2").await;
    for (number, at_ms) in [("PC1", T0), ("PC2", T0), ("PC1", T0), ("PC2", T0 + 1), ("PC1", T0 - 1)] {
        add(&rig, new_note(number, None, None), at_ms).await;
    }
    let mut seen = Vec::new();
    let mut filter = NoteFilter::default();
    loop {
        let page = notes::search(&mut rig.reader().await, &filter, 2).await.expect("a statement");
        let Some(last) = page.last() else { break };
        filter.after = Some((last.created_at_ms, last.work_order.clone(), last.line_item));
        seen.extend(page.iter().map(|note| format!("{}:{}", note.work_order, note.line_item)));
    }
    assert_eq!(seen, ["PC2:2", "PC2:1", "PC1:2", "PC1:1", "PC1:3"]);
    let filter = NoteFilter { from_ms: Some(T0), to_ms: Some(T0 + 1), ..NoteFilter::default() };
    assert_eq!(notes::search(&mut rig.reader().await, &filter, 9).await.expect("a statement").len(), 3);
}
