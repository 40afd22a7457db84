//! The cause of a failed TLS handshake, from the types of rustls' errors.

use std::net::IpAddr;

use docket_domain::failure::{Cause, Explanation};
use jiff::Timestamp;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use crate::shown::{ChainEnd, MAX_NAMES, Shown};

/// Why a handshake failed. `error` is `None` if the connection ended. `first` contains the first bytes that the receiver sent.
pub(crate) fn of_handshake(error: Option<&Error>, shown: &Shown, first: &[u8]) -> Explanation {
    match error {
        None => Explanation::of(Cause::HandshakeClosed),
        Some(Error::InvalidCertificate(error)) => of_certificate(error, shown),
        Some(Error::AlertReceived(alert)) => of_alert(*alert, shown.wants_certificate),
        Some(Error::PeerIncompatible(why)) => Explanation::of(match why {
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => Cause::OldTlsVersion,
            _ => Cause::NoCommonAlgorithm,
        }),
        Some(Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
            | InvalidMessage::InvalidEmptyPayload,
        )) => Explanation::of(match first.starts_with(b"HTTP/") {
            true => Cause::PlainHttp,
            false => Cause::NotTls,
        }),
        Some(Error::NoApplicationProtocol) => Explanation::of(Cause::Http2Only),
        Some(_) => Explanation::default(),
    }
}

fn of_certificate(error: &CertificateError, shown: &Shown) -> Explanation {
    let cause = match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            let is_own = timestamp(*not_after).is_some_and(|time| shown.has_time(time));
            let cause = if is_own { Cause::CertificateExpired } else { Cause::IntermediateExpired };
            return at(cause, *not_after);
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            return at(Cause::CertificateNotYetValid, *not_before);
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            Cause::CertificateWithoutNames
        }
        CertificateError::NotValidForNameContext { expected: ServerName::IpAddress(address), presented }
            if has_as_dns_name(presented, IpAddr::from(*address)) =>
        {
            let address = IpAddr::from(*address).to_string();
            return Explanation::with(Some(Cause::AddressAsDnsName), &address);
        }
        CertificateError::NotValidForNameContext { presented, .. } if shown.names.is_empty() => {
            let addresses =
                presented.iter().filter_map(|name| name.strip_prefix("IpAddress(")?.strip_suffix(')'));
            let addresses: Vec<&str> = addresses.take(MAX_NAMES).collect();
            return Explanation::with(Some(Cause::CertificateForOtherName), &addresses.join(", "));
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            return Explanation::with(Some(Cause::CertificateForOtherName), &shown.names.join(", "));
        }
        CertificateError::UnknownIssuer => match shown.end {
            Some(ChainEnd::SelfSigned) => Cause::SelfSigned,
            Some(ChainEnd::NotSent) => Cause::IssuerNotSent,
            Some(ChainEnd::Root) | None => Cause::UnknownAuthority,
        },
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            Cause::UnsupportedAlgorithm
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Cause::WrongPurpose
        }
        // The verifier does not accept RSA keys of less than 2048 bits.
        CertificateError::BadSignature if shown.signs_wrongly => Cause::UnsupportedAlgorithm,
        CertificateError::BadSignature => Cause::SignatureMismatch,
        CertificateError::Expired => Cause::CertificateExpired,
        CertificateError::NotValidYet => Cause::CertificateNotYetValid,
        CertificateError::Other(other) => match other.0.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::CaUsedAsEndEntity) => Cause::AuthorityAsReceiver,
            // A certificate of version 1 has no extensions, and so no names.
            Some(webpki::Error::UnsupportedCertVersion) => Cause::CertificateWithoutNames,
            Some(error) => of_structure(error),
            None => Cause::InvalidCertificate,
        },
        CertificateError::BadEncoding => Cause::UnreadableCertificate,
        CertificateError::UnhandledCriticalExtension => Cause::CriticalExtension,
        _ => Cause::InvalidCertificate,
    };
    Explanation::of(cause)
}

