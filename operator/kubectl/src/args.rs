//! The command line. Flags that kubectl also has have the same name and meaning.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use docket_crds::is_object_name;
use docket_program::arguments;

/// What someone who runs Docket on Kubernetes asks first. Shows Tenants, Webhooks and deliveries, never a Secret and never a
/// payload.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-docket",
    bin_name = "kubectl docket",
    version,
    after_help = "Exit codes: 0 all is well, 1 a problem was found, 2 wrong arguments, 3 no access, or no answer from the cluster."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Reads the command line; or returns its mistake.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let arguments = Self::try_parse_from(words)?;
        // clap does not compare flags before the command with flags after it.
        if arguments.cluster.namespace.is_some() && arguments.command.is_everywhere() {
            let text = "--all-namespaces cannot be used with --namespace";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, text));
        }
        Ok(arguments)
    }
}

/// Which cluster, and where in it.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Namespace of the Tenants and Webhooks [default: that of the context].
    #[arg(short, long, global = true, value_name = "NAME", value_parser = name)]
    pub(crate) namespace: Option<String>,
    /// Context of the kubeconfig [default: the current one].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Kubeconfig [default: as kubectl].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// Of the commands that can look at all namespaces.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct EverywhereArguments {
    /// All namespaces.
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// Of the commands that have a result to print.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArguments {
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Output,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Table,
    /// For people, with more columns where there are more.
    Wide,
    /// For programs. Fields are only added within a version 0.x.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what is wrong with the installation and how to correct it.
    Check {
        /// Check whether Docket can be installed.
        #[arg(long, conflicts_with = "all_namespaces")]
        pre: bool,
        /// Namespace of the operator and the data plane.
        #[arg(long, default_value = "docket", value_name = "NAME", value_parser = name)]
        release_namespace: String,
        #[command(flatten)]
        everywhere: EverywhereArguments,
        #[command(flatten)]
        printed: OutputArguments,
    },
    /// Show Tenants with their API keys, databases and Webhooks.
    Status {
        /// Name of one Tenant [default: all].
        #[arg(value_name = "TENANT", value_parser = name)]
        tenant: Option<String>,
        #[command(flatten)]
        everywhere: EverywhereArguments,
        #[command(flatten)]
        printed: OutputArguments,
    },
    /// List deliveries of a Webhook or a Tenant, newest first, without payloads.
    Deliveries(DeliveriesArguments),
    /// Show what became of an order, an invoice or a delivery: events, deliveries and attempts.
    Trace(TraceArguments),
    /// Resend the dead letters of a Webhook, oldest first. Without --yes only says what would be resent.
    Resend(ResendArguments),
    /// Set dead letters of a Webhook aside: they count nowhere, and no resend of many takes them. Without --yes only says which.
    SetAside(SetAsideArguments),
    /// Send a test event with sample data to a Webhook, and show what came of its first attempt.
    Test(TestArguments),
    /// Make the operator check an object now.
    Reconcile {
        /// The object, such as tenant/acme or webhook/orders.
        #[arg(value_name = "KIND/NAME")]
        object: Object,
        /// Wait until the operator has done it.
        #[arg(long)]
        wait: bool,
        /// How long to wait.
        #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = duration)]
        timeout: Duration,
    },
    /// Replace an API key that the operator generated, by overlap: add a second one, and deactivate the old one with --finish.
    RotateKey {
        /// The key, such as acme/primary.
        #[arg(value_name = "TENANT/KEY")]
        key: ApiKeyName,
        /// Deactivate the key: requests with it get 401.
        #[arg(long)]
        finish: bool,
    },
    /// Write a zip file for support: versions, checks, conditions, Events, logs and metrics, no Secrets and no payloads.
    Report(ReportArguments),
    /// Print the program by which kubectl completes commands, flags and names: put it on the PATH as kubectl_complete-docket.
    Completion {
        /// Print completions of this shell for `kubectl-docket` instead, without names.
        #[arg(value_enum)]
        shell: Option<Shell>,
    },
}

impl Command {
    /// Whether the command reads all namespaces.
    pub(crate) const fn is_everywhere(&self) -> bool {
        match self {
            Self::Check { everywhere, .. }
            | Self::Status { everywhere, .. }
            | Self::Report(ReportArguments { everywhere, .. }) => everywhere.all_namespaces,
            Self::Deliveries(_)
            | Self::Trace(_)
            | Self::Resend(_)
            | Self::SetAside(_)
            | Self::Test(_)
            | Self::Reconcile { .. }
            | Self::RotateKey { .. }
            | Self::Completion { .. } => false,
        }
    }
}

/// How the data plane is reached.
#[derive(Debug, Args)]
pub(crate) struct ReachArguments {
    /// Namespace of the operator and the data plane.
    #[arg(long, default_value = "docket", value_name = "NAME", value_parser = name)]
    pub(crate) release_namespace: String,
    /// Port of 127.0.0.1 that reaches port 9090 of a pod of the API already, as `kubectl port-forward` opens it [default: the
    /// plugin forwards one itself].
    #[arg(long, value_name = "PORT")]
    pub(crate) local_port: Option<u16>,
    /// Ask with a token of this ServiceAccount, valid for 10 minutes, instead of the login's own. A login by client certificate
    /// has none.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) account: Option<Account>,
}

