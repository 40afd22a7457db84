//! Accepts connections and serves HTTP/1.1 on them.
//!
//! `axum::serve` sets no timer, and without one hyper's limit on slow headers does nothing. Hence this loop. hyper has no
//! limit on slow writes, so the stream has one.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutWriter;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The time in which a request's headers must arrive; on a kept-alive connection since the previous response.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// A client that reads nothing of its response for this long is disconnected.
const WRITE_TIME: Duration = Duration::from_secs(20);
/// The most connections at once; further ones wait to be accepted.
const CONNECTIONS: usize = 8192;
/// The size of a connection's buffer: the limit of a request's headers, and of what is read ahead.
const BUFFER: usize = 64 * 1024;
/// How long requests that are under way at shutdown may take.
const DRAIN: Duration = Duration::from_secs(25);

/// Serves at most `clients` connections at once until shutdown is requested, then finishes the requests under way.
pub async fn serve(listener: TcpListener, router: Router, clients: usize, shutdown: CancellationToken) {
    let places = Arc::new(Semaphore::new(clients.clamp(1, CONNECTIONS)));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            next = next => next,
            () = shutdown.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually out of file descriptors: wait until connections close.
                tracing::warn!(error = %error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (router, shutdown) = (router.clone(), shutdown.clone());
        connections.spawn(async move {
            connection(stream, peer, router, shutdown).await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("closing busy connections: not finished within the drain time");
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, shutdown: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(WRITE_TIME));
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let router = router.clone();
        async move {
            let mut request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            let response = router.oneshot(request).await;
            Ok::<_, Infallible>(response.unwrap_or_else(|never| match never {}))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = std::pin::pin!(connection);
    // An error here is the client's: it disconnected, was too slow or did not speak HTTP.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
