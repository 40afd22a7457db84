//! Saves a web order: creates or changes it, and exports it if the request says so.

use docket_crds::EventCode;
use docket_domain::delivery::DeliveryId;
use docket_domain::event::{OrderSaved, Payload};
use docket_domain::token::TokenSubject;
use docket_orders::{OrderType, SaveRequest};
use docket_schedule::Hint;
use docket_store::deliveries::{self, Due, NewDelivery};
use docket_store::events::{self, About, Event};
use docket_store::orders::{self, OrderHead, OrderStatus, StoredOrder};
use docket_store::{Connection, Transaction, contacts, next_number};
use jiff::Timestamp;

use super::export_order::{Exported, NO_SUCH_ORDER, check_complete, export_stored};
use super::publish_event::{Ids, Publication, publish_event};
use super::{check_version, invalid};
use crate::refusal::{MovedOn, Refusal, Versions};
use crate::tenancy::ServedTenant;

/// What a save did.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The type of the order.
    pub order_type: OrderType,
    /// The web order.
    pub web_order_id: String,
    /// The order's status after the save.
    pub status: OrderStatus,
    /// The order's version after the save.
    pub version: i64,
    /// Whether this save created the order.
    pub created: bool,
    /// Whether anything changed. Saving the same content again changes and publishes nothing.
    pub changed: bool,
    /// The result of the export, if the request asked for one.
    pub exported: Option<Exported>,
}

/// Saves an order with its events in one transaction. The caller publishes the hints after the commit.
pub async fn save_order(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    caller: &TokenSubject,
    request: SaveRequest,
    if_match: &Versions,
    now: Timestamp,
) -> Result<(Saved, Vec<Hint>), Refusal> {
    let export = request.export;
    let (stored, created, changed, mut hints) = match request.web_order_id.clone() {
        None => {
            let customer_code =
                customer_of_new(transaction, caller, request.customer_code.as_deref()).await?;
            create(transaction, tenant, NewOrder::new(tenant, customer_code, request, now)?).await?
        }
        Some(id) => {
            if export || request.finalize == Some(true) {
                check_complete(&request.order)?;
            }
            update(transaction, tenant, caller, &request, (&id, if_match), now).await?
        }
    };
    let mut saved = Saved::of(&stored, created, changed);
    if export {
        let (exported, more) = export_stored(transaction, tenant, stored, now).await?;
        hints.extend(more);
        saved.status = OrderStatus::Exported;
        saved.version = exported.version;
        saved.exported = Some(exported);
    }
    Ok((saved, hints))
}

impl Saved {
    /// The result of a save without an export.
    pub fn of(stored: &StoredOrder, created: bool, changed: bool) -> Self {
        let OrderHead { order_type, id, status, version, .. } = &stored.head;
        Self {
            order_type: *order_type,
            web_order_id: id.clone(),
            status: *status,
            version: *version,
            created,
            changed,
            exported: None,
        }
    }
}

type Written = (StoredOrder, bool, bool, Vec<Hint>);

/// A new order that has no number yet.
pub struct NewOrder {
    customer_code: String,
    request: SaveRequest,
    /// The ids of its event and deliveries; `None` if no webhook receives the event.
    ids: Option<Ids>,
}

impl NewOrder {
    /// Creates the order. If the request makes it final or exports it, checks that it has what an export needs. `now` is the time
    /// of the ids.
    pub fn new(
        tenant: &ServedTenant,
        customer_code: String,
        request: SaveRequest,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        if request.export || request.finalize == Some(true) {
            check_complete(&request.order)?;
        }
        let ids = Ids::new(tenant, &customer_code, EventCode::OrderCreated, now);
        Ok(Self { customer_code, request, ids })
    }

    /// The deliveries of its event, each with its webhook's key.
    pub fn deliveries(&self) -> impl Iterator<Item = (DeliveryId, &str)> {
        self.ids.iter().flat_map(Ids::deliveries)
    }

    /// The order with its number, its event and the event's deliveries, as they are stored.
    pub fn rows(&self, number: i64, now: Timestamp) -> (StoredOrder, Option<(Event, Vec<NewDelivery>)>) {
        let request = &self.request;
        let now_ms = now.as_millisecond();
        let finalized = request.finalize.unwrap_or(false);
        let is_photo_copy = request.order.order_type() == OrderType::PhotoCopy;
        let head = OrderHead {
            id: format!("W{number:08}"),
            order_type: request.order.order_type(),
            customer_code: self.customer_code.clone(),
            status: if finalized { OrderStatus::Finalized } else { OrderStatus::Draft },
            finalized: is_photo_copy.then_some(finalized),
            case_number: None,
            caption: None,
            client_matter_number: None,
            created_at_ms: now_ms,
            updated_at_ms: now_ms,
            exported_at_ms: None,
            version: 1,
        };
        let empty =
            StoredOrder { head, body: String::new(), search_text: String::new(), external_reference: None };
        let stored = filled(empty, request);
        let event = self.ids.as_ref().map(|ids| ids.rows(publication(&stored, request, true), now));
        (stored, event)
    }
}

