//! `docket verify`: why the signature of a delivery does not match.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use docket_rig::scratch::Folder;
use docket_tests::server::binary;

// RFC 4231, test case 2, and the example of the Standard Webhooks libraries.
const SECRET: &str = "Jefe";
const BODY: &[u8] = b"what do ya want for nothing?";
const SIGNATURE: &str = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
const STANDARD_SECRET: &str = "31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0";
const STANDARD_BODY: &[u8] = b"{\"test\": 2432232314}";
const STANDARD: [&str; 3] = [
    "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp: 1614265330",
    "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
];

struct Place {
    scratch: Folder,
}

impl Place {
    fn new() -> Self {
        Self { scratch: Folder::new("verify") }
    }

    fn secret(&self, secret: &[u8]) -> PathBuf {
        let path = self.scratch.path().join("secret");
        std::fs::write(&path, secret).expect("writable");
        path
    }

    /// The exit code and what is printed.
    fn verify(&self, secret: &[u8], arguments: &[&str], body: &[u8]) -> (i32, String) {
        let mut child = Command::new(binary())
            .args(["verify", "--secret-file"])
            .arg(self.secret(secret))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A program that refuses its arguments does not read its input.
        let _ = child.stdin.take().expect("piped").write_all(body);
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
        (output.status.code().expect("no signal"), text)
    }
}

#[test]
fn a_signature_that_matches_is_said_to() {
    let place = Place::new();
    let matches = (0, "✓ X-Service-Signature matches\n".to_owned());
    assert_eq!(place.verify(SECRET.as_bytes(), &["--signature", SIGNATURE], BODY), matches);
    let header = format!("X-SERVICE-SIGNATURE:  {SIGNATURE}");
    let more = ["--header", "User-Agent: Docket", "--header", &header];
    assert_eq!(place.verify(SECRET.as_bytes(), &more, BODY), matches);
    let (code, text) = place.verify(SECRET.as_bytes(), &["--signature", SIGNATURE, "-o", "json"], BODY);
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let signature = serde_json::json!({"header": "X-Service-Signature", "matches": true, "problem": null});
    assert_eq!((code, found), (0, serde_json::json!({"signatures": [signature]})));
}

#[test]
fn headers_of_standard_webhooks_are_judged_by_the_time_of_arrival() {
    let place = Place::new();
    let secret: Vec<u8> = hex::decode(STANDARD_SECRET).expect("hexadecimal");
    let headers = STANDARD.map(|header| ["--header", header]).concat();
    let in_time = [&headers[..], &["--at", "2021-02-25T15:05:30Z"]].concat();
    let matches = (0, "✓ webhook-signature matches\n".to_owned());
    assert_eq!(place.verify(&secret, &in_time, STANDARD_BODY), matches);
    let (code, text) = place.verify(&secret, &headers, STANDARD_BODY);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("✕ webhook-signature does not match: the signature matches, but webhook-timestamp is"),
        "{text}"
    );
    let (code, text) = place.verify(&secret, &headers[2..], STANDARD_BODY);
    assert_eq!((code, text.contains("the header webhook-id is missing")), (1, true), "{text}");
}

#[test]
fn a_signature_that_does_not_match_has_its_cause_and_no_digest() {
    let place = Place::new();
    let with_newline = [BODY, b"\n"].concat();
    let upper_case = SIGNATURE.to_uppercase();
    for (secret, arguments, body, cause) in [
        ("Jefe\n", ["--signature", SIGNATURE], BODY, "the secret ends in a newline on one side only"),
        (SECRET, ["--signature", SIGNATURE], &with_newline, "the body lost or gained a final newline"),
        (SECRET, ["--signature", &upper_case], BODY, "it is in upper case"),
        (SECRET, ["--signature", &SIGNATURE[..40]], BODY, "it has 40 hexadecimal digits of 64"),
        (SECRET, ["--signature", ""], BODY, "it is empty"),
        ("another", ["--signature", SIGNATURE], BODY, "another secret, or not the raw body"),
        (SECRET, ["--header", "x-service-event: order.created"], BODY, "X-Service-Signature is missing"),
    ] {
        let (code, text) = place.verify(secret.as_bytes(), &arguments, body);
        assert_eq!((code, text.starts_with('✕'), text.contains(cause)), (1, true, true), "{cause}: {text}");
        assert!(!text.to_lowercase().contains(&SIGNATURE[..8]) && !text.contains("Jefe"), "{text}");
    }
}

#[test]
fn content_of_standard_webhooks_under_the_other_header_is_named() {
    let place = Place::new();
    let secret = hex::decode(STANDARD_SECRET).expect("hexadecimal");
    // The digest of the libraries' example, in base64.
    let digest = STANDARD[2].trim_start_matches("webhook-signature: v1,");
    let given = ["--signature", digest, "--header", STANDARD[0], "--header", STANDARD[1]];
    let (code, text) = place.verify(&secret, &given, STANDARD_BODY);
    let cause =
        "it is base64, and must be lowercase hexadecimal; and webhook-id or webhook-timestamp was signed";
    assert_eq!((code, text.contains(cause)), (1, true), "{text}");
}

#[test]
fn what_cannot_be_read_has_its_own_exit_code() {
    let place = Place::new();
    let twice = format!("x-service-signature: {SIGNATURE}");
    let long = vec![b' '; 1024 * 1024 + 1];
    for (secret, arguments, body, said) in [
        (SECRET, &[][..], BODY, "--signature"),
        ("", &["--signature", SIGNATURE], BODY, "is empty; a secret has at least one byte"),
        (SECRET, &["--signature", SIGNATURE], &long, "over 1 MiB"),
        (SECRET, &["--signature", SIGNATURE, "--header", &twice], BODY, "given twice"),
        (
            SECRET,
            &["--header", &twice, "--header", &twice],
            BODY,
            "the header x-service-signature is given twice",
        ),
        (SECRET, &["--header", "nothing"], BODY, "must be a name, a colon and a value"),
        (SECRET, &["--signature", SIGNATURE, "--at", "soon"], BODY, "--at"),
        (SECRET, &["--signature", SIGNATURE, "--secret-file", "/nowhere"], BODY, "/nowhere can't be read"),
    ] {
        let (code, text) = place.verify(secret.as_bytes(), arguments, body);
        assert_eq!((code, text.contains(said)), (2, true), "{said}: {text}");
    }
}