/// The cause of an error of the verifier for which rustls has no error of its own.
fn of_structure(error: &webpki::Error) -> Cause {
    use webpki::Error as E;
    match error {
        E::UnsupportedCriticalExtension => Cause::CriticalExtension,
        E::NameConstraintViolation | E::PathLenConstraintViolated | E::EndEntityUsedAsCa => {
            Cause::BrokenConstraint
        }
        E::EmptyEkuExtension
        | E::ExtensionValueInvalid
        | E::InvalidNetworkMaskConstraint
        | E::MalformedDnsIdentifier
        | E::MalformedExtensions
        | E::MalformedNameConstraint
        | E::SignatureAlgorithmMismatch => Cause::UnreadableCertificate,
        _ => Cause::InvalidCertificate,
    }
}

/// Whether one of the certificate's names, as rustls prints them, is a DNS name with the text of this address.
fn has_as_dns_name(presented: &[String], address: IpAddr) -> bool {
    let dns_name =
        |name: &String| name.strip_prefix("DnsName(\"")?.strip_suffix("\")")?.parse::<IpAddr>().ok();
    presented.iter().filter_map(dns_name).any(|name| name == address)
}

fn at(cause: Cause, time: UnixTime) -> Explanation {
    Explanation::with(Some(cause), &timestamp(time).map(|time| time.to_string()).unwrap_or_default())
}

fn timestamp(time: UnixTime) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(time.as_secs()).ok()?).ok()
}

/// The cause of an alert. `wants_certificate`: the receiver has asked for a client certificate.
pub(crate) fn of_alert(alert: AlertDescription, wants_certificate: bool) -> Explanation {
    use AlertDescription as Alert;
    let about_ours = matches!(
        alert,
        Alert::HandshakeFailure
            | Alert::BadCertificate
            | Alert::NoCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
    );
    Explanation::of(match alert {
        Alert::CertificateRequired => Cause::ClientCertificate,
        _ if about_ours && wants_certificate => Cause::ClientCertificate,
        Alert::ProtocolVersion => Cause::OldTlsVersion,
        Alert::HandshakeFailure | Alert::InsufficientSecurity => Cause::NoCommonAlgorithm,
        Alert::UnrecognisedName => Cause::UnknownHost,
        Alert::NoApplicationProtocol => Cause::Http2Only,
        Alert::CloseNotify => Cause::HandshakeClosed,
        _ => return Explanation::with(Some(Cause::HandshakeRefused), &name(alert)),
    })
}

