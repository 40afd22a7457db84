//! The webhook that the user of a command means.

use anyhow::{Result, bail};
use docket_crds::{WebhookConfig, webhook_key};
use docket_portal::names::distance;

use crate::tenancy::Webhooks;

/// A webhook of a tenant.
struct Known<'a> {
    /// `namespace/name`
    full_name: String,
    /// Its declaration; `None`: it is declared and not served.
    config: Option<&'a WebhookConfig>,
}

impl Known<'_> {
    /// How well the name fits: 0 is best.
    fn rank(&self, name: &str) -> Option<usize> {
        let config = self.config;
        let short = self.full_name.split_once('/').map_or("", |(_, short)| short);
        let displayed = config.and_then(|config| config.display_name.as_deref()).unwrap_or_default();
        let fits = [
            self.full_name == name || config.is_some_and(|config| config.is(name)),
            short == name,
            displayed.eq_ignore_ascii_case(name),
        ];
        fits.into_iter().position(|fits| fits)
    }
}

fn known<'a>(served: &'a [WebhookConfig], webhooks: Webhooks<'a>) -> Vec<Known<'a>> {
    let served = served.iter().map(|one| Known { full_name: one.full_name(), config: Some(one) });
    let held = webhooks.held().map(|(_, key)| Known {
        full_name: webhook_key::full_name(key).unwrap_or(key).to_owned(),
        config: None,
    });
    served.chain(held.filter(|one| !one.full_name.is_empty())).collect()
}

/// The `namespace/name` of the webhook that `name` stands for: a name, `namespace/name`, display name, key or uid. `None`: no
/// such webhook is declared.
pub(super) fn resolved(
    name: &str,
    served: &[WebhookConfig],
    webhooks: Webhooks<'_>,
) -> Result<Option<String>> {
    let known = known(served, webhooks);
    let Some(best) = known.iter().filter_map(|one| one.rank(name)).min() else { return Ok(None) };
    let mut fitting: Vec<&str> =
        known.iter().filter(|one| one.rank(name) == Some(best)).map(|one| one.full_name.as_str()).collect();
    fitting.sort_unstable();
    fitting.dedup();
    match fitting[..] {
        [one] => Ok(Some(one.to_owned())),
        _ => bail!("{name:?} is the name of several webhooks; use one of {}", fitting.join(", ")),
    }
}

/// The error for a name that no webhook has.
pub(super) fn unknown(name: &str, served: &[WebhookConfig], webhooks: Webhooks<'_>) -> anyhow::Error {
    let known = known(served, webhooks);
    let near = known.iter().min_by_key(|one| {
        let short = one.full_name.split_once('/').map_or("", |(_, short)| short);
        distance(name, &one.full_name).min(distance(name, short))
    });
    match near {
        Some(near) => {
            anyhow::anyhow!("the tenant has no webhook {name:?}; did you mean {}?", near.full_name)
        }
        None => anyhow::anyhow!("the tenant has no webhook {name:?}: it has no webhooks"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tenancy::HeldWebhooks;

    #[test]
    fn name_without_namespace_is_enough_unless_two_have_it() {
        let held = [("u1", "a/orders/C-1"), ("u2", "b/orders/C-1"), ("u3", "a/invoices/C-1")];
        let held = HeldWebhooks::These(held.map(|(uid, key)| (uid.to_owned(), key.to_owned())).into());
        let events = BTreeSet::new();
        let webhooks = Webhooks::new(&[], &events, &held);
        let found = |name| resolved(name, &[], webhooks).map_err(|error| error.to_string());
        assert_eq!(found("invoices"), Ok(Some("a/invoices".to_owned())));
        assert_eq!(found("b/orders"), Ok(Some("b/orders".to_owned())));
        assert_eq!(found("none"), Ok(None));
        assert_eq!(
            found("orders"),
            Err("\"orders\" is the name of several webhooks; use one of a/orders, b/orders".to_owned())
        );
        let near = unknown("invoice", &[], webhooks).to_string();
        assert_eq!(near, "the tenant has no webhook \"invoice\"; did you mean a/invoices?");
    }

    #[test]
    fn name_of_the_object_comes_before_one_for_people_and_the_whole_name_before_both() {
        let webhook = |uid: &str, name: &str, shown: &str| -> WebhookConfig {
            let webhook = serde_json::json!({"uid": uid, "namespace": "a", "name": name, "displayName": shown,
                "customerCode": "C-1", "targetUrl": "https://h.example/", "secret": null, "caBundle": null,
                "events": ["order.created"], "active": true});
            serde_json::from_value(webhook).expect("a webhook")
        };
        let served = [webhook("u1", "orders", "Invoices"), webhook("u2", "invoices", "a/orders")];
        let (held, events) = (HeldWebhooks::These(Default::default()), BTreeSet::new());
        let webhooks = Webhooks::new(&served, &events, &held);
        for (name, full_name) in [
            ("invoices", "a/invoices"),
            ("INVOICES", "a/orders"),
            ("a/orders", "a/orders"),
            ("a/invoices/C-1", "a/invoices"),
            ("u1", "a/orders"),
        ] {
            let found = resolved(name, &served, webhooks).expect("one has the name");
            assert_eq!(found.as_deref(), Some(full_name), "{name}");
        }
    }
}