async fn create(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    new: NewOrder,
) -> Result<Written, Refusal> {
    let number = next_number(transaction, "web_order").await?;
    let now = transaction.now();
    let (stored, event) = new.rows(number, now);
    orders::insert(transaction, &stored).await?;
    let mut hints = Vec::new();
    if let Some((event, deliveries)) = event {
        events::insert(transaction, &event, now.as_millisecond()).await?;
        deliveries::insert_many(transaction, &deliveries, now.as_millisecond()).await?;
        let due = |new: NewDelivery| Due { id: new.id, webhook: new.webhook, at_ms: now.as_millisecond() };
        hints = tenant.hints(deliveries.into_iter().map(due), now);
    }
    Ok((stored, true, true, hints))
}

async fn update(
    transaction: &mut Transaction,
    tenant: &ServedTenant,
    caller: &TokenSubject,
    request: &SaveRequest,
    (id, if_match): (&str, &Versions),
    now: Timestamp,
) -> Result<Written, Refusal> {
    let before = orders::find(transaction, id, caller.own_customer()).await?.ok_or(NO_SUCH_ORDER)?;
    check_customer_unchanged(caller, request, &before)?;
    if before.head.order_type != request.order.order_type() {
        return Err(invalid("orderType", "the type of a saved order can't change; create a new order"));
    }
    match before.head.status {
        OrderStatus::Draft | OrderStatus::Finalized => {}
        OrderStatus::Exported => {
            return Err(Refusal::Conflict("the order is exported and can no longer be changed"));
        }
        OrderStatus::Cancelled => {
            return Err(Refusal::Conflict("the order is cancelled and can no longer be changed"));
        }
    }
    // The check comes only here: a request that fails at every version gets the same error for each version (RFC 9110, 13.2.1).
    check_version(&before.head, if_match, request.version)?;
    let mut after = filled(before.clone(), request);
    if let Some(finalized) = request.finalize {
        after.head.status = if finalized { OrderStatus::Finalized } else { OrderStatus::Draft };
        after.head.finalized = Some(finalized);
    }
    if after.head.status == OrderStatus::Finalized {
        // A finalized order stays complete until the client makes it a draft again.
        check_complete(&request.order)?;
    }
    let changed = after.body != before.body || after.head.status != before.head.status;
    if !changed {
        return Ok((before, false, false, Vec::new()));
    }
    after.head.updated_at_ms = now.as_millisecond();
    after.head.version += 1;
    if !orders::update(transaction, &after).await? {
        return Err(Refusal::OrderChanged(MovedOn::Version(after.head.version)));
    }
    let hints = publish_event(transaction, tenant, publication(&after, request, false), now).await?;
    Ok((after, false, true, hints))
}

/// The customer of a new order: a contact's own, or the customer that an employee names.
pub async fn customer_of_new(
    connection: &mut Connection,
    caller: &TokenSubject,
    named: Option<&str>,
) -> Result<String, Refusal> {
    match (caller, named) {
        (TokenSubject::Contact { customer_code, .. }, None) => Ok(customer_code.clone()),
        (TokenSubject::Contact { .. }, Some(_)) => Err(invalid("customerCode", ONLY_EMPLOYEES)),
        (TokenSubject::Employee { .. }, Some(code))
            if contacts::customer_exists(connection, code).await? =>
        {
            Ok(code.to_owned())
        }
        (TokenSubject::Employee { .. }, Some(_)) => {
            Err(invalid("customerCode", "no customer of the tenant has this code"))
        }
        (TokenSubject::Employee { .. }, None) => {
            Err(invalid("customerCode", "required: an employee names the customer"))
        }
    }
}

const ONLY_EMPLOYEES: &str =
    "only employees name the customer; a contact's orders belong to its own customer; leave it out";

fn check_customer_unchanged(
    caller: &TokenSubject,
    request: &SaveRequest,
    before: &StoredOrder,
) -> Result<(), Refusal> {
    match (caller, &request.customer_code) {
        (_, None) => Ok(()),
        (TokenSubject::Contact { .. }, Some(_)) => Err(invalid("customerCode", ONLY_EMPLOYEES)),
        (TokenSubject::Employee { .. }, Some(code)) if *code == before.head.customer_code => Ok(()),
        (TokenSubject::Employee { .. }, Some(_)) => {
            Err(invalid("customerCode", "the customer of a saved order can't change; create a new order"))
        }
    }
}

/// Puts the request's content into the stored order.
fn filled(mut stored: StoredOrder, request: &SaveRequest) -> StoredOrder {
    let terms = request.order.search_terms();
    stored.head.case_number = terms.case_number;
    stored.head.caption = terms.caption;
    stored.head.client_matter_number = terms.client_matter_number;
    stored.search_text = terms.text;
    stored.external_reference = terms.external_reference;
    stored.body = request.order.to_stored();
    stored
}

fn publication<'a>(stored: &'a StoredOrder, request: &SaveRequest, created: bool) -> Publication<'a> {
    let data = OrderSaved {
        order_type: stored.head.order_type.as_str().to_owned(),
        web_order_id: stored.head.id.clone(),
        finalize: (stored.head.order_type == OrderType::PhotoCopy).then(|| request.finalize.unwrap_or(false)),
    };
    Publication {
        customer_code: &stored.head.customer_code,
        about: About::web_order(&stored.head.id),
        payload: if created { Payload::OrderCreated(data) } else { Payload::OrderUpdated(data) },
        idempotency_key: None,
    }
}
