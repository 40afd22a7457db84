//! Who a client is, and which host it asks for: PROXY headers, the headers of proxies, and Host.
//!
//! The first line of the input is a Host header, the second one of a proxy; the rest is what a connection begins with.

use std::net::IpAddr;

use docket::http::host::{HostKind, Hosts, host};
use docket_listener::client::{Peer, Proxies};
use docket_listener::source::RequestSource;
use http::header::{FORWARDED, HOST, HeaderName};
use http::{HeaderMap, HeaderValue, Request};

use super::block_on;

const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
/// The longest PROXY header that is read.
const LONGEST: usize = 4096;

pub(crate) fn run(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let (first, second, rest) = (lines.next(), lines.next(), lines.next());
    first.into_iter().for_each(check_host);
    second.into_iter().for_each(check_forwarded);
    rest.into_iter().for_each(check_proxy_header);
}

fn proxies(header: HeaderName, proxy_protocol: bool) -> Proxies {
    let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network")).to_vec();
    Proxies { trusted, header, proxy_protocol }
}

fn check_host(sent: &[u8]) {
    let Some(read) = host_of(sent) else { return };
    assert!(
        !read.is_empty() && read.is_ascii() && !read.bytes().any(|byte| byte.is_ascii_uppercase()),
        "{read}"
    );
    let hosts = Hosts { base_domain: "api.example".into(), legacy: Some("old.api.example".into()) };
    match hosts.kind(&read) {
        HostKind::Legacy => assert_eq!(read, "old.api.example"),
        HostKind::Subdomain(label) => assert_eq!(format!("{label}.api.example"), read),
        HostKind::Base => assert!(!read.ends_with(".api.example") || read == ".api.example", "{read}"),
    }
}

fn host_of(sent: &[u8]) -> Option<String> {
    let value = HeaderValue::from_bytes(sent).ok()?;
    let request = Request::builder().uri("/").header(HOST, value).body(()).expect("a request");
    host(&request.into_parts().0).ok().map(|host| host.expect("a header was sent"))
}

/// A client that is no proxy can't say that it is another one; a proxy can't name a proxy.
fn check_forwarded(sent: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(sent) else { return };
    for header in [FORWARDED, HeaderName::from_static("x-forwarded-for")] {
        let proxies = proxies(header.clone(), false);
        let headers = HeaderMap::from_iter([(header, value.clone())]);
        let source = |address| proxies.source(Peer { address, proxied_for: None }, &headers);
        assert_eq!(source(STRANGER), RequestSource::Client(STRANGER));
        if let RequestSource::Client(address) = source(PROXY) {
            assert!(!proxies.is_trusted(address) && address == address.to_canonical(), "{address}");
        }
    }
}

fn check_proxy_header(sent: &[u8]) {
    let proxies = proxies(FORWARDED, true);
    let mut rest = sent;
    assert!(block_on(proxies.peer(STRANGER, &mut rest)).is_err() && rest == sent);
    let read = block_on(proxies.peer(PROXY, &mut rest));
    assert!(sent.len() - rest.len() <= LONGEST && sent.ends_with(rest));
    if let Ok(peer) = read {
        assert_eq!(peer.address, PROXY);
        assert!(peer.proxied_for.is_none_or(|address| address == address.to_canonical()));
        // What follows the header is the client's and is not part of what the proxy says.
        let mut alone = &sent[..sent.len() - rest.len()];
        assert_eq!(block_on(proxies.peer(PROXY, &mut alone)), Ok(peer));
    }
}
