//! The conditions of a status.
//!
//! The time of a condition changes only when its status does. `Ready` has the reason of the first condition that is
//! not as it should be. `Reconciling` and `Stalled` exist only while they are true, as kstatus requires.

use docket_crds::Reason;
use docket_crds::conditions::{ConditionType, EventReason, ReasonCode, Remedy};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::state::object_event::ObjectEvent;

docket_crds::words! {
    /// The status of a condition.
    pub enum Truth {
        /// The condition is as it should be. `Reconciling` or `Stalled`: the condition holds.
        True,
        /// The condition does not hold.
        False,
        /// It is not known whether the condition holds.
        Unknown,
    }
}

/// A condition with its content, but without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// Its type.
    pub kind: ConditionType,
    /// The status.
    pub truth: Truth,
    /// The reason.
    pub reason: ReasonCode,
    /// The message for people. It contains no counts and times, so that it stays the same while nothing changes.
    pub message: String,
}

impl NewCondition {
    /// Puts the parts together.
    pub fn new(kind: ConditionType, truth: Truth, reason: ReasonCode, message: impl Into<String>) -> Self {
        Self { kind, truth, reason, message: message.into() }
    }

    /// The verdict of a condition with these reasons. Without reasons, it is `good`.
    pub fn of_reasons(kind: ConditionType, reasons: &[&Reason], good: (ReasonCode, &str)) -> Self {
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

/// Everything that a status says: `Ready`, the other conditions, and whether the operator or a user must act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// `Ready`.
    pub ready: NewCondition,
    verdicts: Vec<NewCondition>,
    /// `Reconciling` or `Stalled`.
    progress: Option<NewCondition>,
}

impl Summary {
    /// `Ready` repeats the first verdict that is not well, except those on the receiver and on limits, with which the object is
    /// served all the same.
    /// `good`: what `Ready` says when all is well. `chosen`: what a user has set on purpose, if nothing else is wrong.
    pub fn of(verdicts: Vec<NewCondition>, good: &str, chosen: Option<NewCondition>) -> Self {
        let counts = |kind| !matches!(kind, ConditionType::DeliveryHealthy | ConditionType::WithinLimits);
        let failing = verdicts.iter().find(|verdict| verdict.truth != Truth::True && counts(verdict.kind));
        let (ready, progress) = match (failing, chosen) {
            (Some(failing), _) => {
                let kind = match failing.reason.remedy() {
                    Remedy::Chosen => None,
                    Remedy::Retry => Some(ConditionType::Reconciling),
                    Remedy::Change | Remedy::Nothing => Some(ConditionType::Stalled),
                };
                let ready =
                    NewCondition { kind: ConditionType::Ready, truth: Truth::False, ..failing.clone() };
                (ready, kind.map(|kind| NewCondition { kind, truth: Truth::True, ..failing.clone() }))
            }
            (None, Some(chosen)) => (chosen, None),
            (None, None) => {
                (NewCondition::new(ConditionType::Ready, Truth::True, ReasonCode::Ready, good), None)
            }
        };
        Self { ready, verdicts, progress }
    }

    /// Whether there is a verdict of this type.
    pub fn has(&self, kind: ConditionType) -> bool {
        self.verdicts.iter().any(|verdict| verdict.kind == kind)
    }

    /// The conditions in order: `Ready` first, `Reconciling` or `Stalled` last.
    pub fn conditions(&self, previous: &[Condition], generation: i64, now: Timestamp) -> Vec<Condition> {
        let verdicts = [&self.ready].into_iter().chain(&self.verdicts).chain(&self.progress);
        conditions(previous, verdicts, generation, now)
    }
}

/// The conditions of a status. Conditions of `previous` without a verdict are removed.
fn conditions<'a>(
    previous: &[Condition],
    verdicts: impl IntoIterator<Item = &'a NewCondition>,
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let condition = |verdict: &NewCondition| {
        let status = verdict.truth.as_str();
        let last = find(previous, verdict.kind).filter(|last| last.status == status);
        Condition {
            type_: verdict.kind.to_string(),
            status: status.to_owned(),
            reason: verdict.reason.to_string(),
            message: cut(&verdict.message),
            observed_generation: Some(generation),
            last_transition_time: last
                .map_or_else(|| now_in_seconds(now), |last| last.last_transition_time.clone()),
        }
    };
    verdicts.into_iter().map(condition).collect()
}

/// The time in whole seconds, as the API server stores it. With fractions, every comparison would find a difference.
fn now_in_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Cuts a message to 4,096 characters. The API server accepts at most 32,768.
fn cut(message: &str) -> String {
    message.chars().take(4096).collect()
}

/// The conditions of a paused object: `Ready` says so, and all other conditions stay.
pub fn paused(previous: &[Condition], generation: i64, now: Timestamp) -> Vec<Condition> {
    let message = "the annotation docket.dev/reconcile is \"disabled\": the operator changes nothing until you remove it";
    let verdict = NewCondition::new(ConditionType::Ready, Truth::Unknown, ReasonCode::Paused, message);
    with_ready(previous, &[verdict], generation, now)
}

/// The conditions with a new `Ready`, and with `Reconciling` or `Stalled` if it is among the verdicts. All others stay.
pub fn with_ready(
    previous: &[Condition],
    verdicts: &[NewCondition],
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let mut all = conditions(previous, verdicts, generation, now);
    let summaries =
        [ConditionType::Ready, ConditionType::Reconciling, ConditionType::Stalled].map(ConditionType::as_str);
    let kept = previous.iter().filter(|condition| !summaries.contains(&condition.type_.as_str())).cloned();
    all.splice(1..1, kept);
    all
}

