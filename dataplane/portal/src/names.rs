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
        names.into_iter().filter_map(|name| if_near(&typed, &folded(name))).min()
    };
    let near = webhooks.iter().filter_map(|webhook| Some((near(webhook)?, webhook)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, webhook)| webhook)
}

fn folded(name: &str) -> String {
    name.trim().to_lowercase().chars().take(LONGEST + 1).collect()
}

/// The distance of two folded names; `None`: it is more than a third of the longer one, or a name is too long.
fn if_near(typed: &str, name: &str) -> Option<usize> {
    let longer = typed.chars().count().max(name.chars().count());
    Some(distance(typed, name)).filter(|distance| longer <= LONGEST && *distance <= longer / 3)
}

/// The number of characters to insert, delete or replace (Levenshtein).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
        for (a, b, count) in [
            ("", "", 0),
            ("orders", "orders", 0),
            ("order", "orders", 1),
            ("ordres", "orders", 2),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), count, "{a} {b}");
        }
    }

    #[test]
    fn at_most_a_third_of_a_name_differs_and_no_long_name_is_near() {
        let [of_64, of_65] = [LONGEST, LONGEST + 1].map(|length| "x".repeat(length));
        for (typed, name, near) in [
            ("ordres", "orders", Some(2)),
            ("oxxxrs", "orders", None),
            ("invoices", "orders", None),
            (of_64.as_str(), of_64.as_str(), Some(0)),
            (of_65.as_str(), of_65.as_str(), None),
        ] {
            assert_eq!(if_near(typed, name), near, "{typed} {name}");
        }
    }
}
