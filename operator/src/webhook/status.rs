//! Pure: the content of a Webhook's status.

use docket_crds::conditions::{ConditionType, ReasonCode};
use docket_crds::status::DeliveryStatus;
use docket_crds::{Reason, WebhookStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::state::conditions::{self, NewCondition, Summary, Truth};
use crate::state::declared::Meta;
use crate::state::health::{Health, Reported};
use crate::state::object_event::ObjectEvent;
use crate::state::outcome::WebhookOutcome;

/// The facts for the status after a pass.
#[derive(Debug)]
pub struct WebhookFacts<'a> {
    /// The Webhook's metadata.
    pub meta: &'a Meta,
    /// The outcome from its Tenant's pass.
    pub outcome: &'a WebhookOutcome,
    /// The health of its deliveries; `None`: the data plane has not reported it.
    pub health: Option<Reported>,
    /// Whether the data plane's reports can be read.
    pub observed: bool,
    /// Whether the Webhook's target URL has a private address as its host.
    pub is_private: bool,
}

/// The status after a pass.
pub fn status(facts: &WebhookFacts<'_>, previous: &WebhookStatus, now: Timestamp) -> WebhookStatus {
    let WebhookFacts { meta, outcome, health, observed, is_private } = facts;
    let accepted = accepted(outcome, *is_private);
    let is_accepted = accepted.truth == Truth::True;
    let mut verdicts = vec![accepted];
    if is_accepted || outcome.tenant_suspended {
        verdicts.push(resolved_refs(outcome));
    }
    verdicts.push(programmed(outcome, previous, meta.generation));
    let last_success = last_success(health.map(|reported| reported.health), previous);
    let before = conditions::find(&previous.conditions, ConditionType::DeliveryHealthy);
    match health {
        Some(reported) => verdicts.push(delivery_healthy(&reported.health, last_success.is_some())),
        None if *observed && before.is_none() => verdicts.push(delivery_healthy(&Health::default(), false)),
        None => {}
    }
    let arrives = |reason| conditions::on_its_way(&previous.conditions, reason, meta.generation, now);
    let mut summary = Summary::of(verdicts, "the webhook is served as declared", None, arrives);
    if outcome.served && summary.ready.truth != Truth::True && !outcome.reasons.is_empty() {
        summary.ready.message.push_str("; the last good configuration stays served");
    }
    let mut conditions = summary.conditions(&previous.conditions, meta.generation, now);
    let deliveries = deliveries(health.as_ref(), previous, &conditions);
    if health.is_none() && !summary.has(ConditionType::DeliveryHealthy) {
        // The health is not reported now, so the previous condition stays, in its place.
        let last = [ConditionType::Reconciling, ConditionType::Stalled].map(ConditionType::as_str);
        let place = conditions.iter().position(|one| last.contains(&one.type_.as_str()));
        let place = place.unwrap_or(conditions.len());
        conditions.splice(place..place, before.cloned());
    }
    WebhookStatus {
        observed_generation: Some(meta.generation),
        last_handled_reconcile_at: meta.requested_at.clone(),
        signed: Some(outcome.signed),
        secret_version: outcome.secret_version.clone(),
        deliveries,
        conditions,
    }
}

/// The Events to publish with a status.
pub fn events(previous: &WebhookStatus, status: &WebhookStatus) -> Vec<ObjectEvent> {
    let kinds = [ConditionType::Ready, ConditionType::DeliveryHealthy].into_iter();
    let event = |kind| conditions::event_of(kind, &previous.conditions, &status.conditions, false);
    kinds.filter_map(event).collect()
}

/// The status of a paused object. It is about this generation: there is nothing to wait for.
pub fn paused(meta: &Meta, previous: &WebhookStatus, now: Timestamp) -> WebhookStatus {
    let conditions = conditions::paused(&previous.conditions, meta.generation, now);
    WebhookStatus { observed_generation: Some(meta.generation), conditions, ..previous.clone() }
}

