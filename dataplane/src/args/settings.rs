//! Settings that several commands share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use docket_crds::PlatformLimits;
use docket_egress::EgressPolicy;
use docket_mail::{Smtp, SmtpUrl};
use docket_store::postgres::{AllowedDatabase, CA_FOLDER, ExternalDatabases};
use http::HeaderName;
use ipnet::{IpNet, Ipv6Net};

use super::values::{
    age, duration, egress_network, host_name, nat64_prefix, network, portal_url, proxy_network, retention,
};

/// Tenants and data of `docket dev`.
#[derive(Debug, Clone, Args)]
pub struct SourceArguments {
    /// Folder of YAML files with Tenant, Webhook, Secret and ConfigMap documents.
    #[arg(long, env = "DOCKET_CONFIG_DIR", default_value = "examples", value_name = "FOLDER")]
    pub config_dir: PathBuf,
    /// Folder for the tenants' databases and generated keys.
    #[arg(long, env = "DOCKET_DATA_DIR", default_value = ".docket", value_name = "FOLDER")]
    pub data_dir: PathBuf,
}

/// What the platform gives its tenants.
#[derive(Debug, Clone, Args)]
pub struct LimitsArguments {
    /// YAML file with the default and maximum limits of the tenants of --config-dir [default: the built-in defaults, no
    /// maxima].
    #[arg(long, env = "DOCKET_TENANT_LIMITS", value_name = "FILE")]
    pub tenant_limits: Option<PathBuf>,
}

impl LimitsArguments {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// The file can't be read, or is not right; the message names each field that is not.
    pub fn read(&self) -> Result<PlatformLimits> {
        let Some(file) = &self.tenant_limits else { return Ok(PlatformLimits::default()) };
        let what = || format!("--tenant-limits {}", file.display());
        std::fs::read_to_string(file).with_context(what)?.parse().with_context(what)
    }
}

/// The heading of the options that say where a command finds the tenant.
pub(super) const CONNECTION: &str = "Connection";

/// A tenant, and where its configuration and database are.
#[derive(Debug, Clone, Args)]
pub struct TenantArguments {
    /// The tenant's clientCode.
    #[arg(long, env = "DOCKET_TENANT", value_name = "CLIENT_CODE")]
    pub tenant: String,
    /// Tenants and data.
    #[command(flatten, next_help_heading = CONNECTION)]
    pub source: SourceArguments,
    /// Read the tenant from the operator's runtime Secrets in this namespace instead of --config-dir, as `docket serve`
    /// does. The Secret names the tenant's PostgreSQL database.
    #[arg(long, env = "DOCKET_CONFIG_NAMESPACE", value_name = "NAMESPACE")]
    pub config_namespace: Option<String>,
    /// Its database.
    #[command(flatten)]
    pub databases: TenantDatabaseArguments,
    /// Redis of `docket serve`, where a resend is scheduled; without it the next sweep finds the deliveries.
    #[command(flatten)]
    pub redis: RedisArguments,
}

impl TenantArguments {
    /// Whether `docket serve` serves the tenant, and not `docket dev`.
    pub fn is_served(&self) -> bool {
        self.databases.postgresql || self.config_namespace.is_some()
    }
}

/// How a command reads declared tenants and finds their databases.
#[derive(Debug, Clone, Args)]
pub struct TenantDatabaseArguments {
    /// Limits.
    #[command(flatten)]
    pub limits: LimitsArguments,
    /// Use the tenants' PostgreSQL databases, which --config-dir names by Secrets, instead of SQLite files.
    #[arg(long, env = "DOCKET_POSTGRESQL")]
    pub postgresql: bool,
    /// External databases.
    #[command(flatten)]
    pub external: ExternalDatabaseArguments,
}

