//! Signatures of deliveries, as a receiver's author gives them to `docket verify`.

use docket_domain::diagnosis::{self, StandardHeaders, TOLERANCE_SECONDS};
use docket_domain::signature::{sign, standard_webhooks};
use jiff::Timestamp;

use crate::SECRET;

const NOW: i64 = 1_795_237_567;

/// Five lines and the body: secret, `x-service-signature`, `webhook-id`, `webhook-timestamp`, `webhook-signature`.
pub(crate) fn run(input: &[u8]) {
    let parts: Vec<&[u8]> = input.splitn(6, |byte| *byte == b'\n').collect();
    let [secret, head @ .., body] = &parts[..] else { return };
    let [signature, id, timestamp, webhook_signature] = head else { return };
    let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
    let (signature, id) = (text(signature), text(id));
    let (timestamp, webhook_signature) = (text(timestamp), text(webhook_signature));
    let secrets = [secret.to_vec()];
    let right = sign(secret, body);

    let headers =
        StandardHeaders { id: Some(&id), timestamp: Some(&timestamp), signature: Some(&webhook_signature) };
    let judged = diagnosis::service(&secrets, &signature, &headers, body);
    assert_eq!(judged.is_ok(), signature == right, "{judged:?}");
    if let Err(mismatch) = judged {
        assert_tells_nothing(&mismatch.to_string(), &right);
    }

    let now = Timestamp::from_second(NOW).expect("in range");
    match diagnosis::standard(&secrets, &headers, body, now) {
        Ok(()) => {
            let seconds: i64 = timestamp.parse().expect("a number");
            assert!((seconds - NOW).abs() <= TOLERANCE_SECONDS);
            let right =
                standard_webhooks(secret, &id, Timestamp::from_second(seconds).expect("in range"), body);
            assert!(webhook_signature.split(' ').any(|one| one == right));
        }
        Err(fault) => assert_tells_nothing(&fault.to_string(), &right),
    }
}

fn assert_tells_nothing(message: &str, right: &str) {
    assert!(message.len() <= 1_024 && !message.contains(SECRET), "{message}");
    assert!(!message.to_ascii_lowercase().contains(&right[..8]), "{message}");
}
