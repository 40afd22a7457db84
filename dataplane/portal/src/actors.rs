//! People in rows: their names instead of their codes.

use std::collections::HashMap;

use maud::{Markup, html};

/// The names of the people on a page, by the text that names each in a row, such as `employee 52`.
#[derive(Debug, Clone, Default)]
pub struct Actors(HashMap<String, String>);

impl FromIterator<(String, String)> for Actors {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

impl Actors {
    /// The name of a person. A text that names no person of the tenant, such as `cluster user ops`, is returned as it is.
    pub fn name<'a>(&'a self, actor: &'a str) -> &'a str {
        self.0.get(actor).map_or(actor, String::as_str)
    }

    /// The name of a person, with the code as its title. Users of the cluster and of the command line keep their text.
    pub(crate) fn shown(&self, actor: &str) -> Markup {
        let title = self.0.contains_key(actor).then_some(actor);
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
}
