//! Moves deliveries that are over from the queue to the history.

use docket_domain::delivery::{DeliveryId, FailureClass, Status};

use super::finish::{End, measured};
use crate::error::StoreError;
use crate::sql::{Param, Row, Rows, Statement};

/// A token is of one delivery only, so each row is compared with its own.
static TAKE_OUT: Rows = Rows::new(
    "DELETE FROM delivery_queue WHERE id {$1 text} AND lease_token {$2 text} RETURNING id, event_id, webhook, \
     webhook_name, attempt_count, due_at_ms, started_at_ms, idempotency_key, resend_of, requested_by, resend_id, \
     created_at_ms",
);

/// The statement that takes deliveries out of the queue whose lease still has this token. It returns the columns of
/// [`Finished::row`].
pub(super) fn take_out<'a>(deliveries: impl Iterator<Item = (DeliveryId, &'a str)>) -> Option<Statement> {
    TAKE_OUT.statement(deliveries.map(|(id, token)| [Param::from(id.to_string()), token.into()]))
}

/// A delivery that was taken out of the queue.
pub(super) struct Finished<'a> {
    /// As it was there.
    pub(super) row: Row,
    /// How its last attempt ended.
    pub(super) end: &'a End,
    /// What it is now.
    pub(super) status: Status,
}

static INSERT: Rows = Rows::new(
    "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, failure_class, \
     http_status, response_body, idempotency_key, resend_of, requested_by, resend_id, created_at_ms, finished_at_ms, \
     started_at_ms, remote_address, dns_us, connect_us, tls_us, first_byte_us, total_us) \
     {text, text, text, text, text, bigint, bigint, text, bigint, text, text, text, text, text, bigint, bigint, bigint, text, bigint, bigint, bigint, bigint, bigint}",
);

/// The statement that puts them into the history.
pub(super) fn inserts(finished: &[Finished<'_>], now_ms: i64) -> Result<Option<Statement>, StoreError> {
    let rows = finished.iter().map(|finished| {
        let Finished { row, end, status } = finished;
        let report = end.outcome.report();
        let succeeded = *status == Status::Succeeded;
        // A failed attempt has a row of its own.
        let measured = if succeeded { measured(report) } else { [const { Param::Null }; 6] };
        let [remote, dns, connect, tls, first_byte, total] = measured;
        Ok([
            Param::Text(row.get(0)?),
            Param::Text(row.get(1)?),
            Param::Text(row.get(2)?),
            Param::Text(row.get(3)?),
            status.as_str().into(),
            Param::Int(row.get(4)?),
            Param::Int(row.get(5)?),
            end.outcome.failure().map(FailureClass::as_str).into(),
            report.http_status.map(i64::from).into(),
            report.answer.as_ref().into(),
            row.get::<Option<String>>(7)?.into(),
            row.get::<Option<String>>(8)?.into(),
            row.get::<Option<String>>(9)?.into(),
            row.get::<Option<String>>(10)?.into(),
            Param::Int(row.get(11)?),
            now_ms.into(),
            if succeeded { row.get::<Option<i64>>(6)?.into() } else { Param::Null },
            remote,
            dns,
            connect,
            tls,
            first_byte,
            total,
        ])
    });
    Ok(INSERT.statement(rows.collect::<Result<Vec<_>, StoreError>>()?))
}
