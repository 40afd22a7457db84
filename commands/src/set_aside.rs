//! `set-aside`: dead letters of a webhook that need no resend do not count any more; or they count again.

use docket_domain::resend::Aside;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::arguments::{Output, SetAsideArguments};
use crate::fields::{dead_letters, number};
use crate::resend::{created, others};
use crate::text;

/// The fields of the preview.
const PREVIEW: [&str; 4] = ["count", "total", "oldest", "newest"];

/// Sets aside, or undoes that, or says what that would change.
pub async fn run<A: Answers>(
    answers: &mut A,
    asked: &SetAsideArguments,
    now: Timestamp,
) -> Result<(), A::Error> {
    let aside = if asked.undo { Aside::Undo } else { Aside::Set };
    let mut letters = asked.choice.letters(now);
    let preview = answers.preview_aside(&letters, aside).await?;
    // The preview did not count later dead letters.
    letters.ended_before = preview["endedBefore"].as_str().and_then(|time| time.parse().ok());
    let changed = match asked.choice.yes && number(&preview, "count") != 0 {
        true => Some(answers.set_aside(&letters, aside).await?["changed"].take()),
        false => None,
    };
    let webhook = answers.webhook();
    match asked.printed.output {
        Output::Json => {
            let preview: Value =
                PREVIEW.iter().map(|name| ((*name).to_owned(), preview[*name].clone())).collect();
            text::json(&json!({"webhook": webhook, "preview": preview, "changed": changed}));
        }
        Output::Table | Output::Wide => {
            let changed = changed.as_ref().and_then(Value::as_i64);
            print!(
                "{}",
                changed.map_or_else(
                    || previewed(&webhook, aside, &preview),
                    |count| done(&webhook, aside, count)
                )
            );
        }
    }
    Ok(())
}

/// What was done.
fn done(webhook: &str, aside: Aside, count: i64) -> String {
    let letters = dead_letters(count);
    match (aside, count) {
        (Aside::Set, 1) => format!("{letters} of {webhook} set aside: it counts no longer.\n"),
        (Aside::Set, _) => format!("{letters} of {webhook} set aside: they count no longer.\n"),
        (Aside::Undo, 1) => format!("{letters} of {webhook} counts again.\n"),
        (Aside::Undo, _) => format!("{letters} of {webhook} count again.\n"),
    }
}

/// What would be done.
fn previewed(webhook: &str, aside: Aside, preview: &Value) -> String {
    let count = number(preview, "count");
    let (which, nothing, to_do) = match aside {
        Aside::Set => (",", "Nothing was set aside", "set them aside"),
        Aside::Undo => (", set aside before,", "Nothing was changed", "make them count again"),
    };
    match (count, aside) {
        (0, Aside::Set) => format!("No dead letter of {webhook} to set aside.\n"),
        (0, Aside::Undo) => format!("No dead letter of {webhook} is set aside.\n"),
        _ => format!(
            "{} of {webhook}{which} created {}.\n{}{nothing}; add --yes to {to_do}.\n",
            dead_letters(count),
            created(preview),
            others(preview)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, parsed};

    #[test]
    fn text_says_what_was_done_and_else_what_would_be() {
        let preview = json!({"preview": true, "count": 3, "total": 5, "oldest": "t", "newest": "u"});
        assert_eq!(
            previewed("orders", Aside::Set, &preview),
            "3 dead letters of orders, created from t to u.\nThere are 5; name the others with another command.\n\
             Nothing was set aside; add --yes to set them aside.\n"
        );
        let undo = previewed("orders", Aside::Undo, &preview);
        assert!(undo.starts_with("3 dead letters of orders, set aside before, created from t"), "{undo}");
        assert!(undo.ends_with("Nothing was changed; add --yes to make them count again.\n"), "{undo}");
        assert_eq!(
            done("orders", Aside::Set, 1),
            "1 dead letter of orders set aside: it counts no longer.\n"
        );
        assert_eq!(done("orders", Aside::Undo, 2), "2 dead letters of orders count again.\n");
        let none = json!({"count": 0});
        assert_eq!(previewed("orders", Aside::Set, &none), "No dead letter of orders to set aside.\n");
        assert_eq!(previewed("orders", Aside::Undo, &none), "No dead letter of orders is set aside.\n");
    }

    #[tokio::test]
    async fn only_what_was_counted_is_changed_and_nothing_without_yes() {
        let preview =
            |count: i64| json!({"count": count, "total": count, "endedBefore": "1970-01-01T00:01:30Z"});
        let asked = async |line: &str, answers: Vec<Value>| {
            let mut script = Script::of(answers);
            run(&mut script, &parsed(line), Timestamp::UNIX_EPOCH).await.expect("the answers");
            script.asked.join(", ")
        };
        let changed = || json!({"changed": 2});
        let set = "preview Set Some(9), Set Some(9) before Some(90)";
        assert_eq!(asked("--yes --limit 9", vec![preview(2), changed()]).await, set);
        let undo = "preview Undo None, Undo None before Some(90)";
        assert_eq!(asked("--yes --undo", vec![preview(2), changed()]).await, undo);
        assert_eq!(asked("", vec![preview(2)]).await, "preview Set None");
        assert_eq!(asked("--yes", vec![preview(0)]).await, "preview Set None");
    }
}