/// Where external databases may be, and which files their URLs may name.
#[derive(Debug, Clone, Args)]
pub struct ExternalDatabaseArguments {
    /// Allowed host of external databases: a name, *.NAME for all names below it, or a network; repeatable. A link-local
    /// address must be in a network that you name. Metadata services of clouds are never allowed [default: any host, but no
    /// such address].
    #[arg(long, env = "DOCKET_ALLOW_EXTERNAL_DATABASE", value_name = "HOST-OR-CIDR", value_delimiter = ',')]
    pub allow_external_database: Vec<AllowedDatabase>,
    /// Folder of the CA certificates that the URLs of external databases may name in sslrootcert [default: /etc/docket/ca; with
    /// --config-dir any file].
    #[arg(long, env = "DOCKET_CA_FOLDER", value_name = "FOLDER")]
    pub ca_folder: Option<PathBuf>,
}

impl ExternalDatabaseArguments {
    /// The policy for external databases. `from_cluster`: owners of tenants write the URLs. In a folder the platform writes them,
    /// and may name any of its files.
    pub fn policy(&self, from_cluster: bool) -> ExternalDatabases {
        let ca_folder = self.ca_folder.clone().or(from_cluster.then(|| CA_FOLDER.into()));
        ExternalDatabases::new(self.allow_external_database.clone(), ca_folder)
    }
}

/// Redis, and how to connect to it.
#[derive(Debug, Clone, Args)]
pub struct RedisArguments {
    /// File with the URL of Redis: redis:// or rediss://, each also with +sentinel or +cluster. From a file, the password
    /// does not appear in the list of processes. Changes of the file take effect within seconds, without a restart.
    #[arg(long, env = "DOCKET_REDIS_URL_FILE", value_name = "FILE")]
    pub redis_url_file: Option<PathBuf>,
    /// File with the CA certificates, in PEM, that rediss:// trusts [default: the public CAs].
    #[arg(long, env = "DOCKET_REDIS_CA_FILE", value_name = "FILE")]
    pub redis_ca_file: Option<PathBuf>,
    /// Name of this installation if several share a Redis; must be the same for the operator [default: none].
    #[arg(long, env = "DOCKET_REDIS_RELEASE", value_name = "NAME")]
    pub redis_release: Option<String>,
}

/// Host names of the API.
#[derive(Debug, Clone, Args)]
pub struct HostArguments {
    /// Host name of the API. Each subdomain selects a tenant: acme.localhost:8080 selects the tenant with the subdomain
    /// acme.
    #[arg(long, env = "DOCKET_BASE_DOMAIN", default_value = "localhost", value_name = "NAME", value_parser = host_name)]
    pub base_domain: String,
    /// Host name of the older API, where clientCode selects the tenant and X-Api-Key is ignored [default: none].
    #[arg(long, env = "DOCKET_LEGACY_HOST", value_name = "NAME", value_parser = host_name)]
    pub legacy_host: Option<String>,
}

/// Proxies in front of the API. They matter to the limits of sign-ins and connections, never to the choice of a tenant.
#[derive(Debug, Clone, Args)]
pub struct ProxyArguments {
    /// Network of trusted proxies; repeatable. Docket limits sign-ins by the client address that these proxies report
    /// [default: none, the client is the peer of the connection].
    #[arg(long, env = "DOCKET_TRUSTED_PROXY", value_name = "CIDR", value_delimiter = ',', value_parser = proxy_network)]
    pub trusted_proxy: Vec<IpNet>,
    /// Header in which the trusted proxies name the client. Docket parses Forwarded as in RFC 7239.
    #[arg(
        long,
        env = "DOCKET_FORWARDED_HEADER",
        value_name = "HEADER",
        default_value = "X-Forwarded-For",
        requires = "trusted_proxy"
    )]
    pub forwarded_header: HeaderName,
    /// Expect a PROXY header, version 1 or 2, at the start of each connection. Docket closes a connection without it, and
    /// one of a peer that is not in --trusted-proxy.
    #[arg(long, env = "DOCKET_PROXY_PROTOCOL", requires = "trusted_proxy")]
    pub proxy_protocol: bool,
}

