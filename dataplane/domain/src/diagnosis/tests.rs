use docket_crds::EventCode;
use sha2::Digest as _;

use super::*;
use crate::event::{EventId, LONGEST_EVENT_ID, OrderExported, Payload, envelope};
use crate::sample;
use crate::signature::{sign, standard_webhooks};

const SECRET: &[u8] = b"correct-horse-battery-staple";

fn now() -> Timestamp {
    "2026-11-21T05:06:07.123Z".parse().expect("a timestamp")
}

fn sent() -> Vec<u8> {
    let data = sample::payload(EventCode::NoteCreated);
    envelope(&EventId::new(now(), [0xab; 10]), now(), "C-1001", &data)
}

/// Judges `signature` without the headers of Standard Webhooks.
fn of_service(secrets: &[Vec<u8>], signature: &str, body: &[u8]) -> Result<(), Mismatch> {
    service(secrets, signature, &StandardHeaders::default(), body)
}

/// Signs `signed` with `key`, and judges this signature for a receiver with `secret` that got `body`.
fn judged(secret: &[u8], body: &[u8], key: &[u8], signed: &[u8]) -> Result<(), Mismatch> {
    of_service(&[b"another".to_vec(), secret.to_vec()], &sign(key, signed), body)
}

fn known(
    spelling: Option<Spelling>,
    secret: Option<SecretFault>,
    body: Option<BodyFault>,
) -> Result<(), Mismatch> {
    Err(Mismatch::Known { spelling, secret, body })
}

#[test]
fn the_right_signature_of_any_secret_matches() {
    assert_eq!(judged(SECRET, &sent(), SECRET, &sent()), Ok(()));
    assert_eq!(judged(SECRET, &sent(), b"another", &sent()), Ok(()));
    assert_eq!(judged(SECRET, b"", SECRET, b""), Ok(()));
}

