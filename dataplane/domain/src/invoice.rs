//! Invoices of the back office: their families, and the data of invoice.created from an invoice header.

use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;

docket_crds::words! {
    /// The families of work orders that have invoice headers; the `orderType` of invoice.created. The order is
    /// alphabetical, which is the order of a search.
    pub enum InvoiceFamily {
        /// Court filings.
        Court,
        /// Deliveries by courier.
        Delivery,
        /// Investigations.
        Investigation,
        /// Photocopies: the only family with a facility and an amount.
        PhotoCopy,
    }
}

/// The key that keeps an invoice from being published to a webhook twice. An invoice number is unique only within its
/// family.
pub fn idempotency_key(family: InvoiceFamily, invoice_number: &str) -> String {
    format!("invoice.created:{}:{invoice_number}", family.as_str())
}

/// A stored invoice date in the form of invoice.created: date and time without a zone. Returns `None` if the text is
/// not a date or has a zone, which the form can't express.
pub fn date_time(text: &str) -> Option<String> {
    let text = text.trim();
    let pieces = Pieces::parse(text).ok()?;
    if pieces.offset().is_some() || pieces.time_zone_annotation().is_some() {
        return None;
    }
    text.parse::<DateTime>().ok().map(|date_time| date_time.to_string())
}

/// An amount in the form of invoice.created.
pub fn amount(cents: i64) -> f64 {
    cents as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use docket_crds::UnknownWord;

    use super::*;

    #[test]
    fn families_parse_from_their_words_and_keep_their_order() {
        for family in InvoiceFamily::ALL {
            assert_eq!(family.as_str().parse(), Ok(family));
        }
        assert!(InvoiceFamily::ALL.is_sorted_by(|a, b| a < b && a.as_str() < b.as_str()));
        for other in ["Process", "FileAndServe", "CountyRecording", "photocopy", ""] {
            assert_eq!(other.parse::<InvoiceFamily>(), Err(UnknownWord(&InvoiceFamily::WORDS)), "{other}");
        }
    }

    #[test]
    fn same_number_in_two_families_has_two_keys() {
        assert_eq!(idempotency_key(InvoiceFamily::PhotoCopy, "7-A"), "invoice.created:PhotoCopy:7-A");
        assert_eq!(idempotency_key(InvoiceFamily::Court, "7-A"), "invoice.created:Court:7-A");
    }

    #[test]
    fn dates_get_midnight_unless_they_have_a_time() {
        for (text, sent) in [
            ("2026-11-21", "2026-11-21T00:00:00"),
            (" 2026-11-21 ", "2026-11-21T00:00:00"),
            ("2026-11-21T09:30:00", "2026-11-21T09:30:00"),
            ("2026-11-21 09:30:00", "2026-11-21T09:30:00"),
            ("2026-11-21T09:30", "2026-11-21T09:30:00"),
            ("2026-11-21T09:30:00.250", "2026-11-21T09:30:00.25"),
            ("2028-02-29", "2028-02-29T00:00:00"),
        ] {
            assert_eq!(date_time(text).as_deref(), Some(sent), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_date_or_has_a_zone_is_refused() {
        for text in [
            "",
            "soon",
            "2026-11-31",
            "2027-02-29",
            "11/21/2026",
            "2026-11-21T25:00:00",
            "2026-11-21T09:30:00Z",
            "2026-11-21T09:30:00-08:00",
            "2026-11-21T09:30:00[America/Los_Angeles]",
            "2026-11-21T09:30:00 tomorrow",
            "2026-11-21\u{1f98a}",
        ] {
            assert_eq!(date_time(text), None, "{text}");
        }
    }

    #[test]
    fn cents_become_an_amount() {
        for (cents, json) in
            [(0, "0.0"), (1, "0.01"), (23_000, "230.0"), (12_345, "123.45"), (-7_550, "-75.5")]
        {
            assert_eq!(serde_json::to_string(&amount(cents)).expect("a number"), json);
        }
    }
}
