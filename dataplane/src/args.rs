//! The command line, read and checked once, here; every setting of the servers is an environment variable as well.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use docket_crds::EventCode;
use docket_domain::delivery::{DeliveryId, Status};
use docket_domain::moment;
use docket_domain::resend::{MAX_COUNT, MAX_PER_SECOND};
use docket_receiver::Fail;
use ipnet::IpNet;
use jiff::Timestamp;
use tracing_subscriber::EnvFilter;
use url::Url;

use crate::telemetry::LogFormat;

/// Docket: a multi-tenant legal-support order API with signed outbound webhooks.
#[derive(Debug, Parser)]
#[command(name = "docket", version, about, after_help = "Without a command, `docket dev` runs.")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything in one process: tenants from YAML files, a SQLite file each, a built-in webhook receiver.
    Dev(DevArguments),
    /// Run some roles of the service, as one of any number of processes on the same PostgreSQL and Redis.
    Serve(ServeArguments),
    /// Customers of a tenant.
    #[command(subcommand)]
    Customer(CustomerCommand),
    /// Contacts (a customer's users) of a tenant.
    #[command(subcommand)]
    Contact(ContactCommand),
    /// Employees (the tenant's own users).
    #[command(subcommand)]
    Employee(EmployeeCommand),
    /// Webhook deliveries of a tenant: metadata and attempts, never payloads.
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// Run a stand-alone webhook receiver that prints each delivery and whether its signature verifies.
    Listen(ListenArguments),
    /// Ask processes whether they are well: exits with 0 if each answers 200.
    Healthcheck(HealthcheckArguments),
    /// Print the licences of Docket and of everything that its image contains.
    Licenses,
}

/// Settings of `docket dev`.
#[derive(Debug, Clone, Args)]
pub struct DevArguments {
    /// Where tenants come from, and where their data is.
    #[command(flatten)]
    pub source: SourceArguments,
    /// Address and port of the API.
    #[arg(long, env = "DOCKET_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub listen: SocketAddr,
    /// Address and port of /healthz, /readyz and /metrics.
    #[arg(long, env = "DOCKET_MANAGEMENT", default_value = "127.0.0.1:9090", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub management: SocketAddr,
    /// Host names.
    #[command(flatten)]
    pub hosts: HostArguments,
    /// Address and port of the built-in webhook receiver (HTTPS, throw-away certificate).
    #[arg(long, env = "DOCKET_RECEIVER", default_value = "127.0.0.1:8443", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub receiver: SocketAddr,
    /// Run without the built-in receiver.
    #[arg(long, env = "DOCKET_NO_RECEIVER")]
    pub no_receiver: bool,
    /// How deliveries are made.
    #[command(flatten)]
    pub deliveries: DeliveryArguments,
    /// How often to look for new invoices. Often costs little here: a database file that has not changed is not opened.
    #[arg(long, env = "DOCKET_INVOICE_SCAN_INTERVAL", default_value = "5s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub invoice_scan_interval: Duration,
    /// Logging.
    #[command(flatten)]
    pub log: LogArguments,
}