#[test]
fn each_mistake_with_a_secret_is_named() {
    let base64 = BASE64.encode(SECRET);
    let whsec = format!("whsec_{base64}");
    let hexadecimal = "0123456789abcdef".repeat(4);
    let bytes = hex::decode(&hexadecimal).expect("hexadecimal");
    let (quoted, in_apostrophes) = ([b"\"", SECRET, b"\""].concat(), [b"'", SECRET, b"'"].concat());
    let sha256 = sha2::Sha256::digest(SECRET);
    let marked = ["\u{feff}".as_bytes(), SECRET].concat();
    let marked_before = "\u{feff}".as_bytes();
    let v1 = format!("v1,{whsec}");
    let utf_16 = |mark: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("{mark}{}", String::from_utf8_lossy(SECRET)).encode_utf16().flat_map(bytes).collect()
    };
    let utf_16_line = [utf_16("", u16::to_le_bytes), b"\r\0\n\0".to_vec()].concat();
    for (given, key, fault) in [
        ([SECRET, b"\n"].concat(), SECRET.to_vec(), SecretFault::Newline),
        ([SECRET, b"\r\n"].concat(), SECRET.to_vec(), SecretFault::Newline),
        (SECRET.to_vec(), [SECRET, b"\n"].concat(), SecretFault::Newline),
        ([b" ", SECRET, b" "].concat(), SECRET.to_vec(), SecretFault::Whitespace),
        (SECRET.to_vec(), [SECRET, b" "].concat(), SecretFault::Whitespace),
        (SECRET.to_vec(), [SECRET, b"\t"].concat(), SecretFault::Whitespace),
        (SECRET.to_vec(), [SECRET, b"\r"].concat(), SecretFault::Whitespace),
        ([SECRET, "\u{a0}".as_bytes()].concat(), SECRET.to_vec(), SecretFault::Whitespace),
        (SECRET.to_vec(), [SECRET, "\u{a0}".as_bytes()].concat(), SecretFault::Whitespace),
        (quoted.clone(), SECRET.to_vec(), SecretFault::Quoted),
        (SECRET.to_vec(), quoted.clone(), SecretFault::Quoted),
        (in_apostrophes.clone(), SECRET.to_vec(), SecretFault::Quoted),
        (SECRET.to_vec(), in_apostrophes, SecretFault::Quoted),
        ([SECRET, b"\n"].concat(), quoted, SecretFault::Quoted),
        (marked, SECRET.to_vec(), SecretFault::ByteOrderMark),
        (whsec.clone().into_bytes(), SECRET.to_vec(), SecretFault::WhsecText),
        (format!("{whsec}\n").into_bytes(), SECRET.to_vec(), SecretFault::WhsecText),
        (SECRET.to_vec(), whsec.clone().into_bytes(), SecretFault::WhsecAsKey),
        (whsec.clone().into_bytes(), base64.clone().into_bytes(), SecretFault::WhsecPrefix),
        (base64.clone().into_bytes(), whsec.into_bytes(), SecretFault::WhsecPrefix),
        (SECRET.to_vec(), hex::encode(SECRET).into_bytes(), SecretFault::HexAsKey),
        (SECRET.to_vec(), hex::encode_upper(SECRET).into_bytes(), SecretFault::HexAsKey),
        (SECRET.to_vec(), sha256.to_vec(), SecretFault::Hashed),
        (SECRET.to_vec(), hex::encode(sha256).into_bytes(), SecretFault::Hashed),
        (SECRET.to_vec(), base64.clone().into_bytes(), SecretFault::WhsecAsKey),
        (base64.into_bytes(), SECRET.to_vec(), SecretFault::Decoded),
        (hexadecimal.into_bytes(), bytes, SecretFault::Decoded),
        (v1.clone().into_bytes(), SECRET.to_vec(), SecretFault::WhsecText),
        (SECRET.to_vec(), v1.into_bytes(), SecretFault::WhsecAsKey),
        (utf_16("\u{feff}", u16::to_le_bytes), SECRET.to_vec(), SecretFault::Utf16),
        (utf_16("\u{feff}", u16::to_be_bytes), SECRET.to_vec(), SecretFault::Utf16),
        (utf_16("", u16::to_le_bytes), SECRET.to_vec(), SecretFault::Utf16),
        (SECRET.to_vec(), utf_16("", u16::to_le_bytes), SecretFault::Utf16),
        ([&b"\xff\xfe"[..], &utf_16_line].concat(), SECRET.to_vec(), SecretFault::Utf16),
        ([marked_before, SECRET, b"\r\n"].concat(), SECRET.to_vec(), SecretFault::ByteOrderMark),
        (SECRET.to_vec(), [marked_before, SECRET].concat(), SecretFault::ByteOrderMark),
        ([b"WEBHOOK_SECRET=", SECRET, b"\n"].concat(), SECRET.to_vec(), SecretFault::Assigned),
        ([b"export S='", SECRET, b"'"].concat(), SECRET.to_vec(), SecretFault::Assigned),
        (SECRET.to_vec(), Vec::new(), SecretFault::NotSet),
        (SECRET.to_vec(), b"undefined".to_vec(), SecretFault::NotSet),
        (SECRET.to_vec(), b"None".to_vec(), SecretFault::NotSet),
    ] {
        assert_eq!(judged(&given, &sent(), &key, &sent()), known(None, Some(fault), None), "{fault:?}");
    }
}

#[test]
fn each_mistake_with_a_body_is_named_on_either_side() {
    let text = String::from_utf8(sent()).expect("UTF-8");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let utf_16: Vec<u8> =
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let latin_1: String = sent().iter().map(|byte| char::from(*byte)).collect();
    for (other, fault) in [
        (format!("{text}\n").into_bytes(), BodyFault::Newline),
        (format!("{text}\r\n").into_bytes(), BodyFault::Newline),
        (format!("\u{feff}{text}").into_bytes(), BodyFault::ByteOrderMark),
        (value.to_string().into_bytes(), BodyFault::Rewritten),
        (latin_1.into_bytes(), BodyFault::Encoding),
        (BASE64.encode(&text).into_bytes(), BodyFault::Base64),
        (serde_json::to_vec(&text).expect("JSON"), BodyFault::Rewritten),
    ] {
        assert_eq!(
            judged(SECRET, &other, SECRET, &sent()),
            known(None, None, Some(fault)),
            "{fault:?} given"
        );
        assert_eq!(
            judged(SECRET, &sent(), SECRET, &other),
            known(None, None, Some(fault)),
            "{fault:?} signed"
        );
    }
    assert_eq!(judged(SECRET, &utf_16, SECRET, &sent()), known(None, None, Some(BodyFault::Encoding)));
    assert_eq!(judged(SECRET, &sent(), SECRET, b""), known(None, None, Some(BodyFault::Empty)));
    let (unix, windows) = (b"{\n}\n", b"{\r\n}\r\n");
    assert_eq!(judged(SECRET, unix, SECRET, windows), known(None, None, Some(BodyFault::LineEnds)));
    assert_eq!(judged(SECRET, windows, SECRET, unix), known(None, None, Some(BodyFault::LineEnds)));
}

