//! The block of docs/webhooks/verify.md.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub(super) fn verify(secret: &[u8], body: &[u8], signature: &str) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(body);
    let lowercase = !signature.bytes().any(|byte| byte.is_ascii_uppercase());
    lowercase && hex::decode(signature).is_ok_and(|given| mac.verify_slice(&given).is_ok())
}
