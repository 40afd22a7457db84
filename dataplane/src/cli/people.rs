//! `docket customers`, `docket contacts` and `docket employees`.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Context, Result, anyhow, bail};
use docket_commands::people::{People, PeopleArguments, print};
use docket_domain::audit::AuditEvent;
use docket_program::clock::Clock;
use docket_program::random;
use docket_store::contacts::{self, Contact};
use docket_store::employees::{self, Employee};
use docket_store::{Connection, StoreError, Transaction, audit, next_number};
use secrecy::SecretString;
use serde_json::to_value;

use super::audit::entry;
use super::tenant::{IfNew, open};
use crate::access::passwords::{self, MAX_PASSWORD_CHARS};
use crate::actions::people::{self, Change, Person};
use crate::args::{ContactCommand, CustomerCommand, EmployeeCommand, TenantArguments};
use crate::platform::answers::{ContactList, EmployeeList};

/// Characters of a password at least.
const MIN_PASSWORD_CHARS: usize = 8;

/// `docket customers …`
pub async fn customer(command: CustomerCommand) -> Result<()> {
    let CustomerCommand::Add { at, code, name } = command;
    let clock = Clock::System;
    let mut transaction = open(&at, &clock, IfNew::Create).await?.begin(&clock).await?;
    match contacts::insert_customer(&mut transaction, &code, &name, clock.now_ms()).await {
        Err(StoreError::Conflict) => bail!("the tenant has a customer {code} already; choose another --code"),
        other => other?,
    }
    record(&mut transaction, AuditEvent::CustomerAdded, "customer", &code).await?;
    transaction.commit().await?;
    println!("Customer {code} added to tenant {}.", at.tenant);
    Ok(())
}

/// `docket contacts …`
pub async fn contact(command: ContactCommand) -> Result<()> {
    let clock = Clock::System;
    let (at, customer, email, name, code, manages_webhooks) = match command {
        ContactCommand::Add { at, customer, email, name, code, webhooks } => {
            (at, customer, email, name, code, webhooks)
        }
        ContactCommand::SetPassword { at, email } => {
            return set_password(&at, NamedUser::Contact(&email), &clock).await;
        }
        ContactCommand::SignOut { at, email } => {
            return change(&at, NamedUser::Contact(&email), Change::SignOut, &clock).await;
        }
        ContactCommand::List { customer, list, at } => {
            return contacts_listed(&at, customer.as_deref(), list, &clock).await;
        }
        ContactCommand::Grant { email, at } => {
            return change(&at, NamedUser::Contact(&email), Change::Right(true), &clock).await;
        }
        ContactCommand::Revoke { email, at } => {
            return change(&at, NamedUser::Contact(&email), Change::Right(false), &clock).await;
        }
        ContactCommand::Deactivate { email, at } => {
            return change(&at, NamedUser::Contact(&email), Change::Active(false), &clock).await;
        }
        ContactCommand::Activate { email, at } => {
            return change(&at, NamedUser::Contact(&email), Change::Active(true), &clock).await;
        }
    };
    let database = open(&at, &clock, IfNew::Create).await?;
    let mut reader = database.reader().await?;
    if !contacts::customer_exists(&mut reader, &customer).await? {
        bail!("the tenant has no customer {customer}; add it first with `docket customers add`");
    }
    drop(reader);
    let password_hash = Some(passwords::hash(&read_password()?, random::bytes()));
    let mut transaction = database.begin(&clock).await?;
    let code = match code {
        Some(code) => code,
        None => next_number(&mut transaction, "contact").await?.to_string(),
    };
    let contact = Contact {
        code: code.clone(),
        customer_code: customer.clone(),
        name,
        password_hash,
        active: true,
        sign_outs: 0,
        manages_webhooks,
    };
    match contacts::insert_contact(&mut transaction, &contact, &email, clock.now_ms()).await {
        Err(StoreError::Conflict) => {
            bail!(
                "the tenant has a contact with this e-mail address or code already; choose another --email or --code"
            )
        }
        other => other?,
    }
    record(&mut transaction, AuditEvent::ContactAdded, "contact", &code).await?;
    transaction.commit().await?;
    println!("Contact {code} added to customer {customer} of tenant {}; it signs in as {email}.", at.tenant);
    Ok(())
}

