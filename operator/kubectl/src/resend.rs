//! The command `kubectl docket resend`: sends the dead letters of a webhook again.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::args::{ChoiceArguments, Kind, Object, Output, ReachArguments, ResendArguments};
use crate::cluster::Cluster;
use crate::dataplane::DataPlane;
use crate::deliveries::{cell, since};
use crate::problem::Problem;
use crate::show;

/// The pause before the progress is read again.
const PAUSE: Duration = Duration::from_millis(500);
/// The highest count of dead letters that the data plane reports exactly. One more means: more.
const MOST_COUNTED: i64 = 10_000;
/// How long calls to the data plane may fail before the command gives up.
const WITHOUT_ANSWER: Duration = Duration::from_secs(60);
/// How long the command waits for attempts after the last delivery is due.
const AFTER_THE_LAST: Duration = Duration::from_secs(60);

/// The fields of each part of [`Done`], by the data plane's names.
const PREVIEW: [&str; 5] = ["count", "total", "oldest", "newest", "seconds"];
const PROGRESS: [&str; 14] = [
    "resendId",
    "requestedBy",
    "createdAt",
    "from",
    "to",
    "perSecond",
    "count",
    "pending",
    "failed",
    "succeeded",
    "deadLetter",
    "takenBack",
    "stoppedBy",
    "stoppedAt",
];
const STOPPED: [&str; 3] = ["resendId", "takenBack", "gone"];

/// The command's progress so far; `None`: the command has not reached this step.
#[derive(Debug, Default, PartialEq, Eq)]
struct Done {
    /// The dead letters that it resends or would resend.
    preview: Option<Value>,
    /// The resend of the first dead letter alone.
    probe: Option<Value>,
    /// The resend of the other dead letters, or of all.
    resend: Option<Value>,
    stopped: Option<Value>,
}

impl Done {
    /// The result as JSON, which always has the same fields.
    fn json(&self, webhook: &str) -> Value {
        let part = |value: &Option<Value>, names: &[&str]| {
            let field = |value: &Value, name: &str| (name.to_owned(), value[name].clone());
            value.as_ref().map(|value| names.iter().map(|name| field(value, name)).collect::<Value>())
        };
        json!({
            "webhook": webhook,
            "preview": part(&self.preview, &PREVIEW),
            "probe": part(&self.probe, &PROGRESS),
            "resend": part(&self.resend, &PROGRESS),
            "stopped": part(&self.stopped, &STOPPED),
        })
    }
}

pub(crate) async fn run(cluster: &Cluster, asked: &ResendArguments) -> Result<(), Problem> {
    let mut done = Done::default();
    let result = perform(cluster, asked, &mut done).await;
    // Before the first response of the data plane, there is only the error.
    if asked.printed.output == Output::Json && done != Done::default() {
        show::json(&done.json(&asked.choice.webhook));
    }
    result
}

/// The fields that choose dead letters of a webhook, by the data plane's names.
pub(crate) fn chosen(choice: &ChoiceArguments) -> Result<Value, Problem> {
    let mut request = json!({});
    if let Some(event) = &choice.event {
        request["event"] = event.as_str().into();
    }
    if let Some(ago) = choice.since {
        request["from"] = since(ago)?.into();
    }
    if let Some(limit) = choice.limit {
        request["limit"] = limit.into();
    }
    Ok(request)
}

/// A text about the number of dead letters beyond the limit.
pub(crate) fn others(preview: &Value) -> String {
    let [count, total] = ["count", "total"].map(|name| preview[name].as_i64().unwrap_or(0));
    if total <= count {
        return String::new();
    }
    let more = if total > MOST_COUNTED { "more than " } else { "" };
    let total = total.min(MOST_COUNTED);
    format!("There are {more}{total}; name the others with another command.\n")
}

async fn perform(cluster: &Cluster, asked: &ResendArguments, done: &mut Done) -> Result<(), Problem> {
    let is_for_people = asked.printed.output != Output::Json;
    let object = Object { kind: Kind::Webhook, name: asked.choice.webhook.clone() };
    let mut dataplane = DataPlane::connect(cluster, &asked.reach).await?;
    if let Some(id) = &asked.stop {
        let answer = dataplane.post(cluster, &object, "stop", &json!({"resendId": id})).await?;
        if is_for_people {
            print!("{}", stopped(&answer));
        }
        done.stopped = Some(answer);
        return Ok(());
    }
    let mut request = chosen(&asked.choice)?;
    request["perSecond"] = asked.rate.into();
    let preview = &*done.preview.insert(dataplane.post(cluster, &object, "preview", &request).await?);
    let count = preview["count"].as_i64().unwrap_or(0);
    if !asked.choice.yes || count == 0 {
        if is_for_people {
            print!("{}", previewed(&asked.choice.webhook, asked.rate, preview));
        }
        return Ok(());
    }
    eprint!("{}", extent(&asked.choice.webhook, asked.rate, preview));
    if asked.probe {
        let mut one = request.clone();
        one["limit"] = 1.into();
        let probe = done.probe.insert(dataplane.post(cluster, &object, "resend", &one).await?);
        followed(cluster, &object, &mut dataplane, &asked.reach, probe).await?;
        if probe["succeeded"] != 1 {
            return Err(Problem::Found(format!(
                "resend {}: the first was not taken, so nothing else was resent; `kubectl docket deliveries {}` says why",
                cell(probe, "resendId"),
                asked.choice.webhook
            )));
        }
        let limit = asked.choice.limit.map_or(count, i64::from).min(count) - 1;
        if limit == 0 {
            return Ok(());
        }
        request["limit"] = limit.into();
    }
    let resend = done.resend.insert(dataplane.post(cluster, &object, "resend", &request).await?);
    followed(cluster, &object, &mut dataplane, &asked.reach, resend).await?;
    outcome(&asked.choice.webhook, resend)
}

