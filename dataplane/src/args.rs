//! The command line: one file per command. Each setting of a server is an environment variable as well. Values are
//! checked here, once.

mod audit;
mod deliveries;
mod dev;
mod docs;
mod healthcheck;
mod listen;
mod people;
mod serve;
mod settings;
mod trigger;
mod values;
mod verify;

use clap::{Parser, Subcommand};

pub use audit::AuditCommand;
pub use deliveries::{DeliveriesCommand, ManyArguments};
pub use dev::DevArguments;
pub use docs::DocsArguments;
pub use healthcheck::HealthcheckArguments;
pub use listen::{ListenArguments, ListenOutput};
pub use people::{ContactCommand, CustomerCommand, EmployeeCommand};
pub use serve::{Role, ServeArguments, ServeSource, Switch};
pub use settings::{
    AuditArguments, DeliveryArguments, ExternalDatabaseArguments, HostArguments, InvoiceArguments,
    LimitsArguments, ProxyArguments, RedisArguments, SourceArguments, TenantArguments,
};
pub use trigger::TriggerArguments;
pub use verify::VerifyArguments;

/// Docket: a multi-tenant legal-support order API with signed outbound webhooks.
#[derive(Debug, Parser)]
#[command(name = "docket", version, after_help = "Without a command, `docket dev` runs.")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything in one process: tenants from YAML files, one SQLite file per tenant, a built-in webhook receiver.
    Dev(DevArguments),
    /// Run one or more roles of the service, next to any number of other processes on the same PostgreSQL and Redis.
    Serve(Box<ServeArguments>),
    /// Add customers to a tenant.
    #[command(subcommand)]
    Customer(CustomerCommand),
    /// Add contacts (a customer's users) to a tenant, set their passwords, or sign them out.
    #[command(subcommand)]
    Contact(ContactCommand),
    /// Add employees (the tenant's own users) to a tenant, set their passwords, or sign them out.
    #[command(subcommand)]
    Employee(EmployeeCommand),
    /// Webhook deliveries of a tenant: list, show and resend them. Shows metadata and attempts, never payloads.
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// The audit of a tenant: who signed in, was refused, read a payload, resent, added or signed out.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Run a stand-alone webhook receiver that prints each delivery and whether its signature verifies.
    Listen(ListenArguments),
    /// Send a sample of an event to a receiver, once, as a worker would.
    Trigger(TriggerArguments),
    /// Check the signature of a delivery that was received, and say why it does not match.
    Verify(VerifyArguments),
    /// Check that processes are healthy: exits with 0 if each URL returns 200.
    Healthcheck(HealthcheckArguments),
    /// Write the documentation as the files of a website. A server has it at /docs/.
    Docs(DocsArguments),
    /// Print the licences of Docket and of everything that its image contains.
    Licenses,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;
    use docket_domain::audit::AuditEvent;
    use docket_domain::delivery;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn dev_defaults_are_those_of_the_contract() {
        let arguments = Arguments::try_parse_from(["docket", "dev"]).expect("defaults");
        let Some(Command::Dev(dev)) = arguments.command else { panic!("dev") };
        assert_eq!(dev.deliveries.backoff_base, delivery::BACKOFF_BASE);
        assert_eq!(dev.deliveries.attempt_timeout, delivery::ATTEMPT_TIMEOUT);
        assert_eq!(dev.deliveries.poll_interval, delivery::POLL_INTERVAL);
    }

    #[test]
    fn serve_accepts_the_arguments_of_a_pod_and_requires_one_source() {
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
        let unknown = refused(&["--config-dir", "a", "--roles", "mailer"]);
        assert!(unknown.contains("[possible values: api, worker, detector, portal]"), "{unknown}");
    }

    #[test]
    fn every_event_of_the_audit_is_documented_and_no_other() {
        let document = include_str!("../../docs/reference/audit.md");
        let (_, events) = document.split_once("## Events").expect("its section");
        let (events, _) = events.split_once("## Fields").expect("the next section");
        let rows = events.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let documented: Vec<&str> = rows.map(|(event, _)| event).collect();
        assert_eq!(documented, AuditEvent::WORDS);
    }
}