/// `docket employees …`
pub async fn employee(command: EmployeeCommand) -> Result<()> {
    let clock = Clock::System;
    let (at, user, name, administrator) = match command {
        EmployeeCommand::Add { at, user, name, administrator } => (at, user, name, administrator),
        EmployeeCommand::SetPassword { at, user } => {
            return set_password(&at, NamedUser::Employee(&user), &clock).await;
        }
        EmployeeCommand::SignOut { at, user } => {
            return change(&at, NamedUser::Employee(&user), Change::SignOut, &clock).await;
        }
        EmployeeCommand::List { list, at } => return employees_listed(&at, list, &clock).await,
        EmployeeCommand::Grant { user, at } => {
            return change(&at, NamedUser::Employee(&user), Change::Right(true), &clock).await;
        }
        EmployeeCommand::Revoke { user, at } => {
            return change(&at, NamedUser::Employee(&user), Change::Right(false), &clock).await;
        }
        EmployeeCommand::Deactivate { user, at } => {
            return change(&at, NamedUser::Employee(&user), Change::Active(false), &clock).await;
        }
        EmployeeCommand::Activate { user, at } => {
            return change(&at, NamedUser::Employee(&user), Change::Active(true), &clock).await;
        }
    };
    let database = open(&at, &clock, IfNew::Create).await?;
    let password_hash = Some(passwords::hash(&read_password()?, random::bytes()));
    let mut transaction = database.begin(&clock).await?;
    let code = next_number(&mut transaction, "employee").await?.to_string();
    let employee =
        Employee { code: code.clone(), name, password_hash, administrator, active: true, sign_outs: 0 };
    match employees::insert(&mut transaction, &employee, &user, clock.now_ms()).await {
        Err(StoreError::Conflict) => {
            bail!("the tenant has an employee with this check-in name already; choose another --user")
        }
        other => other?,
    }
    record(&mut transaction, AuditEvent::EmployeeAdded, "employee", &code).await?;
    transaction.commit().await?;
    println!("Employee {code} added to tenant {}; signs in as {user}.", at.tenant);
    Ok(())
}

/// A user, by what signs in.
#[derive(Clone, Copy)]
enum NamedUser<'a> {
    Contact(&'a str),
    Employee(&'a str),
}

impl NamedUser<'_> {
    const fn noun(self) -> &'static str {
        match self {
            Self::Contact(_) => "contact",
            Self::Employee(_) => "employee",
        }
    }

    fn unknown(self) -> anyhow::Error {
        let (Self::Contact(name) | Self::Employee(name)) = self;
        anyhow!("the tenant has no {} that signs in as {name}", self.noun())
    }

    /// The user's code.
    async fn code(self, connection: &mut Connection) -> Result<String> {
        let code = match self {
            Self::Contact(email) => contacts::code_of(connection, email).await?,
            Self::Employee(user) => employees::code_of(connection, user).await?,
        };
        code.ok_or_else(|| self.unknown())
    }

    /// The user, by code.
    const fn person(self, code: &str) -> Person<'_> {
        match self {
            Self::Contact(_) => Person::Contact(code),
            Self::Employee(_) => Person::Employee(code),
        }
    }

    /// Returns the user's code.
    async fn set_password(
        self,
        transaction: &mut Transaction,
        hash: &str,
    ) -> Result<Option<String>, StoreError> {
        match self {
            Self::Contact(email) => contacts::set_password(transaction, email, hash).await,
            Self::Employee(user) => employees::set_password(transaction, user, hash).await,
        }
    }

    /// What a change means for the user.
    const fn changed(self, change: Change) -> &'static str {
        match (self, change) {
            (_, Change::SignOut) => "is signed out: its tokens end within 5 s",
            (Self::Contact(_), Change::Right(true)) => "manages the webhooks of its customer",
            (Self::Contact(_), Change::Right(false)) => "manages no webhooks any more",
            (Self::Employee(_), Change::Right(true)) => "is an administrator",
            (Self::Employee(_), Change::Right(false)) => "is no administrator any more",
            (_, Change::Active(true)) => "is active: it can sign in",
            (_, Change::Active(false)) => "is deactivated: its tokens end within 5 s",
        }
    }
}

