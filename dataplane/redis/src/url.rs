//! The URL of Redis.
//!
//! | | |
//! |---|---|
//! | `redis://[user:password@]host[:port][/db]` | one server |
//! | `redis+sentinel://[user:password@]host[:port],…/<master-name>[/db]` | the primary of this name, which the Sentinels (port 26379) know |
//! | `redis+cluster://[user:password@]host[:port],…` | a Cluster with at least these nodes |
//!
//! `rediss`, `rediss+sentinel` and `rediss+cluster` are the same over TLS. A user or password that contains one of
//! `@:/?#%` is percent-encoded. The servers get these credentials. Sentinels that require credentials get the same
//! ones, or those in `?sentinel_username=…&sentinel_password=…` at the end of a URL with Sentinels. Their values are
//! percent-encoded too, and so is a `&` in them.

use std::fmt;

use url::Host;

/// The location of Redis and its credentials, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// How to find the servers.
    pub topology: Topology,
    /// Whether every connection is encrypted and its certificate verified.
    pub tls: bool,
    /// The ACL user; `None`: the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The database number.
    pub db: i64,
    /// The user and the password for Sentinels, if they differ from the credentials of the servers.
    pub sentinel: Option<SentinelLogin>,
}

/// Credentials for Sentinels, which `RedisUrl`'s `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct SentinelLogin {
    /// The ACL user; `None`: the default user.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

/// How to find the servers. The lists of addresses are never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Standalone(Endpoint),
    /// The addresses of Sentinels, and the name by which they know the primary.
    Sentinel(Vec<Endpoint>, String),
    /// The addresses of some nodes of a Cluster.
    Cluster(Vec<Endpoint>),
}

/// Host and port. An IPv6 address has no brackets here.
pub type Endpoint = (String, u16);

/// Why a URL can't be used. The text never contains the URL, which contains a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// The scheme is none of the six.
    #[error(
        "the Redis URL must start with redis://, redis+sentinel:// or redis+cluster://, or the same with rediss for TLS"
    )]
    Scheme,
    /// A host is missing or not valid.
    #[error(
        "host {0} of the Redis URL must be a name or an address, with a port from 1 to 65535 if any: host:6379"
    )]
    Host(usize),
    /// Several hosts, where only one is possible.
    #[error("the Redis URL names several hosts: that is for redis+sentinel:// and redis+cluster://")]
    ManyHosts,
    /// A user or password that is not UTF-8 after decoding, or a `%` that encodes nothing.
    #[error(
        "user or password of the Redis URL is not percent-encoded as it must be: write @ as %40, : as %3A, / as %2F, % as %25"
    )]
    Credentials,
    /// The name of the primary is missing.
    #[error("a redis+sentinel:// URL ends with the name that the Sentinels give the primary: …/mymaster")]
    MasterName,
    /// The part after the last `/` is not a number of a database.
    #[error("the database in the Redis URL must be a number from 0 to 1000000: redis://host:6379/0")]
    Db,
    /// A database number other than 0, which a Cluster does not have.
    #[error("a redis+cluster:// URL names no database: a Cluster has only database 0")]
    ClusterDb,
    /// The URL has `?…` or `#…`, other than the credentials for Sentinels.
    #[error(
        "the Redis URL has a ? or a #: only redis+sentinel:// takes parameters, sentinel_username and sentinel_password; in a password write ? as %3F, # as %23"
    )]
    Parameters,
    /// A user for Sentinels without a password.
    #[error("sentinel_username in the Redis URL needs sentinel_password: write both, or neither")]
    SentinelPassword,
}