/// Settings of `docket serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArguments {
    /// What this process does: api answers requests, worker makes deliveries, detector looks for new invoices.
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
    /// Folder of the keys that are generated for the tenants of --config-dir; all processes need the same.
    #[arg(
        long,
        env = "DOCKET_DATA_DIR",
        default_value = ".docket",
        value_name = "FOLDER",
        conflicts_with = "config_namespace"
    )]
    pub data_dir: PathBuf,
    /// Redis.
    #[command(flatten)]
    pub redis: RedisArguments,
    /// Connections of this process to PostgreSQL at most, over all tenants.
    #[arg(long, env = "DOCKET_DATABASE_CONNECTIONS", default_value_t = 32, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub database_connections: u16,
    /// Of these, connections to one tenant's database at most.
    #[arg(long, env = "DOCKET_DATABASE_CONNECTIONS_PER_TENANT", default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub database_connections_per_tenant: u16,
    /// Address and port of the API.
    #[arg(long, env = "DOCKET_LISTEN", default_value = "0.0.0.0:8080", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub listen: SocketAddr,
    /// Address and port of /healthz, /readyz and /metrics.
    #[arg(long, env = "DOCKET_MANAGEMENT", default_value = "0.0.0.0:9090", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub management: SocketAddr,
    /// Host names.
    #[command(flatten)]
    pub hosts: HostArguments,
    /// How deliveries are made.
    #[command(flatten)]
    pub deliveries: DeliveryArguments,
    /// How often one of the workers reads what is still to be delivered from the databases, in case Redis has lost it.
    #[arg(long, env = "DOCKET_SWEEP_INTERVAL", default_value = "60s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub sweep_interval: Duration,
    /// How often to look for new invoices, in each tenant's database.
    #[arg(long, env = "DOCKET_INVOICE_SCAN_INTERVAL", default_value = "30s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub invoice_scan_interval: Duration,
    /// Time between a SIGTERM, from which on /readyz says no, and the end of accepting requests.
    #[arg(long, env = "DOCKET_SHUTDOWN_DELAY", default_value = "5s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration_or_zero)]
    pub shutdown_delay: Duration,
    /// What this process is called where the operator asks who serves what [default: the host's name and the process id].
    #[arg(long, env = "POD_NAME", value_name = "NAME", value_parser = word)]
    pub pod_name: Option<String>,
    /// Logging.
    #[command(flatten)]
    pub log: LogArguments,
}

/// What a process of `docket serve` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Answers requests.
    Api,
    /// Makes deliveries, and sweeps.
    Worker,
    /// Looks for new invoices.
    Detector,
}

impl Role {
    /// As it is written on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Detector => "detector",
        }
    }
}

/// Where the tenants of `docket serve` come from.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct ServeSource {
    /// Folder of YAML files with Tenant, Webhook, Secret and ConfigMap documents; databases are external ones, by Secret.
    #[arg(long, env = "DOCKET_CONFIG_DIR", value_name = "FOLDER")]
    pub config_dir: Option<PathBuf>,
    /// Namespace of the operator's runtime Secrets, in the cluster of KUBECONFIG or the one this runs in.
    #[arg(long, env = "DOCKET_CONFIG_NAMESPACE", value_name = "NAMESPACE")]
    pub config_namespace: Option<String>,
}

/// How Redis is reached.
#[derive(Debug, Clone, Args)]
pub struct RedisArguments {
    /// File with the URL of Redis: redis://, rediss://, with +sentinel or +cluster; a password in it stays out of argv.
    #[arg(long, env = "DOCKET_REDIS_URL_FILE", value_name = "FILE")]
    pub redis_url_file: Option<PathBuf>,
    /// File with the CA certificates, in PEM, that rediss:// trusts [default: the public ones].
    #[arg(long, env = "DOCKET_REDIS_CA_FILE", value_name = "FILE")]
    pub redis_ca_file: Option<PathBuf>,
    /// Name of this installation, where several share a Redis; the operator needs the same [default: none].
    #[arg(long, env = "DOCKET_REDIS_RELEASE", value_name = "NAME")]
    pub redis_release: Option<String>,
}

/// Host names of the API.
#[derive(Debug, Clone, Args)]
pub struct HostArguments {
    /// Host name of the API; its subdomains are tenants: acme.localhost:8080 is the tenant with subdomain acme.
    #[arg(long, env = "DOCKET_BASE_DOMAIN", default_value = "localhost", value_name = "NAME", value_parser = host_name)]
    pub base_domain: String,
    /// Host name of the older API, where clientCode resolves the tenant and X-Api-Key does not count [default: none].
    #[arg(long, env = "DOCKET_LEGACY_HOST", value_name = "NAME", value_parser = host_name)]
    pub legacy_host: Option<String>,
}

