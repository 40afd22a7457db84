//! What the log keeps of a write, by ids only.

use docket_domain::delivery::DeliveryId;

use crate::api::caller::Caller;

/// Who did what: logged once it is committed.
pub(super) enum Audit {
    Resent { delivery: DeliveryId, resend_of: DeliveryId },
    ResentMany { resend: String, webhook: String, count: i64 },
    Stopped { resend: String, taken_back: i64 },
}

impl Audit {
    pub(super) fn log(&self, caller: &Caller) {
        let (code, name) = (caller.tenant.config.client_code.as_str(), caller.name());
        match self {
            Self::Resent { delivery, resend_of } => {
                tracing::info!(tenant.code = code, caller = name, delivery.id = %delivery, delivery.resend_of = %resend_of, "delivery resent");
            }
            Self::ResentMany { resend, webhook, count } => {
                tracing::info!(
                    tenant.code = code,
                    caller = name,
                    resend.id = resend,
                    webhook.name = webhook,
                    count,
                    "dead letters resent"
                );
            }
            Self::Stopped { resend, taken_back } => {
                tracing::info!(
                    tenant.code = code,
                    caller = name,
                    resend.id = resend,
                    taken_back,
                    "resend stopped"
                );
            }
        }
    }
}
