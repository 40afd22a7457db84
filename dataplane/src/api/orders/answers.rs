//! Responses of the writes to orders. They are kept for repeats under the same Idempotency-Key.

use docket_orders::OrderType;
use docket_orders::order_type::OrderTypeComponent;
use docket_store::orders::OrderStatus;
use serde::Serialize;
use utoipa::ToSchema;

use crate::actions::export_order::Exported;
use crate::actions::save_order::Saved;
use crate::http::words::word_schema;

word_schema!(
    /// The status of a web order: [`OrderStatus`].
    OrderState => OrderStatus,
    "Draft, Finalized (photocopy only), Exported or Cancelled."
);

/// The response of POST /Orders/Save.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SaveAnswer {
    #[schema(value_type = OrderTypeComponent)]
    order_type: OrderType,
    /// The web order's id, for later calls.
    #[schema(example = "W00000001")]
    web_order_id: String,
    /// Draft, Finalized (photocopy) or Exported.
    #[schema(value_type = OrderState, example = "Draft")]
    status: &'static str,
    /// The order's version after the save.
    #[schema(example = 1, minimum = 1)]
    version: i64,
    /// Whether this save created the order.
    created: bool,
    /// Whether this save changed anything. Saving the same content again does not.
    changed: bool,
    /// With `export`: the primary work order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    work_order_id: Option<String>,
    /// With `export`: the court work order of a file-and-serve order.
    #[serde(skip_serializing_if = "Option::is_none")]
    court_work_order: Option<Option<String>>,
    /// With `export`: the process work orders, if the order has any, in the order of `servees`.
    #[serde(skip_serializing_if = "Option::is_none")]
    process_work_orders: Option<Option<Vec<String>>>,
}

impl From<Saved> for SaveAnswer {
    fn from(saved: Saved) -> Self {
        let Saved { order_type, web_order_id, status, version, created, changed, exported } = saved;
        let (work_order_id, court_work_order, process_work_orders) = match exported {
            Some(Exported { work_order_id, court_work_order, process_work_orders, .. }) => {
                (Some(work_order_id), Some(court_work_order), Some(process_work_orders))
            }
            None => (None, None, None),
        };
        let status = status.as_str();
        Self {
            order_type,
            web_order_id,
            status,
            version,
            created,
            changed,
            work_order_id,
            court_work_order,
            process_work_orders,
        }
    }
}

/// The response of POST /Orders/Export.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportAnswer {
    #[schema(value_type = OrderTypeComponent)]
    order_type: OrderType,
    /// The web order.
    #[schema(example = "W00000001")]
    web_order_id: String,
    /// The primary work order.
    #[schema(example = "CT1000001")]
    work_order_id: String,
    /// The court work order of a file-and-serve order.
    #[schema(required)]
    court_work_order: Option<String>,
    /// The process work orders, if the order has any, in the order of `servees`.
    #[schema(required)]
    process_work_orders: Option<Vec<String>>,
    /// The order's version after the export.
    #[schema(example = 2, minimum = 1)]
    version: i64,
}

impl From<Exported> for ExportAnswer {
    fn from(exported: Exported) -> Self {
        let Exported {
            order_type,
            web_order_id,
            work_order_id,
            court_work_order,
            process_work_orders,
            version,
        } = exported;
        Self { order_type, web_order_id, work_order_id, court_work_order, process_work_orders, version }
    }
}
