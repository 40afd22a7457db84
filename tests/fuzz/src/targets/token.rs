//! Bearer tokens.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64URL;
use docket_domain::token::{
    ISSUER, MAX_TOKEN_BYTES, TOKEN_TYPE, TokenKey, TokenSubject, UserFingerprint, claimed_tenant, issue,
    verify,
};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde_json::Value;
use sha2::Sha256;

const KEYS: [TokenKey<'static>; 2] =
    [TokenKey { kid: "k1", secret: &[7; 32] }, TokenKey { kid: "k2", secret: &[8; 32] }];
const TENANT: &str = "uid-a";
const NOW: i64 = 1_000_000;

/// Tokens that the tenant issued; each is an input that is kept.
static ISSUED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let contact = TokenSubject::Contact { contact_code: "1042".into(), customer_code: "C-1001".into() };
    let employee = TokenSubject::Employee { employee_code: "E1".into(), administrator: true };
    let owner = UserFingerprint::new(Some("C-1001"), Some("$argon2id$"), 0);
    let issued = |key| {
        [contact.clone(), employee.clone()].map(|subject| issue(key, TENANT, (subject, &owner), now(), 60))
    };
    KEYS.into_iter().flat_map(issued).collect()
});

fn now() -> Timestamp {
    Timestamp::from_second(NOW).expect("in range")
}

pub(crate) fn run(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input) {
        check(text);
        let _ = claimed_tenant(text);
    }
    edited(input);
    // Two lines: header and claims, which this signs, so that what follows the signature is reached.
    if let Some(middle) = input.iter().position(|byte| *byte == b'\n') {
        signed(&input[..middle], &input[middle + 1..]);
    }
}

/// Checks that only issued tokens are valid.
fn check(token: &str) {
    let verified = verify(token, &KEYS, TENANT, now());
    assert!(verified.is_err() || ISSUED.iter().any(|issued| issued == token), "{token} was never issued");
}

/// An issued token, which the first byte chooses, with other characters: each has two bytes for its place.
fn edited(input: &[u8]) {
    let Some((chosen, edits)) = input.split_first() else { return };
    let mut token = ISSUED[usize::from(*chosen) % ISSUED.len()].clone().into_bytes();
    for edit in edits.chunks_exact(3).take(8) {
        let place = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % token.len();
        token[place] = edit[2] & 0x7f;
    }
    check(str::from_utf8(&token).expect("ASCII"));
}

fn signed(header: &[u8], claims: &[u8]) {
    let message = format!("{}.{}", BASE64URL.encode(header), BASE64URL.encode(claims));
    let mac = Hmac::<Sha256>::new_from_slice(KEYS[0].secret).expect("any length").chain_update(&message);
    let token = format!("{message}.{}", BASE64URL.encode(mac.finalize().into_bytes()));
    let Ok(verified) = verify(&token, &KEYS, TENANT, now()) else { return };
    assert!(token.len() <= MAX_TOKEN_BYTES);
    let (header, claims) = (parsed(header), parsed(claims));
    assert_eq!(
        (&header["alg"], &header["typ"], &header["kid"]),
        (&"HS256".into(), &TOKEN_TYPE.into(), &"k1".into())
    );
    assert_eq!((&claims["iss"], &claims["aud"]), (&ISSUER.into(), &TENANT.into()));
    let expires = claims["exp"].as_i64().expect("a whole number");
    assert!(verified.issued_at <= NOW + 60 && expires > NOW, "{} to {expires}", verified.issued_at);
    assert_eq!(claimed_tenant(&token).as_deref(), Some(TENANT));
}

fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).expect("what was accepted is JSON")
}
