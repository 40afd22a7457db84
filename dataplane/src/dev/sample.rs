//! Sample people and orders for the shipped examples, so that the printed commands work as pasted.

mod orders;

use anyhow::Result;
use docket_domain::token::TokenSubject;
use docket_program::clock::Clock;
use docket_program::random;
use docket_store::contacts::{self, Contact};
use docket_store::employees::{self, Employee};
use secrecy::SecretString;

use crate::access::passwords;
use crate::tenancy::{ServedTenant, Tenants};

/// The password of every sample user.
pub const PASSWORD: &str = "docket-sample-1";

/// The end of a secret that marks a tenant as a shipped example.
const SAMPLE_SECRET_SUFFIX: &str = "-demo-secret-not-for-production";

/// A sample user, for the banner.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The tenant's client code.
    pub client_code: String,
    /// The user id to sign in with.
    pub user_id: &'static str,
    /// Contact or employee.
    pub subject: TokenSubject,
}

struct Person {
    user_id: &'static str,
    name: &'static str,
    subject: TokenSubject,
}

/// Customers and people of one example.
struct Example {
    client_code: &'static str,
    customers: &'static [(&'static str, &'static str)],
    people: Vec<Person>,
    /// Whether the tenant has sample orders.
    has_orders: bool,
}

fn examples() -> Vec<Example> {
    let contact = |user_id, name, code: &str, customer: &str| Person {
        user_id,
        name,
        subject: TokenSubject::Contact { contact_code: code.into(), customer_code: customer.into() },
    };
    let employee = |user_id, name, code: &str, administrator| Person {
        user_id,
        name,
        subject: TokenSubject::Employee { employee_code: code.into(), administrator },
    };
    vec![
        Example {
            client_code: "ACME",
            customers: &[("C-1001", "Quillfeather & Moss LLP"), ("C-1002", "Blaise Defense Group")],
            people: vec![
                contact("ada@quillfeather.example", "Ada Quillfeather", "1000", "C-1001"),
                employee("mo.ito", "Mo Ito", "100", false),
                employee("admin", "Alex Administrator", "99", true),
            ],
            has_orders: true,
        },
        Example {
            client_code: "GLOBEX",
            customers: &[("G-2001", "Ferncliff Builders LLC")],
            people: vec![contact("rhea@ferncliff.example", "Rhea Castellan", "1000", "G-2001")],
            has_orders: false,
        },
    ]
}

/// Adds people and orders to each example that has none yet. Returns the people.
pub async fn seed(tenants: &Tenants, clock: &Clock) -> Vec<Sample> {
    let mut samples = Vec::new();
    for example in examples() {
        let Some(tenant) = tenants.by_client_code(example.client_code).filter(|tenant| is_example(tenant))
        else {
            continue;
        };
        // A tenant without its database does not keep the others from starting.
        if let Err(error) = seed_tenant(&tenant, &example, clock).await {
            tracing::warn!(tenant.code = example.client_code, "adding sample data failed: {error:#}");
            continue;
        }
        samples.extend(example.people.into_iter().map(|person| Sample {
            client_code: example.client_code.to_owned(),
            user_id: person.user_id,
            subject: person.subject,
        }));
    }
    samples
}

fn is_example(tenant: &ServedTenant) -> bool {
    tenant
        .config
        .webhooks
        .iter()
        .filter_map(|webhook| webhook.secret.as_ref())
        .any(|secret| secret.expose().ends_with(SAMPLE_SECRET_SUFFIX.as_bytes()))
}

async fn seed_tenant(tenant: &ServedTenant, example: &Example, clock: &Clock) -> Result<()> {
    let database = tenant.store.ready(clock).await?;
    let mut transaction = database.begin(clock).await?;
    // Only once: a sample user that was deleted does not come back.
    if contacts::customer_exists(&mut transaction, example.customers[0].0).await? {
        return Ok(transaction.rollback().await?);
    }
    let now_ms = clock.now_ms();
    for (code, name) in example.customers {
        contacts::insert_customer(&mut transaction, code, name, now_ms).await?;
    }
    for person in &example.people {
        let password_hash = Some(passwords::hash(&SecretString::from(PASSWORD), random::bytes()));
        let name = person.name.to_owned();
        match person.subject.clone() {
            TokenSubject::Contact { contact_code: code, customer_code } => {
                let contact = Contact {
                    code,
                    customer_code,
                    name,
                    password_hash,
                    active: true,
                    sign_outs: 0,
                    manages_webhooks: false,
                };
                contacts::insert_contact(&mut transaction, &contact, person.user_id, now_ms).await?;
            }
            TokenSubject::Employee { employee_code: code, administrator } => {
                let employee =
                    Employee { code, name, password_hash, administrator, active: true, sign_outs: 0 };
                employees::insert(&mut transaction, &employee, person.user_id, now_ms).await?;
            }
        }
    }
    if let Some(contact) = example.people.iter().find(|person| example.has_orders && is_contact(person)) {
        orders::seed(&mut transaction, tenant, &contact.subject, clock.now()).await?;
    }
    Ok(transaction.commit().await?)
}

fn is_contact(person: &Person) -> bool {
    matches!(person.subject, TokenSubject::Contact { .. })
}

#[cfg(test)]
mod tests {
    use docket_crds::WebhookConfig;
    use docket_store::sqlite::Sqlite;
    use serde_json::json;

    use super::*;
    use crate::tenancy::testing::{config, served};

    #[tokio::test]
    async fn only_a_shipped_example_gets_people_with_a_known_password() {
        let counts = |secret: Option<&str>| {
            let webhook = json!({"uid": "w", "namespace": "a", "name": "w", "displayName": null, "customerCode": "C-1",
                "targetUrl": "https://h.example/", "secret": null, "caBundle": null, "events": [], "active": true});
            let mut webhook: WebhookConfig = serde_json::from_value(webhook).expect("a webhook");
            webhook.secret = secret.map(|secret| secret.as_bytes().to_vec().into());
            let mut config = config("u");
            config.webhooks.push(webhook);
            is_example(&served(config, Sqlite::new("never-opened.db".into())))
        };
        assert!(counts(Some("acme-demo-secret-not-for-production")));
        assert!(!counts(Some("a-secret-of-its-own")) && !counts(None));
    }
}
