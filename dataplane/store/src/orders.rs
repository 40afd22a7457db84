//! Web orders: what clients save.

use std::collections::BTreeMap;

use docket_domain::fold::{folded, is_unseen};
use docket_domain::order_type::OrderType;
use docket_program::clock::Clock;
use docket_schema::postgres::LONGEST_ANSWER;

use crate::connection::{Connection, Transaction};
use crate::error::StoreError;
use crate::sql::{Param, Row, Rows, Search, Statement, containing, params, read};
use crate::walk::{Page, RowPosition, Walk, in_order_of};

docket_crds::words! {
    /// The state of a web order.
    pub enum OrderStatus {
        /// Saved; may be changed.
        Draft,
        /// A photocopy order that its client has finalized.
        Finalized,
        /// Its work orders exist. It can't be changed any more.
        Exported,
        /// The order was cancelled.
        Cancelled,
    }
}

/// A web order without its body.
#[derive(Clone)]
pub struct OrderHead {
    /// `webOrderId`.
    pub id: String,
    /// The type of the order.
    pub order_type: OrderType,
    /// The customer to which the order belongs.
    pub customer_code: String,
    /// The state of the order.
    pub status: OrderStatus,
    /// Whether a photocopy order is finalized; `None` for other types.
    pub finalized: Option<bool>,
    /// The court's case number, if the order has one.
    pub case_number: Option<String>,
    /// The case's caption.
    pub caption: Option<String>,
    /// The firm's matter number.
    pub client_matter_number: Option<String>,
    /// When the order was first saved.
    pub created_at_ms: i64,
    /// When the order was last changed or exported.
    pub updated_at_ms: i64,
    /// When the order was exported.
    pub exported_at_ms: Option<i64>,
    /// The number of changes, including the first save and the export. An update names the version that it has read.
    pub version: i64,
}

/// A web order as it is stored.
#[derive(Clone)]
pub struct StoredOrder {
    /// Everything except the body.
    pub head: OrderHead,
    /// The order in canonical JSON.
    pub body: String,
    /// The text that a search by `text` searches.
    pub search_text: String,
    /// The caller's own key.
    pub external_reference: Option<String>,
}

macro_rules! head {
    () => {
        "id, order_type, customer_code, status, finalized, case_number, caption, client_matter_number, \
         created_at_ms, updated_at_ms, exported_at_ms, version"
    };
}
const HEAD: &str = head!();

fn head(row: &Row) -> Result<OrderHead, StoreError> {
    Ok(read!(row => OrderHead {
        id, order_type: parsed, customer_code, status: parsed, finalized, case_number, caption, client_matter_number,
        created_at_ms, updated_at_ms, exported_at_ms, version,
    }))
}

static INSERT: Rows = Rows::new(
    "INSERT INTO web_order (id, order_type, customer_code, status, finalized, case_number, caption, \
     client_matter_number, created_at_ms, updated_at_ms, exported_at_ms, body, search_text, version, \
     external_reference) \
     {text, text, text, text, boolean, text, text, text, bigint, bigint, bigint, text, text, bigint, text}",
);

/// Stores a new order. [`StoreError::Conflict`]: the customer does not exist.
pub async fn insert(transaction: &mut Transaction, order: &StoredOrder) -> Result<(), StoreError> {
    transaction.all(inserts([order])).await.map(drop)
}

pub(crate) fn inserts<'a>(orders: impl IntoIterator<Item = &'a StoredOrder>) -> Option<Statement> {
    INSERT.statement(orders.into_iter().map(|order| {
        let StoredOrder { head, body, search_text, external_reference } = order;
        [
            Param::from(&head.id),
            Param::Word(head.order_type.as_str()),
            (&head.customer_code).into(),
            Param::Word(head.status.as_str()),
            head.finalized.into(),
            head.case_number.as_ref().into(),
            head.caption.as_ref().into(),
            head.client_matter_number.as_ref().into(),
            head.created_at_ms.into(),
            head.updated_at_ms.into(),
            head.exported_at_ms.into(),
            body.into(),
            search_text.into(),
            head.version.into(),
            external_reference.as_ref().into(),
        ]
    }))
}

