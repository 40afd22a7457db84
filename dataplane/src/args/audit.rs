//! `docket audit`.

use clap::Subcommand;
use docket_commands::audit::AuditArguments;

use super::settings::TenantArguments;

/// `docket audit …`
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List the newest entries of the audit.
    List {
        /// Which of them.
        #[command(flatten)]
        list: AuditArguments,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
}
