//! Conditions of a status. Pure.
//!
//! A condition's time moves only when its status does, `Ready` takes the reason of the first condition that is not as
//! it should be, and `Reconciling` and `Stalled` are there only while they are true, as kstatus wants it.

use docket_crds::{
    Reason,
    conditions::{self, types},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::kube::client::News;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// As it should be; for `Reconciling` and `Stalled`: it is so.
    True,
    /// Not so.
    False,
    /// Nobody can tell.
    Unknown,
}

impl Truth {
    const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What is to be said under one type of condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// One of [`types`].
    pub kind: &'static str,
    /// The status.
    pub truth: Truth,
    /// One of [`docket_crds::conditions`].
    pub reason: &'static str,
    /// For people; the same as long as nothing changes, so without counts and times.
    pub message: String,
}

impl Verdict {
    /// All parts.
    pub fn new(kind: &'static str, truth: Truth, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, truth, reason, message: message.into() }
    }

    /// The verdict on what these reasons are about: `good` when there is none.
    pub fn of_reasons(kind: &'static str, reasons: &[&Reason], good: (&'static str, &str)) -> Self {
        match reasons {
            [] => Self::new(kind, Truth::True, good.0, good.1),
            [first, ..] => {
                let text = |reason: &&Reason| match reason.field.as_str() {
                    "" => reason.message.clone(),
                    field => format!("{field}: {}", reason.message),
                };
                let message: Vec<_> = reasons.iter().map(text).collect();
                Self::new(kind, Truth::False, first.code, message.join("; "))
            }
        }
    }
}

/// Which condition a reason of the compile step belongs to.
pub fn type_of(code: &str) -> &'static str {
    match code {
        conditions::INVALID_SPEC
        | conditions::CLIENT_CODE_CONFLICT
        | conditions::SUBDOMAIN_CONFLICT
        | conditions::DATABASE_NAME_CONFLICT
        | conditions::TENANT_NOT_FOUND
        | conditions::TENANT_NOT_READY
        | conditions::REF_NOT_PERMITTED
        | conditions::TENANT_SUSPENDED => types::ACCEPTED,
        conditions::PROVISIONING => types::DATABASE_READY,
        conditions::PENDING => types::PROGRAMMED,
        _ => types::RESOLVED_REFS,
    }
}

/// Whether only a change by somebody else can mend it.
pub fn is_terminal(code: &str) -> bool {
    !matches!(
        code,
        conditions::UNREACHABLE
            | conditions::MIGRATION_FAILED
            | conditions::PROVISIONING
            | conditions::PENDING
            | conditions::STORE_UNAVAILABLE
            | conditions::API_REFUSED
    )
}

/// `Ready` in front, then the verdicts, then `Reconciling` or `Stalled`. `chosen`: what somebody has set on purpose, if
/// nothing else is wrong.
pub fn summarized(verdicts: Vec<Verdict>, good: &str, chosen: Option<Verdict>) -> Vec<Verdict> {
    let failing = verdicts
        .iter()
        .find(|verdict| verdict.truth != Truth::True && verdict.kind != types::DELIVERY_HEALTHY);
    let mut all = match (failing, chosen) {
        (Some(failing), _) => {
            let ready = Verdict { kind: types::READY, truth: Truth::False, ..failing.clone() };
            let of_choice = failing.reason == conditions::TENANT_SUSPENDED;
            let kind = if is_terminal(failing.reason) { types::STALLED } else { types::RECONCILING };
            let why = Verdict { kind, truth: Truth::True, ..failing.clone() };
            if of_choice { vec![ready] } else { vec![ready, why] }
        }
        (None, Some(chosen)) => vec![chosen],
        (None, None) => vec![Verdict::new(types::READY, Truth::True, conditions::READY, good)],
    };
    all.splice(1..1, verdicts);
    all
}

