//! What caused a failed attempt, beside its class, and what to do about it in one sentence.
//!
//! [`Failure::remedy`] is the one place that chooses the sentence: the cause's, else the HTTP status's, else the class's.

use crate::failure_class::FailureClass;
use crate::status;

/// The number of characters that Docket stores of what a receiver said about a failure.
pub const KEPT_DETAIL_CHARS: usize = 500;

docket_crds::words! {
    /// Why an attempt failed. Each cause belongs to one [`FailureClass`].
    pub enum Cause {
        /// The receiver's certificate has expired. Detail: when.
        CertificateExpired,
        /// A certificate that the receiver sends with its own has expired. Detail: when.
        IntermediateExpired,
        /// The receiver's certificate, or one that it sends with it, is not valid yet. Detail: from when on.
        CertificateNotYetValid,
        /// The certificate is for other names. Detail: these names.
        CertificateForOtherName,
        /// The target URL has an IP address, which the certificate has as a DNS name only. Detail: the address.
        AddressAsDnsName,
        /// The certificate has a common name only, which no program checks any more.
        CertificateWithoutNames,
        /// The chain ends at an issuer that the receiver did not send and that is not a trusted authority.
        IssuerNotSent,
        /// The chain ends at an authority that is not trusted.
        UnknownAuthority,
        /// The receiver's certificate is its own issuer.
        SelfSigned,
        /// The receiver uses the certificate of an authority as its own.
        AuthorityAsReceiver,
        /// A certificate's signature does not fit the key of the authority with the name of its issuer.
        SignatureMismatch,
        /// A key or a signature of the chain is of a kind that Docket can't check.
        UnsupportedAlgorithm,
        /// The certificate is for another purpose than a server.
        WrongPurpose,
        /// A certificate of the receiver is not encoded as X.509 demands.
        UnreadableCertificate,
        /// A certificate of the receiver has a critical extension that Docket does not know.
        CriticalExtension,
        /// A certificate of the chain breaks a constraint of a certificate above it, or its issuer may not issue certificates.
        BrokenConstraint,
        /// Another rule for certificates is broken.
        InvalidCertificate,
        /// The receiver answered in the clear, by HTTP.
        PlainHttp,
        /// The receiver answered something that is neither TLS nor HTTP.
        NotTls,
        /// The receiver speaks TLS 1.1 or older only.
        OldTlsVersion,
        /// Receiver and Docket share no cipher suite, group or signature algorithm.
        NoCommonAlgorithm,
        /// The receiver serves no site with the host of the target URL.
        UnknownHost,
        /// The receiver speaks another protocol than HTTP/1.1 over TLS.
        Http2Only,
        /// The receiver wants a client certificate.
        ClientCertificate,
        /// The receiver closed the connection during the handshake.
        HandshakeClosed,
        /// The receiver ended the handshake with an alert. Detail: its name.
        HandshakeRefused,
        /// All connections that the receiver takes were in use by other attempts.
        ReceiverBusy,
        /// The answer is of HTTP/2.
        Http2Answer,
        /// The answer does not begin like HTTP.
        NoStatusLine,
        /// The answer is of another version than HTTP/1.0 or HTTP/1.1.
        HttpVersion,
        /// The first line has no status of three digits, or has more than a status line may have.
        InvalidStatusLine,
        /// The name of a header is not valid. Detail: where.
        InvalidHeaderName,
        /// The value of a header is not valid. Detail: where.
        InvalidHeaderValue,
        /// A header continues in the next line. Detail: where.
        FoldedHeader,
        /// There are more headers than Docket reads.
        TooManyHeaders,
        /// The headers are longer than Docket reads.
        HeadersTooLong,
        /// Content-Length is not a number, or there are two different ones.
        InvalidContentLength,
        /// An answer of HTTP/1.0 has a Transfer-Encoding.
        TransferEncoding,
        /// The redirect has no Location, or its Location is not a URL.
        NoLocation,
        /// The redirect leads to the target URL.
        RedirectToItself,
        /// The redirect leads away from https. Detail: where to.
        RedirectToHttp,
    }
}

