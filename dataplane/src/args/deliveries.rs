//! `docket deliveries`.

use clap::{Args, Subcommand};
use docket_crds::EventCode;
use docket_domain::delivery::{DeadLetter, DeliveryId, Status};
use docket_domain::resend::{MAX_COUNT, MAX_PER_SECOND};

use super::settings::TenantArguments;
use super::values::{dead_letter, delivery_id, event_code, status, time_ms};

/// `docket deliveries …`
#[derive(Debug, Subcommand)]
pub enum DeliveriesCommand {
    /// List the newest deliveries of a tenant.
    List {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// Only in this status: Pending, Failed, Succeeded or DeadLetter.
        #[arg(long, value_name = "STATUS", value_parser = status)]
        status: Option<Status>,
        /// Only dead letters that are open, that is count, or resent, or set-aside.
        #[arg(long, value_name = "WHICH", value_parser = dead_letter)]
        dead_letter: Option<DeadLetter>,
        /// Only about this web order, work order or invoice.
        #[arg(long, value_name = "NUMBER")]
        about: Option<String>,
        /// Only to this webhook: namespace/name.
        #[arg(long, value_name = "WEBHOOK")]
        webhook: Option<String>,
        /// Only of this event, such as order.created.
        #[arg(long, value_name = "EVENT_CODE", value_parser = event_code)]
        event: Option<EventCode>,
        /// Only of the event with this id, which the receiver gets as webhook-id.
        #[arg(long, value_name = "EVENT_ID")]
        event_id: Option<String>,
        /// Only those whose last response had this HTTP status, such as 429.
        #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(i64).range(100..=999))]
        http_status: Option<i64>,
        /// Only those created at or after this time: a date such as 2026-11-21 (its first moment in UTC), or
        /// 2026-11-21T09:30:00Z.
        #[arg(long, value_name = "TIME", value_parser = time_ms)]
        from: Option<i64>,
        /// Only those created before this time.
        #[arg(long, value_name = "TIME", value_parser = time_ms)]
        to: Option<i64>,
        /// Maximum number of rows, 1 to 1000.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000))]
        limit: i64,
    },
    /// Show one delivery with each attempt, and what to do about a failure.
    Show {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The delivery's id.
        #[arg(value_parser = delivery_id)]
        id: DeliveryId,
    },
    /// Resend a delivery, or all dead letters of a webhook. Each becomes a new delivery with the same event id and bytes,
    /// signed with the current secret. Without --yes, the command shows how many dead letters it would resend, and resends
    /// none.
    Resend {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The delivery's id.
        #[arg(value_parser = delivery_id, conflicts_with_all = ["webhook", "event", "from", "to", "limit", "per_second", "yes"])]
        id: Option<DeliveryId>,
        /// The dead letters to resend.
        #[command(flatten)]
        many: ManyArguments,
        /// Deliveries per second, 1 to 100 [default: 10].
        #[arg(long, value_name = "COUNT", requires = "webhook", value_parser = clap::value_parser!(i64).range(1..=MAX_PER_SECOND))]
        per_second: Option<i64>,
    },
    /// Set a dead letter aside, or all dead letters of a webhook: they count nowhere from then on, and resends of many leave
    /// them out. Without --yes, the command shows how many dead letters it would set aside, and sets none aside.
    SetAside {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The delivery's id.
        #[arg(value_parser = delivery_id, conflicts_with_all = ["webhook", "event", "from", "to", "limit", "yes"])]
        id: Option<DeliveryId>,
        /// The dead letters to set aside.
        #[command(flatten)]
        many: ManyArguments,
    },
    /// Undo the setting aside of a dead letter, or of all dead letters of a webhook: they count again. Without --yes, the
    /// command shows how many would count again, and changes none.
    UndoSetAside {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The delivery's id.
        #[arg(value_parser = delivery_id, conflicts_with_all = ["webhook", "event", "from", "to", "limit", "yes"])]
        id: Option<DeliveryId>,
        /// The dead letters that shall count again.
        #[command(flatten)]
        many: ManyArguments,
    },
    /// Stop a resend of many dead letters. Docket withdraws the deliveries without an attempt; you can resend them later.
    Stop {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The resend's id.
        #[arg(value_name = "RESEND_ID")]
        id: String,
    },
    /// List the newest resends of many dead letters, with the progress of each.
    Resends {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// Maximum number of rows, 1 to 1000.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000))]
        limit: i64,
    },
}

/// Which dead letters.
#[derive(Debug, Clone, Args)]
pub struct ManyArguments {
    /// The dead letters of this webhook, oldest first: namespace/name, or its uid.
    #[arg(long, value_name = "WEBHOOK")]
    pub webhook: Option<String>,
    /// Only of this event, such as order.created.
    #[arg(long, value_name = "EVENT_CODE", value_parser = event_code, requires = "webhook")]
    pub event: Option<EventCode>,
    /// Only those created at or after this time: a date such as 2026-11-21 (its first moment in UTC), or
    /// 2026-11-21T09:30:00Z.
    #[arg(long, value_name = "TIME", value_parser = time_ms, requires = "webhook")]
    pub from: Option<i64>,
    /// Only those created before this time.
    #[arg(long, value_name = "TIME", value_parser = time_ms, requires = "webhook")]
    pub to: Option<i64>,
    /// Maximum number of dead letters, 1 to 10000; the oldest are taken [default: 10000].
    #[arg(long, value_name = "COUNT", requires = "webhook", value_parser = clap::value_parser!(i64).range(1..=MAX_COUNT))]
    pub limit: Option<i64>,
    /// Do it. Without this flag, the command only shows how many dead letters it means.
    #[arg(long, requires = "webhook")]
    pub yes: bool,
}
