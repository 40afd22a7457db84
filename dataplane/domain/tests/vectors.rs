//! `docs/vectors.json`: signed deliveries, and requests that a verifier must refuse. The code generates the file:
//!
//! ```sh
//! UPDATE_VECTORS=1 cargo test -p docket-domain --test vectors
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use docket_crds::EventCode;
use docket_domain::diagnosis::{self, StandardHeaders};
use docket_domain::event::{self, EventId, envelope};
use docket_domain::sample;
use docket_domain::signature::{sign, standard_webhooks};
use jiff::Timestamp;
use serde::Serialize;

const SECRET: &str = "correct-horse-battery-staple-2026";
const OTHER_SECRET: &str = "another-secret-with-24-bytes-or-more";

#[derive(Serialize)]
struct Vectors {
    vectors: Vec<Vector>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    name: String,
    secret: String,
    body: String,
    signature: String,
    valid: bool,
    webhook_id: String,
    webhook_timestamp: i64,
    webhook_signature: String,
    webhook_valid: bool,
}

fn at() -> Timestamp {
    "2026-11-21T05:06:07.123Z".parse().expect("a timestamp")
}

/// A delivery of the sample of `code`, signed with `secret` and valid.
fn signed(name: &str, code: EventCode, secret: &str) -> Vector {
    let id = EventId::new(at(), [code as u8; 10]);
    let body = envelope(&id, at(), "C-1001", &sample::payload(code));
    Vector {
        name: name.to_owned(),
        secret: secret.to_owned(),
        signature: sign(secret.as_bytes(), &body),
        valid: true,
        webhook_id: id.to_string(),
        webhook_timestamp: at().as_second(),
        webhook_signature: standard_webhooks(secret.as_bytes(), id.as_str(), at(), &body),
        webhook_valid: true,
        body: String::from_utf8(body).expect("JSON is UTF-8"),
    }
}

fn vectors() -> Vec<Vector> {
    let mut all: Vec<Vector> =
        EventCode::ALL.map(|code| signed(code.as_str(), code, SECRET)).into_iter().collect();
    let note = |name, secret| signed(name, EventCode::NoteCreated, secret);
    all.extend([
        note("a secret that looks like base64 is used as it is", "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ=="),
        note(
            "a secret that looks like hexadecimal is used as it is",
            "0123456789abcdef0123456789abcdef0123456789abcdef",
        ),
        note("a secret that is not ASCII is UTF-8", "clé-契約-with-more-than-24-bytes"),
    ]);

    let right = note("", SECRET);
    let refused =
        |name: &str| Vector { name: name.to_owned(), valid: false, webhook_valid: false, ..right.clone() };
    let spelled = |name: &str, signature: String| Vector { signature, webhook_valid: true, ..refused(name) };
    let digest = hex::decode(&right.signature).expect("hexadecimal");
    let value: serde_json::Value = serde_json::from_str(&right.body).expect("JSON");
    all.extend([
        Vector { secret: OTHER_SECRET.to_owned(), ..refused("another secret") },
        Vector { body: format!("{}\n", right.body), ..refused("a newline after the body") },
        Vector { body: value.to_string(), ..refused("JSON that was parsed and written again") },
        Vector { body: String::new(), ..refused("an empty body") },
        spelled("upper case", right.signature.to_uppercase()),
        spelled("base64", BASE64.encode(digest)),
        spelled("cut off", right.signature[..62].to_owned()),
        spelled("one digit more", format!("{}0", right.signature)),
        spelled("an empty header", String::new()),
    ]);

    // X-Service-Signature uses the old secret until the new secret replaces it.
    let new = note("", OTHER_SECRET);
    let both = Vector {
        webhook_signature: format!("{} {}", right.webhook_signature, new.webhook_signature),
        ..right
    };
    all.extend([
        Vector { name: "two secrets: a receiver with the old one".to_owned(), ..both.clone() },
        Vector {
            name: "two secrets: a receiver with the new one".to_owned(),
            secret: OTHER_SECRET.to_owned(),
            valid: false,
            ..both
        },
    ]);
    all
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the one switch of this test: whether it writes the file")]
fn the_published_vectors_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vectors.json");
    let text = serde_json::to_string_pretty(&Vectors { vectors: vectors() }).expect("JSON") + "\n";
    if std::env::var("UPDATE_VECTORS").is_ok() {
        std::fs::write(path, &text).expect("writable");
    }
    let published = std::fs::read_to_string(path).expect("docs/vectors.json is there");
    assert_eq!(published, text, "UPDATE_VECTORS=1 cargo test -p docket-domain --test vectors");
}

#[test]
fn our_own_verifiers_agree_with_each_vector() {
    for vector in vectors() {
        let secrets = [vector.secret.into_bytes()];
        let body = vector.body.as_bytes();
        let timestamp = vector.webhook_timestamp.to_string();
        let headers = StandardHeaders {
            id: Some(&vector.webhook_id),
            timestamp: Some(&timestamp),
            signature: Some(&vector.webhook_signature),
        };
        let verified = diagnosis::service(&secrets, &vector.signature, &headers, body);
        assert_eq!(verified.is_ok(), vector.valid, "{}: {verified:?}", vector.name);
        let verified = diagnosis::standard(&secrets, &headers, body, at());
        assert_eq!(verified.is_ok(), vector.webhook_valid, "{}: {verified:?}", vector.name);
        if vector.valid {
            assert_eq!(event::as_sent(body).as_deref(), Some(body), "{}", vector.name);
        }
    }
}
