//! The answer in one sentence: what became of what was asked for, or why nothing was sent.

use std::collections::BTreeSet;

use docket_domain::delivery::Status;
use docket_domain::trace::{TraceKind, WhyNot};
use jiff::{SignedDuration, Timestamp};

use super::{Chain, EventView, Missed};
use crate::logs::Delivery;

/// The age from which the events of an order may have been deleted, because their deliveries ended long ago.
const OLD: SignedDuration = SignedDuration::from_hours(24);

/// The answer in one sentence, and when it happened.
pub(super) fn headline(chain: &Chain, now: Timestamp) -> (String, Option<Timestamp>) {
    let what = match chain.kind {
        TraceKind::Event | TraceKind::Delivery => "The event".to_owned(),
        TraceKind::WebOrder | TraceKind::WorkOrder | TraceKind::Invoice | TraceKind::Customer => {
            format!("{} {}", capitalized(chain.kind.name()), chain.id)
        }
    };
    let all: Vec<&Delivery> =
        chain.events.iter().flat_map(|event| &event.sent).map(|sent| &sent.latest).collect();
    if all.is_empty() {
        return (unsent(chain, now), None);
    }
    let with = |status: Status| all.iter().filter(move |one| one.status == status);
    let names: BTreeSet<&str> = all.iter().map(|one| one.webhook.as_str()).collect();
    let late: BTreeSet<&str> =
        all.iter().filter(|one| one.status != Status::Succeeded).map(|one| one.webhook.as_str()).collect();
    let missed: BTreeSet<&str> = chain
        .events
        .iter()
        .flat_map(|event| event.missed.iter().flatten())
        .filter(|missed| missed.added_at.is_none())
        .filter_map(|missed| missed.webhook.as_deref())
        .filter(|name| !names.contains(name))
        .collect();
    let more = chain.events.iter().map(|event| event.more).max().unwrap_or_default();
    let (total, reached) = (names.len() + missed.len() + more, names.len() - late.len());
    let lost = with(Status::DeadLetter).filter(|one| one.set_aside.is_none()).count();
    let (retried, waiting) = (with(Status::Failed).count(), with(Status::Pending).count());
    let mut rest = Vec::new();
    for (count, then) in [(lost, "lost"), (retried, "tried again"), (waiting, "waiting")] {
        let are = if count == 1 { "delivery is" } else { "deliveries are" };
        rest.extend((count > 0).then(|| format!("{count} {are} {then}")));
    }
    let rest = if rest.is_empty() { String::new() } else { format!(": {}", rest.join(", ")) };
    match (&all[..], reached, total) {
        ([one], 1, 1) => (format!("{what} was delivered"), one.finished_at),
        (_, 1, 1) => (format!("{what} reached its webhook"), None),
        (_, reached, total) if reached == total => (format!("{what} reached all {total} webhooks"), None),
        (_, 0, 1) => (format!("{what} did not reach its webhook{rest}"), None),
        (_, reached, total) => (format!("{what} reached {reached} of {total} webhooks{rest}"), None),
    }
}

pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The answer if there is no delivery.
fn unsent(chain: &Chain, now: Timestamp) -> String {
    let what = format!("{} {}", chain.kind.name(), chain.id);
    if let Some(new) = chain.invoices.iter().find(|invoice| invoice.detected_at.is_none()) {
        return match new.has_work_order {
            true => format!("Nothing was sent for {what} yet: Docket has not seen the invoice yet"),
            false => format!(
                "Nothing was sent for {what}: it waits for work order {}, which does not exist",
                new.work_order
            ),
        };
    }
    let Some(event) = chain.events.first() else {
        return format!("Nothing was sent for {what}: nothing has happened that is an event");
    };
    let is_old = now.duration_since(event.at) > OLD;
    let nothing = if is_old { "No delivery is recorded" } else { "Nothing was sent" };
    format!("{nothing} for {what}: {}", why(event))
}

