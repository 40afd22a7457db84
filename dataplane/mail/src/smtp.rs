//! Sends messages by SMTP: one connection for each message, and one at a time.

use std::time::Duration;

use docket_domain::words;
use jiff::Timestamp;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::text::Text;
use crate::url::{Encryption, SmtpUrl};

/// Time limit of one message, from the connection to the server's reply.
pub const SEND_TIME: Duration = Duration::from_secs(10);

/// A message to one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The address.
    pub to: String,
    /// A text that is the same each time the message is sent, and for no other message: letters and digits.
    pub id: String,
    /// When the message is sent.
    pub at: Timestamp,
    /// Subject and body.
    pub text: Text,
    /// The URL at which one POST ends the subscription; `None`: there is nothing to end yet.
    pub unsubscribe: Option<String>,
}

words! {
    /// Why a message was not sent: a word, and not the server's reply, because replies quote addresses.
    pub enum NotSent {
        /// The server can't be reached, or does not greet in time.
        Unreachable,
        /// The server gave no reply to this message in time, and greets a new connection.
        NoReply,
        /// The server's certificate is not trusted, or it does not offer STARTTLS.
        Tls,
        /// The server refuses for now.
        RefusedForNow,
        /// The server refuses.
        Refused,
        /// The address or the message can't be sent by SMTP.
        Invalid,
    }
}

impl NotSent {
    /// Whether the reason is the server and not the message: every other message would fail as well.
    pub fn is_of_the_server(self) -> bool {
        matches!(self, Self::Unreachable | Self::Tls)
    }
}

/// Settings that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum WrongSettings {
    /// The sender's address.
    #[error("must be an e-mail address, such as docket@example.com or \"Docket <docket@example.com>\"")]
    From,
    /// The CA certificates.
    #[error("must hold CA certificates in PEM")]
    Authorities,
    /// The server.
    #[error("the connection can't be set up: {0}")]
    Server(lettre::transport::smtp::Error),
}

/// The way to an SMTP server. It connects for each message.
pub struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    turn: Mutex<()>,
}

impl Smtp {
    /// Creates a way to this server, which must have a certificate of one of the `authorities` (PEM), or of a public one if they are
    /// not given. `from` is the sender of all messages.
    ///
    /// # Errors
    ///
    /// `from` is no address, or `authorities` are no certificates.
    pub fn new(url: &SmtpUrl, authorities: Option<&[u8]>, from: &str) -> Result<Self, WrongSettings> {
        let from = mailbox(from).ok_or(WrongSettings::From)?;
        let tls = tls(url, authorities)?;
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.url.as_str());
        let transport = builder
            .map_err(WrongSettings::Server)?
            .tls(tls)
            // EHLO names the sender's domain, not this pod.
            .hello_name(ClientId::Domain(from.email.domain().to_owned()))
            .timeout(Some(SEND_TIME))
            .build();
        Ok(Self { transport, from, turn: Mutex::new(()) })
    }

    /// Sends a message, within [`SEND_TIME`] after the messages that wait already. Without a reply, it connects once more to find out whether
    /// the server or this message is the cause, for as long again.
    ///
    /// # Errors
    ///
    /// The message was not sent, or the server's reply was lost.
    pub async fn send(&self, mail: &Outgoing) -> Result<(), NotSent> {
        let message = self.message(mail)?;
        let _turn = self.turn.lock().await;
        match timeout(SEND_TIME, self.transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) if error.is_tls() => Err(NotSent::Tls),
            Ok(Err(error)) if error.is_transient() => Err(NotSent::RefusedForNow),
            Ok(Err(error)) if error.is_permanent() => Err(NotSent::Refused),
            // The server lacks STARTTLS, or a way to send addresses with letters outside ASCII.
            Ok(Err(error)) if error.is_client() && mail.to.is_ascii() => Err(NotSent::Tls),
            Ok(Err(error)) if error.is_client() => Err(NotSent::Invalid),
            Ok(Err(_)) | Err(_) => Err(self.without_reply().await),
        }
    }

    /// Why there was no reply to a message.
    async fn without_reply(&self) -> NotSent {
        match timeout(SEND_TIME, self.transport.test_connection()).await {
            Ok(Ok(true)) => NotSent::NoReply,
            Ok(_) | Err(_) => NotSent::Unreachable,
        }
    }

    fn message(&self, mail: &Outgoing) -> Result<Message, NotSent> {
        let to: Address = address(&mail.to).ok_or(NotSent::Invalid)?;
        let id = format!("<{}@{}>", mail.id, self.from.email.domain());
        let mut builder = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .date(mail.at.into())
            .message_id(Some(id))
            .subject(one_line(&mail.text.subject));
        builder = builder.raw_header(header("Auto-Submitted", "auto-generated".to_owned()));
        if let Some(url) = &mail.unsubscribe {
            // A URL with anything else would need an encoding, which programs that follow it do not read.
            if !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'>') {
                return Err(NotSent::Invalid);
            }
            builder = builder.raw_header(header("List-Unsubscribe", format!("<{url}>")));
            let one_click = "List-Unsubscribe=One-Click".to_owned();
            builder = builder.raw_header(header("List-Unsubscribe-Post", one_click));
        }
        let body = SinglePart::builder()
            .header(ContentType::TEXT_PLAIN)
            .header(ContentTransferEncoding::QuotedPrintable)
            .body(mail.text.body.clone());
        builder.singlepart(body).map_err(|_| NotSent::Invalid)
    }
}

