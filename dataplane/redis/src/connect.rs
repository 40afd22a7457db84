//! The connection: one per process, shared by all callers, and replaced when it breaks.
//!
//! A call ends within two seconds, even if Redis is stopped, unplugged or failing over. The caller retries. Each call
//! makes a new connection if the last connection is broken. The URL may change: [`follow`](crate::follow::follow) replaces it.

use std::error::Error as StdError;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, io};

use docket_crds::pem;
use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, ServerErrorKind, TlsCertificates,
};
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinSet;

use crate::error::Error;
use crate::url::{Endpoint, RedisUrl, Topology};

/// The time limit of a response. When it is reached, the connection is dropped.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit of connecting: DNS, Sentinels, TCP, TLS and authentication together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two attempts to connect. Calls in between fail immediately.
const PAUSE: Duration = Duration::from_millis(100);

/// The pause before a broken subscription is replaced.
const RESUBSCRIBE_AFTER: Duration = Duration::from_millis(250);
/// The lifetime of a subscription, which is then replaced. If its network broke silently, it would never receive
/// anything again.
const SUBSCRIPTION_LIFETIME: Duration = Duration::from_secs(60);

/// A connection to Redis. Clones are the same connection.
#[derive(Clone)]
pub struct RedisConnection(Arc<Inner>);

struct Inner {
    target: parking_lot::RwLock<Arc<Target>>,
    slot: Mutex<ConnectionSlot>,
    /// The number of connections that were made.
    made: watch::Sender<u64>,
    /// [`NOT_CALLED`], [`AWAY`] or [`UP`].
    state: AtomicU8,
    /// Woken when the URL may have changed: the connection is lost, or Redis refused the credentials.
    doubted: Notify,
    /// Whether the files with the URL name something else, which can't be used.
    is_stale: AtomicBool,
}

/// Where Redis is, and how to connect to it.
struct Target {
    url: RedisUrl,
    tls: TlsCertificates,
    /// The Cluster node that the next subscription uses.
    next_node: parking_lot::Mutex<usize>,
}

const NOT_CALLED: u8 = 0;
const AWAY: u8 = 1;
const UP: u8 = 2;

#[derive(Default)]
struct ConnectionSlot {
    live: Option<(Live, u64)>,
    /// When the last attempt to connect ended, and why.
    failed: Option<(Instant, Error)>,
}

#[derive(Clone)]
enum Live {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Live {
    async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, RedisError> {
        match self {
            Self::One(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisConnection").field(&self.target().url).finish()
    }
}

/// The server does not know the script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoScript;

impl RedisConnection {
    /// A connection, which connects at its first use. `ca_pem` has the authorities, in PEM, that may have signed the
    /// servers' certificates; `None`: the public ones. Errors: TLS can't be set up with `ca_pem`.
    pub fn new(url: RedisUrl, ca_pem: Option<Vec<u8>>) -> Result<Self, Error> {
        let root_cert = ca_pem.map(|bundle| normalised(&bundle)).transpose()?;
        let tls = TlsCertificates { client_tls: None, root_cert };
        let target = Target { url, tls, next_node: parking_lot::Mutex::default() };
        // Reads the certificates once, so that a broken one is reported now.
        target.client(&("localhost".to_owned(), 1), None).map_err(|error| Error::Unfit(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            target: parking_lot::RwLock::new(Arc::new(target)),
            slot: Mutex::default(),
            made: watch::Sender::new(0),
            state: AtomicU8::new(NOT_CALLED),
            doubted: Notify::new(),
            is_stale: AtomicBool::new(false),
        })))
    }

    /// Whether Redis is a Cluster. Each primary of a Cluster has its own settings.
    pub fn is_cluster(&self) -> bool {
        matches!(self.target().url.topology, Topology::Cluster(_))
    }

    /// Whether the files with the URL name another Redis or other credentials, which can't be used. Then this connection
    /// keeps the URL that it had.
    pub fn is_stale(&self) -> bool {
        self.0.is_stale.load(Ordering::Relaxed)
    }

    /// Records whether the files name something that can't be used.
    pub(crate) fn set_stale(&self, is_stale: bool) {
        self.0.is_stale.store(is_stale, Ordering::Relaxed);
    }

    /// Whether both connections have the same URL and the same certificates.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let (one, other) = (self.target(), other.target());
        one.url == other.url && one.tls.root_cert == other.tls.root_cert
    }

