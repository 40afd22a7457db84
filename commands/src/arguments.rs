//! The flags of the commands.

use std::time::Duration;

use clap::{Args, ValueEnum};
use docket_crds::EventCode;
use docket_domain::delivery::{DeadLetter, DeliveryId, DeliveryKind, FailureClass, Status};
use docket_domain::moment;
use docket_domain::resend::{DEFAULT_PER_SECOND, MAX_COUNT};
use jiff::{SignedDuration, Timestamp};

use crate::values::{
    code, dead_letter, delivery_id, event_code, failure_class, find, kind, limit, per_second, resend_id,
    since, status,
};

/// The argument of each command that has a result to print.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArguments {
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For people, with more columns where there are more.
    Wide,
    /// For programs. Fields are only added within a version 0.x.
    Json,
}

/// Which deliveries to list.
#[derive(Debug, Clone, Args)]
pub struct ListArguments {
    /// Only deliveries that match.
    #[command(flatten)]
    pub filter: FilterArguments,
    /// Maximum number of rows, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value = "25", value_parser = limit)]
    pub limit: usize,
    /// Continue: print each delivery that is new, and each whose status or number of attempts changes, until you press Ctrl-C. It
    /// watches the newest --limit deliveries. With -o json it prints one object a line.
    #[arg(long)]
    pub follow: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}

/// The filters of a list of deliveries.
#[derive(Debug, Clone, Args)]
pub struct FilterArguments {
    /// Only in this status.
    #[arg(long, value_name = "STATUS", value_parser = status())]
    pub status: Option<Status>,
    /// Only dead letters that are open, that is count, or were resent, or are set aside.
    #[arg(long, value_name = "WHICH", value_parser = dead_letter())]
    pub dead_letter: Option<DeadLetter>,
    /// The same as --status DeadLetter.
    #[arg(long, hide = true, conflicts_with_all = ["status", "dead_letter"])]
    pub dead: bool,
    /// Only of this kind: first deliveries of events, resends, or tests.
    #[arg(long, value_name = "KIND", value_parser = kind())]
    pub kind: Option<DeliveryKind>,
    /// Only of this customer's events.
    #[arg(long, value_name = "CUSTOMER_CODE", value_parser = code)]
    pub customer: Option<String>,
    /// Only of this event.
    #[arg(long, value_name = "EVENT_CODE", value_parser = event_code())]
    pub event: Option<EventCode>,
    /// Only about the web order, work order or invoice with this number, or the delivery or event with this id. Case does not
    /// matter in numbers and ids that Docket gave.
    #[arg(long, visible_alias = "about", value_name = "TEXT", value_parser = find, conflicts_with_all = ["delivery_id", "event_id", "order", "work_order", "invoice"])]
    pub find: Option<String>,
    /// Only the delivery with this id, which the receiver gets as X-Service-Delivery-Id.
    #[arg(long, value_name = "DELIVERY_ID", value_parser = delivery_id)]
    pub delivery_id: Option<DeliveryId>,
    /// Only of the event with this id, which the receiver gets as webhook-id.
    #[arg(long, value_name = "EVENT_ID")]
    pub event_id: Option<String>,
    /// Only what the bulk resend with this id has queued.
    #[arg(long, value_name = "RESEND_ID", value_parser = resend_id)]
    pub resend_id: Option<String>,
    /// Only those whose last attempt failed this way, such as ServerError.
    #[arg(long, value_name = "CLASS", value_parser = failure_class(), hide_possible_values = true)]
    pub class: Option<FailureClass>,
    /// Only those whose last response had this HTTP status, such as 429.
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(i64).range(100..=999))]
    pub http_status: Option<i64>,
    /// Only about this web order.
    #[arg(long, value_name = "NUMBER")]
    pub order: Option<String>,
    /// Only about this work order.
    #[arg(long, value_name = "NUMBER")]
    pub work_order: Option<String>,
    /// Only about this invoice.
    #[arg(long, value_name = "NUMBER")]
    pub invoice: Option<String>,
    /// When they were created.
    #[command(flatten)]
    pub created: CreatedArguments,
}

/// When deliveries were created.
#[derive(Debug, Clone, Copy, Args)]
pub struct CreatedArguments {
    /// Only those created within this time before now, such as 30m or 24h.
    #[arg(long, value_name = "DURATION", value_parser = since, conflicts_with = "from")]
    pub since: Option<Duration>,
    /// Only those created at or after this time: a date such as 2026-11-21 (its first moment in UTC), or
    /// 2026-11-21T09:30:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment::read)]
    pub from: Option<Timestamp>,
    /// Only those created before this time.
    #[arg(long, value_name = "TIME", value_parser = moment::read)]
    pub to: Option<Timestamp>,
}

impl CreatedArguments {
    /// The first moment.
    pub fn from(self, now: Timestamp) -> Option<Timestamp> {
        let ago = self.since.map(|since| SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX));
        ago.map(|ago| now.saturating_sub(ago).unwrap_or(Timestamp::MIN)).or(self.from)
    }
}