impl Cause {
    /// The class of the failures that have this cause.
    pub fn class(self) -> FailureClass {
        match self {
            Self::CertificateExpired
            | Self::IntermediateExpired
            | Self::CertificateNotYetValid
            | Self::CertificateForOtherName
            | Self::AddressAsDnsName
            | Self::CertificateWithoutNames
            | Self::IssuerNotSent
            | Self::UnknownAuthority
            | Self::SelfSigned
            | Self::AuthorityAsReceiver
            | Self::SignatureMismatch
            | Self::UnsupportedAlgorithm
            | Self::WrongPurpose
            | Self::UnreadableCertificate
            | Self::CriticalExtension
            | Self::BrokenConstraint
            | Self::InvalidCertificate => FailureClass::TlsUntrusted,
            Self::PlainHttp
            | Self::NotTls
            | Self::OldTlsVersion
            | Self::NoCommonAlgorithm
            | Self::UnknownHost
            | Self::Http2Only
            | Self::ClientCertificate
            | Self::HandshakeClosed
            | Self::HandshakeRefused => FailureClass::TlsOther,
            Self::ReceiverBusy => FailureClass::TimeoutConnect,
            Self::Http2Answer
            | Self::NoStatusLine
            | Self::HttpVersion
            | Self::InvalidStatusLine
            | Self::InvalidHeaderName
            | Self::InvalidHeaderValue
            | Self::FoldedHeader
            | Self::TooManyHeaders
            | Self::HeadersTooLong
            | Self::InvalidContentLength
            | Self::TransferEncoding => FailureClass::NotHttp,
            Self::NoLocation | Self::RedirectToItself | Self::RedirectToHttp => FailureClass::Redirect,
        }
    }

