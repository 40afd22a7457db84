//! Exports a web order: creates its work orders in the back office and publishes order.exported.

use docket_domain::event::{OrderExported, Payload};
use docket_domain::token::TokenSubject;
use docket_domain::work_order::WorkOrderType;
use docket_orders::servee::Servee;
use docket_orders::{Order, OrderType, Problem, Problems};
use docket_schedule::Hint;
use docket_store::events::About;
use docket_store::orders::{self, OrderHead, OrderStatus, StoredOrder};
use docket_store::work_orders::{self, NewFacility, NewServee, NewWorkOrder};
use docket_store::{Connection, StoreError, Transaction, next_number};
use jiff::Timestamp;

use super::check_version;
use super::publish_event::{Publication, publish_event};
use crate::refusal::{MovedOn, Refusal, Versions};
use crate::tenancy::ServedTenant;

/// The result of the export of an order, now or earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The type of the order.
    pub order_type: OrderType,
    /// The web order.
    pub web_order_id: String,
    /// The primary work order.
    pub work_order_id: String,
    /// The court work order of a file-and-serve export.
    pub court_work_order: Option<String>,
    /// The process work orders, if the order has any.
    pub process_work_orders: Option<Vec<String>>,
    /// The version of the web order after the export.
    pub version: i64,
}

impl From<Exported> for OrderExported {
    fn from(exported: Exported) -> Self {
        let Exported {
            order_type, web_order_id, work_order_id, court_work_order, process_work_orders, ..
        } = exported;
        let order_type = order_type.to_string();
        Self { order_type, web_order_id, work_order_id, court_work_order, process_work_orders }
    }
}

/// The refusal of an order that does not exist or belongs to another customer: the message does not reveal which.
pub(super) const NO_SUCH_ORDER: Refusal = Refusal::NotFound("There is no such web order");

/// Exports the order with this id, which must have the type `order_type` if one is given. A second export returns the numbers of
/// the first and publishes nothing, also if its `if_match` names the version before the first: its purpose has been reached (RFC
/// 9110, section 13.1.1).
pub async fn export_order(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    caller: &TokenSubject,
    (web_order_id, order_type): (&str, Option<OrderType>),
    if_match: &Versions,
    now: Timestamp,
) -> Result<(Exported, Vec<Hint>), Refusal> {
    // If two exports come at once, the second reads what the first has written. An order of another customer or type is not locked: the
    // order's own exports would wait for a refusal.
    let customer = caller.own_customer();
    orders::lock(transaction, web_order_id, customer, order_type).await?;
    let stored = orders::find(transaction, web_order_id, customer).await?.ok_or(NO_SUCH_ORDER)?;
    let actual = stored.head.order_type;
    if order_type.is_some_and(|order_type| order_type != actual) {
        let message = format!("the order is of type {actual}; leave orderType out, or send that");
        return Err(Refusal::Invalid(Problem { field: "orderType".to_owned(), message }.into()));
    }
    match stored.head.status {
        OrderStatus::Exported => {
            // The export was the last change, and the first request named the version before it.
            if !if_match.allows(stored.head.version - 1) {
                check_version(&stored.head, if_match, None)?;
            }
            Ok((exported(transaction, &stored.head).await?, Vec::new()))
        }
        OrderStatus::Cancelled => Err(Refusal::Conflict("the order is cancelled")),
        OrderStatus::Draft | OrderStatus::Finalized => {
            check_version(&stored.head, if_match, None)?;
            export_stored(transaction, tenant, stored, now).await
        }
    }
}

