//! What the service does, free of HTTP: one file per action, and what several actions share.

pub mod add_note;
pub mod choice;
pub mod export_order;
pub mod meant;
pub mod people;
pub mod publish_event;
pub mod read_order;
pub mod resend;
pub mod save_order;
pub mod set_aside;
pub mod sign_in;
pub mod subscriptions;
pub mod test_event;
pub mod trace;
pub mod wait;

use docket_domain::delivery::DeliveryId;
use docket_orders::Problems;
use docket_store::deliveries::{self, ListedDelivery};
use docket_store::orders::OrderHead;
use docket_store::{Transaction, dead_letters};

use crate::refusal::{MovedOn, Refusal, Versions};
use crate::tenancy::Webhooks;

/// Who resends deliveries or sets dead letters aside.
#[derive(Clone, Copy)]
pub struct By<'a> {
    /// The webhooks that this user may see.
    pub webhooks: Webhooks<'a>,
    /// The customer whose deliveries this user may see; `None`: all customers.
    pub customer: Option<&'a str>,
    /// The user's name.
    pub name: &'a str,
}

/// Returns the delivery with this id, if this user may see it. Until the transaction ends, nothing else resends dead letters of its
/// webhook or sets them aside.
async fn locked(
    transaction: &mut Transaction,
    by: By<'_>,
    id: DeliveryId,
) -> Result<ListedDelivery, Refusal> {
    const NO_SUCH_DELIVERY: Refusal = Refusal::NotFound("There is no such delivery");
    let found = deliveries::find(transaction, id).await?;
    let concerns = |code: &str| by.customer.is_none_or(|customer| customer == code);
    let found = found.filter(|listed| concerns(&listed.customer_code)).ok_or(NO_SUCH_DELIVERY)?;
    dead_letters::lock(transaction, &found.webhook).await?;
    // Read again: the transaction that held the lock before may have changed the delivery.
    deliveries::find(transaction, id).await?.ok_or(NO_SUCH_DELIVERY)
}

/// Checks that the order has the version that the request says it changes.
fn check_version(head: &OrderHead, if_match: &Versions, version: Option<i64>) -> Result<(), Refusal> {
    if !if_match.allows(head.version) {
        return Err(Refusal::OrderChanged(MovedOn::IfMatch(head.version)));
    }
    match version {
        Some(version) if version != head.version => {
            Err(Refusal::OrderChanged(MovedOn::Version(head.version)))
        }
        _ => Ok(()),
    }
}

/// A refusal because of one wrong field.
fn invalid(field: &str, message: &str) -> Refusal {
    Problems::from(docket_orders::Problem { field: field.to_owned(), message: message.to_owned() }).into()
}
