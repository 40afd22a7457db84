//! The seven kinds of orders: an enum that is stored, sent and shown as text.

docket_crds::words! {
    /// The seven kinds of orders; the `orderType` of orders.
    #[derive(serde::Serialize)]
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
}

#[cfg(test)]
mod tests {
    use docket_crds::UnknownWord;

    use super::*;

    #[test]
    fn each_type_parses_from_its_own_word() {
        for kind in OrderType::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert_eq!("court".parse::<OrderType>(), Err(UnknownWord(&OrderType::WORDS)));
    }
}
