//! The command `kubectl docket trace`: shows the events and deliveries of an order, an invoice or a delivery.

use serde_json::Value;

use crate::args::{Kind, Object, Output, TraceArguments, Traced};
use crate::cluster::Cluster;
use crate::dataplane::DataPlane;
use crate::deliveries::{cell, last, status};
use crate::problem::Problem;
use crate::show;

pub(crate) async fn print(cluster: &Cluster, asked: &TraceArguments) -> Result<(), Problem> {
    let object = Object { kind: Kind::Tenant, name: asked.tenant.clone() };
    let parameter = match asked.what {
        Traced::Order => "number",
        Traced::Delivery => "deliveryId",
    };
    let dataplane = DataPlane::connect(cluster, &asked.reach).await?;
    let query = [(parameter, Some(asked.id.clone()))];
    let trace = dataplane.get(cluster, &object, "trace", &query).await?;
    match asked.printed.output {
        Output::Json => show::json(&trace),
        Output::Table | Output::Wide => print!("{}", text(&trace)),
    }
    Ok(())
}

fn text(trace: &Value) -> String {
    let mut text = String::new();
    let order = &trace["order"];
    if order.is_object() {
        let [id, kind, customer, status] =
            ["webOrderId", "orderType", "customerCode", "status"].map(|name| cell(order, name));
        text += &format!("Web order {id} ({kind} of customer {customer})  {status}\n");
        text += &format!("  {}  saved\n", cell(order, "createdAt"));
        if !order["exportedAt"].is_null() {
            let made = order["workOrders"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let made: Vec<String> = made.map(show::clean).collect();
            text += &format!("  {}  exported as {}\n", cell(order, "exportedAt"), made.join(", "));
        } else if order["updatedAt"] != order["createdAt"] {
            text += &format!("  {}  changed\n", cell(order, "updatedAt"));
        }
    }
    if trace["more"] == true {
        text += "  Older deliveries are left out.\n";
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let deliveries = list(&trace["deliveries"]);
    if deliveries.is_empty() {
        text += "  No delivery: when it was saved, no active webhook of the customer took its events.\n";
    }
    for delivery in &deliveries {
        let [created, event, event_id, webhook, id] =
            ["createdAt", "event", "eventId", "webhook", "deliveryId"].map(|name| cell(delivery, name));
        let status = status(delivery);
        text += &format!("  {created}  {event} {event_id} to {webhook}\n    delivery {id}  {status}\n");
        if !delivery["resendOf"].is_null() {
            let [of, by] = ["resendOf", "requestedBy"].map(|name| cell(delivery, name));
            text += &format!("    resends {of}, requested by {by}\n");
        }
        if !delivery["nextAttemptAt"].is_null() {
            text += &format!("    next attempt {}", cell(delivery, "nextAttemptAt"));
            if !delivery["waitsFor"].is_null() {
                text += &format!(", waits for {}", cell(delivery, "waitsFor"));
            }
            text += "\n";
        }
        for resend in list(&delivery["resends"]).iter().rev() {
            let [at, by, status, id] =
                ["createdAt", "requestedBy", "status", "deliveryId"].map(|name| cell(resend, name));
            text += &format!("    resent {at} by {by}: {status} ({id})\n");
        }
        if !delivery["setAsideBy"].is_null() {
            let [at, by] = ["setAsideAt", "setAsideBy"].map(|name| cell(delivery, name));
            text += &format!("    set aside {at} by {by}\n");
        }
        for attempt in list(&delivery["attempts"]) {
            let [number, started, outcome] =
                ["number", "startedAt", "outcome"].map(|name| cell(&attempt, name));
            let took = attempt["timesMicroseconds"]["total"].as_i64();
            let took = took.map_or_else(String::new, |micros| format!("  {} ms", micros / 1000));
            let line = format!("    attempt {number}  {started}  {outcome} {}", last(&attempt));
            text += &format!("{}{took}\n", line.trim_end());
        }
        if !delivery["remedy"].is_null() {
            text += &format!("    what to do: {}\n", cell(delivery, "remedy"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_order_is_followed_to_its_attempts() {
        let trace = json!({
            "order": {"webOrderId": "W-1", "orderType": "Court", "customerCode": "C-1", "status": "Exported",
                "createdAt": "t1", "updatedAt": "t2", "exportedAt": "t2", "workOrders": ["10", "11"]},
            "deliveries": [{"createdAt": "t1", "event": "order.created", "eventId": "evt_1", "webhook": "a/b",
                "deliveryId": "d", "status": "Failed", "remedy": "Start it", "setAsideBy": "me", "setAsideAt": "t5", "resends": [
                {"deliveryId": "e", "createdAt": "t4", "requestedBy": "you", "status": "Succeeded"}], "attempts": [
                {"number": 1, "startedAt": "t3", "outcome": "Failed", "failureClass": "ServerError", "httpStatus": 503,
                    "timesMicroseconds": {"total": 12345}}]}],
            "more": false
        });
        assert_eq!(
            text(&trace),
            "Web order W-1 (Court of customer C-1)  Exported\n  t1  saved\n  t2  exported as 10, 11\n  \
             t1  order.created evt_1 to a/b\n    delivery d  Failed (set aside)\n    \
             resent t4 by you: Succeeded (e)\n    set aside t5 by me\n    \
             attempt 1  t3  Failed ServerError 503  12 ms\n    what to do: Start it\n"
        );
        assert!(text(&json!({"order": null, "deliveries": []})).contains("No delivery"));
    }
}
