//! The cookie of a session: it has the token of the API.

use std::net::SocketAddr;

use docket_domain::token::LONGEST_SESSION;
use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use crate::http::error::ApiError;

/// The kind of the session's cookie. No header of a request decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cookies {
    /// `__Host-docket`: browsers send it over HTTPS only, or over HTTP to their own machine.
    Secure,
    /// `docket`, for plain HTTP on this machine.
    Plain,
}

impl Cookies {
    /// The kind for `docket dev`, which listens here.
    pub fn of_dev(listen: SocketAddr) -> Self {
        if listen.ip().is_loopback() { Self::Plain } else { Self::Secure }
    }

    /// The kind that the router was made with.
    pub(super) fn of(parts: &Parts) -> Result<Self, ApiError> {
        parts.extensions.get().copied().ok_or(ApiError::Internal)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Secure => "__Host-docket",
            Self::Plain => "docket",
        }
    }

    /// `Set-Cookie` for a session's token. Browsers keep it longer than the token is valid, so that a page can say that the session
    /// has ended.
    pub(super) fn set(self, token: &str) -> Result<HeaderValue, ApiError> {
        self.header(token, LONGEST_SESSION.as_secs())
    }

    /// `Set-Cookie` that makes the browser forget the token.
    pub(super) fn forget(self) -> Result<HeaderValue, ApiError> {
        self.header("", 0)
    }

    fn header(self, token: &str, seconds: u64) -> Result<HeaderValue, ApiError> {
        let secure = match self {
            Self::Secure => "; Secure",
            Self::Plain => "",
        };
        let name = self.name();
        let text = format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        let mut value = HeaderValue::try_from(text).map_err(|_| ApiError::Internal)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The token in a request's cookie. Two cookies of the name count as none: a host above this one may have set the other.
    pub(super) fn token(self, headers: &HeaderMap) -> Option<&str> {
        let sent = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = sent.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut tokens = pairs.filter(|(name, _)| *name == self.name()).map(|(_, token)| token);
        let first = tokens.next();
        first.filter(|_| tokens.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_of_the_name_counts_only_if_it_is_the_only_one() {
        let token = |sent: &[&str]| {
            let mut headers = HeaderMap::new();
            for text in sent {
                headers.append(COOKIE, HeaderValue::from_str(text).expect("ASCII"));
            }
            Cookies::Secure.token(&headers).map(str::to_owned)
        };
        assert_eq!(token(&["a=1; __Host-docket=t; docket=u"]), Some("t".to_owned()));
        assert_eq!(token(&["docket=u"]), None);
        assert_eq!(token(&["__Host-docket=t; __Host-docket=u"]), None);
        assert_eq!(token(&["__Host-docket=t", "__Host-docket=u"]), None);
    }
}
