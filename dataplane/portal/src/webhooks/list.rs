//! The list of the webhooks, first those that need attention.

use std::collections::BTreeSet;

use docket_domain::delivery::DeadLetter;
use maud::{Markup, html};

use super::{Done, ServedWebhook, done};
use crate::declared::{self, Faulty, Unserved};
use crate::page::{Frame, Section, webhook_link};
use crate::parts::{self, Head, Tone};
use crate::state::{self, WebhookState};
use crate::time::at;
use crate::{count, counted, href, page};

/// The number of webhooks on a page.
const PAGE: usize = 25;

docket_crds::words! {
    /// A state by which webhooks are chosen.
    pub enum StateFilter {
        /// The webhook is not served, its deliveries are lost or fail, or its settings have a problem.
        Attention = "attention",
        /// Deliveries are lost.
        Lost = "lost",
        /// Attempts fail.
        Failing = "failing",
        /// No delivery fails.
        Fine = "fine",
        /// The webhook gets no new events.
        Inactive = "inactive",
        /// The webhook is declared and not served.
        Unserved = "unserved",
    }
}

impl StateFilter {
    const fn label(self) -> &'static str {
        match self {
            Self::Attention => "Needs attention",
            Self::Lost => "Deliveries are lost",
            Self::Failing => "Attempts fail",
            Self::Fine => "No failure",
            Self::Inactive => "Inactive",
            Self::Unserved => "Not served",
        }
    }

    fn has(self, row: &Row<'_>) -> bool {
        let Row::Served(webhook) = row else { return matches!(self, Self::Attention | Self::Unserved) };
        match self {
            Self::Attention => webhook.state() != WebhookState::Fine,
            Self::Lost => webhook.dead_letter > 0,
            Self::Failing => webhook.retrying > 0,
            Self::Fine => !webhook.state().fails(),
            Self::Inactive => !webhook.settings.active,
            Self::Unserved => false,
        }
    }
}

/// Which webhooks are shown; the default shows the first page of all.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// A part of the name, the URL or the customer, in any case; empty: any.
    pub text: String,
    /// The state; `None`: any.
    pub state: Option<StateFilter>,
    /// The customer's code; empty: any.
    pub customer: String,
    /// The page, from 1; 0 is the first, too. A number after the last page is the last page.
    pub page: usize,
}

/// The page of the list.
#[derive(Debug, Clone)]
pub struct List {
    /// All served webhooks that the user may see.
    pub webhooks: Vec<ServedWebhook>,
    /// The webhooks that are declared and not served.
    pub unserved: Unserved,
    /// Which webhooks are shown.
    pub choice: Choice,
    /// Whether the portal can declare webhooks here.
    pub can_add: bool,
    /// What the user has just done.
    pub done: Option<Done>,
}

/// A webhook of the list.
#[derive(Debug, Clone, Copy)]
enum Row<'a> {
    Unserved(&'a Faulty),
    Served(&'a ServedWebhook),
}

impl Row<'_> {
    /// The order of the list: not served, then the worst state, inactive ones last, and by name.
    fn place(&self) -> (Option<WebhookState>, bool, String, String) {
        match self {
            Self::Unserved(faulty) => (None, false, faulty.full_name.to_lowercase(), String::new()),
            Self::Served(webhook) => (
                Some(webhook.state()),
                !webhook.settings.active,
                webhook.name().to_lowercase(),
                webhook.full_name.clone(),
            ),
        }
    }

    fn has_text(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let has = |value: &str| value.to_lowercase().contains(&text);
        match self {
            Self::Unserved(faulty) => has(&faulty.full_name),
            Self::Served(webhook) => {
                let settings = &webhook.settings;
                has(webhook.name())
                    || has(&webhook.full_name)
                    || has(&settings.target_url)
                    || has(&settings.customer_code)
                    || has(&webhook.customer_name)
            }
        }
    }

    fn is_of(&self, customer: &str) -> bool {
        matches!(self, Self::Served(webhook) if webhook.settings.customer_code == customer)
    }
}

