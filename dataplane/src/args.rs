//! The command line: one file per command. Each setting of a server is an environment variable as well. Values are
//! checked here, once.

mod audit;
mod declared;
mod deliveries;
mod dev;
mod docs;
mod healthcheck;
mod listen;
mod migrate;
mod people;
mod serve;
mod settings;
mod trigger;
mod values;
mod verify;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use docket_commands::arguments::{ResendArguments, SetAsideArguments};

pub use audit::AuditCommand;
pub use declared::{TenantsCommand, WebhooksCommand};
pub use deliveries::{
    DeliveriesCommand, LettersArguments, ListOfTenant, OlderArguments, ResendsArguments, ShowArguments,
    StopArguments, TestOfTenant, TraceOfTenant, WebhookArguments,
};
pub use dev::DevArguments;
pub use docs::DocsArguments;
pub use healthcheck::HealthcheckArguments;
pub use listen::{ListenArguments, ListenOutput};
pub use migrate::MigrateArguments;
pub use people::{
    ContactCommand, CustomerCommand, EmployeeCommand, NewContact, NewEmployee, OneContact, OneEmployee,
};
pub use serve::{Role, ServeArguments, ServeSource, Switch};
pub use settings::{
    AuditArguments, DeliveryArguments, ExternalDatabaseArguments, HostArguments, InvoiceArguments,
    LimitsArguments, MailArguments, ProxyArguments, RedisArguments, SourceArguments, TenantArguments,
    TenantDatabaseArguments,
};
pub use trigger::TriggerArguments;
pub use values::ReceiverUrl;
pub use verify::VerifyArguments;

/// Docket: a multi-tenant legal-support order API with signed outbound webhooks.
#[derive(Debug, Parser)]
#[command(name = "docket", version, after_help = "Without a command, `docket dev` runs.")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The command line. The short help, `-h`, leaves out the options that say where a command finds the tenant.
pub fn command() -> clap::Command {
    shortened(Arguments::command())
}

fn shortened(command: clap::Command) -> clap::Command {
    let shortened_argument = |argument: clap::Arg| {
        let is_of_connection = argument.get_help_heading() == Some(settings::CONNECTION);
        argument.hide_short_help(is_of_connection)
    };
    command.mut_args(shortened_argument).mut_subcommands(shortened)
}

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process has one value")]
pub enum Command {
    /// Run everything in one process: tenants from YAML files, one SQLite file per tenant, a built-in webhook receiver.
    Dev(DevArguments),
    /// Run one or more roles of the service, next to any number of other processes on the same PostgreSQL and Redis.
    Serve(Box<ServeArguments>),
    /// Migrate the tenants' databases to the schema of this version, where no operator does. `docket dev` and `docket serve
    /// --config-dir` migrate each database themselves before its first use, too.
    Migrate(Box<MigrateArguments>),
    /// List what is declared: the tenants.
    #[command(subcommand)]
    Tenants(TenantsCommand),
    /// List what is declared: the webhooks of a tenant.
    #[command(subcommand)]
    Webhooks(WebhooksCommand),
    /// Add customers to a tenant.
    #[command(subcommand, alias = "customer")]
    Customers(CustomerCommand),
    /// List and add the contacts of a tenant (its customers' users), set their passwords and rights, sign them out, deactivate them.
    #[command(subcommand, alias = "contact")]
    Contacts(ContactCommand),
    /// List and add the employees of a tenant (its own users), set their passwords and rights, sign them out, deactivate them.
    #[command(subcommand, alias = "employee")]
    Employees(EmployeeCommand),
    /// Webhook deliveries of a tenant, and its bulk resends. Shows metadata, never payloads.
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// Show what became of an order, an invoice, an event or a delivery: events, deliveries and attempts.
    Trace(Box<TraceOfTenant>),
    /// Resend the dead letters of a webhook, oldest first, or one delivery. Each becomes a new delivery with the same event id and
    /// bytes, signed with the current secret. Without --yes, the command only shows how many dead letters it would resend.
    Resend(Box<LettersArguments<ResendArguments>>),
    /// Set the dead letters of a webhook aside, or one: they count nowhere, and no bulk resend takes them. Without --yes, the
    /// command only shows how many it means.
    SetAside(Box<LettersArguments<SetAsideArguments>>),
    /// Send a test event with sample data to a webhook, and show what came of its first attempt.
    Test(Box<TestOfTenant>),
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
    /// Print the completions of a shell, such as for `source <(docket completion bash)`.
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the documentation as the files of a website. A server has it at /docs/.
    Docs(DocsArguments),
    /// Print the licences of Docket and of everything that its image contains.
    Licenses,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use docket_domain::audit::AuditEvent;
    use docket_domain::delivery;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn own_options_come_before_those_of_the_connection_which_the_short_help_leaves_out() {
        let mut command = command();
        let list = command.find_subcommand_mut("deliveries").and_then(|one| one.find_subcommand_mut("list"));
        let list = list.expect("the command");
        let long = list.render_long_help().to_string();
        // The line of the usage before it names the tenant too.
        let at = |text: &str| long.rfind(text).unwrap_or_else(|| panic!("{text}: {long}"));
        assert!(at("--status <") < at("--tenant <") && at("--tenant <") < at("Connection:"));
        assert!(at("Connection:") < at("--data-dir") && at("--data-dir") < at("--postgresql"));
        let short = list.render_help().to_string();
        assert!(short.contains("--status") && short.contains("--tenant"), "{short}");
        assert!(!short.contains("Connection:") && !short.contains("--data-dir"), "{short}");
    }

