//! The tenant's own users.

use std::collections::HashMap;

use docket_domain::token::UserFingerprint;

use crate::connection::{Connection, Transaction};
use crate::contacts::{UserState, user_keys};
use crate::error::StoreError;
use crate::sql::{Row, Search, params, read};
use crate::subscriptions::{SubscriberKind, end_typed};

/// An employee, as sign-in needs it.
#[derive(Clone)]
pub struct Employee {
    /// The employee's code.
    pub code: String,
    /// Display name.
    pub name: String,
    /// The hash of the password, as a PHC string; `None`: there is no usable password.
    pub password_hash: Option<String>,
    /// Whether the employee may see the webhook logs.
    pub administrator: bool,
    /// An inactive employee can't sign in.
    pub active: bool,
    /// How often the employee was signed out everywhere.
    pub sign_outs: i64,
}

/// The code of the employee with one of the keys `$1` to `$3`. An older version may have stored two such users; then
/// the one with key `$3` counts.
const CODE: &str =
    "(SELECT code FROM employee WHERE user_key IN ($1, $2, $3) ORDER BY user_key <> $3 LIMIT 1)";

/// Adds an employee, who has never been signed out. [`StoreError::Conflict`]: the code or the check-in name is taken.
pub async fn insert(
    transaction: &mut Transaction,
    employee: &Employee,
    user_name: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let [composed, decomposed, typed] = user_keys(user_name);
    let sql = "SELECT 1 FROM employee WHERE user_key IN ($1, $2)";
    if transaction.query_opt(sql, params![decomposed, typed]).await?.is_some() {
        return Err(StoreError::Conflict);
    }
    let sql = "INSERT INTO employee \
               (code, user_name, user_key, name, password_hash, administrator, active, created_at_ms) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let Employee { code, name, password_hash, administrator, active, sign_outs: _ } = employee;
    let params =
        params![code, user_name, composed, name, password_hash.clone(), *administrator, *active, now_ms];
    transaction.execute(sql, params).await.map(|_| ())
}

/// The name of the employee with this code; `None`: the employee is no active administrator right now.
pub async fn administrator(connection: &mut Connection, code: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT name FROM employee WHERE code = $1 AND administrator AND active";
    connection.value(sql, params![code]).await
}

