//! The command line. Flags that kubectl also has have the same name and meaning.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use docket_commands::arguments::{
    ListArguments, OutputArguments, ResendArguments, SetAsideArguments, TestArguments, TraceArguments,
};
use docket_commands::audit::AuditArguments;
use docket_commands::people::{People, PeopleArguments};
use docket_crds::is_object_name;
use docket_program::arguments;

/// Checks Docket on a Kubernetes cluster, shows its Tenants, Webhooks and deliveries, and repairs what failed. It never shows a
/// Secret or a payload.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-docket",
    bin_name = "kubectl docket",
    version,
    after_help = "Exit codes: 0 all is well, 1 a problem was found, 2 wrong arguments, 3 no access, or no answer from the cluster."
)]
pub(crate) struct Arguments {
    #[command(flatten, next_help_heading = "Connection")]
    pub(crate) cluster: ClusterArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Reads the command line; or returns its mistake.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let arguments = Self::try_parse_from(without_list(words.collect()))?;
        // clap does not compare flags before the command with flags after it.
        if arguments.cluster.namespace.is_some() && arguments.command.is_everywhere() {
            let text = "--all-namespaces cannot be used with --namespace";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, text));
        }
        if let Command::People(OfTenant { asked, .. }) = &arguments.command
            && asked.who == People::Employees
            && asked.customer.is_some()
        {
            let text = "--customer cannot be used with employees, who belong to no customer";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, text));
        }
        Ok(arguments)
    }
}

/// The words without the `list` of `deliveries list`, `audit list` and `people list`: `docket` has it, because its commands of these
/// names have others below them.
pub(crate) fn without_list(mut words: Vec<OsString>) -> Vec<OsString> {
    let takes_value =
        |word: &OsString| ["-n", "--namespace", "--context", "--kubeconfig"].iter().any(|flag| word == flag);
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let command = (1..words.len()).find(|at| !is_flag(&words[*at]) && !takes_value(&words[at - 1]));
    if let Some(at) = command
        && ["deliveries", "audit", "people"].iter().any(|name| words[at] == *name)
        && words.get(at + 1).is_some_and(|next| next == "list")
    {
        words.remove(at + 1);
    }
    words
}

/// Which cluster, and where in it.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Namespace of the Tenants and Webhooks [default: the namespace of the context].
    #[arg(short, long, global = true, value_name = "NAME", value_parser = name)]
    pub(crate) namespace: Option<String>,
    /// Context of the kubeconfig [default: the current one].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Kubeconfig [default: as kubectl].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// The argument of each command that can look at all namespaces.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct EverywhereArguments {
    /// All namespaces.
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
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
    /// Show how far the migrations of the Tenants' databases are, or which this version of the plugin would bring.
    Upgrade {
        /// What to show.
        #[arg(value_enum, value_name = "VIEW")]
        view: UpgradeView,
        #[command(flatten)]
        everywhere: EverywhereArguments,
        #[command(flatten)]
        printed: OutputArguments,
    },
    /// List deliveries of a Webhook or a Tenant, newest first, without payloads.
    Deliveries(DeliveriesArguments),
    /// Show what became of an order, an invoice, an event or a delivery: events, deliveries and attempts.
    Trace(OfTenant<TraceArguments>),
    /// Resend the dead letters of a Webhook, oldest first. Without --yes only says what would be resent.
    Resend(ToWebhook<ResendArguments>),
    /// Set dead letters of a Webhook aside: they count nowhere, and no resend of many takes them. Without --yes only says which.
    SetAside(ToWebhook<SetAsideArguments>),
    /// Send a test event with sample data to a Webhook, and show what came of its first attempt.
    Test(ToWebhook<TestArguments>),
    /// List the newest entries of a Tenant's audit: who did what, by codes and ids.
    Audit(OfTenant<AuditArguments>),
    /// List the contacts or employees of a Tenant, with names and e-mail addresses: personal data, which needs a right of its own.
    People(OfTenant<WhichPeople>),
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
        #[command(flatten)]
        printed: OutputArguments,
    },
    /// Replace an API key that the operator generated, by overlap: add a second one, and deactivate the old one with --finish.
    RotateKey {
        /// The key, such as acme/primary.
        #[arg(value_name = "TENANT/KEY")]
        key: ApiKeyName,
        /// Deactivate the key: requests with it get 401.
        #[arg(long)]
        finish: bool,
        #[command(flatten)]
        printed: OutputArguments,
    },
    /// Let Tenants that were created again take over the databases of their predecessors. Without --yes only says which.
    Adopt(AdoptArguments),
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
            | Self::Upgrade { everywhere, .. }
            | Self::Adopt(AdoptArguments { everywhere, .. })
            | Self::Report(ReportArguments { everywhere, .. }) => everywhere.all_namespaces,
            Self::Deliveries(_)
            | Self::Trace(_)
            | Self::Resend(_)
            | Self::SetAside(_)
            | Self::Test(_)
            | Self::Audit(_)
            | Self::People(_)
            | Self::Reconcile { .. }
            | Self::RotateKey { .. }
            | Self::Completion { .. } => false,
        }
    }
}

