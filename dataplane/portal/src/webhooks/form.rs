//! The fields of a webhook's form, each with what is wrong beside it.

use docket_crds::EventCode;
use maud::{Markup, html};

use super::FormSettings;

/// The fields of the form, each with its label.
const LABELS: [(&str, &str); 5] = [
    ("displayName", "Name"),
    ("customerCode", "Customer"),
    ("targetUrl", "URL"),
    ("events", "Events"),
    ("secret", "Secret"),
];

/// The customers to choose from.
#[derive(Debug, Clone, Default)]
pub struct Customers {
    /// Code and name of each, in the order of the names.
    pub known: Vec<(String, String)>,
    /// Whether the tenant has further customers, whose code can be typed.
    pub are_more: bool,
}

/// The wrong fields, each with what would be right; an empty field: the whole form.
#[derive(Clone, Copy)]
pub(super) struct Wrong<'a>(pub(super) &'a [(String, String)]);

impl Wrong<'_> {
    fn of(self, field: &str) -> String {
        let own = self.0.iter().filter(|(name, _)| name == field).map(|(_, what)| what.as_str());
        own.collect::<Vec<_>>().join(" ")
    }

    /// The title of a page with this form: a screen reader reads it first.
    pub(super) fn title(self, title: &str) -> String {
        if self.0.is_empty() { title.to_owned() } else { format!("Error: {title}") }
    }

    /// What is wrong, with a link to each field.
    pub(super) fn summary(self) -> Markup {
        let label = |name: &str| LABELS.iter().find(|(field, _)| *field == name).map(|(_, label)| *label);
        html! {
            @if !self.0.is_empty() {
                div.wrong role="alert" {
                    p { strong { "Nothing was saved." } " Correct this first:" }
                    ul {
                        @for (name, what) in self.0 {
                            li {
                                @match label(name) {
                                    Some(label) => a href={ "#" (name) } { (label) ": " (what) },
                                    None => { (what) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A field and its place in the form.
struct Field<'a> {
    name: &'a str,
    hint: &'a str,
    wrong: Wrong<'a>,
}

impl Field<'_> {
    fn is_wrong(&self) -> Option<&'static str> {
        (!self.wrong.of(self.name).is_empty()).then_some("true")
    }

    /// The ids of the texts that describe the field.
    fn described_by(&self) -> Option<String> {
        let hint = (!self.hint.is_empty()).then(|| format!("{}-hint", self.name));
        let error = self.is_wrong().map(|_| format!("{}-error", self.name));
        let ids: Vec<String> = hint.into_iter().chain(error).collect();
        (!ids.is_empty()).then(|| ids.join(" "))
    }

    /// The texts below the field.
    fn below(&self) -> Markup {
        html! {
            @if !self.hint.is_empty() { p.hint id={ (self.name) "-hint" } { (self.hint) } }
            @if self.is_wrong().is_some() { p.error id={ (self.name) "-error" } { (self.wrong.of(self.name)) } }
        }
    }
}

/// The fields. `customers`: the customers to choose from, if the customer can be chosen.
pub(super) fn fields(
    settings: &FormSettings,
    customers: Option<&Customers>,
    has_active: bool,
    wrong: Wrong<'_>,
) -> Markup {
    let FormSettings { display_name, target_url, events, active, .. } = settings;
    let name =
        Field { name: "displayName", hint: "How people call it, such as: Orders to our case system.", wrong };
    let url =
        Field { name: "targetUrl", hint: "The address of the receiver. It begins with https://.", wrong };
    html! {
        div.field {
            label {
                "Name"
                input #displayName name="displayName" value=(display_name) maxlength="128" required
                    aria-invalid=[name.is_wrong()] aria-describedby=[name.described_by()];
            }
            (name.below())
        }
        @if let Some(customers) = customers { (customer(settings, customers, wrong)) }
        div.field {
            label {
                "URL"
                input #targetUrl name="targetUrl" type="url" value=(target_url) maxlength="2048" required spellcheck="false"
                    aria-invalid=[url.is_wrong()] aria-describedby=[url.described_by()];
            }
            (url.below())
        }
        (choice_of_events(events, wrong))
        @if has_active {
            label.check { input type="checkbox" name="active" value="yes" checked[*active]; "Active: new events are sent" }
        }
    }
}

fn customer(settings: &FormSettings, Customers { known, are_more }: &Customers, wrong: Wrong<'_>) -> Markup {
    let hint =
        if *are_more { "The first 1,000 are listed. For another one, type its code below." } else { "" };
    let field = Field { name: "customerCode", hint, wrong };
    let code = &settings.customer_code;
    let is_listed = known.iter().any(|(known, _)| known == code);
    html! {
        div.field {
            label {
                "Customer"
                select #customerCode name="customerCode" required[!are_more] aria-invalid=[field.is_wrong()] aria-describedby=[field.described_by()] {
                    option value="" { "Choose a customer" }
                    @for (known, name) in known {
                        option value=(known) selected[known == code] { (name) @if name != known { " (" (known) ")" } }
                    }
                }
            }
            (field.below())
        }
        @if *are_more {
            label { "Or its code" input name="otherCode" value=[(!is_listed).then_some(code)] maxlength="64" spellcheck="false"; }
        }
    }
}

fn choice_of_events(events: &[EventCode], wrong: Wrong<'_>) -> Markup {
    let field = Field { name: "events", hint: "", wrong };
    html! {
        fieldset #events tabindex="-1" aria-describedby=[field.described_by()] {
            legend { "Events" }
            (field.below())
            @for code in EventCode::ALL {
                label.event {
                    input type="checkbox" name=(code.as_str()) value="yes" checked[events.contains(&code)];
                    (code.as_str())
                    small { (code.about()) }
                }
            }
            label.event {
                input type="checkbox" name="all" value="yes";
                "All of these"
                small { "Subscribes to every event above." }
            }
        }
    }
}

/// The field with a secret that the user chooses.
pub(super) fn chosen_secret(wrong: Wrong<'_>) -> Markup {
    let hint = "16 to 256 characters. Leave it empty to let Docket make one.";
    let field = Field { name: "secret", hint, wrong };
    html! {
        details open[field.is_wrong().is_some()] {
            summary { "Choose the secret yourself" }
            div.field {
                label {
                    "Secret"
                    input #secret name="secret" minlength="16" maxlength="256" autocomplete="off" spellcheck="false"
                        aria-invalid=[field.is_wrong()] aria-describedby=[field.described_by()];
                }
                (field.below())
            }
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
            text.contains("aria-invalid=\"true\" aria-describedby=\"targetUrl-hint targetUrl-error\""),
            "{text}"
        );
        assert!(
            text.contains("<p class=\"error\" id=\"targetUrl-error\">&lt;Enter a URL.&gt;</p>"),
            "{text}"
        );
        assert!(
            text.contains("<fieldset id=\"events\" tabindex=\"-1\" aria-describedby=\"events-error\">"),
            "{text}"
        );
        assert_eq!(text.matches("aria-invalid").count(), 1, "{text}");
        let summary = wrong.summary().into_string();
        assert!(summary.contains("<a href=\"#targetUrl\">URL: &lt;Enter a URL.&gt;</a>"), "{summary}");
        assert!(summary.contains("<li>There is no room.</li>"), "{summary}");
        assert_eq!((&*wrong.title("Add"), &*Wrong(&[]).title("Add")), ("Error: Add", "Add"));
        assert_eq!(Wrong(&[]).summary().into_string(), "");
    }

    #[test]
    fn every_event_has_its_sentence() {
        let text = fields(&FormSettings::default(), None, true, Wrong(&[])).into_string();
        for code in EventCode::ALL {
            assert!(text.contains(code.as_str()) && text.contains(code.about()), "{code}");
        }
        assert!(text.contains("name=\"all\""));
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
