//! `test`: one delivery with sample data to one webhook, and the result of its first attempt.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::answers::{Answers, Found};
use crate::arguments::{Output, TestArguments, Traced};
use crate::fields::{cell, last};
use crate::terminal::duration;
use crate::text;

/// The pause before the delivery is read again.
const PAUSE: Duration = Duration::from_millis(250);
/// How long to wait for the first attempt, which itself takes at most 30 s.
const LONGEST: Duration = Duration::from_secs(60);

/// Sends the event, and prints the result of the first attempt.
pub async fn run<A: Answers>(answers: &mut A, asked: &TestArguments) -> Result<(), A::Error> {
    let sent = answers.test(asked.event).await?;
    let id = cell(&sent, "deliveryId");
    let delivery = followed(answers, &id).await;
    let result = match &delivery {
        Ok(delivery) => outcome(delivery).map_err(Into::into),
        Err(error) => {
            Err(Found(format!("delivery {id} is queued, but what came of it is unknown: {error}")).into())
        }
    };
    let delivery = delivery.unwrap_or_default();
    match asked.printed.output {
        Output::Json => text::json(&view(&sent, delivery)),
        Output::Table | Output::Wide if is_attempted(&delivery) => println!("{}", line(&delivery)),
        Output::Table | Output::Wide => {}
    }
    result
}

/// The result as JSON, which always has the same fields.
fn view(sent: &Value, delivery: Value) -> Value {
    json!({"deliveryId": sent["deliveryId"], "delivery": delivery})
}

/// The delivery after its first attempt; or as it is at the time limit.
async fn followed<A: Answers>(answers: &mut A, id: &str) -> Result<Value, A::Error> {
    let begun = Instant::now();
    loop {
        let mut trace = answers.trace(Traced::Delivery, id).await?;
        let delivery = trace["deliveries"][0].take();
        if is_attempted(&delivery) || begun.elapsed() > LONGEST {
            return Ok(delivery);
        }
        sleep(PAUSE).await;
    }
}

/// Whether the first attempt has ended.
fn is_attempted(delivery: &Value) -> bool {
    !delivery["attempts"][0]["finishedAt"].is_null()
}

/// Whether the first attempt succeeded.
fn outcome(delivery: &Value) -> Result<(), Found> {
    let first = &delivery["attempts"][0];
    if !is_attempted(delivery) {
        return Err(Found(format!(
            "delivery {} was not attempted within {} s; check whether a worker runs",
            cell(delivery, "deliveryId"),
            LONGEST.as_secs()
        )));
    }
    match first["failureClass"].is_null() {
        true => Ok(()),
        false => Err(Found(format!("the first attempt failed: {}", cell(first, "remedy")))),
    }
}

fn line(delivery: &Value) -> String {
    let attempt = &delivery["attempts"][0];
    let took = duration(attempt["timesMicroseconds"]["total"].as_i64().unwrap_or(0));
    let [event, webhook, id] = ["event", "webhook", "deliveryId"].map(|name| cell(delivery, name));
    format!("Test event {event} to {webhook}: {} in {took} (delivery {id})", last(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, parsed};

    #[test]
    fn test_succeeds_only_with_its_first_attempt() {
        let of = |attempt: Value| {
            let delivery = json!({"deliveryId": "d", "status": "Failed", "attempts": [attempt]});
            outcome(&delivery).map_err(|found| found.0)
        };
        let class = |class: Value| json!({"finishedAt": "t", "failureClass": class, "remedy": "start it"});
        assert_eq!(of(class(Value::Null)), Ok(()));
        assert_eq!(of(class(json!("Dns"))), Err("the first attempt failed: start it".to_owned()));
        assert!(of(json!({"finishedAt": null})).is_err_and(|text| text.contains("was not attempted")));
    }

    #[test]
    fn json_has_the_same_fields_when_the_end_is_unknown() {
        let sent = json!({"deliveryId": "d"});
        assert_eq!(view(&sent, Value::Null), json!({"deliveryId": "d", "delivery": null}));
    }

    #[test]
    fn what_came_of_the_attempt_is_on_one_line() {
        let delivery = json!({"event": "order.created", "webhook": "a/b", "deliveryId": "d", "attempts": [
            {"failureClass": "ServerError", "httpStatus": 503, "timesMicroseconds": {"total": 12_345}}]});
        assert_eq!(line(&delivery), "Test event order.created to a/b: ServerError 503 in 12 ms (delivery d)");
    }

    #[tokio::test]
    async fn command_fails_if_the_attempt_did_or_if_what_came_of_it_is_unknown() {
        let delivery = |class: Value| json!({"deliveries": [{"attempts": [{"finishedAt": "t", "failureClass": class, "remedy": "start it"}]}]});
        let done = async |answers: Vec<Value>| {
            let mut script = Script::of(answers);
            let result = run(&mut script, &parsed("--event order.created")).await;
            (result.map_err(|found| found.0), script.asked.join(", "))
        };
        let (sent, asked) = (json!({"deliveryId": "d"}), "test Some(\"order.created\"), trace Delivery d");
        assert_eq!(done(vec![sent.clone(), delivery(Value::Null)]).await, (Ok(()), asked.to_owned()));
        let (failed, _) = done(vec![sent.clone(), delivery(json!("Dns"))]).await;
        assert_eq!(failed, Err("the first attempt failed: start it".to_owned()));
        let (unknown, _) = done(vec![sent]).await;
        assert!(
            unknown
                .is_err_and(|text| text.starts_with("delivery d is queued, but what came of it is unknown"))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn first_attempt_is_waited_for_up_to_a_minute() {
        let sent = json!({"deliveryId": "d"});
        let delivery = |finished: Value| {
            let attempt = json!({"finishedAt": finished, "failureClass": null});
            json!({"deliveries": [{"deliveryId": "d", "attempts": [attempt]}]})
        };
        let waits = || delivery(Value::Null);
        let mut late = Script::of([sent.clone(), waits(), waits(), delivery(json!("t"))]);
        assert_eq!((run(&mut late, &parsed("")).await, late.asked.len()), (Ok(()), 4));
        let mut never = Script::of([sent].into_iter().chain(std::iter::repeat_n(waits(), 1_000)));
        let begun = Instant::now();
        let result = run(&mut never, &parsed("")).await;
        assert!(result.is_err_and(|found| found.0.contains("was not attempted within 60 s")));
        assert!((60..62).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    }
}
