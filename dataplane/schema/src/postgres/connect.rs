//! Opens a connection: addresses, TCP, TLS, login. [`Frames`] then checks what the server sends, inside TLS.
//!
//! The library could connect by itself, but it reads whatever a server sends. So it gets an open stream, which fails
//! when the server sends more than Docket reads.

use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Error, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::external::ExternalDatabases;
use super::frames::{Excess, Frames};
use super::target::DatabaseTarget;

/// Asks the server for TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A boxed future: its size does not add to the size of the future that awaits it.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A connection whose server has accepted the login.
pub struct Connected {
    /// Runs statements while `connection` is polled.
    pub client: Client,
    /// Reads and writes. It ends when the client is dropped, when the connection is lost, or with an [`Excess`].
    pub connection: Boxed<'static, Result<(), Error>>,
    /// Why the connection ended, if the server sent more than Docket reads.
    pub excess: ExcessFound,
}

/// The [`Excess`] for which a connection was ended; it is set at that moment.
#[derive(Clone, Debug, Default)]
pub struct ExcessFound(Arc<OnceLock<Excess>>);

impl ExcessFound {
    /// `None`: the server has not sent too much.
    pub fn get(&self) -> Option<Excess> {
        self.0.get().copied()
    }
}

/// The host of an external database has an address that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host's address is not allowed for external databases; see --allow-external-database")]
pub struct NotAllowed;

impl DatabaseTarget {
    /// Returns the hosts of the URL in its order, each as `host:port`, separated by commas.
    pub fn hosts(&self) -> String {
        let named = hosts(&self.config).into_iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        named.collect::<Vec<_>>().join(",")
    }

    /// Connects and logs in to the first host and address that accepts. It takes at most the configured
    /// `connect_timeout` for each address; the caller limits the rest.
    pub fn connect(&self) -> Boxed<'_, Result<Connected, Error>> {
        Box::pin(self.connect_to_any())
    }

    async fn connect_to_any(&self) -> Result<Connected, Error> {
        let mut error = None;
        for (host, port) in hosts(&self.config) {
            let addresses: Vec<SocketAddr> = match lookup_host((&*host, port)).await {
                Ok(addresses) => addresses.collect(),
                Err(failed) => {
                    error = self.log_in(Wire::Failed(Some(failed))).await.err();
                    continue;
                }
            };
            if !self.permits(&host, &addresses) {
                let refused = io::Error::new(io::ErrorKind::PermissionDenied, NotAllowed);
                return self.log_in(Wire::Failed(Some(refused))).await;
            }
            for address in addresses {
                let wire = self.dial(&host, address).await;
                match self.log_in(wire.unwrap_or_else(|error| Wire::Failed(Some(error)))).await {
                    Ok(connected) => return Ok(connected),
                    Err(failed) => error = Some(failed),
                }
            }
        }
        match error {
            Some(error) => Err(error),
            None => {
                let none = io::Error::new(io::ErrorKind::InvalidInput, "the URL's host has no address");
                self.log_in(Wire::Failed(Some(none))).await
            }
        }
    }

    /// Whether all addresses of a host are allowed. As for deliveries, one address that is not allowed refuses them
    /// all: such a name is a mistake or an attack.
    fn permits(&self, host: &str, addresses: &[SocketAddr]) -> bool {
        let permits = |databases: &Arc<ExternalDatabases>| {
            addresses.iter().all(|address| databases.permits(host, address.ip()))
        };
        self.external.as_ref().is_none_or(permits)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a database of the platform, or an external one whose addresses were checked"
    )]
    async fn dial(&self, host: &str, address: SocketAddr) -> io::Result<Wire> {
        let tcp = match self.config.get_connect_timeout() {
            Some(limit) => timeout(*limit, TcpStream::connect(address)).await?,
            None => TcpStream::connect(address).await,
        };
        let mut tcp = tcp?;
        set_options(&tcp, &self.config)?;
        if self.config.get_ssl_mode() == SslMode::Disable {
            return Ok(Wire::Plain(tcp));
        }
        tcp.write_all(&SSL_REQUEST).await?;
        match (tcp.read_u8().await?, self.config.get_ssl_mode()) {
            (b'S', _) => {}
            (_, SslMode::Prefer) => return Ok(Wire::Plain(tcp)),
            _ => return Err(io::Error::other("server does not support TLS")),
        }
        let mut tls = self.tls.clone();
        let tls = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut tls, host).map_err(io::Error::other)?;
        Ok(Wire::Tls(Box::new(tls.connect(tcp).await?)))
    }

    async fn log_in(&self, wire: Wire) -> Result<Connected, Error> {
        let excess = ExcessFound::default();
        let stream = Bounded { wire, frames: Frames::default(), excess: excess.clone() };
        let mut config = self.config.clone();
        // The library uses the stream as it is, with its channel binding.
        config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        let (client, connection) = config.connect_raw(stream, AsItIs).await?;
        let mut connected = Connected { client, connection: Box::pin(connection), excess };
        match self.config.get_target_session_attrs() {
            TargetSessionAttrs::Any => Ok(connected),
            wanted => {
                let is_wanted = is_wanted(&mut connected, wanted).await?;
                match is_wanted {
                    true => Ok(connected),
                    false => {
                        let other =
                            io::Error::other("the server is not of the kind that target_session_attrs names");
                        Box::pin(self.log_in(Wire::Failed(Some(other)))).await
                    }
                }
            }
        }
    }
}