/// The condition of a type.
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == kind.as_str())
}

/// What a status says of this generation; `None`: nothing, or nothing that this version knows.
pub fn reported(conditions: &[Condition], kind: ConditionType, generation: i64) -> Option<NewCondition> {
    let found = find(conditions, kind).filter(|found| found.observed_generation == Some(generation))?;
    let truth = found.status.parse::<Truth>().ok()?;
    Some(NewCondition { kind, truth, reason: found.reason.parse().ok()?, message: found.message.clone() })
}

/// The Event to publish if a condition has changed its status or reason, else `None`. With `good`, also for a
/// condition that is well from the first.
pub fn event_of(
    kind: ConditionType,
    before: &[Condition],
    after: &[Condition],
    good: bool,
) -> Option<ObjectEvent> {
    let now = find(after, kind)?;
    let last = find(before, kind);
    if last.is_some_and(|last| last.status == now.status && last.reason == now.reason)
        || (!good && last.is_none() && now.status != "False")
    {
        return None;
    }
    // The status may come from a newer version, with a reason that this version does not know.
    let code = now.reason.parse().unwrap_or(ReasonCode::Ready);
    let warning = now.status == "False" && code.remedy() != Remedy::Chosen;
    let (reason, note) = (EventReason::Condition(code), now.message.clone());
    Some(ObjectEvent { reason, action: "Reconcile", note, warning, secret: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn accepted(truth: Truth, reason: ReasonCode) -> NewCondition {
        NewCondition::new(ConditionType::Accepted, truth, reason, "why")
    }

    fn listed(summary: &Summary) -> Vec<(&'static str, &'static str)> {
        let verdicts = [&summary.ready].into_iter().chain(&summary.verdicts).chain(&summary.progress);
        verdicts.map(|verdict| (verdict.kind.as_str(), verdict.reason.as_str())).collect()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let first = conditions(&[], &[accepted(Truth::False, ReasonCode::InvalidSpec)], 1, at(10));
        let same = conditions(&first, &[accepted(Truth::False, ReasonCode::TenantNotReady)], 2, at(20));
        assert_eq!(same[0].last_transition_time.0, at(10));
        assert_eq!((same[0].reason.as_str(), same[0].observed_generation), ("TenantNotReady", Some(2)));
        let other = conditions(&same, &[accepted(Truth::True, ReasonCode::Accepted)], 2, at(30));
        assert_eq!(other[0].last_transition_time.0, at(30));
    }

    #[test]
    fn ready_has_the_first_failing_reason_and_stalled_or_reconciling() {
        let verdicts = vec![
            accepted(Truth::True, ReasonCode::Accepted),
            NewCondition::new(ConditionType::DatabaseReady, Truth::False, ReasonCode::Unreachable, ""),
            NewCondition::new(ConditionType::Programmed, Truth::False, ReasonCode::Pending, ""),
        ];
        assert_eq!(
            listed(&Summary::of(verdicts, "", None)),
            [
                ("Ready", "Unreachable"),
                ("Accepted", "Accepted"),
                ("DatabaseReady", "Unreachable"),
                ("Programmed", "Pending"),
                ("Reconciling", "Unreachable")
            ]
        );
        let verdicts = vec![accepted(Truth::False, ReasonCode::ClientCodeConflict)];
        assert_eq!(listed(&Summary::of(verdicts, "", None))[2], ("Stalled", "ClientCodeConflict"));
    }

    #[test]
    fn ready_ignores_the_receiver_and_yields_to_a_choice() {
        let verdicts =
            vec![NewCondition::new(ConditionType::DeliveryHealthy, Truth::False, ReasonCode::Retrying, "")];
        assert_eq!(Summary::of(verdicts.clone(), "", None).ready.truth, Truth::True);
        let chosen = NewCondition::new(ConditionType::Ready, Truth::False, ReasonCode::Suspended, "");
        assert_eq!(listed(&Summary::of(verdicts, "", Some(chosen)))[0], ("Ready", "Suspended"));
    }

    #[test]
    fn pause_changes_ready_alone() {
        let verdicts = Summary::of(vec![accepted(Truth::False, ReasonCode::InvalidSpec)], "", None);
        let before = verdicts.conditions(&[], 1, at(10));
        let after = paused(&before, 2, at(20));
        let shown: Vec<_> = after.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
        assert_eq!(shown, [("Ready", "Unknown"), ("Accepted", "False")]);
        assert_eq!(paused(&after, 2, at(30)), after);
    }

    #[test]
    fn events_are_published_at_transitions_only() {
        let one = conditions(&[], &[accepted(Truth::False, ReasonCode::InvalidSpec)], 1, at(1));
        let same = conditions(&one, &[accepted(Truth::False, ReasonCode::InvalidSpec)], 2, at(2));
        let well = conditions(&one, &[accepted(Truth::True, ReasonCode::Accepted)], 2, at(2));
        let is_warning = |before, after, good| {
            event_of(ConditionType::Accepted, before, after, good).map(|news| news.warning)
        };
        assert_eq!(is_warning(&[], &one, false), Some(true));
        assert_eq!(is_warning(&one, &same, true), None);
        assert_eq!(is_warning(&one, &well, true), Some(false));
        assert_eq!(is_warning(&[], &well, false), None);
        assert_eq!(is_warning(&[], &well, true), Some(false));
    }
}