/// How deliveries are made.
#[derive(Debug, Clone, Args)]
pub struct DeliveryArguments {
    /// A network that webhooks may reach although it is private, loopback or otherwise reserved; repeatable.
    /// The built-in receiver is allowed by itself [default: none].
    #[arg(long, env = "DOCKET_ALLOW_EGRESS", value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    pub allow_egress: Vec<IpNet>,
    /// Base of the retry delays: failed attempt n is followed by 2^n times this (60, 120, 240, 480 s).
    #[arg(long, env = "DOCKET_BACKOFF_BASE", default_value = "30s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub backoff_base: Duration,
    /// How often to look for due deliveries when nothing wakes the worker.
    #[arg(long, env = "DOCKET_POLL_INTERVAL", default_value = "15s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub poll_interval: Duration,
    /// Time of one delivery attempt, from the name look-up to the last byte of the answer.
    #[arg(long, env = "DOCKET_ATTEMPT_TIMEOUT", default_value = "30s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub attempt_timeout: Duration,
    /// How long finished deliveries and their attempts are kept in the webhook logs, at least 1s.
    #[arg(long, env = "DOCKET_DELIVERY_RETENTION", default_value = "30d", value_name = "DURATION", allow_hyphen_values = true, value_parser = retention)]
    pub delivery_retention: Duration,
}

/// Logging.
#[derive(Debug, Clone, Args)]
pub struct LogArguments {
    /// How log lines look, on standard error.
    #[arg(long, env = "DOCKET_LOG_FORMAT", default_value = "text", value_enum)]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, or a tracing filter.
    #[arg(long, env = "DOCKET_LOG", default_value = "info", value_name = "FILTER", value_parser = log_filter)]
    pub log: String,
}

/// Where tenants come from, and where their data is.
#[derive(Debug, Clone, Args)]
pub struct SourceArguments {
    /// Folder of YAML files with Tenant, Webhook, Secret and ConfigMap documents.
    #[arg(long, env = "DOCKET_CONFIG_DIR", default_value = "examples", value_name = "FOLDER")]
    pub config_dir: PathBuf,
    /// Folder of the tenants' databases and generated keys.
    #[arg(long, env = "DOCKET_DATA_DIR", default_value = ".docket", value_name = "FOLDER")]
    pub data_dir: PathBuf,
}

/// `docket customer …`
#[derive(Debug, Subcommand)]
pub enum CustomerCommand {
    /// Add a customer to a tenant.
    Add {
        /// Where the tenant is.
        #[command(flatten)]
        at: TenantArguments,
        /// The customer's code, 1 to 64 characters; webhooks name it as customerCode.
        #[arg(long, value_name = "CUSTOMER_CODE", value_parser = code)]
        code: String,
        /// The customer's name, 1 to 200 characters.
        #[arg(long, value_name = "TEXT", value_parser = name)]
        name: String,
    },
}

/// `docket contact …`
#[derive(Debug, Subcommand)]
pub enum ContactCommand {
    /// Add a contact to a customer. The password is read from standard input.
    Add {
        /// Where the tenant is.
        #[command(flatten)]
        at: TenantArguments,
        /// The customer's code.
        #[arg(long, value_name = "CUSTOMER_CODE", value_parser = code)]
        customer: String,
        /// The e-mail address to sign in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
        /// Display name, 1 to 200 characters.
        #[arg(long, value_name = "TEXT", value_parser = name)]
        name: String,
        /// The contact's code, 1 to 64 characters [default: the next number].
        #[arg(long, value_name = "CONTACT_CODE", value_parser = code)]
        code: Option<String>,
    },
}

/// `docket employee …`
#[derive(Debug, Subcommand)]
pub enum EmployeeCommand {
    /// Add an employee. The password is read from standard input.
    Add {
        /// Where the tenant is.
        #[command(flatten)]
        at: TenantArguments,
        /// The check-in name to sign in with, 1 to 320 characters.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// Display name, 1 to 200 characters.
        #[arg(long, value_name = "TEXT", value_parser = name)]
        name: String,
        /// May see the webhook logs.
        #[arg(long)]
        administrator: bool,
    },
}