/// The name of an alert as RFC 8446 writes it, or its number.
fn name(alert: AlertDescription) -> String {
    match alert.as_str() {
        None => format!("number {}", u8::from(alert)),
        Some(camel) => {
            let mut name = String::new();
            let mut was_lower = false;
            for c in camel.chars() {
                if c.is_uppercase() && was_lower {
                    name.push('_');
                }
                was_lower = c.is_lowercase();
                name.extend(c.to_lowercase());
            }
            name
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    fn certificate(error: CertificateError, shown: &Shown) -> (Option<Cause>, Option<String>) {
        let explanation = of_handshake(Some(&Error::InvalidCertificate(error)), shown, b"");
        (explanation.cause, explanation.detail)
    }

    #[test]
    fn each_error_of_a_certificate_has_its_cause() {
        let time = |second| UnixTime::since_unix_epoch(std::time::Duration::from_secs(second));
        let shown = |end| Shown { end, ..Shown::default() };
        let expired = CertificateError::ExpiredContext { time: time(2), not_after: time(1) };
        let at = Some("1970-01-01T00:00:01Z".to_owned());
        for (own, cause) in [
            (&b"..700101000001Z.."[..], Cause::CertificateExpired),
            (b"..19700101000001Z", Cause::CertificateExpired),
            (b"..700101000002Z..", Cause::IntermediateExpired),
        ] {
            let shown = Shown { own: own.into(), ..Shown::default() };
            assert_eq!(certificate(expired.clone(), &shown), (Some(cause), at.clone()));
        }
        for (end, cause) in [
            (Some(ChainEnd::SelfSigned), Cause::SelfSigned),
            (Some(ChainEnd::NotSent), Cause::IssuerNotSent),
            (Some(ChainEnd::Root), Cause::UnknownAuthority),
            (None, Cause::UnknownAuthority),
        ] {
            assert_eq!(certificate(CertificateError::UnknownIssuer, &shown(end)), (Some(cause), None));
        }
        let other = |error| CertificateError::Other(OtherError(Arc::new(error)));
        for (error, cause) in [
            (other(webpki::Error::CaUsedAsEndEntity), Cause::AuthorityAsReceiver),
            (other(webpki::Error::NameConstraintViolation), Cause::BrokenConstraint),
            (other(webpki::Error::PathLenConstraintViolated), Cause::BrokenConstraint),
            (other(webpki::Error::EndEntityUsedAsCa), Cause::BrokenConstraint),
            (other(webpki::Error::UnsupportedCriticalExtension), Cause::CriticalExtension),
            (CertificateError::UnhandledCriticalExtension, Cause::CriticalExtension),
            (other(webpki::Error::MalformedExtensions), Cause::UnreadableCertificate),
            (CertificateError::BadEncoding, Cause::UnreadableCertificate),
            (other(webpki::Error::MaximumPathDepthExceeded), Cause::InvalidCertificate),
            (CertificateError::ApplicationVerificationFailure, Cause::InvalidCertificate),
            (CertificateError::BadSignature, Cause::SignatureMismatch),
            (CertificateError::InvalidPurpose, Cause::WrongPurpose),
        ] {
            assert_eq!(certificate(error, &Shown::default()), (Some(cause), None));
        }
    }

    #[test]
    fn address_that_is_only_a_dns_name_has_its_cause() {
        let not_for = |expected: &str, presented: &[&str]| {
            let expected = ServerName::try_from(expected.to_owned()).expect("a name or an address");
            let presented = presented.iter().map(|name| (*name).to_owned()).collect();
            let error = CertificateError::NotValidForNameContext { expected, presented };
            certificate(error, &Shown::default())
        };
        for (address, name) in
            [("10.0.0.1", "DnsName(\"10.0.0.1\")"), ("2001:db8::1", "DnsName(\"2001:DB8:0::1\")")]
        {
            let found = not_for(address, &["DnsName(\"h.example\")", name]);
            assert_eq!(found, (Some(Cause::AddressAsDnsName), Some(address.to_owned())));
        }
        for (expected, presented) in [
            ("10.0.0.1", "DnsName(\"10.0.0.2\")"),
            ("10.0.0.1", "IpAddress(10.0.0.2)"),
            ("h.example", "DnsName(\"10.0.0.1\")"),
        ] {
            assert_eq!(
                not_for(expected, &[presented]).0,
                Some(Cause::CertificateForOtherName),
                "{presented}"
            );
        }
    }

    #[test]
    fn alert_is_about_a_client_certificate_if_one_was_wanted() {
        let cause = |alert, wanted| of_alert(alert, wanted).cause;
        assert_eq!(cause(AlertDescription::HandshakeFailure, true), Some(Cause::ClientCertificate));
        assert_eq!(cause(AlertDescription::HandshakeFailure, false), Some(Cause::NoCommonAlgorithm));
        assert_eq!(cause(AlertDescription::CertificateRequired, false), Some(Cause::ClientCertificate));
        assert_eq!(cause(AlertDescription::ProtocolVersion, true), Some(Cause::OldTlsVersion));
        assert_eq!(cause(AlertDescription::NoApplicationProtocol, false), Some(Cause::Http2Only));
    }

    #[test]
    fn alert_without_a_cause_of_its_own_is_named() {
        for (alert, detail) in [
            (AlertDescription::InternalError, "internal_error"),
            (AlertDescription::BadRecordMac, "bad_record_mac"),
            (AlertDescription::UnknownCA, "unknown_ca"),
            (AlertDescription::Unknown(200), "number 200"),
        ] {
            let named = Explanation { cause: Some(Cause::HandshakeRefused), detail: Some(detail.into()) };
            assert_eq!(of_alert(alert, false), named);
        }
    }
}
