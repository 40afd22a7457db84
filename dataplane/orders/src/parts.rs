//! The parts that several order types share.

use crate::choices::{
    AddressLabel, Capacity, CourtType, DocumentPurpose, DocumentSource, DocumentType, FeeType, Jurisdiction,
    PartyKind, PartyRole,
};
use crate::field::{Rules, require};
use crate::list::List;
use crate::number::{Int, Money};
use crate::problem::{Path, Problems};
use crate::state::UsState;
use crate::text::{Email, HttpsUrl, Phone, PostalCode, Text};
use crate::when::{Date, LocalTime};

part! {
    /// A postal address. A post office box can't take substituted service.
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
        /// State, two capital letters.
        req state: UsState,
        /// 5 or 5-4 digits.
        req postal_code: PostalCode,
        /// County.
        opt county: Text<60>,
        /// How to get in, such as a gate code; restricted.
        opt access_notes: Text<500>,
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
        opt bar_number: Text<20>,
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
        /// Individual (with firstName and lastName) or Organization (with organizationName).
        req kind: PartyKind,
        /// Required at export for an Individual.
        opt first_name: Text<100>,
        /// Middle name or initial.
        opt middle_name: Text<100>,
        /// Required at export for an Individual.
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
    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        match self.kind {
            Some(PartyKind::Individual) => {
                require(&self.first_name, "firstName", "for an Individual", at, problems);
                require(&self.last_name, "lastName", "for an Individual", at, problems);
            }
            Some(PartyKind::Organization) => {
                require(&self.organization_name, "organizationName", "for an Organization", at, problems);
            }
            None => {}
        }
    }
}

impl Party {
    /// The name as one reads it; empty when the draft has none.
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
    /// A court.
    pub struct Court {
        /// The service's code of the court.
        opt court_code: Text<20>,
        /// Its name.
        req name: Text<200>,
        /// Its kind.
        req court_type: CourtType,
        /// Courthouse.
        opt branch: Text<100>,
        /// County it sits in.
        req county: Text<60>,
        /// State it sits in.
        req state: UsState,
        /// Department or courtroom.
        opt department: Text<50>,
        /// Judge.
        opt judge: Text<100>,
    }
}

part! {
    ruled
    /// A case, or one about to be opened.
    pub struct Case {
        /// Required at export unless newCase.
        opt case_number: Text<50>,
        /// The case does not exist yet; this order opens it.
        opt new_case: bool,
        /// Short title. Required at export unless plaintiff and defendant are given.
        opt caption: Text<200>,
        /// First plaintiff, instead of a caption.
        opt plaintiff: Text<200>,
        /// First defendant, instead of a caption.
        opt defendant: Text<200>,
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
        req title: Text<200>,
        /// Kind of paper.
        opt document_type: DocumentType,
        /// What to do with it; by default what the order does. Required at export for FileAndServe.
        opt purpose: DocumentPurpose,
        /// The lead document, to which the others are attached.
        opt lead: bool,
        /// The court's own code for the filing.
        opt filing_code: Text<50>,
        /// Name of the file.
        opt file_name: Text<255>,
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
        opt check_number: Text<30>,
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