#[test]
fn what_was_signed_beside_or_instead_of_the_body_is_named_in_each_encoding() {
    let body = sent();
    let headers = StandardHeaders { id: Some("evt_1"), timestamp: Some("1614265330"), signature: None };
    let behind = |head: &str| [head.as_bytes(), &body].concat();
    let hash = sha2::Sha256::digest(&body);
    for (signed, fault) in [
        (behind("evt_1.1614265330."), BodyFault::WithHeaders),
        (behind("1614265330."), BodyFault::WithHeaders),
        (behind("evt_1."), BodyFault::WithHeaders),
        (hash.to_vec(), BodyFault::Hashed),
        (hex::encode(hash).into_bytes(), BodyFault::Hashed),
    ] {
        let judged = |secret: &[u8], signature: &str| service(&[secret.to_vec()], signature, &headers, &body);
        let signature = sign(SECRET, &signed);
        let digest = hex::decode(&signature).expect("hexadecimal");
        assert_eq!(judged(SECRET, &signature), known(None, None, Some(fault)));
        let base64 = known(Some(Spelling::Base64), None, Some(fault));
        assert_eq!(judged(SECRET, &BASE64.encode(&digest)), base64);
        assert_eq!(judged(SECRET, &BASE64_URL.encode(&digest)), base64);
        let upper_case = known(Some(Spelling::UpperCase), None, Some(fault));
        assert_eq!(judged(SECRET, &signature.to_uppercase()), upper_case);
        let two = known(None, Some(SecretFault::Quoted), Some(fault));
        assert_eq!(judged(b"\"correct-horse-battery-staple\"", &signature), two);
        let stranger = Err(Mismatch::Unknown(Suspicion::OtherSecret));
        assert_eq!(judged(b"stranger", &signature), stranger, "{fault:?}");
    }
    let long = "9".repeat(LONGEST_EVENT_ID + 1);
    let of_long = sign(SECRET, &behind(&format!("{long}.")));
    let headers = StandardHeaders { id: Some(&long), timestamp: Some(&long), signature: None };
    let unknown = Err(Mismatch::Unknown(Suspicion::OtherSecret));
    assert_eq!(service(&[SECRET.to_vec()], &of_long, &headers, &body), unknown, "longer than any id");
    let of_body = sign(SECRET, &behind(&format!("{}.", EventId::new(now(), [0xab; 10]))));
    assert_eq!(
        of_service(&[SECRET.to_vec()], &of_body, &body),
        known(None, None, Some(BodyFault::WithHeaders)),
        "without headers the id is that of the body"
    );
}

#[test]
fn right_signature_of_an_unrelated_secret_finds_nothing() {
    let headers = StandardHeaders { id: Some("evt_1"), timestamp: Some("1614265330"), signature: None };
    let secrets: [&[u8]; 5] = [SECRET, b"whsec_c3RyYW5nZXI=", b"\"abcdefgh\"", b"A=b", b"0123abcd"];
    for (place, secret) in secrets.iter().enumerate() {
        for (_, other) in secrets.iter().enumerate().filter(|(other, _)| *other != place) {
            let judged = service(&[secret.to_vec()], &sign(other, &sent()), &headers, &sent());
            assert_eq!(judged, Err(Mismatch::Unknown(Suspicion::OtherSecret)));
        }
    }
}

