//! Resends of dead letters, and setting dead letters aside: the limits of a bulk resend, and what remains to do after either of them.

use crate::audit::AuditEvent;
use crate::delivery::Status;

/// The largest number of deliveries that one request creates; also the default.
pub const MAX_COUNT: i64 = 10_000;
/// The largest number of deliveries due per second. It is low because a bulk resend shares its webhook with new events.
pub const MAX_PER_SECOND: i64 = 100;
/// Deliveries due per second unless the request sets another number.
pub const DEFAULT_PER_SECOND: i64 = 10;

docket_crds::words! {
    /// Whether dead letters are set aside, or count again. The words are the last part of the platform's paths, and values of the portal's
    /// parameter `done`.
    pub enum Aside {
        /// The dead letters are set aside.
        Set = "set-aside",
        /// The setting aside is undone: the dead letters count again.
        Undo = "undo-set-aside",
    }
}

impl Aside {
    /// The event that the audit records.
    pub const fn event(self) -> AuditEvent {
        match self {
            Self::Set => AuditEvent::DeadLettersSetAside,
            Self::Undo => AuditEvent::SetAsideUndone,
        }
    }
}

/// Says what to do about a dead letter that was resent or set aside; `None`: it still counts. `latest` is the status
/// of its latest resend.
pub fn settled(latest: Option<Status>, is_set_aside: bool) -> Option<&'static str> {
    match (latest, is_set_aside) {
        (Some(Status::Succeeded), _) => Some("A resend delivered the event; nothing needs to be done."),
        (Some(Status::Pending | Status::Failed), _) => {
            Some("The event is being sent again; see what becomes of the resend.")
        }
        (Some(Status::DeadLetter), _) => Some("The resend failed for good as well; see what to do there."),
        (None, true) => Some("It was set aside; resend it if the event is wanted after all."),
        (None, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dead_letter_that_counts_has_its_failure_to_be_dealt_with() {
        assert_eq!(settled(None, false), None);
        let all = [None, Some(Status::Pending), Some(Status::Succeeded), Some(Status::DeadLetter)];
        let mut texts: Vec<_> = all.iter().map(|latest| settled(*latest, true).expect("a text")).collect();
        texts.dedup();
        assert_eq!(texts.len(), 4);
        assert_eq!(settled(Some(Status::Failed), true), settled(Some(Status::Pending), false));
    }
}
