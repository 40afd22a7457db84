//! What due deliveries wait for. Two look-ups answer that for a whole page, and none is made if nothing is due.

use std::fmt;

use docket_schedule::Places;
use docket_store::deliveries::{self, ListedDelivery};
use docket_store::{Connection, StoreError};

use crate::tenancy::Webhooks;

/// What a due delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryWait {
    /// The end of its attempt, which has begun.
    Attempt,
    /// The tenant, which is suspended.
    Suspended,
    /// The webhook, which is or may be declared, and is not served.
    NotServed,
    /// The webhook, which is no longer declared. It has a grace to be declared again.
    Gone,
    /// A place of the webhook: all are taken.
    Place {
        /// The number of places.
        all: usize,
        /// Whether the webhook has few places because its receiver was slow.
        is_reduced: bool,
    },
    /// A place of the tenant: all are taken. Holds their number.
    PlaceOfTenant(usize),
    /// A worker: there is a free place.
    Worker,
    /// A place or a worker: the schedule did not say which.
    PlaceOrWorker,
}

/// Completes "waits for".
impl fmt::Display for DeliveryWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempt => f.write_str("the end of the attempt that is under way"),
            Self::Suspended => f.write_str("the tenant, which is suspended"),
            Self::NotServed => f.write_str("the webhook, which is declared and not served"),
            Self::Gone => f.write_str("the webhook, which is not declared, until its grace ends"),
            Self::Place { all: 1, is_reduced: true } => f.write_str("the one place: the receiver was slow"),
            Self::Place { all, is_reduced: true } => write!(f, "one of {all} places: the receiver was slow"),
            Self::Place { all: 1, .. } => f.write_str("the one place, which is taken"),
            Self::Place { all, .. } => write!(f, "one of {all} places, which are taken"),
            Self::PlaceOfTenant(all) => write!(f, "one of the tenant's {all} places, which are taken"),
            Self::Worker => f.write_str("a worker that runs and has a free slot"),
            Self::PlaceOrWorker => f.write_str("a place, or a worker"),
        }
    }
}

/// The state of the tenant whose deliveries wait.
pub struct TenantState<'a> {
    /// Whether the tenant is suspended.
    pub is_suspended: bool,
    /// All webhooks of the tenant; `None` if it is not known which are declared.
    pub webhooks: Option<Webhooks<'a>>,
}

/// Returns what each of these deliveries waits for; `None` if it has ended or is not due. `places` asks the schedule about
/// webhooks, by key.
pub async fn waits(
    reader: &mut Connection,
    now_ms: i64,
    tenant: &TenantState<'_>,
    listed: &[ListedDelivery],
    places: impl AsyncFnOnce(&[String]) -> Option<Places>,
) -> Result<Vec<Option<DeliveryWait>>, StoreError> {
    let is_due = |listed: &&ListedDelivery| !listed.status.is_final() && listed.due_at_ms <= now_ms;
    let due: Vec<&ListedDelivery> = listed.iter().filter(is_due).collect();
    if due.is_empty() {
        return Ok(vec![None; listed.len()]);
    }
    let ids: Vec<String> = due.iter().map(|listed| listed.id.clone()).collect();
    let begun = deliveries::begun(reader, &ids).await?;
    let mut keys: Vec<String> = due.iter().map(|listed| listed.webhook.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    let places = places(&keys).await;
    let wait = |listed: &ListedDelivery| match begun.contains(&listed.id) {
        true => DeliveryWait::Attempt,
        false => of(tenant, &listed.webhook, &keys, places.as_ref()),
    };
    Ok(listed.iter().map(|listed| is_due(&listed).then(|| wait(listed))).collect())
}

/// What a delivery to this webhook waits for. `places` has the places of the webhooks in `keys`, in their order.
fn of(tenant: &TenantState<'_>, webhook: &str, keys: &[String], places: Option<&Places>) -> DeliveryWait {
    if tenant.is_suspended {
        return DeliveryWait::Suspended;
    }
    if let Some(webhooks) = &tenant.webhooks
        && webhooks.get(webhook).is_none()
    {
        return if webhooks.holds(webhook) { DeliveryWait::NotServed } else { DeliveryWait::Gone };
    }
    let own = keys.iter().position(|key| key == webhook);
    let Some((places, own)) = places.and_then(|places| Some((places, places.webhooks.get(own?)?))) else {
        return DeliveryWait::PlaceOrWorker;
    };
    if own.taken >= own.all {
        DeliveryWait::Place { all: own.all, is_reduced: own.is_reduced }
    } else if places.taken >= places.all {
        DeliveryWait::PlaceOfTenant(places.all)
    } else {
        DeliveryWait::Worker
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use docket_schedule::WebhookPlaces;

    use super::*;
    use crate::tenancy::HeldWebhooks;

    #[test]
    fn wait_names_what_is_taken_and_why() {
        let webhook = serde_json::json!({"uid": "w", "namespace": "a", "name": "w", "displayName": null, "customerCode": "C-1",
            "targetUrl": "https://h.example/", "secret": null, "caBundle": null, "events": [], "active": true});
        let served = [serde_json::from_value(webhook).expect("a webhook")];
        let (events, held) =
            (BTreeSet::new(), HeldWebhooks::These([("held".to_owned(), "a/held".to_owned())].into()));
        let tenant = |is_suspended| TenantState {
            is_suspended,
            webhooks: Some(Webhooks::new(&served, &events, &held)),
        };
        let keys = ["a/gone/C-1", "a/held/C-1", "a/w/C-1"].map(str::to_owned);
        let said =
            |webhook: &str, is_suspended: bool, of_tenant: usize, own: Option<(usize, usize, bool)>| {
                let places = own.map(|(taken, all, is_reduced)| Places {
                    taken: of_tenant,
                    all: 512,
                    webhooks: vec![WebhookPlaces { taken, all, is_reduced }; 3],
                });
                of(&tenant(is_suspended), webhook, &keys, places.as_ref()).to_string()
            };
        for (text, expected) in [
            (said("a/w/C-1", false, 2, Some((2, 2, true))), "one of 2 places: the receiver was slow"),
            (said("a/w/C-1", false, 8, Some((8, 8, false))), "one of 8 places, which are taken"),
            (
                said("a/w/C-1", false, 512, Some((1, 8, false))),
                "one of the tenant's 512 places, which are taken",
            ),
            (said("a/w/C-1", false, 1, Some((1, 8, true))), "a worker that runs and has a free slot"),
            (said("a/w/C-1", false, 0, None), "a place, or a worker"),
            (said("a/w/C-1", true, 0, None), "the tenant, which is suspended"),
            (said("a/held/C-1", false, 0, None), "the webhook, which is declared and not served"),
            (said("a/gone/C-1", false, 0, None), "the webhook, which is not declared, until its grace ends"),
        ] {
            assert_eq!(text, expected);
        }
    }
}