#[test]
fn number_of_changes_that_are_tried_is_bounded() {
    let event = r#"{"id":"evt_1","event":"invoice.created","occurredAt":"t","customerCode":"Zoë <\"A/B\">=&+'`","data":{"workOrder":"W’1","orderType":"PhotoCopy","invoiceNumber":"1.0","invoiceDate":null,"billToCustomerCode":null,"facilityLineItem":null,"amount":150.0}}"#;
    let (id, timestamp) = ("a".repeat(LONGEST_EVENT_ID), "9".repeat(LONGEST_EVENT_ID));
    let headers = StandardHeaders { id: Some(&id), timestamp: Some(&timestamp), signature: None };
    let secrets: [&[u8]; 5] =
        [SECRET, b"S=\"abcd\" \r\n", "\u{feff}'ab\u{a0}'\n".as_bytes(), b"a\0b\0", b"0123456789abcdef"];
    for body in [event.to_owned(), format!("\u{feff}{event}\r\n")] {
        let heads = variants::heads(&headers, body.as_bytes());
        let lengths: Vec<usize> =
            variants::of_body(body.as_bytes(), &heads).map(|(_, other)| other.len()).collect();
        assert_eq!(heads.len(), 3, "they are counted");
        assert!(lengths.iter().all(|length| *length <= 6 * body.len()), "{lengths:?}");
        let bodies = lengths.len();
        for keys in secrets.iter().map(|secret| variants::of_secret(secret).len()) {
            // `not_an_hmac` computes four more.
            let once = keys + bodies + 4;
            assert!(once <= 200, "{keys} keys and {bodies} bodies");
            assert!(once + keys * variants::COMBINED_BODIES <= 1_400, "{keys} keys");
        }
    }
}

/// The body of an event with this number of orders. An indent makes it several times as long.
fn about_many(orders: usize) -> Vec<u8> {
    let data = Payload::OrderExported(OrderExported {
        order_type: "Process".into(),
        web_order_id: "W1".into(),
        work_order_id: "PR1".into(),
        court_work_order: None,
        process_work_orders: Some(vec!["<".into(); orders]),
    });
    envelope(&EventId::new(now(), [0xab; 10]), now(), "C-1001", &data)
}

#[test]
fn body_that_is_longer_than_any_event_is_not_written_again() {
    let rewritten = |body: &[u8]| {
        variants::of_body(body, &[]).filter(|(fault, _)| *fault == Some(BodyFault::Rewritten)).count()
    };
    let (short, long) = (about_many(1_000), about_many(256 * 1024));
    assert!(rewritten(&short) > 10 && long.len() > 1024 * 1024);
    assert_eq!(rewritten(&long), 1, "as the text of a JSON string");
    let lengths =
        |body: &[u8]| variants::of_body(body, &[]).map(|(_, other)| other.len()).collect::<Vec<_>>();
    assert!(lengths(&short).iter().all(|length| *length <= 6 * short.len()), "{:?}", lengths(&short));
    assert!(lengths(&long).iter().sum::<usize>() <= 10 * long.len(), "{:?}", lengths(&long));
}

#[test]
fn json_that_any_library_wrote_again_is_named() {
    let value: serde_json::Value = serde_json::from_slice(&sent()).expect("JSON");
    let ordered = String::from_utf8(sent()).expect("UTF-8");
    let escaped = ordered.replace('’', "\\u2019").replace('/', "\\/");
    assert_ne!(escaped, ordered);
    for given in [serde_json::to_string_pretty(&value).expect("JSON"), value.to_string(), escaped] {
        let fault = known(None, None, Some(BodyFault::Rewritten));
        assert_eq!(judged(SECRET, given.as_bytes(), SECRET, &sent()), fault, "{given}");
    }
    // The texts that Python's json.dumps and JavaScript's JSON.stringify(…, null, 2) write.
    let event = r#"{"id":"evt_1","event":"order.created","occurredAt":"t","customerCode":"C \"1\", a:b\\","data":{"orderType":"Court","webOrderId":"W1"}}"#;
    let python = r#"{"id": "evt_1", "event": "order.created", "occurredAt": "t", "customerCode": "C \"1\", a:b\\", "data": {"orderType": "Court", "webOrderId": "W1"}}"#;
    let indented = "{\n  \"id\": \"evt_1\",\n  \"event\": \"order.created\",\n  \"occurredAt\": \"t\",\n  \"customerCode\": \"C \\\"1\\\", a:b\\\\\",\n  \"data\": {\n    \"orderType\": \"Court\",\n    \"webOrderId\": \"W1\"\n  }\n}";
    for signed in [python, indented] {
        let judged = judged(SECRET, event.as_bytes(), SECRET, signed.as_bytes());
        assert_eq!(judged, known(None, None, Some(BodyFault::Rewritten)), "{signed}");
    }
}

