//! Pages with a message instead of content: errors, missing rights, a database that does not respond.

use maud::{Markup, html};

use crate::page::{Frame, Role};
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

/// The page, with the navigation of the user if one has signed in.
pub fn page(message: &ErrorMessage<'_>, frame: Option<&Frame>) -> String {
    let ErrorMessage { status, detail, fields, request_id } = message;
    let title = title(*status);
    let main = html! {
        h1 { (title) }
        section.card aria-label=(title) {
            div.in {
                p { (detail) }
                @if !fields.is_empty() {
                    ul { @for (field, wrong) in *fields { li { code { (field) } ": " (wrong) } } }
                }
                (next(*status, frame))
                p.hint { "If you ask for help, quote the request: " code { (request_id) } }
            }
        }
    };
    match frame {
        Some(frame) => page::page(frame, None, title, &main),
        None => page::bare(title, &main),
    }
}

const fn title(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid",
        401 => "Please sign in again",
        403 => "You may not see this",
        404 => "There is no such page",
        409 => "This cannot be done now",
        429 => "Too many requests",
        503 => "Not available right now",
        _ => "This did not work",
    }
}

/// Whom to ask, and where to go.
fn next(status: u16, frame: Option<&Frame>) -> Markup {
    let has_right = frame.is_some_and(|frame| frame.role != Role::None);
    html! {
        @match status {
            403 => {
                p { "What you can do:" }
                ul {
                    li { "Ask an administrator of the tenant to give you the right, on the page People. "
                        a href="/docs/run/people.html" { "The people who run Docket can name an administrator" } "." }
                    li { "Then open this page again. An employee who became an administrator signs in again first." }
                    li { "If you have another user id, sign in with it." }
                }
            },
            429 | 503 => p { "Nothing is lost. Open the page again in a minute; if it stays so, ask the people who run Docket." },
            _ => {},
        }
        p.row {
            @if has_right { a.button href=(ROOT) { "Go to the overview" } }
            @else { a.button href={ (ROOT) "/sign-in" } { @if frame.is_some() { "Sign in as another user" } @else { "Sign in" } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    #[test]
    fn error_says_whom_to_ask_and_leads_only_where_the_user_may_go() {
        let of = |status, role: Option<Role>| {
            let fields = [("x<", "is <b>")];
            let message = ErrorMessage { status, detail: "No <i>", fields: &fields, request_id: "7f" };
            page(&message, role.map(|role| Frame { role, ..frame() }).as_ref())
        };
        let stranger = of(404, None);
        for part in [
            "<h1>There is no such page</h1>",
            "<p>No &lt;i&gt;</p>",
            "<code>x&lt;</code>: is &lt;b&gt;",
            "<code>7f</code>",
            "href=\"/portal/sign-in\">Sign in</a>",
        ] {
            assert!(stranger.contains(part), "{part}: {stranger}");
        }
        let overview = "href=\"/portal\">Go to the overview</a>";
        let (without, contact) = (of(403, Some(Role::None)), of(403, Some(Role::Contact("C-1".into()))));
        assert!(without.contains("Sign in as another user</a>") && !without.contains(overview), "{without}");
        assert!(contact.contains(overview) && contact.contains("Ask an administrator"), "{contact}");
        for (status, waits) in [(404, false), (429, true), (503, true), (500, false)] {
            assert_eq!(of(status, None).contains("Nothing is lost."), waits, "{status}");
        }
    }
}
