//! The key by which deliveries name a webhook: `namespace/name/customerCode`.
//!
//! A Webhook that is deleted and created again, moved or restored has another uid and the same key. So it takes over
//! the queued deliveries and the history. With another customer it is another webhook. A uid is never a key: a key
//! has at least two slashes, and a uid has fewer, since neither a namespace nor a name contains a slash.

/// The key of the webhook with this `namespace/name` and this customer.
pub fn of(full_name: &str, customer_code: &str) -> String {
    format!("{full_name}/{customer_code}")
}

/// The `namespace/name` of a key; `None`: the text is not a key but a uid.
pub fn full_name(key: &str) -> Option<&str> {
    let (namespace, rest) = key.split_once('/')?;
    let (name, _) = rest.split_once('/')?;
    Some(&key[..namespace.len() + 1 + name.len()])
}

/// The customer's code of a key; `None`: the text is not a key but a uid.
pub fn customer_code(key: &str) -> Option<&str> {
    key.get(full_name(key)?.len() + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_taken_apart_as_it_was_made_whatever_the_customer() {
        for customer in ["C-1", "a/b", "/", "Müller & Söhne"] {
            let key = of("legal/orders", customer);
            assert_eq!((full_name(&key), customer_code(&key)), (Some("legal/orders"), Some(customer)));
        }
    }

    #[test]
    fn uid_of_a_cluster_or_a_folder_is_no_key() {
        for uid in ["0b0c6d0e-5c4f-4a52-9d3c-0d8f5b1c2a3e", "file:default/orders", ""] {
            assert_eq!((full_name(uid), customer_code(uid)), (None, None), "{uid}");
        }
    }
}