/// The conditions of a status. Those of `previous` that no verdict is about are gone.
pub fn conditions(
    previous: &[Condition],
    verdicts: &[Verdict],
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let condition = |verdict: &Verdict| {
        let status = verdict.truth.as_str();
        let last = find(previous, verdict.kind).filter(|last| last.status == status);
        Condition {
            type_: verdict.kind.to_owned(),
            status: status.to_owned(),
            reason: verdict.reason.to_owned(),
            message: cut(&verdict.message),
            observed_generation: Some(generation),
            last_transition_time: last
                .map_or_else(|| now_in_seconds(now), |last| last.last_transition_time.clone()),
        }
    };
    verdicts.iter().map(condition).collect()
}

/// The API server keeps whole seconds; with more, what we compare would always differ.
fn now_in_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// A message has at most 32,768 characters.
fn cut(message: &str) -> String {
    message.chars().take(4096).collect()
}

/// A paused object: only `Ready` says so, all else stays as it was.
pub fn paused(previous: &[Condition], generation: i64, now: Timestamp) -> Vec<Condition> {
    let message =
        "the annotation docket.dev/reconcile is \"disabled\": nothing is changed until it is removed";
    let verdict = Verdict::new(types::READY, Truth::Unknown, conditions::PAUSED, message);
    with_ready(previous, &[verdict], generation, now)
}

