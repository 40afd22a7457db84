//! How a tenant's portal looks: a colour and a logo. Neither can run code or load anything from elsewhere.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::rules::{Check, Rule, optional};

/// The limit for a logo in base64, in characters: an image of 32 KiB.
const MAX_BASE64: usize = 43_692;
/// The limit for the width and for the height of a logo, in pixels: a browser needs 4 bytes for each pixel.
pub const MAX_SIDE: u32 = 1024;

/// A colour: red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub [u8; 3]);

/// The text is not a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a color must be \"#\" and six hexadecimal digits")]
pub struct InvalidColor;

impl FromStr for Color {
    type Err = InvalidColor;

    fn from_str(text: &str) -> Result<Self, InvalidColor> {
        let mut bytes = [0; 3];
        let digits = text.strip_prefix('#').ok_or(InvalidColor)?;
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| InvalidColor)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", hex::encode(self.0))
    }
}

/// The format of a logo. SVG is none of them, because an SVG can have scripts and load other files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogoFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    WebP,
}

impl LogoFormat {
    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::WebP => "image/webp",
        }
    }
}

/// A logo whose first bytes say what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logo {
    /// Its format.
    pub format: LogoFormat,
    /// Its width and height, in pixels; neither is 0.
    pub size: (u32, u32),
    /// The file.
    pub bytes: Vec<u8>,
}

impl Logo {
    /// Reads a file in base64; `None`: it is not base64, or not a PNG, JPEG or WebP image.
    pub fn of_base64(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text).ok()?;
        let (format, size) = png(&bytes)
            .map(|size| (LogoFormat::Png, size))
            .or_else(|| Some((LogoFormat::Jpeg, jpeg(&bytes)?)))
            .or_else(|| Some((LogoFormat::WebP, webp(&bytes)?)))?;
        (size.0 > 0 && size.1 > 0).then_some(Self { format, size, bytes })
    }
}

/// The `N` bytes at this place.
fn at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..)?.first_chunk().copied()
}

/// The width and height of a PNG (ISO/IEC 15948): its first chunk is IHDR.
fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    let is_png = bytes.starts_with(b"\x89PNG\r\n\x1a\n") && at::<4>(bytes, 12)? == *b"IHDR";
    let side = |place| Some(u32::from_be_bytes(at(bytes, place)?));
    if is_png { Some((side(16)?, side(20)?)) } else { None }
}

/// The width and height of a JPEG (ISO/IEC 10918-1): they are in its first frame header.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    const START_OF_IMAGE: [u8; 2] = [0xff, 0xd8];
    if !bytes.starts_with(&START_OF_IMAGE) {
        return None;
    }
    let short = |place| Some(u16::from_be_bytes(at(bytes, place)?));
    let mut place = START_OF_IMAGE.len();
    loop {
        let [mark, kind] = at::<2>(bytes, place)?;
        match kind {
            _ if mark != 0xff => return None,
            // A fill byte before the marker.
            0xff => place += 1,
            0xc0..=0xcf if !matches!(kind, 0xc4 | 0xc8 | 0xcc) => {
                return Some((short(place + 7)?.into(), short(place + 5)?.into()));
            }
            // The scan, or the end, without a frame before it.
            0xd9 | 0xda => return None,
            // Markers without a length.
            0x01 | 0xd0..=0xd7 => place += 2,
            _ => place += 2 + usize::from(short(place + 2)?),
        }
    }
}

/// The width and height of a WebP (RFC 9649): they are in its first chunk.
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    if !bytes.starts_with(b"RIFF") || at::<4>(bytes, 8)? != *b"WEBP" {
        return None;
    }
    let side = |place, bits: u16| Some(u32::from(u16::from_le_bytes(at(bytes, place)?) & bits));
    match &at::<4>(bytes, 12)? {
        b"VP8 " if at::<3>(bytes, 23)? == [0x9d, 0x01, 0x2a] => Some((side(26, 0x3fff)?, side(28, 0x3fff)?)),
        b"VP8L" if at::<1>(bytes, 20)? == [0x2f] => {
            let bits = u32::from_le_bytes(at(bytes, 21)?);
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => {
            let side = |place| {
                let [low, middle, high] = at::<3>(bytes, place)?;
                Some(u32::from_le_bytes([low, middle, high, 0]) + 1)
            };
            Some((side(24)?, side(27)?))
        }
        _ => None,
    }
}

const COLOR: Rule = Rule::Text {
    length: 1..=7,
    checks: &[Check {
        holds: |text| text.parse::<Color>().is_ok(),
        cel: "self.matches('^#[0-9a-fA-F]{6}$')",
        message: "must be \"#\" and six hexadecimal digits, such as \"#2f5bd0\"",
    }],
};

