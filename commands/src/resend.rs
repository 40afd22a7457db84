//! `resend`: sends the dead letters of a webhook again.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::answers::{Answers, Found};
use crate::arguments::{DeadLetters, Output, ResendArguments};
use crate::fields::{cell, dead_letters, number};
use crate::terminal::Style;
use crate::text;

/// The pause before the progress is read again.
const PAUSE: Duration = Duration::from_millis(500);
/// The highest count of dead letters that is exact. One more means: more.
const MOST_COUNTED: i64 = 10_000;
/// How long the command waits for attempts after the last delivery is due.
const AFTER_THE_LAST: Duration = Duration::from_secs(60);
/// The characters of a progress bar.
const BAR: i64 = 30;

/// The fields of each part of [`Done`].
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

/// Resends the dead letters, stops a resend, or says what would be resent.
pub async fn run<A: Answers>(
    answers: &mut A,
    asked: &ResendArguments,
    now: Timestamp,
) -> Result<(), A::Error> {
    let mut done = Done::default();
    let result = perform(answers, asked, now, &mut done).await;
    // Before the first answer, there is only the error.
    if asked.printed.output == Output::Json && done != Done::default() {
        text::json(&done.json(&answers.webhook()));
    }
    result
}

async fn perform<A: Answers>(
    answers: &mut A,
    asked: &ResendArguments,
    now: Timestamp,
    done: &mut Done,
) -> Result<(), A::Error> {
    let is_for_people = asked.printed.output != Output::Json;
    let webhook = answers.webhook();
    if let Some(id) = &asked.stop {
        let answer = answers.stop(id).await?;
        if is_for_people {
            print!("{}", stopped(&answer));
        }
        done.stopped = Some(answer);
        return Ok(());
    }
    let mut letters = asked.choice.letters(now);
    let preview = &*done.preview.insert(answers.preview(&letters, asked.per_second).await?);
    let count = number(preview, "count");
    if !asked.choice.yes || count == 0 {
        if is_for_people {
            print!("{}", previewed(&webhook, asked.per_second, preview));
        }
        return Ok(());
    }
    if asked.no_wait {
        let resend = done.resend.insert(answers.resend(&letters, asked.per_second).await?);
        if is_for_people {
            let stop = answers.command(&format!("resend --stop {}", cell(resend, "resendId")));
            print!("{}", started(&webhook, asked.per_second, resend, &stop));
        }
        return Ok(());
    }
    eprint!("{}", extent(&webhook, asked.per_second, preview));
    if asked.probe {
        let has_sent = probe(answers, &webhook, asked.per_second, &letters, done).await?;
        let limit = asked.choice.limit.unwrap_or(count).min(count) - 1;
        if !has_sent || limit == 0 {
            return Ok(());
        }
        letters = letters.limited(limit);
    }
    let resend = done.resend.insert(answers.resend(&letters, asked.per_second).await?);
    if number(resend, "count") == 0 {
        eprint!("{}", extent(&webhook, asked.per_second, resend));
        return Ok(());
    }
    followed(answers, resend).await?;
    Ok(outcome(resend, &answers.command("deliveries list"))?)
}

/// Resends the first dead letter alone, and waits for its attempt. Returns whether there was one to resend.
async fn probe<A: Answers>(
    answers: &mut A,
    webhook: &str,
    per_second: i64,
    letters: &DeadLetters,
    done: &mut Done,
) -> Result<bool, A::Error> {
    let probe = done.probe.insert(answers.resend(&letters.limited(1), per_second).await?);
    if number(probe, "count") == 0 {
        eprint!("{}", extent(webhook, per_second, probe));
        return Ok(false);
    }
    followed(answers, probe).await?;
    if number(probe, "succeeded") != 1 {
        return Err(Found(format!(
            "resend {}: the first was not taken, so nothing else was resent; `{}` says why",
            cell(probe, "resendId"),
            answers.command("deliveries list")
        ))
        .into());
    }
    Ok(true)
}

/// Whether all deliveries succeeded. `list` is the command that lists them.
fn outcome(progress: &Value, list: &str) -> Result<(), Found> {
    let id = cell(progress, "resendId");
    let [count, delivered, pending] = ["count", "succeeded", "pending"].map(|name| number(progress, name));
    if delivered == count {
        return Ok(());
    }
    let why = if !progress["stoppedBy"].is_null() {
        format!("{} stopped it, and what was not attempted yet was withdrawn", cell(progress, "stoppedBy"))
    } else if pending > 0 {
        format!("Docket continues with {pending}, which `{list}` shows")
    } else {
        format!("`{list}` says why the others were not")
    };
    Err(Found(format!("resend {id}: {delivered} of {count} were delivered; {why}")))
}