    /// The commands without `-o json`, and why.
    const WITHOUT_JSON: [(&str, &str); 5] = [
        ("docket dev", "runs until it is stopped; its log has --log-format json"),
        ("docket serve", "runs until it is stopped; its log has --log-format json"),
        ("docket completion", "prints a script for a shell"),
        ("docket docs", "writes files, and says only which to open"),
        ("docket licenses", "prints texts of others"),
    ];

    /// The commands that do something, without older forms, each with its whole name. For tests.
    fn leaves<'a>(command: &'a clap::Command, name: &str) -> Vec<(String, &'a clap::Command)> {
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below: Vec<_> =
            below.flat_map(|command| leaves(command, &format!("{name} {}", command.get_name()))).collect();
        if below.is_empty() { vec![(name.to_owned(), command)] } else { below }
    }

    #[test]
    fn each_command_prints_json_that_is_documented_or_has_a_reason_not_to() {
        let document = include_str!("../../docs/reference/json.md");
        let command = Arguments::command();
        let all = leaves(&command, "docket");
        assert!(all.len() > 30, "{all:?}");
        for (name, command) in all {
            let prints_json = command.get_arguments().any(|argument| {
                let is_json = argument.get_possible_values().iter().any(|value| value.get_name() == "json");
                argument.get_short() == Some('o') && is_json
            });
            let has_reason = WITHOUT_JSON.iter().any(|(other, _)| *other == name);
            assert_ne!(prints_json, has_reason, "{name}");
            assert_eq!(document.contains(&format!("`{name}`")), prints_json, "{name}");
        }
    }

    #[test]
    fn older_commands_and_flags_still_work() {
        let id = "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f";
        for line in [
            "deliveries list --tenant A --webhook a/b --about 1 --status DeadLetter",
            &format!("deliveries show --tenant A {id}"),
            &format!("deliveries resend --tenant A {id}"),
            "deliveries resend --tenant A --webhook a/b --event order.created --per-second 5 --yes",
            &format!("deliveries set-aside --tenant A {id}"),
            "deliveries undo-set-aside --tenant A --webhook a/b --yes",
            "deliveries stop --tenant A r",
            "contact sign-out --tenant A --email a@b",
            "employee sign-out --tenant A --user a",
            "customer add --tenant A --code C --name N",
            "resend a/b --tenant A --dead --rate 5/s --probe --yes",
            "set-aside --tenant A --webhook a/b --undo",
            "trace order 1 --tenant A -o json",
        ] {
            let words = std::iter::once("docket").chain(line.split(' '));
            assert!(Arguments::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn defaults_of_dev_and_serve_are_the_contracts() {
        let parsed = |line: &str| Arguments::try_parse_from(line.split(' ')).expect("defaults").command;
        let Some(Command::Dev(dev)) = parsed("docket dev") else { panic!("dev") };
        let Some(Command::Serve(serve)) = parsed("docket serve --config-dir a") else { panic!("serve") };
        assert_eq!(dev.sweep_interval, Duration::from_secs(15));
        for deliveries in [dev.deliveries, serve.deliveries] {
            assert_eq!(deliveries.backoff_base, delivery::BACKOFF_BASE);
            assert_eq!(deliveries.attempt_timeout, delivery::ATTEMPT_TIMEOUT);
            assert_eq!(deliveries.poll_interval, Duration::from_secs(15));
        }
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

    /// The flags with a default of a command, each with its default.
    fn defaults(command: &clap::Command) -> Vec<String> {
        let taken = command.get_arguments().filter(|argument| argument.get_action().takes_values());
        let with_default = taken.filter(|argument| !argument.get_default_values().is_empty());
        let shown = with_default.map(|argument| {
            let values = argument.get_default_values().iter().map(|value| value.to_string_lossy());
            format!("{}={}", argument.get_long().unwrap_or_default(), values.collect::<Vec<_>>().join(","))
        });
        shown.collect()
    }

    #[test]
    fn each_default_is_what_it_was() {
        let command = Arguments::command();
        let all = leaves(&command, "docket");
        let of = |name: &str| {
            let (_, command) = all.iter().find(|(other, _)| other == name).expect("a command");
            defaults(command)
        };
        let deliveries = [
            "backoff-base=30s",
            "poll-interval=15s",
            "attempt-timeout=30s",
            "webhook-grace=1h",
            "delivery-retention=30d",
            "mail-interval=30s",
            "audit-retention=90d",
        ];
        let serve = [
            &[
                "roles=api,worker,detector",
                "data-dir=.docket",
                "redis-wait=30s",
                "database-connections=32",
                "database-connections-per-tenant=8",
                "listen=[::]:8080",
                "management=[::]:9090",
                "docs=on",
                "base-domain=localhost",
                "forwarded-header=X-Forwarded-For",
            ][..],
            &deliveries,
            &[
                "sweep-interval=60s",
                "invoice-scan-interval=30s",
                "invoice-max-age=30d",
                "shutdown-delay=5s",
                "log-format=text",
                "log=info",
            ],
        ];
        assert_eq!(of("docket serve"), serve.concat());
        let dev = [
            &[
                "config-dir=examples",
                "data-dir=.docket",
                "listen=127.0.0.1:8080",
                "management=127.0.0.1:9090",
                "base-domain=localhost",
                "receiver=127.0.0.1:8443",
            ][..],
            &deliveries,
            &[
                "sweep-interval=15s",
                "invoice-scan-interval=5s",
                "invoice-max-age=30d",
                "log-format=text",
                "log=info",
            ],
        ];
        assert_eq!(of("docket dev"), dev.concat());
        let listen = ["listen=127.0.0.1:9443", "output=lines", "delay=0s", "certificate-dir=.docket/listen"];
        assert_eq!(of("docket listen"), listen);
        assert_eq!(of("docket trigger"), ["customer=TEST-C-1001", "output=table"]);
        assert_eq!(of("docket healthcheck"), ["wait=0s", "output=table"]);
        let limit = |name: &str| of(name).into_iter().find(|default| default.starts_with("limit="));
        for (name, count) in [
            ("deliveries list", 25),
            ("deliveries resends", 20),
            ("audit list", 20),
            ("contacts list", 100),
            ("employees list", 100),
        ] {
            assert_eq!(limit(&format!("docket {name}")), Some(format!("limit={count}")), "{name}");
        }
        assert!(of("docket resend").contains(&"per-second=10".to_owned()));
    }

    #[test]
    fn a_process_has_a_connection_and_each_tenant_too() {
        let parsed = |more: &str| {
            let line = format!("docket serve --config-dir a {more}");
            Arguments::try_parse_from(line.split_whitespace()).is_ok()
        };
        assert!(parsed("--database-connections 1 --database-connections-per-tenant 1"));
        assert!(!parsed("--database-connections 0") && !parsed("--database-connections-per-tenant 0"));
        assert!(parsed("--redis-wait 0s --shutdown-delay 0s") && !parsed("--sweep-interval 0s"));
        assert!(!parsed("--poll-interval 0s") && !parsed("--invoice-scan-interval 0s"));
        assert!(!parsed("--proxy-protocol") && !parsed("--forwarded-header Forwarded"), "of which proxies?");
        assert!(!parsed("--smtp-url-file f") && parsed("--mail-from a@b.example --smtp-url-file f"));
        assert!(!parsed("--portal-account docket/portal"), "a folder has no objects");
    }
}