/// A header with a value of visible ASCII characters, which is one line.
fn header(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::dangerous_new_pre_encoded(HeaderName::new_from_ascii_str(name), value.clone(), value)
}

/// One address. A text with several is none.
fn address(text: &str) -> Option<Address> {
    text.parse().ok().filter(|_| !text.contains(char::is_control))
}

/// An address with or without a name: `docket@example.com` or `Docket <docket@example.com>`.
fn mailbox(text: &str) -> Option<Mailbox> {
    let text = text.trim();
    let Some(rest) = text.strip_suffix('>') else { return Some(Mailbox::new(None, address(text)?)) };
    let (name, text) = rest.split_once('<')?;
    let name = name.trim().trim_matches('"');
    let name = (!name.is_empty()).then(|| one_line(name));
    Some(Mailbox::new(name, address(text)?))
}

/// The text without line ends and other control characters, so that it can't begin another header.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn tls(url: &SmtpUrl, authorities: Option<&[u8]>) -> Result<Tls, WrongSettings> {
    if url.encryption == Encryption::None {
        return Ok(Tls::None);
    }
    let mut parameters = TlsParameters::builder(url.host.clone());
    parameters = match authorities {
        None => parameters.certificate_store(CertificateStore::WebpkiRoots),
        Some(pem) => {
            let certificate = Certificate::from_pem(pem).map_err(|_| WrongSettings::Authorities)?;
            parameters.certificate_store(CertificateStore::None).add_root_certificate(certificate)
        }
    };
    // Without a certificate in the file, every server would be untrusted.
    let is_empty = authorities.is_some_and(|pem| !pem.windows(11).any(|part| part == b"-----BEGIN "));
    if is_empty {
        return Err(WrongSettings::Authorities);
    }
    let parameters = parameters.build().map_err(|_| WrongSettings::Authorities)?;
    Ok(match url.encryption {
        Encryption::Tls => Tls::Wrapper(parameters),
        _ => Tls::Required(parameters),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smtp() -> Smtp {
        let url = SmtpUrl::parse("smtp://mail.example.com").expect("a URL");
        Smtp::new(&url, None, "Docket <docket@example.com>").expect("an address")
    }

    fn mail(to: &str, subject: &str) -> Outgoing {
        Outgoing {
            to: to.into(),
            id: "a1b2".into(),
            at: "2026-11-21T12:00:00Z".parse().expect("a time"),
            text: Text { subject: subject.into(), body: "Zoë: \u{2713}\r\n.\r\nDATA\n".into() },
            unsubscribe: Some("https://acme.example/portal/mail/00ff".into()),
        }
    }

    fn formatted(mail: &Outgoing) -> String {
        String::from_utf8(smtp().message(mail).expect("a message").formatted()).expect("ASCII")
    }

    #[test]
    fn message_names_its_link_as_rfc_8058_asks_and_says_that_no_person_wrote_it() {
        let text = formatted(&mail("alex@acme.example", "3 deliveries are lost"));
        for line in [
            "From: Docket <docket@example.com>",
            "To: alex@acme.example",
            "Subject: 3 deliveries are lost",
            "Message-ID: <a1b2@example.com>",
            "List-Unsubscribe: <https://acme.example/portal/mail/00ff>",
            "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
            "Auto-Submitted: auto-generated",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
        assert!(text.is_ascii());
    }

    #[test]
    fn name_with_line_ends_begins_no_header() {
        let text = formatted(&mail("alex@acme.example", "[A\r\nBcc: eve@evil.example\r\n\r\nHi] lost"));
        let (head, _) = text.split_once("\r\n\r\n").expect("a head");
        assert!(!head.lines().any(|line| line.to_ascii_lowercase().starts_with("bcc:")), "{text}");
        assert!(head.contains("List-Unsubscribe:"), "the head does not end early: {text}");
        for to in [
            "alex@acme.example\r\nBcc: eve@evil.example",
            "a@b.example, c@d.example",
            "alex",
            "",
            "<a@b.example>",
        ] {
            assert_eq!(smtp().message(&mail(to, "x")).err(), Some(NotSent::Invalid), "{to:?}");
        }
    }

    #[test]
    fn message_without_a_link_has_no_header_for_it_and_one_with_a_broken_link_is_not_sent() {
        let unsubscribe = |url: Option<&str>| {
            let mail = Outgoing { unsubscribe: url.map(str::to_owned), ..mail("alex@acme.example", "x") };
            smtp().message(&mail)
        };
        let text = String::from_utf8(unsubscribe(None).expect("a message").formatted()).expect("ASCII");
        assert!(!text.contains("List-Unsubscribe"), "{text}");
        for wrong in
            ["https://acme.example/a b", "https://acme.example/>", "https://acme.example/\r\nBcc: x", "é"]
        {
            assert_eq!(unsubscribe(Some(wrong)).err(), Some(NotSent::Invalid), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_server_that_takes_no_message_at_all_is_the_reason() {
        for (reason, expected) in [
            (NotSent::Unreachable, true),
            (NotSent::Tls, true),
            (NotSent::NoReply, false),
            (NotSent::RefusedForNow, false),
            (NotSent::Refused, false),
            (NotSent::Invalid, false),
        ] {
            assert_eq!(reason.is_of_the_server(), expected, "{reason:?}");
        }
    }

    #[test]
    fn sender_may_have_a_name() {
        let read = |text: &str| mailbox(text).map(|from| (from.name, from.email.to_string()));
        let address = || "a@b.example".to_owned();
        assert_eq!(read(" a@b.example\n"), Some((None, address())));
        assert_eq!(read("<a@b.example>"), Some((None, address())));
        assert_eq!(
            read("\"Docket, Inc.\" <a@b.example>"),
            Some((Some("Docket, Inc.".to_owned()), address()))
        );
        assert_eq!(read("Docket\tInc. <a@b.example>"), Some((Some("Docket Inc.".to_owned()), address())));
        assert_eq!(read("Docket a@b.example>"), None);
    }

    #[test]
    fn sender_and_authorities_are_checked() {
        let url = SmtpUrl::parse("smtps://mail.example.com").expect("a URL");
        for wrong in ["", "docket", "a@b.example, c@d.example"] {
            assert!(matches!(Smtp::new(&url, None, wrong), Err(WrongSettings::From)), "{wrong}");
        }
        for wrong in [&b""[..], b"hello", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let refused = Smtp::new(&url, Some(wrong), "docket@example.com");
            assert!(matches!(refused, Err(WrongSettings::Authorities)), "{wrong:?}");
        }
    }

    #[test]
    fn connection_is_encrypted_as_its_url_says() {
        let of = |url: &str| tls(&SmtpUrl::parse(url).expect("a URL"), None).expect("public authorities");
        assert!(matches!(of("smtps://mail.example.com"), Tls::Wrapper(_)));
        assert!(
            matches!(of("smtp://mail.example.com"), Tls::Required(_)),
            "nothing is sent without STARTTLS"
        );
        assert!(matches!(of("smtp://localhost"), Tls::None));
    }

    #[test]
    fn message_has_its_time_and_only_what_can_be_ended_has_a_link() {
        let asked = Outgoing { unsubscribe: None, ..mail("alex@acme.example", "Confirm") };
        let text = formatted(&asked);
        assert!(text.contains("Date: Sat, 21 Nov 2026 12:00:00 "), "{text}");
        assert!(!text.contains("List-Unsubscribe") && text.contains("Auto-Submitted:"), "{text}");
        for url in
            ["https://a.example/x y", "https://a.example/>", "https://ä.example/", "https://a.example/\r\n"]
        {
            let wrong = Outgoing { unsubscribe: Some(url.to_owned()), ..asked.clone() };
            assert_eq!(smtp().message(&wrong).err(), Some(NotSent::Invalid), "{url}");
        }
    }

    #[test]
    fn server_is_the_reason_only_if_every_message_would_fail() {
        let of_the_server = NotSent::ALL.into_iter().filter(|reason| reason.is_of_the_server());
        assert_eq!(Vec::from_iter(of_the_server), [NotSent::Unreachable, NotSent::Tls]);
    }

    #[test]
    fn sender_may_have_a_name_in_one_line() {
        let named = |text: &str| mailbox(text).map(|mailbox| (mailbox.name, mailbox.email.to_string()));
        let address = || "docket@example.com".to_owned();
        assert_eq!(named(" docket@example.com "), Some((None, address())));
        assert_eq!(named("<docket@example.com>"), Some((None, address())));
        let name = Some("Docket, of Acme".to_owned());
        assert_eq!(named("\"Docket, of Acme\" <docket@example.com>"), Some((name, address())));
        assert_eq!(
            named("A\r\nBcc: b <docket@example.com>"),
            Some((Some("A  Bcc: b".to_owned()), address()))
        );
        for wrong in ["docket@example.com>", "Docket <docket>", "Docket <a@b.example> c"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
    }
}
