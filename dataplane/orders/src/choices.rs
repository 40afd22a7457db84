//! The macro for enumerations, and the enumerations that several order types share. Enumerations of one order type
//! are in the file of that type. Values may be added but never renamed: they are stored, and clients use them.

/// Defines enums of words that are fields of orders. The JSON string of a variant is its name, or the text given after `=`.
macro_rules! choice {
    (@text $variant:ident) => { stringify!($variant) };
    (@text $variant:ident $text:literal) => { $text };
    ($( $(#[doc = $doc:literal])* pub enum $name:ident { $( $variant:ident $(= $text:literal)? ),* $(,)? } )*) => { $(
        docket_domain::words! {
            $(#[doc = $doc])*
            pub enum $name {
                $(
                    #[doc = concat!("`", choice!(@text $variant $($text)?), "`")]
                    $variant $(= $text)?,
                )*
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl $crate::field::Field for $name {
            fn read(
                json: &$crate::json::Json,
                at: &mut $crate::problem::Path,
                problems: &mut $crate::problem::Problems,
            ) -> Option<Self> {
                let known = match json {
                    $crate::json::Json::String(text) => text.parse::<Self>(),
                    _ => Err(docket_domain::UnknownWord(&Self::WORDS)),
                };
                known.inspect_err(|unknown| problems.push(at, unknown.to_string())).ok()
            }

            fn schema(
                components: &mut $crate::field::Components,
            ) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let words = Self::WORDS.into_iter();
                $crate::field::named_words(stringify!($name), concat!($($doc),*), words, components)
            }
        }
    )* };
}

choice! {
    /// How soon an order is worked on.
    pub enum ServiceLevel { Routine, Rush, SameDay, Immediate }

    /// What kind of place an address is.
    pub enum AddressLabel { Home, Business, Mailing, RegisteredAgent, Facility, Other }

    /// A person or an organization.
    pub enum PartyKind { Individual, Organization }

    /// What a party is in the case or the instrument.
    pub enum PartyRole {
        Plaintiff, Defendant, Petitioner, Respondent, CrossComplainant, CrossDefendant, Claimant, Applicant,
        Employer, Carrier, Witness, Custodian, Decedent, Minor, Grantor, Grantee, Trustee, Beneficiary, Subject,
        Other,
    }

    /// In what capacity a party is served, as listed on form POS-010.
    pub enum Capacity {
        Corporation, DefunctCorporation, JointStock, Partnership, PublicEntity, Minor, Conservatee,
        AuthorizedPerson, BusinessFormUnknown, Occupant,
    }

    /// The kind of court.
    pub enum CourtType { Superior, Appeal, Federal, Bankruptcy, Wcab, SmallClaims, Other }

    /// Whether the amount at stake is limited.
    pub enum Jurisdiction { Limited, Unlimited }

    /// A court paper.
    pub enum DocumentType {
        Summons, Complaint, CrossComplaint, Petition, CivilCaseCoverSheet, AdrPackage, Answer, Demurrer, Motion,
        Opposition, Reply, Declaration, ProposedOrder, Order, Judgment, Writ, Subpoena, Notice, Stipulation,
        ProofOfService, UnlawfulDetainerNotice, Other,
    }

    /// What is to be done with a document.
    pub enum DocumentPurpose { File, Serve, FileAndServe, Record, Deliver, Reference }

    /// How the service gets a document.
    pub enum DocumentSource { Electronic, HardCopyPickup, ToFollow }

    /// What advanced money is for.
    pub enum FeeType { CourtFiling, Witness, Custodian, Recording, TransferTax, Certification, Sheriff, Other }

    /// How papers reach the court.
    pub enum FilingMethod { EFile, OverTheCounter, DropBox, Fax, Mail }

    /// How papers may be served.
    pub enum ServiceMethod {
        AnyLawful, Personal, Substituted, NoticeAndAcknowledgment, OutOfStateMail, Posting, Publication,
        RegisteredAgent, SecretaryOfState, Mail, Electronic,
    }

    /// When to attempt service.
    pub enum AttemptWindow { Morning, Afternoon, Evening, Weekend }

    /// The form of the proof of service.
    pub enum ProofForm {
        Pos010 = "POS-010", Pos020 = "POS-020", Pos030 = "POS-030", Fl115 = "FL-115", Subp002 = "SUBP-002",
        Subp010 = "SUBP-010", Affidavit, Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::json::Json;
    use crate::problem::{Path, Problems};

    #[test]
    fn values_parse_from_their_exact_text() {
        let read = |text: &str| {
            let json = Json::String(text.into());
            ProofForm::read(&json, &mut Path::root(), &mut Problems::default())
        };
        assert_eq!(read("POS-010"), Some(ProofForm::Pos010));
        assert_eq!(read("Affidavit"), Some(ProofForm::Affidavit));
        assert_eq!(read("Pos010"), None);
        assert_eq!(read("affidavit"), None);
    }

    #[test]
    fn unknown_value_is_refused_with_a_list_of_the_known_ones() {
        let mut problems = Problems::default();
        ServiceLevel::read(&Json::String("Tomorrow".into()), &mut Path::root(), &mut problems);
        assert_eq!(problems.to_string(), "body: must be one of Routine, Rush, SameDay, Immediate");
    }
}
