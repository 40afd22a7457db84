//! `docket trigger`.

use std::path::PathBuf;

use clap::Args;
use docket_commands::arguments::OutputArguments;
use docket_crds::EventCode;

use super::values::{ReceiverUrl, code, event_code, receiver_url};

/// Settings of `docket trigger`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the receiver answered 2xx, 1 it did not, or the command could not be done, 2 wrong arguments."
)]
pub struct TriggerArguments {
    /// Event code, such as order.created.
    #[arg(value_name = "EVENT", value_parser = event_code)]
    pub event: EventCode,
    /// Another value for a field of the event's data, such as data.milestoneCode=30; repeatable.
    #[arg(long, value_name = "data.FIELD=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Code of the customer in the envelope.
    #[arg(long, default_value = "TEST-C-1001", value_name = "CODE", value_parser = code)]
    pub customer: String,
    /// Print the envelope, which is JSON, and send nothing.
    #[arg(long, conflicts_with = "output")]
    pub print: bool,
    /// Receiver to send to: an https:// URL, or http:// on this machine, such as http://localhost:3000/hook. A Webhook takes https://
    /// only.
    #[arg(long, required_unless_present = "print", conflicts_with = "print", value_name = "URL", value_parser = receiver_url)]
    pub to: Option<ReceiverUrl>,
    /// File with the secret to sign with, byte for byte as in the Secret [default: none, the delivery is not signed].
    #[arg(long, env = "DOCKET_SECRET_FILE", value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// File with the PEM certificates to trust instead of the public authorities, as by a Webhook's caBundleRef.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let parts = text.strip_prefix("data.").and_then(|rest| rest.split_once('='));
    parts
        .filter(|(field, _)| !field.is_empty())
        .map(|(field, value)| (field.to_owned(), value.to_owned()))
        .ok_or_else(|| "must be data.<field>=<value>, such as data.milestoneCode=30".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_what_follows_the_first_equals_sign() {
        let pair = |field: &str, value: &str| Ok((field.to_owned(), value.to_owned()));
        assert_eq!(assignment("data.caption=a=b"), pair("caption", "a=b"));
        assert_eq!(assignment("data.caption="), pair("caption", ""));
        for wrong in ["caption=a", "data.caption", "data.=a", "Data.caption=a", ""] {
            assert!(assignment(wrong).is_err(), "{wrong}");
        }
    }
}
