//! The rules of Docket's core, as pure functions over plain types.
//!
//! Nothing here reads a clock, draws a random number, opens a socket or knows a database. Time and randomness are
//! arguments, so that every rule of the specification can be tested in microseconds.
//!
//! * [`audit`]: the entries of the audit
//! * [`delivery`]: the states of a delivery, the transition after an attempt, backoff and the limits
//! * [`diagnosis`]: why a signature does not match
//! * [`failure`]: what caused a failure of each class, and what to do about it; [`status`]: the same for each HTTP status
//! * [`event`]: the envelope and the payload of each event code
//! * [`process`]: conclusions from how papers were served
//! * [`order_type`]: the seven kinds of orders
//! * [`invoice`]: the families of invoices, and the data of invoice.created
//! * [`moment`]: a date or time as a client writes it; [`resend`]: the limits of a bulk resend
//! * [`notice`]: when a change of a webhook's state is announced to its subscribers
//! * [`reading`]: what a number or an id from a person may be
//! * [`sample`]: one sample of each event code, for test events and documents
//! * [`signature`]: HMAC-SHA256 over the raw body
//! * [`token`]: the claims of a Bearer token, how it is issued and verified
//! * [`trace`]: what a trace follows, and why a webhook has no delivery of an event
//! * [`work_order`]: the families of work orders, and the key by which a request names one
//!
//! # Example
//!
//! A first attempt that times out makes the delivery due again after 60 seconds, or up to 2 seconds later:
//!
//! ```
//! use docket_domain::delivery::{
//!     BACKOFF_BASE, DeliveryId, FailureClass, Next, Outcome, Report, after_attempt,
//! };
//!
//! let outcome = Outcome::Failed(FailureClass::TimeoutFirstByte, Report::default());
//! let ended = "2026-11-21T12:00:00Z".parse().expect("a time");
//! let next = after_attempt(DeliveryId::default(), &outcome, 1, ended, BACKOFF_BASE);
//! assert_eq!(next, Next::RetryAt("2026-11-21T12:01:00Z".parse().expect("a time")));
//! ```

pub mod audit;
pub mod delivery;
pub mod diagnosis;
pub mod event;
pub mod failure;
mod failure_class;
pub mod fold;
pub mod invoice;
pub mod moment;
pub mod notice;
pub mod order_type;
pub mod process;
pub mod reading;
pub mod resend;
pub mod sample;
pub mod signature;
pub mod status;
pub mod token;
pub mod trace;
pub mod work_order;

/// The macro for enums that are texts, for crates that use nothing else of `docket-crds`.
pub use docket_crds::{UnknownWord, words};
