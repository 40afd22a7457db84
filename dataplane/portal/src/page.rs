//! The parts that all pages have: the head, the navigation, the box with a question, and one main part.

use docket_domain::failure::Failure;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use crate::ROOT;
use crate::brand::{self, Brand};
use crate::happened::may_be_by_url;

docket_crds::words! {
    /// A part of the portal, in the order of the navigation. The word is the text of the link.
    pub enum Section {
        /// What is wrong.
        Overview,
        /// The tenant's webhooks.
        Webhooks,
        /// Deliveries and their attempts.
        Logs = "Webhook Logs",
        /// Resends of many lost deliveries.
        Resends,
        /// The e-mail that the user gets.
        Notifications,
        /// The event catalogue.
        Events = "Event catalogue",
        /// Why a signature does not match.
        Verify = "Verify a signature",
        /// The tenant's API keys.
        Keys = "API keys",
        /// Employees and contacts.
        People,
        /// The audit.
        Activity,
    }
}

impl Section {
    /// Whether the section concerns the whole tenant, and not a single customer.
    pub const fn is_of_tenant(self) -> bool {
        matches!(self, Self::Keys | Self::People | Self::Activity)
    }

    /// The path of the section.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Overview => ROOT,
            Self::Webhooks => "/portal/webhooks",
            Self::Logs => "/portal/logs",
            Self::Resends => "/portal/resends",
            Self::Notifications => "/portal/notifications",
            Self::Events => "/portal/events",
            Self::Verify => "/portal/verify",
            Self::Keys => "/portal/keys",
            Self::People => "/portal/people",
            Self::Activity => "/portal/activity",
        }
    }

    /// The heading of the group of links that begins with this section.
    const fn group(self) -> Option<&'static str> {
        match self {
            Self::Events => Some("Receivers"),
            Self::Keys => Some("Tenant"),
            _ => None,
        }
    }
}

/// The path of the page that says why something did not arrive.
pub const TRACE: &str = "/portal/trace";

/// The path of the form of a new webhook. Its parameter `customerCode` chooses the customer.
pub const NEW_WEBHOOK: &str = "/portal/webhooks/new";

/// The path of a webhook's page.
pub fn webhook_link(full_name: &str) -> String {
    format!("{}/{full_name}", Section::Webhooks.path())
}

/// The names of a served webhook.
#[derive(Debug, Clone)]
pub struct WebhookName {
    /// `namespace/name`.
    pub full_name: String,
    /// The name for people; [`full_name`](Self::full_name) if it has none.
    pub name: String,
}

/// What a user may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// All of the tenant.
    Administrator,
    /// The webhooks of this customer, which its contact manages.
    Contact(String),
    /// Nothing: the user has no right to webhooks.
    None,
}

/// Everything around the main part of a page for a user who has signed in.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The tenant's name.
    pub tenant: String,
    /// What the tenant's pages have of its own.
    pub brand: Brand,
    /// The user's name.
    pub user: String,
    /// What the user may see.
    pub role: Role,
    /// The token that each form of this session carries.
    pub csrf: String,
    /// The time at which the page is made, for relative times.
    pub now: Timestamp,
    /// The number of webhooks that lose deliveries or whose attempts fail.
    pub attention: usize,
    /// The served webhooks that the user may see, in the order of their names for people.
    pub webhooks: Vec<WebhookName>,
    /// The webhooks that the user can change in the portal, each as `namespace/name`.
    pub changeable: Vec<String>,
    /// The webhooks that were removed in the portal, each with its last name for people, on pages that name such webhooks.
    pub removed: Vec<WebhookName>,
}

impl Frame {
    /// Whether the user may see what concerns the whole tenant.
    pub fn is_of_tenant(&self) -> bool {
        self.role == Role::Administrator
    }

    /// The name for people of a webhook, which may be served no longer.
    pub fn name_of(&self, full_name: &str) -> String {
        named(&self.webhooks, full_name)
            .map_or_else(|| self.last_name(full_name), |webhook| webhook.name.clone())
    }

    /// The last name for people of a webhook that was removed in the portal, with the word *removed*.
    pub(crate) fn removed_name(&self, full_name: &str) -> Option<String> {
        named(&self.removed, full_name).map(|webhook| format!("{} (removed)", webhook.name))
    }

    /// The last name for people of a webhook that is not served, if it is known.
    pub(crate) fn last_name(&self, full_name: &str) -> String {
        self.removed_name(full_name).unwrap_or_else(|| full_name.to_owned())
    }

    /// The name of a webhook that is not served, with the reason.
    pub(crate) fn unserved(&self, full_name: &str) -> Markup {
        html! {
            @match self.removed_name(full_name) {
                Some(name) => span title=(full_name) { (name) },
                None => { (full_name) " (not served)" },
            }
        }
    }

