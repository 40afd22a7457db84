//! People: employees and contacts, their rights and their sessions.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{Html, Redirect};
use docket_domain::token::{TokenSubject, UserKind};
use docket_portal::page::Section;
use docket_portal::people::{self, People, PeopleList, PersonView};
use docket_portal::{DONE, href};
use docket_store::contacts::{self, ListedContact};
use docket_store::employees::ListedEmployee;
use docket_store::people::{Person, state_of};
use docket_store::{Connection, StoreError, Transaction};

use super::forms::{Posted, filled_in};
use super::session::Viewer;
use crate::actions::people::{Change, Found, MOST_READ, change as change_person, find};
use crate::api::state::ApiState;
use crate::api::writes::{Write, WriteDone};
use crate::http::error::ApiError;
use crate::http::fields::RequestFields;
use crate::http::kinds::LineText;
use crate::http::request::{FromFields, request};

/// The most users of a list on one page.
const PAGE: usize = 50;

request! {
    /// The parameters of the page.
    query PeopleSearch {
        /// Words of a name, of a user id or of a customer.
        opt q: LineText<200>;
        /// Only employees after this one.
        opt employees_after: LineText<1024>;
        /// Only contacts after this one.
        opt contacts_after: LineText<1024>;
        /// What the user has just done.
        opt done: LineText<16>;
        /// To a user of this kind.
        opt kind: LineText<16>;
        /// To the user with this code.
        opt code: LineText<256>;
    }
}

request! {
    /// The fields of the form that changes a user.
    query PersonForm {
        /// contact or employee.
        req kind: LineText<16>;
        /// The user's code.
        req code: LineText<256>;
        /// What is done.
        req change: LineText<16>;
        /// The search that the page shows.
        opt q: LineText<200>;
        /// The place in the list of employees.
        opt employees_after: LineText<1024>;
        /// The place in the list of contacts.
        opt contacts_after: LineText<1024>;
    }
}

/// GET /portal/people.
pub async fn list(
    State(state): State<Arc<ApiState>>,
    viewer: Viewer,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, ApiError> {
    let own = code_of(&viewer)?;
    let fields = RequestFields::of_pairs(filled_in(&query.unwrap_or_default()));
    let search = PeopleSearch::read(fields)?;
    let mut reader = viewer.caller.reader(&state).await?;
    let done = done(&mut reader, &search).await?;
    let PeopleSearch { q, employees_after, contacts_after, .. } = search;
    let words = q.unwrap_or_default();
    let employees = find::<ListedEmployee>(&mut reader, &words, employees_after.clone(), PAGE).await?;
    let contacts = find::<ListedContact>(&mut reader, &words, contacts_after.clone(), PAGE).await?;
    let people = People {
        search: words,
        employees: listed(employees, employees_after, |employee| of_employee(employee, own)),
        contacts: listed(contacts, contacts_after, of_contact),
        most_read: MOST_READ,
        done,
    };
    Ok(Html(people::page(viewer.frame(), &people)))
}

/// POST /portal/people: changes a user, and leads back to the place in the list.
pub async fn change(
    State(state): State<Arc<ApiState>>,
    Posted { viewer, form }: Posted<PersonForm>,
) -> Result<Redirect, ApiError> {
    let own = code_of(&viewer)?;
    let person = person(&form.kind, &form.code)
        .ok_or_else(|| ApiError::field("kind", "must be contact or employee"))?;
    let what = change_of(&form.change).ok_or_else(|| {
        ApiError::field("change", "must be grant, revoke, activate, deactivate or sign-out")
    })?;
    let caller = &viewer.caller;
    let work = async |transaction: &mut Transaction, _| {
        change_person(transaction, person, what, Some(own)).await?;
        let entry = caller.entry(&state, what.event()).about(person.kind.as_str(), person.code);
        Ok(WriteDone::new(&()).record(entry))
    };
    Write::each_time().perform(&state, caller, work).await?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (q, employees, contacts) = (text(&form.q), text(&form.employees_after), text(&form.contacts_after));
    let fields = [
        ("q", &*q),
        ("employeesAfter", &*employees),
        ("contactsAfter", &*contacts),
        (DONE, &*form.change),
        ("kind", &*form.kind),
        ("code", &*form.code),
    ];
    Ok(Redirect::to(&href(Section::People.path(), fields)))
}

/// The code of a viewer who is an administrator.
fn code_of(viewer: &Viewer) -> Result<&str, ApiError> {
    viewer.must_be_administrator()?;
    match &viewer.caller.subject {
        TokenSubject::Employee { employee_code, .. } => Ok(employee_code),
        TokenSubject::Contact { .. } => Err(ApiError::NotAdministrator),
    }
}

fn person<'a>(kind: &str, code: &'a str) -> Option<Person<'a>> {
    Some(Person { kind: kind.parse().ok()?, code })
}

