//! From a receiver to an open connection: look the name up, check every address, connect, TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use docket_domain::delivery::{FailureClass, Phase, Report};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Url};

use crate::address::EgressPolicy;
use crate::pool::Connection;
use crate::resolve::{Resolve, ResolveError};
use crate::trust::Trust;

/// The longest that DNS, connecting and TLS may take, each. A receiver that needs longer for one of them is as good
/// as gone, and the whole attempt's time would be better spent on others.
const PHASE_LIMIT: Duration = Duration::from_secs(5);
/// Addresses tried of one answer. All are checked; but shares of 5 s get too small to connect in.
const MAX_TRIED: usize = 4;

/// Where to, and believing whom: POSTs with equal `Receiver`s may share a connection.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Receiver {
    host: Host<String>,
    port: u16,
    trust: u64,
}

impl Receiver {
    /// The `url` crate has already turned `0177.1`, `2130706433`, `０x7f.1` and `127.0.0.1.` into the address they
    /// mean, or refused them, so an IP literal cannot pass here as a name.
    pub(crate) fn of(url: &Url, trust: &Trust) -> Result<Self, FailureClass> {
        if url.scheme() != "https" {
            return Err(FailureClass::TlsOther); // never in the clear, whoever let that url through
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(FailureClass::Dns);
        };
        Ok(Self { host: host.to_owned(), port, trust: trust.id })
    }

    /// What the certificate must be for. It is the url's host, and not the address that the host led to.
    fn server_name(&self) -> Result<ServerName<'static>, FailureClass> {
        match &self.host {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name).to_owned();
                ServerName::try_from(name).map_err(|_| FailureClass::Dns)
            }
            Host::Ipv4(ip) => Ok(ServerName::from(IpAddr::from(*ip))),
            Host::Ipv6(ip) => Ok(ServerName::from(IpAddr::from(*ip))),
        }
    }
}

pub(crate) struct Connector {
    policy: EgressPolicy,
    dns: Box<dyn Resolve>,
    phase_limit: Duration,
}

impl Connector {
    pub(crate) fn new(policy: EgressPolicy, dns: impl Resolve, attempt_timeout: Duration) -> Self {
        Self { policy, dns: Box::new(dns), phase_limit: PHASE_LIMIT.min(attempt_timeout / 3) }
    }

    /// Opens a connection, noting in `report` how far it came and how long each phase took.
    pub(crate) async fn connect(
        &self,
        receiver: &Receiver,
        trust: &Trust,
        deadline: Instant,
        report: &mut Report,
    ) -> Result<Connection, FailureClass> {
        let server_name = receiver.server_name()?;
        let times = &mut report.times;

        let sockets = match &receiver.host {
            Host::Domain(name) => {
                let look_up = self.look_up(name, receiver.port);
                phase(Phase::Dns, self.until(deadline), &mut times.dns, look_up).await?
            }
            Host::Ipv4(ip) => self.checked(vec![IpAddr::from(*ip)], receiver.port)?,
            Host::Ipv6(ip) => self.checked(vec![IpAddr::from(*ip)], receiver.port)?,
        };

        let until = self.until(deadline);
        let open = open(&sockets, until);
        let (tcp, remote) = phase(Phase::Connect, until, &mut times.connect, open).await?;
        report.remote = Some(remote);

        let handshake = handshake(trust, server_name, tcp);
        let tls = phase(Phase::Tls, self.until(deadline), &mut times.tls, handshake).await?;
        Connection::start(tls, remote).await
    }

