//! The union of the seven order types, as stored.

use std::fmt;

use docket_domain::UnknownWord;
use docket_domain::order_type::OrderType;
use serde::{Serialize, Serializer};

use crate::county_recording::CountyRecordingOrder;
use crate::court::CourtOrder;
use crate::delivery::DeliveryOrder;
use crate::field::{Field, Part};
use crate::file_and_serve::FileAndServeOrder;
use crate::investigation::InvestigationOrder;
use crate::json::{Fields, Json};
use crate::photo_copy::{Facility, PhotoCopyOrder};
use crate::problem::{Path, Problem, Problems};
use crate::process::ProcessOrder;
use crate::servee::Servee;

/// An order of one of the seven types; a draft may lack anything. `Debug` shows only the type.
#[derive(Clone, PartialEq)]
pub enum Order {
    /// Filing, research, copies at a court.
    Court(Box<CourtOrder>),
    /// Service of papers.
    Process(Box<ProcessOrder>),
    /// Messenger runs.
    Delivery(Box<DeliveryOrder>),
    /// Skip trace, assets, surveillance.
    Investigation(Box<InvestigationOrder>),
    /// File, then serve.
    FileAndServe(Box<FileAndServeOrder>),
    /// Documents to the county recorder.
    CountyRecording(Box<CountyRecordingOrder>),
    /// Records from custodians.
    PhotoCopy(Box<PhotoCopyOrder>),
}

/// Evaluates the same expression for each order type.
macro_rules! each {
    ($order:expr, $inner:ident => $result:expr) => {
        match $order {
            Order::Court($inner) => $result,
            Order::Process($inner) => $result,
            Order::Delivery($inner) => $result,
            Order::Investigation($inner) => $result,
            Order::FileAndServe($inner) => $result,
            Order::CountyRecording($inner) => $result,
            Order::PhotoCopy($inner) => $result,
        }
    };
}
pub(crate) use each;

impl Order {
    /// Reads the fields of an order of this type. The names in `also` belong to the request around the order.
    pub(crate) fn read(kind: OrderType, object: &Fields<'_>, also: &[&str], problems: &mut Problems) -> Self {
        fn part<T: Part>(object: &Fields<'_>, also: &[&str], problems: &mut Problems) -> Box<T> {
            Box::new(T::read_object(object, also, &mut Path::root(), problems))
        }
        match kind {
            OrderType::Court => Self::Court(part(object, also, problems)),
            OrderType::Process => Self::Process(part(object, also, problems)),
            OrderType::Delivery => Self::Delivery(part(object, also, problems)),
            OrderType::Investigation => Self::Investigation(part(object, also, problems)),
            OrderType::FileAndServe => Self::FileAndServe(part(object, also, problems)),
            OrderType::CountyRecording => Self::CountyRecording(part(object, also, problems)),
            OrderType::PhotoCopy => Self::PhotoCopy(part(object, also, problems)),
        }
    }

    /// Reads an order that [`Order::to_stored`] wrote.
    pub fn from_stored(json: &str) -> Result<Self, Problems> {
        let object = object(json.as_bytes())?;
        let kind = tag(&object)?;
        let mut problems = Problems::default();
        let order = Self::read(kind, &object, &["orderType"], &mut problems);
        problems.into_result().map(|()| order)
    }

    /// The order as JSON, `orderType` first. The same order gives the same text. It contains what the client
    /// sent, without defaults and without the request around it.
    pub fn to_stored(&self) -> String {
        serde_json::to_string(self).expect("orders have string keys and finite numbers")
    }

    /// The type of the order.
    pub fn order_type(&self) -> OrderType {
        match self {
            Self::Court(_) => OrderType::Court,
            Self::Process(_) => OrderType::Process,
            Self::Delivery(_) => OrderType::Delivery,
            Self::Investigation(_) => OrderType::Investigation,
            Self::FileAndServe(_) => OrderType::FileAndServe,
            Self::CountyRecording(_) => OrderType::CountyRecording,
            Self::PhotoCopy(_) => OrderType::PhotoCopy,
        }
    }

    /// Finds values that contradict each other, such as a due date after the last day to serve.
    pub fn check_draft(&self) -> Problems {
        let (mut at, mut problems) = (Path::root(), Problems::default());
        each!(self, order => order.contradictions(&mut at, &mut problems));
        problems
    }

    /// Finds what an export requires and the draft lacks. [`Order::check_draft`] finds contradictions.
    pub fn check_export(&self) -> Problems {
        let (mut at, mut problems) = (Path::root(), Problems::default());
        each!(self, order => order.missing(&mut at, &mut problems));
        problems
    }

    /// The persons to serve (Process, FileAndServe); each gets a process work order at export.
    pub fn servees(&self) -> &[Servee] {
        let servees = match self {
            Self::Process(order) => &order.servees,
            Self::FileAndServe(order) => &order.servees,
            _ => &None,
        };
        servees.as_deref().unwrap_or_default()
    }

    /// The stops of a PhotoCopy order; the line item of each is its position, counted from 1.
    pub fn facilities(&self) -> &[Facility] {
        match self {
            Self::PhotoCopy(order) => order.facilities.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}([redacted])", self.order_type())
    }
}

impl Serialize for Order {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Tagged<'a, T> {
            order_type: OrderType,
            #[serde(flatten)]
            order: &'a T,
        }
        let order_type = self.order_type();
        each!(self, order => Tagged { order_type, order: &**order }.serialize(serializer))
    }
}

/// Parses a body, which must be an object.
pub(crate) fn object(body: &[u8]) -> Result<Fields<'_>, Problem> {
    match Json::parse(body)? {
        Json::Object(object) => Ok(object),
        _ => Err(Problem { field: Path::root().to_string(), message: "must be an object".to_owned() }),
    }
}

/// The order type of a body. Without it, nothing else can be checked.
pub(crate) fn tag(object: &Fields<'_>) -> Result<OrderType, Problem> {
    let tag = match object.get("orderType") {
        Some(Json::String(tag)) => tag,
        _ => "",
    };
    let unknown = |error: UnknownWord| Problem { field: "orderType".to_owned(), message: error.to_string() };
    tag.parse().map_err(unknown)
}
