//! A way to the Kubernetes API that lets a chosen number of writes through, with [faults](Watches) on demand.

mod faults;

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::Cluster;
use faults::Faults;
pub use faults::Watches;

type Body = BoxBody<Bytes, hyper::Error>;

/// Passes HTTP on to `kubectl proxy`, which speaks TLS and signs in. Writes beyond the limit get no response, and reach the
/// API server only if their responses are to be [lost](Gate::lose_responses). Renewals of leases and dry runs do not count.
#[derive(Debug)]
pub struct Gate {
    state: Arc<State>,
    proxy: Child,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct State {
    api: SocketAddr,
    limit: AtomicUsize,
    is_losing: AtomicBool,
    /// The watches with a lower number are silent.
    silent_below: AtomicUsize,
    /// The number of watches so far.
    watches: AtomicUsize,
    /// The number of reads so far, watches and leases aside.
    reads: AtomicUsize,
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Gate {
    /// A gate for the user of a kubeconfig, and the kubeconfig that leads through it. Everything passes at first.
    pub async fn new(cluster: &Cluster, kubeconfig: &Path) -> (Self, Value) {
        let mut command = cluster.command_as(kubeconfig);
        command.args(["proxy", "--port=0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut proxy = command.spawn().expect("kubectl is a program");
        let mut line = String::new();
        let mut output = BufReader::new(proxy.stdout.take().expect("it is piped"));
        output.read_line(&mut line).expect("it says where it listens");
        let api = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
        let api = api.unwrap_or_else(|| panic!("an address: {line:?}"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let [begun, ended, silent_below, watches, reads] = [(); 5].map(|()| AtomicUsize::new(0));
        let (limit, is_losing) = (AtomicUsize::new(usize::MAX), AtomicBool::new(false));
        let state = Arc::new(State { api, limit, is_losing, silent_below, watches, reads, begun, ended });
        let shared = Arc::clone(&state);
        let faults = Arc::<Faults>::default();
        let of_connections = Arc::clone(&faults);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&shared), Arc::clone(&of_connections)));
            }
        });
        let text = std::fs::read(kubeconfig).expect("a kubeconfig");
        let mut kubeconfig: Value = serde_json::from_slice(&text).expect("it is JSON");
        kubeconfig["clusters"][0]["cluster"] = json!({"server": format!("http://{address}")});
        kubeconfig["users"][0]["user"] = json!({});
        (Self { state, proxy, faults }, kubeconfig)
    }

    /// Lets `writes` more writes through, and no more.
    pub fn allow(&self, writes: usize) {
        self.state.begun.store(0, Ordering::SeqCst);
        self.state.ended.store(0, Ordering::SeqCst);
        self.state.limit.store(writes, Ordering::SeqCst);
    }

    /// Lets everything through.
    pub fn allow_all(&self) {
        self.state.is_losing.store(false, Ordering::SeqCst);
        self.allow(usize::MAX);
    }

    /// From now on writes reach the API server, and get no response.
    pub fn lose_responses(&self) {
        self.state.is_losing.store(true, Ordering::SeqCst);
        self.allow(0);
    }

    /// The watches that are open fall silent, as over a connection that a load balancer forgot: nothing comes, not even their
    /// end. New watches and all other requests pass.
    pub fn silence_open_watches(&self) {
        self.state.silent_below.store(self.state.watches.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Silences all watches, or lets new watches pass again.
    pub fn silence_watches(&self, are_silent: bool) {
        match are_silent {
            true => self.state.silent_below.store(usize::MAX, Ordering::SeqCst),
            false => self.silence_open_watches(),
        }
    }

    /// How many reads have passed, watches and reads of leases aside.
    pub fn reads(&self) -> usize {
        self.state.reads.load(Ordering::SeqCst)
    }

    /// How many of the allowed writes have got their response.
    pub fn ended(&self) -> usize {
        self.state.ended.load(Ordering::SeqCst)
    }

    /// How many writes wait at the gate.
    pub fn waiting(&self) -> usize {
        self.state.begun.load(Ordering::SeqCst).saturating_sub(self.state.limit.load(Ordering::SeqCst))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

async fn serve(client: TcpStream, state: Arc<State>, faults: Arc<Faults>) {
    let (mut cuts, has_watch) = (faults.cuts(), Arc::<AtomicBool>::default());
    let watches = Arc::clone(&has_watch);
    let service = service_fn(move |request: Request<Incoming>| {
        watches.fetch_or(is_watch(&request), Ordering::SeqCst);
        let (state, call) = (Arc::clone(&state), faults.call(&request));
        async move {
            if let Some(response) = call.instead().await {
                return Ok::<_, Infallible>(response);
            }
            let passed = pass(request, &state).await;
            Ok(call.after(passed).await)
        }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(client), service);
    let cut = async {
        // The sender lives as long as the gate; a connection without a watch is not cut.
        while cuts.changed().await.is_ok() && !has_watch.load(Ordering::SeqCst) {}
    };
    // A client that hangs up is none of our concern.
    tokio::select! {
        _ = connection => {}
        () = cut => {}
    }
}

async fn pass(request: Request<Incoming>, state: &Arc<State>) -> Response<Body> {
    let counts = is_write(&request);
    if counts && state.begun.fetch_add(1, Ordering::SeqCst) >= state.limit.load(Ordering::SeqCst) {
        if state.is_losing.load(Ordering::SeqCst) {
            forward(request, state.api).await;
        }
        return std::future::pending().await;
    }
    if is_watch(&request) {
        return watch(request, state).await;
    }
    if request.method() == Method::GET && !is_lease(&request) {
        state.reads.fetch_add(1, Ordering::SeqCst);
    }
    let response = forward(request, state.api).await;
    if counts {
        state.ended.fetch_add(1, Ordering::SeqCst);
    }
    response.unwrap_or_else(bad_gateway)
}

fn bad_gateway() -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

fn is_watch(request: &Request<Incoming>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

async fn watch(request: Request<Incoming>, state: &Arc<State>) -> Response<Body> {
    let number = state.watches.fetch_add(1, Ordering::SeqCst);
    let response = forward(request, state.api).await;
    if state.is_silent(number) {
        return std::future::pending().await;
    }
    let Some(response) = response else { return bad_gateway() };
    let state = Arc::clone(state);
    response.map(|body| WatchBody { body, number, state }.boxed())
}

impl State {
    fn is_silent(&self, watch: usize) -> bool {
        watch < self.silent_below.load(Ordering::SeqCst)
    }
}

/// The body of a watch, until the watch falls silent.
struct WatchBody {
    body: Body,
    number: usize,
    state: Arc<State>,
}

impl hyper::body::Body for WatchBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = hyper::body::Body::poll_frame(Pin::new(&mut self.body), context);
        if self.state.is_silent(self.number) { Poll::Pending } else { polled }
    }
}

fn is_write(request: &Request<Incoming>) -> bool {
    let is_dry_run = request.uri().query().is_some_and(|query| query.contains("dryRun="));
    ![Method::GET, Method::HEAD].contains(request.method()) && !is_dry_run && !is_lease(request)
}

fn is_lease(request: &Request<Incoming>) -> bool {
    request.uri().path().contains("/leases")
}

#[expect(clippy::disallowed_methods, reason = "a test client, to loopback only")]
async fn forward(request: Request<Incoming>, api: SocketAddr) -> Option<Response<Body>> {
    let stream = TcpStream::connect(api).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    Some(sender.send_request(request).await.ok()?.map(BodyExt::boxed))
}
