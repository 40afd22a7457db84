//! Investigation: skip trace, assets, surveillance.

use crate::country::{Country, check_us};
use crate::field::{REQUIRED, Rules, require};
use crate::json::Fields;
use crate::list::List;
use crate::number::Quantity;
use crate::parts::{Address, Case, Court, Description, Party};
use crate::problem::{Path, Problems};
use crate::text::{Email, HttpsUrl, LicenseLast4, Phone, RecordNumber, SsnLast4, Text};
use crate::when::{Date, DateTime, in_order};

choice! {
    /// What to find out.
    pub enum InvestigationType {
        SkipTrace, WitnessLocate, AssetSearch, EmploymentSearch, BackgroundCheck, EntitySearch, Surveillance,
        Stakeout, Other,
    }

    /// Where to look.
    pub enum InvestigationSearch {
        AddressHistory, Phones, Employer, Vehicles, RealProperty, BusinessEntities, Licenses, Bankruptcy,
        CivilRecords, CriminalRecords, UccLiens, DeathIndex, PostalForwarding, SocialMedia,
    }

    /// Why it is lawful to ask.
    pub enum PermissiblePurpose {
        ServiceOfProcess, Litigation, JudgmentEnforcement, WitnessLocation, DebtCollection, FraudInvestigation,
        InsuranceClaim, CourtOrder,
    }

    /// Data under its own law, which the purpose must cover.
    pub enum RegulatedData { Glba, Dppa }
}

part! {
    ruled
    /// A car, of any country.
    pub struct Car {
        /// Plate.
        opt plate: Text<15>,
        /// State, province or region of the plate. In the US two capital letters.
        opt state: Text<60>,
        /// Country of the plate, two capital letters (ISO 3166-1 alpha-2).
        def country: Country = Country::US,
        /// Make and model.
        opt make_model: Text<100>,
    }
}

impl Rules for Car {
    fn dependent(&self, object: &Fields<'_>, at: &mut Path, problems: &mut Problems) {
        check_us(object, self.country, (self.state.as_ref(), None), at, problems);
    }
}

part! {
    ruled
    /// Whom the investigation is about.
    pub struct Subject {
        /// Who it is.
        req party: Party,
        /// Required at export unless ssnLast4 and dob are given.
        opt last_known_address: Address,
        /// Earlier addresses.
        opt previous_addresses: List<Address, 0, 5>,
        /// Date of birth; restricted.
        opt dob: Date,
        /// Last 4 digits of the social security number; restricted. A full number is refused.
        opt ssn_last4: SsnLast4,
        /// Last 4 characters of the driver licence; restricted. A full number is refused.
        opt driver_license_last4: LicenseLast4,
        /// Phone numbers, E.164.
        opt phones: List<Phone, 0, 10>,
        /// E-mail addresses.
        opt emails: List<Email, 0, 10>,
        /// Employer.
        opt employer: Text<100>,
        /// Vehicle.
        opt vehicle: Car,
        /// Names of relatives.
        opt relatives: List<Text<100>, 0, 10>,
        /// What the person looks like.
        opt description: Description,
        /// Where a photo is; stored, never fetched; restricted.
        opt photo_url: HttpsUrl,
    }
}

impl Rules for Subject {
    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        if self.ssn_last4.is_none() || self.dob.is_none() {
            let condition = "unless ssnLast4 and dob are given";
            require(&self.last_known_address, "lastKnownAddress", condition, at, problems);
        }
    }
}

order! {
    /// An order to find out.
    pub struct InvestigationOrder (attorney opt, documents opt 0) {
        /// What to find out.
        req investigation_type: InvestigationType,
        /// Where to look. Vehicles needs Dppa in regulatedData at export.
        opt searches: List<InvestigationSearch, 0, 15>,
        /// About whom.
        req subject: Subject,
        /// Why it is lawful to ask.
        req permissible_purpose: PermissiblePurpose,
        /// What the purpose must cover.
        opt regulated_data: List<RegulatedData, 0, 2>,
        /// Who attests the purpose, and that the report is for no decision on tenancy, employment or credit.
        req certified_by: Text<100>,
        /// When that was attested.
        req certified_at: DateTime,
        /// Required at export when the purpose is ServiceOfProcess or Litigation.
        opt court: Court,
        /// Required at export when the purpose is ServiceOfProcess or Litigation.
        opt case: Case,
        /// The process work order that waits for the address.
        opt linked_work_order: RecordNumber<32>,
        /// Hours that may be worked. Required at export for Surveillance and Stakeout.
        opt hours_authorized: Quantity<10_000>,
        /// Begin of the time to watch. Required at export for Surveillance and Stakeout.
        opt window_from: DateTime,
        /// End of the time to watch. Required at export for Surveillance and Stakeout.
        opt window_to: DateTime,
        /// A sworn record of the search, for a motion to publish or post.
        opt due_diligence_affidavit: bool,
    }
}

impl Rules for InvestigationOrder {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        let (from, to) = (self.window_from.as_ref(), self.window_to.as_ref());
        let names = ("windowFrom", "windowTo");
        in_order(from.map(DateTime::seconds), names, to.map(DateTime::seconds), at, problems);
    }

    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        use PermissiblePurpose::{Litigation, ServiceOfProcess};
        if let Some(ServiceOfProcess | Litigation) = self.permissible_purpose {
            let condition = "when the purpose is ServiceOfProcess or Litigation";
            require(&self.court, "court", condition, at, problems);
            require(&self.case, "case", condition, at, problems);
        }
        if let Some(InvestigationType::Surveillance | InvestigationType::Stakeout) = self.investigation_type {
            let condition = "of Surveillance and Stakeout";
            require(&self.hours_authorized, "hoursAuthorized", condition, at, problems);
            require(&self.window_from, "windowFrom", condition, at, problems);
            require(&self.window_to, "windowTo", condition, at, problems);
        }
        let vehicles = self.searches.as_ref().is_some_and(|s| s.contains(&InvestigationSearch::Vehicles));
        let dppa = self.regulated_data.as_ref().is_some_and(|data| data.contains(&RegulatedData::Dppa));
        if vehicles && !dppa {
            let message = format!("{REQUIRED} of a search of Vehicles: must hold Dppa");
            at.key("regulatedData", |at| problems.push(at, message));
        }
    }
}
