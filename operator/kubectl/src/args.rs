//! The command line. Flags that kubectl has as well are called and mean the same.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use docket_crds::is_object_name;
use docket_program::arguments;

/// What someone who runs Docket on Kubernetes asks first. Reads Tenants and Webhooks, never a Secret and never a payload.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-docket",
    bin_name = "kubectl docket",
    version,
    after_help = "Exit codes: 0 all is well, 1 a problem was found, 2 wrong arguments, 3 no access to the cluster."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// How the result is printed.
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which cluster, and where in it.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Namespace of the Tenants and Webhooks [default: that of the context].
    #[arg(short, long, global = true, value_name = "NAME", value_parser = name)]
    pub(crate) namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Context of the kubeconfig [default: the current one].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Kubeconfig [default: as kubectl].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs. Fields are only added within a version 0.x.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what is wrong with the installation and how to correct it.
    Check {
        /// Check whether Docket can be installed.
        #[arg(long)]
        pre: bool,
        /// Namespace of the operator and the data plane.
        #[arg(long, default_value = "docket", value_name = "NAME", value_parser = name)]
        release_namespace: String,
    },
    /// Show Tenants with their API keys, databases and Webhooks.
    Status {
        /// Name of one Tenant [default: all].
        #[arg(value_name = "TENANT", value_parser = name)]
        tenant: Option<String>,
    },
    /// Have the operator look at an object now.
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
        key: Key,
        /// Deactivate the key: requests with it get 401.
        #[arg(long)]
        finish: bool,
    },
    /// Print the completions for a shell.
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tenant,
    Webhook,
}

/// A Tenant or a Webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

/// An API key of a Tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
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

impl FromStr for Key {
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
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn objects_and_keys_are_named_as_in_kubectl() {
        let object = |kind, name: &str| Ok(Object { kind, name: name.to_owned() });
        assert_eq!("tenant/acme".parse(), object(Kind::Tenant, "acme"));
        assert_eq!("webhooks/a-b".parse(), object(Kind::Webhook, "a-b"));
        for wrong in ["acme", "pod/acme", "tenant/", "tenant/A b"] {
            assert!(wrong.parse::<Object>().is_err(), "{wrong}");
        }
        assert_eq!("acme/primary".parse(), Ok(Key { tenant: "acme".into(), name: "primary".into() }));
        for wrong in ["acme", "acme/", "/primary", "a/b/c"] {
            assert!(wrong.parse::<Key>().is_err(), "{wrong}");
        }
    }
}
