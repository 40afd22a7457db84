//! PEM files of certificates as programs write them, for parsers that know only `BEGIN CERTIFICATE`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// The label of a certificate.
const PLAIN: &str = "CERTIFICATE";
/// The label of older programs.
const OLD: &str = "X509 CERTIFICATE";
/// The label of OpenSSL for a certificate that is followed by what it is trusted for.
const TRUSTED: &str = "TRUSTED CERTIFICATE";

/// The same certificates under the label `CERTIFICATE`, without a byte order mark and without what OpenSSL trusts them for. The
/// rest of the text does not change.
pub fn with_plain_labels(pem: &str) -> Cow<'_, str> {
    let pem = pem.trim_start_matches('\u{feff}');
    if !pem.contains(OLD) && !pem.contains(TRUSTED) {
        return Cow::Borrowed(pem);
    }
    let plain = pem.replace(&begin(OLD), &begin(PLAIN)).replace(&end(OLD), &end(PLAIN));
    let begin_trusted = begin(TRUSTED);
    let mut parts = plain.split(&begin_trusted);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(&begin(PLAIN));
        let Some((body, rest)) = part.split_once(&end(TRUSTED)) else {
            text.push_str(part); // cut off
            continue;
        };
        let encoded: String = body.split_whitespace().collect();
        let certificate =
            BASE64.decode(&encoded).ok().and_then(|der| Some(BASE64.encode(first_element(&der)?)));
        let certificate = certificate.unwrap_or(encoded);
        text.push('\n');
        for line in certificate.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str(&end(PLAIN));
        text.push_str(rest);
    }
    Cow::Owned(text)
}

fn begin(label: &str) -> String {
    format!("-----BEGIN {label}-----")
}

fn end(label: &str) -> String {
    format!("-----END {label}-----")
}

/// The first of several elements in DER: a tag, a length, and as many bytes.
fn first_element(der: &[u8]) -> Option<&[u8]> {
    let short = usize::from(*der.get(1)?);
    let (head, length) = match short {
        0..=0x7f => (2, short),
        0x81..=0x84 => {
            let bytes = der.get(2..2 + short - 0x80)?;
            (2 + bytes.len(), bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
        }
        _ => return None,
    };
    der.get(..head.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_byte_order_mark_are_replaced() {
        let plain = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
        assert_eq!(with_plain_labels(plain), plain);
        assert_eq!(with_plain_labels(&format!("\u{feff}{plain}")), plain);
        let old = plain.replace("CERTIFICATE", "X509 CERTIFICATE");
        let both = format!("\u{feff}# roots\n{old}{plain}");
        assert_eq!(with_plain_labels(&both), format!("# roots\n{plain}{plain}"));
    }

    #[test]
    fn trusted_certificate_loses_what_follows_it() {
        let certificate = [&[0x30, 0x81, 0x80][..], &[7; 0x80]].concat();
        let trusted = [&certificate[..], &[0x30, 2, 5, 0]].concat();
        let block = |label: &str, der: &[u8]| {
            let text = BASE64.encode(der);
            let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
        };
        let given = format!("{}{}", block(TRUSTED, &trusted), block(PLAIN, &certificate));
        assert_eq!(with_plain_labels(&given), block(PLAIN, &certificate).repeat(2));
        let windows = block(TRUSTED, &trusted).replace('\n', "\r\n");
        assert!(with_plain_labels(&windows).starts_with(block(PLAIN, &certificate).trim_end()));
        for odd in
            ["-----BEGIN TRUSTED CERTIFICATE-----\nMAMC", &block(TRUSTED, &[0x30]), &block(TRUSTED, &[])]
        {
            assert!(!with_plain_labels(odd).contains("TRUSTED CERTIFICATE-----\n-----END"), "no panic");
        }
    }
}
