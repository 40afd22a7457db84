//! The classes of failed attempts, and the class of each HTTP status.

docket_crds::words! {
    /// Why an attempt failed. The client that made the attempt sets the class; error texts are never matched.
    pub enum FailureClass {
        /// The name does not resolve.
        Dns,
        /// The connection could not be made (unreachable, reset).
        Connect,
        /// The port is closed.
        Refused,
        /// The address is private, link-local, metadata or otherwise forbidden.
        BlockedAddress,
        /// The receiver's certificate is not trusted, or not for this name.
        TlsUntrusted,
        /// The TLS handshake failed for another reason.
        TlsOther,
        /// The time limit was reached while looking up the name.
        TimeoutDns,
        /// The time limit was reached while opening the connection.
        TimeoutConnect,
        /// The time limit was reached in the TLS handshake.
        TimeoutTls,
        /// The time limit was reached while sending the request or waiting for the headers of the response.
        TimeoutFirstByte,
        /// The status was not 2xx and the time limit was reached while reading the body.
        BodyTimeout,
        /// After the request was sent, the connection broke.
        Transport,
        /// The receiver's response breaks a rule of HTTP/1.1.
        NotHttp,
        /// 3xx except 304: Docket does not follow redirects.
        Redirect,
        /// 4xx and 304, and 1xx as a final response.
        ClientError,
        /// 5xx and above.
        ServerError,
        /// The worker that made the attempt died, or lost its lease, before it stored the outcome.
        WorkerLost,
        /// The webhook was not declared for longer than its grace, so there is no receiver.
        WebhookGone,
        /// The stored event is longer than [`LONGEST_ENVELOPE`](crate::event::LONGEST_ENVELOPE), so another program wrote it.
        EventTooLong,
        /// The stored event has no id or code that a header can contain, or does not exist any more: another program changed it.
        EventIdInvalid;
        /// A class of a newer version of Docket, which has stored it: its word. This version makes no such failure.
        else Unknown
    }
}

/// The failure class of an HTTP status; `None` for 2xx, the only success (Delivery mechanics, 4). 304 is a client
/// error, not a redirect: it says that a copy of a page is current.
pub fn class_of_status(status: u16) -> Option<FailureClass> {
    match status {
        200..=299 => None,
        304 => Some(FailureClass::ClientError),
        300..=399 => Some(FailureClass::Redirect),
        ..=499 => Some(FailureClass::ClientError),
        500.. => Some(FailureClass::ServerError),
    }
}

#[cfg(test)]
mod tests {
    use docket_crds::UnknownWord;

    use super::*;

    #[test]
    fn only_2xx_succeeds() {
        assert!((200..=299).all(|status| class_of_status(status).is_none()));
        assert_eq!(class_of_status(199), Some(FailureClass::ClientError));
        assert_eq!(class_of_status(302), Some(FailureClass::Redirect));
        assert_eq!(class_of_status(304), Some(FailureClass::ClientError));
        assert_eq!(class_of_status(404), Some(FailureClass::ClientError));
        assert_eq!(class_of_status(500), Some(FailureClass::ServerError));
        assert_eq!(class_of_status(999), Some(FailureClass::ServerError));
    }

    #[test]
    fn classes_parse_from_their_words() {
        for class in FailureClass::ALL {
            assert_eq!(class.as_str().parse(), Ok(class));
        }
        assert_eq!("dns".parse::<FailureClass>(), Err(UnknownWord(&FailureClass::WORDS)));
        assert_eq!(FailureClass::stored("TimeoutDns"), FailureClass::TimeoutDns);
        assert_eq!(FailureClass::stored("OfANewerVersion").to_string(), "OfANewerVersion");
    }
}
