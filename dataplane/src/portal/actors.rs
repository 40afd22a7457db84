//! The names of the people in rows.

use std::collections::BTreeSet;

use docket_domain::audit::Actor;
use docket_domain::token::UserKind;
use docket_portal::actors::Actors;
use docket_store::{Connection, StoreError, people};

/// Reads the names of the people among these actors, which rows show as texts such as `employee 52`. Contacts and employees take one
/// statement each for 25 people.
pub(super) async fn named(reader: &mut Connection, actors: &[&str]) -> Result<Actors, StoreError> {
    let (mut of_contacts, mut of_employees) = (BTreeSet::new(), BTreeSet::new());
    for actor in actors {
        match Actor::person(actor) {
            Some(Actor::Contact(code)) => {
                of_contacts.insert(code);
            }
            Some(Actor::Employee(code)) => {
                of_employees.insert(code);
            }
            _ => {}
        }
    }
    let contacts = people::names(reader, UserKind::Contact, &Vec::from_iter(of_contacts)).await?;
    let employees = people::names(reader, UserKind::Employee, &Vec::from_iter(of_employees)).await?;
    let contacts = contacts.into_iter().map(|(code, name)| (Actor::Contact(code).to_string(), name));
    let employees = employees.into_iter().map(|(code, name)| (Actor::Employee(code).to_string(), name));
    Ok(contacts.chain(employees).filter(|(_, name)| !name.trim().is_empty()).collect())
}
