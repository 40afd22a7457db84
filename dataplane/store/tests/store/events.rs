//! Events: the bytes that are signed and sent.

use docket_crds::EventCode;
use docket_domain::event::LONGEST_ENVELOPE;
use docket_rig::on_both_databases;
use docket_rig::tenant_database::{CUSTOMER, T0, TenantDatabase, event_id};
use docket_store::StoreError;
use docket_store::events::{self, About};

on_both_databases!(
    bodies_of_more_events_than_one_list_holds,
    bytes_come_back_as_they_are,
    no_row_gives_an_attempt_more_than_an_envelope_to_hold,
    a_code_of_a_newer_version_is_sent_and_no_event_waits_for_another,
    an_event_id_is_taken_once
);

fn event(number: u16, body: Vec<u8>) -> events::Event {
    events::Event {
        id: event_id(number),
        code: EventCode::NoteCreated,
        customer_code: CUSTOMER.into(),
        about: About::web_order("W-1"),
        body: body.into(),
    }
}

async fn bodies_of_more_events_than_one_list_holds(rig: TenantDatabase) {
    rig.write(async |t| {
        for number in 0..60 {
            events::insert(t, &event(number, number.to_string().into_bytes()), T0).await?;
        }
        Ok(())
    })
    .await;
    let mut reader = rig.reader().await;
    for count in [0, 1, 24, 25, 26, 50, 60] {
        let mut ids: Vec<String> = (0..count).map(|number| event_id(number).as_str().to_owned()).collect();
        ids.push("of an unknown event".into());
        let events = events::to_send(&mut reader, &ids).await.expect("a statement");
        assert_eq!(events.len(), usize::from(count));
        for number in 0..count {
            let event = &events[event_id(number).as_str()];
            assert_eq!(
                (&*event.code, event.body.as_deref()),
                (EventCode::NoteCreated.as_str(), Some(number.to_string().as_bytes()))
            );
        }
    }
}

async fn bytes_come_back_as_they_are(rig: TenantDatabase) {
    let bodies = [Vec::new(), (0..=255).collect(), "7".into(), "{\"note\":\"🦊 \\u0000\"}".into()];
    for (number, body) in (0..).zip(&bodies) {
        rig.write(async |t| events::insert(t, &event(number, body.clone()), T0).await).await;
    }
    let ids: Vec<String> = (0..4).map(|number| event_id(number).as_str().to_owned()).collect();
    let stored = events::to_send(&mut rig.reader().await, &ids).await.expect("a statement");
    for (id, body) in ids.iter().zip(&bodies) {
        assert_eq!(stored[id].body.as_deref(), Some(&body[..]));
    }
}

/// The owner of a database may write anything into its rows.
async fn no_row_gives_an_attempt_more_than_an_envelope_to_hold(rig: TenantDatabase) {
    for (number, length) in [(0, LONGEST_ENVELOPE), (1, LONGEST_ENVELOPE + 1), (2, 300_000)] {
        rig.write(async |t| events::insert(t, &event(number, vec![b'x'; length]), T0).await).await;
    }
    let long = "ß".repeat(160_000);
    let owned = format!("UPDATE event SET customer_code = '{long}' WHERE id = '{}'", event_id(2));
    rig.run(&owned).await;
    let ids: Vec<String> = (0..3).map(|number| event_id(number).as_str().to_owned()).collect();
    let stored = events::to_send(&mut rig.reader().await, &ids).await.expect("a statement");
    let lengths = ids.iter().map(|id| stored[id].body.as_ref().map(|body| body.len()));
    assert_eq!(lengths.collect::<Vec<_>>(), [Some(LONGEST_ENVELOPE), None, None]);
    assert_eq!(stored[&ids[2]].customer_code, "ß".repeat(290));
}

/// A newer version beside this one publishes events that this version does not know.
async fn a_code_of_a_newer_version_is_sent_and_no_event_waits_for_another(rig: TenantDatabase) {
    for number in 0..4 {
        rig.write(async |t| events::insert(t, &event(number, b"{}".to_vec()), T0).await).await;
    }
    let long = "x".repeat(65);
    for (number, code) in [(1, "order.archived"), (2, "order created"), (3, long.as_str())] {
        rig.run(&format!("UPDATE event SET code = '{code}' WHERE id = '{}'", event_id(number))).await;
    }
    let ids: Vec<String> = (0..4).map(|number| event_id(number).as_str().to_owned()).collect();
    let stored = events::to_send(&mut rig.reader().await, &ids).await.expect("a statement");
    let codes: Vec<Option<&str>> = ids.iter().map(|id| stored.get(id).map(|event| &*event.code)).collect();
    assert_eq!(codes, [Some("note.created"), Some("order.archived"), None, None]);
}

async fn an_event_id_is_taken_once(rig: TenantDatabase) {
    rig.write(async |t| events::insert(t, &event(1, b"first".to_vec()), T0).await).await;
    let again = rig.try_write(async |t| events::insert(t, &event(1, b"second".to_vec()), T0).await).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
}
