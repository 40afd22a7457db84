//! Forwards a delivery to the receiver that the user is writing, with its body and headers unchanged.

use std::error::Error;
use std::io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable};
use std::time::{Duration, Instant};
use std::{fmt, io};

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, StatusCode};
use reqwest::{Client, Url};
use rustls::pki_types::InvalidDnsNameError;

/// The number of bytes of a response that are passed back; Docket reads no more.
const MAX_ANSWER_BYTES: usize = 8 * 1024;

/// Where to forward deliveries.
#[derive(Debug, Clone)]
pub struct Forward {
    /// The HTTP client. It follows no redirects and has a time limit.
    pub client: Client,
    /// The URL of the user's receiver. The path of a delivery is not appended.
    pub url: Url,
}

/// The result of forwarding a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// The URL to which it was forwarded, without user, password and query.
    pub to: String,
    /// The status of the response, or why there is no response.
    pub result: Result<u16, NoAnswer>,
    /// The time from the request to the end of the response.
    pub took: Duration,
}

/// Why the user's receiver did not respond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The receiver's name has no address.
    NotResolved,
    /// No route leads to the receiver's address.
    Unreachable,
    /// The connection failed for another reason.
    NotConnected,
    /// The receiver's port does not speak TLS.
    NoTls,
    /// The receiver's certificate is not trusted.
    Untrusted(Distrust),
    /// The TLS handshake failed for another reason.
    Tls,
    /// The time limit was reached.
    TimedOut,
    /// The connection broke, or the response was not HTTP.
    Broken,
}

/// Why the certificate of the user's receiver is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// Its time has ended.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate is for another name.
    OtherName,
    /// The certificate is signed by an authority that is not trusted, or an intermediate certificate is missing.
    UnknownIssuer,
    /// The certificate is an authority's.
    Authority,
    /// The certificate is refused for another reason.
    Other,
}

impl NoAnswer {
    /// The word for the reason, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotResolved => "name not resolved",
            Self::Unreachable => "unreachable",
            Self::NotConnected => "not connected",
            Self::NoTls => "no TLS",
            Self::Untrusted(_) => "certificate not trusted",
            Self::Tls => "TLS failed",
            Self::TimedOut => "timed out",
            Self::Broken => "broken",
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotResolved => "no address: the name in --forward-to can't be resolved",
            Self::Unreachable => "no route: the address in --forward-to can't be reached from here",
            Self::NotConnected => "no connection: nothing listens there, or it refused",
            Self::NoTls => "it listens, but does not speak TLS: use http:// in --forward-to",
            Self::Untrusted(Distrust::Expired) => "its certificate has expired",
            Self::Untrusted(Distrust::NotYetValid) => "its certificate is not valid yet: compare the clocks",
            Self::Untrusted(Distrust::OtherName) => "its certificate is for another name than --forward-to has",
            Self::Untrusted(Distrust::UnknownIssuer) => {
                "its certificate is from an unknown authority: name the authority's file with --forward-ca-file, or let it send the intermediate certificate"
            }
            Self::Untrusted(Distrust::Authority) => {
                "its certificate is that of an authority, not of a server: make one for the server (CA:FALSE)"
            }
            Self::Untrusted(Distrust::Other) => "its certificate is not trusted",
            Self::Tls => "the TLS handshake failed: it must speak TLS 1.2 or 1.3 and want no client certificate",
            Self::TimedOut => "no answer in time",
            Self::Broken => "the connection broke before the answer was whole",
        })
    }
}

