//! The form of a new webhook.

use maud::html;

use super::FormSettings;
use super::form::{self, Customers};
use crate::field::Wrong;
use crate::page::{self, Frame, Section};
use crate::parts::{self, Head};

/// The form of a new webhook, or of a webhook that could not be saved.
#[derive(Debug, Clone, Copy)]
pub struct NewForm<'a> {
    /// The form's id, which it sends.
    pub form: &'a str,
    /// What is filled in.
    pub settings: &'a FormSettings,
    /// Each wrong field with what would be right; an empty field: the whole form.
    pub wrong: &'a [(String, String)],
    /// The customers to choose from; `None`: the customer is the user's own.
    pub customers: Option<&'a Customers>,
    /// Whether the user may choose the secret.
    pub may_give: bool,
}

/// The page.
pub fn page(frame: &Frame, new: &NewForm<'_>) -> String {
    let NewForm { form, settings, wrong, customers, may_give } = new;
    let (path, wrong) = (Section::Webhooks.path(), Wrong(wrong));
    let below = html! {
        @match customers {
            Some(_) => "Docket sends the events of one customer to the receiver at this URL.",
            None => "Docket sends your events to the receiver at this URL.",
        }
    };
    let head = Head {
        above: Some((path, "Webhooks")),
        title: html! { "Add a webhook" },
        below: Some(below),
        ..Head::default()
    };
    let has_no_customer = customers.is_some_and(|customers| customers.known.is_empty());
    let main = html! {
        (parts::head(&head))
        @if has_no_customer {
            section.card aria-label="Add a webhook" {
                (parts::nothing("This tenant has no customer yet", &html! {
                    p { "A webhook sends the events of a customer. The people who run Docket " a href="/docs/run/people.html" { "add customers" } "." }
                }))
            }
        } @else {
            (form::summary(wrong))
            section.card aria-label="The new webhook" {
                div.in {
                    form.fields method="post" action={ (path) "/new" } {
                        (page::csrf(frame))
                        input type="hidden" name="form" value=(form);
                        (form::fields(settings, *customers, true, wrong))
                        p.hint { "Docket makes the secret that signs deliveries, and shows it once, on the next page." }
                        @if *may_give { (form::chosen_secret(wrong)) }
                        button.primary type="submit" { "Add the webhook" }
                    }
                }
            }
        }
    };
    page::page(frame, Section::Webhooks, &wrong.titled("Add a webhook"), &main)
}

#[cfg(test)]
mod tests {
    use super::super::tests::webhook;
    use super::*;
    use crate::logs::tests::frame;

    #[test]
    fn form_keeps_what_was_filled_in_and_begins_with_what_is_wrong() {
        let (settings, wrong) = (webhook().settings, [("targetUrl".to_owned(), "Enter a URL.".to_owned())]);
        let customers = Customers { known: vec![("C-1".into(), "One".into())], are_more: false };
        let new = NewForm {
            form: "f1",
            settings: &settings,
            wrong: &wrong,
            customers: Some(&customers),
            may_give: false,
        };
        let text = page(&frame(), &new);
        for part in [
            "<title>Error: Add a webhook · Acme · Docket</title>",
            "name=\"form\" value=\"f1\"",
            "value=\"https://h.example/?a=&lt;u&gt;\"",
            "name=\"order.created\" value=\"yes\" checked",
            "<option value=\"C-1\">One (C-1)</option>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("name=\"secret\""), "{text}");
        let own = page(&frame(), &NewForm { customers: None, may_give: true, ..new });
        assert!(!own.contains("customerCode") && own.contains("name=\"secret\""), "{own}");
        let customers = Customers::default();
        let none = page(&frame(), &NewForm { customers: Some(&customers), ..new });
        assert!(none.contains("This tenant has no customer yet") && !none.contains("targetUrl"), "{none}");
    }
}
