//! The last names of webhooks that were removed in the portal, which the audit keeps.

use docket_portal::page::WebhookName;
use docket_store::{Connection, StoreError, audit};

use super::writes::NAME_PREFIX;

/// Reads the last names of removed webhooks. It leaves out webhooks that the portal has not named: another customer's webhook may have had
/// such a name.
pub(super) async fn names(reader: &mut Connection) -> Result<Vec<WebhookName>, StoreError> {
    let removed = audit::removed_webhooks(reader).await?.into_iter().filter_map(|(subject, name)| {
        let full_name = subject.strip_prefix("webhook ")?.to_owned();
        let (_, object) = full_name.split_once('/')?;
        let is_of_portal = object.starts_with(NAME_PREFIX);
        is_of_portal.then(|| WebhookName { name: name.unwrap_or_else(|| full_name.clone()), full_name })
    });
    Ok(removed.collect())
}
