//! What a text from a person names: an order, an invoice, an event, a delivery or a customer, in upper or lower case.

use docket_domain::reading::{Reading, readings};
use docket_domain::trace::TraceKind;
use docket_program::clock::Clock;
use docket_store::deliveries::{self, DeliveryFilter, ListedDelivery};
use docket_store::walk::Page;
use docket_store::{Connection, StoreError, contacts, invoices, orders, work_orders};

/// The longest text that names anything, in characters.
pub const MAX_CHARS: usize = 100;
/// The most customers that are found by a part of their names.
const MAX_NAMED: i64 = 10;
/// The shortest part of a customer's name, in characters.
const MIN_NAME: usize = 2;

/// Something that a text may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meant {
    /// Its kind.
    pub kind: TraceKind,
    /// Its number, id or code as it is stored. Of a delivery, the id of the delivery.
    pub id: String,
    /// What else is known of it: the customer, or the name of a customer.
    pub about: String,
}

impl Meant {
    fn new(kind: TraceKind, id: impl Into<String>, about: impl Into<String>) -> Self {
        Self { kind, id: id.into(), about: about.into() }
    }
}

/// Returns what a text names, in few statements. `only`: only things of this kind. `customer`: only what is this customer's.
pub async fn meant(
    reader: &mut Connection,
    clock: &Clock,
    text: &str,
    only: Option<TraceKind>,
    customer: Option<&str>,
) -> Result<Vec<Meant>, StoreError> {
    let may_be = |kind| only.is_none_or(|only| only == kind);
    let is_own = |code: &str| customer.is_none_or(|customer| customer == code);
    let readings = readings(text);
    for reading in &readings {
        let found = delivery_or_event(reader, clock, reading, customer).await?;
        if let Some(found) = found.filter(|found| may_be(found.kind)) {
            return Ok(vec![found]);
        }
    }
    let number = |reading: &Reading| match reading {
        Reading::Number(number) => Some(number.clone()),
        Reading::Delivery(_) | Reading::Event(_) | Reading::WorkOrder(_) => None,
    };
    let numbers: Vec<String> = readings.iter().filter_map(number).collect();
    let mut all = Vec::new();
    if may_be(TraceKind::WebOrder) {
        for id in &numbers {
            let found = orders::find(reader, id, customer).await?.map(|found| found.head);
            all.extend(found.map(|head| Meant::new(TraceKind::WebOrder, head.id, head.customer_code)));
        }
    }
    if may_be(TraceKind::WorkOrder) {
        for reading in &readings {
            let (Reading::Number(number) | Reading::WorkOrder(number)) = reading else { continue };
            let found = work_orders::find(reader, number, customer).await?;
            all.extend(found.map(|found| Meant::new(TraceKind::WorkOrder, number, found.customer_code)));
        }
    }
    if may_be(TraceKind::Invoice) {
        for found in invoices::with_numbers(reader, &numbers).await? {
            let code = found.customer_code.unwrap_or_default();
            if is_own(&code) {
                all.push(Meant::new(TraceKind::Invoice, found.invoice_number, code));
            }
        }
    }
    if may_be(TraceKind::Customer) {
        let codes: Vec<&str> = numbers.iter().map(String::as_str).collect();
        for (code, name) in contacts::customer_names(reader, &codes).await? {
            if is_own(&code) {
                all.push(Meant::new(TraceKind::Customer, code, name));
            }
        }
        if all.is_empty() && text.chars().count() >= MIN_NAME {
            all = named(reader, text, customer).await?;
        }
    }
    // The invoices of two families may have one number.
    all.dedup();
    Ok(all)
}

/// The delivery or the event that a reading names.
async fn delivery_or_event(
    reader: &mut Connection,
    clock: &Clock,
    reading: &Reading,
    customer: Option<&str>,
) -> Result<Option<Meant>, StoreError> {
    let kind = match reading {
        Reading::Delivery(_) => TraceKind::Delivery,
        Reading::Event(_) => TraceKind::Event,
        Reading::Number(_) | Reading::WorkOrder(_) => return Ok(None),
    };
    let all = DeliveryFilter { customer_code: customer.map(str::to_owned), ..DeliveryFilter::default() };
    let Some(filter) = about(reading, all) else { return Ok(None) };
    let found = deliveries::search(reader, clock, &filter, 1).await?.items.pop();
    Ok(found.map(|found| {
        let id = if kind == TraceKind::Event { found.event_id } else { found.id };
        Meant::new(kind, id, found.customer_code)
    }))
}

/// The filter for the deliveries that `filter` finds and that are about what a reading names.
fn about(reading: &Reading, filter: DeliveryFilter) -> Option<DeliveryFilter> {
    match reading.clone() {
        Reading::Delivery(id) if filter.id.is_some_and(|other| other != id) => None,
        Reading::Delivery(id) => Some(DeliveryFilter { id: Some(id), ..filter }),
        Reading::Event(id) if filter.event_id.as_ref().is_some_and(|other| *other != id) => None,
        Reading::Event(id) => Some(DeliveryFilter { event_id: Some(id), ..filter }),
        Reading::Number(number) | Reading::WorkOrder(number) => {
            Some(DeliveryFilter { about: Some(number), ..filter })
        }
    }
}

