//! The command `kubectl docket set-aside`: dead letters of a webhook that need no resend do not count any more; or count again.

use serde_json::{Value, json};

use crate::args::{Kind, Object, Output, SetAsideArguments};
use crate::cluster::Cluster;
use crate::dataplane::DataPlane;
use crate::deliveries::cell;
use crate::problem::Problem;
use crate::resend::{chosen, others};
use crate::show;

/// The fields of the preview, by the data plane's names.
const PREVIEW: [&str; 4] = ["count", "total", "oldest", "newest"];

pub(crate) async fn run(cluster: &Cluster, asked: &SetAsideArguments) -> Result<(), Problem> {
    let object = Object { kind: Kind::Webhook, name: asked.choice.webhook.clone() };
    let dataplane = DataPlane::connect(cluster, &asked.reach).await?;
    let path = if asked.undo { "undo-set-aside" } else { "set-aside" };
    let mut request = chosen(&asked.choice)?;
    let preview = dataplane.post(cluster, &object, &format!("{path}/preview"), &request).await?;
    if let Some(seen) = preview["endedBefore"].as_str() {
        request["endedBefore"] = seen.into();
    }
    let changed = match asked.choice.yes && preview["count"].as_i64() != Some(0) {
        true => Some(dataplane.post(cluster, &object, path, &request).await?["changed"].take()),
        false => None,
    };
    match asked.printed.output {
        Output::Json => {
            let preview: Value =
                PREVIEW.iter().map(|name| ((*name).to_owned(), preview[*name].clone())).collect();
            show::json(&json!({"webhook": asked.choice.webhook, "preview": preview, "changed": changed}));
        }
        Output::Table | Output::Wide => print!("{}", text(asked, &preview, changed.as_ref())),
    }
    Ok(())
}

/// A text about what was done or would be done.
fn text(asked: &SetAsideArguments, preview: &Value, changed: Option<&Value>) -> String {
    let webhook = &asked.choice.webhook;
    let letters = |count: i64| if count == 1 { "dead letter" } else { "dead letters" };
    let (done, nothing) = match asked.undo {
        false => ("set aside", "to set aside"),
        true => ("not set aside any more", "is set aside"),
    };
    if let Some(changed) = changed.and_then(Value::as_i64) {
        return format!("{changed} {} of {webhook} {done}.\n", letters(changed));
    }
    match preview["count"].as_i64() {
        Some(0) | None => format!("No dead letter of {webhook} {nothing}.\n"),
        Some(count) => format!(
            "{count} {} of {webhook}, the oldest of {}.\n{}Nothing was changed; add --yes to {}.\n",
            letters(count),
            cell(preview, "oldest"),
            others(preview),
            if asked.undo { "make them count again" } else { "set them aside" },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};

    fn asked(more: &[&str]) -> SetAsideArguments {
        let words = [&["kubectl-docket", "set-aside", "orders"], more].concat();
        let Ok(Arguments { command: Command::SetAside(asked), .. }) =
            Arguments::read(words.iter().map(std::ffi::OsString::from))
        else {
            panic!("{words:?}");
        };
        asked
    }

    #[test]
    fn text_says_what_was_done_and_else_what_would_be() {
        let preview = json!({"preview": true, "count": 3, "total": 5, "oldest": "t", "newest": "u"});
        assert_eq!(
            text(&asked(&[]), &preview, None),
            "3 dead letters of orders, the oldest of t.\nThere are 5; name the others with another command.\n\
             Nothing was changed; add --yes to set them aside.\n"
        );
        assert!(text(&asked(&["--undo"]), &preview, None).ends_with("add --yes to make them count again.\n"));
        let done = |more: &[&str], count: i64| text(&asked(more), &preview, Some(&json!(count)));
        assert_eq!(done(&["--yes"], 1), "1 dead letter of orders set aside.\n");
        assert_eq!(done(&["--yes", "--undo"], 2), "2 dead letters of orders not set aside any more.\n");
        let none = |more: &[&str]| text(&asked(more), &json!({"count": 0}), None);
        assert_eq!(none(&["--yes"]), "No dead letter of orders to set aside.\n");
        assert_eq!(none(&["--undo"]), "No dead letter of orders is set aside.\n");
    }
}
