//! Resolves names to addresses. `connector` decides whether an address may be reached.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{IntoName, Name, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};
use parking_lot::Mutex;
use tokio::time::timeout;

/// What [`Resolve::lookup`] returns: boxed, so that a [`Sender`](crate::Sender) needs no type parameter.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = Result<Resolved, ResolveError>> + Send + 'a>>;

/// The addresses of the other family, which have not arrived yet. Empty if they do not arrive in time.
pub type Late = Pin<Box<dyn Future<Output = Vec<IpAddr>> + Send>>;

/// Resolves names. Called once per connection, and never for an IP literal.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of `name`, in the order in which to try them.
    fn lookup<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// The addresses of a name.
pub struct Resolved {
    /// The addresses that came first.
    pub addresses: Vec<IpAddr>,
    /// The lookup of the other family, if no name server has answered it yet.
    pub late: Option<Late>,
}

impl From<Vec<IpAddr>> for Resolved {
    fn from(addresses: Vec<IpAddr>) -> Self {
        Self { addresses, late: None }
    }
}

/// Why a name has no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name does not exist, or no server knows it.
    #[error("the name does not resolve")]
    Failed,
    /// The servers did not respond in time.
    #[error("the name servers did not respond in time")]
    TimedOut,
}

impl<R: Resolve + ?Sized> Resolve for Arc<R> {
    fn lookup<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        (**self).lookup(name)
    }
}

/// The machine's own resolver configuration: `/etc/resolv.conf` and `/etc/hosts`, both read once.
pub struct SystemDns {
    resolver: TokioResolver,
    hosts: Hosts,
    /// The search domains, which are appended to a name that does not resolve as it is.
    search: Vec<Name>,
    /// Whether to ask for IPv6 addresses. `options no-aaaa` switches this off.
    ipv6: bool,
}

/// Why a query for the addresses of one family returned none.
enum NoAddress {
    /// No name server knows the name, or the name has addresses of the other family only.
    Failed,
    /// The name does not exist (NXDOMAIN), so it should have no addresses of the other family either.
    NoSuchName,
    TimedOut,
}

impl From<NoAddress> for ResolveError {
    fn from(reason: NoAddress) -> Self {
        match reason {
            NoAddress::Failed | NoAddress::NoSuchName => Self::Failed,
            NoAddress::TimedOut => Self::TimedOut,
        }
    }
}

impl SystemDns {
    /// The timeout of one query. A lost query is repeated well within the 5 s that an attempt has for DNS.
    const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
    /// The longest time for which an answer is cached, whatever the TTL of the record. Retries are at least a minute
    /// apart. Each should notice that a receiver has moved or a record was fixed.
    const LONGEST_CACHED: Duration = Duration::from_secs(30);
    /// How long the addresses of the first family wait for the other family (RFC 8305, section 3). Some firewalls and
    /// name servers drop queries for one of the families.
    const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
    /// How long IPv6 addresses count after that: while the IPv4 addresses are tried, or after an NXDOMAIN, because some name servers
    /// give it for the family that a name does not have. IPv4 addresses count for as long as their queries take, since nearly every
    /// receiver has some, and many clusters have no way to an IPv6 address.
    const LATE_IPV6: Duration = Duration::from_secs(1);

    /// The system's configuration. Without a usable `/etc/resolv.conf`, a name server on this machine is asked, as in
    /// the C library.
    pub fn new() -> Self {
        let file = std::fs::read("/etc/resolv.conf").unwrap_or_default();
        let hosts = Hosts::from_system().unwrap_or_default();
        Self::with(&file, hosts, |_| {})
    }

