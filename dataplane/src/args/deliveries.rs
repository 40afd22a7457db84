//! `docket deliveries`, `docket trace`, `docket resend`, `docket set-aside` and `docket test`: with the flags of `kubectl docket`.

use clap::{Args, Subcommand};
use docket_commands::arguments::{
    ListArguments, OutputArguments, ResendArguments, SetAsideArguments, TestArguments, TraceArguments,
};
use docket_commands::values::delivery_id;
use docket_domain::delivery::DeliveryId;

use super::settings::TenantArguments;

/// `docket deliveries …`
#[derive(Debug, Subcommand)]
pub enum DeliveriesCommand {
    /// List the deliveries of a tenant, newest first.
    List(Box<ListOfTenant>),
    /// Older form of `docket trace delivery`.
    #[command(hide = true)]
    Show(ShowArguments),
    /// Older form of `docket resend`, which does not wait.
    #[command(hide = true)]
    Resend(Box<OlderArguments<ResendArguments>>),
    /// Older form of `docket set-aside`.
    #[command(hide = true)]
    SetAside(Box<OlderArguments<SetAsideArguments>>),
    /// Older form of `docket set-aside --undo`.
    #[command(hide = true)]
    UndoSetAside(Box<OlderArguments<SetAsideArguments>>),
    /// Older form of `docket resend --stop`.
    #[command(hide = true)]
    Stop(StopArguments),
    /// List the newest bulk resends, with the progress of each.
    Resends(ResendsArguments),
}

/// A webhook of the tenant.
#[derive(Debug, Clone, Args)]
pub struct WebhookArguments {
    /// The webhook: its name, namespace/name, display name or uid. It may no longer exist.
    #[arg(value_name = "WEBHOOK")]
    pub webhook: Option<String>,
    /// The same.
    #[arg(long = "webhook", value_name = "WEBHOOK", hide = true, conflicts_with = "webhook")]
    pub webhook_flag: Option<String>,
}

impl WebhookArguments {
    /// Its name.
    pub fn name(&self) -> Option<&str> {
        self.webhook.as_deref().or(self.webhook_flag.as_deref())
    }
}

/// Which deliveries of a tenant to list.
#[derive(Debug, Args)]
pub struct ListOfTenant {
    /// Only to this webhook.
    #[command(flatten)]
    pub webhook: WebhookArguments,
    /// Which of them.
    #[command(flatten)]
    pub list: ListArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

/// `docket trace`
#[derive(Debug, Args)]
pub struct TraceOfTenant {
    /// What to trace.
    #[command(flatten)]
    pub trace: TraceArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

/// `docket resend` and `docket set-aside`
#[derive(Debug, Args)]
pub struct LettersArguments<T: Args> {
    /// The webhook.
    #[command(flatten)]
    pub webhook: WebhookArguments,
    /// This delivery alone, instead of the dead letters of a webhook. It needs no --yes.
    #[arg(long, value_name = "DELIVERY_ID", value_parser = delivery_id, conflicts_with_all = ["webhook", "webhook_flag", "event", "since", "from", "to", "limit", "yes"])]
    pub delivery: Option<DeliveryId>,
    /// What to do with them.
    #[command(flatten)]
    pub asked: T,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

/// `docket test`
#[derive(Debug, Args)]
pub struct TestOfTenant {
    /// The webhook, which must be active: its name, namespace/name, display name or uid.
    #[arg(value_name = "WEBHOOK")]
    pub webhook: String,
    /// The event.
    #[command(flatten)]
    pub test: TestArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

/// `docket deliveries show`
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// The delivery's id.
    #[arg(value_parser = delivery_id)]
    pub id: DeliveryId,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

/// `docket deliveries stop`
#[derive(Debug, Args)]
pub struct StopArguments {
    /// The resend's id.
    #[arg(value_name = "RESEND_ID")]
    pub id: String,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

/// The forms of commands that older versions have: a delivery's id, or `--webhook`.
#[derive(Debug, Args)]
pub struct OlderArguments<T: Args> {
    /// The delivery's id.
    #[arg(value_parser = delivery_id, conflicts_with_all = ["webhook", "event", "since", "from", "to", "limit", "yes"])]
    pub id: Option<DeliveryId>,
    /// The webhook.
    #[arg(long, value_name = "WEBHOOK")]
    pub webhook: Option<String>,
    /// What to do with them.
    #[command(flatten)]
    pub asked: T,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

impl<T: Args> From<OlderArguments<T>> for LettersArguments<T> {
    fn from(older: OlderArguments<T>) -> Self {
        let OlderArguments { id, webhook, asked, at } = older;
        Self { webhook: WebhookArguments { webhook, webhook_flag: None }, delivery: id, asked, at }
    }
}

/// `docket deliveries resends`
#[derive(Debug, Args)]
pub struct ResendsArguments {
    /// Maximum number of rows, 1 to 1000.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000))]
    pub limit: i64,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}
