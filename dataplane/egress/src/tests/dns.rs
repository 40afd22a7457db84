//! Name lookups against a name server on a real socket that drops, delays or refuses one of the families.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use docket_domain::delivery::FailureClass;
use hickory_resolver::Hosts;

use super::harness::{AMPLE, LOOPBACK, OK, Receiver, failed, post, private_ca, succeeded};
use crate::resolve::{Resolve, ResolveError, Resolved, SystemDns};
use crate::{EgressPolicy, Sender};

const A: u16 = 1;
const AAAA: u16 = 28;

/// What the name server does with a question.
#[derive(Clone)]
enum Reply {
    Addresses(Vec<IpAddr>),
    Code(u8),
    Silent,
    Late(Duration, Vec<IpAddr>),
    /// Over UDP an answer with the truncated bit and no record, over TCP these addresses.
    Truncated(Vec<IpAddr>),
}
use Reply::{Addresses, Code, Late, Silent, Truncated};

const SERVFAIL: Reply = Code(2);
const NXDOMAIN: Reply = Code(3);
const NOT_IMPLEMENTED: Reply = Code(4);
const REFUSED: Reply = Code(5);

/// A name server that knows some names. All other names do not exist.
struct NameServer {
    port: u16,
    questions: Arc<Mutex<Vec<(String, u16)>>>,
}

impl NameServer {
    fn new(zone: impl IntoIterator<Item = ((&'static str, u16), Reply)>) -> Self {
        let zone: BTreeMap<(&str, u16), Reply> = zone.into_iter().collect();
        let zone = Arc::new(zone);
        // UDP and TCP need the same port, and another process may have it for one of the two.
        let both = (0..100).find_map(|_| {
            let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
            let tcp = TcpListener::bind(udp.local_addr().expect("an address")).ok()?;
            Some((Arc::new(udp), tcp))
        });
        let (udp, tcp) = both.expect("the same port");
        let port = udp.local_addr().expect("an address").port();
        let questions = Arc::new(Mutex::new(Vec::new()));
        let seen = questions.clone();
        let known = zone.clone();
        thread::spawn(move || {
            let mut query = [0; 1500];
            while let Ok((length, from)) = udp.recv_from(&mut query) {
                let query = query[..length].to_vec();
                let (name, family) = question(&query);
                let reply = known.get(&(name.as_str(), family)).cloned().unwrap_or(NXDOMAIN);
                seen.lock().expect("a lock").push((name, family));
                let udp = udp.clone();
                thread::spawn(move || {
                    let answer = match &reply {
                        Silent => return,
                        Late(after, found) => {
                            thread::sleep(*after);
                            answer(&query, found, 0, false)
                        }
                        Addresses(found) => answer(&query, found, 0, false),
                        Code(code) => answer(&query, &[], *code, false),
                        Truncated(_) => answer(&query, &[], 0, true),
                    };
                    udp.send_to(&answer, from).expect("a datagram");
                });
            }
        });
        thread::spawn(move || {
            use std::io::{Read, Write};
            while let Ok((mut stream, _)) = tcp.accept() {
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut query).expect("a query");
                    let (name, family) = question(&query);
                    let Some(Truncated(found)) = zone.get(&(name.as_str(), family)) else { return };
                    let answer = answer(&query, found, 0, false);
                    let length = u16::try_from(answer.len()).expect("short").to_be_bytes();
                    stream.write_all(&[&length[..], &answer].concat()).expect("an answer");
                }
            }
        });
        Self { port, questions }
    }

    fn dns(&self, options: &str) -> SystemDns {
        self.dns_with(options, "")
    }

    fn dns_with(&self, options: &str, hosts: &str) -> SystemDns {
        let mut known = Hosts::default();
        known.read_hosts_conf(hosts.as_bytes()).expect("a hosts file");
        let port = self.port;
        let file = format!("nameserver 127.0.0.1\n{options}\n");
        SystemDns::with(file.as_bytes(), known, |server| {
            for connection in &mut server.connections {
                connection.port = port;
            }
        })
    }

    fn questions_for(&self, family: u16) -> usize {
        self.questions.lock().expect("a lock").iter().filter(|(_, asked)| *asked == family).count()
    }
}

/// The name and the type in the only question of a query.
fn question(query: &[u8]) -> (String, u16) {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..=at + length]).into_owned());
        at += 1 + length;
    }
    (labels.join("."), u16::from_be_bytes([query[at + 1], query[at + 2]]))
}