impl RedisUrl {
    /// Reads a URL. White space around it is ignored, because it comes from a file.
    pub fn parse(url: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = url.trim().split_once("://").ok_or(BadUrl::Scheme)?;
        let (security, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let tls = match security {
            "redis" => false,
            "rediss" => true,
            _ => return Err(BadUrl::Scheme),
        };
        let (rest, sentinel) = match rest.split_once('?') {
            _ if rest.contains('#') => return Err(BadUrl::Parameters),
            Some((rest, parameters)) if kind == "sentinel" => (rest, sentinel_login(parameters)?),
            Some(_) => return Err(BadUrl::Parameters),
            None => (rest, None),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let (user, password) = (decoded(user)?, decoded(password)?);
        let path = path.strip_suffix('/').unwrap_or(path);
        let (topology, db) = match kind {
            "" => {
                let mut addresses = addresses(hosts, 6379)?;
                let address = addresses.pop().ok_or(BadUrl::Host(1))?;
                if !addresses.is_empty() {
                    return Err(BadUrl::ManyHosts);
                }
                (Topology::Standalone(address), database(path)?)
            }
            "sentinel" => {
                let (name, db) = path.split_once('/').unwrap_or((path, ""));
                let name = decoded(name)?.ok_or(BadUrl::MasterName)?;
                (Topology::Sentinel(addresses(hosts, 26379)?, name), database(db)?)
            }
            "cluster" if matches!(path, "" | "0") => (Topology::Cluster(addresses(hosts, 6379)?), 0),
            "cluster" => return Err(BadUrl::ClusterDb),
            _ => return Err(BadUrl::Scheme),
        };
        Ok(Self { topology, tls, user, password, db, sentinel })
    }

    /// The URL with the credentials for Sentinels in place of the credentials of the servers.
    pub(crate) fn of_sentinels(&self) -> Self {
        let own = || (self.user.clone(), self.password.clone());
        let separate = |login: &SentinelLogin| (login.user.clone(), Some(login.password.clone()));
        let (user, password) = self.sentinel.as_ref().map_or_else(own, separate);
        Self { user, password, db: 0, ..self.clone() }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisUrl")
            .field("topology", &self.topology)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Reads `sentinel_username=…&sentinel_password=…`.
fn sentinel_login(parameters: &str) -> Result<Option<SentinelLogin>, BadUrl> {
    let (mut user, mut password) = (None, None);
    for parameter in parameters.split('&') {
        let (name, value) = parameter.split_once('=').ok_or(BadUrl::Parameters)?;
        let field = match name {
            "sentinel_username" => &mut user,
            "sentinel_password" => &mut password,
            _ => return Err(BadUrl::Parameters),
        };
        if field.replace(decoded(value)?).is_some() {
            return Err(BadUrl::Parameters);
        }
    }
    match (user.flatten(), password.flatten()) {
        (user, Some(password)) => Ok(Some(SentinelLogin { user, password })),
        (Some(_), None) => Err(BadUrl::SentinelPassword),
        (None, None) => Ok(None),
    }
}

fn addresses(hosts: &str, default_port: u16) -> Result<Vec<Endpoint>, BadUrl> {
    let address = |(index, text): (usize, &str)| address(text, default_port).ok_or(BadUrl::Host(index + 1));
    hosts.split(',').enumerate().map(address).collect()
}

fn address(text: &str, default_port: u16) -> Option<Endpoint> {
    // A colon inside brackets belongs to an IPv6 address.
    let (host, port) = match text.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (text, default_port),
    };
    let host = match Host::parse(host).ok()? {
        // `Host` accepts an encoded comma in a name. Then the name would later be read as two.
        Host::Domain(name) if name.bytes().all(is_of_name) => name,
        Host::Domain(_) => return None,
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    Some((host, port))
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

fn database(text: &str) -> Result<i64, BadUrl> {
    match text {
        "" => Ok(0),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().ok().filter(|db| *db <= 1_000_000).ok_or(BadUrl::Db)
        }
        _ => Err(BadUrl::Db),
    }
}

/// Percent-decodes a text; `None`: it is empty.
fn decoded(text: &str) -> Result<Option<String>, BadUrl> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let (high, low) =
                    (digit(*high).ok_or(BadUrl::Credentials)?, digit(*low).ok_or(BadUrl::Credentials)?);
                bytes.push(high * 16 + low);
                after
            }
            (b'%', _) => return Err(BadUrl::Credentials),
            (byte, after) => {
                bytes.push(*byte);
                after
            }
        };
    }
    let text = String::from_utf8(bytes).map_err(|_| BadUrl::Credentials)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Endpoint {
        (host.to_owned(), port)
    }

