//! The webhook that a search names.

use docket_crds::{WebhookConfig, webhook_key};
use docket_orders::Problem;
use docket_portal::names::nearest;
use docket_portal::page::WebhookName;
use docket_store::deliveries::has_webhook;

use super::DeliverySearch;
use crate::api::caller::Principal;
use crate::api::state::ApiState;
use crate::http::error::ApiError;

/// Replaces the name for people of a webhook by its `namespace/name`. Refuses the name of a webhook that is neither declared nor
/// has deliveries. A customer's user learns nothing of another customer's webhooks.
pub async fn check_webhook(
    state: &ApiState,
    caller: &Principal,
    search: &mut DeliverySearch,
) -> Result<(), ApiError> {
    let Some(name) = &search.webhook else { return Ok(()) };
    let webhooks = caller.webhooks();
    let full_name = webhook_key::full_name(name).unwrap_or(name);
    let is_held = |(uid, key): (&str, &str)| {
        [uid, key].contains(&name.as_str()) || webhook_key::full_name(key).unwrap_or(key) == full_name
    };
    if webhooks.named(name).is_some() || webhooks.are_incomplete() || webhooks.held().any(is_held) {
        return Ok(());
    }
    let typed = name.to_lowercase();
    let is_meant = |webhook: &&WebhookConfig| {
        let names = [Some(webhook.name.as_str()), webhook.display_name.as_deref()];
        names.into_iter().flatten().any(|name| name.to_lowercase() == typed)
    };
    let meant: Vec<String> =
        webhooks.served().filter(is_meant).map(WebhookConfig::full_name).take(2).collect();
    if let [only] = &meant[..] {
        search.webhook = Some(only.clone());
        return Ok(());
    }
    if has_webhook(&mut caller.reader(state).await?, full_name, caller.customer.as_deref()).await? {
        return Ok(());
    }
    let names: Vec<WebhookName> = webhooks
        .served()
        .map(|webhook| {
            let full_name = webhook.full_name();
            WebhookName { name: webhook.display_name.clone().unwrap_or_else(|| full_name.clone()), full_name }
        })
        .collect();
    let message = match nearest(name, &names) {
        _ if meant.len() > 1 => "several webhooks have this name; give the namespace/name".to_owned(),
        Some(webhook) => format!("no webhook has this name; did you mean {}?", webhook.full_name),
        None => "no webhook has this name, and no delivery went to one of this name".to_owned(),
    };
    Err(ApiError::NoSuchName(Problem { field: "webhook".to_owned(), message }))
}