    fn until(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.phase_limit)
    }

    async fn look_up(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, FailureClass> {
        match self.dns.lookup(name).await {
            Ok(addresses) => self.checked(addresses, port),
            Err(ResolveError::TimedOut) => Err(FailureClass::Timeout(Phase::Dns)),
            Err(ResolveError::Failed) => Err(FailureClass::Dns),
        }
    }

    /// One forbidden address refuses them all: a public name has no business pointing at private addresses, and one
    /// that does is a mistake or an attack. What is returned here is what is connected to: the name is not looked up
    /// again, so a second, different answer is of no use to a rebinding name.
    fn checked(&self, addresses: Vec<IpAddr>, port: u16) -> Result<Vec<SocketAddr>, FailureClass> {
        if addresses.is_empty() {
            return Err(FailureClass::Dns);
        }
        let sockets: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        if sockets.iter().all(|socket| self.policy.permits(*socket)) {
            Ok(alternated(sockets))
        } else {
            Err(FailureClass::BlockedAddress)
        }
    }
}

/// Runs one phase of an attempt until `until` at the latest, and notes how long it took, however it ended.
pub(crate) async fn phase<T, E: From<FailureClass>>(
    phase: Phase,
    until: Instant,
    took: &mut Option<Duration>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let started = Instant::now();
    let ended = timeout_at(until, work).await;
    *took = Some(started.elapsed());
    ended.unwrap_or_else(|_| Err(FailureClass::Timeout(phase).into()))
}

/// IPv4 and IPv6 in turn, each in its own order. IPv4 first: a cluster without IPv6 is common and may drop its packets
/// silently, while hardly a receiver is without IPv4.
fn alternated(sockets: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let (v4, v6): (Vec<_>, Vec<_>) = sockets.into_iter().partition(SocketAddr::is_ipv4);
    let (mut v4, mut v6) = (v4.into_iter(), v6.into_iter());
    let mut sockets = Vec::new();
    loop {
        let (a, b) = (v4.next(), v6.next());
        if a.is_none() && b.is_none() {
            return sockets;
        }
        sockets.extend(a.into_iter().chain(b));
    }
}

/// Tries the addresses one after the other, each with an equal share of the time that is left, so that a silent first
/// one does not use up the others' chance.
async fn open(sockets: &[SocketAddr], until: Instant) -> Result<(TcpStream, SocketAddr), FailureClass> {
    let tried = &sockets[..sockets.len().min(MAX_TRIED)];
    let mut failure = FailureClass::Connect;
    for (socket, left) in tried.iter().zip((1..=tried.len()).rev()) {
        let share = until.saturating_duration_since(Instant::now()) / u32::try_from(left).unwrap_or(u32::MAX);
        #[expect(clippy::disallowed_methods, reason = "the one place; the address has been checked")]
        let connecting = TcpStream::connect(*socket);
        let class = match timeout_at(Instant::now() + share, connecting).await {
            Ok(Ok(tcp)) => {
                let _ = tcp.set_nodelay(true); // only costs speed if it fails
                return Ok((tcp, *socket));
            }
            Ok(Err(error)) => class_of_connect(&error),
            Err(_) => FailureClass::Timeout(Phase::Connect),
        };
        // "Refused" says most: somebody is there. Else the last one, because "no route" often comes first.
        if failure != FailureClass::Refused {
            failure = class;
        }
    }
    Err(failure)
}

fn class_of_connect(error: &io::Error) -> FailureClass {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => FailureClass::Refused,
        io::ErrorKind::TimedOut => FailureClass::Timeout(Phase::Connect),
        _ => FailureClass::Connect,
    }
}

async fn handshake(
    trust: &Trust,
    name: ServerName<'static>,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, FailureClass> {
    let connecting = TlsConnector::from(trust.config.clone()).connect(name, tcp);
    connecting.await.map_err(|error| match tls_error(&error) {
        Some(rustls::Error::InvalidCertificate(_)) => FailureClass::TlsUntrusted,
        _ => FailureClass::TlsOther,
    })
}

