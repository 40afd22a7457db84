//! The event catalog: six codes in three categories.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A code of the event catalog; written as in the specification (`order.created`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "kube", derive(schemars::JsonSchema))]
pub enum EventCode {
    /// An order was saved for the first time.
    #[serde(rename = "order.created")]
    OrderCreated,
    /// A field of a saved order changed.
    #[serde(rename = "order.updated")]
    OrderUpdated,
    /// An order became a work order.
    #[serde(rename = "order.exported")]
    OrderExported,
    /// The status of an order changed.
    #[serde(rename = "order.status_changed")]
    OrderStatusChanged,
    /// A note was added to a work order.
    #[serde(rename = "note.created")]
    NoteCreated,
    /// An invoice appeared.
    #[serde(rename = "invoice.created")]
    InvoiceCreated,
}

/// The catalog's grouping of event codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventCategory {
    /// Events of orders.
    Order,
    /// Events of notes.
    Note,
    /// Events of invoices.
    Invoice,
}

/// The text is not an event code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown event {0:?}; one of: {all}", all = EventCode::NAMES.join(", "))]
pub struct UnknownEventCode(pub String);

impl EventCode {
    /// Every code, in the catalog's order.
    pub const ALL: [Self; 6] = [
        Self::OrderCreated,
        Self::OrderUpdated,
        Self::OrderExported,
        Self::OrderStatusChanged,
        Self::NoteCreated,
        Self::InvoiceCreated,
    ];

    /// Every code's text, in the order of [`Self::ALL`].
    pub(crate) const NAMES: [&'static str; 6] = {
        let mut names = [""; 6];
        let mut i = 0;
        while i < names.len() {
            names[i] = Self::ALL[i].as_str();
            i += 1;
        }
        names
    };

    /// The code as documents, headers and envelopes have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OrderCreated => "order.created",
            Self::OrderUpdated => "order.updated",
            Self::OrderExported => "order.exported",
            Self::OrderStatusChanged => "order.status_changed",
            Self::NoteCreated => "note.created",
            Self::InvoiceCreated => "invoice.created",
        }
    }

    /// When an event of this code is published.
    pub const fn about(self) -> &'static str {
        match self {
            Self::OrderCreated => "An order was saved for the first time.",
            Self::OrderUpdated => "A saved order was saved again, and something changed.",
            Self::OrderExported => "An export created the work orders of an order.",
            Self::OrderStatusChanged => "A note has a milestone of a photocopy order.",
            Self::NoteCreated => "A note was added to a work order by the API.",
            Self::InvoiceCreated => "The back office has a new invoice.",
        }
    }

    /// The category of this code in the catalog.
    pub const fn category(self) -> EventCategory {
        match self {
            Self::OrderCreated | Self::OrderUpdated | Self::OrderExported | Self::OrderStatusChanged => {
                EventCategory::Order
            }
            Self::NoteCreated => EventCategory::Note,
            Self::InvoiceCreated => EventCategory::Invoice,
        }
    }
}

impl EventCategory {
    /// The category's name in the catalog.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Order => "Order",
            Self::Note => "Note",
            Self::Invoice => "Invoice",
        }
    }
}

impl FromStr for EventCode {
    type Err = UnknownEventCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|code| code.as_str() == text)
            .ok_or_else(|| UnknownEventCode(text.to_owned()))
    }
}

impl fmt::Display for EventCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for EventCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_from_its_text_and_from_json() {
        for code in EventCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
            assert_eq!(code.to_string(), code.as_str());
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(serde_json::from_value::<EventCode>(code.as_str().into()).unwrap(), code);
            let category = code.category().as_str().to_lowercase();
            assert!(code.as_str().starts_with(&category), "{code} is not of {category}");
        }
    }

    #[test]
    fn unknown_text_is_refused_with_the_catalog() {
        let message = "order.create".parse::<EventCode>().unwrap_err().to_string();
        assert!(
            message.starts_with("unknown event \"order.create\"; one of: order.created, order.updated, ")
        );
        assert!("Order.Created".parse::<EventCode>().is_err());
    }
}
