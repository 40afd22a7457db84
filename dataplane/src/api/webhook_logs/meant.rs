//! What the texts of a search mean: a number or an id in any case, and the name of a webhook.

use docket_crds::{WebhookConfig, webhook_key};
use docket_domain::delivery::DeliveryId;
use docket_portal::names::nearest;
use docket_portal::page::WebhookName;
use docket_store::deliveries::has_webhook;

use super::DeliverySearch;
use crate::api::caller::Principal;
use crate::api::state::ApiState;
use crate::http::error::ApiError;

/// What the parameter `find` means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The delivery with this id.
    Delivery(DeliveryId),
    /// The event with this id.
    Event(String),
    /// The web order, work order or invoice with the first of these numbers that has deliveries.
    About(Vec<String>),
}

/// Reads a number or an id in any case. Docket's own numbers and ids have one spelling. An invoice's number comes from another
/// program, so the text is tried as it is, too.
pub(super) fn wanted(text: &str) -> Wanted {
    let text = text.trim();
    let (lower, upper) = (text.to_lowercase(), text.to_uppercase());
    if let Some(id) = lower.parse::<DeliveryId>().ok().filter(|id| id.to_string() == lower) {
        return Wanted::Delivery(id);
    }
    let is_hex = |digits: &str| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if lower.strip_prefix("evt_").is_some_and(is_hex) {
        return Wanted::Event(lower);
    }
    // A facilityKey begins with the number of its work order.
    let work_order = upper.split(['-', ':']).next().filter(|first| is_number(first)).map(str::to_owned);
    let mut numbers = vec![text.to_owned()];
    for number in [Some(upper), Some(lower), work_order].into_iter().flatten() {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    Wanted::About(numbers)
}

/// Whether a text is letters and then digits, as a number that Docket gives.
fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(|first: char| first.is_ascii_uppercase());
    digits.len() < text.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

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
    Err(ApiError::field("webhook", &message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(numbers: &[&str]) -> Wanted {
        Wanted::About(numbers.iter().map(|number| (*number).to_owned()).collect())
    }

    #[test]
    fn numbers_and_ids_are_read_in_any_case() {
        let id = "0193f0c2-a1b0-7c3e-9d6f-5a4b3c2d1e0f";
        let delivery = Wanted::Delivery(id.parse().expect("an id"));
        assert_eq!(wanted(&format!(" {} ", id.to_uppercase())), delivery);
        let event = "evt_0193f0c2a1b07c3e9d6f5a4b3c2d1e0f";
        assert_eq!(wanted(&event.to_uppercase()), Wanted::Event(event.to_owned()));
        assert_eq!(wanted("w00000026"), about(&["w00000026", "W00000026"]));
        assert_eq!(wanted("W00000026"), about(&["W00000026", "w00000026"]));
        assert_eq!(wanted("CT7-F00213"), about(&["CT7-F00213", "ct7-f00213", "CT7"]));
        assert_eq!(wanted("ct7:1"), about(&["ct7:1", "CT7:1", "CT7"]));
    }

    #[test]
    fn what_only_looks_like_a_number_or_an_id_is_taken_as_it_is() {
        assert_eq!(wanted("Inv-2a"), about(&["Inv-2a", "INV-2A", "inv-2a"]));
        assert_eq!(wanted("4711"), about(&["4711"]));
        assert_eq!(wanted("evt_0"), about(&["evt_0", "EVT_0"]));
        let bare = "0193f0c2a1b07c3e9d6f5a4b3c2d1e0f";
        assert_eq!(wanted(bare), about(&[bare, &bare.to_uppercase()]));
    }
}