#[test]
fn json_that_a_program_wrote_again_and_signed_is_named() {
    let event = r#"{"id":"evt_1","event":"invoice.created","occurredAt":"t","customerCode":"Zoë & Söhne <\"A/B\">","data":{"workOrder":"W’1 😀","orderType":"PhotoCopy","invoiceNumber":"1.0","invoiceDate":null,"billToCustomerCode":null,"facilityLineItem":null,"amount":150.0}}"#;
    assert_eq!(event::as_sent(event.as_bytes()).as_deref(), Some(event.as_bytes()), "as Docket writes it");
    let python = event
        .replace('ë', "\\u00eb")
        .replace('ö', "\\u00f6")
        .replace('’', "\\u2019")
        .replace('😀', "\\ud83d\\ude00");
    let spaced = python.replace("\":", "\": ").replace(",\"", ", \"");
    let php = python.replace('/', "\\/");
    let javascript = event.replace("150.0", "150");
    let go = javascript.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let dotnet = event
        .replace('ë', "\\u00EB")
        .replace('ö', "\\u00F6")
        .replace('’', "\\u2019")
        .replace('😀', "\\uD83D\\uDE00");
    let dotnet = dotnet
        .replace("\\\"", "\\u0022")
        .replace('<', "\\u003C")
        .replace('>', "\\u003E")
        .replace('&', "\\u0026");
    let value: serde_json::Value = serde_json::from_str(&javascript).expect("JSON");
    let javascript_indented = serde_json::to_string_pretty(&value).expect("JSON");
    for signed in [python, spaced, php, javascript, javascript_indented, go, dotnet] {
        assert_ne!(signed, event);
        let fault = known(None, None, Some(BodyFault::Rewritten));
        assert_eq!(judged(SECRET, event.as_bytes(), SECRET, signed.as_bytes()), fault, "{signed}");
        let stranger = judged(SECRET, event.as_bytes(), b"stranger", signed.as_bytes());
        assert_eq!(stranger, Err(Mismatch::Unknown(Suspicion::OtherSecret)));
    }
}

#[test]
fn digest_that_is_no_hmac_with_the_secret_as_key_is_named() {
    let body = sent();
    let sha256 = |parts: &[&[u8]]| hex::encode(sha2::Sha256::digest(parts.concat()));
    for (signature, fault) in [
        (sign(&body, SECRET), SecretFault::Swapped),
        (sha256(&[SECRET, &body]), SecretFault::Concatenated),
        (sha256(&[&body, SECRET]), SecretFault::Concatenated),
        (sha256(&[&body]), SecretFault::Unkeyed),
        (sign(SECRET, sign(SECRET, &body).as_bytes()), SecretFault::Twice),
        (sign(SECRET, &hex::decode(sign(SECRET, &body)).expect("hexadecimal")), SecretFault::Twice),
    ] {
        assert_eq!(of_service(&[SECRET.to_vec()], &signature, &body), known(None, Some(fault), None));
        if fault != SecretFault::Unkeyed {
            let stranger = of_service(&[b"stranger".to_vec()], &signature, &body);
            assert_eq!(stranger, Err(Mismatch::Unknown(Suspicion::OtherSecret)));
        }
    }
}

