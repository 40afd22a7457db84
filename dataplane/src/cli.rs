//! The commands beside the servers: people and deliveries of a tenant, also while `docket dev` runs on the same data.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use docket_domain::delivery::{DeliveryId, FailureClass, Status};
use docket_folder::{Folder, Loaded};
use docket_receiver::{Behaviour, Certificate, Receiver, Settings};
use jiff::Timestamp;
use secrecy::SecretString;

use crate::args::{
    ContactCommand, CustomerCommand, DeliveriesCommand, EmployeeCommand, ListenArguments, SourceArguments,
    TenantArguments,
};
use crate::clock::Clock;
use crate::passwords::{self, MAX_PASSWORD_CHARS};
use crate::random;
use crate::store::contacts::{self, Contact};
use crate::store::deliveries::{self, DeliveryFilter, Listed, NewDelivery, StoredAttempt};
use crate::store::employees::{self, Employee};
use crate::store::sqlite::Sqlite;
use crate::store::{Database, StoreError, next_number};
use crate::tenants::stores::file_of;
use crate::{dev, shutdown};

/// Characters of a password at least.
const MIN_PASSWORD_CHARS: usize = 8;

/// What a command wants of a tenant that has no data yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfNew {
    /// Begin with it, if it is declared: people are added before the first start, too.
    Begin,
    /// Nothing can be in it.
    Refuse,
}

/// A tenant's database. The data folder knows it by its client code; what is declared matters only for one that has no
/// data yet, so that a mistake in the YAML keeps nobody from the data.
async fn open(at: &TenantArguments, clock: &Clock, if_new: IfNew) -> Result<Database> {
    let data_dir = &at.source.data_dir;
    let file = match existing_file(data_dir, &at.tenant) {
        Some(file) => file,
        None => new_file(at, if_new)?,
    };
    let database = Database::Sqlite(Sqlite::new(file.clone()));
    let migrated = database.migrate(clock.now_ms()).await;
    migrated.with_context(|| format!("the database {} can't be opened", file.display()))?;
    Ok(database)
}

/// The database of the tenant with this client code, in any case.
fn existing_file(data_dir: &Path, client_code: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(data_dir.join("tenants")).ok()?;
    let mut codes = folders.filter_map(|folder| folder.ok()?.file_name().into_string().ok());
    let code = codes.find(|code| code.eq_ignore_ascii_case(client_code))?;
    Some(file_of(data_dir, &code)).filter(|file| file.exists())
}

fn declared(source: &SourceArguments) -> Result<Loaded> {
    Folder::new(source.config_dir.clone(), source.data_dir.clone()).load(&mut random::fill)
}

fn new_file(at: &TenantArguments, if_new: IfNew) -> Result<PathBuf> {
    let SourceArguments { config_dir, data_dir } = &at.source;
    let shown = data_dir.display();
    if if_new == IfNew::Refuse {
        bail!("there is no data of a tenant {} in {shown}; is this the --data-dir of docket dev?", at.tenant);
    }
    let loaded = declared(&at.source)?;
    let Some(served) = loaded.tenant(&at.tenant) else {
        for problem in &loaded.problems {
            eprintln!("{problem}");
        }
        let codes: Vec<&str> =
            loaded.tenants.iter().map(|served| served.config.client_code.as_str()).collect();
        let (tenant, folder) = (&at.tenant, config_dir.display());
        bail!("no tenant with clientCode {tenant} in {folder}; there are: {}", codes.join(", "));
    };
    eprintln!("Tenant {} has no data in {shown} yet; it begins now.", served.config.client_code);
    Ok(file_of(data_dir, served.config.client_code.as_str()))
}

/// `docket customer …`
pub async fn customer(command: CustomerCommand) -> Result<()> {
    let CustomerCommand::Add { at, code, name } = command;
    let clock = Clock::System;
    let mut transaction = open(&at, &clock, IfNew::Begin).await?.begin().await?;
    match contacts::insert_customer(&mut transaction, &code, &name, clock.now_ms()).await {
        Err(StoreError::Conflict) => bail!("the tenant has a customer {code} already; choose another --code"),
        other => other?,
    }
    transaction.commit().await?;
    println!("Customer {code} added to tenant {}.", at.tenant);
    Ok(())
}

/// `docket contact …`
pub async fn contact(command: ContactCommand) -> Result<()> {
    let ContactCommand::Add { at, customer, email, name, code } = command;
    let clock = Clock::System;
    let database = open(&at, &clock, IfNew::Begin).await?;
    let mut reader = database.reader().await?;
    if !contacts::customer_exists(&mut reader, &customer).await? {
        bail!("the tenant has no customer {customer}; add it first with `docket customer add`");
    }
    drop(reader);
    let password_hash = Some(passwords::hash(&read_password()?, random::bytes()));
    let mut transaction = database.begin().await?;
    let code = match code {
        Some(code) => code,
        None => next_number(&mut transaction, "contact").await?.to_string(),
    };
    let contact =
        Contact { code: code.clone(), customer_code: customer.clone(), name, password_hash, active: true };
    match contacts::insert_contact(&mut transaction, &contact, &email, clock.now_ms()).await {
        Err(StoreError::Conflict) => {
            bail!(
                "the tenant has a contact with this e-mail address or code already; choose another --email or --code"
            )
        }
        other => other?,
    }
    transaction.commit().await?;
    println!("Contact {code} added to customer {customer} of tenant {}; it signs in as {email}.", at.tenant);
    Ok(())
}

