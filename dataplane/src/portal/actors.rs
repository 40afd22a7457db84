//! The names of the people in rows.

use std::collections::BTreeSet;

use docket_domain::audit::Actor;
use docket_portal::actors::Actors;
use docket_store::{Connection, StoreError, contacts, employees};

use super::session::{Viewer, name_of};

/// Reads the names of the people among these actors, which rows show as texts such as `employee 52`. Contacts and employees take one
/// statement each for 25 people. A viewer who is a contact learns the names of contacts alone.
pub(super) async fn named(
    reader: &mut Connection,
    viewer: &Viewer,
    actors: &[&str],
) -> Result<Actors, StoreError> {
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
    let contacts = contacts::names(reader, &Vec::from_iter(of_contacts)).await?;
    let is_contact = viewer.caller.customer.is_some();
    if is_contact {
        of_employees.clear();
    }
    let employees = employees::names(reader, &Vec::from_iter(of_employees)).await?;
    let contacts = contacts.into_iter().map(|(code, name)| (Actor::Contact(code).to_string(), name));
    let employees = employees.into_iter().map(|(code, name)| (Actor::Employee(code).to_string(), name));
    let named = contacts.chain(employees).filter(|(_, name)| !name.trim().is_empty());
    let named: Actors = named.collect();
    Ok(if is_contact { named.for_contact(&name_of(&viewer.caller.tenant)) } else { named })
}
