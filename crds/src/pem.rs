//! Bundles of certificates in PEM, as people and programs write them: the one reader for all files and values with authorities.
//!
//! The reader takes UTF-8 and UTF-16, byte order marks anywhere, the line ends of every system, indented blocks,
//! blocks on one line, the labels of older programs and of OpenSSL, and any text between the blocks. Lines that begin
//! with `#` are comments, so that a user can switch a certificate off. The reader skips no other certificate: one
//! broken block makes the bundle a [`BadBundle`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::certificate::{Certificate, Der, SEQUENCE};

/// The label of a certificate.
const PLAIN: &str = "CERTIFICATE";
/// The label in older programs.
const OLD: &str = "X509 CERTIFICATE";
/// The label of OpenSSL for a certificate with its trusted purposes behind it.
const TRUSTED: &str = "TRUSTED CERTIFICATE";
/// The dashes before and after a label.
const DASHES: &str = "-----";

/// The byte order marks of UTF-8 and UTF-16.
pub(crate) const BYTE_ORDER_MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];

/// Why a bundle cannot be used. The text says what to do and quotes nothing of the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBundle {
    /// No block is labelled as a certificate.
    #[error("must contain at least one certificate in PEM form (-----BEGIN CERTIFICATE-----)")]
    Empty,
    /// A block is broken.
    #[error("certificate {number} of {count} {problem}")]
    Block {
        /// The number of the broken block, from 1.
        number: usize,
        /// The number of all blocks, including broken ones.
        count: usize,
        /// What is wrong with the block.
        problem: PemProblem,
    },
}

/// The problem of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemProblem {
    /// A block ends without a line that begins it.
    #[error("has no line -----BEGIN CERTIFICATE-----; copy it again with all its lines")]
    NoBegin,
    /// The block begins, and the text or another block follows before its end.
    #[error("has no line -----END CERTIFICATE-----; copy it again with all its lines")]
    NoEnd,
    /// The block contains something else than base64.
    #[error("is not base64 between its BEGIN and END lines; copy it again")]
    NotBase64,
    /// The bytes of the block are not a certificate.
    #[error("is not an X.509 certificate, or is cut off; export it again, or remove it")]
    NotACertificate,
    /// The TLS library refuses the certificate.
    #[error("can't be used as an authority; make it again with another program, or remove it")]
    NotUsable,
}

/// The certificates of a bundle, in DER and in their order.
pub fn certificates(bundle: &[u8]) -> Result<Vec<Vec<u8>>, BadBundle> {
    let blocks = blocks(&without_comments(&ascii(bundle)));
    let count = blocks.len();
    let numbered = (1..).zip(blocks);
    let certificates: Result<Vec<_>, _> = numbered
        .map(|(number, block)| block.map_err(|problem| BadBundle::Block { number, count, problem }))
        .collect();
    certificates.and_then(|all| if all.is_empty() { Err(BadBundle::Empty) } else { Ok(all) })
}

/// Hands each certificate of a bundle, in DER, to `add`. A certificate that `add` refuses is [`PemProblem::NotUsable`].
pub fn add_each<E>(bundle: &[u8], mut add: impl FnMut(Vec<u8>) -> Result<(), E>) -> Result<(), BadBundle> {
    let certificates = certificates(bundle)?;
    let count = certificates.len();
    for (number, certificate) in (1..).zip(certificates) {
        let refused = |_| BadBundle::Block { number, count, problem: PemProblem::NotUsable };
        add(certificate).map_err(refused)?;
    }
    Ok(())
}

/// Certificates (in DER) as PEM with lines of at most 64 characters.
pub fn text(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in BASE64.encode(certificate).as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// The ASCII characters of a text in UTF-8 or UTF-16. In UTF-16, each ASCII character has a NUL beside it. All other
/// bytes become U+FFFD, which is not base64.
fn ascii(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, behind)) = rest.split_first() {
        if let Some(behind) = BYTE_ORDER_MARKS.iter().find_map(|mark| rest.strip_prefix(*mark)) {
            rest = behind;
            continue;
        }
        match first {
            0 => {}
            1..=0x7f => text.push(char::from(first)),
            0x80.. => text.push(char::REPLACEMENT_CHARACTER),
        }
        rest = behind;
    }
    text
}

fn lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split_inclusive(['\n', '\r'])
}

fn without_comments(text: &str) -> String {
    lines(text).filter(|line| !line.trim_start().starts_with('#')).collect()
}

/// The text between two `-----`.
enum PemDelimiter<'a> {
    Begin(&'a str),
    End(&'a str),
    Other,
}

impl<'a> PemDelimiter<'a> {
    fn of(part: &'a str) -> Self {
        let label = part.trim_matches('-'); // of a line of more dashes
        match (label.strip_prefix("BEGIN "), label.strip_prefix("END ")) {
            (Some(label), _) => Self::Begin(label),
            (_, Some(label)) => Self::End(label),
            (None, None) => Self::Other,
        }
    }
}

/// A block of a certificate that has begun.
struct OpenBlock<'a> {
    label: &'a str,
    body: Vec<&'a str>,
    /// Whether the label begins a line. A label elsewhere may be part of a sentence. It begins a block only if a
    /// certificate follows.
    is_sure: bool,
}

