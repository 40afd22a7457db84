//! The few fields of an X.509 certificate (RFC 5280, 4.1) that Docket reads without a TLS library.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_ID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
/// The content of the field `version` in version 3, the version with extensions. Certificates of version 1 lack the field.
const VERSION_3: &[u8] = &[INTEGER, 1, 2];
const EXTENSIONS: u8 = 0xa3;

/// A certificate: the content of its fields, in DER.
pub(crate) struct Certificate<'a> {
    pub(crate) issuer: &'a [u8],
    pub(crate) subject: &'a [u8],
    pub(crate) key: &'a [u8],
    /// The certificate's extensions; empty without extensions.
    pub(crate) extensions: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Reads the fields. Returns `None` unless the bytes are exactly one whole certificate. Also returns `None` if
    /// parts of the certificate contradict each other, because TLS libraries refuse such certificates.
    pub(crate) fn read(der: &'a [u8]) -> Option<Self> {
        let mut whole = Der(der);
        let mut parts = Der(whole.take(SEQUENCE)?);
        let mut fields = Der(parts.take(SEQUENCE)?);
        let signed_with = parts.take(SEQUENCE)?;
        parts.take(BIT_STRING)?; // signature
        if !whole.0.is_empty() || !parts.0.is_empty() {
            return None;
        }
        if fields.take(VERSION).is_some_and(|version| version != VERSION_3) {
            return None;
        }
        fields.take(INTEGER)?; // serial number
        if fields.take(SEQUENCE)? != signed_with {
            return None;
        }
        let issuer = fields.take(SEQUENCE)?;
        fields.take(SEQUENCE)?; // validity
        let subject = fields.take(SEQUENCE)?;
        let key = fields.take(SEQUENCE)?;
        let extensions = match fields.0.is_empty() {
            true => &[],
            false => Der(fields.take(EXTENSIONS)?).take(SEQUENCE)?,
        };
        if !fields.0.is_empty() {
            return None;
        }
        Some(Self { issuer, subject, key, extensions })
    }
}

/// DER that is still to be read.
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next value, which must have this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        (*self.0.first()? == tag).then(|| self.next()).flatten()
    }

    /// The content of the next value, of less than 16 MiB.
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let (&[_, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match length {
            ..=0x7f => (usize::from(length), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }
}