/// `docket employee …`
pub async fn employee(command: EmployeeCommand) -> Result<()> {
    let EmployeeCommand::Add { at, user, name, administrator } = command;
    let clock = Clock::System;
    let database = open(&at, &clock, IfNew::Begin).await?;
    let password_hash = Some(passwords::hash(&read_password()?, random::bytes()));
    let mut transaction = database.begin().await?;
    let code = next_number(&mut transaction, "employee").await?.to_string();
    let employee = Employee { code: code.clone(), name, password_hash, administrator, active: true };
    match employees::insert(&mut transaction, &employee, &user, clock.now_ms()).await {
        Err(StoreError::Conflict) => {
            bail!("the tenant has an employee with this check-in name already; choose another --user")
        }
        other => other?,
    }
    transaction.commit().await?;
    println!("Employee {code} added to tenant {}; signs in as {user}.", at.tenant);
    Ok(())
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

/// `docket deliveries …`
pub async fn deliveries(command: DeliveriesCommand) -> Result<()> {
    let clock = Clock::System;
    match command {
        DeliveriesCommand::List { at, status, about, limit } => {
            let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
            let listed = deliveries::search(
                &mut reader,
                &DeliveryFilter { status, about, ..DeliveryFilter::default() },
                limit,
            )
            .await?;
            print!("{}", table(&listed));
        }
        DeliveriesCommand::Show { at, id } => {
            let mut reader = open(&at, &clock, IfNew::Refuse).await?.reader().await?;
            let listed = deliveries::find(&mut reader, id).await?.with_context(|| no_such(id))?;
            let attempts = deliveries::attempts(&mut reader, id).await?;
            print!("{}", details(&listed, &attempts));
        }
        DeliveriesCommand::Resend { at, id } => {
            let database = open(&at, &clock, IfNew::Refuse).await?;
            let new = resend(&at, &database, &clock, id).await?;
            dev::serving::wake(&at.source.data_dir)?;
            println!("Delivery {new} queued; a running `docket dev` sends it now.");
        }
    }
    Ok(())
}

fn no_such(id: DeliveryId) -> String {
    format!("the tenant has no delivery {id}")
}

/// A resend is a new delivery of the same event: own id, no attempts yet.
async fn resend(
    at: &TenantArguments,
    database: &Database,
    clock: &Clock,
    id: DeliveryId,
) -> Result<DeliveryId> {
    // A final status stays, and files are read before anybody is kept from writing.
    let listed = deliveries::find(&mut database.reader().await?, id).await?.with_context(|| no_such(id))?;
    if !listed.status.is_final() {
        bail!("delivery {id} is {}; it is still being tried, so there is nothing to resend", listed.status);
    }
    check_webhook(at, &listed)?;
    let now = clock.now();
    let new = NewDelivery {
        id: DeliveryId::new(now, random::bytes()),
        event_id: listed.event_id,
        webhook: listed.webhook,
        webhook_name: listed.webhook_name,
        idempotency_key: None,
        resend_of: Some(listed.id),
        requested_by: Some("command line".to_owned()),
        resend_id: None,
        due_at_ms: None,
    };
    let mut transaction = database.begin().await?;
    deliveries::insert(&mut transaction, &new, now.as_millisecond()).await?;
    transaction.commit().await?;
    Ok(new.id)
}

/// An inactive webhook receives no new deliveries (Webhook endpoint configuration), and a resend is one.
fn check_webhook(at: &TenantArguments, listed: &Listed) -> Result<()> {
    let loaded = declared(&at.source)?;
    let webhooks = loaded.tenant(&at.tenant).map_or(&[][..], |served| &served.config.webhooks);
    let name = &listed.webhook_name;
    match webhooks.iter().find(|webhook| webhook.uid == listed.webhook) {
        Some(webhook) if !webhook.active => {
            bail!("webhook {name} is inactive; set active: true to send to it again")
        }
        Some(_) => Ok(()),
        // What can't be read right now is no reason: the running `docket dev` may serve its last good version.
        None if !loaded.problems.is_empty() => Ok(()),
        None => bail!("webhook {name} is not declared in {} any more", at.source.config_dir.display()),
    }
}

fn table(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "No deliveries.\n".to_owned();
    }
    let mut rows = vec![
        ["DELIVERY", "CREATED", "EVENT", "ABOUT", "WEBHOOK", "STATUS", "ATTEMPTS", "LAST"].map(str::to_owned),
    ];
    rows.extend(listed.iter().map(|delivery| {
        [
            delivery.id.clone(),
            time(delivery.created_at_ms),
            delivery.event_code.to_string(),
            delivery.about.shown().to_owned(),
            delivery.webhook_name.clone(),
            delivery.status.to_string(),
            format!("{}/5", delivery.attempt_count),
            last(delivery.failure_class, delivery.http_status),
        ]
    }));
    let widths: Vec<usize> =
        (0..8).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            format!("{}\n", cells.join("  ").trim_end())
        })
        .collect()
}

