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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_equal() {
        let mut filled = [0; 16];
        fill(&mut filled);
        let draws = [bytes(), bytes(), filled, [0; 16]];
        for (place, draw) in draws.iter().enumerate() {
            assert!(!draws[..place].contains(draw), "{draws:?}");
        }
    }
}
