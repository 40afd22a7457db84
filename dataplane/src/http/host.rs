//! The host of a request, and what it stands for. Forwarded headers are never read.

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

use super::error::ApiError;

/// The host in lower case, without port and trailing dot; `None` for an HTTP/1.0 request without a host.
pub fn host(parts: &Parts) -> Result<Option<String>, ApiError> {
    let mut sent = parts.headers.get_all(HOST).iter();
    let header = match (sent.next(), sent.next()) {
        (None, _) => None,
        (Some(value), None) => Some(parse(value.as_bytes())?),
        (Some(_), Some(_)) => return Err(ApiError::BadRequest("Send one Host header")),
    };
    match (parts.uri.authority(), header) {
        (Some(authority), Some(header)) if parse(authority.as_str().as_bytes())? != header => {
            Err(ApiError::BadRequest("The request line and the Host header name different hosts"))
        }
        (Some(authority), _) => parse(authority.as_str().as_bytes()).map(Some),
        (None, Some(header)) => Ok(Some(header)),
        (None, None) if parts.version >= http::Version::HTTP_11 => {
            Err(ApiError::BadRequest("Send a Host header"))
        }
        (None, None) => Ok(None),
    }
}

/// The port that a request names after its host.
pub fn port(parts: &Parts) -> Option<u16> {
    let sent = parts.headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    parts.uri.authority().cloned().or(sent)?.port_u16()
}

fn parse(host: &[u8]) -> Result<String, ApiError> {
    const WRONG: ApiError = ApiError::BadRequest("The Host header is not a host name");
    let authority = Authority::try_from(host).map_err(|_| WRONG)?;
    let text = authority.as_str();
    let after_host = text.strip_prefix(authority.host()).ok_or(WRONG)?;
    let port_is_right = match after_host.strip_prefix(':') {
        None => after_host.is_empty(),
        Some(port) => port.is_empty() || port.parse::<u16>().is_ok(),
    };
    let name = authority.host();
    let name = name.strip_suffix('.').unwrap_or(name);
    if !port_is_right || name.is_empty() || name.contains('%') {
        return Err(WRONG);
    }
    Ok(name.to_ascii_lowercase())
}

/// The hosts of the service, in lower case, without port or trailing dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// `{base_url}`; its subdomains are the tenants'.
    pub base_domain: String,
    /// `{legacy_base_url}`, if the older API is served.
    pub legacy: Option<String>,
}

/// What a request's host stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKind {
    /// The base host or an unknown one: only an API key identifies the tenant.
    Base,
    /// A subdomain of the base domain, with this label.
    Subdomain(String),
    /// The host of the older API.
    Legacy,
}

impl Hosts {
    /// What `host` stands for. Names are compared whole: `evilapi.example` is not below `api.example`.
    pub fn kind(&self, host: &str) -> HostKind {
        if self.legacy.as_deref() == Some(host) {
            return HostKind::Legacy;
        }
        match host.strip_suffix(&self.base_domain).and_then(|rest| rest.strip_suffix('.')) {
            Some(label) if !label.is_empty() => HostKind::Subdomain(label.to_owned()),
            _ => HostKind::Base,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uri: &str, hosts: &[&[u8]]) -> Option<Option<String>> {
        let mut request = http::Request::builder().uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        host(&request.body(()).expect("a request").into_parts().0).ok()
    }

    #[test]
    fn host_is_the_name_without_port_case_and_dot() {
        for sent in ["acme.localhost", "ACME.localhost:8080", "acme.localhost.", "acme.LocalHost.:1"] {
            assert_eq!(of("/", &[sent.as_bytes()]), Some(Some("acme.localhost".into())), "{sent}");
        }
        assert_eq!(of("/", &[b"[::1]:8080"]), Some(Some("[::1]".into())));
    }

    #[test]
    fn port_is_what_follows_the_host() {
        for (uri, sent, expected) in [
            ("/", "acme.localhost:8080", Some(8080)),
            ("/", "[::1]:81", Some(81)),
            ("/", "acme.localhost", None),
            ("http://acme.localhost:82/", "acme.localhost:82", Some(82)),
        ] {
            let request = http::Request::builder().uri(uri).header(HOST, sent).body(()).expect("a request");
            assert_eq!(port(&request.into_parts().0), expected, "{uri} {sent}");
        }
    }

    #[test]
    fn malformed_hosts_are_refused() {
        for sent in [
            &b""[..],
            b"a b",
            b"user@acme.localhost",
            b"acme.localhost:x",
            b"acme:99999",
            b"a%2eb",
            b"acme.localhost/x",
            "\u{e4}.localhost".as_bytes(),
        ] {
            assert_eq!(of("/", &[sent]), None, "{}", String::from_utf8_lossy(sent));
        }
        assert_eq!(of("/", &[b"a", b"a"]), None);
        assert_eq!(of("/", &[b"a", b"b"]), None);
        assert_eq!(of("/", &[]), None);
    }

    #[test]
    fn request_line_and_host_header_must_agree() {
        assert_eq!(of("http://a.localhost/", &[b"a.localhost"]), Some(Some("a.localhost".into())));
        assert_eq!(of("http://a.localhost/", &[b"b.localhost"]), None);
    }

    #[test]
    fn host_kind_compares_whole_names() {
        let hosts = Hosts { base_domain: "api.example".into(), legacy: Some("old.api.example".into()) };
        assert_eq!(hosts.kind("api.example"), HostKind::Base);
        assert_eq!(hosts.kind("acme.api.example"), HostKind::Subdomain("acme".into()));
        assert_eq!(hosts.kind("a.b.api.example"), HostKind::Subdomain("a.b".into()));
        assert_eq!(hosts.kind("old.api.example"), HostKind::Legacy);
        assert_eq!(hosts.kind("evilapi.example"), HostKind::Base);
        assert_eq!(hosts.kind("api.example.evil"), HostKind::Base);
        assert_eq!(hosts.kind(".api.example"), HostKind::Base);
    }
}
