//! Work orders of the back office: what an export makes, and other programs add to.

use docket_domain::fold::folded;
use docket_domain::work_order::WorkOrderType;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::orders::OrderHead;
use crate::sql::params;

/// A work order to be made.
#[derive(Clone, PartialEq, Eq)]
pub struct NewWorkOrder {
    /// Its number, unique in the tenant.
    pub number: String,
    /// One of the five families.
    pub work_order_type: WorkOrderType,
    /// The person to be served.
    pub servee: Option<NewServee>,
    /// The stops, on photocopy work orders.
    pub facilities: Vec<NewFacility>,
}

/// The person to be served.
#[derive(Clone, PartialEq, Eq)]
pub struct NewServee {
    /// The person's name.
    pub name: String,
    /// Where to try first, in one line.
    pub address: Option<String>,
}

/// A stop of a photocopy work order; its line item is its place, from 1.
#[derive(Clone, PartialEq, Eq)]
pub struct NewFacility {
    /// The known facility's code.
    pub facility_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
}

/// Stores the work orders of an export, in this order.
pub async fn insert(
    transaction: &mut Transaction,
    order: &OrderHead,
    work_orders: &[NewWorkOrder],
    now_ms: i64,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO work_order (number, work_order_type, web_order_id, position, customer_code, servee, \
               servee_key, servee_address, case_number, caption, created_at_ms) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    for (position, NewWorkOrder { number, work_order_type, servee, facilities }) in
        work_orders.iter().enumerate()
    {
        let params = params![
            number,
            work_order_type.as_str(),
            &order.id,
            position as i64,
            &order.customer_code,
            servee.as_ref().map(|servee| servee.name.clone()),
            servee.as_ref().map(|servee| folded(&servee.name)),
            servee.as_ref().and_then(|servee| servee.address.clone()),
            order.case_number.clone(),
            order.caption.clone(),
            now_ms,
        ];
        transaction.execute(sql, params).await?;
        let sql = "INSERT INTO facility (work_order, facility_line_item, facility_id, name) VALUES ($1, $2, $3, $4)";
        for (line_item, NewFacility { facility_id, name }) in (1..).zip(facilities) {
            let line_item: i64 = line_item;
            transaction.execute(sql, params![number, line_item, facility_id.clone(), name.clone()]).await?;
        }
        if *work_order_type == WorkOrderType::Process {
            let sql = "INSERT INTO process_status (work_order) VALUES ($1)";
            transaction.execute(sql, params![number]).await?;
        }
    }
    Ok(())
}

/// The numbers and families of an exported order's work orders, in the order of the export.
pub async fn of_web_order(
    connection: &mut Connection,
    web_order_id: &str,
) -> Result<Vec<(String, WorkOrderType)>, StoreError> {
    let sql = "SELECT number, work_order_type FROM work_order WHERE web_order_id = $1 ORDER BY position";
    let rows = connection.query(sql, params![web_order_id]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.parsed(1)?))).collect()
}

/// What a note needs to know of its work order.
#[derive(Debug, Clone)]
pub struct WorkOrder {
    /// One of the five families.
    pub work_order_type: WorkOrderType,
    /// The web order it was made from, if there is one.
    pub web_order_id: Option<String>,
    /// The customer it belongs to.
    pub customer_code: String,
}

/// The work order with this number, of this customer only if one is given.
pub async fn find(
    connection: &mut Connection,
    number: &str,
    customer_code: Option<&str>,
) -> Result<Option<WorkOrder>, StoreError> {
    let sql = "SELECT work_order_type, web_order_id, customer_code FROM work_order WHERE number = $1";
    let row = connection.query_opt(sql, params![number]).await?;
    let found = row
        .map(|row| {
            let (work_order_type, web_order_id, customer_code) = (row.parsed(0)?, row.get(1)?, row.get(2)?);
            Ok::<_, StoreError>(WorkOrder { work_order_type, web_order_id, customer_code })
        })
        .transpose()?;
    Ok(found.filter(|found| customer_code.is_none_or(|code| found.customer_code == code)))
}

/// The stops of a photocopy work order: line item and facility id.
pub async fn stops(
    connection: &mut Connection,
    number: &str,
) -> Result<Vec<(i64, Option<String>)>, StoreError> {
    let sql = "SELECT facility_line_item, facility_id FROM facility WHERE work_order = $1 ORDER BY 1";
    let rows = connection.query(sql, params![number]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}
