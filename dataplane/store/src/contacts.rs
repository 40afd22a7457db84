//! Customers and their contacts.

use std::collections::{BTreeMap, BTreeSet};

use docket_domain::token::UserKind;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::people::{found_code, new_key, user_keys};
use crate::sql::{Row, Search, containing, params, read};

/// A customer's user, as sign-in needs it.
#[derive(Clone)]
pub struct Contact {
    /// The contact's code.
    pub code: String,
    /// The customer it belongs to.
    pub customer_code: String,
    /// Display name.
    pub name: String,
    /// The hash of the password, as a PHC string; `None`: there is no usable password.
    pub password_hash: Option<String>,
    /// An inactive contact can't sign in.
    pub active: bool,
    /// How often the contact was signed out everywhere.
    pub sign_outs: i64,
    /// Whether the contact sees and manages the customer's webhooks in the portal.
    pub manages_webhooks: bool,
}

/// Adds a customer. [`StoreError::Conflict`] if the code is taken.
pub async fn insert_customer(
    transaction: &mut Transaction,
    code: &str,
    name: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO customer (code, name, created_at_ms) VALUES ($1, $2, $3)";
    transaction.execute(sql, params![code, name, now_ms]).await.map(|_| ())
}

/// Whether the tenant has this customer.
pub async fn customer_exists(connection: &mut Connection, code: &str) -> Result<bool, StoreError> {
    Ok(connection.query_opt("SELECT 1 FROM customer WHERE code = $1", params![code]).await?.is_some())
}

/// A customer of the tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    /// The customer's code, as in orders.
    pub code: String,
    /// Display name.
    pub name: String,
}

/// The customers with the first codes, at most `limit`, in the order of their names.
pub async fn customers(connection: &mut Connection, limit: i64) -> Result<Vec<Customer>, StoreError> {
    let sql = "SELECT code, name FROM customer ORDER BY code LIMIT $1";
    let customer = |row: &Row| Ok(read!(row => Customer { code, name }));
    let mut found: Vec<Customer> = connection
        .query(sql, params![limit])
        .await?
        .iter()
        .map(customer)
        .collect::<Result<_, StoreError>>()?;
    found.sort_by_cached_key(|customer| (customer.name.to_lowercase(), customer.code.clone()));
    Ok(found)
}