/// Returns a page of the deliveries that `filter` finds and that a text is about. The first reading of the text that has deliveries
/// counts.
pub async fn deliveries_about(
    reader: &mut Connection,
    clock: &Clock,
    text: &str,
    filter: &DeliveryFilter,
    size: i64,
) -> Result<Page<ListedDelivery>, StoreError> {
    let mut page = Page { items: Vec::new(), next: None };
    for reading in readings(text) {
        let Some(filter) = about(&reading, filter.clone()) else { continue };
        page = deliveries::search(reader, clock, &filter, size).await?;
        if !page.items.is_empty() || page.next.is_some() {
            break;
        }
    }
    Ok(page)
}

/// The customers whose names contain a text.
async fn named(
    reader: &mut Connection,
    text: &str,
    customer: Option<&str>,
) -> Result<Vec<Meant>, StoreError> {
    let found = match customer {
        None => {
            let found = contacts::customers_named(reader, text, MAX_NAMED).await?;
            found.into_iter().map(|customer| (customer.code, customer.name)).collect()
        }
        Some(own) => {
            let mut own = contacts::customer_names(reader, &[own]).await?;
            own.retain(|_, name| name.to_lowercase().contains(&text.to_lowercase()));
            own.into_iter().collect::<Vec<_>>()
        }
    };
    Ok(found.into_iter().map(|(code, name)| Meant::new(TraceKind::Customer, code, name)).collect())
}

/// Orders whose numbers are nearly a text that names nothing.
#[derive(Debug, Default)]
pub struct Near {
    /// The orders: a web order whose zeros were left out and, unless the user sees only one customer, the orders beside the number.
    pub orders: Vec<Meant>,
    /// The newest web order, if the text is a later number.
    pub newest: Option<String>,
}

/// Returns the orders whose numbers are nearly the text, which names nothing.
pub async fn near(reader: &mut Connection, text: &str, customer: Option<&str>) -> Result<Near, StoreError> {
    let (mut near, mut newest) = (Vec::new(), None);
    if let Some(id) = padded(text) {
        let found = orders::find(reader, &id, customer).await?.map(|found| found.head);
        near.extend(found.map(|head| Meant::new(TraceKind::WebOrder, head.id, head.customer_code)));
    }
    let text = text.to_uppercase();
    if near.is_empty() && customer.is_none() {
        let beside = orders::beside(reader, &text).await?;
        newest = later_than(&text, &beside).map(str::to_owned);
        let beside = beside.into_iter().filter(|id| newest.as_ref() != Some(id));
        near.extend(beside.map(|id| Meant::new(TraceKind::WebOrder, id, "")));
        let beside = work_orders::beside(reader, &text).await?.into_iter();
        near.extend(beside.map(|number| Meant::new(TraceKind::WorkOrder, number, "")));
        near.retain(|one| is_near(&text, &one.id));
    }
    Ok(Near { orders: near, newest })
}

/// The newest web order, if this text has the form of a web order's id and is later. `beside`: the ids beside the text.
fn later_than<'a>(text: &str, beside: &'a [String]) -> Option<&'a str> {
    let is_id = padded(text).as_deref() == Some(text);
    match beside {
        [newest] if is_id && newest.as_str() < text => Some(newest),
        _ => None,
    }
}

/// The id of the web order with this number, whose `W` and zeros may be left out.
fn padded(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['W', 'w']).unwrap_or(text);
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("W{digits:0>8}"))
}

/// Whether a person may have meant `other`: both have nearly the same length, and the same first half.
fn is_near(text: &str, other: &str) -> bool {
    let lengths = [text, other].map(|one| one.chars().count());
    let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    lengths[0].abs_diff(lengths[1]) <= 1 && 2 * same >= lengths[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_a_web_order_may_be_left_out() {
        for text in ["27", "w27", "W0027", "00000027"] {
            assert_eq!(padded(text).as_deref(), Some("W00000027"), "{text}");
        }
        for other in ["", "W", "123456789", "-7", "PR27"] {
            assert_eq!(padded(other), None, "{other}");
        }
    }

    #[test]
    fn only_a_number_after_all_orders_is_later_than_the_newest() {
        let ids = |ids: &[&str]| -> Vec<String> { ids.iter().map(|id| (*id).to_owned()).collect() };
        let later = |text, beside: &[&str]| later_than(text, &ids(beside)).map(str::to_owned);
        assert_eq!(later("W00000099", &["W00000015"]).as_deref(), Some("W00000015"));
        for (text, beside) in [
            ("W00000009", &["W00000008", "W00000010"][..]),
            ("W00000001", &["W00000002"]),
            ("W00000001", &[]),
            ("X9", &["W00000015"]),
        ] {
            assert_eq!(later(text, beside), None, "{text}");
        }
    }

    #[test]
    fn number_beside_is_near_if_its_first_half_is_the_same() {
        assert!(is_near("PR1000009", "PR1000001") && is_near("PR100001", "PR1000001"));
        assert!(!is_near("PR9000009", "PR1000001") && !is_near("hello", "W00000001"));
        assert!(!is_near("PR1", "PR1000001") && !is_near("", "W00000001"));
    }
}