/// Exports an order that this transaction has read or written, and that is not exported yet.
pub(super) async fn export_stored(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    mut stored: StoredOrder,
    now: Timestamp,
) -> Result<(Exported, Vec<Hint>), Refusal> {
    let order = Order::from_stored(&stored.body)?;
    check_complete(&order)?;
    let now_ms = now.as_millisecond();
    stored.head.status = OrderStatus::Exported;
    stored.head.updated_at_ms = now_ms;
    stored.head.exported_at_ms = Some(now_ms);
    stored.head.version += 1;
    if !orders::update(transaction, &stored).await? {
        return Err(Refusal::OrderChanged(MovedOn::Version(stored.head.version)));
    }
    let work_orders = number_work_orders(transaction, &order).await?;
    work_orders::insert(transaction, &stored.head, &work_orders, now_ms).await?;
    let numbers = work_orders.iter().map(|w| (w.number.clone(), w.work_order_type)).collect();
    let exported = named(stored.head.order_type, (&stored.head.id, stored.head.version), numbers)?;
    let payload = Payload::OrderExported(exported.clone().into());
    let publication = Publication {
        customer_code: &stored.head.customer_code,
        about: About::web_order(&stored.head.id),
        payload,
        idempotency_key: Some(format!("order.exported:{}", stored.head.id)),
    };
    let hints = publish_event(transaction, tenant, publication, now).await?;
    Ok((exported, hints))
}

/// Checks that an order has every field that its export needs and does not contradict itself. A draft may lack fields.
pub(super) fn check_complete(order: &Order) -> Result<(), Problems> {
    order.check_export().into_iter().chain(order.check_draft()).collect::<Problems>().into_result()
}

/// The result of an earlier export.
async fn exported(connection: &mut Connection, head: &OrderHead) -> Result<Exported, StoreError> {
    let numbers = work_orders::of_web_order(connection, &head.id).await?;
    named(head.order_type, (&head.id, head.version), numbers)
}

/// The result of an earlier export; `None` if the order is not exported.
pub async fn work_orders_of(
    connection: &mut Connection,
    head: &OrderHead,
) -> Result<Option<Exported>, StoreError> {
    match head.status {
        OrderStatus::Exported => exported(connection, head).await.map(Some),
        OrderStatus::Draft | OrderStatus::Finalized | OrderStatus::Cancelled => Ok(None),
    }
}

/// The family of each work order that an export creates, in their order, with the servee of each.
fn families(order: &Order) -> Vec<(WorkOrderType, Option<NewServee>)> {
    fn new(servee: &Servee) -> NewServee {
        NewServee { name: servee.display_name(), address: servee.first_address() }
    }
    let per_servee = || order.servees().iter().map(|servee| (WorkOrderType::Process, Some(new(servee))));
    match order.order_type() {
        OrderType::Court | OrderType::CountyRecording => vec![(WorkOrderType::Court, None)],
        OrderType::Process => per_servee().collect(),
        OrderType::Delivery => vec![(WorkOrderType::Delivery, None)],
        OrderType::Investigation => vec![(WorkOrderType::Investigation, None)],
        OrderType::FileAndServe => {
            std::iter::once((WorkOrderType::Court, None)).chain(per_servee()).collect()
        }
        OrderType::PhotoCopy => vec![(WorkOrderType::PhotoCopy, None)],
    }
}

async fn number_work_orders(
    transaction: &mut Transaction,
    order: &Order,
) -> Result<Vec<NewWorkOrder>, StoreError> {
    let mut work_orders = Vec::new();
    for (family, servee) in families(order) {
        let number = free_number(transaction, family).await?;
        work_orders.push(NewWorkOrder {
            number,
            work_order_type: family,
            servee,
            facilities: facilities(order),
        });
    }
    Ok(work_orders)
}

/// The next number of the family that the back office has not used for a work order of its own.
async fn free_number(transaction: &mut Transaction, family: WorkOrderType) -> Result<String, StoreError> {
    loop {
        let number = format!("{}{}", family.prefix(), next_number(transaction, family.as_str()).await?);
        if work_orders::find(transaction, &number, None).await?.is_none() {
            return Ok(number);
        }
    }
}

