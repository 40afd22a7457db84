//! What the service does, free of HTTP: one file per action, and what several actions share.

pub mod add_note;
pub mod choice;
pub mod export_order;
pub mod publish_event;
pub mod read_order;
pub mod resend;
pub mod save_order;
pub mod set_aside;
pub mod sign_in;
pub mod test_event;
pub mod wait;

use docket_domain::delivery::DeliveryId;
use docket_orders::Problems;
use docket_store::deliveries::{self, ListedDelivery};
use docket_store::orders::OrderHead;
use docket_store::{StoreError, Transaction, dead_letters};

use crate::tenancy::Webhooks;

/// Why a write was refused. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Fields of the request are wrong: each with what it must be.
    #[error("the request is not valid")]
    Invalid(Problems),
    /// It does not exist for this caller. Whether another customer has it is not revealed.
    #[error("{0}")]
    NotFound(&'static str),
    /// The request does not fit what is stored.
    #[error("{0}")]
    Conflict(&'static str),
    /// The order has another version than the one that the change was made from.
    #[error("the order has moved on")]
    OrderChanged(MovedOn),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The versions of which an order must be one to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Versions {
    /// Any.
    Any,
    /// One of these.
    These(Vec<i64>),
}

impl Versions {
    /// Whether this is one of them.
    pub fn allows(&self, version: i64) -> bool {
        match self {
            Self::Any => true,
            Self::These(versions) => versions.contains(&version),
        }
    }
}

/// How a request named the version of an order that its change was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovedOn {
    /// By the field `version`, or not at all: two changes came at the same time. Its version now.
    Version(i64),
    /// By the header If-Match. Its version now.
    IfMatch(i64),
}

impl From<Problems> for Refusal {
    fn from(problems: Problems) -> Self {
        Self::Invalid(problems)
    }
}

/// Who resends deliveries or sets dead letters aside.
#[derive(Clone, Copy)]
pub struct By<'a> {
    /// The webhooks that are its concern.
    pub webhooks: Webhooks<'a>,
    /// The customer whose deliveries are its concern; `None`: all.
    pub customer: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
}

/// The delivery with this id, if it is the concern of this user. Nothing else resends dead letters of its webhook or sets them aside
/// until the transaction ends.
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
    // Again: what held the lock before may have changed it.
    deliveries::find(transaction, id).await?.ok_or(NO_SUCH_DELIVERY)
}

/// Checks that the order is at the version that the change was made from.
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

/// One field that is wrong.
fn invalid(field: &str, message: &str) -> Refusal {
    Problems::from(docket_orders::Problem { field: field.to_owned(), message: message.to_owned() }).into()
}
