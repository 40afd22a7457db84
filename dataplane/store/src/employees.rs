//! The tenant's own users.

use docket_domain::token::UserKind;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::people::{found_code, new_key, user_keys};
use crate::sql::{Row, Search, params, read};

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

/// Adds an employee, who has never been signed out. [`StoreError::Conflict`]: the code or the check-in name is taken.
pub async fn insert(
    transaction: &mut Transaction,
    employee: &Employee,
    user_name: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let key = new_key(transaction, UserKind::Employee, user_name).await?;
    let sql = "INSERT INTO employee \
               (code, user_name, user_key, name, password_hash, administrator, active, created_at_ms) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let Employee { code, name, password_hash, administrator, active, sign_outs: _ } = employee;
    let params = params![code, user_name, key, name, password_hash.clone(), *administrator, *active, now_ms];
    transaction.execute(sql, params).await.map(|_| ())
}

/// The name of the employee with this code; `None`: the employee is no active administrator right now.
pub async fn administrator(connection: &mut Connection, code: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT name FROM employee WHERE code = $1 AND administrator AND active";
    connection.value(sql, params![code]).await
}

/// Locks the rights of administrators until the transaction ends. A change by an administrator takes this lock before it reads
/// whether the user still is one.
pub async fn lock_administrators(transaction: &mut Transaction) -> Result<(), StoreError> {
    transaction.lock("SELECT pg_advisory_xact_lock(hashtext('administrators'), 0)", Vec::new()).await
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
    let listed = |row: &Row| {
        Ok(read!(row => ListedEmployee { code, user_name, user_key, name, administrator, active }))
    };
    rows.iter().map(listed).collect()
}

/// The employee with this check-in name.
pub async fn find(connection: &mut Connection, user_id: &str) -> Result<Option<Employee>, StoreError> {
    let [composed, decomposed, typed] = user_keys(user_id);
    let sql = format!(
        "SELECT code, name, password_hash, administrator, active, sign_outs FROM employee WHERE code = {}",
        found_code(UserKind::Employee)
    );
    let row = connection.query_opt(&sql, params![composed, decomposed, typed]).await?;
    let employee =
        |row: Row| Ok(read!(row => Employee { code, name, password_hash, administrator, active, sign_outs }));
    row.map(employee).transpose()
}
