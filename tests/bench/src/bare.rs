//! The bare forwarder, to which Docket is compared. It takes the same request, gives it a number and sends its body
//! over the same HTTPS stack with kept connections. It responds when the receiver has responded, and checks and
//! stores nothing. With a database it also serves reads of orders, by the query that Docket uses.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::{Client, Statement};
use tokio_rustls::TlsConnector;

use crate::sql;

/// Its arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct BareArguments {
    /// URL to which every body goes.
    #[arg(long)]
    target: Uri,
    /// The authority that the target's certificate is of, in PEM.
    #[arg(long)]
    ca_file: PathBuf,
    #[arg(long)]
    listen: SocketAddr,
    /// Where /readyz is.
    #[arg(long)]
    management: SocketAddr,
    /// URL of the database that orders are read from.
    #[arg(long)]
    database: Option<String>,
}

/// The number of connections to the database: as many as Docket has to a tenant's.
const DATABASE_CONNECTIONS: usize = 8;

struct Forwarder {
    target: Uri,
    to: SocketAddr,
    tls: TlsConnector,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    count: AtomicU64,
    database: Vec<(Client, Statement)>,
}

/// Serves requests until the process is killed.
pub(crate) async fn run(arguments: BareArguments) {
    let BareArguments { target, ca_file, listen, management, database } = arguments;
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(ca_file).expect("a certificate");
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.expect("ring has them").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let to = target.authority().and_then(|authority| authority.as_str().parse().ok());
    let to = to.expect("a target with an address and a port");
    let tls = TlsConnector::from(Arc::new(config));
    let mut clients = Vec::new();
    if let Some(url) = &database {
        for _ in 0..DATABASE_CONNECTIONS {
            let client = docket_rig::postgres::client(url).await;
            let statement = client.prepare(sql::READ_ORDER).await.expect("the table is as it was");
            clients.push((client, statement));
        }
    }
    let forwarder =
        Forwarder { target, to, tls, idle: Mutex::default(), count: AtomicU64::new(0), database: clients };
    let forwarder = Arc::new(forwarder);
    let requests = TcpListener::bind(listen).await.expect("a free port");
    let readiness = TcpListener::bind(management).await.expect("a free port");
    tokio::join!(accept(requests, Arc::clone(&forwarder)), accept(readiness, forwarder));
}

async fn accept(listener: TcpListener, forwarder: Arc<Forwarder>) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let _ = stream.set_nodelay(true);
        let forwarder = Arc::clone(&forwarder);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &forwarder));
            let http = hyper::server::conn::http1::Builder::new();
            // An error here is the end of a connection that the load generator has closed.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    forwarder: &Forwarder,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::GET {
        let order = request.uri().query().and_then(|query| query.strip_prefix("webOrderId="));
        return Ok(match order {
            Some(order) => forwarder.read(order).await,
            None => Response::new(Full::default()),
        });
    }
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let number = forwarder.count.fetch_add(1, Ordering::Relaxed);
    let mut sent = body.unwrap_or_default().to_vec();
    // `{…}` becomes `{…,"webOrderId":"W00000042"}`.
    sent.pop();
    sent.extend_from_slice(format!(r#","webOrderId":"W{number:08}"}}"#).as_bytes());
    let answered = forwarder.forward(sent.into()).await;
    let mut response = Response::new(Full::from(format!(r#"{{"webOrderId":"W{number:08}"}}"#)));
    if answered.is_err() {
        *response.status_mut() = hyper::StatusCode::BAD_GATEWAY;
    }
    Ok(response)
}

impl Forwarder {
    /// Responds with an order as JSON.
    async fn read(&self, order: &str) -> Response<Full<Bytes>> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) as usize;
        let (client, statement) = &self.database[number % self.database.len()];
        let row = client.query_one(statement, &[&order]).await.expect("the order is there");
        let text = |at| row.get::<_, Option<&str>>(at);
        let order = serde_json::value::RawValue::from_string(row.get("body")).expect("it is JSON");
        let answer = serde_json::json!({
            "webOrderId": text("id"), "orderType": text("order_type"), "status": text("status"),
            "customerCode": text("customer_code"), "caseNumber": text("case_number"), "caption": text("caption"),
            "clientMatterNumber": text("client_matter_number"), "order": order,
            "createdAt": row.get::<_, i64>("created_at_ms"), "updatedAt": row.get::<_, i64>("updated_at_ms"),
        });
        Response::new(Full::from(answer.to_string()))
    }

    async fn forward(&self, body: Bytes) -> io::Result<()> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut sender = match idle {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        // The sender may not have noticed yet that the previous response has ended.
        sender.ready().await.map_err(io::Error::other)?;
        let request = Request::post(self.target.path())
            .header("host", self.target.authority().expect("checked at the start").as_str())
            .header("content-type", "application/json")
            .body(Full::new(body));
        let response = sender.send_request(request.expect("a request")).await.map_err(io::Error::other)?;
        let ok = response.status().is_success();
        response.into_body().collect().await.map_err(io::Error::other)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        if ok { Ok(()) } else { Err(io::Error::other("not 2xx")) }
    }

    #[expect(clippy::disallowed_methods, reason = "to the receiver of this benchmark, on loopback")]
    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let tcp = TcpStream::connect(self.to).await?;
        tcp.set_nodelay(true)?;
        let tls = self.tls.connect(ServerName::from(self.to.ip()), tcp).await?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
