//! Pages with a message instead of content: errors, missing rights, a database that does not respond.

use maud::html;

use crate::{ROOT, page};

/// Why a page could not be shown.
#[derive(Debug, Clone)]
pub struct ErrorMessage<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The problem, and what to do.
    pub detail: &'a str,
    /// The fields that are wrong, each with what would be right.
    pub fields: &'a [(&'a str, &'a str)],
    /// The id to quote when asking for help.
    pub request_id: &'a str,
}

/// The page.
pub fn page(message: &ErrorMessage<'_>) -> String {
    let ErrorMessage { status, detail, fields, request_id } = message;
    let title = match status {
        400 => "The request is not valid",
        401 => "Please sign in again",
        403 => "You may not see this",
        404 => "There is no such page",
        409 => "This can not be done now",
        429 => "Too many requests",
        503 => "Not available right now",
        _ => "This did not work",
    };
    let main = html! {
        h1 { (title) }
        p { (detail) }
        @if !fields.is_empty() {
            ul { @for (field, wrong) in *fields { li { code { (field) } ": " (wrong) } } }
        }
        p { a href=(ROOT) { "Go to the portal's first page" } " or " a href={ (ROOT) "/sign-in" } { "sign in as another user" } }
        p.hint { "Request " code { (request_id) } }
    };
    page::bare(title, &main)
}
