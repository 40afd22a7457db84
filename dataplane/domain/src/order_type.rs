//! The seven kinds of orders: an enum that is stored, sent and shown as text.

use std::fmt;
use std::str::FromStr;

/// The seven kinds of orders; the `orderType` of orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderType {
    /// `Court`
    Court,
    /// `Process`
    Process,
    /// `Delivery`
    Delivery,
    /// `Investigation`
    Investigation,
    /// `FileAndServe`
    FileAndServe,
    /// `CountyRecording`
    CountyRecording,
    /// `PhotoCopy`
    PhotoCopy,
}

impl OrderType {
    /// Every type, in the order of the documentation.
    pub const ALL: &'static [Self] = &[
        Self::Court,
        Self::Process,
        Self::Delivery,
        Self::Investigation,
        Self::FileAndServe,
        Self::CountyRecording,
        Self::PhotoCopy,
    ];

    /// The word that is stored, sent and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Court => "Court",
            Self::Process => "Process",
            Self::Delivery => "Delivery",
            Self::Investigation => "Investigation",
            Self::FileAndServe => "FileAndServe",
            Self::CountyRecording => "CountyRecording",
            Self::PhotoCopy => "PhotoCopy",
        }
    }
}

impl fmt::Display for OrderType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for OrderType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl FromStr for OrderType {
    type Err = UnknownOrderType;

    fn from_str(text: &str) -> Result<Self, UnknownOrderType> {
        Self::ALL.iter().find(|kind| kind.as_str() == text).copied().ok_or(UnknownOrderType)
    }
}

/// The text is not one of the seven order types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownOrderType;

impl fmt::Display for UnknownOrderType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<&str> = OrderType::ALL.iter().map(|kind| kind.as_str()).collect();
        write!(f, "must be one of {}", all.join(", "))
    }
}

impl std::error::Error for UnknownOrderType {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_parses_from_its_own_word() {
        for kind in OrderType::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
        }
        assert_eq!("court".parse::<OrderType>(), Err(UnknownOrderType));
    }
}
