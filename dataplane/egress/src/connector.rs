//! Opens a connection to a target: DNS, address check, TCP, TLS.
//!
//! Deliveries use hyper's connection API and these steps, and not an HTTP client such as reqwest, because an attempt
//! must guarantee what a client hides:
//!
//! - The address that was checked is the address that is connected to. A client resolves names itself. Even with a
//!   custom resolver, it connects to an address in the URL without calling the resolver.
//! - Each phase (DNS, connect, TLS, first byte) has its own limit, is timed, and fails with its own typed
//!   [`FailureClass`]. A client has one or two timeouts, and the class would have to be matched from its error texts.
//! - The headers of a 2xx response decide the outcome. The body is read for the log only, with a bound in bytes and time.
//! - No request reaches the wire twice. A client may send a request again when a pooled connection breaks; here it moves
//!   to a new connection only if hyper returns it with no byte written.
//! - Connections are pooled by URL and trusted certificates, and dropping the attempt closes the socket.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docket_domain::delivery::{FailureClass, Report};
use docket_domain::failure::Explanation;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::address::EgressPolicy;
use crate::cause;
use crate::connection::ReceiverConnection;
use crate::exchange::tls_error;
use crate::head::{Head, Recorded};
use crate::open::open;
use crate::resolve::{Late, Resolve, ResolveError, Resolved, is_localhost};
use crate::shown;
use crate::target::Target;
use crate::trust::Trust;

/// Limit of DNS and of connecting, each. A receiver that needs longer for one of them is as good as gone; the slot
/// is better used for others.
pub const PHASE_LIMIT: Duration = Duration::from_secs(5);
/// Limit of TLS, as Go's default client has it: a server whose workers are all busy accepts connections and leaves their handshakes to
/// the next free worker.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Connector {
    policy: EgressPolicy,
    dns: Box<dyn Resolve>,
    phase_limit: Duration,
    handshake_limit: Duration,
    /// The number of connections opened so far, which chooses the address that is tried first.
    opened: AtomicUsize,
}

impl Connector {
    pub(crate) fn new(policy: EgressPolicy, dns: impl Resolve, attempt_timeout: Duration) -> Self {
        let [phase_limit, handshake_limit] =
            [PHASE_LIMIT, HANDSHAKE_LIMIT].map(|limit| limit.min(attempt_timeout / 3));
        Self { policy, dns: Box::new(dns), phase_limit, handshake_limit, opened: AtomicUsize::new(0) }
    }

    /// Opens a connection. Records in `report` the address and the time of each phase that succeeded.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        trust: &Trust,
        deadline: Instant,
        report: &mut Report,
    ) -> Result<ReceiverConnection, FailureClass> {
        let server_name = target.server_name()?;
        let times = &mut report.times;

        let (sockets, late) = match &target.receiver.host {
            Host::Domain(name) => {
                let look_up = self.look_up(name, target.receiver.port);
                phase(FailureClass::TimeoutDns, soon(self.phase_limit, deadline), &mut times.dns, look_up)
                    .await?
            }
            Host::Ipv4(ip) => (self.checked(vec![IpAddr::from(*ip)], target.receiver.port)?, None),
            Host::Ipv6(ip) => (self.checked(vec![IpAddr::from(*ip)], target.receiver.port)?, None),
        };

        let until = soon(self.phase_limit, deadline);
        // A later attempt begins with another address, in case that the first one accepts connections and does no more.
        let turn = self.opened.fetch_add(1, Ordering::Relaxed);
        // Late addresses are checked separately: the first addresses have been checked, and one may be connected already.
        let late = async {
            match late {
                Some(late) => self.checked(late.await, target.receiver.port).unwrap_or_default(),
                None => Vec::new(),
            }
        };
        let open = open(sockets, late, turn, until);
        let (tcp, remote) = phase(FailureClass::TimeoutConnect, until, &mut times.connect, open).await?;
        report.remote = Some(remote);

        let socket = tcp.as_fd().try_clone_to_owned().map_err(|_| FailureClass::Connect)?.into();
        let handshake = handshake(trust, server_name, tcp, &mut report.explanation);
        let until = soon(self.handshake_limit, deadline);
        let tls = phase(FailureClass::TimeoutTls, until, &mut times.tls, handshake).await?;
        ReceiverConnection::start(tls, socket, remote).await
    }

    async fn look_up(&self, name: &str, port: u16) -> Result<(Vec<SocketAddr>, Option<Late>), FailureClass> {
        match self.dns.lookup(name).await {
            // No name server decides the addresses of `localhost`, so a forbidden `::1` says nothing about 127.0.0.1.
            Ok(Resolved { addresses, late }) if is_localhost(name) => {
                let (permitted, refused): (Vec<_>, Vec<_>) =
                    addresses.into_iter().partition(|ip| self.policy.permits(SocketAddr::new(*ip, port)));
                let addresses = if permitted.is_empty() { refused } else { permitted };
                Ok((self.checked(addresses, port)?, late))
            }
            Ok(Resolved { addresses, late }) => Ok((self.checked(addresses, port)?, late)),
            Err(ResolveError::TimedOut) => Err(FailureClass::TimeoutDns),
            Err(ResolveError::Failed) => Err(FailureClass::Dns),
        }
    }

    /// Checks addresses. One forbidden address refuses them all: a public name that resolves to a private address is
    /// a mistake or an attack. The connection uses the returned addresses. The name is not looked up again, so that a
    /// second, different answer (DNS rebinding) has no effect.
    fn checked(&self, addresses: Vec<IpAddr>, port: u16) -> Result<Vec<SocketAddr>, FailureClass> {
        if addresses.is_empty() {
            return Err(FailureClass::Dns);
        }
        let sockets: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        if sockets.iter().all(|socket| self.policy.permits(*socket)) {
            Ok(sockets)
        } else {
            Err(FailureClass::BlockedAddress)
        }
    }
}