/// Shows the progress of `resend` and stores the last one in it, until each delivery was attempted, or until the time limit.
async fn followed<A: Answers>(answers: &mut A, resend: &mut Value) -> Result<(), A::Error> {
    let seconds = Duration::from_secs(resend["seconds"].as_u64().unwrap_or(0));
    let (begun, id) = (Instant::now(), cell(resend, "resendId"));
    let mut shown = Shown { is_terminal: io::stderr().is_terminal(), last: String::new() };
    loop {
        let progress = answers.progress(&id).await?;
        shown.show(&progress);
        let has_ended = number(&progress, "pending") == 0;
        *resend = progress;
        if has_ended || begun.elapsed() > seconds + AFTER_THE_LAST {
            shown.end();
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// The progress on standard error: one line that changes on a terminal, and one more line for each change elsewhere.
struct Shown {
    is_terminal: bool,
    last: String,
}

impl Shown {
    fn show(&mut self, progress: &Value) {
        let line = line(progress);
        if line == self.last {
            return;
        }
        match self.is_terminal {
            // \u{1b}[K clears the rest of an earlier, longer line.
            true => eprint!("\r{} {line}\u{1b}[K", bar(progress)),
            false => eprintln!("{line}"),
        }
        // A progress that can't be shown is no reason to end.
        let _ = io::stderr().flush();
        self.last = line;
    }

    fn end(&self) {
        if self.is_terminal && !self.last.is_empty() {
            eprintln!();
        }
    }
}

/// How many deliveries of a resend have been attempted, or withdrawn, of all.
fn bar(progress: &Value) -> String {
    let [count, pending] = ["count", "pending"].map(|name| number(progress, name));
    let full = if count > 0 { BAR * (count - pending).clamp(0, count) / count } else { BAR };
    let [full, rest] = [full, BAR - full].map(|cells| usize::try_from(cells).unwrap_or(0));
    format!("[{}{}]", "#".repeat(full), "-".repeat(rest))
}

fn stopped(answer: &Value) -> String {
    let [id, withdrawn, gone] = ["resendId", "takenBack", "gone"].map(|name| cell(answer, name));
    format!("Resend {id} stopped; withdrawn: {withdrawn}, attempted before: {gone}.\n")
}

fn line(progress: &Value) -> String {
    let [id, count, delivered, failed, dead, pending] =
        ["resendId", "count", "succeeded", "failed", "deadLetter", "pending"]
            .map(|name| cell(progress, name));
    let back = match number(progress, "takenBack") {
        0 => String::new(),
        back => format!(", {back} withdrawn"),
    };
    format!(
        "Resend {id}: {delivered} of {count} delivered, {failed} failed and will be tried again, {dead} dead, {pending} waiting{back}."
    )
}

/// The times of a choice of dead letters: from the oldest to the newest.
pub(crate) fn created(preview: &Value) -> String {
    let [oldest, newest] = ["oldest", "newest"].map(|name| Style::default().moment(&cell(preview, name)));
    format!("from {oldest} to {newest}")
}

/// A text about the number of dead letters beyond the limit.
pub(crate) fn others(preview: &Value) -> String {
    let [count, total] = ["count", "total"].map(|name| number(preview, name));
    if total <= count {
        return String::new();
    }
    let more = if total > MOST_COUNTED { "more than " } else { "" };
    let total = total.min(MOST_COUNTED);
    format!("There are {more}{total}; name the others with another command.\n")
}

fn extent(webhook: &str, per_second: i64, preview: &Value) -> String {
    match number(preview, "count") {
        0 => format!("No dead letters of {webhook} to resend.\n"),
        count => format!(
            "{} of {webhook}, created {}; {per_second} per second take {} s.\n",
            dead_letters(count),
            created(preview),
            cell(preview, "seconds")
        ),
    }
}

fn previewed(webhook: &str, per_second: i64, preview: &Value) -> String {
    let mut text = extent(webhook, per_second, preview) + &others(preview);
    if number(preview, "count") > 0 {
        text += "Nothing was resent; add --yes to resend them.\n";
    }
    text
}

/// Without deliveries, there is nothing to stop: someone else has resent the dead letters since the preview.
fn started(webhook: &str, per_second: i64, resend: &Value, stop: &str) -> String {
    let (id, extent) = (cell(resend, "resendId"), extent(webhook, per_second, resend));
    match number(resend, "count") {
        0 => extent,
        _ => format!("Resend {id}: {extent}To stop it: {stop}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, parsed};

    #[test]
    fn resend_has_succeeded_when_all_were_delivered() {
        let of = |succeeded: i64, pending: i64, stopped_by: Value| {
            let progress = json!({"resendId": "r", "count": 3, "succeeded": succeeded, "pending": pending, "stoppedBy": stopped_by});
            outcome(&progress, "docket deliveries list orders").map_err(|found| found.0)
        };
        assert_eq!(of(3, 0, Value::Null), Ok(()));
        let stopped = of(1, 0, json!("employee E-1")).expect_err("two were withdrawn");
        assert_eq!(
            stopped,
            "resend r: 1 of 3 were delivered; employee E-1 stopped it, and what was not attempted yet was withdrawn"
        );
        assert!(of(1, 2, Value::Null).is_err_and(|text| text.contains("continues with 2, which `docket ")));
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
    fn stopped_resend_adds_up() {
        let progress = |back: i64| json!({"resendId": "r", "count": 13, "succeeded": 6, "failed": 0, "deadLetter": 0, "pending": 0, "takenBack": back});
        assert!(line(&progress(7)).ends_with(
            "6 of 13 delivered, 0 failed and will be tried again, 0 dead, 0 waiting, 7 withdrawn."
        ));
        assert!(line(&progress(0)).ends_with("0 waiting."));
    }

    #[test]
    fn bar_is_full_when_nothing_is_pending() {
        let of = |count: i64, pending: i64| bar(&json!({"count": count, "pending": pending}));
        assert_eq!(of(4, 4), format!("[{}]", "-".repeat(30)));
        assert_eq!(of(4, 2), format!("[{}{}]", "#".repeat(15), "-".repeat(15)));
        assert_eq!((of(4, 0), of(0, 0)), (format!("[{}]", "#".repeat(30)), format!("[{}]", "#".repeat(30))));
    }

    #[test]
    fn resend_of_nothing_names_no_command_to_stop_it() {
        let of = |count: i64| {
            let resend = json!({"resendId": "r", "count": count, "oldest": "t", "newest": "u", "seconds": 1});
            started("orders", 10, &resend, "docket resend --stop r")
        };
        assert_eq!(of(0), "No dead letters of orders to resend.\n");
        let begun = of(1);
        assert!(begun.starts_with("Resend r: 1 dead letter of orders"), "{begun}");
        assert!(begun.ends_with("To stop it: docket resend --stop r\n"), "{begun}");
    }

    #[test]
    fn preview_says_how_many_and_how_old() {
        let preview =
            json!({"preview": true, "count": 3, "total": 5, "oldest": "t", "newest": "u", "seconds": 1});
        assert_eq!(
            previewed("orders", 10, &preview),
            "3 dead letters of orders, created from t to u; 10 per second take 1 s.\nThere are 5; name the others with \
             another command.\nNothing was resent; add --yes to resend them.\n"
        );
        let many = json!({"count": 10_000, "total": 10_001, "oldest": "t", "seconds": 1_000});
        assert!(previewed("orders", 10, &many).contains("There are more than 10000; "));
        assert_eq!(
            previewed("orders", 10, &json!({"count": 0, "total": 0})),
            "No dead letters of orders to resend.\n"
        );
    }

    #[tokio::test]
    async fn probe_sends_one_and_the_others_only_if_it_was_taken() {
        let preview = |count: i64| json!({"count": count, "total": count, "seconds": 1});
        let queued = |count: i64| json!({"resendId": "r", "count": count, "seconds": 0});
        let ended = |succeeded: i64, count: i64| json!({"resendId": "r", "count": count, "succeeded": succeeded, "pending": 0});
        let done = async |line: &str, answers: Vec<Value>| {
            let mut script = Script::of(answers);
            let result = run(&mut script, &parsed(line), Timestamp::UNIX_EPOCH).await;
            (result.map_err(|found| found.0), script.asked.join(", "))
        };
        let probe = "--yes --probe --limit 3 --per-second 7";
        let (result, asked) =
            done(probe, vec![preview(3), queued(1), ended(1, 1), queued(2), ended(2, 2)]).await;
        assert_eq!(result, Ok(()));
        let one = "preview Some(3) at 7, resend Some(1) at 7, progress r";
        assert_eq!(asked, format!("{one}, resend Some(2) at 7, progress r"));
        let (result, asked) = done(probe, vec![preview(3), queued(1), ended(0, 1)]).await;
        assert!(result.is_err_and(|text| text.contains("nothing else was resent")));
        assert_eq!(asked, one);
        let (result, asked) = done(probe, vec![preview(1), queued(1), ended(1, 1)]).await;
        assert_eq!((result, asked.as_str()), (Ok(()), one), "there is no other");
        let (result, _) = done("--yes", vec![preview(2), queued(2), ended(1, 2)]).await;
        assert!(result.is_err_and(|text| text.contains("1 of 2 were delivered")));
        for (line, count) in [("", 3), ("--yes", 0), ("--yes --no-wait", 0)] {
            let (result, asked) = done(line, vec![preview(count)]).await;
            assert_eq!((result, asked.as_str()), (Ok(()), "preview None at 10"), "{line}");
        }
    }

    #[test]
    fn ten_thousand_dead_letters_are_an_exact_number() {
        let of = |count: i64, total: i64| others(&json!({"count": count, "total": total}));
        assert_eq!(of(5, 10_000), "There are 10000; name the others with another command.\n");
        assert_eq!(of(5, 10_001), "There are more than 10000; name the others with another command.\n");
        assert_eq!(of(5, 5), "");
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_have_a_minute_after_the_last_delivery_is_due() {
        let preview = json!({"count": 2, "total": 2, "seconds": 10});
        let queued = json!({"resendId": "r", "count": 2, "seconds": 10});
        let waits = json!({"resendId": "r", "count": 2, "succeeded": 1, "pending": 1});
        let answers = [preview, queued].into_iter().chain(std::iter::repeat_n(waits, 1_000));
        let (mut script, begun) = (Script::of(answers), Instant::now());
        let result = run(&mut script, &parsed("--yes"), Timestamp::UNIX_EPOCH).await;
        assert!(result.is_err_and(|found| found.0.contains("Docket continues with 1")));
        assert!((70..72).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    }
}
