//! Resends one delivery that has ended, or the dead letters of a webhook (a bulk resend). For the API and the command line.
//!
//! A resend is a new delivery of the same event, with a new id and no attempts.

use std::collections::HashSet;

use docket_crds::{EventCode, webhook_key};
use docket_domain::delivery::{DeliveryId, Status};
use docket_domain::resend::{MAX_COUNT, settled};
use docket_program::random;
use docket_store::deliveries::{self, Due, ListedDelivery, NewDelivery};
use docket_store::resends::{self, DeadDelivery, DeadFilter, DeadLetterRange, Resend};
use docket_store::{Connection, StoreError, Transaction, dead_letters, events};
use jiff::Timestamp;

use super::choice::Choice;
use super::publish_event::delivery;
use super::{By, locked};
use crate::refusal::Refusal;
use crate::tenancy::Webhooks;

const NO_SUCH_RESEND: Refusal = Refusal::NotFound("There is no such resend");
pub(super) const INACTIVE: Refusal = Refusal::Conflict(
    "The webhook is inactive; activate it in the portal, or set active: true where it is declared, and send again",
);
pub(super) const NOT_DECLARED: Refusal = Refusal::Conflict(
    "The webhook is not declared; declare it again, under the same namespace, name and customerCode, to send to it",
);
const OF_ANOTHER: Refusal = Refusal::Conflict(
    "The webhook is now another customer's, and this event is not for that customer; declare one for the customer of the event under the same namespace and name to send to it",
);
pub(super) const NOT_SUBSCRIBED: Refusal = Refusal::Conflict(
    "The webhook is not subscribed to this event, or the event is switched off for the tenant",
);
const INVALID_EVENT: Refusal = Refusal::Conflict(
    "The id of the delivery's event is invalid: another program has changed it; restore it in the tenant's database, and send again",
);
const BEING_SENT: Refusal =
    Refusal::Conflict("The event is being sent to this webhook already; wait until that delivery has ended");

/// A delivery that was resent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resent {
    /// The new delivery.
    pub id: DeliveryId,
    /// The delivery that it resends.
    pub resend_of: DeliveryId,
}

/// A bulk resend: which dead letters, and how fast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Many {
    /// The dead letters to resend.
    pub choice: Choice,
    /// Deliveries due per second, 1 to [`MAX_PER_SECOND`](docket_domain::resend::MAX_PER_SECOND).
    pub per_second: i64,
}

impl Many {
    /// The time from the first delivery to the delivery at `place` (from 0), in milliseconds.
    fn delay_ms(&self, place: i64) -> i64 {
        place * 1000 / self.per_second
    }

    /// Seconds from the first of `count` deliveries to the last, rounded up.
    pub fn seconds(&self, count: i64) -> i64 {
        (self.delay_ms((count - 1).max(0)) + 999) / 1000
    }
}

/// Resends a delivery that has ended.
pub async fn resend_one(
    transaction: &mut Transaction,
    by: By<'_>,
    id: DeliveryId,
    now: Timestamp,
) -> Result<(Resent, Due), Refusal> {
    let listed = locked(transaction, by, id).await?;
    check_status(listed.status)?;
    if listed.event_id.is_empty() {
        return Err(INVALID_EVENT);
    }
    check_webhook(by.webhooks, &listed)?;
    events::lock(transaction, &listed.event_id).await?;
    if deliveries::is_under_way(transaction, &listed.event_id, &listed.webhook_name).await? {
        return Err(BEING_SENT);
    }
    let new_id = DeliveryId::new(now, random::bytes());
    let new = NewDelivery {
        resend_of: Some(listed.id),
        requested_by: Some(by.name.to_owned()),
        ..delivery(new_id, &listed.event_id, listed.webhook, listed.webhook_name)
    };
    let now_ms = now.as_millisecond();
    deliveries::insert(transaction, &new, now_ms).await?;
    Ok((Resent { id: new.id, resend_of: id }, Due { id: new.id, webhook: new.webhook, at_ms: now_ms }))
}