/// What `upgrade` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UpgradeView {
    /// How many databases are migrated, which wait and for what, and which migrations failed.
    Status,
    /// Which steps databases lack for this version of the plugin, and what each costs. It changes nothing.
    Plan,
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
    #[command(flatten)]
    pub(crate) list: ListArguments,
    #[command(flatten, next_help_heading = "Connection")]
    pub(crate) reach: ReachArguments,
}

/// Which Tenants take over their databases.
#[derive(Debug, Args)]
pub(crate) struct AdoptArguments {
    #[command(flatten)]
    pub(crate) which: WhichTenants,
    /// Take the databases over.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) everywhere: EverywhereArguments,
    #[command(flatten)]
    pub(crate) printed: OutputArguments,
}

/// One Tenant, or several.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WhichTenants {
    /// Name of one Tenant.
    #[arg(value_name = "TENANT", value_parser = name, conflicts_with = "all_namespaces")]
    pub(crate) tenant: Option<String>,
    /// All Tenants.
    #[arg(long)]
    pub(crate) all: bool,
    /// Tenants with these labels.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
}

/// Where a report goes.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The zip file, which must not exist yet.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) everywhere: EverywhereArguments,
    #[command(flatten, next_help_heading = "Connection")]
    pub(crate) reach: ReachArguments,
}

/// A question about a Tenant.
#[derive(Debug, Args)]
pub(crate) struct OfTenant<T: Args> {
    #[command(flatten)]
    pub(crate) asked: T,
    /// The Tenant.
    #[arg(short, long, value_name = "NAME", value_parser = name)]
    pub(crate) tenant: String,
    #[command(flatten, next_help_heading = "Connection")]
    pub(crate) reach: ReachArguments,
}

/// Which people of a Tenant to list.
#[derive(Debug, Args)]
pub(crate) struct WhichPeople {
    /// The users of the Tenant's customers, or the Tenant's own.
    #[arg(value_enum)]
    pub(crate) who: People,
    /// Only the contacts of this customer.
    #[arg(long, value_name = "CUSTOMER_CODE")]
    pub(crate) customer: Option<String>,
    #[command(flatten)]
    pub(crate) list: PeopleArguments,
}

/// What to do with the dead letters of a Webhook, or to send to it.
#[derive(Debug, Args)]
pub(crate) struct ToWebhook<T: Args> {
    /// Name of the Webhook.
    #[arg(value_name = "WEBHOOK", value_parser = name)]
    pub(crate) webhook: String,
    #[command(flatten)]
    pub(crate) asked: T,
    #[command(flatten, next_help_heading = "Connection")]
    pub(crate) reach: ReachArguments,
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tenant,
    Webhook,
}