/// The response to pass back to the sender.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Forward {
    /// Forwards one delivery. Without a response, the sender gets 502.
    pub(crate) async fn pass_on(&self, headers: &HeaderMap, body: &Bytes) -> (Answered, Forwarded) {
        let started = Instant::now();
        let result = self.post(headers, body).await;
        let mut to = self.url.clone();
        to.set_query(None);
        // This fails only for URLs without a host.
        let _ = (to.set_username(""), to.set_password(None));
        let forwarded = Forwarded {
            to: to.to_string(),
            result: result.as_ref().map(|answer| answer.status.as_u16()).map_err(|reason| *reason),
            took: started.elapsed(),
        };
        let unanswered = |reason: NoAnswer| Answered {
            status: StatusCode::BAD_GATEWAY,
            body: Bytes::from(format!("{reason}\n")),
        };
        (result.unwrap_or_else(unanswered), forwarded)
    }

    async fn post(&self, headers: &HeaderMap, body: &Bytes) -> Result<Answered, NoAnswer> {
        let mut headers = headers.clone();
        // These headers belong to the connection, not to the delivery.
        for name in [
            HOST,
            CONTENT_LENGTH,
            CONNECTION,
            EXPECT,
            PROXY_AUTHENTICATE,
            PROXY_AUTHORIZATION,
            TE,
            TRAILER,
            TRANSFER_ENCODING,
            UPGRADE,
        ] {
            headers.remove(name);
        }
        let request = self.client.post(self.url.clone()).headers(headers).body(body.clone());
        let mut response = request.send().await.map_err(reason)?;
        let mut kept = Vec::new();
        while kept.len() < MAX_ANSWER_BYTES
            && let Some(chunk) = response.chunk().await.map_err(reason)?
        {
            kept.extend_from_slice(&chunk[..chunk.len().min(MAX_ANSWER_BYTES - kept.len())]);
        }
        Ok(Answered { status: response.status(), body: kept.into() })
    }
}

fn reason(error: reqwest::Error) -> NoAnswer {
    if error.is_timeout() {
        NoAnswer::TimedOut
    } else if let Some(error) = cause(&error) {
        of_tls(error)
    } else if error.is_dns() || cause::<InvalidDnsNameError>(&error).is_some() {
        NoAnswer::NotResolved
    } else if error.is_connect() {
        match cause(&error).map(io::Error::kind) {
            Some(HostUnreachable | NetworkUnreachable | NetworkDown) => NoAnswer::Unreachable,
            _ => NoAnswer::NotConnected,
        }
    } else {
        NoAnswer::Broken
    }
}

/// The error of this type among the causes of `error`.
fn cause<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        // `source()` of an I/O error is the source of the error inside it, not that error.
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inside {
            Some(inside) => Some(inside),
            None => error.source(),
        };
    }
    None
}