/// Another `Ready`, with `Reconciling` or `Stalled` if that is among the verdicts; all else as it was.
pub fn with_ready(
    previous: &[Condition],
    verdicts: &[Verdict],
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let mut all = conditions(previous, verdicts, generation, now);
    let summaries = [types::READY, types::RECONCILING, types::STALLED];
    let kept = previous.iter().filter(|condition| !summaries.contains(&condition.type_.as_str())).cloned();
    all.splice(1..1, kept);
    all
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// What to tell when a condition changed its status or reason; nothing when it did not.
pub fn news_of(kind: &'static str, before: &[Condition], after: &[Condition], good: bool) -> Option<News> {
    let now = find(after, kind)?;
    let last = find(before, kind);
    if last.is_some_and(|last| last.status == now.status && last.reason == now.reason)
        || (!good && last.is_none() && now.status != "False")
    {
        return None;
    }
    // An Event's reason is text of our own; the conditions' reasons are constants.
    let reason = KNOWN.iter().find(|known| **known == now.reason).copied().unwrap_or(conditions::READY);
    let warning =
        now.status == "False" && !matches!(reason, conditions::SUSPENDED | conditions::TENANT_SUSPENDED);
    Some(News { reason, action: "Reconcile", note: now.message.clone(), warning, secret: None })
}

/// All reasons that a condition can have.
pub const KNOWN: &[&str] = &[
    conditions::READY,
    conditions::ACCEPTED,
    conditions::RESOLVED_REFS,
    conditions::MIGRATED,
    conditions::PROGRAMMED,
    conditions::DELIVERING,
    conditions::NO_DELIVERIES,
    conditions::SUSPENDED,
    conditions::PAUSED,
    conditions::API_REFUSED,
    conditions::TENANT_NOT_READY,
    conditions::INVALID_SPEC,
    conditions::CLIENT_CODE_CONFLICT,
    conditions::SUBDOMAIN_CONFLICT,
    conditions::DATABASE_NAME_CONFLICT,
    conditions::TENANT_NOT_FOUND,
    conditions::REF_NOT_PERMITTED,
    conditions::TENANT_SUSPENDED,
    conditions::SECRET_NOT_FOUND,
    conditions::SECRET_KEY_MISSING,
    conditions::SECRET_INVALID,
    conditions::CONFIG_MAP_NOT_FOUND,
    conditions::CONFIG_MAP_KEY_MISSING,
    conditions::INVALID_CA_BUNDLE,
    conditions::PROVISIONING,
    conditions::UNREACHABLE,
    conditions::SERVER_NOT_FOUND,
    conditions::NOT_OWNED,
    conditions::MIGRATION_FAILED,
    conditions::SCHEMA_NEWER,
    conditions::PENDING,
    conditions::STORE_UNAVAILABLE,
    conditions::RETRYING,
    conditions::DEAD_LETTERED,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn accepted(truth: Truth, reason: &'static str) -> Verdict {
        Verdict::new(types::ACCEPTED, truth, reason, "why")
    }

    fn listed(verdicts: &[Verdict]) -> Vec<(&str, &str)> {
        verdicts.iter().map(|verdict| (verdict.kind, verdict.reason)).collect()
    }

    #[test]
    fn a_time_moves_only_with_the_status() {
        let first = conditions(&[], &[accepted(Truth::False, "A")], 1, at(10));
        let same = conditions(&first, &[accepted(Truth::False, "B")], 2, at(20));
        assert_eq!(same[0].last_transition_time.0, at(10));
        assert_eq!((same[0].reason.as_str(), same[0].observed_generation), ("B", Some(2)));
        let other = conditions(&same, &[accepted(Truth::True, "C")], 2, at(30));
        assert_eq!(other[0].last_transition_time.0, at(30));
    }

    #[test]
    fn ready_has_the_first_failing_reason_and_says_who_has_to_act() {
        let verdicts = vec![
            accepted(Truth::True, conditions::ACCEPTED),
            Verdict::new(types::DATABASE_READY, Truth::False, conditions::UNREACHABLE, ""),
            Verdict::new(types::PROGRAMMED, Truth::False, conditions::PENDING, ""),
        ];
        assert_eq!(
            listed(&summarized(verdicts, "", None)),
            [
                ("Ready", "Unreachable"),
                ("Accepted", "Accepted"),
                ("DatabaseReady", "Unreachable"),
                ("Programmed", "Pending"),
                ("Reconciling", "Unreachable")
            ]
        );
        let verdicts = vec![accepted(Truth::False, conditions::CLIENT_CODE_CONFLICT)];
        assert_eq!(listed(&summarized(verdicts, "", None))[2], ("Stalled", "ClientCodeConflict"));
    }

    #[test]
    fn ready_does_not_ask_the_receiver_and_yields_to_a_choice() {
        let verdicts = vec![Verdict::new(types::DELIVERY_HEALTHY, Truth::False, conditions::RETRYING, "")];
        assert_eq!(summarized(verdicts.clone(), "", None)[0].truth, Truth::True);
        let chosen = Verdict::new(types::READY, Truth::False, conditions::SUSPENDED, "");
        assert_eq!(listed(&summarized(verdicts, "", Some(chosen)))[0], ("Ready", "Suspended"));
    }

    #[test]
    fn a_pause_changes_ready_alone() {
        let verdicts = summarized(vec![accepted(Truth::False, conditions::INVALID_SPEC)], "", None);
        let before = conditions(&[], &verdicts, 1, at(10));
        let after = paused(&before, 2, at(20));
        let told: Vec<_> = after.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
        assert_eq!(told, [("Ready", "Unknown"), ("Accepted", "False")]);
        assert_eq!(paused(&after, 2, at(30)), after);
    }

    #[test]
    fn events_are_told_at_transitions_only() {
        let one = conditions(&[], &[accepted(Truth::False, conditions::INVALID_SPEC)], 1, at(1));
        let same = conditions(&one, &[accepted(Truth::False, conditions::INVALID_SPEC)], 2, at(2));
        let well = conditions(&one, &[accepted(Truth::True, conditions::ACCEPTED)], 2, at(2));
        let told =
            |before, after, good| news_of(types::ACCEPTED, before, after, good).map(|news| news.warning);
        assert_eq!(told(&[], &one, false), Some(true));
        assert_eq!(told(&one, &same, true), None);
        assert_eq!(told(&one, &well, true), Some(false));
        assert_eq!(told(&[], &well, false), None);
        assert_eq!(told(&[], &well, true), Some(false));
    }

    #[test]
    fn every_reason_is_known() {
        let text = include_str!("../../../crds/src/conditions.rs");
        let values = text.lines().filter_map(|line| line.strip_prefix("pub const ")?.split('"').nth(1));
        for value in values {
            assert!(KNOWN.contains(&value), "{value}");
        }
    }

    #[test]
    fn every_reason_has_a_section_that_says_what_to_do() {
        let page = include_str!("../../../docs/conditions.md");
        let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        for reason in KNOWN {
            assert!(sections.contains(reason), "docs/conditions.md has no section {reason}");
        }
        for section in sections {
            assert!(KNOWN.contains(&section), "docs/conditions.md has a section {section} that is no reason");
        }
    }
}