    fn remedy(self, detail: Option<&str>) -> String {
        let text = match self {
            Self::CertificateExpired => {
                "The receiver's certificate expired{ on }; renew it, and have the server load the new one."
            }
            Self::IntermediateExpired => {
                "The receiver's own certificate is valid, but an intermediate that it sends expired{ on }; configure the chain that the authority gives out today."
            }
            Self::CertificateNotYetValid => {
                "The receiver's certificate, or an intermediate that it sends, is not valid yet{, but from }; use one that is valid now, and check the clock of the machine that issued it."
            }
            Self::CertificateForOtherName => {
                "The receiver's certificate is for other names than the host of targetURL{: it has }; use a name of the certificate in targetURL, or get a certificate for this host."
            }
            Self::AddressAsDnsName => {
                "The receiver's certificate has the IP address of targetURL as a DNS name only{: }, and DNS names do not count for addresses; issue it again with the address as subjectAltName=IP, or use a host name in targetURL."
            }
            Self::CertificateWithoutNames => {
                "The receiver's certificate has no subject alternative name, and the common name does not count; issue it again with the host of targetURL as subjectAltName (`openssl x509 -req` needs -extfile for it)."
            }
            Self::IssuerNotSent => {
                "The receiver did not send the certificate of its issuer, which is no trusted authority; configure the full chain with the intermediates, which browsers may fetch by themselves, or set caBundleRef if the authority is private."
            }
            Self::UnknownAuthority => {
                "The receiver's certificate comes from an authority that is not trusted; set caBundleRef to the root certificate of this authority."
            }
            Self::SelfSigned => {
                "The receiver's certificate is signed by itself and not trusted; set caBundleRef to exactly this certificate, or use one of an authority."
            }
            Self::AuthorityAsReceiver => {
                "The receiver's own certificate is that of an authority (CA:TRUE), as `openssl req -x509` makes it; make one with `-addext basicConstraints=critical,CA:FALSE`, or have the authority sign a second certificate for the receiver."
            }
            Self::SignatureMismatch => {
                "The signature of the receiver's certificate does not fit the key of its issuer: the authority has a new key, or one of RSA with fewer than 2048 bits; set caBundleRef to the authority's certificate of today."
            }
            Self::UnsupportedAlgorithm => {
                "A certificate of the receiver has a key or a signature that Docket can't check, such as RSA of 1024 bits, SHA-1, P-521, or SHA-512 with P-256; use RSA of 2048 bits or more with SHA-256, or P-256 with SHA-256, or P-384 with SHA-384."
            }
            Self::WrongPurpose => {
                "The receiver's certificate is not for servers; issue it with the extended key usage serverAuth."
            }
            Self::UnreadableCertificate => {
                "A certificate of the receiver is not encoded as X.509 demands, so Docket can't read it; issue it again with another program, and see with `openssl x509 -text` what this one wrote."
            }
            Self::CriticalExtension => {
                "A certificate of the receiver has a critical extension that Docket does not know; issue it again without this extension, or with the extension not critical."
            }
            Self::BrokenConstraint => {
                "A certificate of the receiver breaks a constraint of its authority, on names or on the length of the chain, or its issuer is no authority; have it issued by an authority that may issue it."
            }
            Self::InvalidCertificate => {
                "A certificate of the receiver breaks a rule of X.509; check the chain with `openssl verify`, and issue the certificate again."
            }
            Self::PlainHttp => {
                "The receiver answered in plain HTTP where targetURL says https; use the port that speaks TLS, or switch TLS on."
            }
            Self::NotTls => {
                "What answers at the target's port speaks another protocol than TLS; correct the port in targetURL."
            }
            Self::OldTlsVersion => {
                "The receiver speaks only TLS 1.1 or older, which is not safe; switch TLS 1.2 or 1.3 on."
            }
            Self::NoCommonAlgorithm => {
                "The receiver accepts none of the algorithms that Docket offers; allow TLS 1.3, or ECDHE with AES-GCM or ChaCha20, and a certificate with an RSA, P-256 or P-384 key."
            }
            Self::UnknownHost => {
                "The server has no site with the host of targetURL; add the host to its configuration, or correct targetURL."
            }
            Self::Http2Only => {
                "The receiver does not accept HTTP/1.1, which deliveries use; allow HTTP/1.1 beside HTTP/2."
            }
            Self::ClientCertificate => {
                "The receiver wants a client certificate, which Docket does not have; switch that off for this route, and check the signature of the delivery instead."
            }
            Self::HandshakeClosed => {
                "The receiver closed the connection during the TLS handshake; check that the port speaks TLS, that the server knows the host of targetURL, and that no firewall cuts the connection."
            }
            Self::HandshakeRefused => {
                "The receiver ended the TLS handshake with an alert{: }; see the receiver's TLS log for the reason."
            }
            Self::ReceiverBusy => {
                "The receiver takes no further connection, and those that it took were in use by other attempts all the time; let it answer sooner, or take more connections at once."
            }
            Self::Http2Answer => {
                "The receiver answers in HTTP/2 without being asked; let this port speak HTTP/1.1 as well."
            }
            Self::NoStatusLine => {
                "The answer does not begin with an HTTP status line; check that targetURL leads to a web server, and that the program behind it writes `HTTP/1.1` and a status first."
            }
            Self::HttpVersion => {
                "The answer is of a version of HTTP that Docket does not speak; answer in HTTP/1.1."
            }
            Self::InvalidStatusLine => {
                "The first line of the answer is not valid; write `HTTP/1.1`, one blank, three digits from 100 to 999, and at most a blank and a reason in plain text."
            }
            Self::InvalidHeaderName => {
                "A header of the answer has no valid name{: }; write a name without blanks, a colon and the value, and let no warning of a program get between the headers."
            }
            Self::InvalidHeaderValue => {
                "The value of a header of the answer has a control character{: }; remove it."
            }
            Self::FoldedHeader => {
                "A header of the answer continues in a second line{: }, which HTTP no longer allows; write each header in one line."
            }
            Self::TooManyHeaders => {
                "The answer has more than 100 headers; answer a delivery with a status and few headers."
            }
            Self::HeadersTooLong => {
                "The headers of the answer are longer than 32 KiB; answer a delivery without long cookies and policies."
            }
            Self::InvalidContentLength => {
                "The Content-Length of the answer is no number, or there are two that differ; write it once, with the length of the body in bytes."
            }
            Self::TransferEncoding => {
                "The answer is of HTTP/1.0 and has a Transfer-Encoding, which only HTTP/1.1 has; answer in HTTP/1.1, or write a Content-Length."
            }
            Self::NoLocation => {
                "The receiver answered with a redirect that has no usable Location; let the route answer a POST with 2xx."
            }
            Self::RedirectToItself => {
                "The receiver redirects to the same address, often to set a cookie; let the route take a POST without a cookie."
            }
            Self::RedirectToHttp => {
                "The receiver redirects to an address without TLS{: }; deliveries need https, so let the https address answer, or tell the server that its proxy speaks TLS."
            }
        };
        filled(text, detail)
    }
}