    /// A link to the page of a webhook if it is served, with its name for people.
    pub(crate) fn webhook(&self, full_name: &str) -> Markup {
        html! {
            @match named(&self.webhooks, full_name) {
                Some(webhook) => a href=(webhook_link(full_name)) title=(full_name) { (webhook.name) },
                None => { (self.unserved(full_name)) },
            }
        }
    }

    /// The path of the settings of a webhook, if its URL may be the reason of this failure and the user can change it.
    pub(crate) fn url_to_change(&self, full_name: &str, failure: &Failure<'_>) -> Option<String> {
        let is_changeable = self.changeable.iter().any(|changeable| changeable == full_name);
        (is_changeable && may_be_by_url(failure)).then(|| format!("{}#settings", webhook_link(full_name)))
    }

    /// The links of the navigation; `current`: the section of the page.
    fn navigation(&self, current: Option<Section>) -> Markup {
        let sections =
            Section::ALL.into_iter().filter(|section| self.is_of_tenant() || !section.is_of_tenant());
        html! {
            nav.portal aria-label="Portal" {
                @if self.role != Role::None {
                    @for section in sections {
                        @if let Some(group) = section.group() { p.group { (group) } }
                        @let attention = (section == Section::Overview && self.attention > 0).then_some(self.attention);
                        a href=(section.path()) aria-current=[(current == Some(section)).then_some("page")] {
                            span { (section.as_str()) }
                            @if let Some(count) = attention { span.count title="webhooks that need attention" { (count) } }
                        }
                    }
                }
                a.help href="/docs/webhooks/portal.html" { span { "Help" } }
            }
        }
    }

    /// Who has signed in, and how to sign out.
    fn user(&self) -> Markup {
        html! {
            form.me method="post" action={ (ROOT) "/sign-out" } {
                (csrf(self))
                strong { (self.user) }
                @match &self.role {
                    Role::Administrator => span.quiet { "Administrator" },
                    Role::Contact(customer) => span.quiet { "Contact of " (customer) },
                    Role::None => {},
                }
                button.plain type="submit" { "Sign out" }
                details {
                    summary { "Other devices" }
                    p { "Ends all of your sessions and tokens, those of the API too." }
                    button.tiny type="submit" formaction={ (ROOT) "/sign-out-everywhere" } { "Sign out everywhere" }
                }
            }
        }
    }
}

/// The webhook with this `namespace/name`.
fn named<'a>(webhooks: &'a [WebhookName], full_name: &str) -> Option<&'a WebhookName> {
    webhooks.iter().find(|webhook| webhook.full_name == full_name)
}

/// A whole page for a user who has signed in, in this section.
pub fn page(frame: &Frame, section: impl Into<Option<Section>>, title: &str, main: &Markup) -> String {
    page_asked(frame, section.into(), title, "", main)
}

/// A whole page with this text in the box that looks for orders, invoices, events and deliveries.
pub(crate) fn page_asked(
    frame: &Frame,
    section: Option<Section>,
    title: &str,
    asked: &str,
    main: &Markup,
) -> String {
    let brand = html! { a.brand href=(ROOT) { (brand::mark(&frame.tenant, &frame.brand)) } };
    let body = html! {
        body.signed-in {
            a.skip href="#main" { "Skip to the content" }
            header.side { (brand) (frame.navigation(section)) (frame.user()) }
            header.menu {
                details {
                    summary { "Menu · " (frame.tenant) @if let Some(section) = section { " · " (section.as_str()) } }
                    (frame.navigation(section))
                    (frame.user())
                }
            }
            main #main tabindex="-1" {
                @if frame.role != Role::None { (top(asked)) }
                (main)
            }
        }
    };
    document(&format!("{title} · {}", frame.tenant), &frame.brand, &body)
}