/// A ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl FromStr for Account {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, account) =
            text.split_once('/').ok_or("must be <namespace>/<name>, such as docket/support")?;
        Ok(Self { namespace: name(namespace)?, name: name(account)? })
    }
}

/// Which deliveries to list.
#[derive(Debug, Args)]
pub(crate) struct DeliveriesArguments {
    /// Name of the Webhook.
    #[arg(value_name = "WEBHOOK", value_parser = name, required_unless_present = "tenant")]
    pub(crate) webhook: Option<String>,
    /// All deliveries of this Tenant, also to Webhooks that no longer exist.
    #[arg(short, long, value_name = "NAME", value_parser = name, conflicts_with = "webhook")]
    pub(crate) tenant: Option<String>,
    /// Only dead letters, also those that were resent or set aside.
    #[arg(long, conflicts_with = "status")]
    pub(crate) dead: bool,
    /// Only dead letters that are open, that is count, or resent, or set-aside.
    #[arg(long, value_name = "WHICH", value_parser = ["open", "resent", "set-aside"], conflicts_with = "dead")]
    pub(crate) dead_letter: Option<String>,
    /// Only in this status: Pending, Failed, Succeeded or DeadLetter.
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    /// Only those created at most so long ago, such as 30m or 24h.
    #[arg(long, value_name = "DURATION", value_parser = since)]
    pub(crate) since: Option<Duration>,
    /// Only of this event, such as order.created.
    #[arg(long, value_name = "CODE")]
    pub(crate) event: Option<String>,
    /// Only whose last attempt failed this way, such as ServerError.
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<String>,
    /// Only whose last response had this HTTP status, such as 429.
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(100..=999))]
    pub(crate) http_status: Option<u16>,
    /// Only of the event with this id, which the receiver gets as webhook-id.
    #[arg(long, value_name = "ID")]
    pub(crate) event_id: Option<String>,
    /// Only about this web order.
    #[arg(long, value_name = "ID")]
    pub(crate) order: Option<String>,
    /// Only about this work order.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) work_order: Option<String>,
    /// Only about this invoice.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) invoice: Option<String>,
    /// At most this many, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value = "25", value_parser = limit)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    #[command(flatten)]
    pub(crate) printed: OutputArguments,
}

/// Where a report goes.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The zip file, which must not exist yet.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) everywhere: EverywhereArguments,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
}

/// What to trace.
#[derive(Debug, Args)]
pub(crate) struct TraceArguments {
    /// What the id is of. An order is a web order, a work order or an invoice.
    #[arg(value_enum)]
    pub(crate) what: Traced,
    /// The id or the number.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The Tenant.
    #[arg(short, long, value_name = "NAME", value_parser = name)]
    pub(crate) tenant: String,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    #[command(flatten)]
    pub(crate) printed: OutputArguments,
}

/// What an id to trace is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Traced {
    Order,
    Delivery,
}

/// Which dead letters of a Webhook.
#[derive(Debug, Args)]
pub(crate) struct ChoiceArguments {
    /// Name of the Webhook.
    #[arg(value_name = "WEBHOOK", value_parser = name)]
    pub(crate) webhook: String,
    /// Only of this event, such as order.created.
    #[arg(long, value_name = "CODE")]
    pub(crate) event: Option<String>,
    /// Only those created at most so long ago, such as 30m or 24h.
    #[arg(long, value_name = "DURATION", value_parser = since)]
    pub(crate) since: Option<Duration>,
    /// At most this many, the oldest first, 1 to 10000 [default: 10000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) limit: Option<u16>,
    /// Do it.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What to resend.
#[derive(Debug, Args)]
pub(crate) struct ResendArguments {
    #[command(flatten)]
    pub(crate) choice: ChoiceArguments,
    /// Resend the dead letters; of each event only the latest.
    #[arg(long, required_unless_present = "stop")]
    pub(crate) dead: bool,
    /// How many per second, 1/s to 100/s.
    #[arg(long, value_name = "COUNT/s", default_value = "10/s", value_parser = rate)]
    pub(crate) rate: u16,
    /// Send one first, and the others only if it succeeds.
    #[arg(long, requires = "yes")]
    pub(crate) probe: bool,
    /// Stop the resend with this id instead: withdraw what was not attempted yet.
    #[arg(long, value_name = "RESEND-ID", conflicts_with_all = ["dead", "event", "since", "rate", "limit", "yes", "probe"])]
    pub(crate) stop: Option<String>,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    #[command(flatten)]
    pub(crate) printed: OutputArguments,
}

/// What to set aside.
#[derive(Debug, Args)]
pub(crate) struct SetAsideArguments {
    #[command(flatten)]
    pub(crate) choice: ChoiceArguments,
    /// Undo the setting aside: the dead letters count again.
    #[arg(long)]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    #[command(flatten)]
    pub(crate) printed: OutputArguments,
}

/// What to send as a test.
#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// Name of the Webhook, which must be active.
    #[arg(value_name = "WEBHOOK", value_parser = name)]
    pub(crate) webhook: String,
    /// The event, such as order.created [default: the first that the Webhook takes].
    #[arg(long, value_name = "CODE")]
    pub(crate) event: Option<String>,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    #[command(flatten)]
    pub(crate) printed: OutputArguments,
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tenant,
    Webhook,
}

