//! `trace`: the events and deliveries of an order, an invoice, an event or a delivery, and why other webhooks have none.

use docket_domain::delivery::MAX_ATTEMPTS;
use docket_program::screen::clean;
use serde_json::Value;

use crate::answers::Answers;
use crate::arguments::{Output, TraceArguments};
use crate::fields::{cell, last, settled};
use crate::terminal::{Style, duration};
use crate::text;

/// The phases of an attempt, with their names in the answer.
const PHASES: [(&str, &str); 4] =
    [("dns", "dns"), ("connect", "connect"), ("tls", "tls"), ("first byte", "firstByte")];

/// Prints what became of it.
pub async fn run<A: Answers>(answers: &mut A, asked: &TraceArguments, style: Style) -> Result<(), A::Error> {
    let trace = answers.trace(asked.what, &asked.id).await?;
    match asked.printed.output {
        Output::Json => text::json(&trace),
        Output::Table | Output::Wide => print!("{}", traced(&trace, style)),
    }
    Ok(())
}

/// The text of a trace.
fn traced(trace: &Value, style: Style) -> String {
    let mut text = String::new();
    let order = &trace["order"];
    if order.is_object() {
        let [id, kind, customer, status] =
            ["webOrderId", "orderType", "customerCode", "status"].map(|name| cell(order, name));
        let time = |name: &str| style.moment(&cell(order, name));
        text += &format!("Web order {id} ({kind} of customer {customer})  {status}\n");
        text += &format!("  {}  saved\n", time("createdAt"));
        if !order["exportedAt"].is_null() {
            let made = order["workOrders"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let made: Vec<String> = made.map(clean).collect();
            text += &format!("  {}  exported as {}\n", time("exportedAt"), made.join(", "));
        } else if order["updatedAt"] != order["createdAt"] {
            text += &format!("  {}  changed\n", time("updatedAt"));
        }
    }
    if trace["more"] == true {
        text += "  Older deliveries are left out.\n";
    }
    for invoice in list(&trace["invoices"]) {
        text += &of_invoice(invoice, style);
    }
    let (deliveries, events) = (list(&trace["deliveries"]), list(&trace["events"]));
    if deliveries.is_empty() && events.is_empty() {
        text += "  No delivery: no event is stored. An event that no webhook takes is not stored.\n";
    }
    for delivery in deliveries {
        text += &shown(delivery, style);
    }
    for event in events {
        text += &missed(event, style);
    }
    text
}

fn of_invoice(invoice: &Value, style: Style) -> String {
    let [number, kind, work_order] =
        ["invoiceNumber", "orderType", "workOrder"].map(|name| cell(invoice, name));
    let created = style.moment(&cell(invoice, "createdAt"));
    let then = match (invoice["customerCode"].is_null(), invoice["detectedAt"].is_null()) {
        (true, true) => ": waits for the work order, which does not exist".to_owned(),
        (false, true) => ": new, not published yet".to_owned(),
        (_, false) => format!(": detected {}", style.moment(&cell(invoice, "detectedAt"))),
    };
    format!("Invoice {number} ({kind}, work order {work_order})\n  {created}  added{then}\n")
}

/// The webhooks of the customer that have no delivery of an event, and why; nothing if all have one.
fn missed(event: &Value, style: Style) -> String {
    let webhooks = list(&event["webhooks"]);
    let is_stored = !event["eventId"].is_null();
    if webhooks.is_empty() && is_stored {
        return String::new();
    }
    let [at, code] = ["at", "event"].map(|name| cell(event, name));
    let id = if is_stored { cell(event, "eventId") } else { "(no such event is stored)".to_owned() };
    let mut text = format!("  {}  {code} {id}\n", style.moment(&at));
    if event["webhooks"].as_array().is_some_and(Vec::is_empty) {
        text += &format!("    customer {} has no webhook now\n", cell(event, "customerCode"));
    }
    for webhook in webhooks {
        let name =
            webhook["webhook"].as_str().map_or_else(|| "a webhook without a known name".to_owned(), clean);
        text += &format!("    not to {name}: {}\n", cell(webhook, "explanation"));
        for fault in list(&webhook["faults"]).iter().filter_map(Value::as_str) {
            text += &format!("      {}\n", clean(fault));
        }
    }
    if let Some(more) = event["moreWebhooks"].as_u64().filter(|more| *more > 0) {
        text += &format!("    not to {more} more webhooks of the customer\n");
    }
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn shown(delivery: &Value, style: Style) -> String {
    let time = |of: &Value, name: &str| style.moment(&cell(of, name));
    let [event, event_id, webhook, customer, id] =
        ["event", "eventId", "webhook", "customerCode", "deliveryId"].map(|name| cell(delivery, name));
    let event_id = if event_id.is_empty() { "(invalid id)" } else { &event_id };
    let status = cell(delivery, "status");
    let count = cell(delivery, "attemptCount");
    let mut text = format!(
        "  {}  {event} {event_id} to {webhook} (customer {customer})\n    delivery {id}  {} after {count} of {MAX_ATTEMPTS} attempts{}\n",
        time(delivery, "createdAt"),
        style.status(&status),
        settled(delivery)
    );
    if !delivery["resendOf"].is_null() {
        let [of, by] = ["resendOf", "requestedBy"].map(|name| cell(delivery, name));
        text += &format!("    resend of {of} by {by}\n");
    }
    if !delivery["nextAttemptAt"].is_null() {
        text += &format!("    next attempt {}", time(delivery, "nextAttemptAt"));
        if !delivery["waitsFor"].is_null() {
            text += &format!(", waits for {}", cell(delivery, "waitsFor"));
        }
        text += "\n";
    }
    for resend in list(&delivery["resends"]).iter().rev() {
        let [by, status, id] = ["requestedBy", "status", "deliveryId"].map(|name| cell(resend, name));
        let status = style.status(&status);
        text += &format!("    resent {} by {by}: {status} ({id})\n", time(resend, "createdAt"));
    }
    if !delivery["setAsideBy"].is_null() {
        let by = cell(delivery, "setAsideBy");
        text += &format!("    set aside {} by {by}\n", time(delivery, "setAsideAt"));
    }
    for attempt in list(&delivery["attempts"]) {
        text += &format!("    {}\n", attempted(attempt, style));
    }
    if !delivery["remedy"].is_null() {
        text += &format!("    what to do: {}\n", cell(delivery, "remedy"));
    }
    text
}

/// The line of an attempt, with all that is known of it.
fn attempted(attempt: &Value, style: Style) -> String {
    let parts = [
        format!("attempt {}", cell(attempt, "number")),
        style.moment(&cell(attempt, "startedAt")),
        format!("{} {}", style.status(&cell(attempt, "outcome")), last(attempt)).trim_end().to_owned(),
        attempt["timesMicroseconds"]["total"].as_i64().map(duration).unwrap_or_default(),
        attempt["remoteAddress"].as_str().map(clean).unwrap_or_default(),
        phases(&attempt["timesMicroseconds"]),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

/// How long each phase took.
fn phases(times: &Value) -> String {
    let phases = PHASES.iter().filter_map(|(phase, name)| {
        times[*name].as_i64().map(|micros| format!("{phase} {}", duration(micros)))
    });
    phases.collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_is_followed_to_its_attempts() {
        let trace = json!({
            "order": {"webOrderId": "W-1", "orderType": "Court", "customerCode": "C-1", "status": "Exported",
                "createdAt": "t1", "updatedAt": "t2", "exportedAt": "t2", "workOrders": ["10", "11"]},
            "deliveries": [{"createdAt": "t1", "event": "order.created", "eventId": "evt_1", "webhook": "a/b",
                "customerCode": "C-1", "attemptCount": 1, "deliveryId": "d", "status": "Failed", "remedy": "Start it",
                "setAsideBy": "me", "setAsideAt": "t5", "resends": [
                {"deliveryId": "e", "createdAt": "t4", "requestedBy": "you", "status": "Succeeded"}], "attempts": [
                {"number": 1, "startedAt": "t3", "outcome": "Failed", "failureClass": "ServerError", "httpStatus": 503,
                    "remoteAddress": "127.0.0.1:9", "timesMicroseconds": {"total": 30_001_000, "firstByte": 12_345}}]}],
            "more": false
        });
        assert_eq!(
            traced(&trace, Style::default()),
            "Web order W-1 (Court of customer C-1)  Exported\n  t1  saved\n  t2  exported as 10, 11\n  \
             t1  order.created evt_1 to a/b (customer C-1)\n    delivery d  Failed after 1 of 5 attempts (set aside)\n    \
             resent t4 by you: Succeeded (e)\n    set aside t5 by me\n    \
             attempt 1  t3  Failed ServerError 503  30.0 s  127.0.0.1:9  first byte 12 ms\n    what to do: Start it\n"
        );
        let none = traced(&json!({"order": null, "deliveries": []}), Style::default());
        assert!(none.contains("No delivery"), "{none}");
    }

    #[test]
    fn webhooks_without_a_delivery_are_named_with_their_reasons() {
        let webhook = |name, explanation: &str, faults: &[&str]| json!({"webhook": name, "reason": "x", "explanation": explanation, "faults": faults});
        let event = |id: Option<&str>, webhooks: &[Value]| json!({"eventId": id, "event": "order.created", "customerCode": "C-1", "at": "t1", "webhooks": webhooks});
        let off = webhook(Some("a/off"), "it is inactive now", &[]);
        let held = webhook(None, "it is not served", &["spec.x: \u{1b}[2J"]);
        let events = [event(Some("evt_1"), &[off, held]), event(Some("evt_2"), &[]), event(None, &[])];
        let text = traced(&json!({"order": null, "events": events, "deliveries": []}), Style::default());
        assert_eq!(
            text,
            "  t1  order.created evt_1\n    not to a/off: it is inactive now\n    \
             not to a webhook without a known name: it is not served\n      spec.x:  [2J\n  \
             t1  order.created (no such event is stored)\n    customer C-1 has no webhook now\n"
        );
        let mut many = event(Some("evt_1"), &[webhook(Some("a/off"), "it is inactive now", &[])]);
        many["moreWebhooks"] = json!(20);
        let text = traced(&json!({"order": null, "events": [many], "deliveries": []}), Style::default());
        assert!(text.ends_with("\n    not to 20 more webhooks of the customer\n"), "{text}");
        let unknown = json!({"eventId": null, "event": "order.created", "at": "t1", "webhooks": null});
        let text = traced(&json!({"order": null, "events": [unknown], "deliveries": []}), Style::default());
        assert!(text.ends_with("(no such event is stored)\n"), "{text}");
    }

    #[test]
    fn invoice_says_what_it_waits_for() {
        let invoice = |customer: Option<&str>, detected: Option<&str>| {
            let invoice = json!({"invoiceNumber": "7", "orderType": "Court", "workOrder": "WO1", "customerCode": customer,
                "createdAt": "t1", "detectedAt": detected});
            of_invoice(&invoice, Style::default())
        };
        let head = "Invoice 7 (Court, work order WO1)\n  t1  added";
        assert_eq!(invoice(Some("C-1"), Some("t2")), format!("{head}: detected t2\n"));
        assert_eq!(invoice(Some("C-1"), None), format!("{head}: new, not published yet\n"));
        assert_eq!(invoice(None, None), format!("{head}: waits for the work order, which does not exist\n"));
    }

    #[test]
    fn phases_are_in_the_order_of_an_attempt() {
        let times = json!({"firstByte": 4_000, "tls": 3_000, "connect": 2_000, "dns": 1_000, "total": 9_000});
        assert_eq!(phases(&times), "dns 1 ms · connect 2 ms · tls 3 ms · first byte 4 ms");
    }

    #[test]
    fn draft_and_a_resend_that_waits_say_all_that_is_known_of_them() {
        let trace = json!({
            "order": {"webOrderId": "W-1", "orderType": "Court", "customerCode": "C-1", "status": "Draft",
                "createdAt": "t1", "updatedAt": "t2", "exportedAt": null},
            "deliveries": [{"createdAt": "t3", "event": "order.created", "eventId": "", "webhook": "a/b",
                "customerCode": "C-1", "attemptCount": 0, "deliveryId": "d", "status": "Pending", "resendOf": "c",
                "requestedBy": "me", "nextAttemptAt": "t4", "waitsFor": "a place", "resends": [
                {"deliveryId": "f", "createdAt": "t6", "requestedBy": "you", "status": "Pending"},
                {"deliveryId": "e", "createdAt": "t5", "requestedBy": "you", "status": "Failed"}]}],
            "more": true
        });
        assert_eq!(
            traced(&trace, Style::default()),
            "Web order W-1 (Court of customer C-1)  Draft\n  t1  saved\n  t2  changed\n  Older deliveries are left out.\n  \
             t3  order.created (invalid id) to a/b (customer C-1)\n    delivery d  Pending after 0 of 5 attempts\n    \
             resend of c by me\n    next attempt t4, waits for a place\n    resent t5 by you: Failed (e)\n    \
             resent t6 by you: Pending (f)\n"
        );
    }
}
