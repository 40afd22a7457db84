//! Responses of /WebhookLogs.

use docket_crds::EventCode;
use docket_domain::delivery::{DeadLetter, DeliveryKind, FailureClass, Status};
use docket_domain::failure::Cause;
use docket_store::deliveries::{ListedDelivery, StoredAttempt};
use docket_store::events::About;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::actions::resend::remedy;
use crate::http::times::{Time, time};
use crate::http::words::word_schema;

word_schema!(
    /// The status of a delivery: [`Status`].
    DeliveryState => Status,
    "Pending (no attempt has ended), Failed (another attempt is scheduled), Succeeded or DeadLetter (both final)."
);
word_schema!(
    /// What became of a dead letter: [`DeadLetter`].
    DeadLetterState => DeadLetter,
    "open (it counts), resent (a later delivery counts instead) or setAside."
);
word_schema!(
    /// Why there is a delivery: [`DeliveryKind`].
    DeliveryKindWord => DeliveryKind,
    "first (the first delivery of an event to its webhook, and no test), resend (it sends an event again) or test. The resend of a test \
     is both."
);
word_schema!(
    /// How an attempt failed: [`FailureClass`].
    FailureWord => FailureClass,
    "How an attempt failed. `remedy` says what to do about it."
);
word_schema!(
    /// Why an attempt failed, beside its class: [`Cause`].
    CauseWord => Cause,
    "Why an attempt failed, if more is known than its class. The page about failure classes describes each."
);
word_schema!(
    /// The code of an event: [`EventCode`].
    EventWord => EventCode,
    "A code of the event catalog."
);
word_schema!(
    /// The outcome of an attempt, in [`AttemptAnswer`].
    AttemptOutcome,
    [UNDER_WAY, SUCCEEDED, FAILED],
    "UnderWay, Succeeded or Failed."
);

const UNDER_WAY: &str = "UnderWay";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// A delivery in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliverySummary {
    /// The header X-Service-Delivery-Id that the receiver gets.
    #[schema(example = "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f")]
    delivery_id: String,
    /// The `id` in the payload. Resends of an event have the same `id`. Empty if another program has stored an invalid `id`.
    #[schema(example = "evt_0193f0c2a1b07c3e9d6f5a4b3c2d1e0f")]
    event_id: String,
    #[schema(value_type = EventWord)]
    event: String,
    #[schema(example = "C-1001")]
    customer_code: String,
    /// The web order that the event is about.
    #[schema(required)]
    web_order_id: Option<String>,
    /// The work order that the event is about. Null for an export, whose payload lists its work orders.
    #[schema(required)]
    work_order: Option<String>,
    /// The invoice that the event is about.
    #[schema(required)]
    invoice_number: Option<String>,
    /// The webhook's namespace/name.
    #[schema(example = "default/acme-orders")]
    webhook: String,
    #[schema(value_type = DeliveryState)]
    status: &'static str,
    /// Attempts made so far.
    #[schema(minimum = 0, maximum = 5)]
    attempt_count: i64,
    /// When the next attempt is due; null once the status is final.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Time>,
    /// What the delivery waits for while its next attempt is due; null otherwise. For people, as it completes "waits for".
    #[schema(required, example = "one of 2 places: the receiver was slow")]
    waits_for: Option<String>,
    /// How the last attempt failed.
    #[schema(required, value_type = Option<FailureWord>)]
    failure_class: Option<&'static str>,
    /// Why it failed, if more is known than the class.
    #[schema(required, value_type = Option<CauseWord>)]
    failure_cause: Option<&'static str>,
    /// What belongs to the cause: the time at which a certificate expired, the names that it is for, or where the answer breaks
    /// a rule. Of a redirect, its Location as an absolute URL, with `?…` in place of a query.
    #[schema(required, max_length = 500)]
    failure_detail: Option<String>,
    /// The HTTP status of the receiver's last response.
    #[schema(required, minimum = 100, maximum = 999)]
    http_status: Option<i64>,
    /// The key under which the webhook gets this event only once, such as the key of an invoice.
    #[schema(required)]
    idempotency_key: Option<String>,
    /// The delivery that this one resends.
    #[schema(required)]
    resend_of: Option<String>,
    /// The bulk resend that this delivery is part of.
    #[schema(required)]
    resend_id: Option<String>,
    /// Whether the event was made to try the webhook: it carries sample data and the header X-Service-Test.
    is_test: bool,
    /// Who requested the resend or the test.
    #[schema(required, example = "employee 99")]
    requested_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When the delivery became Succeeded or DeadLetter.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    finished_at: Option<Time>,
    /// Whether the dead letter was resent: a later delivery carries its event to the webhook, and counts instead.
    resent: bool,
    /// Who set the dead letter aside.
    #[schema(required, example = "employee 99")]
    set_aside_by: Option<String>,
    /// When the dead letter was set aside. It counts nowhere, and bulk resends leave it out.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    set_aside_at: Option<Time>,
}

