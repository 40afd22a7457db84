//! Adds a note to a work order, and a milestone to a photocopy work order.

use docket_domain::event::{NoteCreated, OrderStatusChanged, Payload};
use docket_domain::work_order::{WorkOrderKey, WorkOrderType};
use docket_schedule::Hint;
use docket_store::events::About;
use docket_store::notes::{self, Milestone, NewNote};
use docket_store::work_orders::{self, WorkOrder};
use docket_store::{Connection, Transaction};
use jiff::Timestamp;

use super::invalid;
use super::publish_event::{Publication, publish_event};
use crate::refusal::Refusal;
use crate::tenancy::ServedTenant;

/// A note to add, as requested.
#[derive(Clone)]
pub struct Note {
    /// `workOrder`: a number, or `<workOrder>-<facilityId>` for a photocopy stop.
    pub work_order: String,
    /// The family of the work order.
    pub work_order_type: WorkOrderType,
    /// The text.
    pub report: String,
    /// The photocopy stop.
    pub facility_line_item: Option<i64>,
    /// The milestone that was reached.
    pub milestone_code: Option<i64>,
}

/// The work order, stop and milestone of a note, found in the database.
struct NoteTarget {
    work_order: WorkOrder,
    stop: Option<i64>,
    milestone: Option<Milestone>,
}

/// Adds a note with its events. Returns the note's line item, and the hints that the caller publishes after the commit. A caller
/// with an `own_customer` may use only this customer's work orders.
pub async fn add_note(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    own_customer: Option<&str>,
    author: &str,
    note: &Note,
    now: Timestamp,
) -> Result<(i64, Vec<Hint>), Refusal> {
    let key = WorkOrderKey::new(&note.work_order);
    let NoteTarget { work_order, stop, milestone } = target(transaction, own_customer, key, note).await?;
    let line_item = notes::next_line_item(transaction, key.number).await?;
    // The work order is locked by now. So if two notes come at once, the second note's previous milestone is the first note's.
    let previous = match milestone {
        Some(_) => notes::last_milestone(transaction, key.number, stop).await?,
        None => None,
    };
    let new = NewNote {
        work_order: key.number,
        line_item,
        facility_line_item: stop,
        report: &note.report,
        milestone_code: note.milestone_code,
        author,
    };
    notes::insert(transaction, &new, now.as_millisecond()).await?;
    let created = Payload::NoteCreated(NoteCreated {
        work_order: key.number.to_owned(),
        work_order_type: work_order.work_order_type.as_str().to_owned(),
        report: note.report.clone(),
        line_item,
        facility_line_item: stop,
    });
    let changed = milestone.map(|milestone| {
        status_changed(key.number, key.facility_key(note.facility_line_item), stop, milestone, previous)
    });
    let about = About {
        web_order_id: work_order.web_order_id,
        work_order: Some(key.number.to_owned()),
        invoice_number: None,
    };
    let mut hints = Vec::new();
    for payload in std::iter::once(created).chain(changed) {
        let (customer_code, about) = (work_order.customer_code.as_str(), about.clone());
        let publication = Publication { customer_code, about, payload, idempotency_key: None };
        hints.extend(publish_event(transaction, tenant, publication, now).await?);
    }
    Ok((line_item, hints))
}

async fn target(
    connection: &mut Connection,
    own_customer: Option<&str>,
    key: WorkOrderKey<'_>,
    note: &Note,
) -> Result<NoteTarget, Refusal> {
    const NONE: Refusal = Refusal::NotFound("There is no such work order");
    let work_order = work_orders::find(connection, key.number, own_customer).await?.ok_or(NONE)?;
    if work_order.work_order_type == WorkOrderType::PhotoCopy {
        check_type(&work_order, note)?;
        let stop = stop(connection, key, note.facility_line_item).await?;
        let milestone = match note.milestone_code {
            Some(code) => Some(milestone(connection, code).await?),
            None => None,
        };
        return Ok(NoteTarget { work_order, stop, milestone });
    }
    // Only photocopy work orders have facilities.
    if key.facility_id.is_some() {
        return Err(NONE);
    }
    check_type(&work_order, note)?;
    if note.facility_line_item.is_some() {
        return Err(invalid("facilityLineItem", "only photocopy work orders have stops; leave it out"));
    }
    if note.milestone_code.is_some() {
        return Err(invalid("milestoneCode", "only photocopy work orders have milestones; leave it out"));
    }
    Ok(NoteTarget { work_order, stop: None, milestone: None })
}

fn check_type(work_order: &WorkOrder, note: &Note) -> Result<(), Refusal> {
    let its = work_order.work_order_type;
    match its == note.work_order_type {
        true => Ok(()),
        false => Err(invalid("workOrderType", &format!("the work order has the type {}", its.as_str()))),
    }
}

/// Finds the stop of a note, by its line item or by the facility in the work order's key.
async fn stop(
    connection: &mut Connection,
    key: WorkOrderKey<'_>,
    line_item: Option<i64>,
) -> Result<Option<i64>, Refusal> {
    if line_item.is_none() && key.facility_id.is_none() {
        return Ok(None);
    }
    let mut stops = work_orders::stops(connection, key.number).await?;
    if let Some(id) = key.facility_id {
        stops.retain(|(_, facility_id)| facility_id.as_deref() == Some(id));
        if stops.is_empty() {
            return Err(invalid("workOrder", "the work order has no stop at the facility after the `-`"));
        }
    }
    match (line_item, stops.as_slice()) {
        (Some(line_item), stops) if stops.iter().any(|(its, _)| *its == line_item) => Ok(Some(line_item)),
        (Some(_), _) if key.facility_id.is_some() => Err(invalid(
            "facilityLineItem",
            "is not a stop at the facility in workOrder; send one of the two",
        )),
        (Some(_), _) => Err(invalid("facilityLineItem", "the work order has no such stop")),
        (None, [(only, _)]) => Ok(Some(*only)),
        (None, _) => {
            Err(invalid("facilityLineItem", "required: the work order has several stops at this facility"))
        }
    }
}

async fn milestone(connection: &mut Connection, code: i64) -> Result<Milestone, Refusal> {
    match notes::milestone(connection, code).await? {
        Some(milestone) if milestone.active => Ok(milestone),
        Some(_) => Err(invalid("milestoneCode", "the milestone is no longer in use")),
        None => Err(invalid("milestoneCode", "the tenant has no milestone with this code")),
    }
}

fn status_changed(
    work_order: &str,
    facility_key: String,
    facility_line_item: Option<i64>,
    milestone: Milestone,
    previous: Option<Milestone>,
) -> Payload {
    let (previous_code, previous_title) = match previous {
        Some(Milestone { code, title, .. }) => (Some(code), title),
        None => (None, None),
    };
    Payload::OrderStatusChanged(OrderStatusChanged {
        work_order: work_order.to_owned(),
        order_type: WorkOrderType::PhotoCopy.as_str().to_owned(),
        facility_key,
        facility_line_item,
        milestone_code: milestone.code,
        milestone: milestone.title,
        previous_milestone_code: previous_code,
        previous_milestone: previous_title,
    })
}
