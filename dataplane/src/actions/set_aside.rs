//! Sets dead letters aside, one of them or many of a webhook, and undoes that. For the API, the command line and the portal.
//!
//! A dead letter that is set aside counts nowhere, and no bulk resend sends it. Resending it alone ends the setting aside.

use docket_domain::delivery::{DeliveryId, Status};
use docket_domain::resend::{Aside, MAX_COUNT};
use docket_store::resends::{self, DeadFilter, DeadLetterRange};
use docket_store::{Connection, Transaction, dead_letters};
use jiff::Timestamp;

use super::choice::Choice;
use super::{By, locked};
use crate::refusal::Refusal;

const NO_SUCH_WEBHOOK: Refusal = Refusal::NotFound(
    "There is no webhook with this namespace/name or uid, and none with dead letters had it before",
);
const NOT_DEAD: Refusal =
    Refusal::Conflict("The delivery is not a dead letter, so there is nothing to set aside");
const RESENT: Refusal = Refusal::Conflict(
    "The delivery was resent and counts no longer; if its resend is a dead letter too, set that one aside",
);

/// Sets a dead letter aside, or undoes that. Returns `false` if there was nothing to change.
pub async fn one(
    transaction: &mut Transaction,
    by: By<'_>,
    id: DeliveryId,
    aside: Aside,
    now: Timestamp,
) -> Result<bool, Refusal> {
    let listed = locked(transaction, by, id).await?;
    match (listed.status, listed.resent) {
        (Status::DeadLetter, false) => {}
        (Status::DeadLetter, true) => return Err(RESENT),
        _ => return Err(NOT_DEAD),
    }
    Ok(match aside {
        Aside::Set => dead_letters::set_aside_one(transaction, id, by.name, now.as_millisecond()).await?,
        Aside::Undo => dead_letters::undo_one(transaction, id).await?,
    })
}

/// The filter of the store, and the webhook's name. An inactive or deleted webhook may have dead letters too.
async fn filter(
    connection: &mut Connection,
    by: By<'_>,
    choice: &Choice,
    aside: Aside,
) -> Result<(DeadFilter, String), Refusal> {
    let known = match (by.webhooks.named(&choice.webhook), by.customer) {
        (Some(one), _) => Some((one.full_name(), one.customer_code.to_string())),
        (None, None) => resends::webhook_of_dead(connection, &choice.webhook).await?,
        (None, Some(_)) => None,
    };
    let (name, customer_code) = known.ok_or(NO_SUCH_WEBHOOK)?;
    let filter = choice.filter(&name, customer_code, aside == Aside::Undo);
    Ok((filter, name))
}

/// Returns what [`many`] would change, and how many dead letters there are without the limit, counted up to [`MAX_COUNT`] and one.
/// Writes nothing.
pub async fn preview(
    connection: &mut Connection,
    by: By<'_>,
    choice: &Choice,
    aside: Aside,
) -> Result<(DeadLetterRange, i64), Refusal> {
    let (filter, _) = filter(connection, by, choice, aside).await?;
    Ok(resends::extent(connection, &filter, MAX_COUNT + 1).await?)
}

/// Sets the chosen dead letters of a webhook aside, or undoes that. Returns the webhook's name, and how many dead letters it
/// changed.
pub async fn many(
    transaction: &mut Transaction,
    by: By<'_>,
    choice: &Choice,
    aside: Aside,
    now: Timestamp,
) -> Result<(String, i64), Refusal> {
    let (filter, name) = filter(transaction, by, choice, aside).await?;
    let count = match aside {
        Aside::Set => dead_letters::set_aside(transaction, &filter, by.name, now.as_millisecond()).await?,
        Aside::Undo => dead_letters::undo(transaction, &filter).await?,
    };
    Ok((name, i64::try_from(count).unwrap_or(i64::MAX)))
}
