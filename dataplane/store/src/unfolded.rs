//! Search texts that an older version has written: they are folded a few rows at a time, in the background.

use docket_domain::fold::folded;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::params;

/// Where a table has a text, and the searched text that is made of it.
struct SearchColumn {
    table: &'static str,
    id: &'static str,
    of: &'static str,
    searched: &'static str,
}

/// What is searched for an order was made of several texts, and was in lower case.
const PLACES: [SearchColumn; 2] = [
    SearchColumn { table: "web_order", id: "id", of: "search_text", searched: "search_text" },
    SearchColumn { table: "work_order", id: "number", of: "servee", searched: "servee_key" },
];

/// Whether there may be rows to fold.
pub async fn are_left(connection: &mut Connection) -> Result<bool, StoreError> {
    Ok(connection.query_opt("SELECT 1 FROM unfolded LIMIT 1", Vec::new()).await?.is_some())
}

/// Folds the next `most` rows of a table. Returns whether there may be more. If another transaction writes a row
/// meanwhile, it writes it folded.
pub async fn fold(transaction: &mut Transaction, most: i64) -> Result<bool, StoreError> {
    let sql = "SELECT of_table, after_id FROM unfolded ORDER BY of_table LIMIT 1";
    let Some(row) = transaction.query_opt(sql, Vec::new()).await? else { return Ok(false) };
    let (table, after): (String, String) = (row.get(0)?, row.get(1)?);
    let Some(SearchColumn { table, id, of, searched }) = PLACES.iter().find(|place| place.table == table)
    else {
        // Only a later version knows this table.
        return Ok(false);
    };
    let sql = format!("SELECT {id}, {of}, {searched} FROM {table} WHERE {id} > $1 ORDER BY {id} LIMIT $2");
    let rows = transaction.query(&sql, params![after, most]).await?;
    let mut last = None;
    for row in &rows {
        let (row_id, text, before): (String, Option<String>, Option<String>) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let now = text.as_deref().map(folded);
        if let (Some(text), Some(now)) = (text, now.filter(|now| before.as_ref() != Some(now))) {
            let sql = format!("UPDATE {table} SET {searched} = $1 WHERE {id} = $2 AND {of} = $3");
            transaction.execute(&sql, params![now, &row_id, text]).await?;
        }
        last = Some(row_id);
    }
    match last {
        Some(last) => {
            let sql = "UPDATE unfolded SET after_id = $1 WHERE of_table = $2";
            transaction.execute(sql, params![last, *table]).await?;
        }
        None => {
            transaction.execute("DELETE FROM unfolded WHERE of_table = $1", params![*table]).await?;
        }
    }
    Ok(true)
}