fn check_status(status: Status) -> Result<(), Refusal> {
    match status {
        Status::Succeeded | Status::DeadLetter => Ok(()),
        Status::Pending => Err(Refusal::Conflict(
            "The delivery is Pending: it is still being tried, so there is nothing to resend",
        )),
        Status::Failed => Err(Refusal::Conflict(
            "The delivery is Failed: it is still being tried, so there is nothing to resend",
        )),
    }
}

/// Checks that the webhook may get the resend. An inactive webhook receives no new deliveries (Webhook endpoint configuration), and
/// a resend is a new delivery. A webhook that is declared but not served right now may come back, so it is accepted.
fn check_webhook(webhooks: Webhooks<'_>, listed: &ListedDelivery) -> Result<(), Refusal> {
    match webhooks.get(&listed.webhook) {
        Some(webhook) if !webhook.active => Err(INACTIVE),
        // A code that only a newer version knows is subscribed to for newer processes alone.
        Some(webhook) => match listed.event_code.parse::<EventCode>() {
            Ok(code) if webhooks.takes(webhook, code) => Ok(()),
            _ => Err(NOT_SUBSCRIBED),
        },
        None if webhooks.holds(&listed.webhook) => Ok(()),
        None if webhooks.named(&listed.webhook_name).is_some() => Err(OF_ANOTHER),
        None => Err(NOT_DECLARED),
    }
}

/// The webhook of a bulk resend.
struct ResendTarget {
    webhook: String,
    webhook_name: String,
    customer_code: String,
    /// The events that the webhook takes; `None` if the webhook is not served right now.
    event_codes: Option<Vec<EventCode>>,
}

async fn target(
    connection: &mut Connection,
    webhooks: Webhooks<'_>,
    uid_or_name: &str,
) -> Result<ResendTarget, Refusal> {
    let served = webhooks.named(uid_or_name);
    let served = served.map(|webhook| (webhook.full_name(), webhook.customer_code.to_string()));
    let known = match served {
        None => {
            let dead = resends::webhook_of_dead(connection, uid_or_name).await?;
            dead.map(|dead| held(webhooks, uid_or_name).unwrap_or(dead))
        }
        known => known,
    };
    let (webhook_name, customer_code) = known.ok_or(NOT_DECLARED)?;
    let webhook = webhook_key::of(&webhook_name, &customer_code);
    if let Some(webhook) = webhooks.get(&webhook) {
        return match webhook.active {
            false => Err(INACTIVE),
            true => Ok(ResendTarget {
                webhook: webhook.key(),
                webhook_name,
                customer_code,
                event_codes: Some(
                    EventCode::ALL.into_iter().filter(|code| webhooks.takes(webhook, *code)).collect(),
                ),
            }),
        };
    }
    match webhooks.holds(&webhook) {
        true => Ok(ResendTarget { webhook, webhook_name, customer_code, event_codes: None }),
        false if webhooks.named(&webhook_name).is_some() => Err(OF_ANOTHER),
        false => Err(NOT_DECLARED),
    }
}

/// The `namespace/name` and the customer of the webhook on hold that has this name, key or uid, if its customer is known. The last webhook
/// of the name that has dead letters may have been another customer's.
fn held(webhooks: Webhooks<'_>, name: &str) -> Option<(String, String)> {
    let is_meant =
        |(uid, key): &(&str, &str)| *uid == name || *key == name || webhook_key::full_name(key) == Some(name);
    let (_, key) = webhooks.held().find(is_meant)?;
    Some((webhook_key::full_name(key)?.to_owned(), webhook_key::customer_code(key)?.to_owned()))
}

/// Refuses a bulk resend that finds nothing because all dead letters under the webhook's name belong to an earlier customer's
/// webhook.
async fn check_customer(
    connection: &mut Connection,
    webhooks: Webhooks<'_>,
    target: &ResendTarget,
) -> Result<(), Refusal> {
    if webhooks.are_of_one_customer() {
        return Ok(());
    }
    let last = resends::webhook_of_dead(connection, &target.webhook_name).await?;
    match last {
        Some((_, customer_code)) if customer_code != target.customer_code => Err(OF_ANOTHER),
        Some(_) | None => Ok(()),
    }
}

