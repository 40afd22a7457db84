//! The fields of a form: each has a label, its control, and beside it what is wrong with the value.

use std::collections::HashMap;

use jiff::civil::Date;
use maud::{Markup, html};

use crate::filters::Filters;
use crate::page::WebhookName;

/// What is said above what is wrong with a form that searches.
pub(crate) const CHECK: &str = "Check these fields:";
/// What is said above what is wrong with a form that saves.
pub(crate) const UNSAVED: &str = "Nothing was saved. Correct this first:";

/// The wrong fields of a form, each with what would be right; a field without a name: the whole form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wrong<'a>(pub(crate) &'a [(String, String)]);

impl Wrong<'_> {
    /// The page's title, which says that something is wrong: a screen reader reads it first.
    pub(crate) fn titled(self, title: &str) -> String {
        if self.0.is_empty() { title.to_owned() } else { format!("Error: {title}") }
    }

    /// What is wrong, above the form, after the words `said`. `labels`: the fields of the form, each with its label; the summary links to
    /// them.
    pub(crate) fn summary(self, said: &str, labels: &[(&str, &str)]) -> Markup {
        let label = |field: &str| labels.iter().find(|(name, _)| *name == field).map(|(_, label)| *label);
        html! {
            @if !self.0.is_empty() {
                div.wrong role="alert" {
                    p { (said) }
                    ul {
                        @for (field, what) in self.0 {
                            li {
                                @match label(field) {
                                    Some(label) => a href={ "#" (id(field)) } { (label) ": " (what) },
                                    None if field.is_empty() => { (what) },
                                    None => { (field) ": " (what) },
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// What is wrong with a field; empty: nothing.
    fn of(self, name: &str) -> String {
        let own = self.0.iter().filter(|(field, _)| field == name).map(|(_, what)| what.as_str());
        own.collect::<Vec<_>>().join(" ")
    }

    /// The attribute `aria-invalid` of a field's control.
    pub(crate) fn invalid(self, name: &str) -> Option<&'static str> {
        self.0.iter().any(|(field, _)| field == name).then_some("true")
    }

    /// The attribute `aria-describedby` of a field's control: the ids of the texts below the field.
    pub(crate) fn described(self, name: &str, hint: &str) -> Option<String> {
        let hint = (!hint.is_empty()).then(|| hint_id(name));
        let error = self.invalid(name).map(|_| error_id(name));
        let ids: Vec<String> = hint.into_iter().chain(error).collect();
        (!ids.is_empty()).then(|| ids.join(" "))
    }

    /// The texts below a field: its hint, and what is wrong.
    pub(crate) fn below(self, name: &str, hint: &str) -> Markup {
        html! {
            @if !hint.is_empty() { p.hint id=(hint_id(name)) { (hint) } }
            @if self.invalid(name).is_some() { p.error id=(error_id(name)) { (self.of(name)) } }
        }
    }

    /// A label, which contains its control, with the texts below.
    pub(crate) fn field(self, name: &str, hint: &str, label: &Markup) -> Markup {
        html! { div.field { label { (label) } (self.below(name, hint)) } }
    }
}

/// A form as the user sent it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form<'a> {
    pub(crate) sent: &'a Filters,
    pub(crate) wrong: Wrong<'a>,
}

impl<'a> Form<'a> {
    pub(crate) fn value(&self, name: &str) -> &'a str {
        self.sent.value(name)
    }

    /// A list to choose from. If `is_required`, a browser does not send the form without a choice.
    pub(crate) fn select(&self, label: &str, name: &str, is_required: bool, options: &Markup) -> Markup {
        let control = html! {
            (label)
            select id=(id(name)) name=(name) required[is_required] aria-invalid=[self.wrong.invalid(name)] aria-describedby=[self.wrong.described(name, "")] {
                (options)
            }
        };
        self.wrong.field(name, "", &control)
    }

    /// A line of text. `hint` is an example.
    pub(crate) fn text(&self, label: &str, name: &str, hint: &str) -> Markup {
        self.input(label, name, "text", hint)
    }

    /// A day. A time, which a link may hold, is shown as text.
    pub(crate) fn date(&self, label: &str, name: &str) -> Markup {
        let value = self.value(name);
        let is_day = value.is_empty() || value.len() == 10 && value.parse::<Date>().is_ok();
        self.input(label, name, if is_day { "date" } else { "text" }, "")
    }

    /// A whole number from 1. `default` is the number if the field is empty.
    pub(crate) fn number(&self, label: &str, name: &str, default: i64) -> Markup {
        let value = self.value(name);
        let is_number = value.is_empty() || value.parse::<i64>().is_ok();
        self.input(label, name, if is_number { "number" } else { "text" }, &default.to_string())
    }

    /// Text of several lines, sent byte for byte but for its line ends.
    pub(crate) fn area(&self, label: &str, name: &str) -> Markup {
        let control = html! {
            (label)
            textarea id=(id(name)) name=(name) rows="8" maxlength="60000" spellcheck="false" aria-invalid=[self.wrong.invalid(name)] aria-describedby=[self.wrong.described(name, "")] {
                "\n" (self.value(name))
            }
        };
        self.wrong.field(name, "", &control)
    }

    fn input(&self, label: &str, name: &str, kind: &str, hint: &str) -> Markup {
        let hint = (!hint.is_empty()).then_some(hint);
        let control = html! {
            (label)
            input id=(id(name)) type=(kind) name=(name) value=(self.value(name)) placeholder=[hint] maxlength=[(kind == "text").then_some("4096")] autocomplete="off" aria-invalid=[self.wrong.invalid(name)] aria-describedby=[self.wrong.described(name, "")];
        };
        self.wrong.field(name, "", &control)
    }
}

/// The id of a field's control, to which the summary leads.
pub(crate) fn id(name: &str) -> String {
    format!("field-{name}")
}

fn hint_id(name: &str) -> String {
    format!("hint-{name}")
}

fn error_id(name: &str) -> String {
    format!("error-{name}")
}

/// The options of a list of webhooks, by their names for people. Without a choice to make, the only webhook is chosen.
pub(crate) fn webhooks<'a>(webhooks: impl Iterator<Item = &'a WebhookName>, chosen: &str) -> Markup {
    let webhooks: Vec<&WebhookName> = webhooks.collect();
    let mut times = HashMap::new();
    for webhook in &webhooks {
        *times.entry(webhook.name.as_str()).or_insert(0) += 1;
    }
    let is_one_of_many =
        |webhook: &WebhookName| times.get(webhook.name.as_str()).is_some_and(|times| *times > 1);
    html! {
        @if webhooks.len() != 1 { option value="" { "Choose a webhook" } }
        @for webhook in webhooks.iter().copied() {
            option value=(webhook.full_name) selected[webhook.full_name == chosen] {
                (webhook.name) @if is_one_of_many(webhook) { " (" (webhook.full_name) ")" }
            }
        }
    }
}

/// The options of a list that may be left open: values, each with its text.
pub(crate) fn options<'a>(
    any: &str,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
    chosen: &str,
) -> Markup {
    html! {
        option value="" { (any) }
        @for (value, text) in options { option value=(value) selected[value == chosen] { (text) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(values: &[(&str, &str)]) -> Filters {
        Filters(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn what_is_wrong_stands_beside_its_field_and_the_summary_leads_there() {
        let sent = sent(&[("limit", "<0>"), ("other", "x")]);
        let wrong = [("limit", "must be <more>"), ("other", "unknown"), ("", "There is no room.")]
            .map(|(field, what)| (field.to_owned(), what.to_owned()));
        let form = Form { sent: &sent, wrong: Wrong(&wrong) };
        let summary = form.wrong.summary(CHECK, &[("limit", "At most")]).into_string();
        assert!(summary.contains("<p>Check these fields:</p>"), "{summary}");
        assert!(summary.contains("<a href=\"#field-limit\">At most: must be &lt;more&gt;</a>"), "{summary}");
        assert!(summary.contains("<li>other: unknown</li><li>There is no room.</li>"), "{summary}");
        let field = form.number("At most", "limit", 10).into_string();
        for part in [
            "id=\"field-limit\" type=\"text\"",
            "value=\"&lt;0&gt;\"",
            "aria-invalid=\"true\" aria-describedby=\"error-limit\"",
            "<p class=\"error\" id=\"error-limit\">must be &lt;more&gt;</p>",
        ] {
            assert!(field.contains(part), "{part}: {field}");
        }
        assert_eq!(form.wrong.titled("Resends"), "Error: Resends");
        let fine = Form { wrong: Wrong(&[]), ..form };
        assert!(!fine.number("At most", "limit", 10).into_string().contains("aria-"));
        assert_eq!(
            (fine.wrong.titled("Resends"), fine.wrong.summary(CHECK, &[]).into_string()),
            ("Resends".into(), String::new())
        );
    }

    #[test]
    fn field_is_described_by_its_hint_and_by_all_that_is_wrong() {
        let wrong = ["Too long.", "Not a URL."].map(|what| ("url".to_owned(), what.to_owned()));
        let (wrong, fine) = (Wrong(&wrong), Wrong(&[]));
        assert_eq!(wrong.described("url", "An address.").as_deref(), Some("hint-url error-url"));
        assert_eq!(fine.described("url", "An address.").as_deref(), Some("hint-url"));
        assert_eq!((wrong.described("name", ""), fine.invalid("url")), (None, None));
        let text = wrong.field("url", "An address.", &html! { "URL" }).into_string();
        assert!(
            text.contains("<label>URL</label><p class=\"hint\" id=\"hint-url\">An address.</p>"),
            "{text}"
        );
        assert!(text.contains("id=\"error-url\">Too long. Not a URL.</p>"), "{text}");
    }

    #[test]
    fn day_has_a_field_of_days_and_another_time_stays_as_it_is() {
        for (value, kind) in
            [("", "date"), ("2026-11-01", "date"), ("2026-11-01T09:30:00Z", "text"), ("soon", "text")]
        {
            let sent = sent(&[("from", value)]);
            let field = Form { sent: &sent, wrong: Wrong(&[]) }.date("From", "from").into_string();
            assert!(field.contains(&format!("type=\"{kind}\" name=\"from\" value=\"{value}\"")), "{field}");
        }
    }

    #[test]
    fn webhooks_of_one_name_have_their_object_beside_it() {
        let webhook =
            |full_name: &str, name: &str| WebhookName { full_name: full_name.into(), name: name.into() };
        let all = [webhook("a/x", "Orders"), webhook("a/y", "Orders"), webhook("a/z", "<b>")];
        let text = webhooks(all.iter(), "a/y").into_string();
        assert!(text.contains("<option value=\"a/y\" selected>Orders (a/y)</option>"), "{text}");
        assert!(text.contains("<option value=\"a/z\">&lt;b&gt;</option>"), "{text}");
        assert!(
            text.contains("Choose a webhook")
                && !webhooks(all[..1].iter(), "").into_string().contains("Choose")
        );
    }
}