impl DeliverySummary {
    /// A delivery, and what it waits for.
    pub fn new((listed, waits_for): (ListedDelivery, Option<String>)) -> Self {
        let About { web_order_id, work_order, invoice_number } = listed.about;
        let (set_aside_by, set_aside_at) = listed.set_aside.map(|(by, at_ms)| (by, time(at_ms))).unzip();
        Self {
            delivery_id: listed.id,
            event_id: listed.event_id,
            event: listed.event_code,
            customer_code: listed.customer_code,
            web_order_id,
            work_order,
            invoice_number,
            webhook: listed.webhook_name,
            status: listed.status.as_str(),
            attempt_count: listed.attempt_count,
            next_attempt_at: (!listed.status.is_final()).then(|| time(listed.due_at_ms)),
            waits_for,
            failure_class: listed.failure_class.map(FailureClass::as_str),
            failure_cause: listed.failure_cause.map(Cause::as_str),
            failure_detail: listed.failure_detail,
            http_status: listed.http_status,
            idempotency_key: listed.idempotency_key,
            resend_of: listed.resend_of,
            resend_id: listed.resend_id,
            is_test: listed.is_test,
            requested_by: listed.requested_by,
            created_at: time(listed.created_at_ms),
            finished_at: listed.finished_at_ms.map(time),
            resent: listed.resent,
            set_aside_by,
            set_aside_at,
        }
    }
}

/// A page of deliveries, newest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryPage {
    /// The deliveries.
    pub items: Vec<DeliverySummary>,
    /// The cursor of the next page; null on the last one. A page can be short, even empty, before the last one: a search for
    /// something rare returns after half a second what it has found.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

impl DeliveryPage {
    /// A page of deliveries, each with what it waits for.
    pub fn new(items: Vec<ListedDelivery>, waits: Vec<Option<String>>, next_cursor: Option<String>) -> Self {
        let items = items.into_iter().zip(waits).map(DeliverySummary::new).collect();
        Self { items, next_cursor }
    }
}

/// The response of GET /WebhookLogs/Get.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAnswer {
    #[serde(flatten)]
    summary: DeliverySummary,
    /// What to do about the last failure, or what became of it since; null if the delivery Succeeded.
    #[schema(required)]
    remedy: Option<String>,
    /// The later deliveries of the same event to the webhook, newest first: the resends of this one, and theirs.
    #[schema(max_items = 20)]
    resends: Vec<DeliverySummary>,
    /// The attempts, oldest first.
    #[schema(max_items = 5)]
    attempts: Vec<AttemptAnswer>,
    /// Exactly the bytes that are signed and sent. Null if another program has stored an event that is too long or no JSON, or whose
    /// id is invalid.
    #[schema(required, value_type = Option<Object>, example = json!({"id": "evt_0193f0c2a1b07c3e9d6f5a4b3c2d1e0f", "event": "order.created",
        "occurredAt": "2026-11-21T05:06:07.123Z", "customerCode": "C-1001",
        "data": {"orderType": "Court", "webOrderId": "W00000001"}}))]
    payload: Option<Box<RawValue>>,
}

