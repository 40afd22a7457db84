//! An ordinary HTTP client, for addresses that the user of a command names. Deliveries have their own (`docket_egress`).

use std::time::Duration;

use anyhow::{Context, Result};
use docket_egress::Trust;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, retry};

/// A client that ends each request after `limit`, and follows no redirect.
pub(super) fn client(limit: Duration, trust: &Trust) -> Result<Client> {
    Client::builder()
        .tls_backend_preconfigured(trust.tls())
        .redirect(Policy::none())
        .retry(retry::never())
        .http1_only()
        .no_proxy()
        .timeout(limit)
        .build()
        .context("the HTTP client can't start")
}

/// Sends a request. Returns the status and the beginning of the response's text, at most `most` bytes.
pub(super) async fn answered(request: RequestBuilder, most: usize) -> reqwest::Result<(u16, String)> {
    let mut response = request.send().await?;
    let mut text = Vec::new();
    while text.len() < most
        && let Some(chunk) = response.chunk().await?
    {
        text.extend_from_slice(&chunk[..chunk.len().min(most - text.len())]);
    }
    Ok((response.status().as_u16(), String::from_utf8_lossy(&text).into_owned()))
}