/// The certificate of each block that is labelled as one.
fn blocks(text: &str) -> Vec<Result<Vec<u8>, PemProblem>> {
    let is_certificate = |label: &str| matches!(label, PLAIN | OLD | TRUSTED);
    let mut blocks = Vec::new();
    let mut begun: Option<OpenBlock<'_>> = None;
    let mut parts = text.split(DASHES);
    // The text before this part, outside of certificates. Before the first part stand no dashes.
    let mut before = parts.next().unwrap_or_default();
    for part in parts {
        match PemDelimiter::of(part) {
            PemDelimiter::Begin(label) => {
                let same_line = before.rsplit(['\n', '\r']).next();
                let is_sure = same_line.is_none_or(|text| text.trim().is_empty());
                blocks.extend(begun.take().filter(|begun| begun.is_sure).map(|_| Err(PemProblem::NoEnd)));
                begun = is_certificate(label).then(|| OpenBlock { label, body: Vec::new(), is_sure });
                before = "";
            }
            PemDelimiter::End(label) => {
                match begun.take() {
                    Some(begun) => {
                        let block = match is_certificate(label) {
                            true => certificate(begun.label, &begun.body.join(DASHES)),
                            false => Err(PemProblem::NoEnd),
                        };
                        blocks.extend((block.is_ok() || begun.is_sure).then_some(block));
                    }
                    None if is_certificate(label) && ends_in_base64(before) => {
                        blocks.push(Err(PemProblem::NoBegin));
                    }
                    None => {}
                }
                before = "";
            }
            PemDelimiter::Other => match &mut begun {
                Some(begun) => begun.body.push(part),
                None => before = part,
            },
        }
    }
    blocks.extend(begun.filter(|begun| begun.is_sure).map(|_| Err(PemProblem::NoEnd)));
    blocks
}

/// Whether the last line that is not blank may be part of a certificate.
fn ends_in_base64(text: &str) -> bool {
    let line = lines(text).map(str::trim).rfind(|line| !line.is_empty());
    line.is_some_and(|line| line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)))
}

