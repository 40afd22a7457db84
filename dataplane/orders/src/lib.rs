//! What the seven order types hold, how a draft is read and what an export needs. Pure: no I/O, no clock.
//!
//! From bytes to a stored order, and the file of each step:
//! * [`json`]: bytes to a tree; refuses duplicate keys and deep nesting.
//! * [`problem`]: what is wrong and where, never with the value itself.
//! * [`field`]: how one field is read, checked and described; the macros that make parts and orders of one list.
//! * [`text`], [`number`], [`when`], [`list`], [`state`]: the kinds of values. [`choices`]: the enumerations.
//! * [`parts`]: what several order types share (address, party, court, case, document, …);
//!   [`servee`]: whom to serve.
//! * [`court`], [`process`], [`delivery`], [`investigation`], [`file_and_serve`], [`county_recording`],
//!   [`photo_copy`]: one order type each, with the conditions its export sets.
//! * [`order`]: the union of the seven, as stored. [`save`]: the body of Orders/Save around it.
//! * [`search`]: what may be searched for. [`sensitive`]: numbers that must not stand in free text.
//! * [`openapi`]: the schemas and the examples; [`order_type`]: the schema of the type alone.
//!
//! Three stages of checking: *read* (each value alone), [`Order::check_draft`] (values that contradict each
//! other), [`Order::check_export`] (what is missing). A default of the documentation counts as present at
//! export and is never written into the order, so a stored draft holds exactly what the client sent.

#[macro_use]
pub mod field;
#[macro_use]
pub mod choices;

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
