//! The rules of Docket's core, as pure functions over plain types.
//!
//! Nothing here reads a clock, draws a random number, opens a socket or knows a database: time and randomness
//! come in as arguments, so that every rule of the specification can be tested in microseconds.
//!
//! * [`delivery`]: the states of a delivery, the transition after an attempt, backoff and the limits
//! * [`event`]: the envelope and the payload of each event code
//! * [`process`]: what follows from how papers were served
//! * [`order_type`]: the seven kinds of orders
//! * [`invoice`]: the families of invoices, and what is sent of a header
//! * [`moment`]: a date or time as a client writes it; [`resend`]: the limits of a bulk resend
//! * [`signature`]: HMAC-SHA256 over the raw body
//! * [`token`]: what a Bearer token claims, and what makes one acceptable
//! * [`work_order`]: the families of work orders, and how a request names one; [`word`]: enums that are texts

pub mod delivery;
pub mod event;
pub mod invoice;
pub mod moment;
pub mod order_type;
pub mod process;
pub mod resend;
pub mod signature;
pub mod token;
pub mod word;
pub mod work_order;