async fn set_password(at: &TenantArguments, user: NamedUser<'_>, clock: &Clock) -> Result<()> {
    let database = open(at, clock, IfNew::Refuse).await?;
    // No one types a password in vain.
    user.code(&mut database.reader().await?).await?;
    let password_hash = passwords::hash(&read_password()?, random::bytes());
    let mut transaction = database.begin(clock).await?;
    let code = user.set_password(&mut transaction, &password_hash).await?.ok_or_else(|| user.unknown())?;
    record(&mut transaction, AuditEvent::PasswordChanged, user.noun(), &code).await?;
    transaction.commit().await?;
    let noun = capitalized(user.noun());
    println!("{noun} {code} of tenant {} has another password: its tokens end within 5 s.", at.tenant);
    Ok(())
}

async fn change(at: &TenantArguments, user: NamedUser<'_>, change: Change, clock: &Clock) -> Result<()> {
    let mut transaction = open(at, clock, IfNew::Refuse).await?.begin(clock).await?;
    let code = user.code(&mut transaction).await?;
    people::change(&mut transaction, user.person(&code), change, None).await?;
    record(&mut transaction, change.event(), user.noun(), &code).await?;
    transaction.commit().await?;
    let noun = capitalized(user.noun());
    println!("{noun} {code} of tenant {} {}.", at.tenant, user.changed(change));
    Ok(())
}

async fn contacts_listed(
    at: &TenantArguments,
    customer: Option<&str>,
    PeopleArguments { limit, printed }: PeopleArguments,
    clock: &Clock,
) -> Result<()> {
    let mut reader = open(at, clock, IfNew::Refuse).await?.reader().await?;
    let found = contacts::list(&mut reader, customer, None, limit + 1).await?;
    print(People::Contacts, &to_value(ContactList::new(found, limit))?, printed.output);
    Ok(())
}

async fn employees_listed(
    at: &TenantArguments,
    PeopleArguments { limit, printed }: PeopleArguments,
    clock: &Clock,
) -> Result<()> {
    let mut reader = open(at, clock, IfNew::Refuse).await?.reader().await?;
    let found = employees::list(&mut reader, None, limit + 1).await?;
    print(People::Employees, &to_value(EmployeeList::new(found, limit))?, printed.output);
    Ok(())
}

fn capitalized(noun: &str) -> String {
    let (first, rest) = noun.split_at(1);
    first.to_uppercase() + rest
}

/// Adds what was done to a customer or a user to the audit.
async fn record(
    transaction: &mut Transaction,
    event: AuditEvent,
    kind: &str,
    code: &str,
) -> Result<(), StoreError> {
    let entry = entry(event, transaction.now_ms()).about(kind, code);
    audit::insert(transaction, &[entry]).await
}

/// One line of standard input: never an argument, which every user of the machine could read.
fn read_password() -> Result<SecretString> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprint!("Password (shown as you type; or pipe it in): ");
        std::io::stderr().flush()?;
    }
    let mut line = String::new();
    stdin.lock().read_line(&mut line).context("the password is one line of UTF-8 text on standard input")?;
    let password = line.strip_suffix('\n').unwrap_or(&line);
    let password = password.strip_suffix('\r').unwrap_or(password);
    let most = MAX_PASSWORD_CHARS;
    let count = password.chars().count();
    if !(MIN_PASSWORD_CHARS..=most).contains(&count) || password.chars().any(char::is_control) {
        bail!("the password must have {MIN_PASSWORD_CHARS} to {most} characters and no control characters");
    }
    Ok(SecretString::from(password))
}
