//! PhotoCopy: records from custodians, one stop per facility.

use jiff::ToSpan;

use crate::field::{Rules, require};
use crate::list::List;
use crate::number::Int;
use crate::parts::{Address, Attorney, Case, ContactPerson, Court, Party};
use crate::problem::{Path, Problems};
use crate::text::{Phone, RecordNumber, SsnLast4, Text};
use crate::when::{Date, in_order};

choice! {
    /// The legal basis of the request for records.
    pub enum RequestMethod {
        DepositionSubpoena, TrialSubpoena, WcabSubpoena, Authorization, OpposingCopy, PublicRecordsRequest,
    }

    /// Kinds of injury in workers' compensation.
    pub enum InjuryType { Specific, Cumulative }

    /// Kinds of records.
    pub enum RecordType {
        Medical, Billing, Films, Pharmacy, Psychiatric, Employment, Payroll, Insurance, Claims, School, Police,
        Financial, Telephone, Other,
    }

    /// Who must be notified before records are produced (form SUBP-025).
    pub enum NoticeToConsumer { Consumer, Employee, NotRequired }

    /// How copies are delivered.
    pub enum CopyDelivery { Portal, Email, Mail, Messenger }

    /// In what form copies are delivered.
    pub enum CopyFormat { Pdf, Paper, Disc }
}

impl RequestMethod {
    /// Whether a court's order is behind the request.
    pub fn is_subpoena(self) -> bool {
        matches!(self, Self::DepositionSubpoena | Self::TrialSubpoena | Self::WcabSubpoena)
    }
}

impl RecordType {
    /// Whether the records are about a patient. A custodian finds such records by the date of birth.
    pub fn is_medical(self) -> bool {
        matches!(self, Self::Medical | Self::Films | Self::Pharmacy | Self::Psychiatric)
    }
}

part! {
    ruled
    /// Whose records they are.
    pub struct RecordSubject {
        /// Who it is.
        req party: Party,
        /// Date of birth; restricted. Required at export when medical records are asked for.
        opt dob: Date,
        /// Last 4 digits of the social security number; restricted. A full number is refused.
        opt ssn_last4: SsnLast4,
        /// Kind of injury.
        opt injury_type: InjuryType,
        /// Day, or first day, of the injury.
        opt injury_from: Date,
        /// Last day of a cumulative injury.
        opt injury_to: Date,
    }
}

impl Rules for RecordSubject {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        in_order(self.injury_from, ("injuryFrom", "injuryTo"), self.injury_to, at, problems);
        // A child may be injured before its birth.
        let before_birth = self.dob.map(|dob| dob.get().saturating_sub(1.year()));
        let (name, injury) = match self.injury_to {
            Some(to) => ("injuryTo by more than a year", Some(to)),
            None => ("injuryFrom by more than a year", self.injury_from),
        };
        in_order(before_birth, ("dob", name), injury.map(Date::get), at, problems);
    }
}

part! {
    ruled
    /// A custodian of records; one stop.
    pub struct Facility {
        /// The service's code of a known facility.
        opt facility_id: RecordNumber<32>,
        /// Its name.
        req name: Text<200>,
        /// Department.
        opt department: Text<100>,
        /// Where it is.
        req address: Address,
        /// Phone number, E.164.
        opt phone: Phone,
        /// Fax number, E.164.
        opt fax: Phone,
        /// Who keeps the records.
        opt custodian: Text<100>,
        /// Which records, 1 to 10 kinds.
        req record_types: List<RecordType, 1, 10>,
        /// Records from this day; absent means any and all.
        opt records_from: Date,
        /// Records up to this day; absent means any and all.
        opt records_to: Date,
        /// Which records exactly.
        opt specific_records: Text<1000>,
        /// Treating doctor.
        opt provider: Text<100>,
        /// Who must be notified before. Required at export for subpoenas.
        opt notice_to_consumer: NoticeToConsumer,
        /// Record number at the facility; restricted.
        opt account_number: Text<50>,
        /// Insurance claim.
        opt claim_number: Text<50>,
    }
}

impl Rules for Facility {
    /// The system numbers the stops at export by their position in the list. A number from the client could only contradict it.
    const GIVEN: &'static [&'static str] = &["facilityLineItem"];

    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        in_order(self.records_from, ("recordsFrom", "recordsTo"), self.records_to, at, problems);
    }
}

part! {
    /// Where copies go.
    pub struct ShipTo {
        /// Who gets them.
        req contact: ContactPerson,
        /// How they are delivered.
        req method: CopyDelivery,
        /// In what form.
        opt format: CopyFormat,
        /// Number of sets.
        opt sets: Int<1, 100>,
    }
}

order! {
    /// An order for copies of records.
    pub struct PhotoCopyOrder (attorney req, documents opt 0) {
        /// The legal basis of the request for records.
        req request_method: RequestMethod,
        /// Required at export for subpoenas.
        opt court: Court,
        /// Required at export for subpoenas.
        opt case: Case,
        /// Whose records.
        req subject: RecordSubject,
        /// The stops, 1 to 100.
        req facilities: List<Facility, 1, 100>,
        /// Day the custodian must produce. Required at export for subpoenas.
        opt production_date: Date,
        /// Day the authorization was signed. Required at export for Authorization.
        opt authorization_signed_on: Date,
        /// Last day of the authorization. Required at export for Authorization.
        opt authorization_expires_on: Date,
        /// Get notice, and may order copies.
        opt opposing_counsel: List<Attorney, 0, 20>,
        /// Where copies go.
        opt deliver_to: List<ShipTo, 0, 10>,
        /// The custodian's affidavit comes with the records.
        opt certification: bool,
    }
}

impl Rules for PhotoCopyOrder {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        let names = ("authorizationSignedOn", "authorizationExpiresOn");
        in_order(self.authorization_signed_on, names, self.authorization_expires_on, at, problems);
    }

    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        let facilities: &[Facility] = self.facilities.as_deref().unwrap_or_default();
        if self.request_method.is_some_and(RequestMethod::is_subpoena) {
            let condition = "for subpoenas";
            require(&self.court, "court", condition, at, problems);
            require(&self.case, "case", condition, at, problems);
            require(&self.production_date, "productionDate", condition, at, problems);
            at.key("facilities", |at| {
                for (index, facility) in facilities.iter().enumerate() {
                    let notice = &facility.notice_to_consumer;
                    at.index(index, |at| require(notice, "noticeToConsumer", condition, at, problems));
                }
            });
        }
        if self.request_method == Some(RequestMethod::Authorization) {
            let condition = "for Authorization";
            require(&self.authorization_signed_on, "authorizationSignedOn", condition, at, problems);
            require(&self.authorization_expires_on, "authorizationExpiresOn", condition, at, problems);
        }
        let mut record_types =
            facilities.iter().filter_map(|facility| facility.record_types.as_deref()).flatten();
        if let Some(subject) = &self.subject
            && record_types.any(|record_type| record_type.is_medical())
        {
            at.key("subject", |at| require(&subject.dob, "dob", "for medical records", at, problems));
        }
    }
}
