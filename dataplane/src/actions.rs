//! What the service does, free of HTTP: one file per thing.

pub mod add_note;
pub mod detect_invoices;
pub mod export_order;
pub mod publish_event;
pub mod resend;
pub mod save_order;
pub mod sign_in;

use docket_orders::Problems;
use docket_store::StoreError;

/// Why a write was refused. Nothing of it has happened.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// What was sent is wrong: each field with what would be right.
    #[error("the request is not valid")]
    Invalid(Problems),
    /// There is no such thing for this caller; whether another customer has it is not told.
    #[error("{0}")]
    NotFound(&'static str),
    /// What was asked does not fit what is stored.
    #[error("{0}")]
    Conflict(&'static str),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Problems> for Refusal {
    fn from(problems: Problems) -> Self {
        Self::Invalid(problems)
    }
}

/// One field that is wrong.
fn invalid(field: &str, message: &str) -> Refusal {
    Problems::from(docket_orders::Problem { field: field.to_owned(), message: message.to_owned() }).into()
}
