//! The URL of an SMTP server.
//!
//! | | |
//! |---|---|
//! | `smtps://[user:password@]host[:port]` | TLS from the first byte; port 465 by default |
//! | `smtp://[user:password@]host[:port]` | TLS by STARTTLS, without which nothing is sent; port 587 by default |
//! | `smtp://[user:password@]localhost[:port]` | a relay on the same machine, without TLS; port 25 by default |
//!
//! A user or password that contains one of `@:/?#%` is percent-encoded.

use std::fmt;
use std::net::IpAddr;

use ::url::Url;

/// The location of an SMTP server and its credentials, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct SmtpUrl {
    pub(crate) url: Url,
    /// The server's name or IPv4 address.
    pub host: String,
    /// How the connection is encrypted.
    pub encryption: Encryption,
}

/// How the connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// The connection is TLS from the first byte.
    Tls,
    /// By STARTTLS. Without it, nothing is sent.
    StartTls,
    /// The connection is not encrypted: the server is on the same machine.
    None,
}

/// The text is no URL of an SMTP server. The messages do not quote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WrongSmtpUrl {
    /// Another kind of URL.
    #[error(
        "must be a URL of SMTP, such as smtps://user:password@mail.example.com or smtp://mail.example.com:587"
    )]
    Scheme,
    /// There is no host, or it is an IPv6 address.
    #[error("must name the host by a name or an IPv4 address, such as smtps://mail.example.com")]
    Host,
    /// There is a path, a query or a fragment.
    #[error(
        "must end after the host and the port; encode / ? # % @ : in the user and the password as %2F %3F %23 %25 %40 %3A"
    )]
    More,
    /// There is a user without a password, or a password without a user.
    #[error("must have both a user and a password, or neither")]
    Credentials,
}

impl SmtpUrl {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// The text is not such a URL.
    pub fn parse(text: &str) -> Result<Self, WrongSmtpUrl> {
        let mut url = Url::parse(text.trim()).map_err(|_| WrongSmtpUrl::Scheme)?;
        let is_tls = match url.scheme() {
            "smtps" => true,
            "smtp" => false,
            _ => return Err(WrongSmtpUrl::Scheme),
        };
        let host = url.host_str().filter(|host| !host.is_empty() && !host.starts_with('['));
        let host = host.ok_or(WrongSmtpUrl::Host)?.to_owned();
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(WrongSmtpUrl::More);
        }
        if url.username().is_empty() != url.password().is_none_or(str::is_empty) {
            return Err(WrongSmtpUrl::Credentials);
        }
        let encryption = match is_tls {
            true => Encryption::Tls,
            false if is_loopback(&host) => Encryption::None,
            false => Encryption::StartTls,
        };
        url.set_path("");
        // What the client reads: without it, it would send in the clear.
        url.set_query((encryption == Encryption::StartTls).then_some("tls=required"));
        Ok(Self { url, host, encryption })
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, encryption, .. } = self;
        f.debug_struct("SmtpUrl").field("host", host).field("encryption", encryption).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encryption(text: &str) -> Encryption {
        SmtpUrl::parse(text).expect("a URL").encryption
    }

    #[test]
    fn connection_that_leaves_the_machine_is_encrypted() {
        assert_eq!(encryption("smtps://mail.example.com"), Encryption::Tls);
        assert_eq!(encryption("smtps://localhost"), Encryption::Tls);
        for far in [
            "smtp://mail.example.com",
            "smtp://a:b@10.0.0.1:25\n",
            "smtp://localhost.example",
            "smtp://0.0.0.0",
        ] {
            assert_eq!(encryption(far), Encryption::StartTls, "{far}");
            let url = SmtpUrl::parse(far).expect("a URL").url;
            assert_eq!(url.query(), Some("tls=required"), "{far}");
        }
        for near in ["smtp://localhost", "smtp://LOCALHOST:2525", "smtp://a:b@127.0.0.1:25/"] {
            assert_eq!(encryption(near), Encryption::None, "{near}");
        }
    }

    #[test]
    fn wrong_url_is_refused_without_quoting_it() {
        for (text, error) in [
            ("", WrongSmtpUrl::Scheme),
            ("mail.example.com:587", WrongSmtpUrl::Scheme),
            ("https://mail.example.com", WrongSmtpUrl::Scheme),
            ("smtp://", WrongSmtpUrl::Host),
            ("smtp:mail.example.com", WrongSmtpUrl::Host),
            ("smtp://[::1]:25", WrongSmtpUrl::Host),
            ("smtp://mail.example.com/relay", WrongSmtpUrl::More),
            ("smtp://mail.example.com?tls=opportunistic", WrongSmtpUrl::More),
            ("smtp://user@mail.example.com", WrongSmtpUrl::Credentials),
            ("smtp://:hunter2@mail.example.com", WrongSmtpUrl::Credentials),
        ] {
            let refused = SmtpUrl::parse(text).expect_err(text);
            assert_eq!(refused, error, "{text}");
            assert!(!refused.to_string().contains("hunter2"));
        }
        let url = SmtpUrl::parse("smtp://user:hunter2@mail.example.com").expect("a URL");
        assert!(!format!("{url:?}").contains("hunter2"));
    }
}
