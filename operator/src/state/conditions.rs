//! The conditions of a status.
//!
//! The time of a condition changes only when its status changes; the time of `Reconciling` also when its reason changes. `Ready` has the
//! reason of the first condition that is not as it should be. `Reconciling` and `Stalled` exist only while they are true, as kstatus
//! requires.

use std::time::Duration;

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

/// How long what an object names and does not exist counts as on its way.
pub const ARRIVAL: Duration = Duration::from_secs(300);

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
    /// `on_its_way`: whether what is missing by this reason may still arrive; see [`on_its_way`].
    pub fn of(
        verdicts: Vec<NewCondition>,
        good: &str,
        chosen: Option<NewCondition>,
        on_its_way: impl Fn(ReasonCode) -> bool,
    ) -> Self {
        let counts = |kind| !matches!(kind, ConditionType::DeliveryHealthy | ConditionType::WithinLimits);
        let failing = verdicts.iter().find(|verdict| verdict.truth != Truth::True && counts(verdict.kind));
        let (ready, progress) = match (failing, chosen) {
            (Some(failing), _) => {
                let kind = match failing.reason.remedy() {
                    Remedy::Chosen => None,
                    Remedy::Retry => Some(ConditionType::Reconciling),
                    Remedy::Arrival if on_its_way(failing.reason) => Some(ConditionType::Reconciling),
                    Remedy::Arrival | Remedy::Change | Remedy::Nothing => Some(ConditionType::Stalled),
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
        // `Reconciling` says since when the operator waits for this.
        let same_reason = |last: &Condition| {
            verdict.kind != ConditionType::Reconciling || last.reason == verdict.reason.as_str()
        };
        let last = find(previous, verdict.kind).filter(|last| last.status == status && same_reason(last));
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

/// Whether what is missing by this reason counts as on its way: for [`ARRIVAL`] since `Reconciling` has the reason. After
/// that, a change of the object begins it again.
pub fn on_its_way(previous: &[Condition], reason: ReasonCode, generation: i64, now: Timestamp) -> bool {
    let with_reason = |kind| find(previous, kind).filter(|last| last.reason == reason.as_str());
    match (with_reason(ConditionType::Reconciling), with_reason(ConditionType::Stalled)) {
        (Some(waiting), _) => time_of(waiting, now) < ARRIVAL,
        (None, Some(stalled)) => stalled.observed_generation != Some(generation),
        (None, None) => true,
    }
}

/// The time after which what is missing no longer counts as on its way; `None`: nothing is missing, or that time is up.
pub fn arrival_ends(conditions: &[Condition], now: Timestamp) -> Option<Duration> {
    let waiting = find(conditions, ConditionType::Reconciling)?;
    let reason: ReasonCode = waiting.reason.parse().ok()?;
    (reason.remedy() == Remedy::Arrival).then(|| ARRIVAL.saturating_sub(time_of(waiting, now)))
}

/// How long a condition has had its status.
fn time_of(condition: &Condition, now: Timestamp) -> Duration {
    now.duration_since(condition.last_transition_time.0).try_into().unwrap_or_default()
}

/// The condition of a type.
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == kind.as_str())
}

/// Returns the condition that a status reports about this generation; `None`: it reports no condition that this version knows.
pub fn reported(conditions: &[Condition], kind: ConditionType, generation: i64) -> Option<NewCondition> {
    let found = find(conditions, kind).filter(|found| found.observed_generation == Some(generation))?;
    let truth = found.status.parse::<Truth>().ok()?;
    Some(NewCondition { kind, truth, reason: found.reason.parse().ok()?, message: found.message.clone() })
}

/// The Event to publish if a condition has changed its status or reason; `None`: it has not, or each change has this reason for some
/// seconds. With `good`, also for a condition that is well from the first.
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
    if code.is_usual() {
        return None;
    }
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
            listed(&Summary::of(verdicts, "", None, |_| true)),
            [
                ("Ready", "Unreachable"),
                ("Accepted", "Accepted"),
                ("DatabaseReady", "Unreachable"),
                ("Programmed", "Pending"),
                ("Reconciling", "Unreachable")
            ]
        );
        let verdicts = vec![accepted(Truth::False, ReasonCode::ClientCodeConflict)];
        assert_eq!(listed(&Summary::of(verdicts, "", None, |_| true))[2], ("Stalled", "ClientCodeConflict"));
    }

    #[test]
    fn ready_ignores_the_receiver_and_limits_and_yields_to_a_choice() {
        let verdicts = vec![
            NewCondition::new(ConditionType::DeliveryHealthy, Truth::False, ReasonCode::Retrying, ""),
            NewCondition::new(ConditionType::WithinLimits, Truth::False, ReasonCode::LimitReached, ""),
        ];
        assert_eq!(Summary::of(verdicts.clone(), "", None, |_| true).ready.truth, Truth::True);
        let chosen = NewCondition::new(ConditionType::Ready, Truth::False, ReasonCode::Suspended, "");
        assert_eq!(
            listed(&Summary::of(verdicts, "", Some(chosen.clone()), |_| true))[0],
            ("Ready", "Suspended")
        );
        let wrong = vec![accepted(Truth::False, ReasonCode::InvalidSpec)];
        let both = Summary::of(wrong, "", Some(chosen), |_| true);
        assert_eq!(listed(&both)[0], ("Ready", "InvalidSpec"), "what is wrong comes before the choice");
    }

    #[test]
    fn choice_of_a_user_is_neither_progress_nor_a_warning() {
        let suspended = accepted(Truth::False, ReasonCode::TenantSuspended);
        let summary = Summary::of(vec![suspended], "", None, |_| true);
        assert_eq!(listed(&summary), [("Ready", "TenantSuspended"), ("Accepted", "TenantSuspended")]);
        let after = summary.conditions(&[], 1, at(1));
        let event = event_of(ConditionType::Ready, &[], &after, true).expect("it changed");
        assert!(!event.warning, "{event:?}");
    }

    #[test]
    fn condition_is_as_the_api_server_stores_it() {
        let verdict =
            NewCondition { message: "ü".repeat(5000), ..accepted(Truth::True, ReasonCode::Accepted) };
        let now = at(10) + Duration::from_millis(700);
        let condition = conditions(&[], &[verdict], 1, now).remove(0);
        assert_eq!(condition.last_transition_time.0, at(10), "in whole seconds");
        assert_eq!(condition.message.chars().count(), 4096);
    }

    #[test]
    fn verdict_names_each_field_and_has_the_first_reason() {
        let reason = |code, field: &str, message: &str| Reason {
            code,
            field: field.to_owned(),
            message: message.to_owned(),
        };
        let missing = reason(ReasonCode::SecretNotFound, "spec.secretRef", "there is none");
        let late = reason(ReasonCode::Pending, "", "not yet");
        let good = (ReasonCode::ResolvedRefs, "all is there");
        let verdict = NewCondition::of_reasons(ConditionType::ResolvedRefs, &[&missing, &late], good);
        let expected = "spec.secretRef: there is none; not yet";
        let kind = ConditionType::ResolvedRefs;
        assert_eq!(verdict, NewCondition::new(kind, Truth::False, ReasonCode::SecretNotFound, expected));
    }

    #[test]
    fn pause_changes_ready_alone() {
        let verdicts = Summary::of(vec![accepted(Truth::False, ReasonCode::InvalidSpec)], "", None, |_| true);
        let before = verdicts.conditions(&[], 1, at(10));
        let after = paused(&before, 2, at(20));
        let shown: Vec<_> = after.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
        assert_eq!(shown, [("Ready", "Unknown"), ("Accepted", "False")]);
        assert_eq!(paused(&after, 2, at(30)), after);
    }

    #[test]
    fn missing_object_is_on_its_way_for_five_minutes_and_then_stalls() {
        let status = |previous: &[Condition], reason, generation, second| {
            let verdict = NewCondition::new(ConditionType::ResolvedRefs, Truth::False, reason, "why");
            let arrives = |reason| on_its_way(previous, reason, generation, at(second));
            Summary::of(vec![verdict], "", None, arrives).conditions(previous, generation, at(second))
        };
        let progress = |conditions: &[Condition]| conditions.last().map(|last| last.type_.clone());
        let (reconciling, stalled) = (Some("Reconciling".to_owned()), Some("Stalled".to_owned()));
        let secret = ReasonCode::SecretNotFound;

        let invalid = status(&[], ReasonCode::SecretInvalid, 1, 0);
        assert_eq!(progress(&invalid), stalled, "it is there");
        let first = status(&invalid, secret, 1, 100);
        assert_eq!((progress(&first), arrival_ends(&first, at(100))), (reconciling.clone(), Some(ARRIVAL)));
        assert_eq!(status(&first, secret, 1, 399), first, "nothing to write meanwhile");
        let last = status(&first, secret, 1, 400);
        assert_eq!((progress(&last), arrival_ends(&last, at(400))), (stalled.clone(), None));
        assert_eq!(status(&last, secret, 1, 9000), last, "also after a restart");
        assert_eq!(progress(&status(&last, secret, 2, 9000)), reconciling, "another may be named now");
        let other = status(&first, ReasonCode::ConfigMapNotFound, 1, 399);
        assert_eq!(arrival_ends(&other, at(399)), Some(ARRIVAL), "its own five minutes");
        let pending = status(&[], ReasonCode::Pending, 1, 0);
        assert_eq!((progress(&pending), arrival_ends(&pending, at(0))), (reconciling, None));
    }

    #[test]
    fn step_of_every_change_is_no_event() {
        for (reason, warns) in [
            (ReasonCode::Pending, None),
            (ReasonCode::Provisioning, None),
            (ReasonCode::SecretNotFound, Some(true)),
        ] {
            let verdict = NewCondition::new(ConditionType::Ready, Truth::False, reason, "why");
            let after = conditions(&[], &[verdict], 1, at(1));
            let event = event_of(ConditionType::Ready, &[], &after, true);
            assert_eq!(event.map(|event| event.warning), warns, "{reason}");
        }
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