impl FilterArguments {
    /// Only in this status.
    pub fn status(&self) -> Option<Status> {
        self.dead.then_some(Status::DeadLetter).or(self.status)
    }
}

/// Which dead letters of a webhook.
#[derive(Debug, Clone, Args)]
pub struct ChoiceArguments {
    /// Only of this event.
    #[arg(long, value_name = "EVENT_CODE", value_parser = event_code())]
    pub event: Option<EventCode>,
    /// When they were created.
    #[command(flatten)]
    pub created: CreatedArguments,
    /// Maximum number of dead letters, the oldest first, 1 to 10000 [default: 10000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..=MAX_COUNT))]
    pub limit: Option<i64>,
    /// Do it. Without this flag, the command only shows how many dead letters it means.
    #[arg(long)]
    pub yes: bool,
}

/// What to resend.
#[derive(Debug, Clone, Args)]
pub struct ResendArguments {
    /// The dead letters.
    #[command(flatten)]
    pub choice: ChoiceArguments,
    /// Without effect: dead letters are what is resent.
    #[arg(long, hide = true)]
    pub dead: bool,
    /// Deliveries per second, 1 to 100.
    #[arg(long, value_name = "COUNT", alias = "rate", default_value = "10", value_parser = per_second)]
    pub per_second: i64,
    /// Send one first, and the others only if it succeeds.
    #[arg(long, requires = "yes", conflicts_with = "no_wait")]
    pub probe: bool,
    /// End when the deliveries are queued, and show no progress.
    #[arg(long, requires = "yes")]
    pub no_wait: bool,
    /// Stop the resend with this id instead: withdraw what was not attempted yet. You can resend it later.
    #[arg(long, value_name = "RESEND_ID", conflicts_with_all = ["dead", "event", "since", "from", "to", "per_second", "limit", "yes", "probe", "no_wait"])]
    pub stop: Option<String>,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}

impl ResendArguments {
    /// Stops the bulk resend with this id.
    pub fn stopping(id: String, printed: OutputArguments) -> Self {
        let created = CreatedArguments { since: None, from: None, to: None };
        Self {
            choice: ChoiceArguments { event: None, created, limit: None, yes: false },
            dead: false,
            per_second: DEFAULT_PER_SECOND,
            probe: false,
            no_wait: false,
            stop: Some(id),
            printed,
        }
    }
}

/// What to set aside.
#[derive(Debug, Clone, Args)]
pub struct SetAsideArguments {
    /// The dead letters.
    #[command(flatten)]
    pub choice: ChoiceArguments,
    /// Undo the setting aside: the dead letters count again.
    #[arg(long)]
    pub undo: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}

/// What to send as a test.
#[derive(Debug, Clone, Args)]
pub struct TestArguments {
    /// The event [default: the first that the webhook takes].
    #[arg(long, value_name = "EVENT_CODE", value_parser = event_code())]
    pub event: Option<EventCode>,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}

/// What to trace.
#[derive(Debug, Clone, Args)]
pub struct TraceArguments {
    /// What the id is of. An order is a web order, a work order or an invoice.
    #[arg(value_enum)]
    pub what: Traced,
    /// The id or the number.
    #[arg(value_name = "ID")]
    pub id: String,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}

/// What an id to trace is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Traced {
    /// A web order, a work order or an invoice.
    Order,
    /// An event.
    Event,
    /// A delivery.
    Delivery,
}

/// A choice among the dead letters of a webhook, for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetters {
    /// Only of this event.
    pub event: Option<EventCode>,
    /// Only those created at or after this time.
    pub from: Option<Timestamp>,
    /// Only those created before this time.
    pub to: Option<Timestamp>,
    /// Only those that ended before this time.
    pub ended_before: Option<Timestamp>,
    /// Maximum number, the oldest first.
    pub limit: Option<i64>,
}

impl DeadLetters {
    /// The same choice with another limit.
    pub fn limited(&self, limit: i64) -> Self {
        Self { limit: Some(limit), ..self.clone() }
    }
}