    /// Returns when the URL may have changed: since the last call, the connection was lost, could not be made, or Redis
    /// refused the credentials.
    pub(crate) async fn doubted(&self) {
        self.0.doubted.notified().await;
    }

    /// Uses the URL and the connection of `other` from now on. Calls under way finish on the old connection, which is then
    /// closed. Subscriptions are replaced.
    pub(crate) async fn adopt(&self, other: &Self) {
        let live = other.0.slot.lock().await.live.take();
        let mut slot = self.0.slot.lock().await;
        *self.0.target.write() = other.target();
        let number = *self.0.made.borrow() + 1;
        slot.live = live.map(|(live, _)| (live, number));
        slot.failed = None;
        self.0.state.store(UP, Ordering::Relaxed);
        self.0.made.send_replace(number);
    }

    fn target(&self) -> Arc<Target> {
        Arc::clone(&self.0.target.read())
    }

    /// Whether Redis responded to the last call that ended, even if it refused the call. `None`: no call has ended yet.
    pub fn is_up(&self) -> Option<bool> {
        match self.0.state.load(Ordering::Relaxed) {
            NOT_CALLED => None,
            state => Some(state == UP),
        }
    }

    /// Runs one command. It may run twice if a connection breaks.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        self.try_query(command).await?.map_err(|NoScript| Error::Refused("NOSCRIPT".to_owned()))
    }

    /// Runs one command that names a script by its digest, and records whether Redis responded.
    pub(crate) async fn try_query<T: FromRedisValue>(
        &self,
        command: &Cmd,
    ) -> Result<Result<T, NoScript>, Error> {
        let result = self.call(command).await;
        let is_up = matches!(result, Ok(_) | Err(Error::Refused(_)));
        self.0.state.store(if is_up { UP } else { AWAY }, Ordering::Relaxed);
        result
    }

    async fn call<T: FromRedisValue>(&self, command: &Cmd) -> Result<Result<T, NoScript>, Error> {
        let result = async {
            match self.attempt(command).await {
                // The server had closed an idle connection, or has just become a replica: a new connection may work.
                Err(CallFailure::Asked(error)) if is_worth_a_retry(&error) => self.attempt(command).await,
                result => result,
            }
        };
        let result = tokio::time::timeout(CONNECT_TIMEOUT + RESPONSE_TIMEOUT, result).await;
        match result.map_err(|_| Error::Away("no response in time".to_owned()))? {
            Ok(answer) => Ok(Ok(answer)),
            Err(CallFailure::Asked(error))
                if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) =>
            {
                Ok(Err(NoScript))
            }
            Err(CallFailure::Asked(error)) if is_broken(&error) || is_busy(&error) => {
                Err(Error::Away(error.to_string()))
            }
            Err(CallFailure::Asked(error)) => Err(Error::Refused(error.to_string())),
            Err(CallFailure::Unconnected(error)) => Err(error),
        }
    }

    async fn attempt<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, CallFailure> {
        let (mut live, number) = self.live().await.map_err(CallFailure::Unconnected)?;
        let result = live.query(command).await;
        if let Err(error) = &result
            && (is_broken(error) || is_denied(error))
        {
            self.0.doubted.notify_one();
        }
        if let Err(error) = &result
            && is_broken(error)
        {
            forget(&mut self.0.slot.lock().await.live, number);
        }
        result.map_err(CallFailure::Asked)
    }

    async fn live(&self) -> Result<(Live, u64), Error> {
        let asked = Instant::now();
        let mut slot = self.0.slot.lock().await;
        if let Some(live) = &slot.live {
            return Ok(live.clone());
        }
        // Callers that waited for this attempt use its result and do not try again.
        if let Some((at, error)) = &slot.failed
            && (*at >= asked || at.elapsed() < PAUSE)
        {
            return Err(error.clone());
        }
        let target = self.target();
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, target.connect()).await;
        match connected.unwrap_or_else(|_| Err(Error::Away("no connection in time".to_owned()))) {
            Ok(live) => {
                let number = *self.0.made.borrow() + 1;
                slot.live = Some((live.clone(), number));
                slot.failed = None;
                self.0.made.send_replace(number);
                Ok((live, number))
            }
            Err(error) => {
                slot.failed = Some((Instant::now(), error.clone()));
                self.0.doubted.notify_one();
                Err(error)
            }
        }
    }

    /// Listens to a channel without end. Calls `heard` for each message from other processes (other than `own`), and
    /// whenever messages may have been lost.
    pub async fn listen(self, channel: String, own: String, heard: impl Fn() + Send) {
        'listen: loop {
            // A new connection of the process (to a new primary, or after a server hung) means that the subscription
            // must be replaced too.
            let mut made = self.0.made.subscribe();
            let target = self.target();
            let subscribed = tokio::time::timeout(CONNECT_TIMEOUT, target.subscribe(&channel)).await;
            if let Ok(Ok(subscription)) = subscribed {
                heard();
                let mut messages = subscription.into_on_message();
                let mut old = pin!(tokio::time::sleep(SUBSCRIPTION_LIFETIME));
                loop {
                    tokio::select! {
                        message = messages.next() => match message {
                            Some(message) if message.get_payload_bytes() == own.as_bytes() => continue,
                            Some(_) => {}
                            None => break,
                        },
                        _ = made.changed() => break,
                        () = &mut old => continue 'listen,
                    }
                    heard();
                }
            }
            tokio::time::sleep(RESUBSCRIBE_AFTER).await;
        }
    }
}

