//! The block of docs/webhooks/verify.md that accepts two secrets.

use super::rust_snippet::verify;

pub(super) fn verify_either(first: &[u8], second: &[u8], body: &[u8], signature: &str) -> bool {
    verify(first, body, signature) || verify(second, body, signature)
}
