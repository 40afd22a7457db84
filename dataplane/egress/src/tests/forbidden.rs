//! Addresses that must not be reached.

use std::net::IpAddr;
use std::sync::Arc;

use docket_domain::delivery::FailureClass;

use super::harness::{AMPLE, LOOPBACK, Receiver, failed, post, private_ca, succeeded};
use crate::{EgressPolicy, FixedDns, Sender};

#[tokio::test]
async fn forbidden_target_gets_no_packet() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("nonblocking");
    let port = listener.local_addr().expect("an address").port();
    let public = IpAddr::from([8, 8, 8, 8]);
    let dns = FixedDns::new()
        .answer("internal.test", [LOOPBACK])
        .answer("mixed.test", [LOOPBACK, public])
        .answer("mixed6.test", [public, "::1".parse().expect("an address")])
        .answer("mapped.test", ["::ffff:127.0.0.1".parse().expect("an address")]);
    let sender = Sender::new(EgressPolicy::default(), dns, AMPLE);
    for host in [
        "127.0.0.1",
        "0.0.0.0",
        "0177.1",
        "2130706433",
        "0x7f.1",
        "１２７.０.０.１",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "internal.test",
        "mixed.test",
        "mixed6.test",
        "mapped.test",
    ] {
        let url = format!("https://{host}:{port}/").parse().expect("a url");
        let report = failed(post(&sender, &url, &private_ca(), AMPLE).await, FailureClass::BlockedAddress);
        assert!(report.remote.is_none() && report.times.connect.is_none(), "{host}");
    }
    let accepted = listener.accept().map(|_| ());
    assert_eq!(accepted.expect_err("no connection").kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn name_that_rebinds_to_a_forbidden_address_is_refused() {
    let receiver =
        Receiver::answering("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
    let dns =
        FixedDns::new().answer("receiver.test", [LOOPBACK]).answer("receiver.test", [[127, 0, 0, 2].into()]);
    let dns = Arc::new(dns);
    let sender = Sender::new(EgressPolicy::new(vec![], vec![receiver.address]), dns.clone(), AMPLE);
    succeeded(post(&sender, &receiver.url(), &private_ca(), AMPLE).await);
    failed(post(&sender, &receiver.url(), &private_ca(), AMPLE).await, FailureClass::BlockedAddress);
    assert_eq!((dns.lookups(), receiver.connections()), (2, 1));
}
