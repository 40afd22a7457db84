//! One POST of one delivery: the contract's headers around the stored bytes.

use bytes::Bytes;
use docket_crds::{EventCode, WebhookConfig};
use docket_domain::delivery::{DeliveryId, Outcome};
use docket_domain::signature;
use docket_egress::{Post, Sender, Trust};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

/// What is sent, and to whom.
#[expect(missing_debug_implementations, reason = "holds the payload and the secret")]
pub struct Message<'a> {
    /// Where to, and the secret to sign with.
    pub webhook: &'a WebhookConfig,
    /// Which certificates are believed.
    pub trust: &'a Trust,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its event.
    pub event_id: &'a str,
    /// The event's code.
    pub code: EventCode,
    /// The envelope, as it was stored.
    pub body: Bytes,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// Makes one attempt.
pub async fn send(sender: &Sender, message: Message<'_>, now: Timestamp) -> Outcome {
    let headers = headers(&message, now);
    let Message { webhook, trust, body, attempt, .. } = message;
    sender.post(Post { url: webhook.target_url.url(), trust, headers, body, afresh: attempt > 1 }).await
}

/// The contract's headers (Delivery headers), and those of Standard Webhooks beside them, whose ready-made libraries
/// then verify us and refuse a replay.
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
