//! The last names of webhooks that were removed in the portal, which the audit keeps.

use docket_crds::WebhookSpec;
use docket_portal::page::WebhookName;
use docket_store::{Connection, StoreError, audit};

/// What stands between the name and the customer in the detail of an entry.
const OF_CUSTOMER: &str = " (customer \"";

/// The detail of the entry about the removal of a webhook: its name for people and its customer, such as `Orders (customer "C-1")`.
/// `None`: it has no name for people.
pub(super) fn detail(spec: &WebhookSpec) -> Option<String> {
    let name = spec.display_name.as_ref()?;
    Some(format!("{name}{}", end(&spec.customer_code)))
}

/// The end of a detail about a webhook of this customer. A code may have any characters, so it is quoted: the end of a detail names one
/// customer alone.
fn end(customer_code: &str) -> String {
    format!(" (customer {customer_code:?})")
}

/// Reads the last names of removed webhooks. A contact gets only names of webhooks that belonged to its `customer` when they were removed:
/// its deliveries may name a webhook that was created again for another customer.
pub(super) async fn names(
    reader: &mut Connection,
    customer: Option<&str>,
) -> Result<Vec<WebhookName>, StoreError> {
    let removed = audit::removed_webhooks(reader).await?;
    Ok(removed.iter().filter_map(|(subject, detail)| name(subject, detail.as_deref(), customer)).collect())
}

fn name(subject: &str, detail: Option<&str>, customer: Option<&str>) -> Option<WebhookName> {
    let full_name = subject.strip_prefix("webhook ")?;
    let name = match customer {
        Some(customer) => detail?.strip_suffix(&end(customer))?,
        // An older version recorded no customer.
        None => detail
            .map_or(full_name, |detail| detail.rsplit_once(OF_CUSTOMER).map_or(detail, |(name, _)| name)),
    };
    Some(WebhookName { full_name: full_name.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use docket_crds::webhook::TenantRef;

    use super::*;

    fn spec(name: Option<&str>, customer_code: &str) -> WebhookSpec {
        WebhookSpec {
            display_name: name.map(str::to_owned),
            tenant_ref: TenantRef { name: "acme".to_owned(), namespace: None },
            customer_code: customer_code.to_owned(),
            target_url: "https://h.example/".to_owned(),
            secret_ref: None,
            generate_secret: None,
            ca_bundle_ref: None,
            events: Vec::new(),
            active: true,
        }
    }

    #[test]
    fn contact_learns_the_last_names_of_its_own_customers_webhooks_alone() {
        let shown = |detail: Option<&str>, customer: Option<&str>| {
            name("webhook a/portal-1", detail, customer).map(|webhook| webhook.name)
        };
        let named = |name: &str, customer: &str| detail(&spec(Some(name), customer)).expect("it has a name");
        for (detail, of_one, of_administrator) in [
            (Some(named("Orders", "C-1")), Some("Orders"), "Orders"),
            (Some(named("Orders", "C-2")), None, "Orders"),
            (Some(named("Orders", "C-11")), None, "Orders"),
            (Some(named("Of (customer \"C-1\")", "C-2")), None, "Of (customer \"C-1\")"),
            (Some(named("Orders", "Two (customer C-1")), None, "Orders"),
            (Some(named("Orders", "Two (customer \"C-1")), None, "Orders"),
            (Some(named("Orders", "Two (customer \"C-1\")")), None, "Orders"),
            (Some("Orders".to_owned()), None, "Orders"),
            (detail(&spec(None, "C-1")), None, "a/portal-1"),
        ] {
            let detail = detail.as_deref();
            assert_eq!(shown(detail, Some("C-1")).as_deref(), of_one, "{detail:?}");
            assert_eq!(shown(detail, None).as_deref(), Some(of_administrator), "{detail:?}");
        }
    }
}
