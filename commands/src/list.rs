//! `deliveries list`: the delivery log of a webhook or a tenant, without payloads.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use docket_domain::delivery::MAX_ATTEMPTS;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::answers::{Answers, Found};
use crate::arguments::{FilterArguments, ListArguments, Output};
use crate::fields::{cell, first, last, status};
use crate::terminal::Style;
use crate::text::{self, Table, table};

/// The number of deliveries on a page.
const PAGE: usize = 100;
/// The largest number of pages in a row without a delivery. A search for a rare value may return before it finds one.
const MAX_EMPTY: usize = 1_000;
/// The pause before the list is read again.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints the deliveries.
pub async fn run<A: Answers>(answers: &mut A, asked: &ListArguments, style: Style) -> Result<(), A::Error> {
    if asked.follow {
        return follow(answers, asked, style).await;
    }
    let output = asked.printed.output;
    let (found, more) = found(answers, &asked.filter, asked.limit).await?;
    match output {
        Output::Json => text::json(&json!({ "deliveries": found, "more": more })),
        Output::Table | Output::Wide if found.is_empty() => println!("No delivery matches."),
        Output::Table | Output::Wide => print!("{}", listed(&found, output == Output::Wide, style)),
    }
    if more && output != Output::Json {
        eprintln!("There are more, which are older; --limit shows up to 1000, and the filters find others.");
    }
    Ok(())
}

/// The deliveries, and whether more deliveries match.
async fn found<A: Answers>(
    answers: &mut A,
    filter: &FilterArguments,
    limit: usize,
) -> Result<(Vec<Value>, bool), A::Error> {
    let (mut found, mut cursor, mut empty) = (Vec::new(), None, 0);
    loop {
        let size = (limit - found.len()).min(PAGE);
        let page = answers.deliveries(filter, size, cursor.take()).await?;
        empty = if page.items.is_empty() { empty + 1 } else { 0 };
        found.extend(page.items);
        cursor = page.next;
        if cursor.is_none() || found.len() >= limit {
            return Ok((found, cursor.is_some()));
        }
        if empty > MAX_EMPTY {
            let text = "the search takes too long; narrow it with --since or another filter";
            return Err(Found(text.to_owned()).into());
        }
    }
}

/// Prints what is new or has changed, until no one reads it.
async fn follow<A: Answers>(answers: &mut A, asked: &ListArguments, style: Style) -> Result<(), A::Error> {
    let wide = asked.printed.output == Output::Wide;
    let mut lines = Table::default();
    let mut seen = HashMap::new();
    let mut text = match asked.printed.output {
        Output::Json => String::new(),
        Output::Table | Output::Wide => lines.lines("", &[head(wide)]),
    };
    loop {
        let (found, _) = found(answers, &asked.filter, asked.limit).await?;
        let news = news(&seen, &found);
        let next: String = match asked.printed.output {
            Output::Json => news.iter().map(|delivery| text::json_line(delivery)).collect(),
            Output::Table | Output::Wide => {
                let rows: Vec<_> = news.iter().map(|delivery| row(delivery, wide, style)).collect();
                lines.lines("", &rows)
            }
        };
        text += &next;
        let mut out = io::stdout();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        text.clear();
        seen = found.iter().map(|delivery| (cell(delivery, "deliveryId"), state(delivery))).collect();
        sleep(PAUSE).await;
    }
}

/// The state of a delivery. If it changes, the delivery gets another line.
fn state(delivery: &Value) -> (String, String) {
    (status(delivery), cell(delivery, "attemptCount"))
}

/// The deliveries that were not seen in their state, oldest first.
fn news<'a>(seen: &HashMap<String, (String, String)>, found: &'a [Value]) -> Vec<&'a Value> {
    let is_new = |delivery: &&Value| seen.get(&cell(delivery, "deliveryId")) != Some(&state(delivery));
    found.iter().rev().filter(is_new).collect()
}

fn listed(found: &[Value], wide: bool, style: Style) -> String {
    let rows = found.iter().map(|delivery| row(delivery, wide, style));
    table("", &std::iter::once(head(wide)).chain(rows).collect::<Vec<_>>())
}

