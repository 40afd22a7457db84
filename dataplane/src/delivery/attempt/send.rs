//! One POST of one delivery: the contract's headers around the stored bytes.

use bytes::Bytes;
use docket_crds::WebhookConfig;
use docket_domain::delivery::{DeliveryId, Outcome};
use docket_domain::{sample, signature};
use docket_egress::{Post, Sender, Trust};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

const EVENT: HeaderName = HeaderName::from_static(signature::EVENT_HEADER);
const DELIVERY_ID: HeaderName = HeaderName::from_static(signature::DELIVERY_ID_HEADER);
const SIGNATURE: HeaderName = HeaderName::from_static(signature::SIGNATURE_HEADER);
const WEBHOOK_ID: HeaderName = HeaderName::from_static(signature::WEBHOOK_ID_HEADER);
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static(signature::WEBHOOK_TIMESTAMP_HEADER);
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static(signature::WEBHOOK_SIGNATURE_HEADER);
const TEST: HeaderName = HeaderName::from_static(sample::TEST_HEADER);
/// These headers and the five of the sender.
const HEADERS: usize = 13;

/// One delivery to send.
pub(super) struct OutgoingDelivery<'a> {
    /// The receiver: target URL and secret.
    pub(super) webhook: &'a WebhookConfig,
    /// The certificates to trust.
    pub(super) trust: &'a Trust,
    /// The delivery.
    pub(super) delivery: DeliveryId,
    /// Its event.
    pub(super) event_id: &'a str,
    /// The event's code, also one that only a newer version knows.
    pub(super) code: &'a str,
    /// The stored envelope.
    pub(super) body: Bytes,
    /// Whether the event was made to try the webhook.
    pub(super) is_test: bool,
    /// The number of this attempt, from 1.
    pub(super) attempt: u32,
}

/// Makes one attempt.
pub(super) async fn send(sender: &Sender, message: OutgoingDelivery<'_>, now: Timestamp) -> Outcome {
    let OutgoingDelivery { webhook, trust, delivery, event_id, code, body, is_test, attempt } = message;
    let mut headers = headers(&webhook.secrets(), (delivery, event_id, code), &body, now);
    if is_test {
        mark_as_test(&mut headers);
    }
    sender.post(Post { url: webhook.target_url.url(), trust, headers, body, afresh: attempt > 1 }).await
}

/// The contract's headers (Delivery headers) of a request that is sent `now`, and those of Standard Webhooks, so that its
/// libraries can verify the signature and refuse replays. Without secrets there are no signatures; the current one comes
/// first.
pub fn headers(
    secrets: &[&[u8]],
    (delivery, event_id, code): (DeliveryId, &str, &str),
    body: &[u8],
    now: Timestamp,
) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    headers.insert(EVENT, value(code.to_owned()));
    headers.insert(DELIVERY_ID, value(delivery.to_string()));
    headers.insert(WEBHOOK_ID, value(event_id.to_owned()));
    headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from(now.as_second()));
    // The contract's header has room for one signature: the next secret signs it once it is the only one.
    if let Some(current) = secrets.first() {
        headers.insert(SIGNATURE, value(signature::sign(current, body)));
        let by = |secret: &&[u8]| signature::standard_webhooks(secret, event_id, now, body);
        headers.insert(WEBHOOK_SIGNATURE, value(secrets.iter().map(by).collect::<Vec<_>>().join(" ")));
    }
    headers
}

/// Adds the header that says that the event was made to try the webhook.
pub fn mark_as_test(headers: &mut HeaderMap) {
    headers.insert(TEST, HeaderValue::from_static("true"));
}

/// The value without a copy.
fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("ids, codes, digits and hexadecimal are visible ASCII")
}
