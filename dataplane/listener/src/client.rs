//! The address of the client of a request, behind proxies. It serves to slow down guessing; it never chooses a tenant.

use std::net::{IpAddr, SocketAddrV4};

use http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;
use ppp::{HeaderResult, v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::head_limit::HEADER_TIME;
use crate::source::RequestSource;

/// The longest PROXY header of version 2 that is read, in bytes.
const MAX_PROXY_HEADER: usize = 4096;
/// The longest PROXY header of version 1 that is read, in bytes.
const MAX_PROXY_LINE: usize = 107;
/// How many bytes of the forwarded header are read, from its end.
const MAX_FORWARDED: usize = 4096;

/// The proxies that Docket trusts to name their client.
#[derive(Debug, Clone)]
pub struct Proxies {
    /// The networks of the proxies.
    pub trusted: Vec<IpNet>,
    /// The header in which the proxies name their client.
    pub header: HeaderName,
    /// Whether a connection begins with a PROXY header.
    pub proxy_protocol: bool,
}

impl Default for Proxies {
    /// No trusted proxy: the peer is the client.
    fn default() -> Self {
        Self {
            trusted: Vec::new(),
            header: HeaderName::from_static("x-forwarded-for"),
            proxy_protocol: false,
        }
    }
}

/// What is known about a connection's client without its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The address that connected.
    pub address: IpAddr,
    /// The client that the PROXY header names.
    pub proxied_for: Option<IpAddr>,
}

/// Why a connection's PROXY header was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// The peer is not a trusted proxy.
    #[error("the peer is not in --trusted-proxy")]
    NotTrusted,
    /// The PROXY header is absent, wrong or too long, or took too long.
    #[error("the connection does not begin with a PROXY header")]
    Invalid,
}

impl Proxies {
    /// Whether the address belongs to a trusted proxy.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }

    /// Reads the PROXY header of a new connection, if connections have one.
    pub async fn peer(
        &self,
        address: IpAddr,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<Peer, ProxyHeaderError> {
        let address = address.to_canonical();
        if !self.proxy_protocol {
            return Ok(Peer { address, proxied_for: None });
        }
        if !self.is_trusted(address) {
            return Err(ProxyHeaderError::NotTrusted);
        }
        let read = timeout(HEADER_TIME, read_proxy_header(stream));
        let proxied_for = read.await.ok().flatten().ok_or(ProxyHeaderError::Invalid)?;
        Ok(Peer { address, proxied_for: proxied_for.map(|address| address.to_canonical()) })
    }

    /// Where a request came from: the hop nearest to this process that is not a trusted proxy. A hop that is no address ends
    /// the search.
    pub fn source(&self, peer: Peer, headers: &HeaderMap) -> RequestSource {
        if self.proxy_protocol {
            // Its proxy does not look into requests, so their headers are the client's own.
            return peer.proxied_for.map_or(RequestSource::Proxy, RequestSource::Client);
        }
        if !self.is_trusted(peer.address) {
            return RequestSource::Client(peer.address);
        }
        let lines: Vec<&[u8]> = headers.get_all(&self.header).iter().map(|line| line.as_bytes()).collect();
        let lines = lines.join(&b',');
        let end = lines.len() - lines.len().min(MAX_FORWARDED);
        for hop in lines[end..].rsplit(|byte| *byte == b',') {
            let hop = str::from_utf8(hop).ok();
            let address = match self.header == header::FORWARDED {
                true => hop.and_then(forwarded_for),
                false => hop,
            };
            match address.and_then(hop_address) {
                None => break,
                Some(address) if self.is_trusted(address) => {}
                Some(address) => return RequestSource::Client(address),
            }
        }
        RequestSource::Proxy
    }
}

/// The `for` of one element of RFC 7239's `Forwarded`. An element that was cut at a comma within quotes has none.
fn forwarded_for(element: &str) -> Option<&str> {
    if element.matches('"').count() % 2 == 1 {
        return None;
    }
    let mut parameters = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    let value = value.trim();
    Some(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

/// Parses an address with or without a port. An IPv6 address may be in brackets.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    let address = match hop.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            let has_port = port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
            Some(address.parse().ok()?)
                .filter(|address: &IpAddr| address.is_ipv6() && (port.is_empty() || has_port))?
        }
        None => match hop.parse::<IpAddr>() {
            Ok(address) => address,
            Err(_) => (*hop.parse::<SocketAddrV4>().ok()?.ip()).into(),
        },
    };
    Some(address.to_canonical())
}

