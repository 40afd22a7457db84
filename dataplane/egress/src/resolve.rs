//! How a name becomes addresses. Whether they may be reached is decided in `connector`.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;

/// What [`Resolve::lookup`] returns: boxed, so that a [`Sender`](crate::Sender) needs no type parameter.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, ResolveError>> + Send + 'a>>;

/// Resolves names. Called once per connection, and never for an IP literal.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of `name`, in the order in which to try them.
    fn lookup<'a>(&'a self, name: &'a str) -> Resolving<'a>;
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
#[derive(Debug)]
pub struct SystemDns(TokioResolver);

impl SystemDns {
    /// Timeout of one query. A query that got lost is repeated well within the 5 s that an attempt has for DNS.
    const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
    /// Longest time that an answer is cached, whatever the TTL of the record. Retries are at least a minute apart, and each
    /// should see a receiver that has moved or a record that was fixed.
    const LONGEST_CACHED: Duration = Duration::from_secs(30);

    /// Without a usable `/etc/resolv.conf` it asks a name server on this machine, as the C library does.
    pub fn new() -> Self {
        let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|_| {
            let own = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            let config = ResolverConfig::from_name_servers(vec![own]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        });
        let options = builder.options_mut();
        // Targets are full names. With the `ndots:5` of Kubernetes each would first be tried in every search domain.
        // With 0 the name itself is tried first, and the search domains (`receiver.team.svc`) only if that fails.
        options.ndots = 0;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.timeout = Self::QUERY_TIMEOUT;
        options.attempts = 2;
        options.positive_max_ttl = Some(Self::LONGEST_CACHED);
        options.negative_max_ttl = Some(Self::LONGEST_CACHED);
        Self(builder.build().expect("building fails only over TLS to name servers, which is not compiled in"))
    }
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
                // Name servers are never asked for it (RFC 6761). IPv4 only: the embedded mode's receiver listens
                // there, and a forbidden `::1` beside it would refuse the whole answer.
                return Ok(vec![Ipv4Addr::LOCALHOST.into()]);
            }
            match self.0.lookup_ip(name).await {
                Ok(addresses) => Ok(addresses.iter().collect()),
                Err(NetError::Timeout) => Err(ResolveError::TimedOut),
                Err(_) => Err(ResolveError::Failed),
            }
        })
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
}

/// Fixed answers, for tests. A name can have another answer each time, as a rebinding name has.
#[derive(Debug, Default)]
pub struct FixedDns {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    lookups: AtomicUsize,
}

impl FixedDns {
    /// Knows no name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next answer for `name`. Several answers are returned one after the other; the last one stays.
    #[must_use]
    pub fn answer(self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match answers.get_mut(name) {
            Some(queue) if queue.len() > 1 => queue.pop_front(),
            Some(queue) => queue.front().cloned(),
            None => None,
        };
        Box::pin(std::future::ready(answer.ok_or(ResolveError::Failed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_resolves_to_this_machine_without_a_query() {
        for name in ["localhost", "localhost.", "LOCALHOST", "receiver.localhost"] {
            assert_eq!(SystemDns::new().lookup(name).await, Ok(vec![Ipv4Addr::LOCALHOST.into()]), "{name}");
        }
        for name in ["localhost.example.com", "notlocalhost", ""] {
            assert!(!is_localhost(name), "{name}");
        }
    }

    #[tokio::test]
    async fn fixed_answers_come_in_order_and_the_last_one_stays() {
        let [first, second]: [IpAddr; 2] = [[8, 8, 8, 8].into(), [127, 0, 0, 1].into()];
        let dns = FixedDns::new().answer("rebinding", [first]).answer("rebinding", [second]);
        assert_eq!(dns.lookup("rebinding").await, Ok(vec![first]));
        assert_eq!(dns.lookup("rebinding").await, Ok(vec![second]));
        assert_eq!(dns.lookup("rebinding").await, Ok(vec![second]));
        assert_eq!(dns.lookup("unknown").await, Err(ResolveError::Failed));
        assert_eq!(dns.lookups(), 4);
    }
}
