//! `kubectl docket test`: one delivery with sample data to one webhook, and what came of its first attempt.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::args::{Kind, Object, Output, TestArguments};
use crate::cluster::Cluster;
use crate::dataplane::DataPlane;
use crate::deliveries::{cell, last};
use crate::problem::Problem;
use crate::show;

/// The pause between two looks at the delivery.
const PAUSE: Duration = Duration::from_millis(250);
/// How long to wait for the first attempt, which itself takes at most 30 s.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) async fn run(cluster: &Cluster, asked: &TestArguments, output: Output) -> Result<(), Problem> {
    let object = Object { kind: Kind::Webhook, name: asked.webhook.clone() };
    let dataplane = DataPlane::connect(cluster, &asked.reach).await?;
    let sent = dataplane.post(cluster, &object, "test", &json!({"event": asked.event})).await?;
    let query = [("deliveryId", sent["deliveryId"].as_str().map(str::to_owned))];
    let begun = Instant::now();
    let delivery = loop {
        let mut trace = dataplane.get(cluster, &object, "trace", &query).await?;
        let delivery = trace["deliveries"][0].take();
        if !delivery["attempts"][0]["finishedAt"].is_null() {
            break delivery;
        }
        if begun.elapsed() > LONGEST {
            let problem = format!(
                "delivery {} was not attempted within {} s; `kubectl docket check` says whether the workers run",
                cell(&sent, "deliveryId"),
                LONGEST.as_secs()
            );
            return Err(Problem::Found(problem));
        }
        sleep(PAUSE).await;
    };
    match output {
        Output::Json => show::json(&delivery),
        Output::Table | Output::Wide => println!("{}", text(&delivery)),
    }
    match delivery["attempts"][0]["failureClass"].is_null() {
        true => Ok(()),
        false => Err(Problem::Found(format!(
            "the first attempt failed: {}",
            cell(&delivery["attempts"][0], "remedy")
        ))),
    }
}

fn text(delivery: &Value) -> String {
    let attempt = &delivery["attempts"][0];
    let millis = attempt["timesMicroseconds"]["total"].as_i64().unwrap_or(0) / 1000;
    let [event, webhook, id] = ["event", "webhook", "deliveryId"].map(|name| cell(delivery, name));
    format!("Test event {event} to {webhook}: {} in {millis} ms (delivery {id})", last(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_the_attempt_is_on_one_line() {
        let delivery = json!({"event": "order.created", "webhook": "a/b", "deliveryId": "d", "attempts": [
            {"failureClass": "ServerError", "httpStatus": 503, "timesMicroseconds": {"total": 12_345}}]});
        assert_eq!(text(&delivery), "Test event order.created to a/b: ServerError 503 in 12 ms (delivery d)");
    }
}