/// Stores a changed order if its stored version is the one before `order.head.version`. `false`: another request was faster.
pub async fn update(transaction: &mut Transaction, order: &StoredOrder) -> Result<bool, StoreError> {
    let sql = "UPDATE web_order SET status = $1, finalized = $2, case_number = $3, caption = $4, \
               client_matter_number = $5, updated_at_ms = $6, exported_at_ms = $7, body = $8, search_text = $9, \
               version = $10, external_reference = $11 WHERE id = $12 AND version = $13";
    let StoredOrder { head, body, search_text, external_reference } = order;
    let params = params![
        head.status.as_str(),
        head.finalized,
        head.case_number.clone(),
        head.caption.clone(),
        head.client_matter_number.clone(),
        head.updated_at_ms,
        head.exported_at_ms,
        body,
        search_text,
        head.version,
        external_reference.clone(),
        &head.id,
        head.version - 1,
    ];
    Ok(transaction.execute(sql, params).await? == 1)
}

/// The order with this id; if a customer is given, only if the order is the customer's.
pub async fn find(
    connection: &mut Connection,
    id: &str,
    customer_code: Option<&str>,
) -> Result<Option<StoredOrder>, StoreError> {
    // The body of another customer's order is not read, because the time for reading would reveal its length.
    let sql = format!(
        "SELECT {HEAD}, body, search_text, external_reference FROM web_order \
         WHERE id = $1 AND customer_code = coalesce($2, customer_code)"
    );
    let row = connection.query_opt(&sql, params![id, customer_code]).await?;
    let stored = |row: Row| {
        let (body, search_text, external_reference) = (row.get(12)?, row.get(13)?, row.get(14)?);
        Ok(StoredOrder { head: head(&row)?, body, search_text, external_reference })
    };
    row.map(stored).transpose()
}

/// The ids of the web orders beside this id, in the order of ids: the last before it, and the first after it.
pub async fn beside(connection: &mut Connection, id: &str) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT id FROM (SELECT id FROM web_order WHERE id < $1 ORDER BY id DESC LIMIT 1) AS earlier \
               UNION ALL SELECT id FROM (SELECT id FROM web_order WHERE id > $1 ORDER BY id LIMIT 1) AS later";
    connection.column(sql, params![id]).await
}

/// A web order that is read together with others.
#[derive(Clone)]
pub struct ReadOrder {
    /// Everything except the body.
    pub head: OrderHead,
    /// The order in canonical JSON; `None`: it is longer than [`LONGEST_READ`].
    pub body: Option<String>,
}

/// The largest number of orders that are read together.
pub const MOST_READ: usize = 64;
/// The longest body of an order that is read together with others, in bytes.
pub const LONGEST_READ: usize = 32_768;
// All other columns of an order have less than 4 KiB together.
const _: () = assert!(MOST_READ * (LONGEST_READ + 4_096) <= LONGEST_ANSWER);

static READ: Rows = Rows::new(concat!(
    "SELECT ",
    head!(),
    ", CASE WHEN octet_length(body) <= 32768 THEN body END FROM web_order WHERE id {$1 text}"
));
static READ_OF_CUSTOMER: Rows = Rows::new(concat!(
    "SELECT ",
    head!(),
    ", CASE WHEN octet_length(body) <= 32768 THEN body END FROM web_order WHERE id {$1 text} AND customer_code {$2 text}"
));

/// The orders with these ids, at most [`MOST_READ`]; each id may name a customer, to whom the order must belong.
/// Nothing is read of another customer's order, because the time for reading would reveal its length.
pub async fn read<'a>(
    connection: &mut Connection,
    orders: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<Vec<ReadOrder>, StoreError> {
    let mut of_all = Vec::new();
    let mut of_customers = BTreeMap::<_, Vec<_>>::new();
    for (id, customer_code) in orders {
        match customer_code {
            Some(code) => of_customers.entry(code).or_default().push([id.into(), code.into()]),
            None => of_all.push([id.into()]),
        }
    }
    let statements = of_customers.into_values().map(|orders| READ_OF_CUSTOMER.statement(orders));
    let rows = connection.all(statements.chain([READ.statement(of_all)]).flatten()).await?;
    let read = |row: Row| {
        // Checked again here, because the owner of a database decides what its functions do.
        let body = row.get::<Option<String>>(12)?.filter(|body| body.len() <= LONGEST_READ);
        Ok(ReadOrder { head: head(&row)?, body })
    };
    rows.into_iter().flatten().map(read).collect()
}

/// Locks the order until the transaction ends: other transactions that lock it wait. If a customer or a type is given, only an order
/// of the customer and of the type is locked.
pub async fn lock(
    transaction: &mut Transaction,
    id: &str,
    customer_code: Option<&str>,
    order_type: Option<OrderType>,
) -> Result<(), StoreError> {
    let sql = "SELECT id FROM web_order WHERE id = $1 AND customer_code = coalesce($2, customer_code) \
               AND order_type = coalesce($3, order_type) FOR UPDATE";
    transaction.lock(sql, params![id, customer_code, order_type.map(OrderType::as_str)]).await
}

