//! What is wrong with a webhook, in the words of its form. The rules of the kind name the fields of the YAML, which no form has.

use std::borrow::Cow;

/// The field of the form with the value of this field of a Webhook, and its label; `None`: no form has it.
fn in_form(field: &str) -> Option<(&'static str, &'static str)> {
    Some(match field.strip_prefix("spec.")?.split(['.', '[']).next()? {
        "displayName" => ("displayName", "Name"),
        "customerCode" => ("customerCode", "Customer"),
        "targetURL" => ("targetUrl", "URL"),
        "events" => ("events", "Events"),
        _ => return None,
    })
}

/// The field of the form that a broken rule concerns, and what would be right. `field` and `message` come from the
/// rule. An empty field: the whole form.
pub(super) fn in_words(field: &str, message: &str) -> (String, String) {
    match in_form(field) {
        Some((name, _)) => (name.to_owned(), right(name, message).into_owned()),
        None => {
            (String::new(), "The webhook can't be saved like this; ask the people who run Docket.".to_owned())
        }
    }
}

/// What is wrong with a webhook that is declared, `field: message`, for a user who knows only the form.
pub(super) fn fault_in_words(fault: &str) -> String {
    let (field, message) = fault.split_once(": ").unwrap_or((fault, ""));
    match in_form(field) {
        Some((name, label)) => format!("{label}: {}", right(name, message)),
        None => "Its secret or its certificates can't be used as they are.".to_owned(),
    }
}

/// A message of the rules about a field of the form, in the form's words. A message that no rule has stays as it is.
fn right<'a>(name: &str, message: &'a str) -> Cow<'a, str> {
    let said = match message {
        "targetURL must be an absolute https:// URL" => {
            "Enter the whole URL of the receiver, which begins with https://, such as https://hooks.example.com/orders."
        }
        "targetURL must not carry credentials; use secretRef to sign deliveries" => {
            "Leave out the user name and the password: everyone who sees the URL would see them. The receiver verifies the \
             signature of a delivery instead."
        }
        "targetURL must not carry a fragment" => {
            "Leave out the # and what follows it: it is not sent to a receiver."
        }
        "targetURL must not contain spaces, control characters or backslashes; percent-encode them" => {
            "Leave out spaces, line breaks and backslashes, or write them as %20, %0A and %5C."
        }
        "targetURL must have a port from 1 to 65535, or none for 443" => {
            "Choose a port from 1 to 65535, or none, which means 443."
        }
        "targetURL must have two hexadecimal digits after each %; write % itself as %25" => {
            "Write two of the characters 0 to 9 and A to F after each %, and % itself as %25."
        }
        "targetURL must have a host with no dot at its start and no two dots in a row" => {
            "Correct the host: it begins with a dot, or has two dots in a row."
        }
        "targetURL must have a host of at most 253 characters, at most 63 between dots" => {
            "Correct the host: it may have 253 characters, and 63 between two dots."
        }
        "targetURL must have a host whose parts neither begin nor end with a hyphen" => {
            "Correct the host: a hyphen is at the beginning or at the end of one of its parts."
        }
        "targetURL must have a host of letters, digits, hyphens and underscores between dots" => {
            "Correct the host: it may have letters, digits, hyphens and underscores, with dots between them."
        }
        "customerCode must not contain control characters" => {
            "Leave out the line breaks and other control characters."
        }
        "customerCode must not begin or end with a blank" => {
            "Leave out the blank at the beginning or at the end."
        }
        other => return of_length(name, other).map_or(Cow::Borrowed(other), Cow::Owned),
    };
    Cow::Borrowed(said)
}

/// A message about the length of a text or a list, as "must have 1 to 64 characters, not 70".
fn of_length(name: &str, message: &str) -> Option<String> {
    let (range, found) = message.strip_prefix("must have ")?.split_once(", not ")?;
    let (_, most) = range.split_once(" to ")?;
    Some(match (name, most.split_once(' ')?, found) {
        ("customerCode", _, "0") => "Choose a customer.".to_owned(),
        ("events", _, "0") => "Choose at least one event.".to_owned(),
        (_, (most, thing), found) => format!("It may have at most {most} {thing}, and has {found}."),
    })
}

#[cfg(test)]
mod tests {
    use docket_crds::webhook::TenantRef;
    use docket_crds::{CustomerCode, EventCode, Metadata, TargetUrl, Webhook, WebhookSpec};

    use super::*;

    /// Words that no form has.
    const FOREIGN: [&str; 6] = ["targetURL", "secretRef", "customerCode", "displayName", "spec", "entries"];

    #[track_caller]
    fn is_of_the_form(text: &str) {
        let begins = text.starts_with(|first: char| first.is_uppercase());
        assert!(begins && text.ends_with('.'), "{text}");
        assert!(!FOREIGN.iter().any(|word| text.contains(word)), "{text}");
    }

    #[test]
    fn every_message_of_a_rule_has_words_of_the_form() {
        let url = TargetUrl::messages().map(|message| ("spec.targetURL", "targetUrl", message));
        let code = CustomerCode::messages().map(|message| ("spec.customerCode", "customerCode", message));
        let all: Vec<_> = url.chain(code).collect();
        assert!(all.len() >= 12, "{all:?}");
        for (field, name, message) in all {
            let (found, said) = in_words(field, message);
            assert_eq!(found, name);
            is_of_the_form(&said);
            assert!(fault_in_words(&format!("{field}: {message}")).ends_with(&said));
        }
    }

    #[test]
    fn a_form_with_everything_wrong_is_corrected_in_its_own_words() {
        let spec = |text: &str, code: &str, events: &[EventCode]| WebhookSpec {
            display_name: Some("x".repeat(129)),
            tenant_ref: TenantRef { name: "acme".to_owned(), namespace: None },
            customer_code: code.to_owned(),
            target_url: text.to_owned(),
            secret_ref: None,
            generate_secret: None,
            ca_bundle_ref: None,
            events: events.to_vec(),
            active: true,
        };
        let metadata = Metadata { name: "w".to_owned(), namespace: "a".to_owned(), generation: None };
        let violations = |spec| Webhook { metadata: metadata.clone(), spec }.validate();
        let (long, code) = (format!("https://h.example/{}", "x".repeat(2048)), "x".repeat(65));
        let second = spec(&long, &code, &[EventCode::OrderCreated]);
        for found in [violations(spec("http://u@h#", "", &[])), violations(second)] {
            assert!(found.len() >= 3, "{found:?}");
            for violation in found {
                let (field, said) = in_words(&violation.field, &violation.message);
                assert!(!field.is_empty(), "{violation}");
                is_of_the_form(&said);
            }
        }
        assert_eq!(
            in_words("spec.events", "must have 1 to 16 entries, not 0").1,
            "Choose at least one event."
        );
        assert_eq!(
            in_words("spec.customerCode", "must have 1 to 64 characters, not 0").1,
            "Choose a customer."
        );
    }

    #[test]
    fn fault_says_nothing_of_objects() {
        let missing = "spec.secretRef: there is no Secret \"no-such-secret\"";
        is_of_the_form(&fault_in_words(missing));
        assert!(!fault_in_words(missing).contains("no-such-secret"));
        assert_eq!(
            fault_in_words("spec.targetURL: 10.11.12.13:443 is not an allowed address"),
            "URL: 10.11.12.13:443 is not an allowed address"
        );
    }
}