impl List {
    /// The rows that were chosen, in their order.
    fn chosen(&self) -> Vec<Row<'_>> {
        let Choice { text, state, customer, .. } = &self.choice;
        let all = self.unserved.known.iter().map(Row::Unserved).chain(self.webhooks.iter().map(Row::Served));
        let is_chosen = |row: &Row<'_>| {
            (text.is_empty() || row.has_text(text))
                && state.is_none_or(|state| state.has(row))
                && (customer.is_empty() || row.is_of(customer))
        };
        let mut chosen: Vec<Row<'_>> = all.filter(is_chosen).collect();
        chosen.sort_by_cached_key(Row::place);
        chosen
    }

    /// A link to a page of the same choice.
    fn link(&self, page: usize) -> String {
        let Choice { text, state, customer, .. } = &self.choice;
        let (state, page) = (state.map_or("", StateFilter::as_str), page.to_string());
        href(
            Section::Webhooks.path(),
            [
                ("q", text.as_str()),
                ("state", state),
                ("customer", customer.as_str()),
                ("page", page.as_str()),
            ],
        )
    }
}

/// The page.
pub fn page(frame: &Frame, list: &List) -> String {
    let is_new = list.webhooks.is_empty() && list.unserved.is_none();
    let add = html! { a.button.primary href={ (Section::Webhooks.path()) "/new" } { "Add a webhook" } };
    let below = html! {
        @if list.can_add {
            "Where Docket sends " @if frame.is_of_tenant() { "the events of a customer." } @else { "your events." }
        }
        @else if frame.is_of_tenant() {
            "The portal only shows webhooks here. To add one, ask the people who run Docket; say the customer, the receiver's URL and the events."
        }
        @else { "Webhooks are set up by " (frame.tenant) ": ask its administrators to add or change one." }
    };
    let head = Head {
        title: html! { "Webhooks" },
        below: Some(below),
        actions: list.can_add.then_some(add),
        ..Head::default()
    };
    let faults = list.webhooks.iter().map(|webhook| (webhook.full_name.as_str(), &webhook.faults[..]));
    let main = html! {
        (parts::head(&head))
        (done(list.done))
        (declared::how_many_unserved(frame, &list.unserved))
        (declared::faulty(frame, faults))
        @if is_new { section.card aria-label="Webhooks" { (nothing_yet(frame, list)) } }
        @else { (card(frame, list)) }
    };
    page::page(frame, Section::Webhooks, "Webhooks", &main)
}

fn nothing_yet(frame: &Frame, list: &List) -> Markup {
    let why = html! {
        p {
            "A webhook sends "
            @if frame.is_of_tenant() { "the events of one customer to a receiver of theirs" } @else { "your events to a receiver of yours" }
            ", for example when an order is saved."
        }
        @if list.can_add { a.button href={ (Section::Webhooks.path()) "/new" } { "Add the first one" } }
    };
    parts::nothing("No webhook yet", &why)
}

fn card(frame: &Frame, list: &List) -> Markup {
    let chosen = list.chosen();
    let pages = chosen.len().div_ceil(PAGE).max(1);
    let number = list.choice.page.clamp(1, pages);
    let rows: Vec<Row<'_>> = chosen.iter().skip((number - 1) * PAGE).take(PAGE).copied().collect();
    let all = list.webhooks.len() + list.unserved.known.len();
    let beside = html! {
        span.quiet.small { @if chosen.len() < all { (chosen.len()) " of " } (counted(all as i64, "webhook")) }
    };
    let body = html! {
        (form(frame, list))
        @if rows.is_empty() {
            (parts::nothing("No webhook matches", &html! { a.button href=(Section::Webhooks.path()) { "Show all webhooks" } }))
        } @else {
            (table(frame, &rows))
        }
        @if pages > 1 {
            div.in {
                nav.row aria-label="Pages" {
                    @if number > 1 { a.button href=(list.link(number - 1)) rel="prev" { "Previous" } }
                    span.quiet { "Page " (number) " of " (pages) }
                    @if number < pages { a.button href=(list.link(number + 1)) rel="next" { "Next" } }
                }
            }
        }
    };
    parts::card("webhooks", "All webhooks", &beside, &body)
}