/// The names of the employees with these codes, by code; 25 codes take one statement.
pub async fn names(
    connection: &mut Connection,
    codes: &[String],
) -> Result<HashMap<String, String>, StoreError> {
    let sql = "SELECT code, name FROM employee WHERE code IN ({values})";
    let rows = connection.query_in(sql, Vec::new(), codes).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// The active employees among these, as owners of tokens.
pub async fn owners(
    connection: &mut Connection,
    codes: &[&str],
) -> Result<Vec<(String, UserFingerprint)>, StoreError> {
    let sql = "SELECT code, password_hash, sign_outs FROM employee WHERE active AND code IN ({values})";
    let owner = |row: &Row| {
        let hash: Option<String> = row.get(1)?;
        Ok((row.get(0)?, UserFingerprint::new(None, hash.as_deref(), row.get(2)?)))
    };
    connection.query_in(sql, Vec::new(), codes).await?.iter().map(owner).collect()
}

/// The code of the employee with this check-in name.
pub async fn code_of(connection: &mut Connection, user_name: &str) -> Result<Option<String>, StoreError> {
    let [composed, decomposed, typed] = user_keys(user_name);
    let sql = format!("SELECT code FROM employee WHERE code = {CODE}");
    connection.value(&sql, params![composed, decomposed, typed]).await
}

/// The state of the employee with this code.
pub async fn state_of(connection: &mut Connection, code: &str) -> Result<Option<UserState>, StoreError> {
    let sql = "SELECT name, administrator, active, sign_outs FROM employee WHERE code = $1";
    let row = connection.query_opt(sql, params![code]).await?;
    let state =
        |row: Row| Ok::<_, StoreError>(read!(row => UserState { name, has_right, active, sign_outs }));
    row.map(state).transpose()
}

/// Locks the rights of administrators until the transaction ends. A change by an administrator takes this lock before it reads
/// whether the user still is one.
pub async fn lock_administrators(transaction: &mut Transaction) -> Result<(), StoreError> {
    transaction.lock("SELECT pg_advisory_xact_lock(hashtext('administrators'), 0)", Vec::new()).await
}

/// Ends the tokens of the employee with this code, and the subscriptions with a typed address. `false`: there is no such employee.
pub async fn end_tokens(transaction: &mut Transaction, code: &str) -> Result<bool, StoreError> {
    end_typed(transaction, SubscriberKind::Employee, code).await?;
    let sql = "UPDATE employee SET sign_outs = sign_outs + 1 WHERE code = $1";
    Ok(transaction.execute(sql, params![code]).await? > 0)
}

/// Sets the password of the employee with this check-in name, as a PHC string. Ends the employee's tokens, and
/// its subscriptions with a typed address. Returns the employee's code.
pub async fn set_password(
    transaction: &mut Transaction,
    user_name: &str,
    password_hash: &str,
) -> Result<Option<String>, StoreError> {
    let [composed, decomposed, typed] = user_keys(user_name);
    let sql = format!("UPDATE employee SET password_hash = $4 WHERE code = {CODE} RETURNING code");
    let values = params![composed, decomposed, typed, password_hash];
    let code: Option<String> = transaction.value(&sql, values).await?;
    if let Some(code) = &code {
        end_typed(transaction, SubscriberKind::Employee, code).await?;
    }
    Ok(code)
}

/// Makes the employee with this code an administrator, or no administrator any more. `false`: there is no such employee.
pub async fn set_administrator(
    transaction: &mut Transaction,
    code: &str,
    administrator: bool,
) -> Result<bool, StoreError> {
    let sql = "UPDATE employee SET administrator = $2 WHERE code = $1";
    Ok(transaction.execute(sql, params![code, administrator]).await? > 0)
}

/// Activates the employee with this code, or deactivates it and ends its tokens for good. `false`: there is no such employee.
pub async fn set_active(transaction: &mut Transaction, code: &str, active: bool) -> Result<bool, StoreError> {
    let sql = "UPDATE employee SET active = $2, sign_outs = sign_outs + 1 WHERE code = $1";
    Ok(transaction.execute(sql, params![code, active]).await? > 0)
}

/// An employee in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of the table")]
pub struct ListedEmployee {
    pub code: String,
    pub user_name: String,
    pub user_key: String,
    pub name: String,
    pub administrator: bool,
    pub active: bool,
}

/// The employees after the one with the key `after`, in the order of their `user_key`; at most `limit`.
pub async fn list(
    connection: &mut Connection,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<ListedEmployee>, StoreError> {
    let mut search =
        Search::new("SELECT code, user_name, user_key, name, administrator, active FROM employee");
    search.and_some("user_key > $1", after);
    let (sql, params) = search.end("ORDER BY user_key LIMIT $1", [limit.into()]);
    let rows = connection.query(&sql, params).await?;
    let listed = rows.iter().map(|row| {
        Ok(ListedEmployee {
            code: row.get(0)?,
            user_name: row.get(1)?,
            user_key: row.get(2)?,
            name: row.get(3)?,
            administrator: row.get(4)?,
            active: row.get(5)?,
        })
    });
    listed.collect()
}

/// The employee with this check-in name.
pub async fn find(connection: &mut Connection, user_id: &str) -> Result<Option<Employee>, StoreError> {
    let [composed, decomposed, typed] = user_keys(user_id);
    let sql = format!(
        "SELECT code, name, password_hash, administrator, active, sign_outs FROM employee WHERE code = {CODE}"
    );
    let row = connection.query_opt(&sql, params![composed, decomposed, typed]).await?;
    let employee =
        |row: Row| Ok(read!(row => Employee { code, name, password_hash, administrator, active, sign_outs }));
    row.map(employee).transpose()
}
