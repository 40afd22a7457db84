//! Receivers that can't be reached, and receivers with one address that can't be reached.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use docket_domain::delivery::FailureClass;
use tokio::net::TcpSocket;

use super::harness::{AMPLE, LOOPBACK, OK, Receiver, SHORT, failed, post, private_ca, succeeded};
use crate::{EgressPolicy, FixedDns, Sender};

#[tokio::test]
async fn closed_port_is_refused() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    drop(socket);
    let sender = Sender::new(EgressPolicy::new(vec![], vec![address]), FixedDns::new(), AMPLE);
    let url = format!("https://{address}/").parse().expect("a url");
    let report = failed(post(&sender, &url, &private_ca(), AMPLE).await, FailureClass::Refused);
    assert!(report.times.total < AMPLE / 10, "{report:?}");
    assert!(report.remote.is_none() && report.times.connect.is_none() && report.times.tls.is_none());
}

/// A socket that listens, but silently drops further connections because its queue is full.
fn deaf(address: SocketAddr) -> (SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(address).expect("a port");
    let listener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let fill = |_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let full: Vec<_> = (0..4).map(fill).collect();
    (address, (listener, full))
}

#[tokio::test]
async fn full_accept_queue_is_a_connect_timeout() {
    let (address, _deaf) = deaf(SocketAddr::new(LOOPBACK, 0));
    let sender = Sender::new(EgressPolicy::new(vec![], vec![address]), FixedDns::new(), SHORT);
    let url = format!("https://{address}/").parse().expect("a url");
    failed(post(&sender, &url, &private_ca(), SHORT / 3).await, FailureClass::TimeoutConnect);
}

#[tokio::test]
async fn silent_address_leaves_time_for_the_next_one() {
    let receiver = Receiver::answering(OK).await;
    let (silent, _deaf) = deaf(SocketAddr::new([127, 0, 0, 2].into(), receiver.address.port()));
    let dns = FixedDns::new().answer("receiver.test", [silent.ip(), LOOPBACK]);
    let sender = Sender::new(EgressPolicy::new(vec![], vec![silent, receiver.address]), dns, SHORT);
    let report = succeeded(post(&sender, &receiver.url(), &private_ca(), SHORT).await);
    assert_eq!(report.remote, Some(receiver.address));
}

#[tokio::test]
async fn next_address_is_tried_without_a_second_lookup() {
    let receiver = Receiver::answering(OK).await;
    let port = receiver.address.port();
    let dead = IpAddr::from([127, 0, 0, 2]);
    let dns = Arc::new(FixedDns::new().answer("receiver.test", [dead, LOOPBACK]));
    let policy = EgressPolicy::new(vec![], vec![SocketAddr::new(dead, port), receiver.address]);
    let sender = Sender::new(policy, dns.clone(), AMPLE);
    let report = succeeded(post(&sender, &receiver.url(), &private_ca(), AMPLE).await);
    assert_eq!(report.remote, Some(receiver.address));
    assert_eq!(dns.lookups(), 1);
}

#[tokio::test]
async fn last_of_many_addresses_is_reached_although_the_others_refuse_or_are_silent() {
    let receiver = Receiver::answering(OK).await;
    let port = receiver.address.port();
    let refuses = (2..=20).map(|last| IpAddr::from([127, 0, 0, last]));
    let (silent, deaf): (Vec<_>, Vec<_>) =
        (21..=26).map(|last| deaf(SocketAddr::new([127, 0, 0, last].into(), port))).unzip();
    let addresses = refuses.chain(silent.iter().map(SocketAddr::ip)).chain([LOOPBACK]);
    let dns = FixedDns::new().answer("receiver.test", addresses);
    let network = "127.0.0.0/8".parse().expect("a network");
    let sender = Sender::new(EgressPolicy::new(vec![network], vec![]), dns, AMPLE);
    let report = succeeded(post(&sender, &receiver.url(), &private_ca(), AMPLE).await);
    assert_eq!(report.remote, Some(receiver.address));
    assert!(report.times.connect < Some(Duration::from_secs(3)), "{report:?}");
    assert_eq!(receiver.connections(), 1);
    drop(deaf);
}

#[tokio::test]
async fn attempts_begin_with_another_address_each_time() {
    let receiver = Receiver::answering(OK).await;
    let hangs = Receiver::tcp_at(
        SocketAddr::new([127, 0, 0, 2].into(), receiver.address.port()),
        |mut talk| async move {
            talk.silence().await;
        },
    );
    let hangs = hangs.await;
    let dns = FixedDns::new().answer("receiver.test", [hangs.address.ip(), LOOPBACK]);
    let sender = Sender::new(EgressPolicy::new(vec![], vec![hangs.address, receiver.address]), dns, SHORT);
    failed(post(&sender, &receiver.url(), &private_ca(), SHORT).await, FailureClass::TimeoutTls);
    let report = succeeded(post(&sender, &receiver.url(), &private_ca(), SHORT).await);
    assert_eq!(report.remote, Some(receiver.address));
}

#[tokio::test]
async fn localhost_is_reached_at_either_address() {
    let receiver = Receiver::tcp_at("[::1]:0".parse().expect("a socket"), |mut talk| async move {
        talk.silence().await;
    });
    let receiver = receiver.await;
    let port = receiver.address.port();
    let url = format!("https://localhost:{port}/").parse().expect("a url");
    let both = vec![SocketAddr::new(LOOPBACK, port), receiver.address];
    for (allowed, class, connections) in [
        (both, FailureClass::TimeoutTls, 1),
        (vec![receiver.address], FailureClass::TimeoutTls, 2),
        (vec![SocketAddr::new(LOOPBACK, port)], FailureClass::Refused, 2),
        (vec![], FailureClass::BlockedAddress, 2),
    ] {
        let sender = Sender::new(EgressPolicy::new(vec![], allowed), crate::SystemDns::new(), SHORT);
        failed(post(&sender, &url, &private_ca(), SHORT).await, class);
        assert_eq!(receiver.connections(), connections, "{class}");
    }
}