fn form(frame: &Frame, list: &List) -> Markup {
    let Choice { text, state, customer, .. } = &list.choice;
    let of =
        |webhook: &ServedWebhook| (webhook.customer_name.clone(), webhook.settings.customer_code.clone());
    let customers: BTreeSet<(String, String)> = list.webhooks.iter().map(of).collect();
    html! {
        form.filters method="get" action=(Section::Webhooks.path()) role="search" {
            label { "Name or URL" input type="search" name="q" value=(text) maxlength="128"; }
            label {
                "State"
                select name="state" {
                    option value="" { "Any" }
                    @for word in StateFilter::ALL { option value=(word.as_str()) selected[*state == Some(word)] { (word.label()) } }
                }
            }
            @if frame.is_of_tenant() && customers.len() > 1 {
                label {
                    "Customer"
                    select name="customer" {
                        option value="" { "Any" }
                        @for (name, code) in &customers {
                            option value=(code) selected[code == customer] { (name) @if name != code { " (" (code) ")" } }
                        }
                    }
                }
            }
            div.row {
                button type="submit" { "Filter" }
                a href=(Section::Webhooks.path()) { "Clear" }
            }
        }
    }
}

fn table(frame: &Frame, rows: &[Row<'_>]) -> Markup {
    let is_of_tenant = frame.is_of_tenant();
    let customer = is_of_tenant.then_some(("Customer", "wider"));
    let first = [("Webhook", ""), ("State", "")].into_iter().chain(customer);
    let rest = [("Receiver", "wider"), ("Lost", "num"), ("Last success", "wider")];
    let heads: Vec<(&str, &str)> = first.chain(rest).collect();
    let rows = html! {
        @for row in rows {
            @match row {
                Row::Unserved(faulty) => (unserved(faulty, heads.len())),
                Row::Served(webhook) => (served(frame, webhook)),
            }
        }
    };
    parts::table("Webhooks, those that need attention first", &heads, &rows)
}

/// A webhook that is not served: its reason is as wide as the other columns.
fn unserved(Faulty { full_name, faults }: &Faulty, columns: usize) -> Markup {
    html! {
        tr {
            th scope="row" {
                @if full_name.is_empty() { "Name not known" } @else { a href=(webhook_link(full_name)) { (full_name) } }
            }
            td { (parts::badge(Tone::Wait, "Not served")) }
            td.why colspan=(columns - 2) {
                @if faults.is_empty() { "The reason is not known here." }
                @for fault in faults { div { (fault) } }
            }
        }
    }
}

fn served(frame: &Frame, webhook: &ServedWebhook) -> Markup {
    let ServedWebhook { full_name, settings, customer_name, dead_letter, .. } = webhook;
    let lost = href(
        Section::Logs.path(),
        [("webhook", full_name.as_str()), ("deadLetter", DeadLetter::Open.as_str())],
    );
    html! {
        tr {
            th scope="row" { a href=(webhook_link(full_name)) { (webhook.name()) } }
            td { (state::badge(webhook.state(), settings.active)) }
            @if frame.is_of_tenant() {
                td.wider { (parts::customer(customer_name, &settings.customer_code)) }
            }
            td.wider { div.long tabindex="0" { (settings.target_url) } }
            td.num { @if *dead_letter > 0 { a href=(lost) { (count(*dead_letter)) } } @else { "0" } }
            td.wider { @match webhook.last_success_at { Some(last) => { (at(last)) } None => { "–" } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{contact, webhook};
    use super::*;
    use crate::logs::tests::frame;
    use crate::webhooks::FormSettings;

    fn named(name: &str, customer: &str, dead_letter: i64) -> ServedWebhook {
        ServedWebhook {
            full_name: format!("default/{name}"),
            settings: FormSettings {
                display_name: format!("The {name}"),
                customer_code: customer.into(),
                target_url: format!("https://{name}.example/"),
                active: name != "off",
                ..FormSettings::default()
            },
            customer_name: format!("Customer {customer}"),
            dead_letter,
            ..ServedWebhook::default()
        }
    }

    fn list(webhooks: Vec<ServedWebhook>, choice: Choice) -> List {
        let held = Faulty { full_name: "default/held".into(), faults: vec!["spec.x: bad".into()] };
        let unserved = Unserved { known: vec![held], may_be_more: false };
        List { webhooks, unserved, choice, can_add: true, done: None }
    }

    /// The names of the rows.
    fn rows(list: &List) -> Vec<String> {
        let name = |row: &Row<'_>| match row {
            Row::Unserved(faulty) => faulty.full_name.clone(),
            Row::Served(webhook) => webhook.name().to_owned(),
        };
        list.chosen().iter().map(name).collect()
    }

    #[test]
    fn what_needs_attention_is_first_then_the_name_decides() {
        let all =
            || vec![named("b", "C-1", 0), named("off", "C-2", 0), named("a", "C-2", 0), named("z", "C-1", 2)];
        let of = |choice| rows(&list(all(), choice));
        assert_eq!(of(Choice::default()), ["default/held", "The z", "The a", "The b", "The off"]);
        let state = |state| of(Choice { state: Some(state), ..Choice::default() });
        assert_eq!(state(StateFilter::Attention), ["default/held", "The z"]);
        assert_eq!(state(StateFilter::Lost), ["The z"]);
        assert_eq!(state(StateFilter::Failing), [""; 0]);
        assert_eq!(state(StateFilter::Fine), ["The a", "The b", "The off"]);
        assert_eq!(state(StateFilter::Inactive), ["The off"]);
        assert_eq!(state(StateFilter::Unserved), ["default/held"]);
        assert_eq!(of(Choice { customer: "C-2".into(), ..Choice::default() }), ["The a", "The off"]);
        assert_eq!(of(Choice { text: "Z.EXAMPLE".into(), ..Choice::default() }), ["The z"]);
        assert_eq!(of(Choice { text: "customer c-1".into(), ..Choice::default() }), ["The z", "The b"]);
    }

    #[test]
    fn a_page_has_25_webhooks_and_keeps_the_choice() {
        let many: Vec<ServedWebhook> =
            (0..60).map(|number| named(&format!("w{number:02}"), "C-1", 0)).collect();
        let of = |number| {
            let choice = Choice { text: "the".into(), page: number, ..Choice::default() };
            page(&frame(), &list(many.clone(), choice))
        };
        for (number, shown, other) in
            [(0, "The w00<", "The w25<"), (2, "The w25<", "The w24<"), (9, "The w59<", "The w49<")]
        {
            let text = of(number);
            assert!(text.contains(shown) && !text.contains(other), "{number}: {text}");
        }
        let text = of(2);
        assert!(text.contains("href=\"/portal/webhooks?q=the&amp;page=3\" rel=\"next\""), "{text}");
        assert!(text.contains("60 of 61 webhooks") && text.contains("Page 2 of 3"), "{text}");
    }

    #[test]
    fn lost_deliveries_are_counted_and_linked() {
        let text = page(&frame(), &list(vec![webhook()], Choice::default()));
        assert!(text.contains("/portal/logs?webhook=default%2Forders&amp;deadLetter=open\">3</a>"), "{text}");
        assert!(
            text.contains("1 webhook is declared and not served.") && text.contains(">spec.x: bad<"),
            "{text}"
        );
        let lost = ServedWebhook { dead_letter: 10_001, ..webhook() };
        assert!(page(&frame(), &list(vec![lost], Choice::default())).contains(">more than 10,000</a>"));
    }

    #[test]
    fn contact_sees_no_other_customer_and_no_word_of_yaml() {
        let closed = List {
            can_add: false,
            ..list(vec![named("a", "C-1", 0), named("b", "C-2", 0)], Choice::default())
        };
        let text = page(&contact(), &closed);
        assert!(!text.contains("YAML") && !text.contains("name=\"customer\""), "{text}");
        assert!(text.contains("set up by Acme"), "{text}");
        assert!(page(&frame(), &closed).contains("ask the people who run Docket; say the customer"));
    }

    #[test]
    fn empty_list_says_what_a_webhook_is_and_an_empty_choice_how_to_leave_it() {
        let none = List { unserved: Unserved::default(), ..list(Vec::new(), Choice::default()) };
        let text = page(&frame(), &none);
        assert!(text.contains("No webhook yet") && text.contains("Add the first one"), "{text}");
        let choice = Choice { text: "nothing like it".into(), ..Choice::default() };
        assert!(page(&frame(), &list(vec![webhook()], choice)).contains("No webhook matches"));
    }
}