impl DeliveryAnswer {
    /// The response for a stored delivery and its resends, newest first, each with what it waits for.
    pub fn new(
        delivery: (ListedDelivery, Option<String>),
        attempts: Vec<StoredAttempt>,
        later: Vec<(ListedDelivery, Option<String>)>,
        payload: Option<Box<RawValue>>,
    ) -> Self {
        Self {
            remedy: remedy(&delivery.0, later.first().map(|(newest, _)| newest.status)),
            summary: DeliverySummary::new(delivery),
            resends: later.into_iter().map(DeliverySummary::new).collect(),
            attempts: attempts.into_iter().map(Into::into).collect(),
            payload,
        }
    }
}

/// One attempt of a delivery, with the receiver's response.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptAnswer {
    #[serde(flatten)]
    summary: AttemptSummary,
    /// The beginning of the receiver's response.
    #[schema(required, max_length = 2000)]
    response_body: Option<String>,
}

/// One attempt of a delivery, without the receiver's response.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptSummary {
    #[schema(minimum = 1, maximum = 5)]
    number: i64,
    #[schema(value_type = String, format = DateTime)]
    started_at: Time,
    /// Null while the attempt is under way.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    finished_at: Option<Time>,
    #[schema(value_type = AttemptOutcome)]
    outcome: &'static str,
    #[schema(required, value_type = Option<FailureWord>)]
    failure_class: Option<&'static str>,
    /// Why it failed, if more is known than the class.
    #[schema(required, value_type = Option<CauseWord>)]
    failure_cause: Option<&'static str>,
    /// What belongs to the cause, or the Location of a redirect, as `failureDetail` of a delivery.
    #[schema(required, max_length = 500)]
    failure_detail: Option<String>,
    /// What the failure means and what to do about it.
    #[schema(required)]
    remedy: Option<String>,
    /// The HTTP status of the receiver's response.
    #[schema(required, minimum = 100, maximum = 999)]
    http_status: Option<i64>,
    /// The address and port that the request was sent to.
    #[schema(required, example = "203.0.113.7:443")]
    remote_address: Option<String>,
    times_microseconds: PhaseAnswer,
}

/// The duration of each phase of an attempt in microseconds. Null if the phase did not succeed, was not reached, or was not
/// needed because the connection was open already.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseAnswer {
    /// The DNS look-up.
    #[schema(required, minimum = 0)]
    dns: Option<i64>,
    /// Opening the connection.
    #[schema(required, minimum = 0)]
    connect: Option<i64>,
    /// The TLS handshake.
    #[schema(required, minimum = 0)]
    tls: Option<i64>,
    /// From the request's first byte to the response's headers.
    #[schema(required, minimum = 0)]
    first_byte: Option<i64>,
    /// The whole attempt.
    #[schema(required, minimum = 0)]
    total: Option<i64>,
}

impl From<StoredAttempt> for AttemptAnswer {
    fn from(mut attempt: StoredAttempt) -> Self {
        Self { response_body: attempt.response_body.take(), summary: attempt.into() }
    }
}

impl From<StoredAttempt> for AttemptSummary {
    fn from(attempt: StoredAttempt) -> Self {
        let outcome = match (attempt.finished_at_ms, attempt.failure_class) {
            (None, _) => UNDER_WAY,
            (Some(_), None) => SUCCEEDED,
            (Some(_), Some(_)) => FAILED,
        };
        Self {
            number: attempt.number,
            started_at: time(attempt.started_at_ms),
            finished_at: attempt.finished_at_ms.map(time),
            outcome,
            remedy: attempt.failure().map(|failure| failure.remedy()),
            failure_class: attempt.failure_class.map(FailureClass::as_str),
            failure_cause: attempt.failure_cause.map(Cause::as_str),
            failure_detail: attempt.failure_detail,
            http_status: attempt.http_status,
            remote_address: attempt.remote_address,
            times_microseconds: PhaseAnswer {
                dns: attempt.dns_us,
                connect: attempt.connect_us,
                tls: attempt.tls_us,
                first_byte: attempt.first_byte_us,
                total: attempt.total_us,
            },
        }
    }
}