fn of_tls(error: &rustls::Error) -> NoAnswer {
    use rustls::CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, Other, UnknownIssuer,
    };
    let certificate = match error {
        rustls::Error::InvalidMessage(_) => return NoAnswer::NoTls,
        rustls::Error::InvalidCertificate(certificate) => certificate,
        _ => return NoAnswer::Tls,
    };
    NoAnswer::Untrusted(match certificate {
        Expired | ExpiredContext { .. } => Distrust::Expired,
        NotValidYet | NotValidYetContext { .. } => Distrust::NotYetValid,
        NotValidForName | NotValidForNameContext { .. } => Distrust::OtherName,
        // A bad signature comes from another authority of the same name, such as a newly generated one.
        UnknownIssuer | BadSignature => Distrust::UnknownIssuer,
        // rustls has no variant of its own for this error.
        Other(other) if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) => {
            Distrust::Authority
        }
        _ => Distrust::Other,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::HeaderValue;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;

    use super::*;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn authority() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
    }

    /// Listens with a certificate for 127.0.0.1, which `change` may change, and responds 200 to each request.
    async fn listening(authority: &Authority, change: impl Fn(&mut CertificateParams)) -> u16 {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, authority).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("PKCS#8");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("ring has suites").with_no_client_auth();
        let config = config.with_single_cert(vec![certificate.der().clone()], key).expect("a key that fits");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        accepting(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                }
            }
        })
        .await
    }

    async fn accepting<F: Future<Output = ()> + Send>(
        serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
    ) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream).await;
            }
        });
        port
    }

    /// A client that trusts these authorities.
    fn client(roots: RootCertStore) -> Client {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("ring has suites").with_root_certificates(roots).with_no_client_auth();
        let client = Client::builder().tls_backend_preconfigured(config).http1_only().no_proxy();
        client.timeout(Duration::from_secs(10)).build().expect("a client")
    }

    /// The result of forwarding a delivery over HTTPS with trust in the certificate `trusted`.
    async fn forwarded(trusted: &CertificateDer<'static>, host: &str, port: u16) -> Result<u16, NoAnswer> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("an authority");
        let client = client(roots);
        let url = format!("https://{host}:{port}/").parse().expect("a url");
        let (_, forwarded) = Forward { client, url }.pass_on(&HeaderMap::new(), &Bytes::from("{}")).await;
        forwarded.result
    }

    #[tokio::test]
    async fn each_fault_of_a_certificate_is_named() {
        let (ours, strange) = (authority(), authority());
        let nothing = |_: &mut CertificateParams| {};
        let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
        let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(4000, 1, 1);
        let authority =
            |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let good = listening(&ours, nothing).await;
        assert_eq!(forwarded(ours.der(), "127.0.0.1", good).await, Ok(200));
        for (trusted, host, port, distrust) in [
            (&ours, "127.0.0.1", listening(&ours, expired).await, Distrust::Expired),
            (&ours, "127.0.0.1", listening(&ours, future).await, Distrust::NotYetValid),
            (&ours, "localhost", good, Distrust::OtherName),
            (&strange, "127.0.0.1", good, Distrust::UnknownIssuer),
            (&ours, "127.0.0.1", listening(&ours, authority).await, Distrust::Authority),
        ] {
            let expected = Err(NoAnswer::Untrusted(distrust));
            assert_eq!(forwarded(trusted.der(), host, port).await, expected);
        }
    }

    /// Reads a request over plain HTTP, and responds with 9,000 bytes.
    async fn long_answer(mut stream: TcpStream, seen: Arc<std::sync::Mutex<String>>) {
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap_or_default();
        *seen.lock().expect("a lock") = String::from_utf8_lossy(&request[..length]).to_ascii_lowercase();
        let head = "HTTP/1.1 404 Not Found\r\ncontent-length: 9000\r\n\r\n";
        let _ = stream.write_all(format!("{head}{}", "x".repeat(9_000)).as_bytes()).await;
    }

    #[tokio::test]
    async fn delivery_keeps_its_headers_but_those_of_the_connection_and_8_kib_of_the_answer_come_back() {
        let seen = Arc::new(std::sync::Mutex::new(String::new()));
        let of_server = Arc::clone(&seen);
        let port = accepting(move |stream| long_answer(stream, Arc::clone(&of_server))).await;
        let url = format!("http://user:hunter2@127.0.0.1:{port}/mine?key=hunter2").parse().expect("a url");
        let mut headers = HeaderMap::new();
        let of_connection = [
            "connection",
            "expect",
            "proxy-authenticate",
            "proxy-authorization",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ];
        for name in of_connection {
            headers.insert(name, HeaderValue::from_static("chunked"));
        }
        for (name, value) in [("x-service-event", "order.created"), ("host", "docket.example")] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let forward = Forward { client: client(RootCertStore::empty()), url };
        let (answered, forwarded) = forward.pass_on(&headers, &Bytes::from("{}")).await;
        assert_eq!((answered.status.as_u16(), answered.body.len()), (404, 8_192));
        assert_eq!((forwarded.to, forwarded.result), (format!("http://127.0.0.1:{port}/mine"), Ok(404)));
        let seen = seen.lock().expect("a lock").clone();
        assert!(seen.starts_with("post /mine?key=hunter2 http/1.1\r\n"), "{seen}");
        assert!(seen.contains("x-service-event: order.created\r\n"), "{seen}");
        assert!(seen.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{seen}");
        assert!(!seen.contains("docket.example") && !seen.contains("chunked"), "{seen}");
    }

    #[tokio::test]
    async fn plain_server_and_each_failure_to_connect_are_different_faults() {
        let ours = authority();
        for greeting in ["HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n", "SSH-2.0-OpenSSH_9.6\r\n"] {
            let port = accepting(move |mut stream: TcpStream| async move {
                let _ = stream.write_all(greeting.as_bytes()).await;
                let _ = stream.read(&mut [0; 4096]).await;
            });
            assert_eq!(
                forwarded(ours.der(), "127.0.0.1", port.await).await,
                Err(NoAnswer::NoTls),
                "{greeting}"
            );
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        // A label of a name can't have 64 characters, and no connection leads to a broadcast address.
        let nowhere = format!("{}.invalid", "a".repeat(64));
        for (host, reason) in [
            ("127.0.0.1", NoAnswer::NotConnected),
            (&*nowhere, NoAnswer::NotResolved),
            ("127.255.255.255", NoAnswer::Unreachable),
        ] {
            assert_eq!(forwarded(ours.der(), host, port).await, Err(reason), "{host}");
        }
    }
}