#[test]
fn each_mistake_with_the_header_is_named() {
    let right = sign(SECRET, &sent());
    let digest = hex::decode(&right).expect("hexadecimal");
    let secrets = [SECRET.to_vec()];
    // The text that .NET's BitConverter writes.
    let separated = digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join("-");
    for (signature, spelling) in [
        (right.to_uppercase(), Spelling::UpperCase),
        (BASE64.encode(&digest), Spelling::Base64),
        (BASE64_URL.encode(&digest), Spelling::Base64),
        (format!("sha256={right}"), Spelling::Prefixed),
        (format!(" {right}"), Spelling::Surrounded),
        (format!("\"{right}\""), Spelling::Surrounded),
        (format!("b'{right}'"), Spelling::Surrounded),
        (format!("0x{right}"), Spelling::Prefixed),
        (BASE64.encode(&right), Spelling::EncodedTwice),
        (hex::encode(&right), Spelling::EncodedTwice),
        (separated, Spelling::Separated),
    ] {
        assert_eq!(
            of_service(&secrets, &signature, &sent()),
            known(Some(spelling), None, None),
            "{signature}"
        );
        assert_eq!(
            of_service(&[b"another".to_vec()], &signature, &sent()),
            Err(Mismatch::Unknown(Suspicion::OtherSecret)),
            "not said to match but for its spelling: {signature}"
        );
    }
    for (signature, fault) in [
        ("", Unreadable::Empty),
        ("\"\"", Unreadable::Empty),
        (&right[..40], Unreadable::Length(40)),
        (&right.repeat(2), Unreadable::Length(128)),
        ("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", Unreadable::OfStandardWebhooks),
        ("\u{fc}", Unreadable::NotHexadecimal),
    ] {
        assert_eq!(of_service(&secrets, signature, &sent()), Err(Mismatch::Unreadable(fault)), "{signature}");
    }
}

#[test]
fn mistakes_are_named_together_and_the_smallest_change_first() {
    let upper = sign(SECRET, &[&sent()[..], b"\n"].concat()).to_uppercase();
    assert_eq!(
        of_service(&[[SECRET, b"\n"].concat()], &upper, &sent()),
        known(Some(Spelling::UpperCase), Some(SecretFault::Newline), Some(BodyFault::Newline))
    );
    let text =
        known(Some(Spelling::UpperCase), Some(SecretFault::Newline), None).expect_err("faults").to_string();
    assert_eq!(
        text,
        "it is in upper case, and must be lowercase hexadecimal; and the secret ends in a newline on one side only"
    );
}

#[test]
fn a_body_that_looks_wrong_is_suspected() {
    let cut_off = sent()[..40].to_vec();
    let rewritten = [b" ", &sent()[..]].concat();
    for (body, suspicion) in [
        (vec![], Suspicion::EmptyBody),
        (cut_off, Suspicion::CutOffBody),
        (rewritten, Suspicion::RewrittenBody),
        (sent(), Suspicion::OtherSecret),
        (b"\xff\xff".to_vec(), Suspicion::OtherSecret),
    ] {
        assert_eq!(judged(SECRET, &body, b"stranger", &sent()), Err(Mismatch::Unknown(suspicion)));
    }
}

#[test]
fn no_message_holds_a_digest_or_the_secret() {
    let right = sign(SECRET, &sent());
    for signature in [right.to_uppercase(), format!("x={right}"), right[..63].to_owned(), "0".repeat(64)] {
        let text = of_service(&[SECRET.to_vec()], &signature, &sent()).expect_err("wrong").to_string();
        let secret = std::str::from_utf8(SECRET).expect("ASCII");
        assert!(!text.contains(&right[..8]) && !text.contains(secret), "{text}");
    }
}

#[test]
fn nothing_but_the_signature_itself_matches() {
    let right = sign(SECRET, &sent());
    let secrets = [SECRET.to_vec()];
    for at in 0..right.len() {
        let mut wrong = right.clone().into_bytes();
        wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
        let wrong = String::from_utf8(wrong).expect("ASCII");
        assert!(of_service(&secrets, &wrong, &sent()).is_err(), "{at}");
    }
    for wrong in [format!("{right} "), format!("{right}0"), right[..62].to_owned(), right.to_uppercase()] {
        assert!(of_service(&secrets, &wrong, &sent()).is_err(), "{wrong}");
    }
    assert!(of_service(&[], &right, &sent()).is_err());
}

mod of_standard_webhooks {
    use super::*;

    const ID: &str = "evt_1";

    fn judged(
        secrets: &[&[u8]],
        timestamp: &str,
        signature: &str,
        at: Timestamp,
    ) -> Result<(), StandardFault> {
        let secrets: Vec<Vec<u8>> = secrets.iter().map(|secret| secret.to_vec()).collect();
        let headers =
            StandardHeaders { id: Some(ID), timestamp: Some(timestamp), signature: Some(signature) };
        standard(&secrets, &headers, &sent(), at)
    }

