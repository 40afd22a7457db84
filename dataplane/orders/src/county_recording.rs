//! CountyRecording: documents to the county recorder.

use crate::field::{Rules, require};
use crate::list::List;
use crate::number::{Int, Money};
use crate::parts::{Address, Party};
use crate::problem::{Path, Problems};
use crate::state::UsState;
use crate::text::{CountyFips, FileName, HttpsUrl, RecordNumber, Text};
use crate::when::{Date, in_order};

choice! {
    /// How papers reach the recorder.
    pub enum RecordingMethod { EFile, OverTheCounter, Mail }

    /// A paper as the recorder names it.
    pub enum InstrumentType {
        GrantDeed, QuitclaimDeed, TrustTransferDeed, DeedOfTrust, AssignmentOfDeedOfTrust, Reconveyance,
        SubstitutionOfTrustee, NoticeOfDefault, NoticeOfTrusteesSale, TrusteesDeed, AbstractOfJudgment,
        MechanicsLien, ReleaseOfLien, LisPendens, Easement, NoticeOfCompletion, AffidavitOfDeath, PowerOfAttorney,
        Other,
    }
}

impl InstrumentType {
    /// Whether the assessor's parcel numbers are needed: for deeds, trust deeds, notices of default and of sale (Gov.
    /// Code 27297.6).
    pub fn needs_apns(self) -> bool {
        use InstrumentType::*;
        matches!(
            self,
            GrantDeed
                | QuitclaimDeed
                | TrustTransferDeed
                | TrusteesDeed
                | DeedOfTrust
                | NoticeOfDefault
                | NoticeOfTrusteesSale
        )
    }

    /// Whether the instrument releases, assigns or amends something recorded before.
    pub fn refers_to_another(self) -> bool {
        use InstrumentType::*;
        matches!(self, ReleaseOfLien | Reconveyance | AssignmentOfDeedOfTrust | SubstitutionOfTrustee)
    }

    /// Whether the property changes owners. Then the order must say whether a preliminary change of ownership report
    /// (PCOR) goes along.
    pub fn changes_ownership(self) -> bool {
        use InstrumentType::*;
        matches!(self, GrantDeed | QuitclaimDeed | TrustTransferDeed | TrusteesDeed | AffidavitOfDeath)
    }
}

part! {
    ruled
    /// A paper to be recorded.
    pub struct Instrument {
        /// Kind of paper.
        req document_type: InstrumentType,
        /// Title as on the paper.
        opt title: Text<500>,
        /// Number of pages.
        req pages: Int<1, 100_000>,
        /// Who gives, 1 to 50; more than 10 names cost an indexing fee.
        req grantors: List<Party, 1, 50>,
        /// Who receives, 1 to 50.
        req grantees: List<Party, 1, 50>,
        /// Assessor's parcel numbers. Required at export for deeds, trust deeds, notices of default and of
        /// sale.
        opt apns: List<RecordNumber<30>, 0, 20>,
        /// Legal description of the property.
        opt legal_description: Text<4000>,
        /// Day of signing.
        opt executed_on: Date,
        /// USD; price.
        opt consideration: Money,
        /// USD; documentary transfer tax of the county.
        opt transfer_tax: Money,
        /// USD; transfer tax of the city.
        opt city_transfer_tax: Money,
        /// Why no transfer tax is due.
        opt tax_exemption: Text<200>,
        /// Number of the instrument that is released, assigned or amended. Required at export for these kinds.
        opt related_instrument_number: RecordNumber<40>,
        /// Name of the file, without folder.
        opt file_name: FileName,
        /// Where it can be fetched by people; stored, never fetched by the service; restricted.
        opt url: HttpsUrl,
    }
}

impl Rules for Instrument {
    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        let Some(kind) = self.document_type else { return };
        if kind.needs_apns() {
            let apns = self.apns.as_ref().filter(|apns| !apns.is_empty());
            require(&apns, "apns", "for this documentType (at least 1)", at, problems);
        }
        if kind.refers_to_another() {
            let number = &self.related_instrument_number;
            require(number, "relatedInstrumentNumber", "for this documentType", at, problems);
        }
    }
}

order! {
    /// An order to record papers with a county.
    pub struct CountyRecordingOrder (attorney opt, documents opt 0) {
        /// County of the property.
        req county: Text<60>,
        /// State of the county.
        req state: UsState,
        /// The county's FIPS code; its first two digits are the state's.
        req county_fips: CountyFips,
        /// How to record.
        req recording_method: RecordingMethod,
        /// The papers in recording order, 1 to 20.
        req instruments: List<Instrument, 1, 20>,
        /// Where the property is.
        opt property_address: Address,
        /// Who asks for the recording; printed on page 1.
        req requested_by: Text<200>,
        /// Where the papers come back to; printed on page 1.
        req return_to: Address,
        /// Record all or none, in sequence.
        opt concurrent: bool,
        /// Not before this day; every executedOn is at most this day.
        opt record_on: Date,
        /// A preliminary change of ownership report goes along. Required at export for a change of ownership.
        opt pcor_included: bool,
        /// Why the housing fee (SB 2) is not due.
        opt housing_fee_exemption: Text<100>,
        /// Stamped copies to return.
        opt conformed_copies: Int<0, 20>,
        /// Certified copies to return.
        opt certified_copies: Int<0, 20>,
    }
}

impl Rules for CountyRecordingOrder {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        if let (Some(state), Some(fips)) = (self.state, &self.county_fips)
            && (state.fips().is_empty() || !fips.as_str().starts_with(state.fips()))
        {
            at.key("countyFips", |at| problems.push(at, "must be of a county of the given state"));
        }
        at.key("instruments", |at| {
            for (index, instrument) in self.instruments.iter().flat_map(|list| list.iter()).enumerate() {
                let names = ("executedOn", "recordOn");
                at.index(index, |at| in_order(instrument.executed_on, names, self.record_on, at, problems));
            }
        });
    }

    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        let mut kinds = self.instruments.iter().flat_map(|list| list.iter()).filter_map(|i| i.document_type);
        if kinds.any(InstrumentType::changes_ownership) {
            require(&self.pcor_included, "pcorIncluded", "for a change of ownership", at, problems);
        }
    }
}
