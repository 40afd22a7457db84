//! What a trace follows, and why a webhook has no delivery of an event.

use docket_crds::{EventCode, WebhookConfig};

docket_crds::words! {
    /// The kind of what a trace follows. The word is part of addresses.
    pub enum TraceKind {
        /// What a client saved.
        WebOrder = "web-order",
        /// What an export made, or the back office.
        WorkOrder = "work-order",
        /// An invoice of the back office.
        Invoice = "invoice",
        /// A published event.
        Event = "event",
        /// One event to one webhook.
        Delivery = "delivery",
        /// A firm of the tenant.
        Customer = "customer",
    }
}

impl TraceKind {
    /// The kind in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebOrder => "web order",
            Self::WorkOrder => "work order",
            Self::Invoice => "invoice",
            Self::Event => "event",
            Self::Delivery => "delivery",
            Self::Customer => "customer",
        }
    }
}

docket_crds::words! {
    /// Why a webhook has no delivery of an event, as far as the webhook's state now shows. The state at the time of the event is not
    /// recorded.
    pub enum WhyNot {
        /// The webhook belongs to another customer.
        OtherCustomer,
        /// The event was published to test another webhook.
        TestOfAnother,
        /// The webhook is declared with a mistake, so it is not served.
        NotServed,
        /// A part of the declarations cannot be read, so further webhooks may be declared and not served.
        Unreadable,
        /// The tenant is suspended.
        TenantSuspended,
        /// The event is switched off for the tenant.
        EventOff,
        /// The webhook is inactive.
        Inactive,
        /// The webhook subscribes to other events.
        NotSubscribed,
        /// The webhook would get the event now, so it has changed since, or its delivery was deleted.
        ChangedSince,
    }
}

impl WhyNot {
    /// The reason as a sentence without its full stop. `event`: the code of the event.
    pub fn sentence(self, event: &str) -> String {
        let text = match self {
            Self::OtherCustomer => "it belongs to another customer",
            Self::TestOfAnother => "the event tests another webhook",
            Self::NotServed => "its settings have a mistake, so it is not served now",
            Self::Unreadable => {
                "a part of the settings cannot be read now, so there may be further webhooks that are not served"
            }
            Self::TenantSuspended => "the tenant is suspended now, so no event is published",
            Self::EventOff => return format!("{event} is switched off for the tenant now"),
            Self::Inactive => "it is inactive now",
            Self::NotSubscribed => return format!("it does not subscribe to {event} now"),
            Self::ChangedSince => {
                "it would get the event now; it was added, activated or subscribed later, or its delivery was deleted because of its age"
            }
        };
        text.to_owned()
    }

    /// Several reasons as a sentence without its full stop. `event`: the code of the event.
    pub fn sentences(reasons: &[Self], event: &str) -> String {
        let all: Vec<String> = reasons.iter().map(|reason| reason.sentence(event)).collect();
        all.join(", and ")
    }
}

/// What decides which webhooks get an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventFacts<'a> {
    /// The event's code.
    pub code: EventCode,
    /// The customer that owns the event.
    pub customer_code: &'a str,
    /// Whether the event was published to test one webhook.
    pub is_test: bool,
    /// Whether the event is active in the tenant's catalogue now.
    pub is_on: bool,
    /// Whether the tenant is suspended now.
    pub is_suspended: bool,
}

/// Returns why a webhook has no delivery of an event: all reasons, first the reason to remove first; at least one. `webhook`: as it is
/// served; `None`: it is declared and not served.
pub fn why_not(webhook: Option<&WebhookConfig>, event: &EventFacts<'_>) -> Vec<WhyNot> {
    if webhook.is_some_and(|webhook| webhook.customer_code.as_str() != event.customer_code) {
        return vec![WhyNot::OtherCustomer];
    }
    if event.is_test {
        return vec![WhyNot::TestOfAnother];
    }
    let all = [
        (webhook.is_none(), WhyNot::NotServed),
        (event.is_suspended, WhyNot::TenantSuspended),
        (!event.is_on, WhyNot::EventOff),
        (webhook.is_some_and(|webhook| !webhook.active), WhyNot::Inactive),
        (webhook.is_some_and(|webhook| !webhook.events.contains(&event.code)), WhyNot::NotSubscribed),
    ];
    let mut reasons: Vec<WhyNot> =
        all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, reason)| reason).collect();
    if reasons.is_empty() {
        reasons.push(WhyNot::ChangedSince);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(customer: &str, active: bool, events: &[&str]) -> WebhookConfig {
        let webhook = serde_json::json!({"uid": "w", "namespace": "a", "name": "w", "displayName": null, "customerCode": customer,
            "targetUrl": "https://h.example/", "secret": null, "caBundle": null, "events": events, "active": active});
        serde_json::from_value(webhook).expect("a webhook")
    }

    #[test]
    fn all_reasons_are_found_and_the_first_to_remove_is_first() {
        let event = EventFacts {
            code: EventCode::OrderCreated,
            customer_code: "C-1",
            is_test: false,
            is_on: true,
            is_suspended: false,
        };
        let (taken, other) = (&["order.created"][..], &["note.created"][..]);
        let of = |customer, active, events, event: EventFacts<'_>| {
            why_not(Some(&webhook(customer, active, events)), &event)
        };
        let test = EventFacts { is_test: true, ..event };
        let off = EventFacts { is_on: false, ..event };
        let suspended = EventFacts { is_suspended: true, ..off };
        let own = [WhyNot::Inactive, WhyNot::NotSubscribed];
        let of_all = [WhyNot::TenantSuspended, WhyNot::EventOff];
        for (found, expected) in [
            (of("C-2", false, other, suspended), &[WhyNot::OtherCustomer][..]),
            (of("C-1", true, taken, test), &[WhyNot::TestOfAnother]),
            (why_not(None, &suspended), &[WhyNot::NotServed, of_all[0], of_all[1]]),
            (why_not(None, &event), &[WhyNot::NotServed]),
            (why_not(None, &test), &[WhyNot::TestOfAnother]),
            (of("C-1", false, other, suspended), &[of_all[0], of_all[1], own[0], own[1]]),
            (of("C-1", true, taken, off), &[WhyNot::EventOff]),
            (of("C-1", false, other, event), &own),
            (of("C-1", false, taken, event), &[WhyNot::Inactive]),
            (of("C-1", true, other, event), &[WhyNot::NotSubscribed]),
            (of("C-1", true, taken, event), &[WhyNot::ChangedSince]),
        ] {
            assert_eq!(found, expected);
        }
        assert_eq!(
            WhyNot::sentences(&own, "order.created"),
            "it is inactive now, and it does not subscribe to order.created now"
        );
    }

    #[test]
    fn each_reason_has_a_sentence_of_its_own() {
        let mut texts: Vec<String> =
            WhyNot::ALL.into_iter().map(|reason| reason.sentence("order.created")).collect();
        assert!(texts.iter().all(|text| !text.ends_with('.') && !text.contains("spec.")), "{texts:?}");
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), WhyNot::ALL.len());
    }
}
