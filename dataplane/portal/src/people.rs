//! People: the tenant's employees and the contacts of its customers, with their rights.

use maud::{Markup, html};

use crate::page::{self, Frame, Section, csrf};
use crate::parts::{self, Head, Tone};
use crate::{counted, href};

/// An employee or a contact.
#[derive(Debug, Clone)]
pub struct PersonView {
    /// The kind: `contact` or `employee`.
    pub kind: &'static str,
    /// The user's code.
    pub code: String,
    /// The user's name.
    pub name: String,
    /// What the user signs in with: an e-mail address or a check-in name.
    pub user_id: String,
    /// The code and the name of a contact's customer; `None`: the user is an employee.
    pub customer: Option<(String, String)>,
    /// Whether a contact may manage webhooks, or an employee is an administrator.
    pub has_right: bool,
    /// Whether the user can sign in.
    pub active: bool,
    /// Whether the user is the one who sees the page.
    pub is_viewer: bool,
}

/// A page of one of the two lists.
#[derive(Debug, Clone, Default)]
pub struct PeopleList {
    /// The users, by what they sign in with.
    pub people: Vec<PersonView>,
    /// Where this page begins: after this key; empty for the first page.
    pub after: String,
    /// Where the next page begins, if there is more.
    pub next: Option<String>,
}

/// The page of people.
#[derive(Debug, Clone, Default)]
pub struct People {
    /// The words that were searched for; empty: everyone is listed.
    pub search: String,
    /// The employees.
    pub employees: PeopleList,
    /// The contacts.
    pub contacts: PeopleList,
    /// How many users a search reads at most.
    pub most_read: i64,
    /// What the user has just done.
    pub done: Option<String>,
}

impl People {
    /// A link to the page with the same search, at these places of the lists.
    fn at(&self, employees: &str, contacts: &str) -> String {
        href(
            Section::People.path(),
            [("q", &*self.search), ("employeesAfter", employees), ("contactsAfter", contacts)],
        )
    }
}

/// The page.
pub fn page(frame: &Frame, people: &People) -> String {
    let People { search, employees, contacts, done, .. } = people;
    let below = html! {
        "Employees work for " (frame.tenant) "; contacts are users of its customers. "
        a href="/docs/run/people.html" { "How people are added" }
    };
    let path = Section::People.path();
    let of_employees = pages(employees, "employees", |place| people.at(place, &contacts.after));
    let of_contacts = pages(contacts, "contacts", |place| people.at(&employees.after, place));
    let main = html! {
        (parts::head(&Head { title: html! { "People" }, below: Some(below), ..Head::default() }))
        (parts::done(done.as_deref()))
        form.card.filters method="get" action=(path) role="search" {
            label { "Name, user id or customer" input name="q" value=(search) maxlength="200"; }
            div.row {
                button.primary type="submit" { "Search" }
                @if !search.is_empty() { a href=(path) { "Clear" } }
            }
        }
        (parts::card("employees", "Employees", &html! {}, &html! { (table(frame, people, employees, "employee")) (of_employees) }))
        (parts::card("contacts", "Contacts", &html! {}, &html! { (table(frame, people, contacts, "contact")) (of_contacts) }))
    };
    page::page(frame, Section::People, "People", &main)
}

/// The links to other pages of a list; `at`: the link to the page after a key.
fn pages(list: &PeopleList, what: &str, at: impl Fn(&str) -> String) -> Markup {
    html! {
        @if !list.after.is_empty() || list.next.is_some() {
            div.in {
                nav.row aria-label={ "Pages of " (what) } {
                    @if !list.after.is_empty() { a.button href=(at("")) { "First " (what) } }
                    @if let Some(next) = &list.next { a.button href=(at(next)) rel="next" { "More " (what) } }
                }
            }
        }
    }
}

fn table(frame: &Frame, page: &People, list: &PeopleList, kind: &str) -> Markup {
    if list.people.is_empty() {
        return empty(page, list, kind);
    }
    let is_of_contacts = kind == "contact";
    let mut heads = vec![("Name and user id", "")];
    heads.extend(is_of_contacts.then_some(("Customer", "wider")));
    heads.extend([("Right", "wider"), ("Change", "")]);
    let rows = html! { @for person in &list.people { (row(frame, page, person)) } };
    parts::table(if is_of_contacts { "Contacts" } else { "Employees" }, &heads, &rows)
}

/// What is there instead of a list.
fn empty(page: &People, list: &PeopleList, kind: &str) -> Markup {
    let how = html! { p { a href="/docs/run/people.html" { "How the people who run Docket add one" } } };
    match (&list.next, page.search.is_empty()) {
        (Some(_), _) => parts::nothing(
            &format!("No {kind} found so far"),
            &html! { p { "The search has read " (counted(page.most_read, kind)) ". More continues behind them." } },
        ),
        (None, false) => parts::nothing(
            &format!("No {kind} matches"),
            &html! { p { "Each word must be a part of the name, of the user id or of the customer." } },
        ),
        (None, true) => parts::nothing(&format!("No {kind} yet"), &how),
    }
}

fn row(frame: &Frame, page: &People, person: &PersonView) -> Markup {
    let PersonView { kind, code, name, user_id, customer, has_right, active, is_viewer } = person;
    html! {
        tr {
            th.wrap scope="row" title={ (kind) " " (code) } {
                (name)
                @if !active { " " (parts::badge(Tone::Mute, "Deactivated")) }
                small { (user_id) }
            }
            @if let Some((code, name)) = customer { td.wider title=(code) { (long(name)) } }
            td.wider {
                @if !has_right { "–" }
                @else if customer.is_some() { "May manage webhooks" }
                @else { "Administrator" }
            }
            td { @if *is_viewer { span.quiet { "You" } } @else { (changes(frame, page, person)) } }
        }
    }
}

