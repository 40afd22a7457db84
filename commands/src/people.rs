//! The contacts and the employees of a tenant, as lists.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::arguments::{Output, OutputArguments};
use crate::fields::{cell, say_more};
use crate::text::{json, table};

/// How a list of people is printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct PeopleArguments {
    /// Maximum number of rows, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..=1000))]
    pub limit: i64,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
}

/// A kind of users of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum People {
    /// The users of its customers.
    Contacts,
    /// Its own users.
    Employees,
}

impl People {
    /// The word of the command, which is also the field of the answer.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Contacts => "contacts",
            Self::Employees => "employees",
        }
    }

    /// The columns: each head with its field.
    const fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Contacts => &[
                ("E-MAIL", "email"),
                ("NAME", "name"),
                ("CODE", "contactCode"),
                ("CUSTOMER", "customerCode"),
                ("WEBHOOKS", "managesWebhooks"),
                ("ACTIVE", "active"),
            ],
            Self::Employees => &[
                ("USER", "user"),
                ("NAME", "name"),
                ("CODE", "employeeCode"),
                ("ADMINISTRATOR", "administrator"),
                ("ACTIVE", "active"),
            ],
        }
    }
}

/// Prints the people of an answer.
pub fn print(people: People, answer: &Value, output: Output) {
    match output {
        Output::Json => json(answer),
        Output::Table | Output::Wide => {
            print!("{}", shown(people, answer));
            say_more(answer);
        }
    }
}

fn shown(people: People, answer: &Value) -> String {
    let listed = answer[people.as_str()].as_array().map_or(&[][..], Vec::as_slice);
    let head: Vec<String> = people.columns().iter().map(|(head, _)| (*head).to_owned()).collect();
    let text = |person: &Value, field: &str| match &person[field] {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        _ => cell(person, field),
    };
    let row = |person: &Value| -> Vec<String> {
        people.columns().iter().map(|(_, field)| text(person, field)).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(listed.iter().map(row)).collect();
    table("", &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_are_rows_that_move_no_cursor() {
        let contact = json!({"contactCode": "7", "customerCode": "C-1", "email": "ada@one.example", "name": "A\u{1b}da",
            "managesWebhooks": true, "active": false});
        assert_eq!(
            shown(People::Contacts, &json!({"contacts": [contact], "more": false})),
            "E-MAIL           NAME  CODE  CUSTOMER  WEBHOOKS  ACTIVE\n\
             ada@one.example  A da  7     C-1       yes       no\n"
        );
        let employee = json!({"employeeCode": "52", "user": "nora", "name": "Nora", "administrator": false, "active": true});
        assert_eq!(
            shown(People::Employees, &json!({"employees": [employee], "more": false})),
            "USER  NAME  CODE  ADMINISTRATOR  ACTIVE\nnora  Nora  52    no             yes\n"
        );
    }
}
