//! An ordinary HTTP client, for addresses that the user of a command names. Deliveries have their own (`docket_egress`).

use std::time::Duration;

use anyhow::{Context, Result};
use docket_egress::Trust;
use reqwest::redirect::Policy;
use reqwest::{Client, retry};

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
