//! The parts that all pages have: the head, the header with the navigation, and one main part.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use crate::ROOT;

docket_crds::words! {
    /// A part of the portal that the navigation leads to, in the order of the links. The word is the text of the link.
    pub enum Section {
        /// What is wrong.
        Overview,
        /// The tenant's webhooks.
        Webhooks = "Customer ▸ Webhooks",
        /// Deliveries and their attempts.
        Logs = "Webhook Logs",
        /// Bulk resends.
        Resends = "Bulk resend",
        /// The event catalogue.
        Events = "Event catalogue",
        /// Why a signature does not match.
        Verify = "Verify a signature",
        /// The tenant's API keys.
        Keys = "API keys",
        /// The audit.
        Activity,
    }
}

impl Section {
    /// Whether the section concerns the whole tenant, and not a single customer.
    pub const fn is_of_tenant(self) -> bool {
        matches!(self, Self::Keys | Self::Activity)
    }

    /// The path of the section.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Overview => ROOT,
            Self::Webhooks => "/portal/webhooks",
            Self::Logs => "/portal/logs",
            Self::Resends => "/portal/resends",
            Self::Events => "/portal/events",
            Self::Verify => "/portal/verify",
            Self::Keys => "/portal/keys",
            Self::Activity => "/portal/activity",
        }
    }
}

/// The path of a webhook's page.
pub fn webhook_link(full_name: &str) -> String {
    format!("{}/{full_name}", Section::Webhooks.path())
}

/// Everything around the main part of a page for a user who has signed in.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The tenant's name.
    pub tenant: String,
    /// The user, such as `employee 99`.
    pub user: String,
    /// The token that each form of this session carries.
    pub csrf: String,
    /// The time at which the page is made, for relative times.
    pub now: Timestamp,
    /// Whether the user may see what concerns the whole tenant.
    pub is_of_tenant: bool,
}

/// A whole page for a user who has signed in, in this section.
pub fn page(frame: &Frame, section: Section, title: &str, main: &Markup) -> String {
    let bar = html! {
        form.user method="post" action={ (ROOT) "/sign-out" } {
            (csrf(frame))
            details {
                summary { "Signed in as " (frame.user) }
                p { "Ends all of your sessions and tokens, those of the API too." }
                button type="submit" formaction={ (ROOT) "/sign-out-everywhere" } { "Sign out everywhere" }
            }
            button type="submit" { "Sign out" }
        }
        nav aria-label="Portal" {
            ul {
                @for other in Section::ALL.into_iter().filter(|section| frame.is_of_tenant || !section.is_of_tenant()) {
                    li { a href=(other.path()) aria-current=[(other == section).then_some("page")] { (other.as_str()) } }
                }
                li { a href="/docs/webhooks/portal.html" { "Help" } }
            }
        }
    };
    document(&format!("{title} · {}", frame.tenant), Some((&frame.tenant, &bar)), main)
}

/// A whole page for anyone.
pub fn bare(title: &str, main: &Markup) -> String {
    document(title, None, main)
}

/// The switch of live updates, which only the script shows.
pub fn live(is_on: bool) -> Markup {
    html! {
        p.row {
            label hidden { input #live type="checkbox" checked[is_on]; " Update every 5 seconds" }
            span #live-state role="status" {}
        }
    }
}

/// A sentence about the form (`said`), with the fields that are wrong, each with what would be right.
pub fn wrong(said: &str, fields: &[(String, String)]) -> Markup {
    html! {
        @if !fields.is_empty() {
            div.wrong role="alert" {
                p { (said) }
                ul { @for (field, what) in fields { li { @if !field.is_empty() { strong { (field) } ": " } (what) } } }
            }
        }
    }
}

/// The hidden field with the session's token, which each form of the session contains.
pub fn csrf(frame: &Frame) -> Markup {
    html! { input type="hidden" name="csrf" value=(frame.csrf); }
}

fn document(title: &str, bar: Option<(&str, &Markup)>, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Docket" }
                link rel="stylesheet" href={ (ROOT) "/portal.css" };
                link rel="icon" type="image/svg+xml" href={ (ROOT) "/icon.svg" };
                script src={ (ROOT) "/portal.js" } defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    a.brand href=(ROOT) { "Docket" @if let Some((tenant, _)) = bar { " · " (tenant) } }
                    @if let Some((_, bar)) = bar { (bar) }
                }
                main #main tabindex="-1" { (main) }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame {
            tenant: "Acme <b>".into(),
            user: "employee 99".into(),
            csrf: "c0ffee".into(),
            now: Timestamp::UNIX_EPOCH,
            is_of_tenant: true,
        }
    }

    #[test]
    fn page_names_its_language_title_and_section_and_escapes_the_tenant() {
        let text = page(&frame(), Section::Logs, "Webhook Logs", &html! { h1 { "Webhook Logs" } });
        for part in [
            "<html lang=\"en\">",
            "<title>Webhook Logs · Acme &lt;b&gt; · Docket</title>",
            "<a href=\"/portal/logs\" aria-current=\"page\">",
            "<a class=\"skip\" href=\"#main\">",
            "name=\"csrf\" value=\"c0ffee\"",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        assert!(!text.contains("Acme <b>"));
    }

    #[test]
    fn no_page_has_inline_code() {
        let text = page(&frame(), Section::Logs, "Webhook Logs", &html! {});
        assert!(!text.contains("style=") && !text.contains("<style") && !text.contains(" on"), "{text}");
        assert_eq!(text.matches("<script").count(), text.matches("<script src=").count());
    }

    #[test]
    fn own_script_is_below_5_kb() {
        assert!(crate::SCRIPT.len() < 5 * 1024);
        for unsafe_way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!crate::SCRIPT.contains(unsafe_way), "{unsafe_way}");
        }
    }
}
