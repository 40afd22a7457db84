//! Service of process: conclusions from records of the back office.

use jiff::ToSpan;
use jiff::civil::Date;

docket_crds::words! {
    /// The state of a service of process, in the back office's words.
    #[expect(missing_docs, reason = "the trade's words")]
    pub enum ServiceStatus {
        New,
        Assigned,
        Attempted,
        OnHold,
        SkipTrace,
        Served,
        NonService,
        Cancelled,
    }
}

docket_crds::words! {
    /// How a service of process ended, in the back office's words.
    #[expect(missing_docs, reason = "the trade's words")]
    pub enum ServeResult {
        Personal,
        Substituted,
        Posted,
        Mailed,
        Entity,
        NotServed,
    }
}

docket_crds::words! {
    /// Why the papers were not served, in the back office's words.
    #[expect(missing_docs, reason = "the trade's words")]
    pub enum NotServedReason {
        BadAddress,
        UnableToLocate,
        Evading,
        Deceased,
        Incarcerated,
        TimeExpired,
        Cancelled,
    }
}

docket_crds::words! {
    /// The result of one attempt to serve, in the back office's words.
    #[expect(missing_docs, reason = "the trade's words")]
    pub enum ServiceOutcome {
        Served,
        SubServed,
        Posted,
        NoAnswer,
        NotIn,
        Refused,
        Evading,
        NoAccess,
        BusinessClosed,
        Moved,
        Vacant,
        BadAddress,
        Other,
    }
}

/// Substituted service counts as done this number of days after the mailing.
const DAYS_AFTER_MAILING: i64 = 10;

/// The day on which service counts as done: for substituted service, the tenth day after its mailing. Returns `None`
/// for every other result, if nothing was mailed, and if `mailed_on` is not YYYY-MM-DD.
pub fn deemed_served_on(serve_result: Option<&str>, mailed_on: Option<&str>) -> Option<Date> {
    let mailed_on: Date = mailed_on.filter(|_| serve_result == Some("Substituted"))?.parse().ok()?;
    mailed_on.checked_add(DAYS_AFTER_MAILING.days()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substituted_service_is_done_on_the_tenth_day_after_mailing() {
        let of = |result, mailed_on| deemed_served_on(result, mailed_on).map(|day| day.to_string());
        assert_eq!(of(Some("Substituted"), Some("2026-12-24")).as_deref(), Some("2027-01-03"));
        assert_eq!(of(Some("Personal"), Some("2026-12-24")), None);
        assert_eq!(of(Some("Substituted"), None), None);
        assert_eq!(of(None, Some("2026-12-24")), None);
        assert_eq!(of(Some("Substituted"), Some("2026-13-45")), None);
        assert_eq!(of(Some("Substituted"), Some("9999-12-31")), None);
    }
}
