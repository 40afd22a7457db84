//! The room of HTTP: how requests are read and refused, for the API, the portal and the platform's API alike.
//!
//! * [`request`], [`fields`], [`kinds`], [`times`], [`words`], [`paging`]: requests, from lists of their fields
//! * [`body`]: bodies, within bounds of size, time and memory; [`host`], [`origin`], [`if_match`]: what headers say
//! * [`error`], [`problem_type`]: the refusals, with their status codes; [`problem_examples`]: a body of each, for the documentation
//!
//! It knows no route, no state and no action. It uses [`refusal`](crate::refusal), tenancy and access. The portal and the APIs use it.

pub mod body;
pub mod error;
pub mod fields;
pub mod host;
pub mod if_match;
pub mod kinds;
pub mod origin;
pub mod paging;
pub mod problem_examples;
pub mod problem_type;
pub mod request;
pub mod times;
pub mod words;
