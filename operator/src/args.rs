//! The command line. It is read and checked once, here. Every setting of `run` can also be an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use docket_crds::{EventCode, is_object_name};
use docket_program::arguments::{self, socket};
use docket_program::logging::LogArguments;
use docket_schema::postgres::AllowedDatabase;

use crate::state::migrations::MigrationWindow;

/// The operator of Docket: provisions what Tenants and Webhooks need, and reports their status.
#[derive(Debug, Parser)]
#[command(name = "docket-operator", version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch Tenants and Webhooks, and reconcile them: in a pod with its service account, elsewhere with KUBECONFIG.
    Run(Box<RunArguments>),
    /// Print the CustomResourceDefinitions of Tenant and Webhook as YAML.
    Crds,
    /// Print the licences of Docket and of everything that its image contains.
    Licenses,
}

/// Settings of `docket-operator run`.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    /// Namespace of the data plane's runtime Secrets and of the lease [default: the pod's own].
    #[arg(long, env = "DOCKET_RELEASE_NAMESPACE", value_name = "NAME", value_parser = namespace)]
    pub release_namespace: Option<String>,
    /// Namespace to watch for Tenants and Webhooks; repeatable [default: all].
    #[arg(long = "watch-namespace", env = "DOCKET_WATCH_NAMESPACES", value_name = "NAME", value_delimiter = ',', value_parser = namespace)]
    pub watch_namespaces: Vec<String>,
    /// PostgreSQL server for managed databases: a name, and a file with the URL of an administrator; repeatable. Changes of
    /// the file take effect without a restart. Instead of the file it may be a folder with a file for each key of a Secret:
    /// host, port, user or username, password, dbname, tls.crt, tls.key, ca.crt. Settings may follow, each after a
    /// semicolon: host, port, dbname, sslmode and sslrootcert replace a key of the folder, and pooler=HOST:PORT is a pooler
    /// in transaction mode, through which the data plane connects [default: none].
    #[arg(
        long = "database-server",
        env = "DOCKET_DATABASE_SERVERS",
        value_name = "NAME=FILE[;SETTING=VALUE]",
        value_delimiter = ','
    )]
    pub database_servers: Vec<String>,
    /// Allowed host of external databases: a name, *.NAME for all names below it, or a network; repeatable. A link-local
    /// address must be in a network that you name. Metadata services of clouds are never allowed [default: any host, but no
    /// such address].
    #[arg(long, env = "DOCKET_ALLOW_EXTERNAL_DATABASE", value_name = "HOST-OR-CIDR", value_delimiter = ',')]
    pub allow_external_database: Vec<AllowedDatabase>,
    /// Folder of the CA certificates that the URLs of external databases may name in sslrootcert.
    #[arg(long, env = "DOCKET_CA_FOLDER", default_value = "/etc/docket/ca", value_name = "FOLDER")]
    pub ca_folder: PathBuf,
    /// File with the URL of the data plane's Redis. Without it, the operator does not observe what pods serve and deliver.
    /// Changes of the file take effect within seconds, without a restart.
    #[arg(long, env = "DOCKET_REDIS_URL_FILE", value_name = "FILE")]
    pub redis_url_file: Option<PathBuf>,
    /// File with the CA certificates, in PEM, that rediss:// trusts [default: the public CAs].
    #[arg(long, env = "DOCKET_REDIS_CA_FILE", value_name = "FILE")]
    pub redis_ca_file: Option<PathBuf>,
    /// Name of this installation if several share a Redis; must be the same for the data plane [default: none].
    #[arg(long, env = "DOCKET_REDIS_RELEASE", value_name = "NAME")]
    pub redis_release: Option<String>,
    /// Event to disable for every tenant; repeatable [default: none].
    #[arg(
        long = "disabled-event",
        env = "DOCKET_DISABLED_EVENTS",
        value_name = "CODE",
        value_delimiter = ','
    )]
    pub disabled_events: Vec<EventCode>,
    /// Address and port of /healthz, /readyz and /metrics. `[::]` is every IPv6 and IPv4 address; without IPv6, the operator
    /// listens on 0.0.0.0 instead.
    #[arg(long, env = "DOCKET_LISTEN", default_value = "[::]:9090", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub listen: SocketAddr,
    /// Maximum number of Tenants, and of Webhooks, reconciled at once, 1 to 256.
    #[arg(long, env = "DOCKET_CONCURRENCY", default_value = "8", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
    /// Maximum number of databases that are migrated at once, 1 to 64.
    #[arg(long, env = "DOCKET_MIGRATIONS_AT_ONCE", default_value = "4", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub migrations_at_once: u16,
    /// Do not migrate databases that are in use. The data plane works with the schema of the previous release. New databases
    /// are made and migrated all the same.
    #[arg(long, env = "DOCKET_PAUSE_MIGRATIONS")]
    pub pause_migrations: bool,
    /// Time of day, in UTC, in which migrations of databases that are in use begin, such as 22:00-04:00; its end may be on
    /// the next day [default: always].
    #[arg(long, env = "DOCKET_MIGRATION_WINDOW", value_name = "HH:MM-HH:MM")]
    pub migration_window: Option<MigrationWindow>,
    /// YAML file with the default and maximum limits of Tenants [default: the built-in defaults, no maxima].
    #[arg(long, env = "DOCKET_TENANT_LIMITS", value_name = "FILE")]
    pub tenant_limits: Option<PathBuf>,
    /// How often the operator checks the database of a Tenant that did not change, and its Secrets without a label, give or
    /// take a tenth. All checks together read one object every 3 s on average, so a check takes longer to come if there are many
    /// Tenants.
    #[arg(long, env = "DOCKET_RESYNC", default_value = "10m", value_name = "DURATION", value_parser = duration)]
    pub resync: Duration,
    /// How long the deliveries of a deleted Webhook wait for it to be created again, from 1s to 3650d; must be the same for the
    /// data plane. The operator keeps the Webhook's generated secret a day longer.
    #[arg(long, env = "DOCKET_WEBHOOK_GRACE", default_value = "1h", value_name = "DURATION", value_parser = grace)]
    pub webhook_grace: Duration,
    /// Identity of this process in the lease; must be unique among the replicas [default: the host's name and the process id].
    #[arg(long, env = "DOCKET_IDENTITY", value_name = "NAME")]
    pub identity: Option<String>,
    /// How long the lease is valid without renewal, at least 5s. If this process is killed, another replica waits this long.
    #[arg(long, env = "DOCKET_LEASE_DURATION", default_value = "15s", value_name = "DURATION", value_parser = duration)]
    pub lease_duration: Duration,
    /// How often the lease is renewed; must be less than half of its duration.
    #[arg(long, env = "DOCKET_LEASE_RENEWAL", default_value = "5s", value_name = "DURATION", value_parser = duration)]
    pub lease_renewal: Duration,
    /// Logging.
    #[command(flatten)]
    pub log: LogArguments,
}

