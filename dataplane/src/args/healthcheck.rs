//! `docket healthcheck`.

use std::time::Duration;

use clap::Args;
use docket_commands::arguments::OutputArguments;
use url::Url;

use super::values::{duration_or_zero, http_url};

/// Settings of `docket healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckArguments {
    /// URL to check, such as http://127.0.0.1:9090/readyz; repeatable.
    #[arg(long, required = true, value_name = "URL", value_parser = http_url)]
    pub url: Vec<Url>,
    /// How long to retry until each URL returns 200.
    #[arg(long, default_value = "0s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration_or_zero)]
    pub wait: Duration,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}
