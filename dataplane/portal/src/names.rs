//! The webhook that a user means who has typed a name that none has.

use crate::page::WebhookName;

/// The longest name that is compared, in characters.
const LONGEST: usize = 64;

/// What is wrong with the name of a webhook that does not exist: it names the nearest of these webhooks, if one is near.
pub fn unknown_webhook(typed: &str, webhooks: &[WebhookName]) -> String {
    match nearest(typed, webhooks) {
        Some(webhook) => format!("There is no webhook “{typed}”; did you mean “{}”?", webhook.name),
        None => format!("There is no webhook “{typed}”; choose one from the list"),
    }
}

/// The webhook whose name for people, or whose name as an object with or without its namespace, is nearest; at most a third of its
/// characters may differ.
pub fn nearest<'a>(typed: &str, webhooks: &'a [WebhookName]) -> Option<&'a WebhookName> {
    let typed = folded(typed);
    let near = |webhook: &WebhookName| {
        let object = webhook.full_name.rsplit('/').next().unwrap_or_default();
        let names = [&*webhook.name, &*webhook.full_name, object];
        names.into_iter().filter_map(|name| distance(&typed, &folded(name))).min()
    };
    let near = webhooks.iter().filter_map(|webhook| Some((near(webhook)?, webhook)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, webhook)| webhook)
}

fn folded(name: &str) -> Vec<char> {
    name.trim().to_lowercase().chars().take(LONGEST + 1).collect()
}

/// How many characters must be added, removed or replaced (Levenshtein); `None`: too many, or a name is too long.
fn distance(typed: &[char], name: &[char]) -> Option<usize> {
    let longer = typed.len().max(name.len());
    if longer > LONGEST || typed.len().abs_diff(name.len()) > longer / 3 {
        return None;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (place, one) in typed.iter().enumerate() {
        let mut before = place;
        row[0] = place + 1;
        for (at, other) in name.iter().enumerate() {
            let replaced = before + usize::from(one != other);
            before = row[at + 1];
            row[at + 1] = replaced.min(before + 1).min(row[at] + 1);
        }
    }
    row.last().copied().filter(|distance| *distance <= longer / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_webhook_is_found_by_any_of_its_names() {
        let webhook =
            |full_name: &str, name: &str| WebhookName { full_name: full_name.into(), name: name.into() };
        let all = [webhook("default/acme-orders", "Orders of Acme"), webhook("default/qf-crm", "CRM sync")];
        for (typed, meant) in [
            ("crm snyc", Some("CRM sync")),
            ("qf-crm", Some("CRM sync")),
            ("default/acme-order", Some("Orders of Acme")),
            (" Order of acme", Some("Orders of Acme")),
            ("billing", None),
            ("", None),
            (&"x".repeat(400), None),
        ] {
            assert_eq!(nearest(typed, &all).map(|webhook| webhook.name.as_str()), meant, "{typed}");
        }
        assert_eq!(unknown_webhook("qf-crn", &all), "There is no webhook “qf-crn”; did you mean “CRM sync”?");
        assert!(unknown_webhook("x", &[]).ends_with("choose one from the list"));
    }

    #[test]
    fn distance_counts_changed_characters() {
        let distance = |typed: &str, name: &str| distance(&folded(typed), &folded(name));
        assert_eq!(distance("orders", "Orders"), Some(0));
        assert_eq!(distance("ordres", "orders"), Some(2));
        assert_eq!(distance("order", "orders"), Some(1));
        assert_eq!(distance("invoices", "orders"), None);
    }
}