/// `docket deliveries …`
#[derive(Debug, Subcommand)]
pub enum DeliveriesCommand {
    /// The newest deliveries.
    List {
        /// Where the tenant is.
        #[command(flatten)]
        at: TenantArguments,
        /// Only in this status: Pending, Failed, Succeeded or DeadLetter.
        #[arg(long, value_name = "STATUS", value_parser = status)]
        status: Option<Status>,
        /// Only about this web order, work order or invoice.
        #[arg(long, value_name = "NUMBER")]
        about: Option<String>,
        /// Only to this webhook: namespace/name, or its uid.
        #[arg(long, value_name = "WEBHOOK")]
        webhook: Option<String>,
        /// Only of this event, such as order.created.
        #[arg(long, value_name = "EVENT_CODE", value_parser = event_code)]
        event: Option<EventCode>,
        /// Created at or after: 2026-11-21 (its first moment in UTC), or 2026-11-21T09:30:00Z.
        #[arg(long, value_name = "TIME", value_parser = time_ms)]
        from: Option<i64>,
        /// Created before.
        #[arg(long, value_name = "TIME", value_parser = time_ms)]
        to: Option<i64>,
        /// At most so many, 1 to 1000.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000))]
        limit: i64,
    },
    /// One delivery with each attempt, and what to do about a failure.
    Show {
        /// Where the tenant is.
        #[command(flatten)]
        at: TenantArguments,
        /// The delivery's id.
        #[arg(value_parser = delivery_id)]
        id: DeliveryId,
    },
    /// Send a delivery again, or all dead letters of a webhook: as new deliveries with the same event id and bytes,
    /// signed with today's secret. For many, only what would be sent is shown until --yes is given.
    Resend {
        /// Where the tenant is.
        #[command(flatten)]
        at: TenantArguments,
        /// The delivery's id.
        #[arg(value_parser = delivery_id, conflicts_with_all = ["webhook", "from", "to", "limit", "per_second", "yes"])]
        id: Option<DeliveryId>,
        /// Which dead letters.
        #[command(flatten)]
        many: ManyArguments,
    },
    /// Stop a resend of many: what was not attempted yet is taken back, and can be sent again.
    Stop {
        /// Where the tenant is.
        #[command(flatten)]
        at: TenantArguments,
        /// The resend's id.
        #[arg(value_name = "RESEND_ID")]
        id: String,
    },
    /// The newest resends of many, and how far each is.
    Resends {
        /// Where the tenant is.
        #[command(flatten)]
        at: TenantArguments,
        /// At most so many, 1 to 1000.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000))]
        limit: i64,
    },
}

/// Which dead letters to send again, and how fast.
#[derive(Debug, Clone, Args)]
pub struct ManyArguments {
    /// All dead letters of this webhook, oldest first: namespace/name, or its uid.
    #[arg(long, value_name = "WEBHOOK")]
    pub webhook: Option<String>,
    /// Only those created at or after: 2026-11-21 (its first moment in UTC), or 2026-11-21T09:30:00Z.
    #[arg(long, value_name = "TIME", value_parser = time_ms, requires = "webhook")]
    pub from: Option<i64>,
    /// Only those created before.
    #[arg(long, value_name = "TIME", value_parser = time_ms, requires = "webhook")]
    pub to: Option<i64>,
    /// The oldest so many, 1 to 10000 [default: 10000].
    #[arg(long, value_name = "COUNT", requires = "webhook", value_parser = clap::value_parser!(i64).range(1..=MAX_COUNT))]
    pub limit: Option<i64>,
    /// Deliveries due per second, 1 to 100 [default: 10].
    #[arg(long, value_name = "COUNT", requires = "webhook", value_parser = clap::value_parser!(i64).range(1..=MAX_PER_SECOND))]
    pub per_second: Option<i64>,
    /// Send them; without this only what would be sent is shown.
    #[arg(long, requires = "webhook")]
    pub yes: bool,
}

/// Which tenant.
#[derive(Debug, Clone, Args)]
pub struct TenantArguments {
    /// The tenant's clientCode.
    #[arg(long, env = "DOCKET_TENANT", value_name = "CLIENT_CODE")]
    pub tenant: String,
    /// Where it is.
    #[command(flatten)]
    pub source: SourceArguments,
    /// Take the tenant from the operator's runtime Secrets in this namespace instead of --config-dir, as `docket serve`
    /// does; its database is the PostgreSQL one that is named there.
    #[arg(long, env = "DOCKET_CONFIG_NAMESPACE", value_name = "NAMESPACE")]
    pub config_namespace: Option<String>,
    /// The database is the PostgreSQL one that --config-dir names by a Secret, as for `docket serve`, and no file.
    #[arg(long, env = "DOCKET_POSTGRESQL")]
    pub postgresql: bool,
    /// Redis of `docket serve`, which is told what is sent again; without it the next sweep finds that.
    #[command(flatten)]
    pub redis: RedisArguments,
}

