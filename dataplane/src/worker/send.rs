//! One POST of one delivery: the contract's headers around the stored bytes.

use bytes::Bytes;
use docket_crds::{EventCode, WebhookConfig};
use docket_domain::delivery::{DeliveryId, Outcome};
use docket_domain::signature;
use docket_egress::{Post, Sender, Trust};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

/// One delivery to send.
pub(super) struct Message<'a> {
    /// The receiver: target URL and secret.
    pub(super) webhook: &'a WebhookConfig,
    /// The certificates to trust.
    pub(super) trust: &'a Trust,
    /// The delivery.
    pub(super) delivery: DeliveryId,
    /// Its event.
    pub(super) event_id: &'a str,
    /// The event's code.
    pub(super) code: EventCode,
    /// The stored envelope.
    pub(super) body: Bytes,
    /// The number of this attempt, from 1.
    pub(super) attempt: u32,
}

/// Makes one attempt.
pub(super) async fn send(sender: &Sender, message: Message<'_>, now: Timestamp) -> Outcome {
    let headers = headers(&message, now);
    let Message { webhook, trust, body, attempt, .. } = message;
    sender.post(Post { url: webhook.target_url.url(), trust, headers, body, afresh: attempt > 1 }).await
}

/// The contract's headers (Delivery headers), and those of Standard Webhooks, so that its libraries can verify the
/// signature and refuse replays.
fn headers(message: &Message<'_>, now: Timestamp) -> HeaderMap {
    let Message { webhook, delivery, event_id, code, body, .. } = message;
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: String| {
        let value =
            HeaderValue::from_str(&value).expect("ids, codes, digits and hexadecimal are visible ASCII");
        headers.insert(HeaderName::from_static(name), value);
    };
    set("content-type", "application/json; charset=utf-8".into());
    set(signature::EVENT_HEADER, code.as_str().into());
    set(signature::DELIVERY_ID_HEADER, delivery.to_string());
    set("webhook-id", (*event_id).into());
    set("webhook-timestamp", now.as_second().to_string());
    if let Some(secret) = &webhook.secret {
        set(signature::SIGNATURE_HEADER, signature::sign(secret.expose(), body));
        set("webhook-signature", signature::standard_webhooks(secret.expose(), event_id, now, body));
    }
    headers
}
