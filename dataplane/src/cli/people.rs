//! `docket customers`, `docket contacts` and `docket employees`.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Context, Result, anyhow, bail};
use docket_commands::arguments::Output;
use docket_commands::people::{People, PeopleArguments, print};
use docket_commands::text;
use docket_domain::audit::AuditEvent;
use docket_domain::token::UserKind;
use docket_program::clock::Clock;
use docket_program::random;
use docket_store::contacts::{self, Contact};
use docket_store::employees::{self, Employee};
use docket_store::people::{self, Person};
use docket_store::{Connection, StoreError, Transaction, audit, next_number};
use secrecy::SecretString;
use serde_json::{Value, json, to_value};

use super::audit::entry;
use super::tenant::{IfNew, open};
use crate::access::passwords::{self, MAX_PASSWORD_CHARS};
use crate::actions::people::{Change, change as change_person};
use crate::args::{
    ContactCommand, CustomerCommand, EmployeeCommand, NewContact, NewEmployee, OneContact, OneEmployee,
    TenantArguments,
};
use crate::platform::answers::{ContactAnswer, ContactList, EmployeeAnswer, EmployeeList};

/// Characters of a password at least.
const MIN_PASSWORD_CHARS: usize = 8;

/// `docket customers …`
pub async fn customer(command: CustomerCommand) -> Result<()> {
    let CustomerCommand::Add { at, code, name, printed } = command;
    let clock = Clock::System;
    let mut transaction = open(&at, &clock, IfNew::Create).await?.begin(&clock).await?;
    match contacts::insert_customer(&mut transaction, &code, &name, clock.now_ms()).await {
        Err(StoreError::Conflict) => bail!("the tenant has a customer {code} already; choose another --code"),
        other => other?,
    }
    record(&mut transaction, AuditEvent::CustomerAdded, "customer", &code).await?;
    transaction.commit().await?;
    let text = format!("Customer {code} added to tenant {}.", at.tenant);
    text::result(printed.output, &json!({"customerCode": code, "name": name}), &text);
    Ok(())
}

/// `docket contacts …`
pub async fn contact(command: ContactCommand) -> Result<()> {
    let clock = Clock::System;
    let (one, what) = match command {
        ContactCommand::Add(new) => return add_contact(new, &clock).await,
        ContactCommand::List { customer, list, at } => {
            return contacts_listed(&at, customer.as_deref(), list, &clock).await;
        }
        ContactCommand::SetPassword(OneContact { email, printed, at }) => {
            return set_password(&at, NamedUser(UserKind::Contact, &email), printed.output, &clock).await;
        }
        ContactCommand::SignOut(one) => (one, Change::SignOut),
        ContactCommand::Grant(one) => (one, Change::Right(true)),
        ContactCommand::Revoke(one) => (one, Change::Right(false)),
        ContactCommand::Deactivate(one) => (one, Change::Active(false)),
        ContactCommand::Activate(one) => (one, Change::Active(true)),
    };
    change(&one.at, NamedUser(UserKind::Contact, &one.email), what, one.printed.output, &clock).await
}

async fn add_contact(new: NewContact, clock: &Clock) -> Result<()> {
    let NewContact { customer, email, name, code, webhooks: manages_webhooks, printed, at } = new;
    let database = open(&at, clock, IfNew::Create).await?;
    let mut reader = database.reader().await?;
    if !contacts::customer_exists(&mut reader, &customer).await? {
        bail!("the tenant has no customer {customer}; add it first with `docket customers add`");
    }
    drop(reader);
    let password_hash = Some(passwords::hash(&read_password()?, random::bytes()));
    let mut transaction = database.begin(clock).await?;
    let code = match code {
        Some(code) => code,
        None => next_number(&mut transaction, "contact").await?.to_string(),
    };
    let contact = Contact {
        code: code.clone(),
        customer_code: customer.clone(),
        name: name.clone(),
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
    let text = format!(
        "Contact {code} added to customer {customer} of tenant {}; it signs in as {email}.",
        at.tenant
    );
    let added = ContactAnswer {
        contact_code: code,
        customer_code: customer,
        email,
        name,
        manages_webhooks,
        active: true,
    };
    text::result(printed.output, &to_value(added)?, &text);
    Ok(())
}

/// `docket employees …`
pub async fn employee(command: EmployeeCommand) -> Result<()> {
    let clock = Clock::System;
    let (one, what) = match command {
        EmployeeCommand::Add(new) => return add_employee(new, &clock).await,
        EmployeeCommand::List { list, at } => return employees_listed(&at, list, &clock).await,
        EmployeeCommand::SetPassword(OneEmployee { user, printed, at }) => {
            return set_password(&at, NamedUser(UserKind::Employee, &user), printed.output, &clock).await;
        }
        EmployeeCommand::SignOut(one) => (one, Change::SignOut),
        EmployeeCommand::Grant(one) => (one, Change::Right(true)),
        EmployeeCommand::Revoke(one) => (one, Change::Right(false)),
        EmployeeCommand::Deactivate(one) => (one, Change::Active(false)),
        EmployeeCommand::Activate(one) => (one, Change::Active(true)),
    };
    change(&one.at, NamedUser(UserKind::Employee, &one.user), what, one.printed.output, &clock).await
}

async fn add_employee(new: NewEmployee, clock: &Clock) -> Result<()> {
    let NewEmployee { user, name, administrator, printed, at } = new;
    let database = open(&at, clock, IfNew::Create).await?;
    let password_hash = Some(passwords::hash(&read_password()?, random::bytes()));
    let mut transaction = database.begin(clock).await?;
    let code = next_number(&mut transaction, "employee").await?.to_string();
    let employee = Employee {
        code: code.clone(),
        name: name.clone(),
        password_hash,
        administrator,
        active: true,
        sign_outs: 0,
    };
    match employees::insert(&mut transaction, &employee, &user, clock.now_ms()).await {
        Err(StoreError::Conflict) => {
            bail!("the tenant has an employee with this check-in name already; choose another --user")
        }
        other => other?,
    }
    record(&mut transaction, AuditEvent::EmployeeAdded, "employee", &code).await?;
    transaction.commit().await?;
    let text = format!("Employee {code} added to tenant {}; signs in as {user}.", at.tenant);
    let added = EmployeeAnswer { employee_code: code, user, name, administrator, active: true };
    text::result(printed.output, &to_value(added)?, &text);
    Ok(())
}

/// A user, by kind and by what signs in.
#[derive(Clone, Copy)]
struct NamedUser<'a>(UserKind, &'a str);

