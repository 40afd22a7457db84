//! The commands that `docket` and `kubectl docket` have in common: one set of words, one JSON form and one text for each question.
//!
//! - [`arguments`]: the flags. [`answers`]: where the answers come from. `docket` reads the tenant's database; `kubectl docket` sends
//!   requests to the data plane. Both give the answers as JSON with the fields of `/WebhookLogs`.
//! - [`list`], [`trace`], [`resend`], [`set_aside`], [`test_event`]: the commands about deliveries; [`audit`], [`people`]: lists
//! - [`fields`]: the fields of an answer as texts; [`terminal`]: colours and relative times; [`text`]: tables and JSON;
//!   [`values`]: the parsers of flags

pub mod answers;
pub mod arguments;
pub mod audit;
pub mod fields;
pub mod list;
pub mod people;
pub mod resend;
pub mod set_aside;
pub mod terminal;
pub mod test_event;
#[cfg(test)]
mod testing;
pub mod text;
pub mod trace;
pub mod values;