impl ChoiceArguments {
    /// The choice at this time.
    pub fn letters(&self, now: Timestamp) -> DeadLetters {
        let CreatedArguments { to, .. } = self.created;
        DeadLetters {
            event: self.event,
            from: self.created.from(now),
            to,
            ended_before: None,
            limit: self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Listing {
        #[command(flatten)]
        list: ListArguments,
    }

    #[derive(Debug, Parser)]
    struct Resending {
        #[command(flatten)]
        resend: ResendArguments,
    }

    fn listed(line: &str) -> Result<ListArguments, clap::Error> {
        Listing::try_parse_from(format!("x {line}").split(' ')).map(|parsed| parsed.list)
    }

    #[test]
    fn old_words_mean_the_same() {
        let dead = listed("--dead --since 1h").expect("old words");
        assert_eq!(dead.filter.status(), Some(Status::DeadLetter));
        let resend =
            Resending::try_parse_from(["x", "--dead", "--rate", "20/s", "--yes"]).expect("old words");
        assert_eq!((resend.resend.per_second, resend.resend.choice.yes), (20, true));
    }

    #[test]
    fn wrong_words_name_the_right_ones() {
        let refused = |line: &str| listed(line).expect_err("refused").to_string();
        assert!(
            refused("--status Lost").contains("[possible values: Pending, Failed, Succeeded, DeadLetter]")
        );
        assert!(refused("--event order.create").contains("order.created"));
        assert!(refused("--kind again").contains("[possible values: first, resend, test]"));
        assert!(refused("--delivery-id 1").contains("must be the id of a delivery"));
        assert!(refused("--resend-id 1").contains("must be the id of a bulk resend"));
        assert!(refused("--from yesterday").contains("must be a date"));
        assert!(refused("--since 1h --from 2026-01-01").contains("cannot be used with"));
    }

    #[test]
    fn filter_takes_any_number_or_id_under_two_names_and_no_other_beside_it() {
        let id = "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f";
        for line in ["--find w1", "--about w1"] {
            assert_eq!(listed(line).expect("a number").filter.find.as_deref(), Some("w1"), "{line}");
        }
        for line in [format!("--delivery-id {id}"), "--event-id e".into(), "--order 1".into()] {
            assert!(listed(&line).is_ok() && listed(&format!("--find w1 {line}")).is_err(), "{line}");
        }
        let filter = listed(&format!("--delivery-id {} --kind test --customer C-1", id.to_uppercase()));
        let filter = filter.expect("filters").filter;
        assert_eq!(filter.delivery_id.map(|id| id.to_string()).as_deref(), Some(id));
        assert_eq!((filter.kind, filter.customer.as_deref()), (Some(DeliveryKind::Test), Some("C-1")));
    }

    #[test]
    fn stop_takes_no_choice() {
        let stop = |more: &[&str]| Resending::try_parse_from([&["x", "--stop", "r"], more].concat()).is_ok();
        assert!(stop(&[]) && stop(&["-o", "json"]));
        for more in [&["--yes"][..], &["--rate", "1/s"], &["--limit", "1"], &["--from", "2026-01-01"]] {
            assert!(!stop(more), "{more:?}");
        }
    }

    #[test]
    fn since_counts_back_from_now() {
        let now = Timestamp::from_second(10_000).expect("in range");
        let filter = listed("--since 1h").expect("a duration").filter;
        assert_eq!(filter.created.from(now), Timestamp::from_second(6_400).ok());
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let list = Listing::try_parse_from(["x"]).expect("no argument is required").list;
        assert_eq!((list.limit, list.follow, list.printed.output), (25, false, Output::Table));
        let resend = Resending::try_parse_from(["x"]).expect("no argument is required").resend;
        assert_eq!((resend.per_second, resend.choice.limit, resend.choice.yes), (10, None, false));
        assert_eq!((resend.probe, resend.no_wait, resend.stop), (false, false, None));
    }

    #[test]
    fn choice_is_from_one_time_to_the_other_and_of_all_that_has_ended() {
        let now = Timestamp::from_second(10_000).expect("in range");
        let letters = |line: &str| {
            let resend = Resending::try_parse_from(format!("x {line}").split(' ')).expect("a choice").resend;
            resend.choice.letters(now)
        };
        let at = |second| Timestamp::from_second(second).ok();
        let DeadLetters { event, from, to, ended_before, limit } =
            letters("--from 1970-01-02 --to 1970-01-03 --event order.created --limit 7");
        assert_eq!((from, to, ended_before), (at(86_400), at(172_800), None));
        assert_eq!((event, limit), (Some(EventCode::OrderCreated), Some(7)));
        let since = letters("--since 1h");
        assert_eq!((since.from, since.to, since.limit), (at(6_400), None, None));
        assert_eq!(since.limited(1).limit, Some(1));
        let refused = |line: &str| Resending::try_parse_from(format!("x {line}").split(' ')).is_err();
        assert!(refused("--limit 0") && refused("--limit 10001") && !refused("--limit 10000"));
        assert!(refused("--probe") && refused("--no-wait") && refused("--yes --probe --no-wait"));
    }

    #[test]
    fn each_word_about_dead_letters_means_its_own_kind() {
        for (word, meant) in
            [("open", DeadLetter::Open), ("resent", DeadLetter::Resent), ("set-aside", DeadLetter::SetAside)]
        {
            let list = listed(&format!("--dead-letter {word}")).expect("a word");
            assert_eq!((list.filter.dead_letter, list.filter.status()), (Some(meant), None), "{word}");
        }
        for status in [100, 999] {
            let list = listed(&format!("--http-status {status}")).expect("a status");
            assert_eq!(list.filter.http_status, Some(status));
        }
        assert!(listed("--http-status 99").is_err() && listed("--http-status 1000").is_err());
        assert_eq!(listed("--status Failed").expect("a status").filter.status(), Some(Status::Failed));
    }
}
