//! When a change of a webhook's state is announced to the people who subscribed to it: a pure rule.
//!
//! A webhook has one state at a time, and a change of the state is one notice, however many deliveries it concerns.
//! Each state is announced at most once in [`APART`], so a webhook that fails and recovers all the time sends few.

use std::time::Duration;

/// Attempts fail from this attempt of a delivery on. The first retries usually outlast a restart of the receiver.
pub const FAILING_FROM: u32 = 3;
/// The shortest time between two notices of the same state of one webhook.
pub const APART: Duration = Duration::from_secs(3600);

docket_crds::words! {
    /// The state of a webhook, as subscribers see it.
    pub enum WebhookState {
        /// The third attempt of a delivery, or a later one, failed, and the delivery will be tried again.
        Failing,
        /// Deliveries are lost: they became dead letters.
        Lost,
        /// Deliveries arrive.
        Works,
    }
}

/// What the deliveries of a webhook show now. Test events do not count. Times are milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryFacts {
    /// The number of deliveries that will be tried again after [`FAILING_FROM`] or more failed attempts.
    pub failing: i64,
    /// The number of open dead letters.
    pub lost: i64,
    /// When a delivery last succeeded.
    pub last_success_at_ms: Option<i64>,
    /// When a delivery was last lost.
    pub last_lost_at_ms: Option<i64>,
}

/// What was last announced of a webhook. Times are milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// The state that subscribers know.
    pub state: WebhookState,
    /// When [`WebhookState::Failing`] was last announced.
    pub failing_at_ms: Option<i64>,
    /// When [`WebhookState::Lost`] was last announced.
    pub lost_at_ms: Option<i64>,
    /// When [`WebhookState::Works`] was last announced.
    pub works_at_ms: Option<i64>,
    /// Deliveries that were lost until then are known.
    pub lost_until_ms: Option<i64>,
}

/// What follows from the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Nothing,
    /// The state has changed, and its last notice is too recent. Decide again later.
    Wait,
    /// Only remember this.
    Remember(Announced),
    /// Announce the state of this, and remember it.
    Announce(Announced),
}

impl Announced {
    /// What subscribers know of a webhook before its first notice. Losses from before its last success are history.
    pub fn nothing(facts: &DeliveryFacts) -> Self {
        let is_history = facts.last_success_at_ms > facts.last_lost_at_ms;
        Self {
            state: WebhookState::Works,
            failing_at_ms: None,
            lost_at_ms: None,
            works_at_ms: None,
            lost_until_ms: facts.last_lost_at_ms.filter(|_| is_history),
        }
    }

    /// When this state was last announced.
    pub fn at_ms(&self, state: WebhookState) -> Option<i64> {
        match state {
            WebhookState::Failing => self.failing_at_ms,
            WebhookState::Lost => self.lost_at_ms,
            WebhookState::Works => self.works_at_ms,
        }
    }

    /// Decides what follows from these facts.
    pub fn next(self, facts: &DeliveryFacts, now_ms: i64) -> Decision {
        let state = self.state_by(facts);
        let lost_until_ms = self.lost_until_ms.max(facts.last_lost_at_ms);
        let now = Self { state, lost_until_ms, ..self };
        match (self.state, state) {
            // Subscribers know already that deliveries are lost.
            (WebhookState::Lost, WebhookState::Lost | WebhookState::Failing) => {
                self.remember(Self { state: WebhookState::Lost, ..now })
            }
            (before, state) if before == state => Decision::Nothing,
            // The failed deliveries are gone, and none has arrived since: they were set aside, or the webhook is new.
            (_, WebhookState::Works) if !self.has_arrived_since(facts) => self.remember(now),
            _ => match self.at_ms(state) {
                Some(at_ms) if now_ms.saturating_sub(at_ms) < APART_MS => Decision::Wait,
                _ => Decision::Announce(now.announced_at(now_ms)),
            },
        }
    }

    fn state_by(&self, facts: &DeliveryFacts) -> WebhookState {
        let unknown_since = self.lost_until_ms.min(facts.last_success_at_ms);
        if facts.lost > 0 && facts.last_lost_at_ms > unknown_since {
            WebhookState::Lost
        } else if facts.failing > 0 {
            WebhookState::Failing
        } else {
            WebhookState::Works
        }
    }

    fn has_arrived_since(&self, facts: &DeliveryFacts) -> bool {
        let since_ms = match self.state {
            WebhookState::Lost => self.lost_until_ms,
            state => self.at_ms(state),
        };
        facts.last_success_at_ms > since_ms
    }

    fn remember(self, now: Self) -> Decision {
        if now == self { Decision::Nothing } else { Decision::Remember(now) }
    }

    fn announced_at(self, now_ms: i64) -> Self {
        let at = Some(now_ms);
        match self.state {
            WebhookState::Failing => Self { failing_at_ms: at, ..self },
            WebhookState::Lost => Self { lost_at_ms: at, ..self },
            WebhookState::Works => Self { works_at_ms: at, ..self },
        }
    }
}

