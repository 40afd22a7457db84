//! Who changes a webhook: the portal, or the owner of the YAML that the page shows.

use docket_crds::WebhookConfig;
use docket_portal::webhooks::{self, FormSettings, Keeper, Shows};
use serde_json::{Value, json};

use super::is_of;
use super::view::settings;
use crate::http::error::ApiError;
use crate::portal::session::Viewer;
use crate::portal::writes::{DeclaredBy, NotWritten, Writes};
use crate::portal::yaml;

/// The size from which an object is not shown whole, in bytes: its annotations may have 256 KiB.
const LARGEST: usize = 32 * 1024;

/// Finds who changes a webhook that is served, and what to change there.
pub(super) async fn keeper(
    writes: &Writes,
    viewer: &Viewer,
    webhook: &WebhookConfig,
) -> Result<Keeper, ApiError> {
    let own = webhook.namespace == viewer.caller.tenant.config.namespace;
    let place = format!("a Webhook object in namespace {}", webhook.namespace);
    let found = match writes {
        Some(writer) if writer.is_folder() || own && writer.is_open() => {
            match writer.find(&webhook.namespace, &webhook.name).await {
                Ok(found) => found,
                // The page is worth having without its forms.
                Err(NotWritten::Away | NotWritten::Refused(_)) => DeclaredBy::Other { place, object: None },
                Err(error) => return Err(error.into()),
            }
        }
        _ => DeclaredBy::Other { place, object: None },
    };
    Ok(match found {
        DeclaredBy::Portal(stored) if is_of(viewer, &stored.declared) => Keeper::Portal(stored.version),
        // The webhook was declared again since, for another tenant or customer.
        DeclaredBy::Portal(..) => return Err(NotWritten::Changed.into()),
        DeclaredBy::Other { place, object } => {
            // The webhook may have been declared again since, for another tenant or customer.
            let is_its = |object: &Value| {
                object["spec"]["tenantRef"]["name"] == viewer.caller.tenant.config.name
                    && object["spec"]["customerCode"] == webhook.customer_code.as_str()
            };
            let is_folder = writes.as_ref().is_some_and(|writer| writer.is_folder());
            // The metadata of a cluster's object is for its users alone: a contact is of a customer.
            let is_for_viewer = is_folder || viewer.must_be_administrator().is_ok();
            let (what, yaml) = match object.filter(|object| is_for_viewer && is_its(object)) {
                Some(object) => whole_or_fields(&object, is_folder, webhook),
                None => (Shows::Fields, fields(&settings(webhook))),
            };
            Keeper::Other { place, what, yaml }
        }
    })
}

/// Returns the whole object, or only the fields that can be changed if the object is too large for the page.
fn whole_or_fields(object: &Value, is_folder: bool, webhook: &WebhookConfig) -> (Shows, String) {
    let yaml = yaml::of(object);
    match (yaml.len(), is_folder) {
        (LARGEST.., _) => (Shows::Fields, fields(&settings(webhook))),
        (_, true) => (Shows::Document, yaml),
        (_, false) => (Shows::Object, yaml),
    }
}

/// The fields that can be changed, as YAML: what is served names neither Secrets nor certificates, so it makes no whole object.
fn fields(FormSettings { display_name, target_url, events, active, .. }: &FormSettings) -> String {
    let mut spec = json!({"targetURL": target_url, "events": events, "active": active});
    if !display_name.is_empty() {
        spec["displayName"] = display_name.as_str().into();
    }
    format!("# {}\n{}", webhooks::LEFT_OUT, yaml::of(&json!({"spec": spec})))
}

#[cfg(test)]
mod tests {
    use docket_crds::EventCode;

    use super::*;

    #[test]
    fn object_is_shown_whole_until_it_is_too_large() {
        let webhook = WebhookConfig {
            uid: "u".to_owned(),
            namespace: "tenants".to_owned(),
            name: "orders".to_owned(),
            display_name: None,
            customer_code: "C-1".parse().expect("a code"),
            target_url: "https://h.example/".parse().expect("a URL"),
            secret: None,
            next_secret: None,
            ca_bundle: None,
            events: [EventCode::OrderCreated].into(),
            active: true,
        };
        let of = |bytes: usize| json!({"metadata": {"annotations": {"note": "x".repeat(bytes)}}});
        let (what, yaml) = whole_or_fields(&of(LARGEST / 2), false, &webhook);
        assert!(what == Shows::Object && yaml.contains("note: \"xx"), "{yaml}");
        assert_eq!(whole_or_fields(&of(1), true, &webhook).0, Shows::Document);
        for is_folder in [false, true] {
            let (what, yaml) = whole_or_fields(&of(LARGEST), is_folder, &webhook);
            assert!(
                what == Shows::Fields && yaml.starts_with(&format!("# {}", webhooks::LEFT_OUT)),
                "{yaml}"
            );
        }
    }

    #[test]
    fn fields_are_no_object_and_name_what_they_leave_out() {
        let text = fields(&FormSettings {
            display_name: "Orders".to_owned(),
            customer_code: "C-1".to_owned(),
            target_url: "https://h.example/".to_owned(),
            events: vec![EventCode::OrderCreated],
            active: false,
        });
        let (first, rest) = text.split_once('\n').expect("two lines");
        for left_out in
            ["metadata", "tenantRef", "customerCode", "secretRef", "generateSecret", "caBundleRef"]
        {
            assert!(
                first.starts_with("# ") && first.contains(left_out) && !rest.contains(left_out),
                "{text}"
            );
        }
        let expected = "spec:\n  active: false\n  displayName: \"Orders\"\n  events: [\"order.created\"]\n  \
                        targetURL: \"https://h.example/\"\n";
        let mut lines: Vec<&str> = rest.lines().collect();
        let mut wanted: Vec<&str> = expected.lines().collect();
        lines.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(lines, wanted, "{text}");
    }
}
