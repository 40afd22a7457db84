//! The seven order types: their fields, how a draft is read and what an export requires. Pure: no I/O, no clock.
//!
//! From bytes to a stored order, and the file of each step:
//! * [`json`]: bytes to a tree; refuses duplicate keys and deep nesting.
//! * [`problem`]: what is wrong and where, never with the value itself.
//! * [`field`]: how a field is read, checked and described; the macro that defines a part from one list. `common`: the macro that
//!   adds the fields of all orders to such a list.
//! * [`text`], [`number`], [`when`], [`list`], [`state`], [`country`]: the kinds of values. [`choices`]: the enumerations.
//! * [`parts`]: parts that several order types share (address, party, court, case, document, …);
//!   [`servee`]: the persons to serve.
//! * [`court`], [`process`], [`delivery`], [`investigation`], [`file_and_serve`], [`county_recording`],
//!   [`photo_copy`]: one order type each, with the conditions of its export.
//! * [`order`]: the union of the seven, as stored. [`save`]: the body of Orders/Save around it.
//! * [`search`]: the search terms of an order. [`sensitive`]: numbers that free text must not contain; [`blank`]:
//!   invisible characters.
//! * [`openapi`]: the schemas and the examples; [`order_type`]: the schema of the type alone.
//!
//! An order is checked in three stages: reading checks each value alone, [`Order::check_draft`] finds values that
//! contradict each other, and [`Order::check_export`] finds what is missing. A documented default counts as present at
//! export and is never written into the order, so a stored draft contains exactly what the client sent.
//!
//! # Example
//!
//! ```
//! use docket_orders::SaveRequest;
//!
//! let body = br#"{"orderType": "Court", "courtTask": "File"}"#;
//! let request = SaveRequest::read(body).expect("a valid draft");
//! let problems = request.order.check_export();
//! assert!(problems.iter().any(|problem| problem.field == "court" && problem.message == "required at export"));
//!
//! let problems = SaveRequest::read(br#"{"orderType": "Court", "courtTask": 7}"#).expect_err("an invalid value");
//! assert!(problems.to_string().starts_with("courtTask: must be one of File, Issue, "));
//! ```

#[macro_use]
pub mod field;
#[macro_use]
pub mod choices;
#[macro_use]
mod common;

pub mod blank;
pub mod country;
pub mod county_recording;
pub mod court;
pub mod delivery;
pub mod file_and_serve;
pub mod investigation;
pub mod json;
pub mod list;
pub mod number;
pub mod openapi;
pub mod order;
pub mod order_type;
pub mod parts;
pub mod photo_copy;
pub mod problem;
pub mod process;
pub mod save;
pub mod search;
pub mod sensitive;
pub mod servee;
pub mod state;
pub mod text;
pub mod when;

pub use docket_domain::order_type::OrderType;
pub use json::Json;
pub use openapi::{examples, schemas};
pub use order::Order;
pub use problem::{Problem, Problems};
pub use save::SaveRequest;
pub use search::SearchTerms;
pub use sensitive::{holds_card_number, holds_full_ssn};

#[cfg(test)]
mod tests;
