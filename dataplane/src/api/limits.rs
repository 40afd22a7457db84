//! How long what clients send may be, in characters, and how large.

/// A work order's number.
pub const WORK_ORDER: usize = 32;
/// A work order's number, perhaps with `-` and a facility's code.
pub const WORK_ORDER_KEY: usize = 80;
/// A web order id.
pub const WEB_ORDER_ID: usize = 32;
/// An invoice number.
pub const INVOICE_NUMBER: usize = 64;
/// The largest line item or milestone code.
pub const LARGEST_NUMBER: i64 = 999_999_999;