impl TenantArguments {
    /// Whether it is a tenant of `docket serve` and not of `docket dev`.
    pub fn is_served(&self) -> bool {
        self.postgresql || self.config_namespace.is_some()
    }
}

/// Settings of `docket listen`.
#[derive(Debug, Args)]
pub struct ListenArguments {
    /// Address and port to listen on (HTTPS).
    #[arg(long, env = "DOCKET_LISTEN_ADDRESS", default_value = "127.0.0.1:9443", value_name = "ADDRESS:PORT", value_parser = socket)]
    pub listen: SocketAddr,
    /// File with the webhook's secret, used byte for byte as in the Secret [default: none, deliveries are unsigned].
    #[arg(long, env = "DOCKET_SECRET_FILE", value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Answer with this status instead of 200: `500` always, `500:3` for the first three requests.
    #[arg(long, value_name = "STATUS[:TIMES]")]
    pub fail: Option<Fail>,
    /// Wait so long before answering.
    #[arg(long, default_value = "0s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration_or_zero)]
    pub delay: Duration,
    /// Folder that keeps the receiver's throw-away certificate and its CA.
    #[arg(long, env = "DOCKET_CERTIFICATE_DIR", default_value = ".docket/listen", value_name = "FOLDER")]
    pub certificate_dir: PathBuf,
}

/// Settings of `docket healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckArguments {
    /// What to ask, such as http://127.0.0.1:9090/readyz; may be given several times.
    #[arg(long, required = true, value_name = "URL", value_parser = plain_url)]
    pub url: Vec<Url>,
    /// Ask again for so long until each answers 200.
    #[arg(long, default_value = "0s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration_or_zero)]
    pub wait: Duration,
}

/// A time with its unit: `500ms`, `30s`, `5m`, `1h`; more than nothing and at most a day.
fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err("must be more than 0".into()),
        duration => Ok(duration),
    }
}

fn duration_or_zero(text: &str) -> Result<Duration, String> {
    const RIGHT: &str = "write a number and a unit: 500ms, 30s, 5m or 1h, at most 24h";
    let duration = number_and_unit(text).filter(|duration| *duration <= DAY);
    duration.filter(|_| !text.ends_with('d')).ok_or_else(|| RIGHT.into())
}

/// Like [`duration`], also in days: `30d`; from a second to ten years.
fn retention(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_secs(1)..=3650 * DAY;
    let duration = number_and_unit(text).filter(|duration| bounds.contains(duration));
    duration.ok_or_else(|| "write a number and a unit: 30d, 12h or 5m, from 1s to 3650d".into())
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn number_and_unit(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis).map(Duration::from_millis)
}

fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "must be an address and a port, such as 127.0.0.1:8080 or [::1]:8080".into())
}

fn plain_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "http" && url.has_host());
    url.ok_or_else(|| "must be an http:// URL, such as http://127.0.0.1:9090/readyz".into())
}

fn network(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| "must be a network, such as 10.0.0.0/8, or 127.0.0.1/32 for one address".into())
}

fn log_filter(text: &str) -> Result<String, String> {
    // A bare word that is no level would be a target, and silence all others.
    let level = |part: &str| part.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let is_sound = text.split(',').all(|part| part.contains(['=', '[']) || level(part.trim()));
    match EnvFilter::try_new(text) {
        Ok(_) if is_sound => Ok(text.to_owned()),
        _ => {
            Err("must be error, warn, info, debug or trace, or a tracing filter such as docket=debug,warn"
                .into())
        }
    }
}

fn host_name(text: &str) -> Result<String, String> {
    let name = text.to_ascii_lowercase();
    let sound = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() <= 253 && name.split('.').all(sound) {
        Ok(name)
    } else {
        Err("must be a host name without scheme or port, such as api.example.com".into())
    }
}

fn bounded(text: &str, max: usize) -> Result<String, String> {
    let count = text.chars().count();
    let trimmed = text.trim() == text;
    if (1..=max).contains(&count) && trimmed && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!("must have 1 to {max} characters, no control characters, and no blanks at its ends"))
    }
}

/// Without blanks, as it is part of a list.
fn word(text: &str) -> Result<String, String> {
    match bounded(text, 253)? {
        word if word.contains(char::is_whitespace) => Err("must have no blanks".into()),
        word => Ok(word),
    }
}