    /// `file` is the text of a `resolv.conf`. `adapt` changes each of its name servers.
    pub(crate) fn with(file: &[u8], hosts: Hosts, adapt: impl Fn(&mut NameServerConfig)) -> Self {
        let (domain, search, mut servers, mut options) = match parse_resolv_conf(file) {
            Ok((config, options)) => {
                let (domain, search, servers) = config.into_parts();
                (domain, search, servers, options)
            }
            Err(_) => {
                let own = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
                (None, Vec::new(), vec![own], ResolverOpts::default())
            }
        };
        servers.iter_mut().for_each(adapt);
        options.use_hosts_file = ResolveHosts::Never; // see `known_to_hosts`
        options.timeout = Self::QUERY_TIMEOUT;
        options.attempts = 2;
        options.positive_max_ttl = Some(Self::LONGEST_CACHED);
        options.negative_max_ttl = Some(Self::LONGEST_CACHED);
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            .with_options(options)
            .build()
            .expect("building fails only over TLS to name servers, which is not compiled in");
        let search = domain.into_iter().chain(search).collect();
        let ipv6 = !resolv_conf::Config::parse_with_errors(file).0.no_aaaa;
        Self { resolver, hosts, search, ipv6 }
    }

    /// The full names that `name` may stand for. The name itself comes first, and the search domains
    /// (`receiver.team.svc`) only count if it fails. Targets are full names: by the rule `ndots:5` of Kubernetes,
    /// each would first be tried in every search domain.
    fn candidates(&self, name: &str) -> Vec<Name> {
        let Ok(name) = name.into_name() else { return Vec::new() };
        let mut full = name.clone();
        full.set_fqdn(true);
        let mut names = vec![full];
        if !name.is_fqdn() {
            for domain in &self.search {
                let below = name.clone().append_domain(domain);
                names.extend(below.ok().filter(|below| !names.contains(below)));
            }
        }
        names
    }

    async fn find(&self, name: &str) -> Result<Resolved, ResolveError> {
        let mut failure = ResolveError::Failed;
        for name in self.candidates(name) {
            match self.find_full(name).await {
                Ok(found) => return Ok(found),
                Err(ResolveError::TimedOut) => failure = ResolveError::TimedOut,
                Err(ResolveError::Failed) => {}
            }
        }
        Err(failure)
    }

    async fn find_full(&self, name: Name) -> Result<Resolved, ResolveError> {
        let known = self.known_to_hosts(&name);
        if !known.is_empty() {
            return Ok(known.into());
        }
        let mut v4 = Box::pin(query(self.resolver.clone(), name.clone(), RecordType::A));
        if !self.ipv6 {
            return Ok(v4.await?.into());
        }
        let mut v6 = Box::pin(query(self.resolver.clone(), name, RecordType::AAAA));
        let (first, mut other, late) = tokio::select! {
            answer = &mut v4 => (answer, v6, Self::LATE_IPV6),
            answer = &mut v6 => (answer, v4, Duration::MAX),
        };
        match first {
            Ok(mut addresses) => match timeout(Self::RESOLUTION_DELAY, &mut other).await {
                Ok(others) => {
                    addresses.extend(others.unwrap_or_default());
                    Ok(addresses.into())
                }
                Err(_) => {
                    let late = timeout(late, other);
                    let late = async { late.await.map(Result::unwrap_or_default).unwrap_or_default() };
                    Ok(Resolved { addresses, late: Some(Box::pin(late)) })
                }
            },
            Err(NoAddress::NoSuchName) => match timeout(late, other).await {
                Ok(Ok(addresses)) => Ok(addresses.into()),
                // Load balancers say of their names that they do not exist when they are asked for AAAA.
                Ok(Err(NoAddress::TimedOut)) => Err(ResolveError::TimedOut),
                Ok(Err(_)) | Err(_) => Err(ResolveError::Failed),
            },
            Err(first) => match (other.await, first) {
                (Ok(addresses), _) => Ok(addresses.into()),
                (Err(_), NoAddress::TimedOut) => Err(ResolveError::TimedOut),
                (Err(other), _) => Err(other.into()),
            },
        }
    }

    /// The addresses in `/etc/hosts`. If it has one, no name server is asked, not even for the other family. So the
    /// author of the file decides where a name leads, as in the C library.
    fn known_to_hosts(&self, name: &Name) -> Vec<IpAddr> {
        let family = |family| self.hosts.lookup_static_host(&Query::query(name.clone(), family));
        [RecordType::A, RecordType::AAAA]
            .into_iter()
            .filter_map(family)
            .flat_map(|lookup| addresses(&lookup))
            .collect()
    }
}

