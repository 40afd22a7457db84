//! Moves finished deliveries from the queue to the history.

use std::collections::HashMap;

use docket_domain::delivery::{DeliveryId, FailureClass, Status};

use super::attempt::{End, Started, measured};
use crate::error::StoreError;
use crate::sql::{Param, Row, Rows, Statement, read};

/// The beginning of a statement in which `hook` has the webhooks of the history, at last NULL. It steps from one webhook to the next by
/// the index that begins with the webhook. So a busy webhook hides no other, and deliveries that ended long ago are not read.
pub(crate) const WITH_WEBHOOKS: &str = "WITH RECURSIVE hook (webhook) AS (SELECT min(webhook) FROM delivery_history \
     UNION ALL SELECT (SELECT min(h.webhook) FROM delivery_history h WHERE h.webhook > hook.webhook) \
     FROM hook WHERE hook.webhook IS NOT NULL)";

/// A token belongs to only one delivery, so the two lists match each row only with its own token.
static TAKE_OUT: Rows = Rows::new(
    "DELETE FROM delivery_queue WHERE id {$1 text} AND lease_token {$2 text} RETURNING id, event_id, webhook, \
     webhook_name, attempt_count, due_at_ms, started_at_ms, idempotency_key, resend_of, requested_by, resend_id, \
     created_at_ms",
);

/// The statement that takes the deliveries of these ends out of the queue, except deliveries that have another lease now. [`taken_out`]
/// reads its result.
pub(super) fn take_out(ends: &[&End]) -> Option<Statement> {
    TAKE_OUT.statement(ends.iter().map(|end| [Param::from(end.started.id.to_string()), (&end.token).into()]))
}

/// The deliveries that [`take_out`] has taken out, by id.
pub(super) fn taken_out(
    rows: impl IntoIterator<Item = Vec<Row>>,
) -> Result<HashMap<DeliveryId, Unfinished>, StoreError> {
    let taken = |row: Row| Ok((row.parsed(0)?, Unfinished::taken_out(&row)?));
    rows.into_iter().flatten().map(taken).collect()
}

#[derive(Default)]
pub(super) struct Unfinished {
    id: String,
    event_id: String,
    webhook: String,
    webhook_name: String,
    attempt_count: i64,
    due_at_ms: i64,
    started_at_ms: Option<i64>,
    idempotency_key: Option<String>,
    resend_of: Option<String>,
    requested_by: Option<String>,
    resend_id: Option<String>,
    created_at_ms: i64,
}

impl Unfinished {
    fn taken_out(row: &Row) -> Result<Self, StoreError> {
        Ok(read!(row => Unfinished {
            id, event_id, webhook, webhook_name, attempt_count, due_at_ms, started_at_ms, idempotency_key, resend_of,
            requested_by, resend_id, created_at_ms,
        }))
    }

    /// A delivery that was created with this attempt, its first one, begun.
    pub(super) fn at_first(started: &Started, webhook_name: &str) -> Self {
        Self {
            id: started.id.to_string(),
            event_id: started.event_id.clone(),
            webhook: started.webhook.clone(),
            webhook_name: webhook_name.to_owned(),
            attempt_count: 1,
            due_at_ms: started.at_ms,
            started_at_ms: Some(started.at_ms),
            created_at_ms: started.at_ms,
            ..Self::default()
        }
    }
}

pub(super) struct Finished<'a> {
    /// The delivery as it was in the queue.
    pub(super) was: Unfinished,
    pub(super) end: &'a End,
    pub(super) status: Status,
}

static INSERT: Rows = Rows::new(
    "INSERT INTO delivery_history (id, event_id, webhook, webhook_name, status, attempt_count, due_at_ms, failure_class, \
     http_status, response_body, idempotency_key, resend_of, requested_by, resend_id, created_at_ms, finished_at_ms, \
     started_at_ms, remote_address, dns_us, connect_us, tls_us, first_byte_us, total_us) \
     {text, text, text, text, text, bigint, bigint, text, bigint, text, text, text, text, text, bigint, bigint, bigint, text, bigint, bigint, bigint, bigint, bigint}",
);

pub(super) fn inserts(finished: Vec<Finished<'_>>, now_ms: i64) -> Option<Statement> {
    let rows = finished.into_iter().map(|Finished { was, end, status }| {
        let report = end.outcome.report();
        let succeeded = status == Status::Succeeded;
        // A failed attempt has its own row in `attempt_history`.
        let measured = if succeeded { measured(report) } else { [const { Param::Null }; 6] };
        let [remote, dns, connect, tls, first_byte, total] = measured;
        [
            was.id.into(),
            was.event_id.into(),
            was.webhook.into(),
            was.webhook_name.into(),
            Param::Word(status.as_str()),
            was.attempt_count.into(),
            was.due_at_ms.into(),
            end.outcome.failure().map(FailureClass::as_str).into(),
            report.http_status.map(i64::from).into(),
            report.answer.as_ref().into(),
            was.idempotency_key.into(),
            was.resend_of.into(),
            was.requested_by.into(),
            was.resend_id.into(),
            was.created_at_ms.into(),
            now_ms.into(),
            if succeeded { was.started_at_ms.into() } else { Param::Null },
            remote,
            dns,
            connect,
            tls,
            first_byte,
            total,
        ]
    });
    INSERT.statement(rows)
}
