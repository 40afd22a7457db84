//! `docket healthcheck`: checks that processes are healthy, where there is no other HTTP client, such as in the pod of
//! `helm test`.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use docket_commands::arguments::Output;
use docket_commands::text;
use docket_egress::Trust;
use docket_program::screen::clean_lines;
use reqwest::Client;
use serde_json::json;
use url::Url;

use super::http;
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
    let client = http::client(TIMEOUT, &Trust::public())?;
    let is_for_people = arguments.printed.output != Output::Json;
    let (mut checks, mut failed) = (Vec::new(), 0);
    for url in &arguments.url {
        let result = loop {
            let result = check(&client, url).await;
            if result.is_ok() || started.elapsed() >= arguments.wait {
                break result;
            }
            tokio::time::sleep(RETRY).await;
        };
        let (url, problem) = (shown(url), result.err());
        failed += usize::from(problem.is_some());
        // Each result at once, because a later URL may take until the end of the time to wait.
        if is_for_people {
            println!("{url}: {}", problem.as_deref().map_or("200".to_owned(), clean_lines));
        }
        checks.push(json!({"url": url.as_str(), "healthy": problem.is_none(), "problem": problem}));
    }
    if !is_for_people {
        text::json(&json!({ "checks": checks }));
    }
    match failed {
        0 => Ok(()),
        count => bail!("{count} of {} did not respond 200", arguments.url.len()),
    }
}

/// The URL without its user and password: what is printed here stays in a log.
fn shown(url: &Url) -> Url {
    let mut url = url.clone();
    let _ = (url.set_username(""), url.set_password(None)); // this fails only for a URL without a host
    url
}

async fn check(client: &Client, url: &Url) -> Result<(), String> {
    match http::answered(client.get(url.clone()), MAX_BYTES).await {
        Ok((200, _)) => Ok(()),
        Ok((status, text)) => Err(format!("{status}: {}", text.trim())),
        Err(error) if error.is_timeout() => Err(format!("no response within {} s", TIMEOUT.as_secs())),
        Err(error) if error.is_connect() => {
            Err("no connection: nothing listens there, or it refused".to_owned())
        }
        Err(error) => Err(format!("{:#}", anyhow::Error::new(error.without_url()))),
    }
}