fn details(listed: &Listed, attempts: &[StoredAttempt]) -> String {
    let mut out = format!(
        "Delivery {}\n  event     {} {} about {}\n  webhook   {} (customer {})\n  status    {} after {} of 5 attempts\n  created   {}\n",
        listed.id,
        listed.event_code,
        listed.event_id,
        listed.about.shown(),
        listed.webhook_name,
        listed.customer_code,
        listed.status,
        listed.attempt_count,
        time(listed.created_at_ms),
    );
    if !listed.status.is_final() {
        out.push_str(&format!("  next      {}\n", time(listed.due_at_ms)));
    }
    if let Some(original) = &listed.resend_of {
        out.push_str(&format!("  resend of {original}\n"));
    }
    for attempt in attempts {
        let took = attempt.total_us.map_or("–".to_owned(), |micros| format!("{} ms", micros / 1000));
        let phases: Vec<String> = [
            ("dns", attempt.dns_us),
            ("connect", attempt.connect_us),
            ("tls", attempt.tls_us),
            ("first byte", attempt.first_byte_us),
        ]
        .into_iter()
        .filter_map(|(phase, micros)| Some(format!("{phase} {:.1} ms", micros? as f64 / 1000.0)))
        .collect();
        let end = match attempt.finished_at_ms {
            None => "under way".to_owned(),
            Some(_) => last(attempt.failure_class, attempt.http_status),
        };
        out.push_str(&format!(
            "  attempt {}  {}  {end}  {took}  {}  {}\n",
            attempt.number,
            time(attempt.started_at_ms),
            attempt.remote_address.as_deref().unwrap_or(""),
            phases.join(" · "),
        ));
    }
    if let Some(class) = listed.failure_class.filter(|_| listed.status != Status::Succeeded) {
        out.push_str(&format!("  what to do: {}\n", class.remedy()));
    }
    out
}

fn last(class: Option<FailureClass>, http_status: Option<i64>) -> String {
    let words: Vec<String> = class
        .map(|class| class.to_string())
        .into_iter()
        .chain(http_status.map(|status| status.to_string()))
        .collect();
    words.join(" ")
}

fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms)
        .map_or("?".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// `docket listen`: a receiver for whoever writes one.
pub async fn listen(arguments: ListenArguments) -> Result<()> {
    let clock = Clock::System;
    let secret = match &arguments.secret_file {
        Some(path) => {
            let bytes = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
            if bytes.is_empty() {
                bail!("{} is empty; a secret has at least one byte", path.display());
            }
            vec![bytes]
        }
        None => Vec::new(),
    };
    let certificate = Certificate::load_or_generate(&arguments.certificate_dir, clock.now().as_second())?;
    let signed = !secret.is_empty();
    let settings = Settings {
        listen: arguments.listen,
        certificate,
        secrets: Arc::new(move |_| secret.clone()),
        behaviour: Behaviour { fail: arguments.fail, delay: arguments.delay },
    };
    let printer_clock = clock.clone();
    let receiver = Receiver::start(settings, move |received| {
        let at = printer_clock.now().strftime("%H:%M:%S").to_string();
        println!("{}", docket_receiver::line(received, &at));
    })
    .await
    .context("the receiver can't start; choose another address with --listen")?;
    let address = receiver.address();
    let ca = arguments.certificate_dir.join("receiver-ca.pem");
    println!(
        "Listening on https://{address}/ for webhooks; {}.",
        match signed {
            true => "signatures are verified",
            false => "no --secret-file, so signatures are not verified",
        }
    );
    println!(
        "A Webhook sends here with this in its spec, and a ConfigMap beside it that holds {}:",
        ca.display()
    );
    println!("  targetURL: https://{address}/");
    println!("  caBundleRef: {{kind: ConfigMap, name: listen-ca, key: ca.crt}}");
    println!(
        "`docket dev` must be allowed to reach it: --allow-egress {}",
        match address.ip() {
            std::net::IpAddr::V4(ip) => format!("{ip}/32"),
            std::net::IpAddr::V6(ip) => format!("{ip}/128"),
        }
    );
    shutdown::signal().await?;
    receiver.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_column_per_fact() {
        assert_eq!(table(&[]), "No deliveries.\n");
        assert_eq!(last(Some(FailureClass::ServerError), Some(500)), "ServerError 500");
        assert_eq!(time(0), "1970-01-01 00:00:00Z");
    }
}
