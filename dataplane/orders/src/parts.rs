//! The parts that several order types share.

use crate::choices::{
    AddressLabel, Capacity, CourtType, DocumentPurpose, DocumentSource, DocumentType, FeeType, Jurisdiction,
    PartyKind, PartyRole,
};
use crate::country::{Country, check_us, is_us};
use crate::field::{Rules, require};
use crate::json::Fields;
use crate::list::List;
use crate::number::{Int, Money};
use crate::problem::{Path, Problems};
use crate::text::{Email, FileName, HttpsUrl, Phone, RecordNumber, Text};
use crate::when::{Date, LocalTime};

part! {
    ruled
    /// A postal address, in any country. A post office box can't take substituted service.
    pub struct Address {
        /// What kind of place it is.
        opt label: AddressLabel,
        /// The business at the address.
        opt business_name: Text<100>,
        /// Street and number.
        req street1: Text<100>,
        /// Suite, floor, unit.
        opt street2: Text<100>,
        /// City.
        req city: Text<60>,
        /// State, province or region. In the US two capital letters, required at export; elsewhere as it is written there.
        opt state: Text<60>,
        /// Postal code. In the US 5 or 5-4 digits, required at export; elsewhere as it is written there.
        opt postal_code: Text<20>,
        /// Country, two capital letters (ISO 3166-1 alpha-2).
        def country: Country = Country::US,
        /// County.
        opt county: Text<60>,
        /// How to get in, such as a gate code; restricted.
        opt access_notes: Text<500>,
    }
}

/// The condition in the message about a field that an export requires only in the US.
const IN_THE_US: &str = "in the US, which an absent country means";

impl Rules for Address {
    fn dependent(&self, object: &Fields<'_>, at: &mut Path, problems: &mut Problems) {
        check_us(object, self.country, (self.state.as_ref(), self.postal_code.as_ref()), at, problems);
    }

    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        if is_us(self.country) {
            require(&self.state, "state", IN_THE_US, at, problems);
            require(&self.postal_code, "postalCode", IN_THE_US, at, problems);
        }
    }
}

impl Address {
    /// Street, city, state and postal code, and the country unless it is the US.
    pub fn in_one_line(&self) -> String {
        fn text<const MAX: usize>(text: &Option<Text<MAX>>) -> &str {
            text.as_ref().map_or("", Text::as_str)
        }
        let area = [text(&self.state), text(&self.postal_code)].join(" ");
        let country = self.country.filter(|country| *country != Country::US).map_or("", Country::as_str);
        let parts = [text(&self.street1), text(&self.street2), text(&self.city), area.trim(), country];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

part! {
    /// A person to talk to.
    pub struct ContactPerson {
        /// Full name.
        req name: Text<100>,
        /// Position.
        opt title: Text<100>,
        /// E-mail address.
        opt email: Email,
        /// Phone number, E.164.
        opt phone: Phone,
        /// Extension of the phone.
        opt extension: Text<10>,
    }
}

part! {
    /// An attorney.
    pub struct Attorney {
        /// Full name.
        req name: Text<100>,
        /// Number in the state bar.
        opt bar_number: RecordNumber<20>,
        /// Law firm.
        opt firm: Text<100>,
        /// E-mail address.
        opt email: Email,
        /// Phone number, E.164.
        opt phone: Phone,
        /// Postal address.
        opt address: Address,
        /// The role of the party the attorney stands for.
        req represents: PartyRole,
    }
}

part! {
    ruled
    /// A person or organization of a case or an instrument.
    pub struct Party {
        /// Individual (with firstName, lastName or both) or Organization (with organizationName).
        req kind: PartyKind,
        /// First name, or the only one.
        opt first_name: Text<100>,
        /// Middle name or initial.
        opt middle_name: Text<100>,
        /// Last name, or the only one. Required at export for an Individual without firstName.
        opt last_name: Text<100>,
        /// Jr., III.
        opt suffix: Text<20>,
        /// Required at export for an Organization.
        opt organization_name: Text<200>,
        /// Other names.
        opt also_known_as: List<Text<200>, 0, 10>,
        /// What the party is in the case or the instrument.
        req role: PartyRole,
        /// In what capacity the party is served (form POS-010).
        opt capacity: Capacity,
        /// Who takes service for the party.
        opt agent_for_service: Text<200>,
    }
}

impl Rules for Party {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        let mut refuse = |is_given: bool, name, kind| {
            if is_given {
                at.key(name, |at| problems.push(at, format!("must be absent unless kind is {kind}")));
            }
        };
        match self.kind {
            Some(PartyKind::Individual) => {
                refuse(
                    self.organization_name.is_some(),
                    "organizationName",
                    PartyKind::Organization.as_str(),
                );
            }
            Some(PartyKind::Organization) => {
                let kind = PartyKind::Individual.as_str();
                refuse(self.first_name.is_some(), "firstName", kind);
                refuse(self.middle_name.is_some(), "middleName", kind);
                refuse(self.last_name.is_some(), "lastName", kind);
                refuse(self.suffix.is_some(), "suffix", kind);
            }
            None => {}
        }
    }

    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        match self.kind {
            Some(PartyKind::Individual) => {
                let name = self.last_name.as_ref().or(self.first_name.as_ref());
                require(&name, "lastName", "for an Individual without firstName", at, problems);
            }
            Some(PartyKind::Organization) => {
                require(&self.organization_name, "organizationName", "for an Organization", at, problems);
            }
            None => {}
        }
    }
}