fn answer(query: &[u8], found: &[IpAddr], code: u8, truncated: bool) -> Vec<u8> {
    let question_end = 12 + query[12..].iter().position(|byte| *byte == 0).expect("a root label") + 5;
    let count = u16::try_from(found.len()).expect("few").to_be_bytes();
    let flags = [0x81 | u8::from(truncated) << 1, 0x80 | code];
    let mut message = [&query[..2], &flags, &[0, 1], &count, &[0, 0, 0, 0]].concat();
    message.extend_from_slice(&query[12..question_end]);
    for address in found {
        let (family, data) = match address {
            IpAddr::V4(ip) => (A, ip.octets().to_vec()),
            IpAddr::V6(ip) => (AAAA, ip.octets().to_vec()),
        };
        message.extend_from_slice(&[0xc0, 12]);
        message.extend_from_slice(&family.to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
        message.extend_from_slice(&u16::try_from(data.len()).expect("short").to_be_bytes());
        message.extend(data);
    }
    message
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn v4() -> Vec<IpAddr> {
    vec![ip("93.184.216.34")]
}

fn v6() -> Vec<IpAddr> {
    vec![ip("2606:2800:220:1::1")]
}

async fn found(dns: &SystemDns, name: &str) -> (Result<Vec<IpAddr>, ResolveError>, Duration) {
    let started = Instant::now();
    let found = dns.lookup(name).await.map(|Resolved { mut addresses, .. }| {
        addresses.sort_unstable();
        addresses
    });
    (found, started.elapsed())
}

/// Whether a lookup took at least 50 ms and clearly less than a query's timeout.
fn waited_shortly(took: Duration) -> bool {
    (Duration::from_millis(50)..Duration::from_millis(900)).contains(&took)
}

#[tokio::test]
async fn one_family_is_used_50_ms_after_it_came_although_the_other_is_silent() {
    let late = Late(Duration::from_secs(4), v6());
    for (a, aaaa, expected) in
        [(Addresses(v4()), Silent, v4()), (Silent, Addresses(v6()), v6()), (Addresses(v4()), late, v4())]
    {
        let server = NameServer::new([(("hooks.test", A), a), (("hooks.test", AAAA), aaaa)]);
        let (addresses, took) = found(&server.dns(""), "hooks.test").await;
        assert_eq!(addresses, Ok(expected));
        assert!(waited_shortly(took), "{took:?}");
    }
}

#[tokio::test]
async fn both_families_count_if_they_come_within_50_ms() {
    let soon = |found| Late(Duration::from_millis(15), found);
    for (a, aaaa) in [(soon(v4()), Addresses(v6())), (Addresses(v4()), soon(v6()))] {
        let server = NameServer::new([(("hooks.test", A), a), (("hooks.test", AAAA), aaaa)]);
        assert_eq!(found(&server.dns(""), "hooks.test").await.0, Ok([v4(), v6()].concat()));
    }
}

#[tokio::test]
async fn late_family_comes_after_the_first_one() {
    let late = Late(Duration::from_millis(200), v4());
    let server = NameServer::new([(("hooks.test", A), late), (("hooks.test", AAAA), Addresses(v6()))]);
    let answer = server.dns("").lookup("hooks.test").await.expect("an address");
    assert_eq!(answer.addresses, v6());
    assert_eq!(answer.late.expect("it is under way").await, v4());
}

#[tokio::test]
async fn one_family_that_fails_does_not_fail_the_other() {
    for wrong in [SERVFAIL, NXDOMAIN, NOT_IMPLEMENTED, REFUSED, Addresses(Vec::new()), Truncated(Vec::new())]
    {
        let late = |found| Late(Duration::from_millis(120), found);
        for (a, aaaa, expected) in [
            (Addresses(v4()), wrong.clone(), v4()),
            (wrong.clone(), Addresses(v6()), v6()),
            (late(v4()), wrong.clone(), v4()),
            (wrong.clone(), late(v6()), v6()),
        ] {
            let server = NameServer::new([(("hooks.test", A), a), (("hooks.test", AAAA), aaaa)]);
            assert_eq!(found(&server.dns(""), "hooks.test").await.0, Ok(expected));
        }
    }
}

#[tokio::test]
async fn name_without_addresses_fails_and_silent_servers_time_out() {
    let server = NameServer::new([(("gone.test", AAAA), Silent)]);
    let (failure, took) = found(&server.dns(""), "gone.test").await;
    assert_eq!(failure, Err(ResolveError::Failed), "A: NXDOMAIN");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let server = NameServer::new([(("slow.test", A), Silent)]);
    assert_eq!(found(&server.dns(""), "slow.test").await.0, Err(ResolveError::TimedOut), "AAAA: NXDOMAIN");
    let server = NameServer::new([(("away.test", A), Silent), (("away.test", AAAA), Silent)]);
    assert_eq!(found(&server.dns(""), "away.test").await.0, Err(ResolveError::TimedOut));
}

#[tokio::test]
async fn no_aaaa_asks_for_ipv4_only() {
    for options in ["options no-aaaa", "options ndots:5 no-aaaa edns0", "options rotate\noptions no-aaaa"] {
        let server = NameServer::new([(("hooks.test", A), Addresses(v4())), (("hooks.test", AAAA), Silent)]);
        let (addresses, took) = found(&server.dns(options), "hooks.test").await;
        assert_eq!(addresses, Ok(v4()), "{options}");
        assert!(took < Duration::from_millis(50), "{took:?}");
        assert_eq!((server.questions_for(A), server.questions_for(AAAA)), (1, 0), "{options}");
    }
    let server = NameServer::new([(("hooks.test", AAAA), Addresses(v6()))]);
    assert_eq!(found(&server.dns("options no-aaaa"), "hooks.test").await.0, Err(ResolveError::Failed));
}

#[tokio::test]
async fn truncated_answer_is_asked_for_again_over_tcp() {
    let many: Vec<IpAddr> = (1..=100).map(|last| IpAddr::from([93, 184, 216, last])).collect();
    let server = NameServer::new([
        (("hooks.test", A), Truncated(many.clone())),
        (("hooks.test", AAAA), Addresses(Vec::new())),
    ]);
    assert_eq!(found(&server.dns(""), "hooks.test").await.0, Ok(many));
}

#[tokio::test]
async fn search_domains_count_for_names_that_do_not_resolve_as_they_stand() {
    let service = ip("10.96.0.100");
    let zone = [
        (("receiver.team.svc.cluster.local", A), Addresses(vec![service])),
        (("receiver.team.svc.cluster.local", AAAA), Addresses(Vec::new())),
        (("hooks.test", A), Addresses(v4())),
        (("hooks.test", AAAA), Addresses(Vec::new())),
        // The search domain has a wildcard record.
        (("hooks.test.cluster.local", AAAA), Addresses(v6())),
    ];
    let server = NameServer::new(zone.clone());
    let options = "search team.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5";
    let dns = server.dns(options);
    assert_eq!(found(&dns, "receiver.team.svc").await.0, Ok(vec![service]));
    assert_eq!(found(&dns, "hooks.test").await.0, Ok(v4()), "not the AAAA of another name");
    assert_eq!(found(&dns, "receiver.team.svc.").await.0, Err(ResolveError::Failed));

    let names = ["receiver.team.svc", "receiver.team.svc.team.svc.cluster.local"];
    let dropped = names.map(|name| ((name, AAAA), Silent));
    let server = NameServer::new(zone.into_iter().chain(dropped));
    let (addresses, took) = found(&server.dns(options), "receiver.team.svc").await;
    assert_eq!(addresses, Ok(vec![service]), "NXDOMAIN for A, AAAA dropped");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test]
async fn hosts_file_decides_alone() {
    let server =
        NameServer::new([(("hooks.test", A), Addresses(v4())), (("hooks.test", AAAA), Addresses(v6()))]);
    let dns = server.dns_with("", "10.1.2.3 hooks.test\n::1 six.test\n");
    assert_eq!(found(&dns, "hooks.test").await.0, Ok(vec![ip("10.1.2.3")]));
    assert_eq!(found(&dns, "six.test").await.0, Ok(vec![ip("::1")]));
    assert_eq!((server.questions_for(A), server.questions_for(AAAA)), (0, 0));
}

/// A sender that may reach the receiver's port on the loopback addresses, and asks `server` for names.
fn sender(server: &NameServer, receiver: &Receiver) -> Sender {
    let sockets =
        ["127.0.0.1", "127.0.0.2", "::1"].map(|ip| SocketAddr::new(self::ip(ip), receiver.address.port()));
    Sender::new(EgressPolicy::new(vec![], sockets.to_vec()), server.dns(""), AMPLE)
}

#[tokio::test]
async fn receiver_is_reached_at_an_ipv4_address_that_came_late() {
    // A server that asks others first takes longer than a second.
    let late = Late(Duration::from_millis(1_100), vec![LOOPBACK]);
    // No server listens on the IPv6 address; or the name has no IPv6 address, and the name server says that there is no such
    // name.
    for other_family in [Addresses(vec![ip("::1")]), NXDOMAIN] {
        let receiver = Receiver::answering(OK).await;
        let server =
            NameServer::new([(("receiver.test", A), late.clone()), (("receiver.test", AAAA), other_family)]);
        let outcome = post(&sender(&server, &receiver), &receiver.url(), &private_ca(), AMPLE).await;
        assert_eq!(succeeded(outcome).remote, Some(receiver.address));
    }
}

#[tokio::test]
async fn late_answer_with_a_forbidden_address_is_not_used() {
    let receiver = Receiver::answering(OK).await;
    let late = Late(Duration::from_millis(300), vec![LOOPBACK, ip("127.0.0.3")]);
    let server = NameServer::new([
        (("receiver.test", A), late),
        (("receiver.test", AAAA), Addresses(vec![ip("::1")])),
    ]);
    let outcome = post(&sender(&server, &receiver), &receiver.url(), &private_ca(), AMPLE).await;
    failed(outcome, FailureClass::Refused);
    assert_eq!(receiver.connections(), 0);

    let together = NameServer::new([
        (("receiver.test", A), Addresses(vec![LOOPBACK])),
        (("receiver.test", AAAA), Addresses(vec![ip("::2")])),
    ]);
    let outcome = post(&sender(&together, &receiver), &receiver.url(), &private_ca(), AMPLE).await;
    failed(outcome, FailureClass::BlockedAddress);
    assert_eq!(receiver.connections(), 0);
}
