//! What is wrong with the declarations of a viewer's webhooks.

use std::collections::HashMap;

use docket_crds::{WebhookConfig, webhook_key};
use docket_portal::declared::{Faulty, Unserved};
use docket_store::{Connection, StoreError, contacts};

use super::form_words::fault_in_words;
use super::session::Viewer;

/// The webhooks that are declared and not served.
pub(super) fn unserved(viewer: &Viewer) -> Unserved {
    let (tenant, webhooks) = (&viewer.caller.tenant, viewer.caller.webhooks());
    let faulty = |(uid, key): (&str, &str)| {
        let faults = in_words_of(viewer, tenant.faults(uid));
        // If a webhook has no fault and its key names no namespace, its tenant is not known. Its name may be another tenant's, so
        // it is not shown.
        let is_own = !faults.is_empty() || webhook_key::full_name(key).is_some();
        let name = if is_own { webhook_key::full_name(key).unwrap_or(key) } else { "" };
        Faulty { full_name: name.to_owned(), faults }
    };
    Unserved { known: webhooks.held().map(faulty).collect(), may_be_more: webhooks.are_incomplete() }
}

/// The webhook of this name, if it is known to be declared and not served, and the viewer may see it.
pub(super) fn held(viewer: &Viewer, full_name: &str) -> Option<Faulty> {
    unserved(viewer).known.into_iter().find(|faulty| faulty.full_name == full_name)
}

/// What is wrong, in the words that the viewer knows: a contact of a customer knows only the form.
pub(super) fn in_words_of(viewer: &Viewer, faults: &[String]) -> Vec<String> {
    if viewer.caller.customer.is_none() {
        return faults.to_vec();
    }
    let mut said: Vec<String> = faults.iter().map(|fault| fault_in_words(fault)).collect();
    said.dedup();
    said
}

/// What is wrong with the webhook of this name, which is not served, and which the viewer may see.
pub(super) fn of_unserved(viewer: &Viewer, full_name: &str) -> Faulty {
    let tenant = &viewer.caller.tenant;
    let name = |key| webhook_key::full_name(key).unwrap_or(key);
    let uid = tenant.webhooks().held().find(|(_, key)| name(key) == full_name).map(|(uid, _)| uid);
    let faults = uid.map(|uid| in_words_of(viewer, tenant.faults(uid)));
    Faulty { full_name: full_name.to_owned(), faults: faults.unwrap_or_default() }
}

/// What is wrong with an active webhook whose customer the tenant does not have.
fn unknown_customer(code: &str) -> String {
    format!(
        "Docket knows no customer {code}, so no event is sent. Ask the people who run Docket to add the customer, or set up the \
         webhook for another customer."
    )
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
        let mut faults = in_words_of(viewer, viewer.caller.tenant.faults(&webhook.uid));
        let code = webhook.customer_code.as_str();
        let lacks_customer = webhook.active && unknown.contains(code);
        faults.extend(lacks_customer.then(|| unknown_customer(code)));
        (!faults.is_empty()).then(|| (webhook.uid.clone(), faults))
    };
    Ok(webhooks.iter().filter_map(faults).collect())
}
