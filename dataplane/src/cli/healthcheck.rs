//! `docket healthcheck`: checks that processes are healthy, where there is no other HTTP client, such as in the pod of
//! `helm test`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper_util::rt::TokioIo;
use url::Url;

use crate::args::HealthcheckArguments;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a retry.
const RETRY: Duration = Duration::from_millis(500);
/// Maximum number of bytes read of a response.
const MAX_BYTES: usize = 4096;

/// Checks one URL after the other and prints each result.
///
/// # Errors
///
/// A URL has not responded 200 within the time to wait.
pub async fn run(arguments: HealthcheckArguments) -> Result<()> {
    let started = Instant::now();
    let mut failed = 0;
    for url in &arguments.url {
        let result = loop {
            let result = check(url).await;
            if result.is_ok() || started.elapsed() >= arguments.wait {
                break result;
            }
            tokio::time::sleep(RETRY).await;
        };
        match result {
            Ok(()) => println!("{url}: 200"),
            Err(problem) => {
                failed += 1;
                println!("{url}: {problem}");
            }
        }
    }
    match failed {
        0 => Ok(()),
        count => bail!("{count} of {} did not respond 200", arguments.url.len()),
    }
}

async fn check(url: &Url) -> Result<(), String> {
    match tokio::time::timeout(TIMEOUT, get(url)).await {
        Ok(Ok((200, _))) => Ok(()),
        Ok(Ok((status, text))) => Err(format!("{status}: {}", text.trim())),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err(format!("no response within {} s", TIMEOUT.as_secs())),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user of the command names the address; nothing is delivered here"
)]
async fn get(url: &Url) -> Result<(u16, String)> {
    let host = url.host_str().context("the URL has no host")?;
    let port = url.port_or_known_default().context("the URL has no port")?;
    let stream = tokio::net::TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(url.path())
        .header("host", format!("{host}:{port}"))
        .body(Empty::<Bytes>::new())
        .context("the URL has no valid path")?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, MAX_BYTES).collect().await;
    connection.abort();
    let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
    Ok((head.status.as_u16(), text))
}
