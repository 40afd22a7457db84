//! `docket audit`.

use clap::Subcommand;
use docket_commands::arguments::OutputArguments;
use docket_domain::audit::AuditEvent;

use super::settings::TenantArguments;
use super::values::{audit_event, time_ms};

/// `docket audit …`
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List the newest entries of the audit.
    List {
        /// Only of this event, such as SignInRefused.
        #[arg(long, value_name = "EVENT", value_parser = audit_event)]
        event: Option<AuditEvent>,
        /// Only those at or after this time: a date such as 2026-11-21 (its first moment in UTC), or 2026-11-21T09:30:00Z.
        #[arg(long, value_name = "TIME", value_parser = time_ms)]
        from: Option<i64>,
        /// Only those before this time.
        #[arg(long, value_name = "TIME", value_parser = time_ms)]
        to: Option<i64>,
        /// Maximum number of rows, 1 to 1000.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000))]
        limit: i64,
        /// Its result.
        #[command(flatten)]
        printed: OutputArguments,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
}