fn certificate(label: &str, body: &str) -> Result<Vec<u8>, PemProblem> {
    // A label may end in more dashes than it has to.
    let encoded: String = body.trim_start_matches('-').split_ascii_whitespace().collect();
    let mut der = BASE64.decode(encoded).map_err(|_| PemProblem::NotBase64)?;
    if label == TRUSTED {
        let mut rest = Der(&der);
        rest.take(SEQUENCE).ok_or(PemProblem::NotACertificate)?;
        der.truncate(der.len() - rest.0.len());
    }
    match Certificate::read(&der) {
        Some(_) => Ok(der),
        None => Err(PemProblem::NotACertificate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made by openssl.
    const ONE: &str = include_str!("compile/authority/prime256v1.pem");
    const OTHER: &str = include_str!("compile/authority/rsa1024.pem");

    fn both() -> Vec<Vec<u8>> {
        let both = certificates(format!("{ONE}{OTHER}").as_bytes()).expect("two certificates");
        assert_eq!(both.len(), 2);
        both
    }

    fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes).collect()
    }

    #[test]
    fn bundle_is_read_as_people_and_programs_write_it() {
        let indented = |pem: &str| pem.lines().map(|line| format!("    {line}\n")).collect::<String>();
        let one_line = |pem: &str| pem.replace('\n', "");
        let named = |label: &str| ONE.replace(PLAIN, label);
        for (how, text) in [
            ("with comments", format!("# Müller's root\n{ONE}subject=CN = a\n----- next -----\n{OTHER}--\n")),
            ("with marks", format!("\u{feff}{ONE}\u{feff}{OTHER}")),
            ("of Windows", format!("{ONE}{OTHER}").replace('\n', "\r\n")),
            ("of old Macs", format!("{ONE}{OTHER}").replace('\n', "\r")),
            ("indented", format!("{}{}", indented(ONE), indented(OTHER))),
            ("indented with tabs", format!("{}{}", indented(ONE).replace("    ", "\t"), OTHER)),
            ("without a line break between them", format!("{}{}", ONE.trim_end(), OTHER.trim_end())),
            ("on one line", format!("{}{}", one_line(ONE), one_line(OTHER))),
            ("with an old label", format!("{}{OTHER}", named(OLD))),
            ("with the label of OpenSSL", format!("{}{OTHER}", named(TRUSTED))),
            ("with labels in more dashes", format!("{ONE}{OTHER}").replace("-----", "-------")),
            (
                "with one that is switched off",
                format!("{}{ONE}{OTHER}", ONE.lines().map(|line| format!(" # {line}\n")).collect::<String>()),
            ),
            (
                "with labels in sentences",
                format!(
                    "Put certificates (-----BEGIN CERTIFICATE-----) here, to -----END CERTIFICATE-----:\n{ONE}{OTHER}"
                ),
            ),
            (
                "with a second end",
                format!("{ONE}-----END CERTIFICATE-----\n\n-----END CERTIFICATE-----\n{OTHER}"),
            ),
            ("after names", format!("one: {ONE}other: {OTHER}")),
            ("with lines of dashes", format!("{}{ONE}{}\n{OTHER}", "-".repeat(72), "-".repeat(13))),
            (
                "with keys",
                format!("-----BEGIN PRIVATE KEY-----\nTUlJ\n-----END PRIVATE KEY-----\n{ONE}{OTHER}"),
            ),
        ] {
            assert_eq!(certificates(text.as_bytes()), Ok(both()), "{how}");
            for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
                assert_eq!(certificates(&utf_16(&text, bytes)), Ok(both()), "{how}, UTF-16");
            }
        }
        let joined = [utf_16(ONE, u16::to_le_bytes), OTHER.into()].concat();
        assert_eq!(certificates(&joined), Ok(both()), "files of two kinds");
    }

    #[test]
    fn trusted_certificate_loses_what_follows_it() {
        let one = both().remove(0);
        let block = |label: &str, der: &[u8]| {
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64.encode(der))
        };
        let followed = [&one[..], &[0x30, 2, 5, 0]].concat();
        assert_eq!(certificates(block(TRUSTED, &followed).as_bytes()), Ok(vec![one]));
        let alone = |problem| Err(BadBundle::Block { number: 1, count: 1, problem });
        assert_eq!(certificates(block(PLAIN, &followed).as_bytes()), alone(PemProblem::NotACertificate));
        for short in [&[0x30][..], &[]] {
            assert_eq!(certificates(block(TRUSTED, short).as_bytes()), alone(PemProblem::NotACertificate));
        }
    }

    #[test]
    fn broken_block_is_named_by_its_number_and_what_is_wrong() {
        let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
        let no_certificate = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n";
        let cut = &ONE[..ONE.len() / 2];
        for (broken, problem) in [
            (ONE.replace(begin, ""), PemProblem::NoBegin),
            (ONE.replace(begin, "----BEGIN CERTIFICATE-----"), PemProblem::NoBegin),
            (ONE.replace(end, ""), PemProblem::NoEnd),
            (ONE.replace(end, "----END CERTIFICATE-----"), PemProblem::NoEnd),
            (ONE.replace(end, "-----END PRIVATE KEY-----"), PemProblem::NoEnd),
            (format!("{cut}\n"), PemProblem::NoEnd),
            (ONE.replace('M', "!"), PemProblem::NotBase64),
            (ONE.replace('M', "\u{a0}"), PemProblem::NotBase64),
            (ONE.replace(begin, &format!("{begin}\nComment: root\n")), PemProblem::NotBase64),
            (no_certificate.to_owned(), PemProblem::NotACertificate),
            (no_certificate.replace("TUlJQg==", ""), PemProblem::NotACertificate),
        ] {
            let bad = |number, count| Err(BadBundle::Block { number, count, problem });
            assert_eq!(certificates(broken.as_bytes()), bad(1, 1), "{broken}");
            assert_eq!(certificates(format!("{ONE}{broken}{OTHER}").as_bytes()), bad(2, 3), "{broken}");
        }
        let text = BadBundle::Block { number: 2, count: 3, problem: PemProblem::NoEnd }.to_string();
        assert_eq!(
            text,
            "certificate 2 of 3 has no line -----END CERTIFICATE-----; copy it again with all its lines"
        );
        for nothing in ["", "no PEM at all", "-----BEGIN PRIVATE KEY-----\nTUlJ\n-----END PRIVATE KEY-----\n"]
        {
            assert_eq!(certificates(nothing.as_bytes()), Err(BadBundle::Empty), "{nothing}");
        }
    }

    #[test]
    fn certificate_that_is_not_whole_is_refused_at_every_length() {
        let one = both().remove(0);
        for end in 0..one.len() {
            let cut = text(&[one[..end].to_vec()]);
            let bad = BadBundle::Block { number: 1, count: 1, problem: PemProblem::NotACertificate };
            assert_eq!(certificates(cut.as_bytes()), Err(bad), "{end}");
        }
    }

    #[test]
    fn text_reads_back_and_is_that_of_openssl() {
        assert_eq!(text(&both()), format!("{ONE}{OTHER}"));
        let refused =
            add_each(
                format!("{ONE}{OTHER}").as_bytes(),
                |der| if der == both()[1] { Err(()) } else { Ok(()) },
            );
        let bad = BadBundle::Block { number: 2, count: 2, problem: PemProblem::NotUsable };
        assert_eq!(refused, Err(bad));
    }
}
