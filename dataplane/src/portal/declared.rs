//! What is wrong with the declarations of a viewer's webhooks.

use std::collections::HashMap;

use docket_crds::WebhookConfig;
use docket_portal::declared::{Faulty, Unserved};
use docket_store::{Connection, StoreError, contacts};

use super::session::Viewer;
use crate::tenants;

/// The webhooks that are declared and not served.
pub(super) fn unserved(viewer: &Viewer) -> Unserved {
    let (tenant, webhooks) = (&viewer.caller.tenant, viewer.caller.webhooks());
    let faulty = |(uid, name): (&str, &str)| Faulty {
        full_name: name.to_owned(),
        faults: tenant.faults(uid).to_vec(),
    };
    Unserved { known: webhooks.held().map(faulty).collect(), may_be_more: webhooks.are_incomplete() }
}

/// What is wrong with the webhook of this name, which is not served.
pub(super) fn of_unserved(viewer: &Viewer, full_name: &str) -> Faulty {
    let known = unserved(viewer).known.into_iter().find(|known| known.full_name == full_name);
    known.unwrap_or_else(|| Faulty { full_name: full_name.to_owned(), faults: Vec::new() })
}

/// What is wrong with webhooks that are served, by uid; none if it has no fault.
pub(super) async fn faults(
    reader: &mut Connection,
    viewer: &Viewer,
    webhooks: &[&WebhookConfig],
) -> Result<HashMap<String, Vec<String>>, StoreError> {
    let codes: Vec<&str> = webhooks.iter().map(|webhook| webhook.customer_code.as_str()).collect();
    let unknown = contacts::unknown_customers(reader, &codes).await?;
    let faults = |webhook: &&WebhookConfig| {
        let mut faults = viewer.caller.tenant.faults(&webhook.uid).to_vec();
        let code = webhook.customer_code.as_str();
        faults.extend(unknown.contains(code).then(|| tenants::unknown_customer(code)));
        (!faults.is_empty()).then(|| (webhook.uid.clone(), faults))
    };
    Ok(webhooks.iter().filter_map(faults).collect())
}
