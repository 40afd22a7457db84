//! `docket listen`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use docket_program::arguments::socket;
use docket_receiver::Fail;
use url::Url;

use super::values::{duration_or_zero, forward_url};

/// How `docket listen` prints a delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ListenOutput {
    /// A line for people.
    #[default]
    Lines,
    /// A JSON object on a line.
    Json,
}

/// Settings of `docket listen`.
#[derive(Debug, Args)]
pub struct ListenArguments {
    /// Address and port to listen on (HTTPS).
    #[arg(long, env = "DOCKET_LISTEN_ADDRESS", default_value = "127.0.0.1:9443", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub listen: SocketAddr,
    /// File with the webhook's secret, byte for byte as in the Secret [default: none, signatures are not verified].
    #[arg(long, env = "DOCKET_SECRET_FILE", value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Respond with this status instead of 200: `500` always, `500:3` to the first three requests.
    #[arg(long, value_name = "STATUS[:TIMES]")]
    pub fail: Option<Fail>,
    /// Forward each delivery to this address with its body and headers unchanged, and return its response.
    #[arg(long, env = "DOCKET_FORWARD_TO", value_name = "URL", value_parser = forward_url)]
    pub forward_to: Option<Url>,
    /// File with the PEM certificates to trust at an https:// address of --forward-to, instead of the public authorities.
    #[arg(long, env = "DOCKET_FORWARD_CA_FILE", value_name = "FILE", requires = "forward_to")]
    pub forward_ca_file: Option<PathBuf>,
    /// How each delivery is printed: a line for people, or a JSON object for programs.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: ListenOutput,
    /// Delay before each response.
    #[arg(long, default_value = "0s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration_or_zero)]
    pub delay: Duration,
    /// Folder for the receiver's temporary certificate and its CA.
    #[arg(long, env = "DOCKET_CERTIFICATE_DIR", default_value = ".docket/listen", value_name = "FOLDER")]
    pub certificate_dir: PathBuf,
}
