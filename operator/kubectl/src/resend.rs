//! `kubectl docket resend`: the dead letters of a webhook, once more.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::args::{Kind, Object, Output, ResendArguments};
use crate::cluster::{Cluster, Problem};
use crate::dataplane::DataPlane;
use crate::deliveries::{cell, since};
use crate::show;

/// The pause between two looks at the progress.
const PAUSE: Duration = Duration::from_millis(500);
/// How many dead letters the data plane counts; one more stands for all above.
const MOST_COUNTED: i64 = 10_000;
/// How long to wait for attempts after the last is due.
const AFTER_THE_LAST: Duration = Duration::from_secs(60);

pub(crate) async fn run(cluster: &Cluster, asked: &ResendArguments, output: Output) -> Result<(), Problem> {
    let object = Object { kind: Kind::Webhook, name: asked.webhook.clone() };
    let dataplane = DataPlane::connect(cluster, &asked.reach).await?;
    if let Some(id) = &asked.stop {
        let stopped = dataplane.post(cluster, &object, "stop", &json!({"resendId": id})).await?;
        match output {
            Output::Json => show::json(&stopped)?,
            Output::Table | Output::Wide => print!("{}", self::stopped(&stopped)),
        }
        return Ok(());
    }
    let mut request = json!({"perSecond": asked.rate});
    if let Some(ago) = asked.since {
        request["from"] = since(ago)?.into();
    }
    if let Some(limit) = asked.limit {
        request["limit"] = limit.into();
    }
    let preview = dataplane.post(cluster, &object, "preview", &request).await?;
    let count = preview["count"].as_i64().unwrap_or(0);
    if !asked.yes || count == 0 {
        match output {
            Output::Json => show::json(&preview)?,
            Output::Table | Output::Wide => print!("{}", previewed(&asked.webhook, asked.rate, &preview)),
        }
        return Ok(());
    }
    eprint!("{}", extent(&asked.webhook, asked.rate, &preview));
    if asked.probe {
        let mut one = request.clone();
        one["limit"] = 1.into();
        let probe = dataplane.post(cluster, &object, "resend", &one).await?;
        let progress = followed(cluster, &object, &dataplane, &probe).await?;
        if progress["succeeded"] != 1 {
            return Err(Problem::Found(format!(
                "resend {}: the first was not taken, so nothing else was resent; `kubectl docket deliveries {}` says why",
                cell(&probe, "resendId"),
                asked.webhook
            )));
        }
        let limit = asked.limit.map_or(count, i64::from).min(count) - 1;
        if limit == 0 {
            return if output == Output::Json { show::json(&progress) } else { Ok(()) };
        }
        request["limit"] = limit.into();
    }
    let resend = dataplane.post(cluster, &object, "resend", &request).await?;
    let id = cell(&resend, "resendId");
    let progress = followed(cluster, &object, &dataplane, &resend).await?;
    if output == Output::Json {
        show::json(&progress)?;
    }
    let number = |name: &str| progress[name].as_i64().unwrap_or(0);
    let (pending, again) = (number("pending"), number("failed") + number("deadLetter"));
    match (pending, again) {
        (0, 0) => Ok(()),
        (0, again) => Err(Problem::Found(format!(
            "resend {id}: {again} were not taken again; `kubectl docket deliveries {}` says why",
            asked.webhook
        ))),
        (pending, _) => Err(Problem::Found(format!(
            "resend {id}: {pending} were not attempted yet; the data plane continues with them, and `kubectl docket \
             deliveries {}` shows them",
            asked.webhook
        ))),
    }
}

/// Shows the progress until each delivery was attempted, or the time for it ends.
async fn followed(
    cluster: &Cluster,
    object: &Object,
    dataplane: &DataPlane,
    resend: &Value,
) -> Result<Value, Problem> {
    let seconds = Duration::from_secs(resend["seconds"].as_u64().unwrap_or(0));
    let (begun, query) = (Instant::now(), [("resendId", resend["resendId"].as_str().map(str::to_owned))]);
    let mut shown = String::new();
    loop {
        let progress = dataplane.get(cluster, object, "resend", &query).await?;
        let line = line(&progress);
        if line != shown {
            eprintln!("{line}");
            shown = line;
        }
        if progress["pending"] == 0 || begun.elapsed() > seconds + AFTER_THE_LAST {
            return Ok(progress);
        }
        sleep(PAUSE).await;
    }
}

fn stopped(answer: &Value) -> String {
    let [id, taken_back, gone] = ["resendId", "takenBack", "gone"].map(|name| cell(answer, name));
    format!(
        "Resend {id} is stopped: {taken_back} taken back, which can be resent again; {gone} attempted before.\n"
    )
}

fn line(progress: &Value) -> String {
    let [id, count, delivered, failed, dead, pending] =
        ["resendId", "count", "succeeded", "failed", "deadLetter", "pending"]
            .map(|name| cell(progress, name));
    format!(
        "Resend {id}: {delivered} of {count} delivered, {failed} failed and will be tried again, {dead} dead, {pending} waiting."
    )
}

fn extent(webhook: &str, rate: u16, preview: &Value) -> String {
    match preview["count"].as_i64() {
        Some(0) | None => format!("No dead letters of {webhook} to resend.\n"),
        Some(count) => {
            let [oldest, seconds] = ["oldest", "seconds"].map(|name| cell(preview, name));
            let letters = if count == 1 { "dead letter" } else { "dead letters" };
            format!(
                "{count} {letters} of {webhook}, the oldest of {oldest}; {rate} per second take {seconds} s.\n"
            )
        }
    }
}

fn previewed(webhook: &str, rate: u16, preview: &Value) -> String {
    let (count, total) = (preview["count"].as_i64().unwrap_or(0), preview["total"].as_i64().unwrap_or(0));
    let mut text = extent(webhook, rate, preview);
    if total > count {
        let more = if total > MOST_COUNTED { "more than " } else { "" };
        let total = total.min(MOST_COUNTED);
        text += &format!("There are {more}{total}; resend the others with another command.\n");
    }
    if count > 0 {
        text += "Nothing was resent; add --yes to resend them.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_says_how_many_and_how_old() {
        let preview =
            json!({"preview": true, "count": 3, "total": 5, "oldest": "t", "newest": "u", "seconds": 1});
        assert_eq!(
            previewed("orders", 10, &preview),
            "3 dead letters of orders, the oldest of t; 10 per second take 1 s.\nThere are 5; resend the others with \
             another command.\nNothing was resent; add --yes to resend them.\n"
        );
        let many = json!({"count": 10_000, "total": 10_001, "oldest": "t", "seconds": 1_000});
        assert!(previewed("orders", 10, &many).contains("There are more than 10000; "));
        assert_eq!(
            previewed("orders", 10, &json!({"count": 0, "total": 0})),
            "No dead letters of orders to resend.\n"
        );
    }
}
