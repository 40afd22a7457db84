//! The body of Orders/Save: an order, and the fields around it that say what to do with it.

use std::fmt;

use docket_domain::order_type::OrderType;

use crate::field::read_field;
use crate::json::Fields;
use crate::number::Int;
use crate::order::{Order, object, tag};
use crate::problem::{Path, Problems};
use crate::text::{Text, WebOrderId};

/// The names of the fields around the order.
const AROUND: [&str; 5] = ["orderType", "webOrderId", "version", "customerCode", "export"];

/// The version of a saved order.
pub(crate) type Version = Int<1, 9_007_199_254_740_991>;

/// A request to save an order. `Debug` shows no value of the order.
#[derive(Clone, PartialEq)]
pub struct SaveRequest {
    /// The draft to change; absent creates one. 1 to 32 letters and digits.
    pub web_order_id: Option<String>,
    /// The version that the change was made from, only beside `web_order_id`; absent allows any. 1 or more.
    pub version: Option<i64>,
    /// The customer of the order; only employees may set it. 1 to 64 characters.
    pub customer_code: Option<String>,
    /// Export at once.
    pub export: bool,
    /// PhotoCopy only: the order is ready for review.
    pub finalize: Option<bool>,
    /// The order.
    pub order: Order,
}

impl SaveRequest {
    /// Reads a body. Reports all its problems; but without a known `orderType`, only this problem.
    pub fn read(body: &[u8]) -> Result<Self, Problems> {
        let mut object = object(body)?;
        let kind = tag(&object)?;
        let (mut at, mut problems) = (Path::root(), Problems::default());
        let web_order_id = read_field::<WebOrderId>(&object, "webOrderId", &mut at, &mut problems);
        let version = read_field::<Version>(&object, "version", &mut at, &mut problems);
        if version.is_some() && web_order_id.is_none() {
            at.key("version", |at| {
                problems.push(at, "only beside webOrderId: a new order has no version yet")
            });
        }
        let customer_code = read_field::<Text<64>>(&object, "customerCode", &mut at, &mut problems);
        let export = read_field::<bool>(&object, "export", &mut at, &mut problems);
        let finalize = read_finalize(kind, &mut object, &mut at, &mut problems);
        let mut also = AROUND.to_vec();
        also.extend((kind == OrderType::PhotoCopy).then_some("finalize"));
        let order = Order::read(kind, &object, &also, &mut problems);
        problems.into_result()?;
        Ok(Self {
            web_order_id: web_order_id.map(|id| id.as_str().to_owned()),
            version: version.map(Version::get),
            customer_code: customer_code.map(|code| code.as_str().to_owned()),
            export: export.unwrap_or(false),
            finalize,
            order,
        })
    }
}

/// Takes `finalize` out of the object, to report it more clearly than an unknown field.
fn read_finalize(
    kind: OrderType,
    object: &mut Fields<'_>,
    at: &mut Path,
    problems: &mut Problems,
) -> Option<bool> {
    let finalize = read_field(object, "finalize", at, problems);
    if object.remove("finalize").is_some() && kind != OrderType::PhotoCopy {
        at.key("finalize", |at| problems.push(at, "unknown field: only on PhotoCopy orders"));
    }
    finalize
}

impl fmt::Debug for SaveRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaveRequest")
            .field("web_order_id", &self.web_order_id)
            .field("export", &self.export)
            .field("finalize", &self.finalize)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