/// Why no webhook has a delivery of an event: the reasons that all webhooks have.
fn why(event: &EventView) -> String {
    let code = &event.code;
    let Some(all) = &event.missed else { return "the reason is not known".to_owned() };
    let missed: Vec<&Missed> = all.iter().filter(|missed| missed.added_at.is_none()).collect();
    let webhooks = match missed.len() + event.more {
        0 if !all.is_empty() => return "its customer had no webhook yet".to_owned(),
        0 => return "its customer has no webhook now".to_owned(),
        1 => "its customer's webhook".to_owned(),
        count => format!("its customer's {count} webhooks"),
    };
    let is_one = missed.len() + event.more == 1;
    let verb = |one: &'static str, many: &'static str| if is_one { one } else { many };
    // What concerns the whole tenant, and what the webhooks have done.
    let (mut of_tenant, mut own) = (Vec::new(), Vec::new());
    let is_common = |reason: &&WhyNot| missed.iter().all(|missed| missed.reasons.contains(reason));
    for reason in missed.first().into_iter().flat_map(|first| &first.reasons).filter(is_common) {
        match reason {
            WhyNot::Inactive => own.push(format!("{} inactive now", verb("is", "are"))),
            WhyNot::NotServed => own.push(format!(
                "{} settings with a mistake and {} not served",
                verb("has", "have"),
                verb("is", "are")
            )),
            WhyNot::NotSubscribed => {
                own.push(format!("{} not subscribe to {code} now", verb("does", "do")));
            }
            WhyNot::EventOff => of_tenant.push(format!("{code} is switched off for the tenant now")),
            WhyNot::TenantSuspended => of_tenant.push("the tenant is suspended".to_owned()),
            WhyNot::ChangedSince => of_tenant.push("no webhook got it at that time".to_owned()),
            WhyNot::Unreadable => of_tenant.push("it may have webhooks that are not served".to_owned()),
            WhyNot::OtherCustomer | WhyNot::TestOfAnother => {}
        }
    }
    if !own.is_empty() {
        of_tenant.push(format!("{webhooks} {}", own.join(" and ")));
    }
    if of_tenant.is_empty() { format!("none of {webhooks} got it") } else { of_tenant.join(", and ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;
    use crate::trace::tests::{at_second, chain, event, missed, said, sent};

    #[test]
    fn headline_says_what_became_of_an_order() {
        use Status::{DeadLetter, Failed, Pending, Succeeded};
        let off = || vec![missed("a/off", WhyNot::Inactive)];
        for (sent, missed, expected) in [
            (vec![sent("a/1", Succeeded)], Vec::new(), "Web order W1 was delivered"),
            (vec![sent("a/1", Succeeded)], off(), "Web order W1 reached 1 of 2 webhooks"),
            (
                vec![sent("a/1", Succeeded), sent("a/2", Succeeded)],
                Vec::new(),
                "Web order W1 reached all 2 webhooks",
            ),
            (
                vec![sent("a/1", DeadLetter)],
                Vec::new(),
                "Web order W1 did not reach its webhook: 1 delivery is lost",
            ),
            (
                vec![sent("a/1", Failed), sent("a/2", Failed), sent("a/3", Pending)],
                Vec::new(),
                "Web order W1 reached 0 of 3 webhooks: 2 deliveries are tried again, 1 delivery is waiting",
            ),
        ] {
            assert_eq!(said(vec![event(sent, missed)]), expected);
        }
        let twice = || event(vec![sent("a/1", Succeeded)], Vec::new());
        assert_eq!(said(vec![twice(), twice()]), "Web order W1 reached its webhook");
        let (_, when) = headline(&chain(vec![twice()]), frame().now);
        assert_eq!(when, Some(at_second(1_800_000_060)));
    }

    #[test]
    fn headline_says_why_nothing_was_sent() {
        let all = |reasons: &[WhyNot]| {
            let missed = reasons.iter().map(|reason| missed("a/x", *reason)).collect();
            said(vec![event(Vec::new(), missed)])
        };
        for (reasons, expected) in [
            (&[][..], "its customer has no webhook now"),
            (&[WhyNot::Inactive], "its customer's webhook is inactive now"),
            (&[WhyNot::Inactive; 2], "its customer's 2 webhooks are inactive now"),
            (&[WhyNot::NotServed], "its customer's webhook has settings with a mistake and is not served"),
            (&[WhyNot::NotSubscribed], "its customer's webhook does not subscribe to order.created now"),
            (&[WhyNot::EventOff; 2], "order.created is switched off for the tenant now"),
            (&[WhyNot::ChangedSince], "no webhook got it at that time"),
            (&[WhyNot::Inactive, WhyNot::NotServed], "none of its customer's 2 webhooks got it"),
        ] {
            assert_eq!(all(reasons), format!("Nothing was sent for web order W1: {expected}"));
        }
        let old = EventView { at: at_second(1_700_000_000), ..event(Vec::new(), Vec::new()) };
        assert_eq!(
            said(vec![old]),
            "No delivery is recorded for web order W1: its customer has no webhook now",
            "its deliveries may have been deleted"
        );
        assert!(said(Vec::new()).ends_with("nothing has happened that is an event"));
    }

    #[test]
    fn headline_names_all_reasons_that_all_webhooks_have() {
        use WhyNot::{EventOff, Inactive, NotSubscribed};
        let all = |of: &[&[WhyNot]]| {
            let missed =
                |reasons: &&[WhyNot]| Missed { reasons: reasons.to_vec(), ..missed("a/x", reasons[0]) };
            said(vec![event(Vec::new(), of.iter().map(missed).collect())])
        };
        for (of, expected) in [
            (
                &[&[Inactive, NotSubscribed][..]][..],
                "its customer's webhook is inactive now and does not subscribe to order.created now",
            ),
            (
                &[&[EventOff, Inactive]],
                "order.created is switched off for the tenant now, and its customer's webhook is inactive now",
            ),
            (
                &[&[Inactive, NotSubscribed], &[NotSubscribed]],
                "its customer's 2 webhooks do not subscribe to order.created now",
            ),
        ] {
            assert_eq!(all(of), format!("Nothing was sent for web order W1: {expected}"));
        }
    }
}