/// The audit: who did what.
#[derive(Debug, Clone, Args)]
pub struct AuditArguments {
    /// File to which Docket appends each audit entry, one JSON object per line; - is standard output [default: none].
    #[arg(long, env = "DOCKET_AUDIT_LOG", value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// How long each tenant's database keeps audit entries, at least 1s. It keeps at most 50,000 sign-ins, 50,000 reads of payloads,
    /// 20,000 refused sign-ins, and 5,000 of each other event.
    #[arg(long, env = "DOCKET_AUDIT_RETENTION", default_value = "90d", value_name = "DURATION", allow_hyphen_values = true, value_parser = retention)]
    pub audit_retention: Duration,
}

/// Which invoices are published.
#[derive(Debug, Clone, Args)]
pub struct InvoiceArguments {
    /// Docket publishes no event for a new invoice whose created_at_ms is longer ago than this, so that customers do not get
    /// a history that you import. At least 1s, or 0 for no maximum.
    #[arg(long, env = "DOCKET_INVOICE_MAX_AGE", default_value = "30d", value_name = "DURATION", allow_hyphen_values = true, value_parser = age)]
    pub invoice_max_age: Duration,
}

/// How deliveries are sent.
#[derive(Debug, Clone, Args)]
pub struct DeliveryArguments {
    /// Private, loopback or otherwise reserved network that webhooks may reach; repeatable. Metadata services of clouds in
    /// it stay blocked. The built-in receiver is always allowed [default: none].
    #[arg(long, env = "DOCKET_ALLOW_EGRESS", value_name = "CIDR", value_delimiter = ',', value_parser = egress_network)]
    pub allow_egress: Vec<IpNet>,
    /// Network with public addresses that webhooks may not reach, such as the cluster's own; repeatable. --allow-egress
    /// allows parts of it [default: none].
    #[arg(long, env = "DOCKET_DENY_EGRESS", value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    pub deny_egress: Vec<IpNet>,
    /// Prefix of your network's own NAT64, such as 2001:db8:64::/96; repeatable. Docket judges an address in it by the IPv4
    /// address inside, as in 64:ff9b::/96 and 64:ff9b:1::/48 [default: none].
    #[arg(long, env = "DOCKET_NAT64_PREFIX", value_name = "CIDR", value_delimiter = ',', value_parser = nat64_prefix)]
    pub nat64_prefix: Vec<Ipv6Net>,
    /// Base of the retry delays. After failed attempt n, the delay is 2^n times this: by default 60, 120, 240 and 480 s.
    #[arg(long, env = "DOCKET_BACKOFF_BASE", default_value = "30s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub backoff_base: Duration,
    /// How often the worker polls for due deliveries when nothing wakes it: at least every 4 s.
    #[arg(long, env = "DOCKET_POLL_INTERVAL", default_value = "15s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub poll_interval: Duration,
    /// Timeout of one delivery attempt, from the DNS lookup to the last byte of the response.
    #[arg(long, env = "DOCKET_ATTEMPT_TIMEOUT", default_value = "30s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub attempt_timeout: Duration,
    /// How long the deliveries of a webhook that is not declared any more wait for it to be declared again, before they become dead
    /// letters of the class WebhookGone. From when a worker finds it missing, at least 2m with `docket serve`: another process may know
    /// it already. With --config-dir, Docket keeps the webhook's generated secret a day longer.
    #[arg(long, env = "DOCKET_WEBHOOK_GRACE", default_value = "1h", value_name = "DURATION", allow_hyphen_values = true, value_parser = retention)]
    pub webhook_grace: Duration,
    /// How long the webhook logs keep finished deliveries and their attempts, at least 1s.
    #[arg(long, env = "DOCKET_DELIVERY_RETENTION", default_value = "30d", value_name = "DURATION", allow_hyphen_values = true, value_parser = retention)]
    pub delivery_retention: Duration,
}