/// Whether the Webhook is valid, and its Tenant takes it and is active.
fn accepted(outcome: &WebhookOutcome, is_private: bool) -> NewCondition {
    // The data plane has its own setting for addresses that it may reach, so a private address is only worth a note.
    let valid = match is_private {
        false => "valid, and its Tenant allows it",
        true => {
            "valid, and its Tenant allows it; spec.targetURL is a private address, which the data plane reaches only \
             if its --allow-egress includes it"
        }
    };
    let accepted = verdict(outcome, ConditionType::Accepted, (ReasonCode::Accepted, valid));
    if outcome.tenant_suspended && accepted.truth == Truth::True {
        let message = "its Tenant has spec.suspend: true, so no new deliveries are created";
        return NewCondition::new(
            ConditionType::Accepted,
            Truth::False,
            ReasonCode::TenantSuspended,
            message,
        );
    }
    accepted
}

/// Whether everything to which the Webhook refers is usable.
fn resolved_refs(outcome: &WebhookOutcome) -> NewCondition {
    let usable = "every referenced Secret and ConfigMap exists and is usable";
    let usable = match &outcome.warning {
        None => usable.to_owned(),
        Some(warning) => format!("{usable}; {warning}"),
    };
    verdict(outcome, ConditionType::ResolvedRefs, (ReasonCode::ResolvedRefs, &usable))
}

/// The verdict of a condition by the outcome's reasons of its type; `good`: without such reasons.
fn verdict(outcome: &WebhookOutcome, kind: ConditionType, good: (ReasonCode, &str)) -> NewCondition {
    let reasons: Vec<&Reason> =
        outcome.reasons.iter().filter(|reason| reason.code.condition() == kind).collect();
    NewCondition::of_reasons(kind, &reasons, good)
}

fn programmed(outcome: &WebhookOutcome, previous: &WebhookStatus, generation: i64) -> NewCondition {
    let pending =
        |message| NewCondition::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, message);
    match &outcome.programmed {
        _ if !outcome.served && !outcome.reasons.is_empty() => {
            pending("not served; see the other conditions")
        }
        Some(known) if outcome.served => known.verdict(&previous.conditions, generation),
        _ => pending("its Tenant is not served; see the Tenant's conditions"),
    }
}

/// Whether the receiver accepts deliveries.
fn delivery_healthy(health: &Health, has_succeeded: bool) -> NewCondition {
    let customer = match health.lacks_customer {
        true => {
            "; spec.customerCode: the tenant has no customer with this code, so no new event is sent; add the customer, or declare \
             the Webhook again for one that exists"
        }
        false => "",
    };
    let verdict = |truth, reason, message: &str| {
        NewCondition::new(ConditionType::DeliveryHealthy, truth, reason, format!("{message}{customer}"))
    };
    if health.retrying > 0 {
        let message = "the last attempt of one or more deliveries failed; they are retried";
        verdict(Truth::False, ReasonCode::Retrying, message)
    } else if health.failing || !has_succeeded && health.dead_letter > 0 {
        let message = "deliveries ended after their last attempt, and none has succeeded since; \
                       `docket deliveries list` shows why, `docket resend` sends them again";
        verdict(Truth::False, ReasonCode::DeadLettered, message)
    } else if !has_succeeded {
        verdict(Truth::Unknown, ReasonCode::NoDeliveries, "nothing has been sent yet")
    } else {
        verdict(Truth::True, ReasonCode::Delivering, "the receiver accepted the last delivery")
    }
}

/// When the receiver last accepted a delivery. The data plane reports only recent deliveries, so the previous status
/// still counts.
fn last_success(health: Option<Health>, previous: &WebhookStatus) -> Option<Time> {
    let now = health.and_then(|health| Timestamp::from_second(health.last_success_at_ms? / 1000).ok());
    let before = previous.deliveries.as_ref().and_then(|deliveries| deliveries.last_success_at.as_ref());
    now.max(before.map(|before| before.0)).map(Time)
}