/// The certificates of a bundle, in the form that the Redis library reads.
fn normalised(bundle: &[u8]) -> Result<Vec<u8>, Error> {
    let certificates = pem::certificates(bundle).map_err(|bad| Error::Unfit(bad.to_string()))?;
    Ok(pem::text(&certificates).into_bytes())
}

/// Forgets the connection with this number, unless a newer one has replaced it.
fn forget<L>(live: &mut Option<(L, u64)>, number: u64) {
    live.take_if(|(_, current)| *current == number);
}

enum CallFailure {
    Unconnected(Error),
    Asked(RedisError),
}

/// Whether the connection is broken or leads to the wrong server.
fn is_broken(error: &RedisError) -> bool {
    use ServerErrorKind as Server;
    match error.kind() {
        ErrorKind::Server(kind) => {
            matches!(
                kind,
                Server::ReadOnly | Server::MasterDown | Server::Moved | Server::Ask | Server::ClusterDown
            )
        }
        ErrorKind::Extension | ErrorKind::UnexpectedReturnType | ErrorKind::Client => false,
        _ => true,
    }
}

/// The error of a failed connection. A server that does not respond may come back. A server that refuses the
/// credentials, or that is not trusted, needs another setting.
fn unconnected(error: RedisError) -> Error {
    if is_denied(&error) { Error::Unfit(error.to_string()) } else { Error::Away(error.to_string()) }
}

fn is_denied(error: &RedisError) -> bool {
    // The redis crate wraps a TLS error in a shared I/O error.
    let io = error.source().and_then(|source| source.downcast_ref::<Arc<dyn StdError + Send + Sync>>());
    let tls = io.and_then(|io| io.downcast_ref::<io::Error>()).and_then(io::Error::get_ref);
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
        || tls.is_some_and(|tls| tls.is::<rustls::Error>())
}

/// Whether the same server may be able to run the command soon.
fn is_busy(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::TryAgain))
}

