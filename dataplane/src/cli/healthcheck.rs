//! `docket healthcheck`: asks whether processes are well, for places that have no other HTTP client, such as the pod of
//! `helm test`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper_util::rt::TokioIo;
use url::Url;

use crate::args::HealthcheckArguments;

/// How long each may take to answer.
const WAIT: Duration = Duration::from_secs(10);
/// How long until one is asked again.
const AGAIN: Duration = Duration::from_millis(500);
/// How much of an answer is read.
const ANSWER: usize = 4096;

/// Asks one after the other and says what each answered. Error: one of them did not answer 200, and not until the end of
/// the time to wait either.
pub async fn run(arguments: HealthcheckArguments) -> Result<()> {
    let begun = Instant::now();
    let mut unwell = 0;
    for url in &arguments.url {
        let answer = loop {
            let answer = answer(url).await;
            if answer.is_ok() || begun.elapsed() >= arguments.wait {
                break answer;
            }
            tokio::time::sleep(AGAIN).await;
        };
        match answer {
            Ok(()) => println!("{url}: 200"),
            Err(problem) => {
                unwell += 1;
                println!("{url}: {problem}");
            }
        }
    }
    match unwell {
        0 => Ok(()),
        count => bail!("{count} of {} did not answer 200", arguments.url.len()),
    }
}

async fn answer(url: &Url) -> Result<(), String> {
    match tokio::time::timeout(WAIT, ask(url)).await {
        Ok(Ok((200, _))) => Ok(()),
        Ok(Ok((status, text))) => Err(format!("{status}: {}", text.trim())),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err(format!("no answer within {} s", WAIT.as_secs())),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user of the command names the address; nothing is delivered here"
)]
async fn ask(url: &Url) -> Result<(u16, String)> {
    let host = url.host_str().context("the URL has no host")?;
    let port = url.port_or_known_default().context("the URL has no port")?;
    let stream = tokio::net::TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(url.path())
        .header("host", format!("{host}:{port}"))
        .body(Empty::<Bytes>::new())
        .context("the URL is no address of a page")?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, ANSWER).collect().await;
    connection.abort();
    let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
    Ok((head.status.as_u16(), text))
}
