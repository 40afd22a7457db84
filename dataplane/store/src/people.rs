//! What contacts and employees have in common: state, right, tokens and password.

use std::collections::HashMap;

use docket_domain::fold::{composed, decomposed};
use docket_domain::token::{UserFingerprint, UserKind};

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Row, params, read};
use crate::subscriptions::end_typed;

/// A user, by code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person<'a> {
    /// The kind of the user.
    pub kind: UserKind,
    /// The user's code.
    pub code: &'a str,
}

/// The form in which e-mail addresses and user names are compared. People type them in upper or lower case, and
/// keyboards write an accented letter as one character or as two.
pub fn user_key(user_id: &str) -> String {
    composed(&user_id.trim().to_lowercase())
}

/// The keys by which the row of a user is found: [`user_key`], and two forms that older versions stored. The last
/// form is the text as the user typed it.
pub(crate) fn user_keys(user_id: &str) -> [String; 3] {
    let typed = user_id.trim().to_lowercase();
    [composed(&typed), decomposed(&typed), typed]
}

/// What an administrator can change of a user, with the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserState {
    /// The name.
    pub name: String,
    /// Whether a contact manages webhooks, or an employee is an administrator.
    pub has_right: bool,
    /// Whether the user can sign in.
    pub active: bool,
    /// How often all tokens of the user were ended.
    pub sign_outs: i64,
}

/// The columns that the tables of the two kinds name differently. A table has the name of its kind.
struct Columns {
    /// The key by which a user is found: see [`user_keys`].
    key: &'static str,
    /// The right to manage webhooks, or of an administrator.
    right: &'static str,
    /// The customer of a contact.
    customer: &'static str,
}

const fn columns(kind: UserKind) -> Columns {
    match kind {
        UserKind::Contact => {
            Columns { key: "email_key", right: "manages_webhooks", customer: "customer_code" }
        }
        UserKind::Employee => {
            Columns { key: "user_key", right: "administrator", customer: "CAST(NULL AS TEXT)" }
        }
    }
}

/// SQL: the code of the user with one of the keys `$1` to `$3`. An older version may have stored two such users; then the one with key `$3`
/// counts.
pub(crate) fn found_code(kind: UserKind) -> String {
    let Columns { key, .. } = columns(kind);
    format!("(SELECT code FROM {kind} WHERE {key} IN ($1, $2, $3) ORDER BY {key} <> $3 LIMIT 1)")
}

/// Returns the key of a new user with this e-mail address or check-in name. [`StoreError::Conflict`]: an older version has stored it in
/// another form for another user.
pub(crate) async fn new_key(
    transaction: &mut Transaction,
    kind: UserKind,
    user_id: &str,
) -> Result<String, StoreError> {
    let [composed, decomposed, typed] = user_keys(user_id);
    let sql = format!("SELECT 1 FROM {kind} WHERE {} IN ($1, $2)", columns(kind).key);
    match transaction.query_opt(&sql, params![decomposed, typed]).await? {
        Some(_) => Err(StoreError::Conflict),
        None => Ok(composed),
    }
}

/// The names of the users of a kind with these codes, by code; 25 codes take one statement.
pub async fn names(
    connection: &mut Connection,
    kind: UserKind,
    codes: &[String],
) -> Result<HashMap<String, String>, StoreError> {
    let sql = format!("SELECT code, name FROM {kind} WHERE code IN ({{values}})");
    let rows = connection.query_in(&sql, Vec::new(), codes).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// The active users of a kind among these, as owners of tokens.
pub async fn owners(
    connection: &mut Connection,
    kind: UserKind,
    codes: &[&str],
) -> Result<Vec<(String, UserFingerprint)>, StoreError> {
    let Columns { customer, .. } = columns(kind);
    let sql = format!(
        "SELECT code, {customer}, password_hash, sign_outs FROM {kind} WHERE active AND code IN ({{values}})"
    );
    let owner = |row: &Row| {
        let (customer, hash): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, UserFingerprint::new(customer.as_deref(), hash.as_deref(), row.get(3)?)))
    };
    connection.query_in(&sql, Vec::new(), codes).await?.iter().map(owner).collect()
}

/// The code of the contact with this e-mail address, or of the employee with this check-in name.
pub async fn code_of(
    connection: &mut Connection,
    kind: UserKind,
    user_id: &str,
) -> Result<Option<String>, StoreError> {
    let [composed, decomposed, typed] = user_keys(user_id);
    let sql = format!("SELECT code FROM {kind} WHERE code = {}", found_code(kind));
    connection.value(&sql, params![composed, decomposed, typed]).await
}

/// The state of a user; `None`: there is no such user.
pub async fn state_of(
    connection: &mut Connection,
    Person { kind, code }: Person<'_>,
) -> Result<Option<UserState>, StoreError> {
    let Columns { right, .. } = columns(kind);
    let sql = format!("SELECT name, {right}, active, sign_outs FROM {kind} WHERE code = $1");
    let state = |row: Row| Ok(read!(row => UserState { name, has_right, active, sign_outs }));
    connection.query_opt(&sql, params![code]).await?.map(state).transpose()
}

/// Ends the tokens of a user, and its subscriptions with a typed address. `false`: there is no such user.
pub async fn end_tokens(transaction: &mut Transaction, person: Person<'_>) -> Result<bool, StoreError> {
    end_typed(transaction, person.kind, person.code).await?;
    update(transaction, person, "sign_outs = sign_outs + 1", None).await
}

/// Gives a contact the right to manage its customer's webhooks, or makes an employee an administrator; or takes this right back. `false`:
/// there is no such user.
pub async fn set_right(
    transaction: &mut Transaction,
    person: Person<'_>,
    has_right: bool,
) -> Result<bool, StoreError> {
    let right = format!("{} = $2", columns(person.kind).right);
    update(transaction, person, &right, Some(has_right)).await
}

/// Activates a user, or deactivates it and ends its tokens for good. `false`: there is no such user.
pub async fn set_active(
    transaction: &mut Transaction,
    person: Person<'_>,
    active: bool,
) -> Result<bool, StoreError> {
    update(transaction, person, "active = $2, sign_outs = sign_outs + 1", Some(active)).await
}

/// Changes the row of a user by these assignments, in which `$2` is `value`.
async fn update(
    transaction: &mut Transaction,
    Person { kind, code }: Person<'_>,
    assignments: &str,
    value: Option<bool>,
) -> Result<bool, StoreError> {
    let sql = format!("UPDATE {kind} SET {assignments} WHERE code = $1");
    let params = [Param::from(code)].into_iter().chain(value.map(Param::from)).collect();
    Ok(transaction.execute(&sql, params).await? > 0)
}

/// Sets the password of the contact with this e-mail address, or of the employee with this check-in name, as a PHC string. Ends the user's
/// tokens, and its subscriptions with a typed address. Returns the user's code.
pub async fn set_password(
    transaction: &mut Transaction,
    kind: UserKind,
    user_id: &str,
    password_hash: &str,
) -> Result<Option<String>, StoreError> {
    let [composed, decomposed, typed] = user_keys(user_id);
    let sql =
        format!("UPDATE {kind} SET password_hash = $4 WHERE code = {} RETURNING code", found_code(kind));
    let values = params![composed, decomposed, typed, password_hash];
    let code: Option<String> = transaction.value(&sql, values).await?;
    if let Some(code) = &code {
        end_typed(transaction, kind, code).await?;
    }
    Ok(code)
}
