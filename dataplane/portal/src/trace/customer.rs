//! The answer about a customer, and what both answers show of its webhooks.

use docket_domain::trace::TraceKind;
use maud::{Markup, html};

use super::{CustomerAnswer, CustomerWebhook, trace_link};
use crate::page::{Frame, NEW_WEBHOOK, Section};
use crate::parts::{self, Head, Tone};
use crate::time::at;
use crate::{counted, href};

/// The answer about a customer.
pub(super) fn of_customer(CustomerAnswer { name, webhooks, unserved, .. }: &CustomerAnswer) -> String {
    let inactive = webhooks.iter().filter(|webhook| !webhook.active).count();
    let mut parts = Vec::new();
    for (count, state) in
        [(webhooks.len() - inactive, "active"), (inactive, "inactive"), (*unserved, "unserved")]
    {
        parts.extend((count > 0).then(|| counted(count as i64, &format!("{state} webhook"))));
    }
    let parts = if parts.is_empty() { "no webhook".to_owned() } else { parts.join(" and ") };
    let then = if webhooks.len() == inactive { ", so nothing is sent" } else { "" };
    format!("{name} has {parts}{then}")
}

pub(super) fn customer_page(frame: &Frame, customer: &CustomerAnswer, can_add: bool) -> Markup {
    let CustomerAnswer { code, orders, webhooks, unserved, .. } = customer;
    let filter = if frame.is_of_tenant() { code.as_str() } else { "" };
    let logs = href(Section::Logs.path(), [("customerCode", filter)]);
    let rows = html! {
        @for (id, status, saved_at) in orders {
            tr {
                th scope="row" { a href=(trace_link(TraceKind::WebOrder, id)) { (id) } }
                td { (status) }
                td { (at(*saved_at)) }
            }
        }
    };
    let orders = match orders.is_empty() {
        true => parts::nothing("No order yet", &html! { p { "What the customer saves is listed here." } }),
        false => parts::table("Newest orders", &[("Order", ""), ("Status", ""), ("Saved", "")], &rows),
    };
    let actions = html! { a.button href=(logs) { "Its deliveries" } };
    html! {
        (parts::head(&Head {
            title: html! { (of_customer(customer)) },
            below: Some(html! { "Customer " (code) }),
            actions: Some(actions),
            ..Head::default()
        }))
        (webhooks_card(frame, webhooks, &none(frame, code, *unserved, can_add)))
        (parts::card("orders", "Newest orders", &html! { span.small.quiet { "at most 10" } }, &orders))
    }
}

/// What the page shows instead of the webhooks if none of the customer is served.
pub(super) fn none(frame: &Frame, customer: &str, unserved: usize, can_add: bool) -> Markup {
    let what = match unserved {
        0 => "No webhook exists for this customer".to_owned(),
        1 => "The webhook of this customer has a mistake in its settings".to_owned(),
        more => format!("The {more} webhooks of this customer have mistakes in their settings"),
    };
    // A contact's webhooks are always of its own customer.
    let code = if frame.is_of_tenant() { customer } else { "" };
    let why = html! {
        p { "A webhook gets only events that happen after it was added. Earlier events cannot be sent to it." }
        @if unserved > 0 {
            p { a.button href=(Section::Webhooks.path()) { "See what is wrong" } }
        } @else if can_add {
            p {
                a.button.primary href=(href(NEW_WEBHOOK, [("customerCode", code)])) {
                    "Add a webhook" @if !code.is_empty() { " for " (code) }
                }
            }
        } @else if frame.is_of_tenant() {
            p { "Ask the people who run Docket to add a webhook for " (customer) "." }
        } @else {
            p { "Ask the administrators of " (frame.tenant) " to add a webhook." }
        }
    };
    parts::nothing(&what, &why)
}

/// The webhooks of a customer; `none`: the content of the card if no webhook is served.
pub(super) fn webhooks_card(frame: &Frame, webhooks: &[CustomerWebhook], none: &Markup) -> Markup {
    let rows = html! {
        @for CustomerWebhook { full_name, active, takes } in webhooks {
            tr {
                th scope="row" { (frame.webhook(full_name)) }
                td { @if *active { (parts::badge(Tone::Good, "Active")) } @else { (parts::badge(Tone::Mute, "Inactive")) } }
                td { div.long tabindex="0" {
                    @for (place, code) in takes.iter().enumerate() { @if place > 0 { ", " } (code.as_str()) }
                    @if takes.is_empty() { "no event that is switched on" }
                } }
                td.wider { a href=(href(Section::Logs.path(), [("webhook", full_name.as_str())])) { "Its deliveries" } }
            }
        }
    };
    let heads = [("Webhook", ""), ("State", ""), ("Gets", ""), ("Log", "wider")];
    let body = match webhooks.is_empty() {
        true => none.clone(),
        false => parts::table("Webhooks of the customer", &heads, &rows),
    };
    parts::card("webhooks", "Webhooks of the customer now", &html! {}, &body)
}

#[cfg(test)]
mod tests {
    use docket_crds::EventCode;

    use super::*;
    use crate::logs::tests::frame;
    use crate::page::Role;

    #[test]
    fn customer_without_a_webhook_can_be_given_one() {
        let of = |frame: &Frame, unserved, can_add| none(frame, "C&1", unserved, can_add).into_string();
        let text = of(&frame(), 0, true);
        assert!(
            text.contains("href=\"/portal/webhooks/new?customerCode=C%261\">Add a webhook for C&amp;1</a>"),
            "{text}"
        );
        assert!(
            of(&frame(), 0, false).contains("Ask the people who run Docket to add a webhook for C&amp;1.")
        );
        let held = of(&frame(), 1, true);
        assert!(held.contains("has a mistake in its settings") && !held.contains("/new"), "{held}");
        let contact = Frame { role: Role::Contact("One".into()), ..frame() };
        assert!(of(&contact, 0, true).contains("href=\"/portal/webhooks/new\">Add a webhook</a>"));
        assert!(of(&contact, 0, false).contains("Ask the administrators of Acme to add a webhook."));
    }

    #[test]
    fn answer_about_a_customer_counts_its_webhooks() {
        let of = |active: &[bool], unserved| {
            let webhook = |active: &bool| CustomerWebhook {
                full_name: "a/x".into(),
                active: *active,
                takes: vec![EventCode::OrderCreated],
            };
            let webhooks = active.iter().map(webhook).collect();
            let (code, name, orders) = ("C-1".into(), "One".into(), Vec::new());
            of_customer(&CustomerAnswer { code, name, webhooks, unserved, orders })
        };
        assert_eq!(of(&[], 0), "One has no webhook, so nothing is sent");
        assert_eq!(of(&[], 1), "One has 1 unserved webhook, so nothing is sent");
        assert_eq!(of(&[false], 0), "One has 1 inactive webhook, so nothing is sent");
        assert_eq!(
            of(&[true, false], 2),
            "One has 1 active webhook and 1 inactive webhook and 2 unserved webhooks"
        );
        assert_eq!(of(&[true, true], 0), "One has 2 active webhooks");
    }
}
