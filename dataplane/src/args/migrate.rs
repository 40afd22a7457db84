//! `docket migrate`.

use std::path::PathBuf;

use clap::Args;
use docket_commands::arguments::OutputArguments;

use super::settings::{CONNECTION, SourceArguments, TenantDatabaseArguments};

/// Settings of `docket migrate`.
#[derive(Debug, Clone, Args)]
pub struct MigrateArguments {
    /// Print which steps each database lacks and what they cost, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
    /// Tenants and data: without --postgresql, the SQLite files in --data-dir.
    #[command(flatten, next_help_heading = CONNECTION)]
    pub source: SourceArguments,
    /// File with the URL of one PostgreSQL database, which is migrated instead of the tenants' databases.
    #[arg(long, env = "DOCKET_DATABASE_URL_FILE", value_name = "FILE")]
    pub database_url_file: Option<PathBuf>,
    /// The tenants' databases.
    #[command(flatten)]
    pub databases: TenantDatabaseArguments,
}