/// The conditions of a search. Times are inclusive at the start and exclusive at the end.
#[derive(Clone, Default)]
pub struct OrderFilter {
    /// Only orders of this customer.
    pub customer_code: Option<String>,
    /// Only orders of this type.
    pub order_type: Option<OrderType>,
    /// Only orders in this status.
    pub status: Option<OrderStatus>,
    /// Created at this time or later, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Created before this time, in milliseconds since 1970.
    pub to_ms: Option<i64>,
    /// Only orders with exactly this external reference.
    pub external_reference: Option<String>,
    /// A part of the search text, as people type it.
    pub text: Option<String>,
    /// After this order, in the order of the search.
    pub after: Option<RowPosition>,
}

/// The newest matching orders, at most `page_size`, newest first. New orders do not change the pages.
pub async fn search(
    connection: &mut Connection,
    clock: &Clock,
    filter: &OrderFilter,
    page_size: i64,
) -> Result<Page<OrderHead>, StoreError> {
    let OrderFilter { customer_code, order_type, status, external_reference, from_ms, to_ms, text, after } =
        filter;
    if text.as_deref().is_some_and(is_unseen) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let of_customer = |mut search: Search| {
        search.and_some("customer_code = $1", customer_code.as_ref());
        search.and_some("created_at_ms >= $1", *from_ms);
        search.and_some("created_at_ms < $1", *to_ms);
        search
    };
    let rows = || of_customer(Search::new("SELECT created_at_ms, id FROM web_order"));
    let matching = |few: Option<Search>| {
        let mut search = of_customer(match few {
            Some(few) => few.within(&format!("SELECT {HEAD} FROM"), "web_order"),
            None => Search::new(&format!("SELECT {HEAD} FROM web_order")),
        });
        search.and_some("order_type = $1", order_type.map(OrderType::as_str));
        search.and_some("status = $1", status.map(OrderStatus::as_str));
        search.and_some("external_reference = $1", external_reference.as_ref());
        if let Some(text) = text {
            // The second pattern finds texts that are not folded yet.
            let either = "(search_text LIKE $1 ESCAPE '\\' OR search_text LIKE $2 ESCAPE '\\')";
            search
                .and(either, [folded(text), text.to_lowercase()].map(|text| containing(text.trim()).into()));
        }
        search
    };
    let by_word = order_type.is_some() || status.is_some();
    let is_indexed = !by_word && text.is_none() && external_reference.is_none();
    let of_reference = external_reference.iter().map(|reference| {
        let mut search = Search::new("SELECT * FROM web_order");
        search.and(&in_order_of("external_reference"), [reference.into()]);
        vec![search]
    });
    let rare = of_reference.chain(by_word.then(|| of_words(filter))).collect();
    let rare_first = external_reference.is_some();
    let walk = Walk { table: "web_order", page_size, after: after.as_ref(), is_indexed, rare, rare_first };
    let place_of = |head: &OrderHead| (head.created_at_ms, head.id.clone());
    walk.page(connection, clock, rows, matching, head, place_of).await
}

/// For the conditions on status, type and customer: searches for all such orders, whenever they were created. There
/// is one search for each status and type that may be meant.
fn of_words(filter: &OrderFilter) -> Vec<Search> {
    let statuses = OrderStatus::ALL.iter().filter(|one| filter.status.is_none_or(|status| status == **one));
    let types = OrderType::ALL.iter().filter(|one| filter.order_type.is_none_or(|of| of == **one));
    let of = |(status, order_type): (&OrderStatus, &OrderType)| {
        let mut search = Search::new("SELECT * FROM web_order");
        let words: [Param; 2] = [status.as_str().into(), order_type.as_str().into()];
        match &filter.customer_code {
            Some(code) => {
                let columns = "status, order_type, customer_code";
                let condition = format!("({columns}) >= ($1, $2, $3) AND ({columns}) <= ($1, $2, $3)");
                let values = words.into_iter().chain([code.into()]);
                search.and(&format!("{condition} ORDER BY {columns}"), values);
            }
            None => {
                let columns = "status, order_type";
                let condition = format!("({columns}) >= ($1, $2) AND ({columns}) <= ($1, $2)");
                search.and(&format!("{condition} ORDER BY {columns}"), words);
            }
        }
        search
    };
    statuses.flat_map(|status| types.clone().map(move |order_type| (status, order_type))).map(of).collect()
}
