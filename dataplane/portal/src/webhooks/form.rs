//! The fields of a webhook's form, each with what is wrong beside it.

use docket_crds::EventCode;
use maud::{Markup, html};

use super::FormSettings;
use crate::field::{UNSAVED, Wrong, id};

/// The fields of the form, each with its label.
const LABELS: [(&str, &str); 5] = [
    ("displayName", "Name"),
    ("customerCode", "Customer"),
    ("targetUrl", "URL"),
    ("events", "Events"),
    ("secret", "Secret"),
];

const NAME_HINT: &str = "How people call it, such as: Orders to our case system.";
const URL_HINT: &str = "The address of the receiver. It begins with https://.";
const SECRET_HINT: &str = "16 to 256 characters. Leave it empty to let Docket make one.";

/// The customers to choose from.
#[derive(Debug, Clone, Default)]
pub struct Customers {
    /// Code and name of each, in the order of the names.
    pub known: Vec<(String, String)>,
    /// Whether the tenant has further customers, whose code can be typed.
    pub are_more: bool,
}

/// What is wrong with the form, above it.
pub(super) fn summary(wrong: Wrong<'_>) -> Markup {
    wrong.summary(UNSAVED, &LABELS)
}

/// The fields. `customers`: the customers to choose from, if the customer can be chosen.
pub(super) fn fields(
    settings: &FormSettings,
    customers: Option<&Customers>,
    has_active: bool,
    wrong: Wrong<'_>,
) -> Markup {
    let FormSettings { display_name, target_url, events, active, .. } = settings;
    html! {
        (wrong.field("displayName", NAME_HINT, &html! {
            "Name"
            input id=(id("displayName")) name="displayName" value=(display_name) maxlength="128" required
                aria-invalid=[wrong.invalid("displayName")] aria-describedby=[wrong.described("displayName", NAME_HINT)];
        }))
        @if let Some(customers) = customers { (customer(settings, customers, wrong)) }
        (wrong.field("targetUrl", URL_HINT, &html! {
            "URL"
            input id=(id("targetUrl")) name="targetUrl" type="url" value=(target_url) maxlength="2048" required spellcheck="false"
                aria-invalid=[wrong.invalid("targetUrl")] aria-describedby=[wrong.described("targetUrl", URL_HINT)];
        }))
        (choice_of_events(events, wrong))
        @if has_active {
            label.check { input type="checkbox" name="active" value="yes" checked[*active]; "Active: new events are sent" }
        }
    }
}

fn customer(settings: &FormSettings, Customers { known, are_more }: &Customers, wrong: Wrong<'_>) -> Markup {
    let hint =
        if *are_more { "The first 1,000 are listed. For another one, type its code below." } else { "" };
    let code = &settings.customer_code;
    let is_listed = known.iter().any(|(known, _)| known == code);
    html! {
        (wrong.field("customerCode", hint, &html! {
            "Customer"
            select id=(id("customerCode")) name="customerCode" required[!are_more]
                aria-invalid=[wrong.invalid("customerCode")] aria-describedby=[wrong.described("customerCode", hint)] {
                option value="" { "Choose a customer" }
                @for (known, name) in known {
                    option value=(known) selected[known == code] { (name) @if name != known { " (" (known) ")" } }
                }
            }
        }))
        @if *are_more {
            label { "Or its code" input name="otherCode" value=[(!is_listed).then_some(code)] maxlength="64" spellcheck="false"; }
        }
    }
}

fn choice_of_events(events: &[EventCode], wrong: Wrong<'_>) -> Markup {
    html! {
        fieldset id=(id("events")) tabindex="-1" aria-describedby=[wrong.described("events", "")] {
            legend { "Events" }
            (wrong.below("events", ""))
            // Never ticked here: without the script, a box that stays ticked would choose the events that the user has just left out.
            label.event {
                input type="checkbox" name="all" value="yes" autocomplete="off";
                "All events"
                small { "Subscribes to every event below." }
            }
            @for code in EventCode::ALL {
                label.event {
                    input type="checkbox" name=(code.as_str()) value="yes" checked[events.contains(&code)];
                    (code.as_str())
                    small { (code.about()) }
                }
            }
        }
    }
}

/// The field with a secret that the user chooses.
pub(super) fn chosen_secret(wrong: Wrong<'_>) -> Markup {
    html! {
        details open[wrong.invalid("secret").is_some()] {
            summary { "Choose the secret yourself" }
            (wrong.field("secret", SECRET_HINT, &html! {
                "Secret"
                input id=(id("secret")) name="secret" minlength="16" maxlength="256" autocomplete="off" spellcheck="false"
                    aria-invalid=[wrong.invalid("secret")] aria-describedby=[wrong.described("secret", SECRET_HINT)];
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_beside_its_field_and_linked_from_the_summary() {
        let wrong = [
            ("targetUrl".to_owned(), "<Enter a URL.>".to_owned()),
            ("events".to_owned(), "Choose one.".to_owned()),
            (String::new(), "There is no room.".to_owned()),
        ];
        let wrong = Wrong(&wrong);
        let text = fields(&FormSettings::default(), None, true, wrong).into_string();
        assert!(
            text.contains("aria-invalid=\"true\" aria-describedby=\"hint-targetUrl error-targetUrl\""),
            "{text}"
        );
        assert!(
            text.contains("<p class=\"error\" id=\"error-targetUrl\">&lt;Enter a URL.&gt;</p>"),
            "{text}"
        );
        assert!(
            text.contains("<fieldset id=\"field-events\" tabindex=\"-1\" aria-describedby=\"error-events\">"),
            "{text}"
        );
        assert_eq!(text.matches("aria-invalid").count(), 1, "{text}");
        let summary = summary(wrong).into_string();
        assert!(summary.contains("<a href=\"#field-targetUrl\">URL: &lt;Enter a URL.&gt;</a>"), "{summary}");
        assert!(
            summary.contains("Nothing was saved. ") && summary.contains("<li>There is no room.</li>"),
            "{summary}"
        );
    }

    #[test]
    fn every_event_has_its_sentence() {
        let text = fields(&FormSettings::default(), None, true, Wrong(&[])).into_string();
        for code in EventCode::ALL {
            assert!(text.contains(code.as_str()) && text.contains(code.about()), "{code}");
        }
        let (before, after) =
            text.split_once("name=\"all\" value=\"yes\" autocomplete=\"off\">").expect("a box for all");
        assert!(
            !before.contains("order.created") && after.contains("order.created"),
            "it is the first: {text}"
        );
    }

    #[test]
    fn customer_is_chosen_by_name_or_typed_if_there_are_too_many() {
        let known = vec![("C-1".to_owned(), "One <b>".to_owned()), ("C-2".to_owned(), "C-2".to_owned())];
        let of = |code: &str, are_more| {
            let settings = FormSettings { customer_code: code.to_owned(), ..FormSettings::default() };
            let customers = Customers { known: known.clone(), are_more };
            fields(&settings, Some(&customers), true, Wrong(&[])).into_string()
        };
        let text = of("C-1", false);
        assert!(text.contains("<option value=\"C-1\" selected>One &lt;b&gt; (C-1)</option>"), "{text}");
        assert!(text.contains("<option value=\"C-2\">C-2</option>") && !text.contains("otherCode"), "{text}");
        assert!(of("C-9", true).contains("name=\"otherCode\" value=\"C-9\""));
        assert!(of("C-1", true).contains("name=\"otherCode\" maxlength"));
    }
}
