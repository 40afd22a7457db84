//! `docket serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use docket_program::arguments::socket;
use docket_program::logging::LogArguments;

use super::settings::{
    AuditArguments, DeliveryArguments, ExternalDatabaseArguments, HostArguments, InvoiceArguments,
    LimitsArguments, MailArguments, ProxyArguments, RedisArguments,
};
use super::values::{account, bytes, duration, duration_or_zero, word};

/// Settings of `docket serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArguments {
    /// Roles of this process: api serves requests, worker sends deliveries, detector finds new invoices, portal serves the
    /// administration portal at /portal on the tenants' hosts.
    #[arg(
        long,
        env = "DOCKET_ROLES",
        value_enum,
        value_delimiter = ',',
        default_value = "api,worker,detector",
        value_name = "ROLES"
    )]
    pub roles: Vec<Role>,
    /// Where tenants come from.
    #[command(flatten)]
    pub source: ServeSource,
    /// Folder of the keys that Docket generates for the tenants of --config-dir; must be the same for all processes.
    #[arg(
        long,
        env = "DOCKET_DATA_DIR",
        default_value = ".docket",
        value_name = "FOLDER",
        conflicts_with = "config_namespace"
    )]
    pub data_dir: PathBuf,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitsArguments,
    /// Redis.
    #[command(flatten)]
    pub redis: RedisArguments,
    /// How long a process with the role api or portal waits for Redis at its start. Then it serves requests without Redis, and
    /// workers send the deliveries once Redis is back. Other processes wait until Redis is available.
    #[arg(long, env = "DOCKET_REDIS_WAIT", default_value = "30s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration_or_zero)]
    pub redis_wait: Duration,
    /// Maximum number of connections of this process to PostgreSQL, over all tenants.
    #[arg(long, env = "DOCKET_DATABASE_CONNECTIONS", default_value_t = 32, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub database_connections: u16,
    /// Maximum number of these connections to one tenant's database.
    #[arg(long, env = "DOCKET_DATABASE_CONNECTIONS_PER_TENANT", default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub database_connections_per_tenant: u16,
    /// File with the URL of a watcher: a role that may log in to one database of the tenants' PostgreSQL server, and has no
    /// other right. With it, Docket does not read databases in which nothing changed [default: none].
    #[arg(long, env = "DOCKET_WATCHER_URL_FILE", value_name = "FILE", conflicts_with = "config_namespace")]
    pub watcher_url_file: Option<PathBuf>,
    /// External databases.
    #[command(flatten)]
    pub external: ExternalDatabaseArguments,
    /// Address and port of the API. `[::]` is every IPv6 and IPv4 address; without IPv6, Docket listens on 0.0.0.0 instead.
    #[arg(long, env = "DOCKET_LISTEN", default_value = "[::]:8080", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub listen: SocketAddr,
    /// Address and port of /healthz, /readyz and /metrics. `[::]` means the same as in --listen.
    #[arg(long, env = "DOCKET_MANAGEMENT", default_value = "[::]:9090", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub management: SocketAddr,
    /// Whether the role api serves the documentation, without credentials: /docs/, /swagger/, /openapi.json and
    /// /openapi/events.json. If not, links of the portal and of errors to it lead to a page that says so.
    #[arg(long, env = "DOCKET_DOCS", value_enum, default_value_t = Switch::On, value_name = "on|off")]
    pub docs: Switch,
    /// Serve metadata of tenants' orders and deliveries, the audit and lists of people on the management port, for `kubectl docket`. The cluster's API
    /// server says who a user is and what the user may do. Needs the role api or portal.
    #[arg(long, env = "DOCKET_PLATFORM")]
    pub platform: bool,
    /// ServiceAccount as which the portal creates, changes and removes Webhook objects. This process must be allowed to
    /// impersonate it [default: none, the portal only shows Webhooks].
    #[arg(long, env = "DOCKET_PORTAL_ACCOUNT", value_name = "NAMESPACE/NAME", value_parser = account, conflicts_with = "config_dir")]
    pub portal_account: Option<String>,
    /// Host names.
    #[command(flatten)]
    pub hosts: HostArguments,
    /// Proxies.
    #[command(flatten)]
    pub proxies: ProxyArguments,
    /// Memory that this process may use, such as 256Mi. It determines how much password checks, large bodies and connections
    /// may use [default: the limit of the control group, else the machine's memory].
    #[arg(long, env = "DOCKET_MEMORY_LIMIT", value_name = "BYTES", value_parser = bytes)]
    pub memory_limit: Option<u64>,
    /// Deliveries.
    #[command(flatten)]
    pub deliveries: DeliveryArguments,
    /// E-mail.
    #[command(flatten)]
    pub mail: MailArguments,
    /// The audit.
    #[command(flatten)]
    pub audit: AuditArguments,
    /// How often a worker reads pending deliveries from the databases, in case Redis has lost them.
    #[arg(long, env = "DOCKET_SWEEP_INTERVAL", default_value = "60s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub sweep_interval: Duration,
    /// How often to scan each tenant's database for new invoices.
    #[arg(long, env = "DOCKET_INVOICE_SCAN_INTERVAL", default_value = "30s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub invoice_scan_interval: Duration,
    /// Invoices.
    #[command(flatten)]
    pub invoices: InvoiceArguments,
    /// Delay after SIGTERM between failing /readyz and closing the listener.
    #[arg(long, env = "DOCKET_SHUTDOWN_DELAY", default_value = "5s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration_or_zero)]
    pub shutdown_delay: Duration,
    /// Pod name reported to the operator [default: the host's name and the process id].
    #[arg(long, env = "POD_NAME", value_name = "NAME", value_parser = word)]
    pub pod_name: Option<String>,
    /// Logging.
    #[command(flatten)]
    pub log: LogArguments,
}

/// Whether something is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// Served.
    On,
    /// Not served.
    Off,
}

docket_crds::words! {
    /// A role of a `docket serve` process.
    #[derive(clap::ValueEnum)]
    pub enum Role {
        /// Serves requests.
        Api = "api",
        /// Sends deliveries, and sweeps.
        Worker = "worker",
        /// Finds new invoices.
        Detector = "detector",
        /// Serves the administration portal.
        Portal = "portal",
    }
}

/// Where the tenants of `docket serve` come from.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct ServeSource {
    /// Folder of YAML files with Tenant, Webhook, Secret and ConfigMap documents; each Tenant names an external database.
    #[arg(long, env = "DOCKET_CONFIG_DIR", value_name = "FOLDER")]
    pub config_dir: Option<PathBuf>,
    /// Namespace of the operator's runtime Secrets, in the cluster that KUBECONFIG names or that this pod runs in.
    #[arg(long, env = "DOCKET_CONFIG_NAMESPACE", value_name = "NAMESPACE")]
    pub config_namespace: Option<String>,
}
