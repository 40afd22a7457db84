//! Responses of the routes around resends. Responses to writes are kept for repeats under the same Idempotency-Key.

use docket_store::resends::{DeadLetterRange, Resend};
use serde::Serialize;
use utoipa::ToSchema;

use crate::actions::resend::{Many, Progress, Resent, StoppedResend};
use crate::http::times::{Time, time};

/// The response of POST /WebhookLogs/Resend: one of three.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ResendAnswer {
    /// The request has the field `deliveryId`.
    One(ResentAnswer),
    /// The request has the field `webhook`, without `preview`.
    Many(ResendManyAnswer),
    /// The request has the fields `webhook` and `preview`.
    Preview(PreviewAnswer),
}

/// A delivery is queued again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResentAnswer {
    /// The new delivery.
    #[schema(example = "0193f0c4-77aa-7d10-8e21-0a1b2c3d4e5f")]
    delivery_id: String,
    /// The delivery that it resends.
    #[schema(example = "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f")]
    resend_of: String,
}

impl From<&Resent> for ResentAnswer {
    fn from(resent: &Resent) -> Self {
        Self { delivery_id: resent.id.to_string(), resend_of: resent.resend_of.to_string() }
    }
}

/// Dead letters are queued again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResendManyAnswer {
    /// The id of the bulk resend, for StopResend and Resends.
    #[schema(example = "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a")]
    resend_id: String,
    #[serde(flatten)]
    extent: ExtentAnswer,
}

impl ResendManyAnswer {
    /// The response for a bulk resend that was just created.
    pub fn new(many: &Many, resend: &Resend, extent: DeadLetterRange) -> Self {
        Self { resend_id: resend.id.clone(), extent: ExtentAnswer::new(many, extent) }
    }
}

/// The dead letters that a bulk resend would queue again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewAnswer {
    /// Always true. Nothing was written.
    #[schema(example = true)]
    preview: bool,
    /// How many dead letters there are without the limit, except those whose event cannot be sent because its id is not valid; 10,001
    /// stands for more than 10,000.
    #[schema(minimum = 0, maximum = 10001)]
    total: i64,
    #[serde(flatten)]
    extent: ExtentAnswer,
}

impl PreviewAnswer {
    /// The response for a preview of this request.
    pub fn new(many: &Many, extent: DeadLetterRange, total: i64) -> Self {
        Self { preview: true, total, extent: ExtentAnswer::new(many, extent) }
    }
}

/// How many there are, and how long they take.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtentAnswer {
    /// The number of dead letters, one per event.
    #[schema(minimum = 0, maximum = 10000)]
    count: i64,
    /// When the oldest of them was created.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    oldest: Option<Time>,
    /// When the newest of them was created.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    newest: Option<Time>,
    /// Seconds from the first resend to the last, rounded up.
    #[schema(minimum = 0)]
    seconds: i64,
}

impl ExtentAnswer {
    fn new(many: &Many, extent: DeadLetterRange) -> Self {
        Self {
            count: extent.count,
            oldest: extent.oldest_ms.map(time),
            newest: extent.newest_ms.map(time),
            seconds: many.seconds(extent.count),
        }
    }
}

/// The response of POST /WebhookLogs/StopResend.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopAnswer {
    #[schema(example = "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a")]
    resend_id: String,
    /// Deliveries that were withdrawn. Their dead letters can be resent.
    #[schema(minimum = 0)]
    taken_back: i64,
    /// Deliveries that had been attempted before.
    #[schema(minimum = 0)]
    gone: i64,
}

impl StopAnswer {
    /// The response for a bulk resend that was just stopped.
    pub fn new(resend_id: &str, stopped: StoppedResend) -> Self {
        let StoppedResend { taken_back, gone } = stopped;
        Self { resend_id: resend_id.to_owned(), taken_back, gone }
    }
}

/// A bulk resend and its progress.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResendState {
    #[schema(example = "0f9d2c5b7a3e4d6c8b1a0f9e8d7c6b5a")]
    resend_id: String,
    /// The webhook's namespace/name.
    #[schema(example = "default/acme-orders")]
    webhook: String,
    /// The `from` of the request.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    from: Option<Time>,
    /// The `to` of the request.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    to: Option<Time>,
    /// Deliveries that are due per second.
    #[schema(minimum = 1, maximum = 100)]
    per_second: i64,
    /// Deliveries that it queued.
    #[schema(minimum = 0, maximum = 10000)]
    count: i64,
    #[schema(example = "employee 99")]
    requested_by: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(required)]
    stopped_by: Option<String>,
    #[schema(required, value_type = Option<String>, format = DateTime)]
    stopped_at: Option<Time>,
    /// Its deliveries that are Pending.
    #[schema(minimum = 0)]
    pending: i64,
    /// Its deliveries that are Failed: they are tried again.
    #[schema(minimum = 0)]
    failed: i64,
    /// Its deliveries that Succeeded.
    #[schema(minimum = 0)]
    succeeded: i64,
    /// Its deliveries that are DeadLetter.
    #[schema(minimum = 0)]
    dead_letter: i64,
    /// Its deliveries that were withdrawn when it was stopped. `count` is the sum of these five, until retention deletes
    /// deliveries that have ended.
    #[schema(minimum = 0)]
    taken_back: i64,
}

impl From<Progress> for ResendState {
    fn from(progress: Progress) -> Self {
        let Progress { resend, pending, failed, succeeded, dead_letter } = progress;
        Self {
            resend_id: resend.id,
            webhook: resend.webhook_name,
            from: resend.from_ms.map(time),
            to: resend.to_ms.map(time),
            per_second: resend.per_second,
            count: resend.count,
            requested_by: resend.requested_by,
            created_at: time(resend.created_at_ms),
            stopped_by: resend.stopped_by,
            stopped_at: resend.stopped_at_ms.map(time),
            pending,
            failed,
            succeeded,
            dead_letter,
            taken_back: resend.taken_back,
        }
    }
}

/// A page of bulk resends, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResendPage {
    /// The bulk resends.
    pub items: Vec<ResendState>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    pub next_cursor: Option<String>,
}