/// The stops of a photocopy order.
fn facilities(order: &Order) -> Vec<NewFacility> {
    let text = |text: &str| text.to_owned();
    order
        .facilities()
        .iter()
        .map(|facility| NewFacility {
            facility_id: facility.facility_id.as_ref().map(|id| text(id.as_str())),
            name: facility.name.as_ref().map(|name| text(name.as_str())),
        })
        .collect()
}

/// Names the work orders by the order's type: the primary one, and the ones with a field of their own.
fn named(
    order_type: OrderType,
    (web_order_id, version): (&str, i64),
    numbers: Vec<(String, WorkOrderType)>,
) -> Result<Exported, StoreError> {
    let of = |family: WorkOrderType| -> Vec<String> {
        numbers.iter().filter(|(_, its)| *its == family).map(|(number, _)| number.clone()).collect()
    };
    let primary = numbers
        .first()
        .map(|(number, _)| number.clone())
        .ok_or(StoreError::Unexpected("an export without work orders"))?;
    let (court_work_order, process_work_orders) = match order_type {
        OrderType::Process => (None, Some(of(WorkOrderType::Process))),
        OrderType::FileAndServe => (Some(primary.clone()), Some(of(WorkOrderType::Process))),
        OrderType::Court
        | OrderType::Delivery
        | OrderType::Investigation
        | OrderType::CountyRecording
        | OrderType::PhotoCopy => (None, None),
    };
    Ok(Exported {
        order_type,
        web_order_id: web_order_id.to_owned(),
        work_order_id: primary,
        court_work_order,
        process_work_orders,
        version,
    })
}

#[cfg(test)]
mod tests {
    use WorkOrderType::{Court, Process};

    use super::*;

    fn numbers(families: &[WorkOrderType]) -> Vec<(String, WorkOrderType)> {
        families.iter().enumerate().map(|(n, family)| (format!("{}{n}", family.prefix()), *family)).collect()
    }

    #[test]
    fn process_export_names_its_first_and_all_work_orders() {
        let exported =
            named(OrderType::Process, ("W1", 1), numbers(&[Process, Process])).expect("work orders");
        assert_eq!(exported.work_order_id, "PR0");
        assert_eq!(exported.court_work_order, None);
        assert_eq!(exported.process_work_orders, Some(vec!["PR0".into(), "PR1".into()]));
    }

    #[test]
    fn file_and_serve_export_names_its_court_and_process_work_orders() {
        let made = numbers(&[Court, Process, Process]);
        let exported = named(OrderType::FileAndServe, ("W1", 1), made).expect("work orders");
        assert_eq!(exported.work_order_id, "CT0");
        assert_eq!(exported.court_work_order.as_deref(), Some("CT0"));
        assert_eq!(exported.process_work_orders, Some(vec!["PR1".into(), "PR2".into()]));
    }

    #[test]
    fn export_of_another_type_names_one_work_order() {
        for order_type in [OrderType::Court, OrderType::CountyRecording, OrderType::PhotoCopy] {
            let exported = named(order_type, ("W1", 1), numbers(&[Court])).expect("work orders");
            assert_eq!((exported.court_work_order, exported.process_work_orders), (None, None));
        }
    }

    #[test]
    fn each_example_creates_the_work_orders_of_its_type() {
        for (order_type, example) in docket_orders::examples() {
            let request = docket_orders::SaveRequest::read(example.as_bytes()).expect("an example");
            let families: Vec<&str> =
                families(&request.order).into_iter().map(|(family, _)| family.as_str()).collect();
            let expected: &[&str] = match order_type {
                OrderType::Court | OrderType::CountyRecording => &["Court"],
                OrderType::Process => &["Process", "Process"],
                OrderType::Delivery => &["Delivery"],
                OrderType::Investigation => &["Investigation"],
                OrderType::FileAndServe => &["Court", "Process"],
                OrderType::PhotoCopy => &["PhotoCopy"],
            };
            assert_eq!(families, expected, "{order_type}");
        }
    }
}