/// Puts the detail behind the text in braces, which introduces it, and removes the braces. Without a detail, that
/// text is removed too.
fn filled(text: &str, detail: Option<&str>) -> String {
    let Some((before, (lead, after))) =
        text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return text.to_owned();
    };
    match detail {
        Some(detail) => format!("{before}{lead}{detail}{after}"),
        None => format!("{before}{after}"),
    }
}

/// The cause and the detail of a failure, beside its class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The cause, if it is known.
    pub cause: Option<Cause>,
    /// The detail of the cause, of at most [`KEPT_DETAIL_CHARS`] characters: a time, names, a place in the response,
    /// or the Location of a redirect. The receiver chooses it.
    pub detail: Option<String>,
}

impl Explanation {
    /// An explanation without a detail.
    pub fn of(cause: Cause) -> Self {
        Self { cause: Some(cause), detail: None }
    }

    /// An explanation with a detail. Control characters are removed, and the detail is cut to [`KEPT_DETAIL_CHARS`].
    pub fn with(cause: Option<Cause>, detail: &str) -> Self {
        Self { cause, detail: Some(kept_detail(detail)).filter(|detail| !detail.is_empty()) }
    }
}

fn kept_detail(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { '?' } else { c });
    let mut kept: String = characters.by_ref().take(KEPT_DETAIL_CHARS).collect();
    if characters.next().is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

/// How an attempt failed, with everything that decides what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<'a> {
    /// The class.
    pub class: FailureClass,
    /// The cause, if it is known.
    pub cause: Option<Cause>,
    /// The HTTP status, if a response arrived.
    pub http_status: Option<u16>,
    /// See [`Explanation::detail`].
    pub detail: Option<&'a str>,
}

impl From<FailureClass> for Failure<'_> {
    fn from(class: FailureClass) -> Self {
        Self { class, cause: None, http_status: None, detail: None }
    }
}

impl Failure<'_> {
    /// One sentence that names the mistake and its remedy.
    pub fn remedy(&self) -> String {
        let by_status = |status| status::remedy(self.class, status, self.detail);
        match self.known_cause() {
            Some(cause) => cause.remedy(self.detail),
            None => self.http_status.and_then(by_status).unwrap_or_else(|| self.class.remedy().to_owned()),
        }
    }

    /// The heading in `docs/reference/failure-classes.md` of the section about this failure.
    pub fn heading(&self) -> &'static str {
        self.known_cause().map_or(self.class.as_str(), Cause::as_str)
    }

    /// The cause, if it belongs to the class. A cause of another class comes from an earlier failure.
    pub fn known_cause(&self) -> Option<Cause> {
        self.cause.filter(|cause| cause.class() == self.class)
    }
}

