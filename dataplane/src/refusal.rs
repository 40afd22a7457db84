//! Why actions refuse what a request asks for. HTTP turns each reason into a status, the command line into a message.

use docket_listener::fair_share::Busy;
use docket_orders::Problems;
use docket_store::StoreError;

use crate::access::rates::OverLimit;
use crate::access::throttle::TryLater;

/// Why a write was refused. Nothing of a refused write is stored.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Fields of the request are wrong: each with what it must be.
    #[error("the request is not valid")]
    Invalid(Problems),
    /// What the request names does not exist for this caller. Whether another customer has it is not revealed.
    #[error("{0}")]
    NotFound(&'static str),
    /// The request does not fit what is stored.
    #[error("{0}")]
    Conflict(&'static str),
    /// The order's version differs from the version that the change was made from.
    #[error("the order was changed meanwhile")]
    OrderChanged(MovedOn),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Problems> for Refusal {
    fn from(problems: Problems) -> Self {
        Self::Invalid(problems)
    }
}

/// The versions that an order may have to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Versions {
    /// Any version.
    Any,
    /// One of these versions.
    These(Vec<i64>),
}

impl Versions {
    /// Whether an order at this version may be changed.
    pub fn allows(&self, version: i64) -> bool {
        match self {
            Self::Any => true,
            Self::These(versions) => versions.contains(&version),
        }
    }
}

/// How a request named the version that it changes, of an order that has another version by now. Each variant has the present version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovedOn {
    /// By the field `version`. Or the request named no version, and two changes came at the same time.
    Version(i64),
    /// The version in the header If-Match.
    IfMatch(i64),
}

/// Why a sign-in got no token.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The tenant has no user with this password.
    #[error("unknown user")]
    UnknownUser,
    /// Too many wrong guesses.
    #[error(transparent)]
    TryLater(#[from] TryLater),
    /// The tenant has too many sign-ins.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// Too many sign-ins at once.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
