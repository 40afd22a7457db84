//! `kubectl docket resend`: the dead letters of a webhook, once more.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::args::{Kind, Object, Output, ReachArguments, ResendArguments};
use crate::cluster::Cluster;
use crate::dataplane::DataPlane;
use crate::deliveries::{cell, since};
use crate::problem::Problem;
use crate::show;

/// The pause between two looks at the progress.
const PAUSE: Duration = Duration::from_millis(500);
/// How many dead letters the data plane counts; one more stands for all above.
const MOST_COUNTED: i64 = 10_000;
/// How long the data plane may fail to answer before the command gives up.
const WITHOUT_ANSWER: Duration = Duration::from_secs(60);
/// How long to wait for attempts after the last is due.
const AFTER_THE_LAST: Duration = Duration::from_secs(60);

pub(crate) async fn run(cluster: &Cluster, asked: &ResendArguments, output: Output) -> Result<(), Problem> {
    let object = Object { kind: Kind::Webhook, name: asked.webhook.clone() };
    let mut dataplane = DataPlane::connect(cluster, &asked.reach).await?;
    if let Some(id) = &asked.stop {
        let stopped = dataplane.post(cluster, &object, "stop", &json!({"resendId": id})).await?;
        match output {
            Output::Json => show::json(&stopped),
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
            Output::Json => show::json(&preview),
            Output::Table | Output::Wide => print!("{}", previewed(&asked.webhook, asked.rate, &preview)),
        }
        return Ok(());
    }
    eprint!("{}", extent(&asked.webhook, asked.rate, &preview));
    if asked.probe {
        let mut one = request.clone();
        one["limit"] = 1.into();
        let probe = dataplane.post(cluster, &object, "resend", &one).await?;
        let progress = followed(cluster, &object, &mut dataplane, &asked.reach, &probe).await?;
        if progress["succeeded"] != 1 {
            return Err(Problem::Found(format!(
                "resend {}: the first was not taken, so nothing else was resent; `kubectl docket deliveries {}` says why",
                cell(&probe, "resendId"),
                asked.webhook
            )));
        }
        let limit = asked.limit.map_or(count, i64::from).min(count) - 1;
        if limit == 0 {
            if output == Output::Json {
                show::json(&progress);
            }
            return Ok(());
        }
        request["limit"] = limit.into();
    }
    let resend = dataplane.post(cluster, &object, "resend", &request).await?;
    let id = cell(&resend, "resendId");
    let progress = followed(cluster, &object, &mut dataplane, &asked.reach, &resend).await?;
    if output == Output::Json {
        show::json(&progress);
    }
    outcome(&id, &asked.webhook, &progress)
}

/// Whether all were delivered.
fn outcome(id: &str, webhook: &str, progress: &Value) -> Result<(), Problem> {
    let number = |name: &str| progress[name].as_i64().unwrap_or(0);
    let (count, delivered, pending) = (number("count"), number("succeeded"), number("pending"));
    if delivered == count {
        return Ok(());
    }
    let why = if !progress["stoppedBy"].is_null() {
        format!("{} stopped it, and what was not attempted yet was withdrawn", cell(progress, "stoppedBy"))
    } else if pending > 0 {
        format!("the data plane continues with {pending}, which `kubectl docket deliveries {webhook}` shows")
    } else {
        format!("`kubectl docket deliveries {webhook}` says why the others were not")
    };
    Err(Problem::Found(format!("resend {id}: {delivered} of {count} were delivered; {why}")))
}

/// Shows the progress until each delivery was attempted, or the time for it ends. A pod that is replaced and a token that expires
/// meanwhile are not the end of it: another pod is asked, with another token.
async fn followed(
    cluster: &Cluster,
    object: &Object,
    dataplane: &mut DataPlane,
    reach: &ReachArguments,
    resend: &Value,
) -> Result<Value, Problem> {
    let seconds = Duration::from_secs(resend["seconds"].as_u64().unwrap_or(0));
    let (begun, query) = (Instant::now(), [("resendId", resend["resendId"].as_str().map(str::to_owned))]);
    let (mut shown, mut answered) = (String::new(), begun);
    loop {
        let progress = match dataplane.get(cluster, object, "resend", &query).await {
            Ok(progress) => progress,
            Err(problem) if answered.elapsed() > WITHOUT_ANSWER => {
                let id = cell(resend, "resendId");
                return Err(
                    problem.about(&format!("resend {id} continues, and this command no longer sees it"))
                );
            }
            Err(_) => {
                sleep(PAUSE).await;
                if let Ok(another) = DataPlane::connect(cluster, reach).await {
                    *dataplane = another;
                }
                continue;
            }
        };
        answered = Instant::now();
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
    fn a_resend_has_succeeded_when_all_were_delivered() {
        let of = |succeeded: i64, pending: i64, stopped_by: Value| {
            let progress =
                json!({"count": 3, "succeeded": succeeded, "pending": pending, "stoppedBy": stopped_by});
            outcome("r", "orders", &progress).map_err(|problem| problem.text().to_owned())
        };
        assert_eq!(of(3, 0, Value::Null), Ok(()));
        let stopped = of(1, 0, json!("employee E-1")).expect_err("two were withdrawn");
        assert_eq!(
            stopped,
            "resend r: 1 of 3 were delivered; employee E-1 stopped it, and what was not attempted yet was withdrawn"
        );
        assert!(of(1, 2, Value::Null).is_err_and(|text| text.contains("continues with 2")));
        assert!(of(2, 0, Value::Null).is_err_and(|text| text.contains("says why")));
    }

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