async fn is_wanted(connected: &mut Connected, wanted: TargetSessionAttrs) -> Result<bool, Error> {
    let asked = connected.client.simple_query("SHOW transaction_read_only");
    let messages = tokio::select! {
        messages = asked => messages?,
        ended = &mut connected.connection => return ended.map(|()| false),
    };
    let read_only = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.try_get(0).ok().flatten() == Some("on")),
        _ => None,
    });
    Ok(match wanted {
        TargetSessionAttrs::ReadWrite => read_only == Some(false),
        TargetSessionAttrs::ReadOnly => read_only == Some(true),
        _ => true,
    })
}

/// The hosts in the order of the URL, each with its port. An address in `hostaddr` replaces a host's name.
fn hosts(config: &Config) -> Vec<(String, u16)> {
    let (names, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let host = |place: usize| match (addresses.get(place), names.get(place)) {
        (Some(address), _) => Some(address.to_string()),
        (None, Some(Host::Tcp(name))) => Some(name.clone()),
        (None, _) => None,
    };
    let port = |place: usize| ports.get(place).or(ports.first()).copied().unwrap_or(5432);
    (0..names.len().max(addresses.len())).filter_map(|place| Some((host(place)?, port(place)))).collect()
}

fn set_options(tcp: &TcpStream, config: &Config) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(tcp);
    if let Some(limit) = config.get_tcp_user_timeout() {
        socket.set_tcp_user_timeout(Some(*limit))?;
    }
    if config.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        if let Some(interval) = config.get_keepalives_interval() {
            keepalive = keepalive.with_interval(interval);
        }
        if let Some(retries) = config.get_keepalives_retries() {
            keepalive = keepalive.with_retries(retries);
        }
        socket.set_tcp_keepalive(&keepalive)?;
    }
    Ok(())
}

/// The stream to the server.
enum Wire {
    Plain(TcpStream),
    Tls(Box<<MakeRustlsConnect as MakeTlsConnect<TcpStream>>::Stream>),
    /// No stream, but an error: the library makes its own errors only from errors of a stream.
    Failed(Option<io::Error>),
}

/// A stream to a server that reads no more than Docket needs.
struct Bounded {
    wire: Wire,
    frames: Frames,
    excess: ExcessFound,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(excess) = this.excess.get() {
            return Poll::Ready(Err(io::Error::other(excess)));
        }
        let before = buf.filled().len();
        let read = match &mut this.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Wire::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
            Wire::Failed(error) => Poll::Ready(Err(failed(error))),
        };
        std::task::ready!(read)?;
        match this.frames.take(&buf.filled()[before..]) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(excess) => {
                let excess = *this.excess.0.get_or_init(|| excess);
                Poll::Ready(Err(io::Error::other(excess)))
            }
        }
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Wire::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
            Wire::Failed(error) => Poll::Ready(Err(failed(error))),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Wire::Tls(tls) => Pin::new(tls).poll_flush(cx),
            Wire::Failed(error) => Poll::Ready(Err(failed(error))),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Wire::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            Wire::Failed(_) => Poll::Ready(Ok(())),
        }
    }
}

fn failed(error: &mut Option<io::Error>) -> io::Error {
    error.take().unwrap_or_else(|| io::ErrorKind::NotConnected.into())
}

impl TlsStream for Bounded {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.wire {
            Wire::Tls(tls) => tls.channel_binding(),
            Wire::Plain(_) | Wire::Failed(_) => ChannelBinding::none(),
        }
    }
}

/// A TLS connector that does nothing: TLS is established already, or not used.
struct AsItIs;

impl TlsConnect<Bounded> for AsItIs {
    type Stream = Bounded;
    type Error = io::Error;
    type Future = Ready<io::Result<Bounded>>;

    fn connect(self, stream: Bounded) -> Self::Future {
        ready(Ok(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The owner of a name chooses its addresses.
    #[test]
    fn one_forbidden_address_of_an_external_host_refuses_all_of_them() {
        let url = "postgres://u:p@db.example/x";
        let external = DatabaseTarget::external(url, &Arc::default()).expect("a good URL");
        let of_the_platform = DatabaseTarget::parse(url).expect("a good URL");
        let address = |ip: &str| SocketAddr::new(ip.parse().expect("an address"), 5432);
        let (good, bad) = (address("8.8.8.8"), address("169.254.169.254"));
        for (addresses, is_permitted) in
            [(vec![good], true), (vec![bad], false), (vec![good, bad], false), (vec![bad, good], false)]
        {
            assert_eq!(external.permits("db.example", &addresses), is_permitted, "{addresses:?}");
            assert!(of_the_platform.permits("db.example", &addresses), "{addresses:?}");
        }
    }
}