impl Kind {
    /// The name of the kind.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "Tenant",
            Self::Webhook => "Webhook",
        }
    }

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
        for line in [
            "x status -A -o json",
            "x upgrade status -A -o json",
            "x upgrade plan",
            "x check -A",
            "x report -f out.zip -A",
            "x trace order 1 -t a -o json",
            "x rotate-key acme/primary -o json",
            "x reconcile tenant/acme -o json",
            "x adopt acme -o json",
            "x adopt --all -A --yes",
            "x adopt -l tier=gold",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for line in [
            "x check --pre -A",
            "x deliveries orders -A",
            "x test orders -A",
            "x report -f out.zip -o json",
            "x completion -o json",
            "x adopt",
            "x adopt acme --all",
            "x adopt acme -A",
            "x adopt --all -l tier=gold",
        ] {
            assert_eq!(parsed(line).map_err(|error| error.exit_code()).err(), Some(2), "{line}");
        }
        let of_both = |line: &str| Arguments::read(line.split(' ').map(Into::into)).err();
        assert!(of_both("x -n a status").is_none() && of_both("x status -A").is_none());
        for line in [
            "x -n a status -A",
            "x status -n a -A",
            "x -n a check -A",
            "x -n a upgrade plan -A",
            "x -n a adopt --all -A",
            "x -n a report -f out.zip -A",
        ] {
            assert_eq!(of_both(line).map(|error| error.exit_code()), Some(2), "{line}");
        }
    }

    /// The commands without `-o json`, and why.
    const WITHOUT_JSON: [(&str, &str); 2] = [
        ("report", "writes a file, and says only how many files it has"),
        ("completion", "prints a program or a script"),
    ];

    #[test]
    fn each_command_prints_json_that_is_documented_or_has_a_reason_not_to() {
        let document = include_str!("../../../docs/reference/json.md");
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            let prints_json = command.get_arguments().any(|argument| {
                let is_json = argument.get_possible_values().iter().any(|value| value.get_name() == "json");
                argument.get_short() == Some('o') && is_json
            });
            let has_reason = WITHOUT_JSON.iter().any(|(other, _)| *other == name);
            assert_ne!(prints_json, has_reason, "{name}");
            let is_documented = document.contains(&format!("`kubectl docket {name}`"));
            assert_eq!(is_documented, prints_json, "{name}");
        }
    }

    #[test]
    fn list_is_the_word_of_docket_for_deliveries() {
        let asked = |line: &str| match Arguments::read(line.split(' ').map(Into::into)) {
            Ok(Arguments { command: Command::Deliveries(asked), .. }) => asked.webhook,
            other => panic!("{line}: {other:?}"),
        };
        for line in [
            "x deliveries orders",
            "x deliveries list orders",
            "x -n deliveries deliveries list orders",
            "x --namespace audit deliveries list orders",
            "x --context audit deliveries list orders",
            "x --kubeconfig people deliveries list orders",
        ] {
            assert_eq!(asked(line).as_deref(), Some("orders"), "{line}");
        }
        assert_eq!(asked("x deliveries list list").as_deref(), Some("list"));
        assert_eq!(asked("x deliveries -n list orders").as_deref(), Some("orders"));
        for (line, is_right) in [
            ("x audit list -t acme", true),
            ("x -n a audit -t acme --event SignedIn", true),
            ("x people list contacts -t acme --customer C-1", true),
            ("x people employees -t acme", true),
            ("x people employees -t acme --customer C-1", false),
            ("x people list -t acme", false),
            ("x audit -t acme --event Read", false),
        ] {
            let read = Arguments::read(line.split(' ').map(Into::into));
            assert_eq!(read.is_ok(), is_right, "{line}");
        }
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

    #[test]
    fn defaults_are_those_of_the_documentation_and_a_wait_has_bounds() {
        let command = Arguments::command();
        let default = |path: &[&str], name: &str| {
            let leaf =
                path.iter().fold(&command, |command, word| command.find_subcommand(word).expect("a command"));
            let argument = leaf.get_arguments().find(|argument| argument.get_long() == Some(name));
            let values = argument.expect("a flag").get_default_values().iter();
            values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>().join(",")
        };
        assert_eq!(default(&["check"], "release-namespace"), "docket");
        assert_eq!(default(&["report"], "release-namespace"), "docket");
        assert_eq!(default(&["reconcile"], "timeout"), "60s");
        assert_eq!(default(&["deliveries"], "limit"), "25");
        assert_eq!(default(&["resend"], "per-second"), "10");
        assert_eq!(
            [duration("1s"), duration("1h")],
            [1, 3_600].map(|seconds| Ok(Duration::from_secs(seconds)))
        );
        for wrong in ["999ms", "0s", "61m", "60"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