fn filter(choice: &Choice, target: &ResendTarget) -> DeadFilter {
    let filter = choice.filter(&target.webhook_name, target.customer_code.clone(), false);
    let event_codes = match (filter.event_codes, target.event_codes.clone()) {
        (Some(asked), Some(taken)) => Some(asked.into_iter().filter(|code| taken.contains(code)).collect()),
        (asked, taken) => asked.or(taken),
    };
    DeadFilter { event_codes, sendable: true, ..filter }
}

/// Returns what [`resend_many`] would queue, and how many dead letters there are without its limit, counted up to [`MAX_COUNT`] and
/// one. Writes nothing.
pub async fn preview(
    connection: &mut Connection,
    webhooks: Webhooks<'_>,
    many: &Many,
) -> Result<(DeadLetterRange, i64), Refusal> {
    let target = target(connection, webhooks, &many.choice.webhook).await?;
    let filter = filter(&many.choice, &target);
    let found = resends::extent(connection, &filter, MAX_COUNT + 1).await?;
    if found.1 == 0 {
        check_customer(connection, webhooks, &target).await?;
    }
    Ok(found)
}

/// Resends the dead letters of a webhook, oldest first, at the requested rate. Skips dead letters that another bulk resend has
/// queued in the meantime. Returns the bulk resend, its extent, and the due times of its deliveries.
pub async fn resend_many(
    transaction: &mut Transaction,
    webhooks: Webhooks<'_>,
    many: &Many,
    requested_by: &str,
    now: Timestamp,
) -> Result<(Resend, DeadLetterRange, Vec<Due>), Refusal> {
    let target = target(transaction, webhooks, &many.choice.webhook).await?;
    dead_letters::lock(transaction, &target.webhook).await?;
    let dead = resends::dead_letters(transaction, &filter(&many.choice, &target)).await?;
    if dead.is_empty() {
        check_customer(transaction, webhooks, &target).await?;
    }
    let mut resend = Resend {
        id: hex::encode(random::bytes::<16>()),
        webhook: target.webhook,
        webhook_name: target.webhook_name,
        from_ms: many.choice.from_ms,
        to_ms: many.choice.to_ms,
        per_second: many.per_second,
        count: 0,
        requested_by: requested_by.to_owned(),
        created_at_ms: now.as_millisecond(),
        stopped_by: None,
        stopped_at_ms: None,
        taken_back: 0,
    };
    let new = new_deliveries(&resend, many, &dead, now);
    let inserted = deliveries::insert_many(transaction, &new, now.as_millisecond()).await?;
    let inserted: HashSet<DeliveryId> = inserted.into_iter().collect();
    let made = dead.into_iter().zip(new).filter(|(_, new)| inserted.contains(&new.id));
    let (dead, new): (Vec<DeadDelivery>, Vec<NewDelivery>) = made.unzip();
    let extent = DeadLetterRange::of(&dead);
    resend.count = extent.count;
    resends::insert(transaction, &resend).await?;
    let due = |new: NewDelivery| Due { id: new.id, webhook: new.webhook, at_ms: new.due_at_ms.unwrap_or(0) };
    Ok((resend, extent, new.into_iter().map(due).collect()))
}

fn new_deliveries(resend: &Resend, many: &Many, dead: &[DeadDelivery], now: Timestamp) -> Vec<NewDelivery> {
    (0..)
        .zip(dead)
        .map(|(place, dead)| NewDelivery {
            id: DeliveryId::new(now, random::bytes()),
            event_id: dead.event_id.clone(),
            webhook: resend.webhook.clone(),
            webhook_name: resend.webhook_name.clone(),
            // Two bulk resends at the same time must not resend a dead letter twice.
            idempotency_key: Some(format!("resend:{}", dead.id)),
            resend_of: Some(dead.id.clone()),
            requested_by: Some(resend.requested_by.clone()),
            resend_id: Some(resend.id.clone()),
            due_at_ms: Some(now.as_millisecond() + many.delay_ms(place)),
        })
        .collect()
}

