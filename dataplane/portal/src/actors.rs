//! People in rows: their names instead of their codes.

use std::collections::HashMap;

use docket_domain::audit::Actor;
use maud::{Markup, html};

/// The names of the people on a page, by the text that names each in a row, such as `employee 52`.
#[derive(Debug, Clone, Default)]
pub struct Actors {
    names: HashMap<String, String>,
    /// What stands in place of each employee; `None`: the name.
    employee: Option<String>,
}

impl FromIterator<(String, String)> for Actors {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(names: I) -> Self {
        Self { names: names.into_iter().collect(), employee: None }
    }
}

impl Actors {
    /// For a contact, which does not learn which employee of the tenant it was.
    #[must_use]
    pub fn for_contact(self, tenant: &str) -> Self {
        Self { employee: Some(format!("an employee of {tenant}")), ..self }
    }

    /// What stands in place of this actor, if it is an employee whom the user does not know.
    fn withheld(&self, actor: &str) -> Option<&str> {
        self.employee.as_deref().filter(|_| matches!(Actor::person(actor), Some(Actor::Employee(_))))
    }

    /// The name of a person. A text that names no person of the tenant, such as `cluster user ops`, is returned as it is.
    pub fn name<'a>(&'a self, actor: &'a str) -> &'a str {
        self.withheld(actor).unwrap_or_else(|| self.names.get(actor).map_or(actor, String::as_str))
    }

    /// The name of a person, with the code as its title. Users of the cluster and of the command line keep their text.
    pub(crate) fn shown(&self, actor: &str) -> Markup {
        let title = Some(actor).filter(|_| self.names.contains_key(actor) && self.withheld(actor).is_none());
        html! { span title=[title] { (self.name(actor)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn person_has_a_name_and_the_code_beside_it() {
        let people = Actors::from_iter([("employee 52".to_owned(), "Nora <b>".to_owned())]);
        let shown = people.shown("employee 52").into_string();
        assert_eq!(shown, "<span title=\"employee 52\">Nora &lt;b&gt;</span>");
        let others = ["employee 53", "cluster user ops", "command line (uid 0)"];
        assert_eq!(others.map(|other| people.name(other)), others);
        assert_eq!(people.shown("employee 53").into_string(), "<span>employee 53</span>");
    }

    #[test]
    fn contact_learns_no_employee() {
        let names = [("employee 52", "Nora"), ("contact 11", "Ada")];
        let people = names.map(|(actor, name)| (actor.to_owned(), name.to_owned()));
        let people = Actors::from_iter(people).for_contact("Acme & Co");
        for employee in ["employee 52", "employee 53"] {
            assert_eq!(
                people.shown(employee).into_string(),
                "<span>an employee of Acme &amp; Co</span>",
                "{employee}"
            );
        }
        assert_eq!(people.shown("contact 11").into_string(), "<span title=\"contact 11\">Ada</span>");
    }
}
