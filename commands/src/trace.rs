//! `trace`: the events and deliveries of an order, an invoice or a delivery.

use docket_domain::delivery::MAX_ATTEMPTS;
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
            let made: Vec<String> = made.map(text::clean).collect();
            text += &format!("  {}  exported as {}\n", time("exportedAt"), made.join(", "));
        } else if order["updatedAt"] != order["createdAt"] {
            text += &format!("  {}  changed\n", time("updatedAt"));
        }
    }
    if trace["more"] == true {
        text += "  Older deliveries are left out.\n";
    }
    let deliveries = list(&trace["deliveries"]);
    if deliveries.is_empty() {
        text += "  No delivery: when it was saved, no active webhook of the customer took its events.\n";
    }
    for delivery in deliveries {
        text += &shown(delivery, style);
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
        let parts = [
            format!("attempt {}", cell(attempt, "number")),
            time(attempt, "startedAt"),
            format!("{} {}", style.status(&cell(attempt, "outcome")), last(attempt)).trim_end().to_owned(),
            attempt["timesMicroseconds"]["total"].as_i64().map(duration).unwrap_or_default(),
            attempt["remoteAddress"].as_str().map(text::clean).unwrap_or_default(),
            phases(&attempt["timesMicroseconds"]),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        text += &format!("    {}\n", parts.join("  "));
    }
    if !delivery["remedy"].is_null() {
        text += &format!("    what to do: {}\n", cell(delivery, "remedy"));
    }
    text
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
}
