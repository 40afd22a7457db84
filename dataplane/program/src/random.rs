//! Randomness: only this file asks the system for it.

/// `N` bytes from the system's cryptographic generator.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

/// Fills `bytes` from the system's cryptographic generator.
#[expect(clippy::disallowed_methods, reason = "the one place that draws randomness")]
pub fn fill(bytes: &mut [u8]) {
    rand::Rng::fill_bytes(&mut rand::rng(), bytes);
}
