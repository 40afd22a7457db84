//! `docket tenants` and `docket webhooks`.

use clap::Subcommand;
use docket_commands::arguments::OutputArguments;

use super::settings::{CONNECTION, LimitsArguments, SourceArguments, TenantArguments};

/// `docket tenants …`
#[derive(Debug, Subcommand)]
pub enum TenantsCommand {
    /// List the tenants that are declared.
    List {
        /// How the result is printed.
        #[command(flatten)]
        printed: OutputArguments,
        /// Where they are declared.
        #[command(flatten, next_help_heading = CONNECTION)]
        source: SourceArguments,
        /// Read the tenants from the operator's runtime Secrets in this namespace instead of --config-dir.
        #[arg(long, env = "DOCKET_CONFIG_NAMESPACE", value_name = "NAMESPACE")]
        config_namespace: Option<String>,
        /// Limits.
        #[command(flatten)]
        limits: LimitsArguments,
    },
}

/// `docket webhooks …`
#[derive(Debug, Subcommand)]
pub enum WebhooksCommand {
    /// List the webhooks that are declared for a tenant, without their secrets.
    List {
        /// How the result is printed.
        #[command(flatten)]
        printed: OutputArguments,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
}