/// Whether all deliveries succeeded.
fn outcome(webhook: &str, progress: &Value) -> Result<(), Problem> {
    let id = cell(progress, "resendId");
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

/// Shows the progress of `resend` and stores the last one in it, until each delivery was attempted, or until the time
/// limit. A pod may be replaced and a token may expire meanwhile: then the command calls another pod, with a new
/// token.
async fn followed(
    cluster: &Cluster,
    object: &Object,
    dataplane: &mut DataPlane,
    reach: &ReachArguments,
    resend: &mut Value,
) -> Result<(), Problem> {
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
        let has_ended = progress["pending"] == 0;
        *resend = progress;
        if has_ended || begun.elapsed() > seconds + AFTER_THE_LAST {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

fn stopped(answer: &Value) -> String {
    let [id, taken_back, gone] = ["resendId", "takenBack", "gone"].map(|name| cell(answer, name));
    format!(
        "Resend {id} is stopped: {taken_back} withdrawn, which can be resent again; {gone} attempted before.\n"
    )
}

fn line(progress: &Value) -> String {
    let [id, count, delivered, failed, dead, pending] =
        ["resendId", "count", "succeeded", "failed", "deadLetter", "pending"]
            .map(|name| cell(progress, name));
    let back = match progress["takenBack"].as_i64() {
        None | Some(0) => String::new(),
        Some(back) => format!(", {back} withdrawn"),
    };
    format!(
        "Resend {id}: {delivered} of {count} delivered, {failed} failed and will be tried again, {dead} dead, {pending} waiting{back}."
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
    let mut text = extent(webhook, rate, preview) + &others(preview);
    if preview["count"].as_i64() > Some(0) {
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
            let progress = json!({"resendId": "r", "count": 3, "succeeded": succeeded, "pending": pending, "stoppedBy": stopped_by});
            outcome("orders", &progress).map_err(|problem| problem.text().to_owned())
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
    fn json_has_the_same_fields_whatever_was_done() {
        let none = Done::default().json("orders");
        assert_eq!(
            none,
            json!({"webhook": "orders", "preview": null, "probe": null, "resend": null, "stopped": null})
        );
        let queued = json!({"resendId": "r", "count": 2, "oldest": "t"});
        let done = Done { probe: Some(queued.clone()), resend: Some(queued), ..Done::default() };
        let shown = done.json("orders");
        assert_eq!(shown["probe"], shown["resend"]);
        let fields = shown["resend"].as_object().map(|fields| fields.keys().len());
        assert_eq!(fields, Some(PROGRESS.len()), "{shown}");
        assert_eq!((&shown["resend"]["count"], &shown["resend"]["pending"]), (&json!(2), &Value::Null));
        let stopped = Done { stopped: Some(json!({"resendId": "r"})), ..Done::default() }.json("orders");
        assert_eq!(stopped["stopped"], json!({"resendId": "r", "takenBack": null, "gone": null}));
    }

    #[test]
    fn a_stopped_resend_adds_up() {
        let progress = |back: i64| {
            line(
                &json!({"resendId": "r", "count": 13, "succeeded": 6, "failed": 0, "deadLetter": 0, "pending": 0, "takenBack": back}),
            )
        };
        assert!(progress(7).ends_with(
            "6 of 13 delivered, 0 failed and will be tried again, 0 dead, 0 waiting, 7 withdrawn."
        ));
        assert!(progress(0).ends_with("0 waiting."));
    }

    #[test]
    fn a_preview_says_how_many_and_how_old() {
        let preview =
            json!({"preview": true, "count": 3, "total": 5, "oldest": "t", "newest": "u", "seconds": 1});
        assert_eq!(
            previewed("orders", 10, &preview),
            "3 dead letters of orders, the oldest of t; 10 per second take 1 s.\nThere are 5; name the others with \
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
