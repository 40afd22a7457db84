//! Who changes a webhook: the portal, or another one, whose YAML the page shows.

use docket_crds::WebhookConfig;
use docket_portal::webhooks::{self, FormSettings, Keeper, Shows};
use serde_json::{Value, json};

use super::is_of;
use super::view::settings;
use crate::http::error::ApiError;
use crate::portal::session::Viewer;
use crate::portal::writes::{DeclaredBy, NotWritten, Writes};
use crate::portal::yaml;

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
        // It was declared again since, for another tenant or customer.
        DeclaredBy::Portal(..) => return Err(NotWritten::Changed.into()),
        DeclaredBy::Other { place, object } => {
            // It may have been declared again since, for another tenant or customer.
            let is_its = |object: &Value| {
                object["spec"]["tenantRef"]["name"] == viewer.caller.tenant.config.name
                    && object["spec"]["customerCode"] == webhook.customer_code.as_str()
            };
            let is_folder = writes.as_ref().is_some_and(|writer| writer.is_folder());
            let (what, yaml) = match object.filter(is_its) {
                Some(object) if is_folder => (Shows::Document, yaml::of(&object)),
                Some(object) => (Shows::Object, yaml::of(&object)),
                None => (Shows::Fields, fields(&settings(webhook))),
            };
            Keeper::Other { place, what, yaml }
        }
    })
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
