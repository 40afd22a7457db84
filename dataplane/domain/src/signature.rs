//! The signatures of a delivery: the contract's `X-Service-Signature`, and the signature of Standard Webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;

/// The header of the event code (Delivery headers).
pub const EVENT_HEADER: &str = "x-service-event";
/// The header of the delivery id (Delivery headers).
pub const DELIVERY_ID_HEADER: &str = "x-service-delivery-id";
/// The header of the signature; absent if the webhook has no secret (Delivery headers).
pub const SIGNATURE_HEADER: &str = "x-service-signature";

/// The header of the event's id, as Standard Webhooks names it.
pub const WEBHOOK_ID_HEADER: &str = "webhook-id";
/// The header of the time of the attempt in whole seconds since 1970, as Standard Webhooks names it.
pub const WEBHOOK_TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header of the signatures by Standard Webhooks, separated by spaces; absent if the webhook has no secret.
pub const WEBHOOK_SIGNATURE_HEADER: &str = "webhook-signature";

pub(crate) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

/// HMAC-SHA256 of the raw body in lowercase hexadecimal: the value of [`SIGNATURE_HEADER`].
pub fn sign(secret: &[u8], body: &[u8]) -> String {
    hex::encode(hmac_sha256(secret, &[body]).finalize().into_bytes())
}

/// Whether `signature` is the signature of `body`; compares in constant time (Signature verification, 4).
pub fn verify(secret: &[u8], body: &[u8], signature: &str) -> bool {
    // The contract allows lowercase only; hex::decode would accept both.
    let lowercase = !signature.bytes().any(|byte| byte.is_ascii_uppercase());
    match hex::decode(signature) {
        Ok(digest) if lowercase => hmac_sha256(secret, &[body]).verify_slice(&digest).is_ok(),
        _ => false,
    }
}

/// The `webhook-signature` value of the Standard Webhooks specification, so that its libraries can verify
/// deliveries: `v1,` and the base64 of HMAC-SHA256 over `<webhook-id>.<unix seconds>.<body>`.
pub fn standard_webhooks(secret: &[u8], event_id: &str, sent_at: Timestamp, body: &[u8]) -> String {
    let seconds = sent_at.as_second().to_string();
    let parts = [event_id.as_bytes(), b".", seconds.as_bytes(), b".", body];
    let digest = hmac_sha256(secret, &parts).finalize().into_bytes();
    let mut signature = String::with_capacity(64);
    signature.push_str("v1,");
    BASE64.encode_string(digest, &mut signature);
    signature
}

/// A secret as the libraries of Standard Webhooks take it: `whsec_` and the base64 of its bytes.
pub fn whsec(secret: &[u8]) -> String {
    format!("whsec_{}", BASE64.encode(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_matches_a_published_vector() {
        // RFC 4231, test case 2.
        assert_eq!(
            sign(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn verify_accepts_only_the_signature_of_the_body() {
        let signature = sign(b"secret", "{\"é\":1}".as_bytes());
        assert!(verify(b"secret", "{\"é\":1}".as_bytes(), &signature));
        assert!(!verify(b"secret", "{\"é\": 1}".as_bytes(), &signature));
        assert!(!verify(b"Secret", "{\"é\":1}".as_bytes(), &signature));
        assert!(!verify(b"secret", "{\"é\":1}".as_bytes(), &signature.to_uppercase()));
        assert!(!verify(b"secret", "{\"é\":1}".as_bytes(), ""));
        assert!(!verify(b"secret", "{\"é\":1}".as_bytes(), &signature[..62]));
    }

    #[test]
    fn standard_webhooks_matches_the_published_vector() {
        // The example of the Standard Webhooks reference libraries.
        let secret = hex::decode("31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0").expect("hexadecimal");
        let at = Timestamp::from_second(1_614_265_330).expect("in range");
        let signature =
            standard_webhooks(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, b"{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
