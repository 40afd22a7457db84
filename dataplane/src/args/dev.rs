//! `docket dev`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use docket_program::arguments::socket;
use docket_program::logging::LogArguments;

use super::settings::{
    AuditArguments, DeliveryArguments, HostArguments, InvoiceArguments, LimitsArguments, MailArguments,
    SourceArguments,
};
use super::values::duration;

/// Settings of `docket dev`.
#[derive(Debug, Clone, Args)]
pub struct DevArguments {
    /// Tenants and data.
    #[command(flatten)]
    pub source: SourceArguments,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitsArguments,
    /// Address and port of the API.
    #[arg(long, env = "DOCKET_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub listen: SocketAddr,
    /// Address and port of /healthz, /readyz and /metrics.
    #[arg(long, env = "DOCKET_MANAGEMENT", default_value = "127.0.0.1:9090", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub management: SocketAddr,
    /// Host names.
    #[command(flatten)]
    pub hosts: HostArguments,
    /// Address and port of the built-in webhook receiver (HTTPS, temporary certificate).
    #[arg(long, env = "DOCKET_RECEIVER", default_value = "127.0.0.1:8443", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub receiver: SocketAddr,
    /// Do not run the built-in receiver.
    #[arg(long, env = "DOCKET_NO_RECEIVER")]
    pub no_receiver: bool,
    /// Deliveries.
    #[command(flatten)]
    pub deliveries: DeliveryArguments,
    /// E-mail.
    #[command(flatten)]
    pub mail: MailArguments,
    /// The audit.
    #[command(flatten)]
    pub audit: AuditArguments,
    /// How often to read pending deliveries from the database files: so the worker finds rows that another program writes.
    #[arg(long, env = "DOCKET_SWEEP_INTERVAL", default_value = "15s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub sweep_interval: Duration,
    /// How often to scan for new invoices. A short interval costs little here: unchanged database files are not opened.
    #[arg(long, env = "DOCKET_INVOICE_SCAN_INTERVAL", default_value = "5s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub invoice_scan_interval: Duration,
    /// Invoices.
    #[command(flatten)]
    pub invoices: InvoiceArguments,
    /// Logging.
    #[command(flatten)]
    pub log: LogArguments,
}
