//! API keys: the keys of the tenant. A page never shows a key itself.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::page::{self, Frame, Section};
use crate::parts::{self, Head, Tone};
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
    let below = html! {
        "Keys are declared with the tenant, by the platform. "
        a href="/docs/kubernetes/rotate-api-key.html" { "How a key is replaced" }
    };
    let rows = html! { @for key in keys { (row(frame, key)) } };
    let heads = [("Name", ""), ("Fingerprint", ""), ("State", ""), ("For", "wider"), ("Last used", "wider")];
    let body = match keys {
        [] => parts::nothing(
            "This tenant has no API key",
            &html! { p { "Requests without a key name the tenant by their host." } },
        ),
        _ => parts::table("API keys", &heads, &rows),
    };
    let main = html! {
        (parts::head(&Head { title: html! { "API keys" }, below: Some(below), ..Head::default() }))
        (parts::card("keys", "The tenant's keys", &html! {}, &body))
        section.card aria-labelledby="compare" {
            header { h2 #compare { "Which key is it?" } }
            div.in {
                p { "The fingerprint is the beginning of the key's SHA-256 in hexadecimal. This command shows the same digits:" }
                div.row { code { "printf %s \"$KEY\" | sha256sum" } (parts::copy("the command")) }
            }
        }
    };
    page::page(frame, Section::Keys, "API keys", &main)
}

fn row(frame: &Frame, key: &ApiKeyView) -> Markup {
    let ApiKeyView { name, fingerprint, active, last_used_at, is_of_this_api } = key;
    html! {
        tr {
            th scope="row" { (name) }
            td { code { (fingerprint) } }
            td {
                @if !is_of_this_api { (parts::badge(Tone::Wait, "Not accepted")) small { "The older API takes no keys." } }
                @else if *active { (parts::badge(Tone::Good, "Active")) }
                @else { (parts::badge(Tone::Mute, "Inactive")) small { "Requests with it get 401." } }
            }
            td.wider { (if *is_of_this_api { "this API" } else { "the older API" }) }
            td.wider { @match last_used_at { Some(at) => { (time(*at, frame.now)) } None => { "–" } } }
        }
    }
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
        assert!(key(true, true).contains(">Active<") && !key(true, true).contains("Not accepted"));
        assert!(key(true, false).contains("Not accepted") && !key(true, false).contains(">Active<"));
        assert!(key(false, true).contains("get 401"));
    }
}