/// The counts that belong to `conditions`. After a start, the previous counts stay, unless the condition has changed.
fn deliveries(
    reported: Option<&Reported>,
    previous: &WebhookStatus,
    conditions: &[Condition],
) -> Option<DeliveryStatus> {
    let Some(Reported { health, is_first }) = reported else { return previous.deliveries.clone() };
    let reason =
        |conditions| conditions::find(conditions, ConditionType::DeliveryHealthy).map(|found| &found.reason);
    if *is_first && previous.deliveries.is_some() && reason(conditions) == reason(&previous.conditions) {
        return previous.deliveries.clone();
    }
    Some(DeliveryStatus {
        pending: health.pending,
        dead_letter: health.dead_letter,
        last_success_at: last_success(Some(*health), previous),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::name::Name;
    use crate::state::pods::Programmed;

    fn after(health: Option<Health>, observed: bool, previous: &WebhookStatus) -> WebhookStatus {
        let reported = health.map(|health| Reported { health, is_first: false });
        after_reading(reported, observed, previous, Timestamp::UNIX_EPOCH)
    }

    fn after_reading(
        health: Option<Reported>,
        observed: bool,
        previous: &WebhookStatus,
        now: Timestamp,
    ) -> WebhookStatus {
        let (meta, outcome) = passed();
        let facts = WebhookFacts { meta: &meta, outcome: &outcome, health, observed, is_private: true };
        status(&facts, previous, now)
    }

    /// A Webhook, and the outcome of a pass over its Tenant that found nothing wrong.
    fn passed() -> (Meta, WebhookOutcome) {
        let object = serde_json::json!({"metadata": {"name": "w", "namespace": "a", "uid": "u"}});
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        let meta = Meta::of(&object.metadata).unwrap();
        assert_eq!(meta.name, Name::new("a", "w"));
        let outcome = WebhookOutcome {
            webhook: meta.name.clone(),
            uid: meta.uid.clone(),
            generation: 1,
            reasons: Vec::new(),
            served: true,
            signed: false,
            secret_version: None,
            warning: None,
            tenant_suspended: false,
            programmed: None,
        };
        (meta, outcome)
    }

    #[test]
    fn outcome_of_the_tenants_pass_decides_what_is_reported() {
        let (meta, passed) = passed();
        let good = NewCondition::new(ConditionType::Programmed, Truth::True, ReasonCode::Programmed, "");
        let well = WebhookOutcome { programmed: Some(Programmed::Known(good)), ..passed };
        let of = |outcome: &WebhookOutcome| {
            let facts =
                WebhookFacts { meta: &meta, outcome, health: None, observed: false, is_private: false };
            let status = status(&facts, &WebhookStatus::default(), Timestamp::UNIX_EPOCH);
            let shown = |one: &Condition| format!("{} {} {}", one.type_, one.status, one.reason);
            let keeps = status.conditions[0].message.ends_with("; the last good configuration stays served");
            (status.conditions.iter().map(shown).collect::<Vec<_>>(), keeps)
        };
        let all = |ready: &str, others: &[&str]| -> Vec<String> {
            std::iter::once(&ready).chain(others).map(|one| (*one).to_owned()).collect()
        };
        let (resolved, programmed) = ("ResolvedRefs True ResolvedRefs", "Programmed True Programmed");
        let usual = ["Accepted True Accepted", resolved, programmed];
        assert_eq!(of(&well), (all("Ready True Ready", &usual), false));
        let suspended = WebhookOutcome { tenant_suspended: true, ..well.clone() };
        let others = ["Accepted False TenantSuspended", resolved, programmed];
        assert_eq!(of(&suspended), (all("Ready False TenantSuspended", &others), false), "it is a choice");
        let because = |code| vec![Reason { code, field: String::new(), message: "why".into() }];
        let last_good = WebhookOutcome { reasons: because(ReasonCode::SecretInvalid), ..well.clone() };
        let wrong = "ResolvedRefs False SecretInvalid";
        let others = ["Accepted True Accepted", wrong, programmed, "Stalled True SecretInvalid"];
        assert_eq!(of(&last_good), (all("Ready False SecretInvalid", &others), true));
        let never = WebhookOutcome { served: false, programmed: None, ..last_good };
        let others =
            ["Accepted True Accepted", wrong, "Programmed False Pending", "Stalled True SecretInvalid"];
        assert_eq!(of(&never), (all("Ready False SecretInvalid", &others), false));
        let refused = WebhookOutcome { reasons: because(ReasonCode::InvalidSpec), ..never };
        let others = ["Accepted False InvalidSpec", "Programmed False Pending", "Stalled True InvalidSpec"];
        assert_eq!(of(&refused), (all("Ready False InvalidSpec", &others), false), "nothing was resolved");
    }

    fn health_reason(status: &WebhookStatus) -> Option<&str> {
        conditions::find(&status.conditions, ConditionType::DeliveryHealthy)
            .map(|found| found.reason.as_str())
    }

    #[test]
    fn reported_success_is_not_forgotten() {
        let health = |last_success_at_ms, dead_letter| {
            Some(Health { last_success_at_ms, dead_letter, ..Health::default() })
        };
        let nothing = WebhookStatus::default();
        let first = after(health(None, 0), true, &nothing);
        assert_eq!(health_reason(&first), Some(ReasonCode::NoDeliveries.as_str()));
        let accepted = conditions::find(&first.conditions, ConditionType::Accepted).expect("it is there");
        assert!(accepted.status == "True" && accepted.message.contains("--allow-egress"), "{accepted:?}");
        let lacking = Some(Health { lacks_customer: true, ..Health::default() });
        let lacking = after(lacking, true, &nothing);
        let condition = conditions::find(&lacking.conditions, ConditionType::DeliveryHealthy).unwrap();
        assert!(condition.message.contains("no customer with this code"), "{}", condition.message);
        let second = after(health(Some(5_000), 0), true, &first);
        assert_eq!(health_reason(&second), Some(ReasonCode::Delivering.as_str()));
        let reported = second.deliveries.as_ref().expect("they are reported");
        let at = Timestamp::from_second(5).unwrap();
        assert_eq!(reported.last_success_at, Some(Time(at)), "5,000 ms after 1970");
        let counts = Health { pending: 7, retrying: 2, dead_letter: 3, ..Health::default() };
        let counted = after(Some(counts), true, &second).deliveries.expect("they are reported");
        assert_eq!((counted.pending, counted.dead_letter), (7, 3));
        assert_eq!(counted.last_success_at, Some(Time(at)), "it is not forgotten");
        let third = after(health(None, 0), true, &second);
        assert_eq!(third, second, "others' deliveries are newer");
        assert_eq!(
            health_reason(&after(health(None, 1), true, &nothing)),
            Some(ReasonCode::DeadLettered.as_str())
        );
        assert_eq!(
            health_reason(&after(health(None, 1), true, &second)),
            Some(ReasonCode::Delivering.as_str())
        );
    }

    #[test]
    fn redis_away_for_ten_minutes_and_a_restart_meanwhile_cost_no_write() {
        let health =
            |pending| Health { pending, retrying: 1, last_success_at_ms: Some(5_000), ..Health::default() };
        let before = after(Some(health(1)), true, &WebhookStatus::default());
        let at = |second| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(second);
        let last = Reported { health: health(1), is_first: false };
        for second in (0..=600).step_by(15) {
            // The process of the second half has read nothing.
            let read = (second <= 300).then_some(last);
            assert_eq!(after_reading(read, true, &before, at(second)), before, "after {second} s");
        }
        let back = Reported { health: health(90), is_first: true };
        assert_eq!(after_reading(Some(back), true, &before, at(615)), before, "of counts no one waits for");
    }

    #[test]
    fn unreported_health_leaves_the_condition_as_it_was() {
        let nothing = WebhookStatus::default();
        assert_eq!(health_reason(&after(None, false, &nothing)), None);
        let first = after(None, true, &nothing);
        assert_eq!(health_reason(&first), Some(ReasonCode::NoDeliveries.as_str()));
        let retrying = Health { retrying: 1, ..Health::default() };
        let second = after(Some(retrying), true, &first);
        for observed in [false, true] {
            assert_eq!(after(None, observed, &second), second);
        }
    }
}