const LOGO: Rule = Rule::Text {
    length: 1..=MAX_BASE64,
    checks: &[
        Check {
            holds: |text| BASE64.decode(text).is_ok(),
            cel: "self.matches('^[A-Za-z0-9+/]*={0,2}$') && self.size() % 4 == 0",
            message: "must be base64 in one line, as base64 -w0 writes it",
        },
        Check {
            holds: |text| BASE64.decode(text).is_err() || Logo::of_base64(text).is_some(),
            // The first bytes of each format.
            cel: "self.startsWith('iVBORw0KGgo') || self.startsWith('/9j/') || self.startsWith('UklGR')",
            message: "must be a PNG, JPEG or WebP image",
        },
        Check {
            holds: |text| {
                Logo::of_base64(text).is_none_or(|Logo { size, .. }| size.0.max(size.1) <= MAX_SIDE)
            },
            cel: "true", // CEL can't read base64; the operator checks it
            message: "must be at most 1024 pixels wide and high",
        },
    ],
};

/// The rule for `spec.portal` of a Tenant.
pub(crate) const RULE: Rule =
    Rule::Record { fields: &[optional("color", &COLOR), optional("logo", &LOGO)], checks: &[] };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    fn png_of(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<(LogoFormat, (u32, u32))> {
        Logo::of_base64(&BASE64.encode(bytes)).map(|logo| (logo.format, logo.size))
    }

    #[test]
    fn format_and_size_come_from_the_first_bytes() {
        assert_eq!(read(&png_of(32, 16)), Some((LogoFormat::Png, (32, 16))));
        // A comment and a fill byte before the frame header.
        let jpeg = b"\xff\xd8\xff\xfe\0\x04hi\xff\xff\xc2\0\x11\x08\0\x10\0\x20";
        assert_eq!(read(jpeg), Some((LogoFormat::Jpeg, (32, 16))));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x20\0\x10\0";
        assert_eq!(read(lossy), Some((LogoFormat::WebP, (32, 16))));
        let lossless =
            [&b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f"[..], &(31_u32 | (15 << 14)).to_le_bytes()].concat();
        assert_eq!(read(&lossless), Some((LogoFormat::WebP, (32, 16))));
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x1f\0\0\x0f\0\0";
        assert_eq!(read(extended), Some((LogoFormat::WebP, (32, 16))));
    }

    #[test]
    fn anything_else_is_no_logo_however_it_ends() {
        for bytes in [
            &b""[..],
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
            b"GIF89a\x20\0\x10\0",
            b"\xff\xd8\xff\xda\0\x02",
            b"\xff\xd8\xff\xe0\xff\xff",
            b"\xff\xd8\0\0",
            b"RIFF\0\0\0\0WAVEVP8 ",
            &png_of(0, 16),
        ] {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
        let whole = png_of(32, 16);
        assert!((0..whole.len()).all(|end| read(&whole[..end]).is_none()));
        assert_eq!(Logo::of_base64("no base64"), None);
    }

    #[test]
    fn rule_names_what_is_wrong_with_a_logo_or_a_color() {
        let wrong = |value: serde_json::Value| {
            let mut found = Vec::new();
            rules::check(&RULE, &value, "spec.portal", &mut found);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let logo = |bytes: &[u8]| serde_json::json!({"logo": BASE64.encode(bytes)});
        assert!(wrong(logo(&png_of(1024, 1024))).is_empty());
        let large = "spec.portal.logo: must be at most 1024 pixels wide and high";
        assert_eq!(wrong(logo(&png_of(1025, 1))), [large]);
        assert_eq!(wrong(logo(b"<svg/>")), ["spec.portal.logo: must be a PNG, JPEG or WebP image"]);
        let text = wrong(serde_json::json!({"logo": "iVBORw0KGgo=\n"}));
        assert_eq!(text, ["spec.portal.logo: must be base64 in one line, as base64 -w0 writes it"]);
        let long = wrong(serde_json::json!({"logo": "A".repeat(MAX_BASE64 + 1)}));
        assert_eq!(long, ["spec.portal.logo: must have 1 to 43692 characters, not 43693"]);
        assert!(wrong(serde_json::json!({"color": "#2F5bd0"})).is_empty());
        for color in ["2f5bd0", "#2f5bd", "#2f5bdx", "red"] {
            let expected = "spec.portal.color: must be \"#\" and six hexadecimal digits, such as \"#2f5bd0\"";
            assert_eq!(wrong(serde_json::json!({"color": color})), [expected], "{color}");
        }
    }

    #[test]
    fn color_is_written_as_it_is_read_in_lower_case() {
        assert_eq!("#2F5bd0".parse::<Color>().map(|color| color.to_string()), Ok("#2f5bd0".to_owned()));
    }
}