/// A text in one line, which shows the rest when it is used.
fn long(text: &str) -> Markup {
    html! { @if text.chars().count() > 28 { div.long tabindex="0" { (text) } } @else { (text) } }
}

fn changes(frame: &Frame, page: &People, person: &PersonView) -> Markup {
    let PersonView { kind, code, name, has_right, active, .. } = person;
    let give = if *kind == "contact" { "Allow to manage webhooks" } else { "Make administrator" };
    let button = |change: &str, label: &str| {
        html! { button.tiny type="submit" name="change" value=(change) aria-label={ (label) ": " (name) } { (label) } }
    };
    let places = [
        ("q", &page.search),
        ("employeesAfter", &page.employees.after),
        ("contactsAfter", &page.contacts.after),
    ];
    html! {
        form.row method="post" action=(Section::People.path()) {
            (csrf(frame))
            input type="hidden" name="kind" value=(kind);
            input type="hidden" name="code" value=(code);
            @for (name, value) in places {
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
            @if *active {
                @if *has_right { (button("revoke", "Remove the right")) } @else { (button("grant", give)) }
                details {
                    summary aria-label={ "Sign out everywhere: " (name) } { "Sign out everywhere" }
                    p { "All sessions and tokens of " (name) " end, those of the API too. " (name) " can sign in again." }
                    button.tiny type="submit" name="change" value="sign-out" { "Sign out " (name) }
                }
                details {
                    summary aria-label={ "Deactivate: " (name) } { "Deactivate" }
                    p { (name) " can no longer sign in, and all sessions and tokens end. This can be undone." }
                    button.tiny type="submit" name="change" value="deactivate" { "Deactivate " (name) }
                }
            } @else { (button("activate", "Activate")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::tests::frame;

    fn person(kind: &'static str) -> PersonView {
        let customer = (kind == "contact").then(|| ("C-1".to_owned(), "One & Co".to_owned()));
        PersonView {
            kind,
            code: "11".into(),
            name: "Ada <b>".into(),
            user_id: "ada@one.example".into(),
            customer,
            has_right: false,
            active: true,
            is_viewer: false,
        }
    }

    fn list(people: Vec<PersonView>) -> PeopleList {
        PeopleList { people, ..PeopleList::default() }
    }

    #[test]
    fn person_has_the_buttons_that_change_its_right_and_state() {
        let shown = |person: PersonView| {
            page(&frame(), &People { contacts: list(vec![person]), ..People::default() })
        };
        let buttons = |text: &str| -> Vec<String> {
            let values = text.split("name=\"change\" value=\"").skip(1);
            values.filter_map(|rest| rest.split('"').next().map(str::to_owned)).collect()
        };
        let contact = person("contact");
        let text = shown(contact.clone());
        assert!(
            text.contains("Ada &lt;b&gt;") && !text.contains("<b>") && text.contains("One &amp; Co"),
            "{text}"
        );
        assert_eq!(buttons(&text), ["grant", "sign-out", "deactivate"]);
        let asks = "<summary aria-label=\"Sign out everywhere: Ada &lt;b&gt;\">";
        let (_, asked) = text.split_once(asks).expect("it asks first");
        assert!(
            asked.split("</details>").next().is_some_and(|asked| asked.contains("value=\"sign-out\"")),
            "{text}"
        );
        let text = shown(PersonView { has_right: true, ..contact.clone() });
        assert!(text.contains("May manage webhooks") && buttons(&text)[0] == "revoke", "{text}");
        let text = shown(PersonView { active: false, ..contact.clone() });
        assert!(text.contains("Deactivated") && buttons(&text) == ["activate"], "{text}");
        let own = shown(PersonView { is_viewer: true, ..contact });
        assert!(buttons(&own).is_empty() && own.contains(">You<"), "{own}");
    }

    #[test]
    fn links_and_forms_keep_the_search_and_the_place_in_the_other_list() {
        let more = |person, after: &str, next: &str| PeopleList {
            people: vec![person],
            after: after.into(),
            next: Some(next.into()),
        };
        let people = People {
            search: "a&b".into(),
            employees: more(person("employee"), "bo", "mo"),
            contacts: more(person("contact"), "", "z@z"),
            ..People::default()
        };
        let text = page(&frame(), &people);
        for link in [
            "/portal/people?q=a%26b&amp;employeesAfter=mo\"",
            "/portal/people?q=a%26b&amp;employeesAfter=bo&amp;contactsAfter=z%40z\"",
            "/portal/people?q=a%26b\"",
            "name=\"q\" value=\"a&amp;b\"",
            "name=\"employeesAfter\" value=\"bo\"",
        ] {
            assert!(text.contains(link), "{link} is missing: {text}");
        }
        assert!(!text.contains("name=\"contactsAfter\""), "{text}");
    }

    #[test]
    fn empty_list_says_whether_all_was_searched() {
        let shown = |search: &str, next: Option<&str>| {
            let employees = PeopleList { next: next.map(str::to_owned), ..PeopleList::default() };
            page(
                &frame(),
                &People { search: search.into(), employees, most_read: 10_000, ..People::default() },
            )
        };
        assert!(shown("", None).contains("No contact yet"));
        assert!(shown("x", None).contains("No employee matches"));
        let more = shown("x", Some("u"));
        assert!(more.contains("No employee found so far") && more.contains("10000 employees"), "{more}");
    }
}
