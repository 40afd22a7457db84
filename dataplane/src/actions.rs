//! What the service does, free of HTTP: one file per action, and the choice of dead letters that two of them share.

pub mod add_note;
pub mod choice;
pub mod create_orders;
pub mod detect_invoices;
pub mod export_order;
pub mod publish_event;
pub mod resend;
pub mod save_order;
pub mod set_aside;
pub mod sign_in;
pub mod test_event;
pub mod wait;

use docket_orders::Problems;
use docket_store::StoreError;

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
    /// The database failed.
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
