//! Problems of webhooks' settings, by name: webhooks that are not served, and webhooks that are probably not
//! served as intended.

use maud::{Markup, html};

use crate::page::Frame;

/// How many webhooks a page lists.
const LISTED: usize = 20;

/// A webhook with the problems of its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faulty {
    /// `namespace/name`; empty if unknown.
    pub full_name: String,
    /// The problems, as sentences that begin with the field.
    pub faults: Vec<String>,
}

/// The webhooks that are declared and not served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unserved {
    /// The webhooks whose names are known.
    pub known: Vec<Faulty>,
    /// Whether there may be further webhooks.
    pub may_be_more: bool,
}

impl Unserved {
    /// Whether it is certain that every webhook is served.
    pub const fn is_none(&self) -> bool {
        self.known.is_empty() && !self.may_be_more
    }
}

/// Names the webhooks that are not served, and says why.
pub fn unserved(frame: &Frame, unserved: &Unserved) -> Markup {
    notice(frame, unserved, &list(&unserved.known, |name| html! { (name) }))
}

/// Says how many webhooks are not served, on a page that lists them.
pub(crate) fn how_many_unserved(frame: &Frame, unserved: &Unserved) -> Markup {
    notice(frame, unserved, &html! {})
}

fn notice(frame: &Frame, unserved: &Unserved, names: &Markup) -> Markup {
    let Unserved { known, may_be_more } = unserved;
    html! {
        @if !unserved.is_none() {
            div.look {
                p { strong {
                    @match (known.len(), may_be_more) {
                        (_, true) => "Some webhooks may be declared and not served.",
                        (1, _) => "1 webhook is declared and not served.",
                        (count, _) => { (count) " webhooks are declared and not served." }
                    }
                } }
                (names)
                p { "What is queued for them waits until they are served. " (whom_to_ask(frame)) }
            }
        }
    }
}

/// Whom to ask about a webhook that is not served.
pub(crate) fn whom_to_ask(frame: &Frame) -> Markup {
    html! {
        @if frame.is_of_tenant() { "Ask the people who run Docket: the conditions of the Webhook object and the log say more." }
        @else { "Ask the administrators of " (frame.tenant) "." }
    }
}

/// Names the served webhooks whose settings look like a mistake, or are not in effect as they are written now. `webhooks`: the names and
/// problems of all webhooks, also of those without a problem.
pub(crate) fn faulty<'a>(frame: &Frame, webhooks: impl Iterator<Item = (&'a str, &'a [String])>) -> Markup {
    let faulty: Vec<Faulty> = webhooks
        .filter(|(_, faults)| !faults.is_empty())
        .map(|(name, faults)| Faulty { full_name: name.to_owned(), faults: faults.to_vec() })
        .collect();
    html! {
        @if !faulty.is_empty() {
            div.look {
                p { strong {
                    @match faulty.len() {
                        1 => "The settings of 1 webhook have a problem.",
                        count => { "The settings of " (count) " webhooks have a problem." }
                    }
                } }
                (list(&faulty, |name| frame.webhook(name)))
            }
        }
    }
}

fn list(webhooks: &[Faulty], shown: impl Fn(&str) -> Markup) -> Markup {
    let rest = webhooks.len().saturating_sub(LISTED);
    html! {
        ul {
            @for Faulty { full_name, faults } in webhooks.iter().take(LISTED) {
                li {
                    @if full_name.is_empty() { "A webhook whose name is not known" } @else { strong { (shown(full_name)) } }
                    @match &faults[..] {
                        [] => {}
                        [fault] => { ": " (fault) }
                        faults => { ":" ul { @for fault in faults { li { (fault) } } } }
                    }
                }
            }
            @if rest > 0 { li { "and " (rest) " more" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    fn faulty_of(names: impl IntoIterator<Item = &'static str>) -> Vec<Faulty> {
        let faulty = |name: &str| Faulty { full_name: name.to_owned(), faults: vec!["<b>".to_owned()] };
        names.into_iter().map(faulty).collect()
    }

    fn said(known: Vec<Faulty>, may_be_more: bool) -> String {
        unserved(&frame(), &Unserved { known, may_be_more }).into_string()
    }

    #[test]
    fn twenty_webhooks_that_are_not_served_are_named_and_the_others_counted() {
        assert_eq!(said(Vec::new(), false), "");
        assert!(said(Vec::new(), true).contains("Some webhooks may be declared and not served."));
        let one = said(faulty_of(["a/b"]), false);
        assert!(
            one.contains("1 webhook is declared") && one.contains("<strong>a/b</strong>: &lt;b&gt;"),
            "{one}"
        );
        assert!(said(faulty_of([""]), false).contains("A webhook whose name is not known"));
        let of = |count: usize| said(faulty_of(std::iter::repeat_n("a/b", count)), false);
        assert!(!of(20).contains(" more</li>") && of(20).contains("20 webhooks are declared"), "{}", of(20));
        assert!(of(21).contains("<li>and 1 more</li>"), "{}", of(21));
        assert_eq!(of(21).matches("<strong>a/b</strong>").count(), 20);
    }

    #[test]
    fn webhook_without_a_fault_has_no_problem() {
        let fault = ["Wrong.".to_owned()];
        let said =
            |faults: [&[String]; 2]| faulty(&frame(), ["a/b", "a/c"].into_iter().zip(faults)).into_string();
        assert_eq!(said([&[], &[]]), "");
        let one = said([&fault, &[]]);
        assert!(one.contains("The settings of 1 webhook have") && !one.contains("a/c"), "{one}");
        assert!(said([&fault, &fault]).contains("The settings of 2 webhooks have"));
    }
}
