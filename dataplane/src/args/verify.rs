//! `docket verify`.

use std::path::PathBuf;

use clap::Args;
use docket_commands::arguments::OutputArguments;
use docket_domain::moment;
use jiff::Timestamp;

use super::values::header;

/// Settings of `docket verify`.
#[derive(Debug, Args)]
#[command(after_help = "The body is read from standard input, byte for byte as it arrived.\n\n\
    Exit codes: 0 each signature given matches, 1 one does not, 2 something could not be read.")]
pub struct VerifyArguments {
    /// File with the webhook's secret, byte for byte as in the Secret; repeatable, for two secrets during a rotation.
    #[arg(long, env = "DOCKET_SECRET_FILE", required = true, value_name = "FILE")]
    pub secret_file: Vec<PathBuf>,
    /// Value of the header X-Service-Signature.
    #[arg(long, required_unless_present = "header", value_name = "HEX", allow_hyphen_values = true)]
    pub signature: Option<String>,
    /// Header of the delivery, such as 'webhook-id: evt_…'; repeatable. Give webhook-id and webhook-timestamp with each
    /// signature: they are part of webhook-signature, and show some mistakes with --signature. Other headers without a
    /// signature are ignored.
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    pub header: Vec<(String, String)>,
    /// Time of arrival, with which `webhook-timestamp` is compared [default: now].
    #[arg(long, value_name = "TIME", value_parser = moment::read)]
    pub at: Option<Timestamp>,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}