/// The names of the customers with these codes, by code. Codes that belong to no customer are left out.
pub async fn customer_names(
    connection: &mut Connection,
    codes: &[&str],
) -> Result<BTreeMap<String, String>, StoreError> {
    let codes: Vec<&str> = codes.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let sql = "SELECT code, name FROM customer WHERE code IN ({values})";
    let rows = connection.query_in(sql, Vec::new(), &codes).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// The codes that belong to no customer of the tenant.
pub async fn unknown_customers(
    connection: &mut Connection,
    codes: &[&str],
) -> Result<BTreeSet<String>, StoreError> {
    let mut unknown: BTreeSet<String> = codes.iter().map(|code| (*code).to_owned()).collect();
    let codes: Vec<String> = unknown.iter().cloned().collect();
    let sql = "SELECT code FROM customer WHERE code IN ({values})";
    for row in connection.query_in(sql, Vec::new(), &codes).await? {
        unknown.remove(&row.get::<String>(0)?);
    }
    Ok(unknown)
}

/// The largest number of customers whose names [`customers_named`] compares.
const MOST_NAMES: i64 = 10_000;

/// The customers whose names contain a text, in upper or lower case, ordered by name; at most `limit`. Compares the names of 10,000
/// customers, the first by code.
pub async fn customers_named(
    connection: &mut Connection,
    text: &str,
    limit: i64,
) -> Result<Vec<Customer>, StoreError> {
    let sql = format!(
        "SELECT code, name FROM (SELECT code, name FROM customer ORDER BY code LIMIT {MOST_NAMES}) AS known \
         WHERE lower(name) LIKE $1 ESCAPE '\\' ORDER BY lower(name), code LIMIT $2"
    );
    let rows = connection.query(&sql, params![containing(&text.to_lowercase()), limit]).await?;
    rows.iter().map(|row| Ok(read!(row => Customer { code, name }))).collect()
}

/// Adds a contact, which has never been signed out. [`StoreError::Conflict`]: the code or the e-mail address is
/// taken, or the customer does not exist.
pub async fn insert_contact(
    transaction: &mut Transaction,
    contact: &Contact,
    email: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let key = new_key(transaction, UserKind::Contact, email).await?;
    let sql = "INSERT INTO contact (code, customer_code, email, email_key, name, password_hash, active, created_at_ms, \
               manages_webhooks) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let Contact { code, customer_code, name, password_hash, active, sign_outs: _, manages_webhooks } =
        contact;
    let params = params![
        code,
        customer_code,
        email,
        key,
        name,
        password_hash.clone(),
        *active,
        now_ms,
        *manages_webhooks
    ];
    transaction.execute(sql, params).await.map(|_| ())
}

/// Returns the parameters of the Argon2id hashes of all contacts and employees, without salts and outputs; at most a hundred.
pub async fn hash_parameters(connection: &mut Connection) -> Result<Vec<String>, StoreError> {
    let of = |table: &str| {
        // The innermost expression cuts off the output at the end, the second the dollar sign before the output, the
        // third the salt.
        format!(
            "SELECT substr(rtrim(rtrim(rtrim(password_hash, $1), '$'), $1), 1, 100) FROM {table} \
             WHERE password_hash LIKE '$argon2id$%'"
        )
    };
    let sql = format!("{} UNION {} LIMIT 100", of("contact"), of("employee"));
    let base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/.-=";
    let rows = connection.query(&sql, params![base64]).await?;
    rows.iter().map(|row| row.get(0).map(|found: String| found.trim_end_matches('$').to_owned())).collect()
}

/// The name of the customer of the contact with this code.
pub async fn customer_of(connection: &mut Connection, code: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT customer.name FROM contact JOIN customer ON customer.code = contact.customer_code WHERE contact.code = $1";
    connection.value(sql, params![code]).await
}

/// A contact in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of the table")]
pub struct ListedContact {
    pub code: String,
    pub customer_code: String,
    pub customer_name: String,
    pub email: String,
    pub email_key: String,
    pub name: String,
    pub manages_webhooks: bool,
    pub active: bool,
}

/// The contacts after the one with the key `after`, of one customer if it is given, in the order of their `email_key`; at most
/// `limit`.
pub async fn list(
    connection: &mut Connection,
    customer_code: Option<&str>,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<ListedContact>, StoreError> {
    let mut search = Search::new(
        "SELECT c.code, c.customer_code, k.name, c.email, c.email_key, c.name, c.manages_webhooks, c.active \
         FROM contact c JOIN customer k ON k.code = c.customer_code",
    );
    search.and_some("c.customer_code = $1", customer_code);
    search.and_some("c.email_key > $1", after);
    let (sql, params) = search.end("ORDER BY c.email_key LIMIT $1", [limit.into()]);
    let rows = connection.query(&sql, params).await?;
    let listed = |row: &Row| {
        Ok(read!(row => ListedContact {
            code, customer_code, customer_name, email, email_key, name, manages_webhooks, active,
        }))
    };
    rows.iter().map(listed).collect()
}

/// The names of the contact with this code and of its customer; `None`: the contact is inactive, belongs to another
/// customer, or may not manage webhooks.
pub async fn manager(
    connection: &mut Connection,
    code: &str,
    customer_code: &str,
) -> Result<Option<[String; 2]>, StoreError> {
    let sql = "SELECT c.name, k.name FROM contact c JOIN customer k ON k.code = c.customer_code \
               WHERE c.code = $1 AND c.customer_code = $2 AND c.active AND c.manages_webhooks";
    let row = connection.query_opt(sql, params![code, customer_code]).await?;
    row.map(|row| Ok([row.get(0)?, row.get(1)?])).transpose()
}

/// The e-mail address of the contact with this code.
pub async fn email(connection: &mut Connection, code: &str) -> Result<Option<String>, StoreError> {
    connection.value("SELECT email FROM contact WHERE code = $1", params![code]).await
}

/// The contact with this e-mail address.
pub async fn find(connection: &mut Connection, user_id: &str) -> Result<Option<Contact>, StoreError> {
    let [composed, decomposed, typed] = user_keys(user_id);
    let sql = format!(
        "SELECT code, customer_code, name, password_hash, active, sign_outs, manages_webhooks FROM contact WHERE code = {}",
        found_code(UserKind::Contact)
    );
    let row = connection.query_opt(&sql, params![composed, decomposed, typed]).await?;
    let contact = |row: Row| {
        Ok(read!(row => Contact {
            code, customer_code, name, password_hash, active, sign_outs, manages_webhooks,
        }))
    };
    row.map(contact).transpose()
}
