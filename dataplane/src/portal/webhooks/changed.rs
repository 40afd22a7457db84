//! Which settings of a webhook a form has changed, for the audit.

use docket_crds::{EventCode, TargetUrl, WebhookSpec};

/// The fields that differ, with the events and the host of the URL. The rest of a URL may have a secret, and a name may be a person's.
/// `None`: none of these fields differs.
pub(super) fn changed(before: &WebhookSpec, after: &WebhookSpec) -> Option<String> {
    let name = (before.display_name != after.display_name).then(|| "displayName".to_owned());
    let fields = [name, events(&before.events, &after.events), url(&before.target_url, &after.target_url)];
    let fields: Vec<String> = fields.into_iter().flatten().collect();
    (!fields.is_empty()).then(|| fields.join(", "))
}

/// The events that were added and removed, such as `events (+order.updated -note.created)`.
fn events(before: &[EventCode], after: &[EventCode]) -> Option<String> {
    let changes: Vec<String> = EventCode::ALL
        .into_iter()
        .filter_map(|code| match (before.contains(&code), after.contains(&code)) {
            (false, true) => Some(format!("+{code}")),
            (true, false) => Some(format!("-{code}")),
            _ => None,
        })
        .collect();
    (!changes.is_empty()).then(|| format!("events ({})", changes.join(" ")))
}

/// The new host, if the host changed.
fn url(before: &str, after: &str) -> Option<String> {
    let host = |url: &str| Some(url.parse::<TargetUrl>().ok()?.host().to_owned());
    let moved = host(after).filter(|after| host(before).is_none_or(|before| before != *after));
    let field = moved.map_or_else(|| "targetURL".to_owned(), |host| format!("targetURL (now at {host})"));
    (before != after).then_some(field)
}

#[cfg(test)]
mod tests {
    use docket_crds::webhook::TenantRef;

    use super::*;

    fn spec(name: &str, target_url: &str, events: &[EventCode]) -> WebhookSpec {
        WebhookSpec {
            display_name: Some(name.to_owned()),
            tenant_ref: TenantRef { name: "acme".to_owned(), namespace: None },
            customer_code: "C-1".to_owned(),
            target_url: target_url.to_owned(),
            secret_ref: None,
            generate_secret: None,
            ca_bundle_ref: None,
            events: events.to_vec(),
            active: true,
        }
    }

    #[test]
    fn changed_fields_are_named_without_names_paths_and_secrets() {
        let (created, updated) = (EventCode::OrderCreated, EventCode::OrderUpdated);
        let before = spec("Zqname", "https://a.example/zq-key", &[created]);
        for (after, expected) in [
            (before.clone(), None),
            (spec("Zqother", "https://a.example/zq-key", &[created]), Some("displayName")),
            (spec("Zqname", "https://a.example/zq-new", &[created]), Some("targetURL")),
            (spec("Zqname", "https://zq:zq@b.example/zq", &[created]), Some("targetURL")),
            (spec("Zqname", "https://b.example:8443/zq", &[created]), Some("targetURL (now at b.example)")),
            (
                spec("Zqother", "https://b.example/zq?zq", &[updated]),
                Some("displayName, events (-order.created +order.updated), targetURL (now at b.example)"),
            ),
        ] {
            assert_eq!(changed(&before, &after).as_deref(), expected, "{after:?}");
        }
    }
}
