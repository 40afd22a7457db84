//! Work orders of the back office: an export creates them, and other programs add to them.

use docket_domain::fold::folded;
use docket_domain::work_order::WorkOrderType;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::orders::OrderHead;
use crate::sql::{Row, params, read};

/// A work order to create.
#[derive(Clone, PartialEq, Eq)]
pub struct NewWorkOrder {
    /// The work order's number, unique in the tenant.
    pub number: String,
    /// The family of the work order.
    pub work_order_type: WorkOrderType,
    /// The person to serve, on process work orders.
    pub servee: Option<NewServee>,
    /// The stops, on photocopy work orders.
    pub facilities: Vec<NewFacility>,
}

/// The person to serve.
#[derive(Clone, PartialEq, Eq)]
pub struct NewServee {
    /// The person's name.
    pub name: String,
    /// The first address for service, in one line.
    pub address: Option<String>,
}

/// A stop of a photocopy work order. Its line item is its position, from 1.
#[derive(Clone, PartialEq, Eq)]
pub struct NewFacility {
    /// The code of a known facility.
    pub facility_id: Option<String>,
    /// The name of the facility.
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

/// The numbers and families of the work orders of an exported order, in the order of the export.
pub async fn of_web_order(
    connection: &mut Connection,
    web_order_id: &str,
) -> Result<Vec<(String, WorkOrderType)>, StoreError> {
    let sql = "SELECT number, work_order_type FROM work_order WHERE web_order_id = $1 ORDER BY position";
    let rows = connection.query(sql, params![web_order_id]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.parsed(1)?))).collect()
}

/// The part of a work order that a note needs.
#[derive(Debug, Clone)]
pub struct WorkOrder {
    /// The family of the work order.
    pub work_order_type: WorkOrderType,
    /// The web order from which an export created the work order, if there is one.
    pub web_order_id: Option<String>,
    /// The customer to which it belongs.
    pub customer_code: String,
}

/// The work order with this number; if a customer is given, only if it is the customer's.
pub async fn find(
    connection: &mut Connection,
    number: &str,
    customer_code: Option<&str>,
) -> Result<Option<WorkOrder>, StoreError> {
    let sql = "SELECT work_order_type, web_order_id, customer_code FROM work_order WHERE number = $1";
    let row = connection.query_opt(sql, params![number]).await?;
    let work_order = |row: Row| {
        Ok::<_, StoreError>(read!(row => WorkOrder { work_order_type: parsed, web_order_id, customer_code }))
    };
    let found = row.map(work_order).transpose()?;
    Ok(found.filter(|found| customer_code.is_none_or(|code| found.customer_code == code)))
}

/// The numbers of the work orders beside this number, in the order of numbers: the last before it, and the first after it.
pub async fn beside(connection: &mut Connection, number: &str) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT number FROM (SELECT number FROM work_order WHERE number < $1 ORDER BY number DESC LIMIT 1) AS earlier \
               UNION ALL SELECT number FROM (SELECT number FROM work_order WHERE number > $1 ORDER BY number LIMIT 1) AS later";
    connection.column(sql, params![number]).await
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
