//! Test events, for the portal and the platform.

use docket_crds::EventCode;
use docket_domain::audit::AuditEvent;
use docket_domain::delivery::DeliveryId;
use docket_store::Transaction;

use crate::actions::test_event;
use crate::api::caller::Principal;
use crate::api::state::ApiState;
use crate::api::writes::{Write, WriteDone};
use crate::http::error::ApiError;

/// Sends a test event to a webhook, named by uid or `namespace/name`. The event has this code, or the first code that the webhook
/// takes.
pub async fn send_test(
    state: &ApiState,
    caller: &Principal,
    webhook: &str,
    code: Option<EventCode>,
) -> Result<DeliveryId, ApiError> {
    let mut made = None;
    let send = async |transaction: &mut Transaction, now| {
        let (tenant, by) = (&caller.tenant, caller.name());
        let (id, due) =
            test_event::send_test(transaction, caller.webhooks(), webhook, code, &by, now).await?;
        made = Some(id);
        let entry = caller.entry(state, AuditEvent::TestSent).about("delivery", &id.to_string());
        Ok(WriteDone::new(&()).hint(tenant.hints([due], now)).record(entry).log(move |caller| {
            let (code, name) = (caller.tenant.config.client_code.as_str(), caller.name());
            tracing::info!(tenant.code = code, caller = name, delivery.id = %id, "test event sent");
        }))
    };
    Write::each_time().perform(state, caller, send).await?;
    made.ok_or(ApiError::Internal)
}