fn head(wide: bool) -> Vec<String> {
    let narrow = ["CREATED", "EVENT", "ABOUT", "WEBHOOK", "STATUS", "ATTEMPTS", "LAST", "DELIVERY"];
    let more = ["CUSTOMER", "NEXT ATTEMPT", "RESEND OF", "BY"];
    let more = if wide { &more[..] } else { &[] };
    narrow.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn row(delivery: &Value, wide: bool, style: Style) -> Vec<String> {
    let waits = match &delivery["waitsFor"] {
        Value::Null => String::new(),
        _ => format!("waits for {}", cell(delivery, "waitsFor")),
    };
    let time = |name: &str| match &delivery[name] {
        Value::Null => "–".to_owned(),
        _ => style.time(&cell(delivery, name)),
    };
    let last = [last(delivery), waits].into_iter().filter(|text| !text.is_empty());
    let mut row = vec![
        time("createdAt"),
        cell(delivery, "event"),
        first(delivery, &["invoiceNumber", "workOrder", "webOrderId"]),
        cell(delivery, "webhook"),
        style.status(&status(delivery)),
        format!("{}/{MAX_ATTEMPTS}", cell(delivery, "attemptCount")),
        last.collect::<Vec<_>>().join(", "),
        cell(delivery, "deliveryId"),
    ];
    if wide {
        row.extend([
            cell(delivery, "customerCode"),
            time("nextAttemptAt"),
            cell(delivery, "resendOf"),
            cell(delivery, "requestedBy"),
        ]);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, parsed};

    fn delivery() -> Value {
        json!({"deliveryId": "7f", "createdAt": "t", "event": "order.created", "webOrderId": "W-1",
            "workOrder": null, "status": "DeadLetter", "attemptCount": 5, "failureClass": "ServerError",
            "httpStatus": 503, "webhook": "a/b", "customerCode": "C\u{1b}1"})
    }

    #[test]
    fn wide_table_has_more_columns() {
        let plain = Style::default();
        assert_eq!(
            listed(&[delivery()], false, plain),
            "CREATED  EVENT          ABOUT  WEBHOOK  STATUS      ATTEMPTS  LAST             DELIVERY\n\
             t        order.created  W-1    a/b      DeadLetter  5/5       ServerError 503  7f\n"
        );
        let with = |name: &str, value: Value| {
            let mut delivery = delivery();
            delivery[name] = value;
            listed(&[delivery], false, plain)
        };
        assert!(with("resent", json!(true)).contains("  DeadLetter (resent)  5/5 "));
        assert!(with("setAsideBy", json!("employee 1")).contains("  DeadLetter (set aside)  5/5 "));
        assert!(with("waitsFor", json!("a place")).contains("  ServerError 503, waits for a place  7f\n"));
        assert!(
            listed(&[delivery()], true, plain)
                .ends_with("  7f        C 1       –             –          –\n")
        );
    }

    #[test]
    fn delivery_is_followed_while_its_state_changes() {
        let (one, mut other) = (delivery(), delivery());
        other["deliveryId"] = json!("80");
        let found = [other.clone(), one.clone()];
        assert_eq!(news(&HashMap::new(), &found), [&one, &other], "oldest first");
        let seen = found.iter().map(|delivery| (cell(delivery, "deliveryId"), state(delivery))).collect();
        assert_eq!(news(&seen, &found), [&Value::Null; 0]);
        other["attemptCount"] = json!(6);
        assert_eq!(news(&seen, &[other.clone(), one]), [&other]);
    }

    #[tokio::test]
    async fn pages_are_read_up_to_the_limit_and_an_empty_one_does_not_end_the_search() {
        let page = |count: usize, next: Option<u64>| json!({"items": vec![delivery(); count], "next": next});
        let filter: FilterArguments = parsed("");
        let mut script = Script::of([page(100, Some(1)), page(0, Some(2)), page(50, Some(3))]);
        let (all, more) = found(&mut script, &filter, 150).await.expect("answers");
        assert_eq!((all.len(), more), (150, true));
        assert_eq!(script.asked, ["100 from None", "50 from Some(1)", "50 from Some(2)"]);
        let mut last = Script::of([page(25, None)]);
        let (all, more) = found(&mut last, &filter, 25).await.expect("an answer");
        assert_eq!((all.len(), more, last.asked.len()), (25, false, 1));
        let mut endless = Script::of((1..=2_000).map(|next| page(0, Some(next))));
        let error = found(&mut endless, &filter, 25).await.expect_err("nothing is found");
        assert!(error.0.contains("takes too long"), "{error}");
        assert_eq!(endless.asked.len(), 1_001);
    }
}