fn is_worth_a_retry(error: &RedisError) -> bool {
    error.is_connection_dropped() || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

impl Target {
    async fn connect(&self) -> Result<Live, Error> {
        match &self.url.topology {
            Topology::Cluster(nodes) => Ok(Live::Cluster(
                self.cluster(nodes)
                    .map_err(unconnected)?
                    .get_async_connection()
                    .await
                    .map_err(unconnected)?,
            )),
            Topology::Sentinel(..) | Topology::Standalone(_) => {
                let client = self.primary().await?;
                Ok(Live::One(multiplexed(&client).await.map_err(unconnected)?))
            }
        }
    }

    fn cluster(&self, nodes: &[Endpoint]) -> Result<ClusterClient, RedisError> {
        let mut infos = Vec::with_capacity(nodes.len());
        for node in nodes {
            infos.push(self.client(node, Some(&self.url))?.get_connection_info().clone());
        }
        let mut builder = ClusterClient::builder(infos)
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(RESPONSE_TIMEOUT)
            .retries(5)
            .min_retry_wait(50)
            .max_retry_wait(250)
            .tcp_settings(redis::io::tcp::TcpSettings::default().set_nodelay(true));
        if self.url.tls {
            builder = builder.certs(self.tls.clone());
        }
        builder.build()
    }

    /// A client of the server that accepts writes.
    async fn primary(&self) -> Result<Client, Error> {
        match &self.url.topology {
            Topology::Standalone(address) => self.client(address, Some(&self.url)).map_err(unconnected),
            Topology::Cluster(nodes) => {
                let mut next = self.next_node.lock();
                *next = (*next + 1) % nodes.len();
                self.client(&nodes[*next], Some(&self.url)).map_err(unconnected)
            }
            Topology::Sentinel(sentinels, name) => self.ask_sentinels(sentinels, name).await,
        }
    }

    /// Asks all Sentinels at the same time, and takes the first primary whose own ROLE is `master`: during a failover,
    /// some Sentinels know the new primary later than others.
    ///
    /// `redis::sentinel` (1.8) is not used. It waits for responses in the order of the URL, so that one silent
    /// Sentinel uses up the time limit of a second. And it must know beforehand whether the Sentinels require a
    /// password.
    async fn ask_sentinels(&self, sentinels: &[Endpoint], name: &str) -> Result<Client, Error> {
        let mut asked = JoinSet::new();
        let log_in = self.url.of_sentinels();
        for sentinel in sentinels {
            let open = self.client(sentinel, None).map_err(unconnected)?;
            let with_password = self.client(sentinel, Some(&log_in)).map_err(unconnected)?;
            let name = name.to_owned();
            asked.spawn(async move {
                match ask_sentinel(&open, &name).await {
                    Err(error)
                        if matches!(error.code(), Some("NOAUTH" | "NOPERM"))
                            || error.kind() == ErrorKind::AuthenticationFailed =>
                    {
                        ask_sentinel(&with_password, &name).await
                    }
                    answer => answer,
                }
            });
        }
        let mut last = Error::Away(format!("no Sentinel knows a primary by the name {name}"));
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(Some(address))) => {
                    let client = self.client(&address, Some(&self.url)).map_err(unconnected)?;
                    match role(&client).await {
                        Ok(role) if role == "master" => return Ok(client),
                        Ok(_) => {
                            last = Error::Away("the primary that the Sentinels name is a replica".to_owned())
                        }
                        Err(error) => last = unconnected(error),
                    }
                }
                Ok(Err(error)) => last = unconnected(error),
                Ok(Ok(None)) | Err(_) => {}
            }
        }
        Err(last)
    }

    /// A client of one server. `log_in`: the URL with the credentials and the database to use.
    fn client(&self, (host, port): &Endpoint, log_in: Option<&RedisUrl>) -> Result<Client, RedisError> {
        let mut redis = RedisConnectionInfo::default();
        if let Some(target) = log_in {
            redis = redis.set_db(target.db);
            if let Some(user) = &target.user {
                redis = redis.set_username(user);
            }
            if let Some(password) = &target.password {
                redis = redis.set_password(password);
            }
        }
        let (host, port) = (host.clone(), *port);
        let addr = match self.url.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let info = addr.into_connection_info()?.set_redis_settings(redis).set_tcp_settings(tcp);
        match self.url.tls {
            true => Client::build_with_tls(info, self.tls.clone()),
            false => Client::open(info),
        }
    }

    async fn subscribe(&self, channel: &str) -> Result<redis::aio::PubSub, Error> {
        let mut subscription = self.primary().await?.get_async_pubsub().await.map_err(unconnected)?;
        subscription.subscribe(channel).await.map_err(unconnected)?;
        Ok(subscription)
    }
}

async fn multiplexed(client: &Client) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    client.get_multiplexed_async_connection_with_config(&config).await
}

async fn ask_sentinel(client: &Client, name: &str) -> Result<Option<Endpoint>, RedisError> {
    let mut connection = multiplexed(client).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(name).query_async(&mut connection).await
}