impl Party {
    /// Whether the party has a name: an organization's name, a first name or a last name.
    pub fn is_named(&self) -> bool {
        self.organization_name.is_some() || self.first_name.is_some() || self.last_name.is_some()
    }

    /// The name for people; empty if the draft has no name.
    pub fn display_name(&self) -> String {
        if let Some(name) = &self.organization_name {
            return name.as_str().to_owned();
        }
        let names = [self.first_name.as_ref(), self.middle_name.as_ref(), self.last_name.as_ref()];
        let names = names.into_iter().flatten().map(Text::as_str);
        names.chain(self.suffix.as_ref().map(Text::as_str)).collect::<Vec<_>>().join(" ")
    }
}

part! {
    ruled
    /// A court, in any country.
    pub struct Court {
        /// The service's code of the court.
        opt court_code: Text<20>,
        /// Its name.
        req name: Text<200>,
        /// Its kind.
        req court_type: CourtType,
        /// Courthouse.
        opt branch: Text<100>,
        /// County it sits in. Required at export in the US.
        opt county: Text<60>,
        /// State, province or region it sits in. In the US two capital letters, required at export.
        opt state: Text<60>,
        /// Country it sits in, two capital letters (ISO 3166-1 alpha-2).
        def country: Country = Country::US,
        /// Department or courtroom.
        opt department: Text<50>,
        /// Judge.
        opt judge: Text<100>,
    }
}

impl Rules for Court {
    fn dependent(&self, object: &Fields<'_>, at: &mut Path, problems: &mut Problems) {
        check_us(object, self.country, (self.state.as_ref(), None), at, problems);
    }

    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        if is_us(self.country) {
            require(&self.county, "county", IN_THE_US, at, problems);
            require(&self.state, "state", IN_THE_US, at, problems);
        }
    }
}

part! {
    ruled
    /// A case, or one about to be opened.
    pub struct Case {
        /// Required at export unless newCase.
        opt case_number: Text<250>,
        /// The case does not exist yet; this order opens it.
        opt new_case: bool,
        /// Short title. Required at export unless plaintiff and defendant are given.
        opt caption: Text<500>,
        /// First plaintiff, instead of a caption.
        opt plaintiff: Text<500>,
        /// First defendant, instead of a caption.
        opt defendant: Text<500>,
        /// Civil, family, probate, …
        opt case_category: Text<100>,
        /// Kind of claim. Required at export for a newCase.
        opt case_type: Text<100>,
        /// Limited or unlimited.
        opt jurisdiction: Jurisdiction,
        /// Day the case was filed.
        opt filed_on: Date,
        /// Day of the next hearing.
        opt hearing_date: Date,
        /// Time of the next hearing, local to the court.
        opt hearing_time: LocalTime,
        /// Department of the hearing.
        opt department: Text<50>,
        /// The parties. At least one is required at export of a newCase.
        opt parties: List<Party, 0, 50>,
    }
}

impl Rules for Case {
    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        if self.new_case == Some(true) {
            require(&self.case_type, "caseType", "for a newCase", at, problems);
            let parties = self.parties.as_ref().filter(|parties| !parties.is_empty());
            require(&parties, "parties", "for a newCase (at least 1)", at, problems);
        } else {
            require(&self.case_number, "caseNumber", "unless newCase is true", at, problems);
        }
        match (&self.plaintiff, &self.defendant) {
            (Some(_), Some(_)) => {}
            _ => require(&self.caption, "caption", "unless plaintiff and defendant are given", at, problems),
        }
    }
}

part! {
    /// A paper to be filed, served, recorded or carried.
    pub struct Document {
        /// Title as on the paper.
        req title: Text<500>,
        /// Kind of paper.
        opt document_type: DocumentType,
        /// What to do with it; by default what the order does. Required at export for FileAndServe.
        opt purpose: DocumentPurpose,
        /// The lead document, to which the others are attached.
        opt lead: bool,
        /// The court's own code for the filing.
        opt filing_code: Text<50>,
        /// Name of the file, without folder.
        opt file_name: FileName,
        /// Number of pages.
        opt pages: Int<1, 100_000>,
        /// Number of copies.
        opt copies: Int<0, 1000>,
        /// How the service gets it.
        req source: DocumentSource,
        /// Where it can be fetched by people; stored, never fetched by the service; restricted.
        opt url: HttpsUrl,
        /// Filed under seal.
        opt sealed: bool,
    }
}

part! {
    /// Money the service lays out.
    pub struct AdvanceFee {
        /// What it is for.
        req fee_type: FeeType,
        /// Who gets it.
        opt payee: Text<100>,
        /// USD; absent while unknown.
        opt amount: Money,
        /// Number of the check.
        opt check_number: RecordNumber<30>,
    }
}

part! {
    /// Who else is billed.
    pub struct BillTo {
        /// Code of a known customer.
        opt customer_code: Text<64>,
        /// Name on the bill.
        req name: Text<100>,
        /// Address on the bill.
        opt address: Address,
        /// Who to ask about it.
        opt contact: ContactPerson,
        /// Insurance claim.
        opt claim_number: Text<50>,
        /// Insured person or firm.
        opt insured: Text<100>,
    }
}

part! {
    /// What a person looks like.
    pub struct Description {
        /// Sex.
        opt sex: Text<20>,
        /// Age, as a band: `45-55`.
        opt age: Text<20>,
        /// Height.
        opt height: Text<20>,
        /// Weight.
        opt weight: Text<20>,
        /// Hair.
        opt hair: Text<30>,
        /// Eyes.
        opt eyes: Text<30>,
        /// Anything else.
        opt other: Text<200>,
    }
}