fn change_of(word: &str) -> Option<Change> {
    Some(match word {
        "grant" => Change::Right(true),
        "revoke" => Change::Right(false),
        "activate" => Change::Active(true),
        "deactivate" => Change::Active(false),
        "sign-out" => Change::SignOut,
        _ => return None,
    })
}

/// What the user has just done, as a sentence with the name of the other user. The address of the page may have been made up, so nothing
/// is said that the row of the other user contradicts.
async fn done(reader: &mut Connection, search: &PeopleSearch) -> Result<Option<String>, StoreError> {
    let PeopleSearch { done: Some(done), kind: Some(kind), code: Some(code), .. } = search else {
        return Ok(None);
    };
    let (Some(change), Some(person)) = (change_of(done), person(kind, code)) else { return Ok(None) };
    let Some(state) = state_of(reader, person).await?.filter(|state| change.agrees(state)) else {
        return Ok(None);
    };
    if let (UserKind::Contact, Change::Right(true)) = (person.kind, change)
        && let Some(customer) = contacts::customer_of(reader, person.code).await?
    {
        return Ok(Some(format!("{} may manage the webhooks of {customer} now.", state.name)));
    }
    Ok(Some(format!("{} {}.", state.name, became(person, change))))
}

/// What became of a user after a change.
const fn became(person: Person<'_>, change: Change) -> &'static str {
    match (person.kind, change) {
        (UserKind::Contact, Change::Right(true)) => "may manage webhooks now",
        (UserKind::Contact, Change::Right(false)) => "may not manage webhooks any more",
        (UserKind::Employee, Change::Right(true)) => "is an administrator from the next sign-in on",
        (UserKind::Employee, Change::Right(false)) => "is not an administrator any more",
        (_, Change::Active(true)) => "can sign in again",
        (_, Change::Active(false)) => "is deactivated; all sessions and tokens end within 5 seconds",
        (_, Change::SignOut) => "is signed out everywhere; all sessions and tokens end within 5 seconds",
    }
}

fn listed<T>(found: Found<T>, after: Option<String>, shown: impl Fn(T) -> PersonView) -> PeopleList {
    let Found { people, next } = found;
    PeopleList { people: people.into_iter().map(shown).collect(), after: after.unwrap_or_default(), next }
}

fn of_employee(employee: ListedEmployee, own: &str) -> PersonView {
    PersonView {
        kind: "employee",
        is_viewer: employee.code == own,
        code: employee.code,
        name: employee.name,
        user_id: employee.user_name,
        customer: None,
        has_right: employee.administrator,
        active: employee.active,
    }
}

fn of_contact(contact: ListedContact) -> PersonView {
    PersonView {
        kind: "contact",
        code: contact.code,
        name: contact.name,
        user_id: contact.email,
        customer: Some((contact.customer_code, contact.customer_name)),
        has_right: contact.manages_webhooks,
        active: contact.active,
        is_viewer: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_of_the_form_is_one_change_of_a_user_of_its_kind() {
        let changes = ["grant", "revoke", "activate", "deactivate", "sign-out"].map(change_of);
        assert_eq!(
            changes,
            [
                Some(Change::Right(true)),
                Some(Change::Right(false)),
                Some(Change::Active(true)),
                Some(Change::Active(false)),
                Some(Change::SignOut),
            ]
        );
        assert_eq!(change_of("remove"), None);
        assert!(person("contact", "1").is_some_and(|person| person.kind == UserKind::Contact));
        assert!(person("employee", "1").is_some_and(|person| person.kind == UserKind::Employee));
        assert!(person("customer", "1").is_none() && person("", "1").is_none());
    }
}
