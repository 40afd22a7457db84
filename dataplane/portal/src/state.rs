//! The state of a webhook: whether its deliveries arrive.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::parts::{self, Tone};

/// Whether a webhook needs attention; the worst state is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WebhookState {
    /// The last delivery that ended was given up.
    Lost,
    /// There are dead letters, but later deliveries succeeded.
    Left,
    /// Attempts fail.
    Failing,
    /// No delivery fails, but the webhook's settings have a problem.
    Faulty,
    /// Everything arrives.
    Fine,
}

/// What the state of a webhook follows from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Signs {
    /// The number of its open dead letters.
    pub(crate) dead_letter: i64,
    /// The number of its deliveries that are tried again.
    pub(crate) retrying: i64,
    /// When a delivery last succeeded.
    pub(crate) last_success: Option<Timestamp>,
    /// When a delivery last became a dead letter that is still open.
    pub(crate) last_dead_letter: Option<Timestamp>,
    /// Whether its settings have a problem.
    pub(crate) is_faulty: bool,
}

impl WebhookState {
    /// The state of a webhook with these signs.
    pub(crate) fn of(signs: Signs) -> Self {
        match (signs.dead_letter, signs.retrying) {
            (0, 0) if signs.is_faulty => Self::Faulty,
            (0, 0) => Self::Fine,
            (0, _) => Self::Failing,
            (_, 0) if signs.last_success > signs.last_dead_letter => Self::Left,
            _ => Self::Lost,
        }
    }

    /// Whether deliveries are lost or fail.
    pub(crate) fn fails(self) -> bool {
        self < Self::Faulty
    }
}

/// The state in words; `active`: whether the webhook gets new events.
pub(crate) fn badge(state: WebhookState, active: bool) -> Markup {
    let (tone, text) = match state {
        WebhookState::Lost => (Tone::Bad, "Deliveries are lost"),
        WebhookState::Failing => (Tone::Wait, "Attempts fail"),
        WebhookState::Faulty => (Tone::Wait, "Settings have a problem"),
        WebhookState::Left => (Tone::Wait, "Works again; some are lost"),
        WebhookState::Fine if !active => (Tone::Mute, "Inactive"),
        WebhookState::Fine => (Tone::Good, "No failure"),
    };
    html! {
        (parts::badge(tone, text))
        @if !active && state != WebhookState::Fine { " " (parts::badge(Tone::Mute, "Inactive")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_the_worst_that_the_signs_say() {
        let at = |second| Timestamp::from_second(second).ok();
        let of = |dead_letter, retrying, last_success, last_dead_letter, is_faulty| {
            WebhookState::of(Signs { dead_letter, retrying, last_success, last_dead_letter, is_faulty })
        };
        assert_eq!(of(0, 0, None, None, false), WebhookState::Fine);
        assert_eq!(of(0, 0, at(1), None, true), WebhookState::Faulty);
        assert_eq!(of(0, 2, at(1), None, true), WebhookState::Failing);
        assert_eq!(of(1, 0, at(2), at(1), false), WebhookState::Left);
        assert_eq!(of(1, 0, at(1), at(2), false), WebhookState::Lost);
        assert_eq!(of(1, 1, at(2), at(1), false), WebhookState::Lost);
        assert!(WebhookState::Failing.fails() && !WebhookState::Faulty.fails());
    }

    #[test]
    fn inactive_webhook_says_so_beside_its_failures() {
        let text = badge(WebhookState::Lost, false).into_string();
        assert!(text.contains("Deliveries are lost") && text.contains("Inactive"), "{text}");
        assert!(!badge(WebhookState::Fine, false).into_string().contains("No failure"));
    }

    #[test]
    fn success_at_the_time_of_the_loss_is_no_later_one() {
        let at = Timestamp::from_second(1).ok();
        let of = |last_success, last_dead_letter| {
            WebhookState::of(Signs { dead_letter: 1, last_success, last_dead_letter, ..Signs::default() })
        };
        assert_eq!(
            (of(at, at), of(at, None), of(None, at)),
            (WebhookState::Lost, WebhookState::Left, WebhookState::Lost)
        );
        let all = [
            WebhookState::Lost,
            WebhookState::Left,
            WebhookState::Failing,
            WebhookState::Faulty,
            WebhookState::Fine,
        ];
        assert_eq!(all.map(WebhookState::fails), [true, true, true, false, false]);
    }
}