fn code(text: &str) -> Result<String, String> {
    bounded(text, 64)
}

fn name(text: &str) -> Result<String, String> {
    bounded(text, 200)
}

fn user_name(text: &str) -> Result<String, String> {
    bounded(text, 320)
}

fn email(text: &str) -> Result<String, String> {
    let text = bounded(text, 320)?;
    match text.split_once('@') {
        Some((user, host))
            if !user.is_empty() && host.contains('.') && !text.contains(char::is_whitespace) =>
        {
            Ok(text)
        }
        _ => Err("must be an e-mail address, such as ada@quillfeather.example".into()),
    }
}

fn status(text: &str) -> Result<Status, String> {
    let words = || Status::ALL.map(Status::as_str).join(", ");
    text.parse().map_err(|_| format!("must be one of {}", words()))
}

fn event_code(text: &str) -> Result<EventCode, String> {
    text.parse().map_err(|error: docket_crds::UnknownEventCode| error.to_string())
}

/// In milliseconds since 1970.
fn time_ms(text: &str) -> Result<i64, String> {
    moment::parse(text).map(Timestamp::as_millisecond).ok_or_else(|| moment::EXPECTED.into())
}

fn delivery_id(text: &str) -> Result<DeliveryId, String> {
    text.parse().map_err(|_| "must be a delivery id, as `docket deliveries list` shows it".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use docket_domain::delivery;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_the_contracts_numbers() {
        let arguments = Arguments::try_parse_from(["docket", "dev"]).expect("defaults");
        let Some(Command::Dev(dev)) = arguments.command else { panic!("dev") };
        assert_eq!(dev.deliveries.backoff_base, delivery::BACKOFF_BASE);
        assert_eq!(dev.deliveries.attempt_timeout, delivery::ATTEMPT_TIMEOUT);
        assert_eq!(dev.deliveries.poll_interval, delivery::POLL_INTERVAL);
    }

    #[test]
    fn serve_takes_what_a_pod_is_given() {
        let parsed = |more: &[&str]| Arguments::try_parse_from([&["docket", "serve"], more].concat());
        let arguments = parsed(&["--config-namespace", "docket", "--roles", "api,worker"]).expect("a source");
        let Some(Command::Serve(serve)) = arguments.command else { panic!("serve") };
        assert_eq!(serve.roles, [Role::Api, Role::Worker]);
        assert_eq!((serve.database_connections, serve.database_connections_per_tenant), (32, 8));
        assert_eq!(serve.shutdown_delay, Duration::from_secs(5));
        let refused = |more: &[&str]| parsed(more).expect_err("refused").to_string();
        assert!(refused(&[]).contains("--config-dir <FOLDER>|--config-namespace <NAMESPACE>"));
        let both = refused(&["--config-dir", "a", "--config-namespace", "b"]);
        assert!(both.contains("cannot be used with"), "{both}");
        let portal = refused(&["--config-dir", "a", "--roles", "portal"]);
        assert!(portal.contains("[possible values: api, worker, detector]"), "{portal}");
    }

    #[test]
    fn every_flag_of_the_servers_is_documented() {
        let document = include_str!("../../docs/configuration.md");
        let command = Arguments::command();
        for server in ["dev", "serve"] {
            let server = command.find_subcommand(server).expect("a command");
            for flag in server.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(document.contains(&format!("`--{flag}`")), "docs/configuration.md lacks --{flag}");
            }
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "30", "s", "-1s", "0s", "1d", "25h", "99999999999999999999s", "1.5s", "30 s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration_or_zero("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn retention_may_be_days() {
        assert_eq!(retention("30d"), Ok(30 * DAY));
        assert_eq!(retention("1s"), Ok(Duration::from_secs(1)));
        for wrong in ["", "30", "d", "-1d", "0d", "999ms", "3651d", "99999999999999999999d", "1w"] {
            assert!(retention(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn host_names_are_names() {
        assert_eq!(host_name("API.Example.com"), Ok("api.example.com".into()));
        for wrong in ["", "http://a", "a:80", "a..b", "-a", "a_b", "a/b"] {
            assert!(host_name(wrong).is_err(), "{wrong}");
        }
    }
}