impl Kind {
    /// The name of the kind in roles and paths.
    pub(crate) const fn resource(self) -> &'static str {
        match self {
            Self::Tenant => "tenants",
            Self::Webhook => "webhooks",
        }
    }
}

/// A Tenant or a Webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

/// An API key of a Tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiKeyName {
    pub(crate) tenant: String,
    pub(crate) name: String,
}

impl FromStr for Object {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "must be tenant/<name> or webhook/<name>".to_owned();
        let (kind, name) = text.split_once('/').ok_or_else(expected)?;
        let kind = match kind {
            "tenant" | "tenants" | "tnt" => Kind::Tenant,
            "webhook" | "webhooks" => Kind::Webhook,
            _ => return Err(expected()),
        };
        Ok(Self { kind, name: self::name(name)? })
    }
}

impl FromStr for ApiKeyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tenant, key) = text.split_once('/').ok_or("must be <tenant>/<key>, such as acme/primary")?;
        Ok(Self { tenant: name(tenant)?, name: name(key)? })
    }
}

fn name(text: &str) -> Result<String, String> {
    if is_object_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a name of an object"))
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_secs(1)..=Duration::from_secs(3600);
    let duration = arguments::duration(text).filter(|duration| limits.contains(duration));
    duration.ok_or_else(|| "must be a number and a unit, such as 30s or 5m, from 1s to 1h".into())
}

fn since(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);
    let duration = arguments::duration(text).filter(|duration| limits.contains(duration));
    duration.ok_or_else(|| "must be a number and a unit, such as 30m or 24h, from 1s to a year".into())
}

fn limit(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=1_000).contains(count));
    count.ok_or_else(|| "must be a whole number from 1 to 1000".into())
}

fn rate(text: &str) -> Result<u16, String> {
    let count =
        text.strip_suffix("/s").unwrap_or(text).parse().ok().filter(|count| (1..=100).contains(count));
    count.ok_or_else(|| "must be a whole number from 1 to 100 and /s, such as 10/s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn flag_that_a_command_would_ignore_is_refused() {
        let parsed = |line: &str| Arguments::try_parse_from(line.split(' '));
        for line in
            ["x status -A -o json", "x check -A", "x report -f out.zip -A", "x trace order 1 -t a -o json"]
        {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for line in [
            "x check --pre -A",
            "x deliveries orders -A",
            "x test orders -A",
            "x rotate-key acme/primary -o json",
            "x reconcile tenant/acme -o json",
            "x report -f out.zip -o json",
            "x completion -o json",
        ] {
            assert_eq!(parsed(line).map_err(|error| error.exit_code()).err(), Some(2), "{line}");
        }
        let of_both = |line: &str| Arguments::read(line.split(' ').map(Into::into)).err();
        assert!(of_both("x -n a status").is_none() && of_both("x status -A").is_none());
        for line in ["x -n a status -A", "x status -n a -A"] {
            assert_eq!(of_both(line).map(|error| error.exit_code()), Some(2), "{line}");
        }
    }

    #[test]
    fn rates_and_limits_have_bounds() {
        assert_eq!((rate("10/s"), rate("100")), (Ok(10), Ok(100)));
        assert!(["0/s", "101/s", "10/m", ""].into_iter().all(|wrong| rate(wrong).is_err()));
        assert_eq!(limit("1000"), Ok(1000));
        assert!(limit("0").is_err() && limit("1001").is_err());
        assert_eq!(since("24h"), Ok(Duration::from_secs(24 * 3600)));
        assert!(since("0s").is_err() && since("2").is_err());
    }

    #[test]
    fn objects_and_keys_are_named_as_in_kubectl() {
        let object = |kind, name: &str| Ok(Object { kind, name: name.to_owned() });
        assert_eq!("tenant/acme".parse(), object(Kind::Tenant, "acme"));
        assert_eq!("webhooks/a-b".parse(), object(Kind::Webhook, "a-b"));
        for wrong in ["acme", "pod/acme", "tenant/", "tenant/A b"] {
            assert!(wrong.parse::<Object>().is_err(), "{wrong}");
        }
        assert_eq!("acme/primary".parse(), Ok(ApiKeyName { tenant: "acme".into(), name: "primary".into() }));
        for wrong in ["acme", "acme/", "/primary", "a/b/c"] {
            assert!(wrong.parse::<ApiKeyName>().is_err(), "{wrong}");
        }
    }
}