async fn role(client: &Client) -> Result<String, RedisError> {
    let mut connection = multiplexed(client).await?;
    let answer: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut connection).await?;
    Ok(answer.into_iter().next().map(redis::from_redis_value).transpose()?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = include_str!("../../../crds/src/compile/authority/prime256v1.pem");

    #[tokio::test]
    async fn redis_is_up_or_away_once_it_was_called() {
        let target = RedisUrl::parse("redis://127.0.0.1:1").expect("a URL");
        let connection = RedisConnection::new(target, None).expect("without TLS");
        assert_eq!(connection.is_up(), None);
        assert!(connection.query::<()>(&redis::cmd("PING")).await.is_err(), "nothing listens there");
        assert_eq!(connection.is_up(), Some(false));
    }

    #[test]
    fn error_says_whether_the_connection_is_replaced_and_the_call_repeated() {
        use ServerErrorKind as Server;
        let of = |kind: ErrorKind| RedisError::from((kind, "an error"));
        for (kind, expected) in [
            // Whether a connection with this error is broken, whether Redis is busy, and whether a retry is useful.
            (ErrorKind::Server(Server::ReadOnly), (true, false, true)),
            (ErrorKind::Server(Server::MasterDown), (true, false, false)),
            (ErrorKind::Server(Server::Moved), (true, false, false)),
            (ErrorKind::Server(Server::Ask), (true, false, false)),
            (ErrorKind::Server(Server::ClusterDown), (true, false, false)),
            (ErrorKind::Server(Server::BusyLoading), (false, true, false)),
            (ErrorKind::Server(Server::TryAgain), (false, true, false)),
            (ErrorKind::Server(Server::ResponseError), (false, false, false)),
            (ErrorKind::Server(Server::NoScript), (false, false, false)),
            (ErrorKind::Extension, (false, false, false)),
            (ErrorKind::UnexpectedReturnType, (false, false, false)),
            (ErrorKind::Client, (false, false, false)),
            (ErrorKind::Parse, (true, false, false)),
            (ErrorKind::Io, (true, false, true)),
        ] {
            let error = of(kind);
            assert_eq!((is_broken(&error), is_busy(&error), is_worth_a_retry(&error)), expected, "{kind:?}");
        }
    }

    #[test]
    fn server_that_refuses_the_credentials_is_not_away() {
        let of = |kind: ErrorKind| unconnected(RedisError::from((kind, "an error")));
        assert!(matches!(of(ErrorKind::AuthenticationFailed), Error::Unfit(_)));
        assert!(matches!(of(ErrorKind::Server(ServerErrorKind::NoPerm)), Error::Unfit(_)));
        assert!(matches!(of(ErrorKind::Server(ServerErrorKind::BusyLoading)), Error::Away(_)));
        assert!(matches!(of(ErrorKind::Io), Error::Away(_)));
        let untrusted = io::Error::other(rustls::Error::DecryptError);
        assert!(matches!(unconnected(RedisError::from(untrusted)), Error::Unfit(_)));
        assert!(matches!(unconnected(RedisError::from(io::Error::other("reset"))), Error::Away(_)));
    }

    #[tokio::test]
    async fn calls_within_a_tenth_of_a_second_of_a_failed_connection_try_no_other() {
        let target = RedisUrl::parse("redis://127.0.0.1:1").expect("a URL");
        let connection = RedisConnection::new(target, None).expect("without TLS");
        // Whether a call that comes this time after a failure only repeats the failure.
        let repeats = async |after: Duration| {
            let failed = (Instant::now() - after, Error::Away("as before".to_owned()));
            connection.0.slot.lock().await.failed = Some(failed);
            let error = connection.query::<()>(&redis::cmd("PING")).await.expect_err("nothing listens there");
            error.to_string().contains("as before")
        };
        assert!(!repeats(PAUSE).await);
        // A slow machine gets more tries.
        let mut tries = 1;
        while !repeats(Duration::ZERO).await {
            tries += 1;
            assert!(tries < 9, "each call connects");
        }
    }

    #[test]
    fn newer_connection_than_the_broken_one_stays() {
        let mut live = Some(("a connection", 2));
        forget(&mut live, 1);
        assert!(live.is_some());
        forget(&mut live, 2);
        assert!(live.is_none());
    }

    #[test]
    fn pauses_are_the_documented_ones() {
        assert_eq!([PAUSE, RESUBSCRIBE_AFTER].map(|pause| pause.as_millis()), [100, 250]);
        assert_eq!(SUBSCRIPTION_LIFETIME, Duration::from_secs(60));
    }

    #[test]
    fn call_ends_within_two_seconds() {
        assert_eq!(CONNECT_TIMEOUT + RESPONSE_TIMEOUT, Duration::from_secs(2));
    }

    fn refusal(bundle: &str) -> Option<String> {
        let target = RedisUrl::parse("rediss://redis.example:6379").expect("a URL");
        RedisConnection::new(target, Some(bundle.into())).err().map(|error| error.to_string())
    }

    #[test]
    fn authorities_are_read_as_everywhere_and_a_broken_one_is_named() {
        assert_eq!(refusal(CA), None);
        assert_eq!(refusal(&format!("\u{feff}{}\u{feff}{CA}", CA.replace('\n', "\r\n    "))), None);
        let error = refusal(&format!("{CA}{}", CA.replace('M', "!"))).expect("an error");
        assert!(error.contains("certificate 2 of 2 is not base64"), "{error}");
        let error = refusal("none").expect("an error");
        assert!(error.contains("must contain at least one certificate in PEM form"), "{error}");
    }
}
