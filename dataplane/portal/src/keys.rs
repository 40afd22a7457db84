//! API keys: the keys of the tenant. A page never shows a key itself.

use jiff::Timestamp;
use maud::html;

use crate::page::{self, Frame, Section};
use crate::time::time;

/// An API key.
#[derive(Debug, Clone)]
pub struct ApiKeyView {
    /// Its name.
    pub name: String,
    /// The beginning of the key's digest.
    pub fingerprint: String,
    /// Whether requests with the key are accepted.
    pub active: bool,
    /// When the key was last used, if that is known.
    pub last_used_at: Option<Timestamp>,
    /// Whether the key is for this API. A key for the older API does not work, because that API takes no keys.
    pub is_of_this_api: bool,
}

/// The page.
pub fn page(frame: &Frame, keys: &[ApiKeyView]) -> String {
    let main = html! {
        h1 { "API keys" }
        p {
            "Keys are declared with the tenant, by the platform. The fingerprint is the beginning of the key's SHA-256 in hexadecimal: "
            code { "printf %s \"$KEY\" | sha256sum" } " shows the same digits."
        }
        @if keys.is_empty() {
            p role="status" { "No key is served. Requests without one name the tenant by their host." }
        } @else {
            div.wide role="region" aria-label="API keys" tabindex="0" {
                table {
                    caption { "The tenant's API keys" }
                    thead { tr { @for head in ["Name", "Fingerprint", "State", "For", "Last used"] { th scope="col" { (head) } } } }
                    tbody {
                        @for ApiKeyView { name, fingerprint, active, last_used_at, is_of_this_api } in keys {
                            tr {
                                th scope="row" { (name) }
                                td { code { (fingerprint) } }
                                td {
                                    @if !is_of_this_api { span.wait { span aria-hidden="true" { "○ " } "is not accepted: the older API takes no keys" } }
                                    @else if *active { span.good { span aria-hidden="true" { "✓ " } "active" } }
                                    @else { span.wait { span aria-hidden="true" { "○ " } "inactive: requests with it get 401" } }
                                }
                                td { (if *is_of_this_api { "this API" } else { "the older API" }) }
                                td { @match last_used_at { Some(at) => { (time(*at, frame.now)) } None => { "–" } } }
                            }
                        }
                    }
                }
            }
        }
    };
    page::page(frame, Section::Keys, "API keys", &main)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    #[test]
    fn key_for_the_older_api_is_not_accepted() {
        let key = |active, is_of_this_api| {
            let (name, fingerprint) = ("primary".to_owned(), "0011223344556677".to_owned());
            page(&frame(), &[ApiKeyView { name, fingerprint, active, last_used_at: None, is_of_this_api }])
        };
        assert!(key(true, true).contains("</span>active") && !key(true, true).contains("is not accepted"));
        assert!(key(true, false).contains("is not accepted") && !key(true, false).contains("</span>active"));
        assert!(key(false, true).contains("get 401"));
    }
}