const APART_MS: i64 = 3_600_000;
const _: () = assert!(APART.as_millis() == APART_MS as u128);

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;
    const T0: i64 = 1_800_000_000_000;

    fn failing(count: i64) -> DeliveryFacts {
        DeliveryFacts { failing: count, last_success_at_ms: Some(T0 - MINUTE), ..DeliveryFacts::default() }
    }

    fn lost(count: i64, at_ms: i64) -> DeliveryFacts {
        DeliveryFacts { lost: count, last_lost_at_ms: Some(at_ms), ..failing(0) }
    }

    fn works(facts: DeliveryFacts, at_ms: i64) -> DeliveryFacts {
        DeliveryFacts { failing: 0, last_success_at_ms: Some(at_ms), ..facts }
    }

    /// The states that are announced for these facts, each at its time.
    fn announced(facts: &[(i64, DeliveryFacts)]) -> Vec<(i64, WebhookState)> {
        let mut known = Announced::nothing(&facts[0].1);
        let mut notices = Vec::new();
        for (now_ms, facts) in facts {
            match known.next(facts, *now_ms) {
                Decision::Nothing | Decision::Wait => {}
                Decision::Remember(now) => known = now,
                Decision::Announce(now) => {
                    notices.push((*now_ms, now.state));
                    known = now;
                }
            }
        }
        notices
    }

    #[test]
    fn each_state_of_one_trouble_is_announced_once_whatever_the_number_of_deliveries() {
        let notices = announced(&[
            (T0, failing(0)),
            (T0 + 3 * MINUTE, failing(1)),
            (T0 + 4 * MINUTE, failing(900)),
            (T0 + 15 * MINUTE, lost(1, T0 + 15 * MINUTE)),
            (T0 + 16 * MINUTE, DeliveryFacts { failing: 5, ..lost(901, T0 + 16 * MINUTE) }),
            (T0 + 20 * MINUTE, works(lost(901, T0 + 16 * MINUTE), T0 + 20 * MINUTE)),
            (T0 + 21 * MINUTE, works(lost(901, T0 + 16 * MINUTE), T0 + 21 * MINUTE)),
        ]);
        let expected = [
            (T0 + 3 * MINUTE, WebhookState::Failing),
            (T0 + 15 * MINUTE, WebhookState::Lost),
            (T0 + 20 * MINUTE, WebhookState::Works),
        ];
        assert_eq!(notices, expected);
    }

    #[test]
    fn webhook_that_flaps_for_a_day_has_each_state_at_most_once_an_hour() {
        let facts: Vec<(i64, DeliveryFacts)> = (0..24 * 60)
            .map(|minute| {
                let now_ms = T0 + minute * MINUTE;
                (now_ms, if minute % 10 < 5 { failing(1) } else { works(failing(0), now_ms) })
            })
            .collect();
        let notices = announced(&facts);
        for state in [WebhookState::Failing, WebhookState::Works] {
            let times: Vec<i64> = notices.iter().filter(|one| one.1 == state).map(|one| one.0).collect();
            assert!((20..=24).contains(&times.len()), "{state}: {}", times.len());
            assert!(times.windows(2).all(|two| two[1] - two[0] >= 60 * MINUTE), "{state}");
        }
    }

    #[test]
    fn state_that_is_held_back_is_announced_after_an_hour() {
        let again = (T0 + 30 * MINUTE, failing(1));
        let until = [T0 + 60 * MINUTE - 1, T0 + 60 * MINUTE].map(|now_ms| (now_ms, failing(1)));
        let recovered = (T0 + 5 * MINUTE, works(failing(0), T0 + 5 * MINUTE));
        let notices = announced(&[(T0, failing(1)), recovered, again, until[0], until[1]]);
        let expected = [
            (T0, WebhookState::Failing),
            (T0 + 5 * MINUTE, WebhookState::Works),
            (T0 + 60 * MINUTE, WebhookState::Failing),
        ];
        assert_eq!(notices, expected);
    }

    #[test]
    fn loss_is_announced_although_other_deliveries_arrive() {
        let lost = |at_ms: i64, now_ms: i64| works(lost(1, at_ms), now_ms);
        let notices = announced(&[
            (T0, failing(0)),
            (T0 + 10 * MINUTE, lost(T0 + 9 * MINUTE, T0 + 10 * MINUTE)),
            // What was announced as lost is no news, and what arrives says that the webhook works.
            (T0 + 11 * MINUTE, lost(T0 + 9 * MINUTE, T0 + 11 * MINUTE)),
            (T0 + 12 * MINUTE, lost(T0 + 9 * MINUTE, T0 + 12 * MINUTE)),
        ]);
        let expected = [(T0 + 10 * MINUTE, WebhookState::Lost), (T0 + 11 * MINUTE, WebhookState::Works)];
        assert_eq!(notices, expected);
    }

    #[test]
    fn old_losses_of_a_webhook_that_works_are_no_news() {
        let facts = works(lost(7, T0 - 60 * MINUTE), T0);
        assert_eq!(announced(&[(T0, facts), (T0 + MINUTE, facts)]), []);
        let stopped = lost(7, T0 - MINUTE / 2);
        assert_eq!(announced(&[(T0, stopped)]), [(T0, WebhookState::Lost)]);
    }

    #[test]
    fn trouble_that_ends_without_an_arrival_is_forgotten_in_silence() {
        let set_aside = DeliveryFacts { lost: 0, last_lost_at_ms: None, ..failing(0) };
        let notices = announced(&[
            (T0, lost(1, T0)),
            (T0 + MINUTE, set_aside),
            (T0 + 90 * MINUTE, lost(1, T0 + 90 * MINUTE)),
        ]);
        assert_eq!(notices, [(T0, WebhookState::Lost), (T0 + 90 * MINUTE, WebhookState::Lost)]);
    }
}
