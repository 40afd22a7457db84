//! What keeps deliveries right beside their attempts: [`sweep`] finds deliveries that the schedule does not know, [`retention`] deletes
//! old deliveries, [`report`] publishes the health of webhooks for the operator, and `overdue` counts what is due for the metrics.

pub(super) mod overdue;
pub mod report;
pub mod retention;
pub mod sweep;