/// tokio-rustls hands TLS errors on inside an [`io::Error`].
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::vectors;
    use crate::resolve::FixedDns;

    const TIMEOUT: Duration = Duration::from_secs(30);
    const PUBLIC: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(8, 8, 8, 8));

    fn connector(dns: FixedDns) -> Connector {
        Connector::new(EgressPolicy::default(), dns, TIMEOUT)
    }

    /// Connects for real: only for targets that end before a packet leaves.
    async fn connect(dns: FixedDns, url: &str) -> (Option<FailureClass>, Report) {
        let trust = Trust::public();
        let url = Url::parse(url).expect("a url");
        let mut report = Report::default();
        let class = match Receiver::of(&url, &trust) {
            Ok(receiver) => {
                let deadline = Instant::now() + TIMEOUT;
                connector(dns).connect(&receiver, &trust, deadline, &mut report).await.err()
            }
            Err(class) => Some(class),
        };
        (class, report)
    }

    fn literal(ip: IpAddr) -> String {
        format!("https://{}/", SocketAddr::new(ip, 443))
    }

    #[tokio::test]
    async fn forbidden_literals_are_refused_without_a_lookup_or_an_address_in_the_report() {
        for ip in vectors::forbidden() {
            let (class, report) = connect(FixedDns::new(), &literal(ip)).await;
            assert_eq!(class, Some(FailureClass::BlockedAddress), "{ip}");
            assert_eq!(report, Report::default(), "{ip}");
        }
    }

    #[tokio::test]
    async fn forbidden_answers_are_refused_alone_and_among_public_ones() {
        for ip in vectors::forbidden() {
            for answer in [vec![ip], vec![PUBLIC, ip], vec![ip, PUBLIC]] {
                let dns = FixedDns::new().answer("hooks.example", answer.clone());
                let (class, report) = connect(dns, "https://hooks.example/").await;
                assert_eq!(class, Some(FailureClass::BlockedAddress), "{answer:?}");
                assert_eq!((report.remote, report.times.connect), (None, None), "{answer:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_rebinding_name_is_refused_at_its_second_answer() {
        for ip in vectors::forbidden() {
            let dns = FixedDns::new().answer("rebind.example", [PUBLIC]).answer("rebind.example", [ip]);
            let connector = connector(dns);
            let first = connector.look_up("rebind.example", 443).await;
            assert_eq!(
                first,
                Ok(vec![SocketAddr::new(PUBLIC, 443)]),
                "what was checked is what is connected to"
            );
            let second = connector.look_up("rebind.example", 443).await;
            assert_eq!(second, Err(FailureClass::BlockedAddress), "{ip}");
        }
    }

    #[tokio::test]
    async fn public_addresses_are_let_through() {
        for ip in vectors::allowed() {
            let dns = FixedDns::new().answer("hooks.example", [ip]);
            assert_eq!(
                connector(dns).look_up("hooks.example", 443).await,
                Ok(vec![SocketAddr::new(ip, 443)])
            );
            assert_eq!(connector(FixedDns::new()).checked(vec![ip], 443), Ok(vec![SocketAddr::new(ip, 443)]));
        }
    }

    #[tokio::test]
    async fn odd_spellings_of_forbidden_addresses_are_refused() {
        for host in [
            "0177.1",
            "017700000001",
            "0x7f.1",
            "0x7f.0.0.1",
            "0x7f000001",
            "2130706433",
            "127.000.000.001",
            "127.0.1",
            "127.1",
            "127.0.0.1.",
            "4294967295",
            "0xffffffff",
            "0377.0377.0377.0377",
            "0",
            "0xa9fea9fe",
            "１２７.０.０.１",
            "①②⑦.⓪.⓪.①",
            "127。0。0。1",
            "%31%32%37.0.0.1",
            "user@127.0.0.1",
            "user:8.8.8.8@127.0.0.1",
            "127.0.0.1#@8.8.8.8",
            "127.0.0.1\\@8.8.8.8",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
        ] {
            let (class, _) = connect(FixedDns::new(), &format!("https://{host}/")).await;
            assert_eq!(class, Some(FailureClass::BlockedAddress), "{host}");
        }
        let (class, _) = connect(FixedDns::new(), "https:/127.0.0.1/").await;
        assert_eq!(class, Some(FailureClass::BlockedAddress), "one slash");
    }

    #[test]
    fn what_is_no_host_or_port_is_no_url() {
        for host in
            ["[::1%25lo]", "[fe80::1%eth0]", "127.0.0.256", "0x100000000", "1.2.3.4.5", "a:65536", "a:99999"]
        {
            assert!(Url::parse(&format!("https://{host}/")).is_err(), "{host}");
        }
    }

    #[tokio::test]
    async fn names_of_the_cluster_and_of_this_machine_are_checked_like_any_other() {
        for name in ["localhost", "localhost.", "kubernetes.default", "redis.docket.svc.cluster.local"] {
            let dns = FixedDns::new().answer(name, [IpAddr::from([10, 96, 0, 1])]);
            let (class, _) = connect(dns, &format!("https://{name}/")).await;
            assert_eq!(class, Some(FailureClass::BlockedAddress), "{name}");
        }
        let trust = Trust::public();
        let connector = Connector::new(EgressPolicy::default(), crate::SystemDns::new(), TIMEOUT);
        for url in [
            "https://localhost/",
            "https://localhost.:8443/",
            "https://a.localhost/",
            "https://ＬＯＣＡＬhost/",
        ] {
            let receiver = Receiver::of(&Url::parse(url).expect("a url"), &trust).expect("a receiver");
            let deadline = Instant::now() + TIMEOUT;
            let end = connector.connect(&receiver, &trust, deadline, &mut Report::default()).await;
            assert_eq!(end.err(), Some(FailureClass::BlockedAddress), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_a_dns_failure() {
        let dns = FixedDns::new().answer("empty.example", []);
        assert_eq!(connect(dns, "https://empty.example/").await.0, Some(FailureClass::Dns));
        assert_eq!(connect(FixedDns::new(), "https://unknown.example/").await.0, Some(FailureClass::Dns));
    }

    #[tokio::test]
    async fn nothing_is_sent_in_the_clear() {
        assert_eq!(connect(FixedDns::new(), "http://8.8.8.8/").await.0, Some(FailureClass::TlsOther));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_name_server_costs_5_seconds_and_less_in_a_shorter_attempt() {
        struct Silent;
        impl Resolve for Silent {
            fn lookup<'a>(&'a self, _: &'a str) -> crate::Resolving<'a> {
                Box::pin(std::future::pending())
            }
        }
        let trust = Trust::public();
        let receiver =
            Receiver::of(&Url::parse("https://a.example/").expect("a url"), &trust).expect("a receiver");
        for (timeout, limit) in [(30_000, 5_000), (15_000, 5_000), (600, 200)] {
            let timeout = Duration::from_millis(timeout);
            let connector = Connector::new(EgressPolicy::default(), Silent, timeout);
            let started = Instant::now();
            let end = connector.connect(&receiver, &trust, started + timeout, &mut Report::default()).await;
            assert_eq!(end.err(), Some(FailureClass::Timeout(Phase::Dns)));
            let took = started.elapsed().as_millis();
            assert!((limit..limit + 5).contains(&took), "{took} ms");
        }
    }

    #[test]
    fn both_families_are_tried_in_turn() {
        let sockets =
            |list: &[&str]| list.iter().map(|s| s.parse().expect("a socket")).collect::<Vec<SocketAddr>>();
        assert_eq!(
            alternated(sockets(&[
                "[2001:200::1]:1",
                "[2001:200::2]:1",
                "8.8.8.1:1",
                "[2001:200::3]:1",
                "8.8.8.2:1"
            ])),
            sockets(&["8.8.8.1:1", "[2001:200::1]:1", "8.8.8.2:1", "[2001:200::2]:1", "[2001:200::3]:1"])
        );
    }
}
