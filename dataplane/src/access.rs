//! The room of access: what a caller may try, and how often.
//!
//! * [`passwords`]: checks and hashes passwords, a limited number at a time
//! * [`throttle`]: slows the guessing of passwords down
//! * [`rates`]: limits the requests and sign-ins of a tenant
//!
//! It uses no other room.

pub mod passwords;
pub mod rates;
pub mod throttle;
