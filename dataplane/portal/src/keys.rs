//! API keys: which ones the tenant has. A key itself is never shown.

use jiff::Timestamp;
use maud::html;

use crate::page::{self, Frame, Section};
use crate::time::time;

/// An API key.
#[derive(Debug, Clone)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// The beginning of its digest.
    pub fingerprint: String,
    /// Whether requests with it are accepted.
    pub active: bool,
    /// When it was used last, as far as that is known; requests to the older API are not noted.
    pub last_used_at: Option<Timestamp>,
    /// The version of the API that it is for.
    pub version: &'static str,
}

/// The page.
pub fn page(frame: &Frame, keys: &[Key]) -> String {
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
                        @for Key { name, fingerprint, active, last_used_at, version } in keys {
                            tr {
                                th scope="row" { (name) }
                                td { code { (fingerprint) } }
                                td {
                                    @if *active { span.good { span aria-hidden="true" { "✓ " } "active" } }
                                    @else { span.wait { span aria-hidden="true" { "○ " } "inactive: requests with it answer 401" } }
                                }
                                td { (version) }
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