/// Asks the name servers for the addresses of one family. The list is never empty.
async fn query(resolver: TokioResolver, name: Name, family: RecordType) -> Result<Vec<IpAddr>, NoAddress> {
    match resolver.lookup(name, family).await {
        Ok(lookup) => Some(addresses(&lookup)).filter(|found| !found.is_empty()).ok_or(NoAddress::Failed),
        Err(NetError::Timeout) => Err(NoAddress::TimedOut),
        Err(error) if error.is_nx_domain() => Err(NoAddress::NoSuchName),
        Err(_) => Err(NoAddress::Failed),
    }
}

fn addresses(lookup: &Lookup) -> Vec<IpAddr> {
    lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect()
}

impl Default for SystemDns {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolve for SystemDns {
    fn lookup<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            if is_localhost(name) {
                // Name servers are never asked for `localhost` (RFC 6761).
                return Ok(LOCALHOST.to_vec().into());
            }
            self.find(name).await
        })
    }
}

pub(crate) const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Whether `name` is a name of this machine, whatever name servers say (RFC 6761).
pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
}

/// Fixed answers, for tests. A name can have a different answer each time, as with DNS rebinding.
#[derive(Debug, Default)]
pub struct FixedDns {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    lookups: AtomicUsize,
}

impl FixedDns {
    /// A resolver without names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next answer for `name`. Several answers are returned one after the other; the last one stays.
    #[must_use]
    pub fn answer(self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut answers = self.answers.lock();
        answers.entry(name.to_owned()).or_default().push_back(addresses.into_iter().collect());
        drop(answers);
        self
    }

    /// The number of lookups so far.
    pub fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }
}

impl Resolve for FixedDns {
    fn lookup<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock();
        let answer = match answers.get_mut(name) {
            Some(queue) if queue.len() > 1 => queue.pop_front(),
            Some(queue) => queue.front().cloned(),
            None => None,
        };
        Box::pin(std::future::ready(answer.map(Resolved::from).ok_or(ResolveError::Failed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn addresses_of(dns: impl Resolve, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        dns.lookup(name).await.map(|found| found.addresses)
    }

    #[tokio::test]
    async fn localhost_resolves_to_this_machine_without_a_query() {
        for name in ["localhost", "localhost.", "LOCALHOST", "receiver.localhost"] {
            assert_eq!(addresses_of(SystemDns::new(), name).await, Ok(LOCALHOST.to_vec()), "{name}");
        }
        for name in ["localhost.example.com", "notlocalhost", ""] {
            assert!(!is_localhost(name), "{name}");
        }
    }

    /// The times in a `resolv.conf` do not count.
    #[tokio::test]
    async fn answers_are_cached_for_30_s_at_most_and_a_lost_query_is_repeated_within_the_attempt() {
        let file = b"nameserver 127.0.0.1\noptions timeout:30 attempts:9\n";
        let dns = SystemDns::with(file, Hosts::default(), |_| {});
        let options = dns.resolver.options();
        let cached = (options.positive_max_ttl, options.negative_max_ttl);
        assert_eq!(cached, (Some(Duration::from_secs(30)), Some(Duration::from_secs(30))));
        assert_eq!((options.timeout, options.attempts), (Duration::from_secs(2), 2));
    }

    #[tokio::test]
    async fn fixed_answers_come_in_order_and_the_last_one_stays() {
        let [first, second]: [IpAddr; 2] = [[8, 8, 8, 8].into(), [127, 0, 0, 1].into()];
        let dns = FixedDns::new().answer("rebinding", [first]).answer("rebinding", [second]);
        let dns = Arc::new(dns);
        assert_eq!(addresses_of(dns.clone(), "rebinding").await, Ok(vec![first]));
        assert_eq!(addresses_of(dns.clone(), "rebinding").await, Ok(vec![second]));
        assert_eq!(addresses_of(dns.clone(), "rebinding").await, Ok(vec![second]));
        assert_eq!(addresses_of(dns.clone(), "unknown").await, Err(ResolveError::Failed));
        assert_eq!(dns.lookups(), 4);
    }
}