    fn parsed(url: &str) -> RedisUrl {
        RedisUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn one_server() {
        let target = parsed("redis://cache\n");
        assert_eq!(target.topology, Topology::Standalone(address("cache", 6379)));
        assert_eq!((target.tls, target.user, target.password, target.db), (false, None, None, 0));
        let target = parsed("rediss://docket:p%40ss%2F:w@[::1]:6380/3");
        assert_eq!(target.topology, Topology::Standalone(address("::1", 6380)));
        assert_eq!(
            (target.tls, target.user.as_deref(), target.password.as_deref(), target.db),
            (true, Some("docket"), Some("p@ss/:w"), 3)
        );
        assert_eq!(parsed("redis://:secret@10.0.0.1/").password.as_deref(), Some("secret"));
        assert_eq!(parsed("redis://cache:65535/1000000").db, 1_000_000);
    }

    #[test]
    fn sentinels_and_the_name_of_the_primary() {
        let target = parsed("redis+sentinel://:x@s-0.s,s-1.s:26380/my%20master/2");
        let sentinels = vec![address("s-0.s", 26379), address("s-1.s", 26380)];
        assert_eq!(target.topology, Topology::Sentinel(sentinels, "my master".to_owned()));
        assert_eq!((target.db, target.password.as_deref()), (2, Some("x")));
    }

    #[test]
    fn sentinels_may_have_credentials_of_their_own() {
        let login = |url: &str| {
            let url = parsed(url).of_sentinels();
            (url.user, url.password)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(login("redis+sentinel://u:p@s/main/2"), (some("u"), some("p")), "the servers' login");
        assert_eq!(login("redis+sentinel://u:p@s/main?sentinel_password=q%26%3F"), (None, some("q&?")));
        let both = "redis+sentinel://u:p@s/main/2?sentinel_username=v&sentinel_password=q";
        assert_eq!(login(both), (some("v"), some("q")));
        let target = parsed(both);
        assert_eq!(
            (target.user.as_deref(), target.password.as_deref(), target.db),
            (Some("u"), Some("p"), 2)
        );
        assert_eq!(target.of_sentinels().db, 0);
        assert!(!format!("{target:?}").contains('q'), "{target:?}");
    }

    #[test]
    fn nodes_of_a_cluster() {
        let target = parsed("rediss+cluster://n1:7000,n2");
        assert_eq!(target.topology, Topology::Cluster(vec![address("n1", 7000), address("n2", 6379)]));
        assert!(target.tls);
        assert_eq!(parsed("redis+cluster://n1/0").topology, Topology::Cluster(vec![address("n1", 6379)]));
        assert_eq!(
            parsed("redis+cluster://my_redis-0.s.").topology,
            Topology::Cluster(vec![address("my_redis-0.s.", 6379)])
        );
    }

    #[test]
    fn error_names_the_problem_and_not_the_url() {
        for (url, error) in [
            ("", BadUrl::Scheme),
            ("hunter2", BadUrl::Scheme),
            ("http://:hunter2@host", BadUrl::Scheme),
            ("redis+ring://:hunter2@host", BadUrl::Scheme),
            ("redis://:hunter2@", BadUrl::Host(1)),
            ("redis://:hunter2@host:0", BadUrl::Host(1)),
            ("redis://:hunter2@host:port", BadUrl::Host(1)),
            ("redis://:hunter2@a b", BadUrl::Host(1)),
            ("redis://:hunter2@a%2Cb", BadUrl::Host(1)),
            ("redis+cluster://:hunter2@a,b\u{ff0c}c", BadUrl::Host(2)),
            ("redis://:hunter2@a,b", BadUrl::ManyHosts),
            ("redis+cluster://:hunter2@a,,b", BadUrl::Host(2)),
            ("redis+cluster://:hunter2@a/1", BadUrl::ClusterDb),
            ("redis://:hunter2%@host", BadUrl::Credentials),
            ("redis://:hunter2%ff@host", BadUrl::Credentials),
            ("redis://:hunter2%zz@host", BadUrl::Credentials),
            ("redis+sentinel://:hunter2@a,b", BadUrl::MasterName),
            ("redis+sentinel://:hunter2@a,b//0", BadUrl::MasterName),
            ("redis+sentinel://:hunter2@a/main/x", BadUrl::Db),
            ("redis://:hunter2@host/-1", BadUrl::Db),
            ("redis://:hunter2@host/+1", BadUrl::Db),
            ("redis://:hunter2@host/one", BadUrl::Db),
            ("redis://:hunter2@host/1000001", BadUrl::Db),
            ("redis://:hunter2@host:65536", BadUrl::Host(1)),
            ("redis+cluster://:hunter2@a/0/1", BadUrl::ClusterDb),
            ("redis://:hunter2@host?db=1", BadUrl::Parameters),
            ("redis://:hunter2@host#insecure", BadUrl::Parameters),
            ("redis://:hunter2@host?sentinel_password=hunter2", BadUrl::Parameters),
            ("redis+cluster://host?sentinel_password=hunter2", BadUrl::Parameters),
            ("redis+sentinel://:hunt?er2@host/main", BadUrl::Parameters),
            ("redis+sentinel://host/main?sentinel_password=hunter2&sentinel_password=x", BadUrl::Parameters),
            ("redis+sentinel://host/main?sentinel_password=hunter2%", BadUrl::Credentials),
            ("redis+sentinel://host/main?sentinel_username=hunter2", BadUrl::SentinelPassword),
        ] {
            let refused = RedisUrl::parse(url).expect_err(url);
            assert_eq!(refused, error, "{url}");
            assert!(!refused.to_string().contains("hunter2"));
        }
        let debug = format!("{:?}", parsed("redis://user:hunter2@host"));
        assert!(!debug.contains("hunter2") && !debug.contains("user"), "{debug}");
    }
}