fn namespace(text: &str) -> Result<String, String> {
    if text.len() <= 63 && !text.contains('.') && is_object_name(text) {
        Ok(text.to_owned())
    } else {
        Err("must be a namespace: lower-case letters, digits and \"-\"".into())
    }
}

/// Parses a duration in `ms`, `s`, `m` or `h`, of any length except zero.
fn duration(text: &str) -> Result<Duration, String> {
    let duration = arguments::duration(text).filter(|duration| !duration.is_zero() && !text.ends_with('d'));
    duration.ok_or_else(|| {
        "must be a number with ms, s, m or h, such as 500ms, 15s or 10m, and more than 0".into()
    })
}

/// A duration from one second to ten years, as the data plane takes it.
fn grace(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_secs(1)..=Duration::from_secs(3650 * 24 * 3600);
    let duration = arguments::duration(text).filter(|duration| bounds.contains(duration));
    duration.ok_or_else(|| "must be a number and a unit, such as 1h, 30m or 2d, from 1s to 3650d".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn defaults_of_run_are_as_documented() {
        let Command::Run(run) = Arguments::parse_from(["docket-operator", "run"]).command else {
            panic!("it is run")
        };
        assert_eq!((run.concurrency, run.migrations_at_once), (8, 4));
        assert_eq!((run.resync, run.webhook_grace), (Duration::from_secs(600), Duration::from_secs(3600)));
        assert_eq!(
            (run.lease_duration, run.lease_renewal),
            (Duration::from_secs(15), Duration::from_secs(5))
        );
        assert_eq!(run.listen.port(), 9090);
        assert!(!run.pause_migrations && run.migration_window.is_none() && run.disabled_events.is_empty());
    }

    #[test]
    fn numbers_are_within_their_bounds() {
        let parsed =
            |flag: &str, value: &str| Arguments::try_parse_from(["docket-operator", "run", flag, value]);
        for (flag, most) in [("--concurrency", 256), ("--migrations-at-once", 64)] {
            for (value, is_right) in [(0, false), (1, true), (most, true), (most + 1, false)] {
                assert_eq!(parsed(flag, &value.to_string()).is_ok(), is_right, "{flag} {value}");
            }
        }
    }

    #[test]
    fn migration_window_is_checked_and_its_error_says_what_is_right() {
        let parsed = |window: &str| {
            Arguments::try_parse_from(["docket-operator", "run", "--migration-window", window])
        };
        assert!(parsed("22:00-04:00").is_ok());
        let error = parsed("22-04").unwrap_err().to_string();
        assert!(error.contains("such as 22:00-04:00"), "{error}");
    }

    #[test]
    fn duration_needs_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        for wrong in ["", "10", "s", "-1s", "0s", "1d", "1.5s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn grace_may_be_in_days() {
        assert_eq!(grace("2d"), Ok(Duration::from_secs(48 * 3600)));
        assert!(grace("1s").is_ok() && grace("3650d").is_ok());
        for wrong in ["0s", "500ms", "3651d", "1", "-1h"] {
            assert!(grace(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn namespace_must_be_a_label() {
        assert!(namespace("tenants-1").is_ok());
        for wrong in ["", "Tenants", "-a", "a-", "a.b", &"a".repeat(64)] {
            assert!(namespace(wrong).is_err(), "{wrong}");
        }
    }
}