/// Reads a PROXY header and no byte more. `Some(None)`: the connection is the proxy's own, such as a health check.
/// `None`: there is no valid header.
async fn read_proxy_header(stream: &mut (impl AsyncRead + Unpin)) -> Option<Option<IpAddr>> {
    let mut bytes = vec![stream.read_u8().await.ok()?];
    if bytes[0] == v2::PROTOCOL_PREFIX[0] {
        bytes.resize(v2::PROTOCOL_PREFIX.len() + 4, 0);
        stream.read_exact(&mut bytes[1..]).await.ok()?;
        let [.., high, low] = bytes[..] else { return None };
        let (fixed, rest) = (bytes.len(), usize::from(u16::from_be_bytes([high, low])));
        bytes.resize(Some(fixed + rest).filter(|length| *length <= MAX_PROXY_HEADER)?, 0);
        stream.read_exact(&mut bytes[fixed..]).await.ok()?;
    } else {
        while !bytes.ends_with(b"\n") {
            if bytes.len() == MAX_PROXY_LINE {
                return None;
            }
            bytes.push(stream.read_u8().await.ok()?);
        }
    }
    proxied_for(&bytes)
}

fn proxied_for(header: &[u8]) -> Option<Option<IpAddr>> {
    match HeaderResult::parse(header) {
        HeaderResult::V1(header) => match header.ok()?.addresses {
            v1::Addresses::Unknown => Some(None),
            v1::Addresses::Tcp4(addresses) => Some(Some(addresses.source_address.into())),
            v1::Addresses::Tcp6(addresses) => Some(Some(addresses.source_address.into())),
        },
        HeaderResult::V2(header) => {
            let header = header.ok()?;
            match (header.command, header.addresses) {
                (v2::Command::Proxy, v2::Addresses::IPv4(addresses)) => {
                    Some(Some(addresses.source_address.into()))
                }
                (v2::Command::Proxy, v2::Addresses::IPv6(addresses)) => {
                    Some(Some(addresses.source_address.into()))
                }
                _ => Some(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;

    fn proxies(header: &'static str) -> Proxies {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network")).to_vec();
        Proxies { trusted, header: HeaderName::from_static(header), proxy_protocol: true }
    }

    fn source(header: &'static str, peer: &str, lines: &[&'static str]) -> String {
        let peer = Peer { address: peer.parse().expect("an address"), proxied_for: None };
        let lines =
            lines.iter().map(|line| (HeaderName::from_static(header), HeaderValue::from_static(line)));
        match (Proxies { proxy_protocol: false, ..proxies(header) }).source(peer, &lines.collect()) {
            RequestSource::Client(address) => address.to_string(),
            RequestSource::Proxy => "a proxy".to_owned(),
        }
    }

    #[test]
    fn header_of_a_peer_that_is_not_trusted_is_ignored() {
        assert_eq!(source("x-forwarded-for", "192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
    }

    #[test]
    fn client_is_the_rightmost_hop_that_is_not_trusted() {
        let source = |lines: &[&'static str]| source("x-forwarded-for", "10.0.0.1", lines);
        assert_eq!(source(&["198.51.100.7"]), "198.51.100.7");
        assert_eq!(source(&["1.2.3.4, 198.51.100.7, 10.9.9.9"]), "198.51.100.7");
        assert_eq!(source(&["1.2.3.4", "198.51.100.7,10.9.9.9", "fd00::1"]), "198.51.100.7");
        assert_eq!(source(&["198.51.100.7:4711"]), "198.51.100.7");
        assert_eq!(source(&["[2001:db8::7]:4711"]), "2001:db8::7");
        assert_eq!(source(&["2001:db8::7"]), "2001:db8::7");
        assert_eq!(source(&["::ffff:198.51.100.7"]), "198.51.100.7");
        assert_eq!(source(&["198.51.100.7, ::ffff:10.0.0.2"]), "198.51.100.7");
    }

    #[test]
    fn hop_that_is_no_address_ends_the_search() {
        for lines in
            [&["1.2.3.4, unknown"][..], &["1.2.3.4,"], &["1.2.3.4", "x y"], &["1.2.3.4, [10.0.0.1]"], &[]]
        {
            assert_eq!(source("x-forwarded-for", "10.0.0.1", lines), "a proxy", "{lines:?}");
        }
        assert_eq!(source("x-forwarded-for", "10.0.0.1", &["10.0.0.3"]), "a proxy");
    }

    #[test]
    fn client_cannot_hide_behind_bytes_of_its_own() {
        let line = HeaderValue::from_bytes(b"\xff, 198.51.100.7").expect("a value");
        let headers = [(HeaderName::from_static("x-forwarded-for"), line)].into_iter().collect();
        let peer = Peer { address: "10.0.0.1".parse().expect("an address"), proxied_for: None };
        let client = "198.51.100.7".parse().expect("an address");
        assert_eq!(
            Proxies { proxy_protocol: false, ..proxies("x-forwarded-for") }.source(peer, &headers),
            RequestSource::Client(client)
        );
    }

    #[test]
    fn header_says_nothing_where_the_proxy_does_not_look_into_requests() {
        let forged = [(HeaderName::from_static("x-forwarded-for"), HeaderValue::from_static("198.51.100.7"))];
        let headers = forged.into_iter().collect();
        let address = "10.0.0.1".parse().expect("an address");
        for (proxied_for, expected) in
            [(None, RequestSource::Proxy), (Some(address), RequestSource::Client(address))]
        {
            assert_eq!(proxies("x-forwarded-for").source(Peer { address, proxied_for }, &headers), expected);
        }
    }

    #[test]
    fn forwarded_of_rfc_7239_is_read() {
        let source = |line| source("forwarded", "10.0.0.1", &[line]);
        assert_eq!(source("for=198.51.100.7;proto=https, for=10.0.0.9"), "198.51.100.7");
        assert_eq!(source("proto=https;For=\"[2001:db8::7]:4711\""), "2001:db8::7");
        assert_eq!(source("for=198.51.100.7, for=_hidden"), "a proxy");
        assert_eq!(source("for=198.51.100.7;host=\"a,for=9.9.9.9;x=\""), "a proxy");
        assert_eq!(source("198.51.100.7"), "a proxy");
    }

    async fn peer(address: &str, mut bytes: &[u8]) -> (Result<Peer, ProxyHeaderError>, String) {
        let address = address.parse().expect("an address");
        let peer = proxies("x-forwarded-for").peer(address, &mut bytes).await;
        (peer, String::from_utf8_lossy(bytes).into_owned())
    }

    fn from(proxied_for: Option<&str>) -> Result<Peer, ProxyHeaderError> {
        let proxied_for = proxied_for.map(|address| address.parse().expect("an address"));
        Ok(Peer { address: "10.0.0.1".parse().expect("an address"), proxied_for })
    }

    fn second(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [v2::PROTOCOL_PREFIX, &[0x20 | command, family], &length, rest, b"GET /"].concat()
    }

    #[tokio::test]
    async fn proxy_header_names_the_client_and_the_request_follows() {
        let line = |line: &str| format!("{line}\r\nGET /");
        let tcp4 = line("PROXY TCP4 198.51.100.7 192.0.2.1 4711 443");
        assert_eq!(peer("10.0.0.1", tcp4.as_bytes()).await, (from(Some("198.51.100.7")), "GET /".into()));
        let tcp6 = line("PROXY TCP6 2001:db8::7 2001:db8::1 4711 443");
        assert_eq!(
            peer("::ffff:10.0.0.1", tcp6.as_bytes()).await,
            (from(Some("2001:db8::7")), "GET /".into())
        );
        let unknown = line("PROXY UNKNOWN");
        assert_eq!(peer("10.0.0.1", unknown.as_bytes()).await, (from(None), "GET /".into()));
        let addresses = [&[198, 51, 100, 7, 192, 0, 2, 1, 18, 103, 1, 187][..], &[4, 0, 1, 0]].concat();
        let proxy = second(1, 0x11, &addresses);
        assert_eq!(peer("10.0.0.1", &proxy).await, (from(Some("198.51.100.7")), "GET /".into()));
        for own in [second(0, 0x00, &[]), second(1, 0x31, &[0; 219])] {
            assert_eq!(peer("10.0.0.1", &own).await, (from(None), "GET /".into()));
        }
    }

    #[tokio::test]
    async fn connection_without_a_proxy_header_is_refused() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"",
            b"PROXY TCP4 198.51.100.7",
            b"PROXY TCP4 198.51.100.x 192.0.2.1 4711 443\r\n",
            &[b"PROXY ".as_slice(), &[b'x'; 9000]].concat(),
            &second(1, 0x11, &[1, 2, 3]),
            &second(5, 0x11, &[0; 12]),
            &second(1, 0x11, &[0; 60_000]),
            v2::PROTOCOL_PREFIX,
        ] {
            let (refused, _) = peer("10.0.0.1", bytes).await;
            assert_eq!(refused, Err(ProxyHeaderError::Invalid), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[tokio::test]
    async fn proxy_header_of_a_peer_that_is_not_trusted_is_refused() {
        let bytes = b"PROXY TCP4 198.51.100.7 192.0.2.1 4711 443\r\nGET /";
        let (refused, rest) = peer("192.0.2.9", bytes).await;
        assert_eq!(refused, Err(ProxyHeaderError::NotTrusted));
        assert_eq!(rest.len(), bytes.len());
    }

    #[tokio::test(start_paused = true)]
    async fn proxy_header_has_the_time_of_headers() {
        let (_client, mut server) = tokio::io::duplex(64);
        let begun = tokio::time::Instant::now();
        let address = "10.0.0.1".parse().expect("an address");
        let refused = proxies("x-forwarded-for").peer(address, &mut server).await;
        assert_eq!(refused, Err(ProxyHeaderError::Invalid));
        assert!(begun.elapsed() <= HEADER_TIME + Duration::from_millis(1));
    }
}