impl FailureClass {
    /// One sentence that says how to fix a failure of this class.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Dns => {
                "The name of the target URL does not resolve; check its spelling and its DNS record."
            }
            Self::Connect => {
                "The receiver could not be reached; check that it runs and that its firewall allows the connection."
            }
            Self::Refused => "Nothing listens on the target's port; start the receiver or correct the port.",
            Self::BlockedAddress => {
                "The target resolves to an address that deliveries may not reach; use a public address, or ask the platform to allow its range."
            }
            Self::TlsUntrusted => {
                "The receiver's certificate is not trusted; check it with `openssl s_client`, and set caBundleRef if its authority is private."
            }
            Self::TlsOther => {
                "The TLS handshake failed; the receiver must speak TLS 1.2 or 1.3 and HTTP/1.1, know the host of targetURL, and not want a client certificate."
            }
            Self::TimeoutDns => {
                "Looking up the name took too long; check the DNS servers of the target's domain, and whether your own network lets DNS through."
            }
            Self::TimeoutConnect => {
                "The receiver did not accept a connection in time; check its firewall, its load and how many connections it serves at the same time."
            }
            Self::TimeoutTls => {
                "The receiver did not finish the TLS handshake in time; check its load, and whether each of its workers is held by an open connection."
            }
            Self::TimeoutFirstByte => {
                "The receiver did not respond in time; respond with 2xx at once and do the work afterwards."
            }
            Self::BodyTimeout => {
                "The receiver's error answer did not end in time; see the receiver's log for the cause."
            }
            Self::Transport => {
                "The connection broke before an HTTP answer arrived; see the receiver's log for a crash or restart."
            }
            Self::NotHttp => {
                "The receiver's answer breaks a rule of HTTP/1.1; see it with `curl -i --raw`, and correct what writes it."
            }
            Self::Redirect => {
                "The receiver answered with a redirect, which is not followed; set targetURL to the final address."
            }
            Self::ClientError => {
                "The receiver refused the request; see the status and the text of its answer for the reason."
            }
            Self::ServerError => {
                "The receiver failed while handling the request; see the receiver's log, and correct what failed."
            }
            Self::WorkerLost => {
                "The worker stopped during the attempt, so the outcome is unknown; nothing needs to be done at the receiver."
            }
            Self::WebhookGone => {
                "The webhook was not declared for longer than the grace of removed webhooks; declare it again under the same namespace, name and customerCode, and resend what is still wanted."
            }
            Self::EventTooLong => {
                "The stored event is longer than 64 KiB, which no event of Docket is; find the program that changed its body, restore it and resend."
            }
            Self::EventIdInvalid => {
                "The stored event is gone, or its id or code is invalid, which none of Docket is; find the program that changed it, restore it and resend."
            }
            Self::Unknown(_) => {
                "A newer version of Docket stored this class, which this process does not know; look again after the upgrade, or at the documentation of that version."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cause: Cause, detail: Option<&str>) -> String {
        Failure { cause: Some(cause), detail, ..cause.class().into() }.remedy()
    }

    #[test]
    fn every_class_and_cause_has_its_own_remedy_in_one_sentence() {
        let classes = FailureClass::ALL.map(|class| class.remedy().to_owned());
        let causes = Cause::ALL.map(|cause| with(cause, None));
        let mut remedies: Vec<String> = classes.into_iter().chain(causes).collect();
        for remedy in &remedies {
            assert!(remedy.ends_with('.') && remedy.matches(". ").count() == 0, "{remedy}");
            assert!(!remedy.contains(['{', '}']) && remedy.contains("; "), "{remedy}");
        }
        let count = remedies.len();
        remedies.sort_unstable();
        remedies.dedup();
        assert_eq!(remedies.len(), count);
    }

    #[test]
    fn detail_stands_in_the_sentence() {
        let expired = with(Cause::CertificateExpired, Some("2026-11-01T00:00:00Z"));
        assert!(expired.contains(" expired on 2026-11-01T00:00:00Z; renew it"), "{expired}");
        let folded = with(Cause::FoldedHeader, Some("x-a on line 3"));
        assert!(folded.contains("in a second line: x-a on line 3, which"), "{folded}");
        let address = with(Cause::AddressAsDnsName, Some("192.0.2.7"));
        assert!(address.contains("as a DNS name only: 192.0.2.7, and DNS names"), "{address}");
        let braces = with(Cause::HandshakeRefused, Some("{: }"));
        assert!(braces.contains("alert: {: }; see"), "{braces}");
    }

    #[test]
    fn cause_of_another_class_is_of_an_earlier_attempt_and_is_left_out() {
        let failure = Failure { cause: Some(Cause::SelfSigned), ..FailureClass::WebhookGone.into() };
        assert_eq!(failure.remedy(), FailureClass::WebhookGone.remedy());
        assert_eq!(failure.heading(), "WebhookGone");
        let own = Failure { cause: Some(Cause::SelfSigned), ..FailureClass::TlsUntrusted.into() };
        assert_eq!(own.heading(), "SelfSigned");
    }

    #[test]
    fn detail_is_bounded_and_has_no_control_characters() {
        let explanation = Explanation::with(None, &format!("a\u{1b}[2J{}", "é".repeat(1_000)));
        let detail = explanation.detail.expect("a detail");
        assert!(detail.starts_with("a?[2J") && detail.ends_with('…'), "{detail}");
        assert_eq!(detail.chars().count(), KEPT_DETAIL_CHARS);
        assert_eq!(Explanation::with(None, "").detail, None);
    }

    #[test]
    fn causes_parse_from_their_words() {
        for cause in Cause::ALL {
            assert_eq!(cause.as_str().parse(), Ok(cause));
            assert!(
                FailureClass::ALL.iter().all(|class| class.as_str() != cause.as_str()),
                "one heading each"
            );
        }
    }
}
