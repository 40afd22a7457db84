//! `kubectl docket deliveries`: the delivery log of a webhook or a tenant, without payloads.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::args::{DeliveriesArguments, Kind, Object, Output};
use crate::cluster::Cluster;
use crate::dataplane::DataPlane;
use crate::problem::Problem;
use crate::show::{self, clean, table};

/// The number of deliveries in one response of the data plane.
const PAGE: usize = 100;
/// The largest number of responses in a row without a delivery. A search for a rare value may return before it finds one.
const MAX_EMPTY: usize = 1_000;

pub(crate) async fn print(cluster: &Cluster, asked: &DeliveriesArguments) -> Result<(), Problem> {
    let output = asked.printed.output;
    let (found, more) = found(cluster, asked).await?;
    match output {
        Output::Json => show::json(&json!({ "deliveries": found, "more": more })),
        Output::Table | Output::Wide if found.is_empty() => println!("No delivery matches."),
        Output::Table | Output::Wide => print!("{}", text(&found, output == Output::Wide)),
    }
    if more && output != Output::Json {
        eprintln!("There are more, which are older; --limit shows up to 1000, and the filters find others.");
    }
    Ok(())
}

/// The deliveries, and whether more deliveries match.
async fn found(cluster: &Cluster, asked: &DeliveriesArguments) -> Result<(Vec<Value>, bool), Problem> {
    let object = match (&asked.webhook, &asked.tenant) {
        (Some(name), _) => Object { kind: Kind::Webhook, name: name.clone() },
        (None, Some(name)) => Object { kind: Kind::Tenant, name: name.clone() },
        (None, None) => return Err(Problem::Found("name a Webhook, or a Tenant with -t".into())),
    };
    let dataplane = DataPlane::connect(cluster, &asked.reach).await?;
    let from = asked.since.map(since).transpose()?;
    let status = if asked.dead { Some("DeadLetter".to_owned()) } else { asked.status.clone() };
    let which = asked.dead_letter.as_deref();
    let dead_letter = which.map(|word| if word == "set-aside" { "setAside" } else { word }.to_owned());
    let (mut found, mut cursor, mut empty) = (Vec::new(), None, 0);
    loop {
        let query = [
            ("status", status.clone()),
            ("deadLetter", dead_letter.clone()),
            ("event", asked.event.clone()),
            ("failureClass", asked.class.clone()),
            ("httpStatus", asked.http_status.map(|status| status.to_string())),
            ("eventId", asked.event_id.clone()),
            ("from", from.clone()),
            ("webOrderId", asked.order.clone()),
            ("workOrder", asked.work_order.clone()),
            ("invoiceNumber", asked.invoice.clone()),
            ("pageSize", Some((asked.limit - found.len()).min(PAGE).to_string())),
            ("cursor", cursor),
        ];
        let mut page = dataplane.get(cluster, &object, "deliveries", &query).await?;
        let items = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        empty = if items.is_empty() { empty + 1 } else { 0 };
        found.extend(items);
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() || found.len() >= asked.limit {
            return Ok((found, cursor.is_some()));
        }
        if empty > MAX_EMPTY {
            let text = "the search takes too long; narrow it with --since or another filter";
            return Err(Problem::Found(text.to_owned()));
        }
    }
}

/// The time `ago` before now, in the format of the data plane.
#[expect(clippy::disallowed_methods, reason = "the user's own now")]
pub(crate) fn since(ago: Duration) -> Result<String, Problem> {
    let ago = SignedDuration::try_from(ago).map_err(|error| Problem::Found(error.to_string()))?;
    Ok(Timestamp::now().saturating_sub(ago).map_err(|error| Problem::Found(error.to_string()))?.to_string())
}

/// The text of a field for a cell.
pub(crate) fn cell(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::Null => "–".to_owned(),
        Value::String(text) => clean(text),
        other => other.to_string(),
    }
}

/// The first of these fields that has a value.
pub(crate) fn first(value: &Value, names: &[&str]) -> String {
    let given = names.iter().find(|name| !value[**name].is_null());
    given.map_or_else(|| "–".to_owned(), |name| cell(value, name))
}

/// The last failure class, cause and HTTP status.
pub(crate) fn last(value: &Value) -> String {
    let given = ["failureClass", "failureCause", "httpStatus"].iter().filter(|name| !value[**name].is_null());
    given.map(|name| cell(value, name)).collect::<Vec<_>>().join(" ")
}

/// The status; of a dead letter that does not count, also why.
pub(crate) fn status(value: &Value) -> String {
    let status = cell(value, "status");
    match (value["setAsideBy"].is_null(), value["resent"] == json!(true)) {
        (false, _) => status + " (set aside)",
        (true, true) => status + " (resent)",
        (true, false) => status,
    }
}

fn text(found: &[Value], wide: bool) -> String {
    let narrow = ["DELIVERY", "CREATED", "EVENT", "ABOUT", "STATUS", "ATTEMPTS", "LAST"];
    let more = ["WEBHOOK", "CUSTOMER", "NEXT ATTEMPT", "WAITS FOR", "RESEND OF", "BY"];
    let more = if wide { &more[..] } else { &[] };
    let head = narrow.iter().chain(more).map(|word| (*word).to_owned()).collect();
    let row = |delivery: &Value| {
        let mut row = vec![
            cell(delivery, "deliveryId"),
            cell(delivery, "createdAt"),
            cell(delivery, "event"),
            first(delivery, &["invoiceNumber", "workOrder", "webOrderId"]),
            status(delivery),
            cell(delivery, "attemptCount"),
            last(delivery),
        ];
        if wide {
            let more = ["webhook", "customerCode", "nextAttemptAt", "waitsFor", "resendOf", "requestedBy"];
            row.extend(more.map(|name| cell(delivery, name)));
        }
        row
    };
    table("", &[head].into_iter().chain(found.iter().map(row)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_has_more_columns() {
        let delivery = json!({"deliveryId": "7f", "createdAt": "t", "event": "order.created", "webOrderId": "W-1",
            "workOrder": null, "status": "DeadLetter", "attemptCount": 5, "failureClass": "ServerError",
            "httpStatus": 503, "webhook": "a/b", "customerCode": "C\u{1b}1"});
        assert_eq!(
            text(std::slice::from_ref(&delivery), false),
            "DELIVERY  CREATED  EVENT          ABOUT  STATUS      ATTEMPTS  LAST\n\
             7f        t        order.created  W-1    DeadLetter  5         ServerError 503\n"
        );
        let with = |name: &str, value: Value| {
            let mut delivery = delivery.clone();
            delivery[name] = value;
            text(&[delivery], false)
        };
        assert!(with("resent", json!(true)).contains("  DeadLetter (resent)  5 "));
        assert!(with("setAsideBy", json!("employee 1")).contains("  DeadLetter (set aside)  5 "));
        assert!(
            text(&[delivery], true)
                .ends_with("ServerError 503  a/b      C 1       –             –          –          –\n")
        );
    }
}