/// The box that looks for something, with this text in it, and the zone in which the page shows times.
fn top(asked: &str) -> Markup {
    html! {
        div.top {
            form.ask role="search" method="get" action=(TRACE) aria-label="Why did it not arrive?" {
                input type="search" name="q" value=(asked) maxlength="100" aria-label="Find an order, invoice, event or delivery"
                    placeholder="Why did it not arrive? Order, invoice, event or delivery id";
                button type="submit" { "Find" }
            }
            span.quiet.small { "Times in " span #zone { "UTC" } }
        }
    }
}

/// A whole page for anyone.
pub fn bare(title: &str, main: &Markup) -> String {
    document(title, &Brand::default(), &alone(main))
}

/// A whole page of a tenant for anyone.
pub fn of_tenant(tenant: &str, brand: &Brand, title: &str, main: &Markup) -> String {
    let main = html! { div.brand { (brand::mark(tenant, brand)) } (main) };
    document(&format!("{title} · {tenant}"), brand, &alone(&main))
}

fn alone(main: &Markup) -> Markup {
    html! {
        body {
            a.skip href="#main" { "Skip to the content" }
            main.alone #main tabindex="-1" { (main) }
        }
    }
}

/// The switch of live updates, which only the script shows.
pub fn live(is_on: bool) -> Markup {
    html! {
        p.row {
            label.check hidden { input #live type="checkbox" checked[is_on]; " Update every 5 seconds" }
            span #live-state role="status" {}
        }
    }
}

/// The hidden field with the session's token, which each form of the session contains.
pub fn csrf(frame: &Frame) -> Markup {
    html! { input type="hidden" name="csrf" value=(frame.csrf); }
}

fn document(title: &str, brand: &Brand, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Docket" }
                link rel="stylesheet" href={ (ROOT) "/portal.css" };
                (brand::link(brand))
                link rel="icon" type="image/svg+xml" href={ (ROOT) "/icon.svg" };
                script src={ (ROOT) "/portal.js" } defer {}
            }
            (body)
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use docket_domain::delivery::FailureClass;

    use super::*;

    fn frame() -> Frame {
        Frame {
            tenant: "Acme <b>".into(),
            brand: Brand::default(),
            user: "Nora Boss".into(),
            role: Role::Administrator,
            csrf: "c0ffee".into(),
            now: Timestamp::UNIX_EPOCH,
            attention: 0,
            webhooks: Vec::new(),
            changeable: vec!["a/own".into()],
            removed: Vec::new(),
        }
    }

    #[test]
    fn removed_webhook_has_its_last_name_and_a_served_one_its_link() {
        let named =
            |full_name: &str, name: &str| WebhookName { full_name: full_name.into(), name: name.into() };
        let removed = vec![named("a/gone", "Orders <b>"), named("a/again", "Before")];
        let frame = Frame { webhooks: vec![named("a/again", "Now")], removed, ..frame() };
        for (full_name, name, shown) in [
            ("a/gone", "Orders <b> (removed)", "<span title=\"a/gone\">Orders &lt;b&gt; (removed)</span>"),
            ("a/again", "Now", "<a href=\"/portal/webhooks/a/again\" title=\"a/again\">Now</a>"),
            ("a/other", "a/other", "a/other (not served)"),
        ] {
            assert_eq!(frame.webhook(full_name).into_string(), shown);
            assert_eq!(frame.name_of(full_name), name);
        }
    }

    #[test]
    fn navigation_has_what_the_user_may_see_and_counts_what_needs_attention() {
        let of = |role, attention| {
            let text = Frame { role, attention, ..frame() }.navigation(None).into_string();
            let is_linked = |section: &Section| text.contains(&format!("href=\"{}\"", section.path()));
            (Section::ALL.into_iter().filter(is_linked).collect::<Vec<_>>(), text.contains(">3</span>"))
        };
        let of_customer =
            |section: &Section| !matches!(section, Section::Keys | Section::People | Section::Activity);
        assert_eq!(of(Role::Administrator, 3), (Section::ALL.to_vec(), true));
        let contact: Vec<Section> = Section::ALL.into_iter().filter(of_customer).collect();
        assert_eq!(of(Role::Contact("C-1".into()), 3), (contact, true));
        assert_eq!(of(Role::None, 3), (Vec::new(), false));
        assert!(!of(Role::Administrator, 0).1);
    }

    #[test]
    fn menu_of_a_narrow_window_names_the_section_and_repeats_no_title() {
        let of = |section| page(&frame(), section, "A long title", &html! {});
        let summary = "<summary>Menu · Acme &lt;b&gt;";
        assert!(of(Some(Section::Logs)).contains(&format!("{summary} · Webhook Logs</summary>")));
        assert!(of(None).contains(&format!("{summary}</summary>")));
    }

    #[test]
    fn url_is_offered_to_be_changed_where_it_may_help_and_the_user_can_do_it() {
        let of = |full_name: &str, class, http_status| {
            frame().url_to_change(full_name, &Failure { class, cause: None, http_status, detail: None })
        };
        let settings = Some("/portal/webhooks/a/own#settings".to_owned());
        assert_eq!(of("a/own", FailureClass::Refused, None), settings);
        assert_eq!(of("a/own", FailureClass::ClientError, Some(404)), settings);
        assert_eq!(of("a/own", FailureClass::ClientError, Some(401)), None);
        assert_eq!(of("a/own", FailureClass::ServerError, Some(500)), None);
        assert_eq!(of("a/other", FailureClass::Refused, None), None);
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