impl NamedUser<'_> {
    fn unknown(self) -> anyhow::Error {
        anyhow!("the tenant has no {} that signs in as {}", self.0, self.1)
    }

    /// The user's code.
    async fn code(self, connection: &mut Connection) -> Result<String> {
        people::code_of(connection, self.0, self.1).await?.ok_or_else(|| self.unknown())
    }

    /// What was done to the user, for programs: the user's code, and the event of the audit.
    fn object(self, code: &str, event: AuditEvent) -> Value {
        let field = match self.0 {
            UserKind::Contact => "contactCode",
            UserKind::Employee => "employeeCode",
        };
        json!({ field: code, "event": event.as_str() })
    }

    /// The sentence that a command prints about the user. `what`: what was done.
    fn sentence(self, code: &str, tenant: &str, what: &str) -> String {
        let noun = match self.0 {
            UserKind::Contact => "Contact",
            UserKind::Employee => "Employee",
        };
        format!("{noun} {code} of tenant {tenant} {what}.")
    }

    /// What a change means for the user.
    const fn changed(self, change: Change) -> &'static str {
        match (self.0, change) {
            (_, Change::SignOut) => "is signed out: its tokens end within 5 s",
            (UserKind::Contact, Change::Right(true)) => "manages the webhooks of its customer",
            (UserKind::Contact, Change::Right(false)) => "manages no webhooks any more",
            (UserKind::Employee, Change::Right(true)) => "is an administrator",
            (UserKind::Employee, Change::Right(false)) => "is no administrator any more",
            (_, Change::Active(true)) => "is active: it can sign in",
            (_, Change::Active(false)) => "is deactivated: its tokens end within 5 s",
        }
    }
}

async fn set_password(
    at: &TenantArguments,
    user: NamedUser<'_>,
    output: Output,
    clock: &Clock,
) -> Result<()> {
    let database = open(at, clock, IfNew::Refuse).await?;
    // No one types a password in vain.
    user.code(&mut database.reader().await?).await?;
    let password_hash = passwords::hash(&read_password()?, random::bytes());
    let mut transaction = database.begin(clock).await?;
    let code = people::set_password(&mut transaction, user.0, user.1, &password_hash).await?;
    let code = code.ok_or_else(|| user.unknown())?;
    let event = AuditEvent::PasswordChanged;
    record(&mut transaction, event, user.0.as_str(), &code).await?;
    transaction.commit().await?;
    let what = "has another password: its tokens end within 5 s";
    text::result(output, &user.object(&code, event), &user.sentence(&code, &at.tenant, what));
    Ok(())
}

async fn change(
    at: &TenantArguments,
    user: NamedUser<'_>,
    change: Change,
    output: Output,
    clock: &Clock,
) -> Result<()> {
    let mut transaction = open(at, clock, IfNew::Refuse).await?.begin(clock).await?;
    let code = user.code(&mut transaction).await?;
    let person = Person { kind: user.0, code: &code };
    change_person(&mut transaction, person, change, None).await?;
    record(&mut transaction, change.event(), user.0.as_str(), &code).await?;
    transaction.commit().await?;
    let text = user.sentence(&code, &at.tenant, user.changed(change));
    text::result(output, &user.object(&code, change.event()), &text);
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