/// The result of stopping a bulk resend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedResend {
    /// How many deliveries were withdrawn. Their dead letters can be resent.
    pub taken_back: i64,
    /// How many deliveries were attempted before, or are being attempted.
    pub gone: i64,
}

/// Withdraws the deliveries of a bulk resend that were not attempted yet. `webhooks`, if given, are the keys of the webhooks whose
/// resends the user may stop. A second stop withdraws only deliveries that a worker has given back since.
pub async fn stop(
    transaction: &mut Transaction,
    webhooks: Option<&[String]>,
    id: &str,
    stopped_by: &str,
    now: Timestamp,
) -> Result<StoppedResend, Refusal> {
    if resends::search(transaction, webhooks, Some(id), None, 1).await?.is_empty() {
        return Err(NO_SUCH_RESEND);
    }
    let taken_back = resends::stop(transaction, id, stopped_by, now.as_millisecond()).await?;
    let taken_back = taken_back.ok_or(NO_SUCH_RESEND)?;
    let left = resends::statuses(transaction, &[id.to_owned()]).await?;
    Ok(StoppedResend { taken_back, gone: left.iter().map(|(_, _, count)| count).sum() })
}

/// The progress of a bulk resend.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the statuses of the contract")]
pub struct Progress {
    /// The bulk resend.
    pub resend: Resend,
    pub pending: i64,
    pub failed: i64,
    pub succeeded: i64,
    pub dead_letter: i64,
}

/// Returns bulk resends, newest first, each with its progress; only resends to `webhooks`, by key, if these are given.
pub async fn progress(
    connection: &mut Connection,
    webhooks: Option<&[String]>,
    id: Option<&str>,
    after: Option<&(i64, String)>,
    limit: i64,
) -> Result<Vec<Progress>, StoreError> {
    let found = resends::search(connection, webhooks, id, after, limit).await?;
    let ids: Vec<String> = found.iter().map(|resend| resend.id.clone()).collect();
    let statuses = resends::statuses(connection, &ids).await?;
    let count = |id: &str, status: Status| {
        let mut of = statuses.iter().filter(|(other, its, _)| other == id && *its == status);
        of.next().map_or(0, |(_, _, count)| *count)
    };
    let progress = |resend: Resend| {
        let states = [Status::Pending, Status::Failed, Status::Succeeded, Status::DeadLetter];
        let [pending, failed, succeeded, dead_letter] = states.map(|status| count(&resend.id, status));
        Progress { resend, pending, failed, succeeded, dead_letter }
    };
    Ok(found.into_iter().map(progress).collect())
}

/// What to do about the last failure, or what became of the delivery since; `None` if it Succeeded. `newest` is the status of its
/// newest resend.
pub fn remedy(listed: &ListedDelivery, newest: Option<Status>) -> Option<String> {
    let failure = listed.failure()?;
    let since = settled(newest, listed.set_aside.is_some());
    Some(since.map_or_else(|| failure.remedy(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use docket_domain::resend::MAX_COUNT;

    use super::*;

    fn many(per_second: i64) -> Many {
        let webhook = "a/b".into();
        let choice = Choice {
            webhook,
            event: None,
            from_ms: None,
            to_ms: None,
            ended_before_ms: None,
            limit: MAX_COUNT,
        };
        Many { choice, per_second }
    }

    #[test]
    fn bulk_resend_spreads_its_deliveries_at_the_rate() {
        assert_eq!((0..4).map(|place| many(3).delay_ms(place)).collect::<Vec<_>>(), [0, 333, 666, 1000]);
        for (count, per_second, seconds) in
            [(0, 10, 0), (1, 10, 0), (2, 10, 1), (11, 10, 1), (12, 10, 2), (10_000, 1, 9_999)]
        {
            assert_eq!(many(per_second).seconds(count), seconds, "{count} at {per_second}");
        }
    }

    #[test]
    fn resend_requires_a_delivery_that_has_ended() {
        assert!(check_status(Status::Succeeded).is_ok() && check_status(Status::DeadLetter).is_ok());
        assert!(check_status(Status::Pending).is_err() && check_status(Status::Failed).is_err());
    }
}