/// The end of a phase that begins now.
fn soon(limit: Duration, deadline: Instant) -> Instant {
    deadline.min(Instant::now() + limit)
}

/// Runs one phase of an attempt. It fails with `timed_out` at `until`. If it succeeds, `took` is how long it took. A phase that was cut
/// off has no end, and the total says how long the attempt waited.
pub(crate) async fn phase<T, E: From<FailureClass>>(
    timed_out: FailureClass,
    until: Instant,
    took: &mut Option<Duration>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let started = Instant::now();
    let ended = timeout_at(until, work).await.unwrap_or_else(|_| Err(timed_out.into()));
    *took = ended.is_ok().then(|| started.elapsed());
    ended
}

async fn handshake(
    trust: &Trust,
    name: ServerName<'static>,
    tcp: TcpStream,
    explanation: &mut Explanation,
) -> Result<TlsStream<Recorded<TcpStream>>, FailureClass> {
    let head = Head::default();
    head.begin();
    let connecting = TlsConnector::from(trust.config.clone()).connect(name, head.of(tcp));
    let (connected, shown) = shown::watch(connecting).await;
    let first = head.take();
    head.end();
    connected.map_err(|error| {
        let error = tls_error(&error);
        *explanation = cause::of_handshake(error, &shown, &first);
        match error {
            Some(rustls::Error::InvalidCertificate(_)) => FailureClass::TlsUntrusted,
            _ => FailureClass::TlsOther,
        }
    })
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::address::vectors;
    use crate::resolve::FixedDns;

    const TIMEOUT: Duration = Duration::from_secs(30);
    const PUBLIC: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(8, 8, 8, 8));

    fn connector(dns: FixedDns) -> Connector {
        Connector::new(EgressPolicy::default(), dns, TIMEOUT)
    }

    /// Connects for real. Only for targets where the attempt ends before a packet is sent.
    async fn connect(dns: FixedDns, url: &str) -> (Option<FailureClass>, Report) {
        let trust = Trust::public();
        let url = Url::parse(url).expect("a url");
        let mut report = Report::default();
        let class = match Target::of(&url, &trust) {
            Ok(target) => {
                let deadline = Instant::now() + TIMEOUT;
                connector(dns).connect(&target, &trust, deadline, &mut report).await.err()
            }
            Err(class) => Some(class),
        };
        (class, report)
    }

    async fn looked_up(connector: &Connector, name: &str) -> Result<Vec<SocketAddr>, FailureClass> {
        connector.look_up(name, 443).await.map(|(sockets, _)| sockets)
    }

    fn literal(ip: IpAddr) -> String {
        format!("https://{}/", SocketAddr::new(ip, 443))
    }

    #[tokio::test]
    async fn forbidden_literals_are_refused_without_a_lookup() {
        for ip in vectors::forbidden() {
            let (class, report) = connect(FixedDns::new(), &literal(ip)).await;
            assert_eq!(class, Some(FailureClass::BlockedAddress), "{ip}");
            assert_eq!(report, Report::default(), "{ip}");
        }
    }

    #[tokio::test]
    async fn forbidden_dns_answers_are_refused_alone_and_among_public_ones() {
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
    async fn rebinding_name_is_refused_at_its_second_answer() {
        for ip in vectors::forbidden() {
            let dns = FixedDns::new().answer("rebind.example", [PUBLIC]).answer("rebind.example", [ip]);
            let connector = connector(dns);
            let first = looked_up(&connector, "rebind.example").await;
            assert_eq!(
                first,
                Ok(vec![SocketAddr::new(PUBLIC, 443)]),
                "the checked address is the one connected to"
            );
            let second = looked_up(&connector, "rebind.example").await;
            assert_eq!(second, Err(FailureClass::BlockedAddress), "{ip}");
        }
    }

    #[tokio::test]
    async fn public_addresses_are_permitted() {
        for ip in vectors::allowed() {
            let dns = FixedDns::new().answer("hooks.example", [ip]);
            let found = looked_up(&connector(dns), "hooks.example").await;
            assert_eq!(found, Ok(vec![SocketAddr::new(ip, 443)]));
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
    fn invalid_host_or_port_is_not_a_url() {
        for host in
            ["[::1%25lo]", "[fe80::1%eth0]", "127.0.0.256", "0x100000000", "1.2.3.4.5", "a:65536", "a:99999"]
        {
            assert!(Url::parse(&format!("https://{host}/")).is_err(), "{host}");
        }
    }

    #[tokio::test]
    async fn names_of_cluster_and_machine_are_checked_like_any_other() {
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
            let target = Target::of(&Url::parse(url).expect("a url"), &trust).expect("a target");
            let deadline = Instant::now() + TIMEOUT;
            let end = connector.connect(&target, &trust, deadline, &mut Report::default()).await;
            assert_eq!(end.err(), Some(FailureClass::BlockedAddress), "{url}");
        }
    }

    #[tokio::test]
    async fn name_without_addresses_is_a_dns_failure() {
        let dns = FixedDns::new().answer("empty.example", []);
        assert_eq!(connect(dns, "https://empty.example/").await.0, Some(FailureClass::Dns));
        assert_eq!(connect(FixedDns::new(), "https://unknown.example/").await.0, Some(FailureClass::Dns));
    }

    #[test]
    fn each_phase_has_its_limit_or_a_third_of_the_attempt() {
        let limits = |attempt: u64| {
            let timeout = Duration::from_secs(attempt);
            let connector = Connector::new(EgressPolicy::default(), FixedDns::new(), timeout);
            (connector.phase_limit.as_secs(), connector.handshake_limit.as_secs())
        };
        assert_eq!([limits(60), limits(30), limits(6)], [(5, 10), (5, 10), (2, 2)]);
    }

    #[tokio::test]
    async fn http_url_is_refused() {
        assert_eq!(connect(FixedDns::new(), "http://8.8.8.8/").await.0, Some(FailureClass::TlsOther));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_name_server_costs_5_seconds_or_a_third_of_the_attempt() {
        struct Silent;
        impl Resolve for Silent {
            fn lookup<'a>(&'a self, _: &'a str) -> crate::Resolving<'a> {
                Box::pin(std::future::pending())
            }
        }
        let trust = Trust::public();
        let target = Target::of(&Url::parse("https://a.example/").expect("a url"), &trust).expect("a target");
        for (timeout, limit) in [(30_000, 5_000), (15_000, 5_000), (600, 200)] {
            let timeout = Duration::from_millis(timeout);
            let connector = Connector::new(EgressPolicy::default(), Silent, timeout);
            let started = Instant::now();
            let end = connector.connect(&target, &trust, started + timeout, &mut Report::default()).await;
            assert_eq!(end.err(), Some(FailureClass::TimeoutDns));
            let took = started.elapsed().as_millis();
            assert!((limit..limit + 5).contains(&took), "{took} ms");
        }
    }
}
