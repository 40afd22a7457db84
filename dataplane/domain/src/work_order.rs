//! Work orders: their families, and the key by which a request names a work order or a stop of it (data of
//! order.status_changed).

docket_crds::words! {
    /// The back office's five families of work orders; the `workOrderType` of notes.
    pub enum WorkOrderType {
        /// Court filings and county recordings.
        Court,
        /// Service of process, one for each person to serve.
        Process,
        /// Deliveries by courier.
        Delivery,
        /// Investigations.
        Investigation,
        /// Photocopies: the only family with facilities and milestones.
        PhotoCopy,
    }
}

impl WorkOrderType {
    /// The prefix of work order numbers of this type, for people: no program parses a number.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Court => "CT",
            Self::Process => "PR",
            Self::Delivery => "DL",
            Self::Investigation => "IN",
            Self::PhotoCopy => "PC",
        }
    }
}

/// The key by which a request names a work order: its number, or `<workOrder>-<facilityId>` for a stop of a photocopy
/// work order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkOrderKey<'a> {
    /// The key as it was sent.
    pub text: &'a str,
    /// The work order's number, which contains no `-`.
    pub number: &'a str,
    /// The text after the first `-`.
    pub facility_id: Option<&'a str>,
}

impl<'a> WorkOrderKey<'a> {
    /// Parses the key.
    pub fn new(text: &'a str) -> Self {
        match text.split_once('-') {
            Some((number, facility_id)) => Self { text, number, facility_id: Some(facility_id) },
            None => Self { text, number: text, facility_id: None },
        }
    }

    /// `facilityKey`: `<workOrder>:<facilityLineItem>` if the note names a stop by its line, else the key in the request.
    pub fn facility_key(&self, facility_line_item: Option<i64>) -> String {
        match facility_line_item {
            Some(line_item) => format!("{}:{line_item}", self.number),
            None => self.text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_a_number_with_an_optional_facility() {
        let plain = WorkOrderKey::new("PC1000001");
        assert_eq!((plain.number, plain.facility_id), ("PC1000001", None));
        let with = WorkOrderKey::new("PC1000001-F-7");
        assert_eq!((with.number, with.facility_id), ("PC1000001", Some("F-7")));
    }

    #[test]
    fn facility_key_is_the_stop_or_the_requests_key() {
        for key in ["PC1", "PC1-F00213"] {
            assert_eq!(WorkOrderKey::new(key).facility_key(Some(3)), "PC1:3");
            assert_eq!(WorkOrderKey::new(key).facility_key(None), key);
        }
    }
}