    fn after(seconds: i64) -> Timestamp {
        Timestamp::from_second(now().as_second() + seconds).expect("in range")
    }

    #[test]
    fn one_matching_signature_of_several_is_enough_within_five_minutes() {
        let timestamp = now().as_second().to_string();
        let (old, new) =
            (standard_webhooks(b"old", ID, now(), &sent()), standard_webhooks(SECRET, ID, now(), &sent()));
        let both = format!("{old} v1a,other {new}");
        for seconds in [-TOLERANCE_SECONDS, 0, TOLERANCE_SECONDS] {
            assert_eq!(judged(&[SECRET], &timestamp, &both, after(seconds)), Ok(()));
            assert_eq!(judged(&[b"old"], &timestamp, &both, after(seconds)), Ok(()));
        }
        let late = judged(&[SECRET], &timestamp, &both, after(TOLERANCE_SECONDS + 1));
        assert_eq!(late, Err(StandardFault::Old(TOLERANCE_SECONDS + 1)));
        let early = judged(&[SECRET], &timestamp, &both, after(-TOLERANCE_SECONDS - 1));
        assert_eq!(early, Err(StandardFault::Early(TOLERANCE_SECONDS + 1)));
    }

    #[test]
    fn each_mistake_is_named() {
        let timestamp = now().as_second().to_string();
        let right = standard_webhooks(SECRET, ID, now(), &sent());
        let whsec = format!("whsec_{}", BASE64.encode(SECRET));
        let unknown = Mismatch::Unknown(Suspicion::OtherSecret);
        let text = Mismatch::Known { spelling: None, secret: Some(SecretFault::WhsecText), body: None };
        let many = |number: usize| vec![right.as_str(); number].join(" ");
        assert_eq!(judged(&[SECRET], &timestamp, &many(MAX_SIGNATURES), now()), Ok(()));
        for (secret, timestamp, signature, fault) in [
            (SECRET, &timestamp[..], &*many(MAX_SIGNATURES + 1), StandardFault::TooMany),
            (SECRET, "soon", right.as_str(), StandardFault::Timestamp),
            (SECRET, &timestamp, "", StandardFault::NoVersion1),
            (SECRET, &timestamp, &right[3..], StandardFault::NoVersion1),
            (SECRET, &timestamp, &right[..30], StandardFault::CutOff),
            (b"another", &timestamp, &right, StandardFault::Mismatch(unknown)),
            (SECRET, "1", &right, StandardFault::Mismatch(unknown)),
            (whsec.as_bytes(), &timestamp, &right, StandardFault::Mismatch(text)),
        ] {
            assert_eq!(judged(&[secret], timestamp, signature, now()), Err(fault), "{signature}");
        }
        let service = sign(SECRET, &sent());
        let hexadecimal = format!("v1,{service}");
        let body_alone = format!("v1,{}", BASE64.encode(hex::decode(&service).expect("hexadecimal")));
        for (signature, fault) in [
            (service, StandardFault::OfService),
            (hexadecimal, StandardFault::Hexadecimal),
            (body_alone, StandardFault::BodyAlone),
            (
                standard_webhooks(SECRET, EventId::new(now(), [0xab; 10]).as_str(), now(), &sent()),
                StandardFault::OtherId,
            ),
        ] {
            assert_eq!(judged(&[SECRET], &timestamp, &signature, now()), Err(fault), "{signature}");
        }
        let headers = StandardHeaders { id: Some(&timestamp), timestamp: Some(ID), signature: Some(&right) };
        assert_eq!(standard(&[SECRET.to_vec()], &headers, &sent(), now()), Err(StandardFault::Interchanged));
        let other = standard_webhooks(b"old", ID, now(), &sent());
        let cut_off = format!("{other} {}", &right[..right.len() - 4]);
        assert_eq!(judged(&[SECRET], &timestamp, &cut_off, now()), Err(StandardFault::CutOff));
        let missing = standard(&[SECRET.to_vec()], &StandardHeaders::default(), b"", now());
        assert_eq!(missing, Err(StandardFault::Missing(WEBHOOK_ID_HEADER)));
    }
}