impl DeliveryArguments {
    /// Which addresses deliveries may reach; `sockets` in addition to the addresses of the flags.
    pub fn egress(&self, sockets: Vec<SocketAddr>) -> EgressPolicy {
        EgressPolicy::new(self.allow_egress.clone(), sockets)
            .without(self.deny_egress.clone())
            .with_nat64(self.nat64_prefix.clone())
    }
}

/// E-mail to people who subscribed to changes of webhooks.
#[derive(Debug, Clone, Args)]
pub struct MailArguments {
    /// Sender of the e-mail to people who subscribed to changes of webhooks, such as docket@example.com or 'Docket
    /// <docket@example.com>'. Only with it can people subscribe [default: none, Docket sends no e-mail].
    #[arg(long, env = "DOCKET_MAIL_FROM", value_name = "ADDRESS")]
    pub mail_from: Option<String>,
    /// File with the URL of the SMTP server: smtps:// or smtp:// with STARTTLS; without TLS only on this machine. The worker needs
    /// it with --mail-from. From a file, the password does not appear in the list of processes [default: none].
    #[arg(long, env = "DOCKET_SMTP_URL_FILE", value_name = "FILE", requires = "mail_from")]
    pub smtp_url_file: Option<PathBuf>,
    /// File with the CA certificates, in PEM, that the SMTP server's certificate may come from [default: the public CAs].
    #[arg(long, env = "DOCKET_SMTP_CA_FILE", value_name = "FILE", requires = "smtp_url_file")]
    pub smtp_ca_file: Option<PathBuf>,
    /// URL of the portal in e-mail, without a path, with {subdomain} in place of a tenant's subdomain [default: https:// and
    /// {subdomain}.BASE_DOMAIN; with docket dev, where it listens].
    #[arg(long, env = "DOCKET_PORTAL_URL", value_name = "URL", value_parser = portal_url)]
    pub portal_url: Option<String>,
    /// How often to look for changes of webhooks that are to be announced.
    #[arg(long, env = "DOCKET_MAIL_INTERVAL", default_value = "30s", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    pub mail_interval: Duration,
}

impl MailArguments {
    /// Returns the way to the SMTP server, which opens a connection for each message; `None`: this process sends no e-mail.
    ///
    /// # Errors
    ///
    /// A file can't be read or has no valid content, or the sender is no address. The message names the flag and never the URL.
    pub fn smtp(&self) -> Result<Option<Smtp>> {
        let (Some(file), Some(from)) = (&self.smtp_url_file, &self.mail_from) else { return Ok(None) };
        let what = || format!("--smtp-url-file {}", file.display());
        let url = SmtpUrl::parse(&std::fs::read_to_string(file).with_context(what)?).with_context(what)?;
        let read = |file: &PathBuf| {
            std::fs::read(file).with_context(|| format!("--smtp-ca-file {}", file.display()))
        };
        let authorities = self.smtp_ca_file.as_ref().map(read).transpose()?;
        let smtp = Smtp::new(&url, authorities.as_deref(), from);
        smtp.map(Some).context("--mail-from, --smtp-url-file, --smtp-ca-file")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_of_a_tenant_names_no_file_outside_of_the_folder_of_authorities() {
        let policy = |ca_folder: Option<&str>, from_cluster| {
            let (allow_external_database, ca_folder) = (Vec::new(), ca_folder.map(PathBuf::from));
            ExternalDatabaseArguments { allow_external_database, ca_folder }.policy(from_cluster)
        };
        let within = |folder: &str| ExternalDatabases::new(Vec::new(), Some(folder.into()));
        assert_eq!(policy(None, true), within(CA_FOLDER));
        assert!(policy(None, false).are_of_the_platform());
        for from_cluster in [true, false] {
            assert_eq!(policy(Some("/authorities"), from_cluster), within("/authorities"));
        }
    }
}
