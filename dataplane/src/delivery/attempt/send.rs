//! One POST of one delivery: the contract's headers around the stored bytes.

use docket_domain::delivery::{DeliveryId, FailureClass, Outcome, Report};
use docket_domain::{sample, signature};
use docket_egress::Post;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

use super::Worker;
use super::begin::Attempt;

const EVENT: HeaderName = HeaderName::from_static(signature::EVENT_HEADER);
const DELIVERY_ID: HeaderName = HeaderName::from_static(signature::DELIVERY_ID_HEADER);
const SIGNATURE: HeaderName = HeaderName::from_static(signature::SIGNATURE_HEADER);
const WEBHOOK_ID: HeaderName = HeaderName::from_static(signature::WEBHOOK_ID_HEADER);
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static(signature::WEBHOOK_TIMESTAMP_HEADER);
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static(signature::WEBHOOK_SIGNATURE_HEADER);
const TEST: HeaderName = HeaderName::from_static(sample::TEST_HEADER);
/// These headers and the five of the sender.
const HEADERS: usize = 13;

impl Worker {
    /// Makes the POST of an attempt. `None`: the webhook is not served any more, so the attempt is not made.
    pub(super) async fn send(&self, attempt: &Attempt) -> Option<Outcome> {
        let Attempt { tenant, started, event, .. } = attempt;
        let unsent = |class| Some(Outcome::Failed(class, Report::default()));
        let webhook = tenant.webhook(&started.webhook)?;
        let Some(event) = event else { return unsent(FailureClass::EventIdInvalid) };
        // A webhook that was recreated for another customer is another webhook, whatever its uid.
        if webhook.customer_code.as_str() != event.customer_code {
            return None;
        }
        let Some(body) = event.body.clone() else { return unsent(FailureClass::EventTooLong) };
        let names = (started.id, started.event_id.as_str(), &*event.code);
        let headers = headers(&webhook.secrets(), names, event.is_test, &body, self.clock.now());
        let (url, trust, afresh) = (webhook.target_url.url(), tenant.trust(webhook), started.attempt > 1);
        Some(self.sender.post(Post { url, trust, headers, body, afresh }).await)
    }
}

/// The contract's headers (Delivery headers) of a request that is sent `now`, and the headers of Standard Webhooks, so that
/// its libraries can verify the signature and refuse replays. Without secrets there are no signatures; the current one comes
/// first. `is_test`: the event was made to try the webhook.
pub fn headers(
    secrets: &[&[u8]],
    (delivery, event_id, code): (DeliveryId, &str, &str),
    is_test: bool,
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
    if is_test {
        headers.insert(TEST, HeaderValue::from_static("true"));
    }
    headers
}

/// The value without a copy.
fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("ids, codes, digits and hexadecimal are visible ASCII")
}
