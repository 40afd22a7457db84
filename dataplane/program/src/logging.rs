//! Logs on standard error, and panics as log lines.

mod lines;

use std::io::{IsTerminal, stderr};

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::arguments::log_filter;
use lines::Lines;

/// Logging, as flags and environment variables set it.
#[derive(Debug, Clone, Args)]
pub struct LogArguments {
    /// Format of the log lines on standard error.
    #[arg(long, env = "DOCKET_LOG_FORMAT", default_value = "text", value_enum, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or a tracing filter such as info,kube=debug.
    #[arg(long, env = "DOCKET_LOG", default_value = "info", value_name = "FILTER", value_parser = log_filter)]
    pub log: String,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Logging that was started. Dropping it writes the lines that wait; later lines are written at once.
#[must_use = "the last lines are lost unless this is dropped at the end of the program"]
pub struct Logging(Lines);

impl Drop for Logging {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Starts logging, and also logs panics from now on. Warnings and errors are written at once. Other lines are written
/// at most 50 ms later, many at a time. At most 512 KiB of lines wait in memory; beyond that, logging blocks.
///
/// A JSON line contains its target, the module by which `--log` selects it. A text line contains it if `with_target` is set.
pub fn start(arguments: &LogArguments, with_target: bool) -> Logging {
    let lines = Lines::new(stderr());
    let builder = tracing_subscriber::fmt().with_env_filter(filter(arguments)).with_writer(lines.clone());
    match arguments.log_format {
        LogFormat::Text => builder.with_target(with_target).with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    log_panics();
    Logging(lines)
}

/// What is logged. kube's client logs a whole response that it can't parse. Such a response may be a Secret.
fn filter(arguments: &LogArguments) -> EnvFilter {
    let filter = EnvFilter::try_new(&arguments.log).expect("log_filter has checked it");
    filter.add_directive("kube_client::client=error".parse().expect("a valid directive"))
}

/// Logs where a panic happened. It omits the message, which may quote what a client sent or an object contains.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "internal error: a task panicked");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_that_cannot_be_read_is_not_logged_whatever_the_filter() {
        for log in ["info", "trace", "kube_client::client=trace,info"] {
            let arguments = LogArguments { log_format: LogFormat::Text, log: log.to_owned() };
            let shown = filter(&arguments).to_string();
            let of_client: Vec<&str> =
                shown.split(',').filter(|part| part.starts_with("kube_client::client=")).collect();
            assert_eq!(of_client, ["kube_client::client=error"], "{log}: {shown}");
        }
    }
}
