//! The search terms of an order. They never include restricted fields, notes or instructions: a search result must not
//! reveal what only the whole order may show.

use std::collections::HashSet;
use std::fmt;

use docket_domain::fold::folded;

use crate::choices::PartyKind;
use crate::order::{Order, each};
use crate::parts::{Case, Party};
use crate::text::Text;

/// The longest text that searches read, in characters: room for a caption and 150 long names. The rest is not found.
pub const MAX_TEXT: usize = 32_000;

/// The search terms of an order. `Debug` shows no value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SearchTerms {
    /// Number of the case.
    pub case_number: Option<String>,
    /// Caption, or `plaintiff v. defendant`.
    pub caption: Option<String>,
    /// The firm's matter.
    pub client_matter_number: Option<String>,
    /// The caller's own key.
    pub external_reference: Option<String>,
    /// The first three with the organizations and surnames of the parties and the fictitious names, each once; [`folded`], at most [`MAX_TEXT`] characters.
    pub text: String,
}

impl fmt::Debug for SearchTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SearchTerms([redacted])")
    }
}

impl Order {
    /// The search terms of the order.
    pub fn search_terms(&self) -> SearchTerms {
        let case = self.case();
        let case_number = case.and_then(|case| owned(&case.case_number));
        let caption = case.and_then(caption);
        let client_matter_number = each!(self, order => owned(&order.client_matter_number));
        let external_reference = each!(self, order => owned(&order.external_reference));
        let terms = [&case_number, &caption, &client_matter_number].into_iter().flatten().map(String::as_str);
        let mut seen = HashSet::new();
        let mut text = String::with_capacity(128);
        for term in terms.chain(self.names()).filter(|term| seen.insert(*term)) {
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(&folded(term));
        }
        if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
            text.truncate(end);
        }
        SearchTerms { case_number, caption, client_matter_number, external_reference, text }
    }

    fn case(&self) -> Option<&Case> {
        match self {
            Self::Court(order) => order.case.as_ref(),
            Self::Process(order) => order.case.as_ref(),
            Self::Delivery(order) => order.case.as_ref(),
            Self::Investigation(order) => order.case.as_ref(),
            Self::FileAndServe(order) => order.case.as_ref(),
            Self::CountyRecording(_) => None,
            Self::PhotoCopy(order) => order.case.as_ref(),
        }
    }

    /// The names of all parties of the order. The parties that the order is about come first.
    fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for servee in self.servees() {
            names.extend(servee.party.as_ref().and_then(surname));
            names.extend(servee.fictitious_name.as_ref().map(Text::as_str));
        }
        names.extend(self.parties().into_iter().filter_map(surname));
        names
    }

    /// The parties of the order without its servees.
    fn parties(&self) -> Vec<&Party> {
        let mut parties: Vec<&Party> = Vec::new();
        match self {
            Self::Investigation(order) => parties.extend(order.subject.iter().flat_map(|s| &s.party)),
            Self::PhotoCopy(order) => parties.extend(order.subject.iter().flat_map(|s| &s.party)),
            Self::CountyRecording(order) => {
                for instrument in order.instruments.as_deref().unwrap_or_default() {
                    parties.extend(instrument.grantors.as_deref().unwrap_or_default());
                    parties.extend(instrument.grantees.as_deref().unwrap_or_default());
                }
            }
            Self::Court(_) | Self::Process(_) | Self::Delivery(_) | Self::FileAndServe(_) => {}
        }
        parties.extend(self.case().and_then(|case| case.parties.as_deref()).unwrap_or_default());
        parties
    }
}

fn owned<const MAX: usize>(text: &Option<Text<MAX>>) -> Option<String> {
    text.as_ref().map(|text| text.as_str().to_owned())
}

fn caption(case: &Case) -> Option<String> {
    match (&case.caption, &case.plaintiff, &case.defendant) {
        (Some(caption), _, _) => Some(caption.as_str().to_owned()),
        (None, Some(plaintiff), Some(defendant)) => {
            Some(format!("{} v. {}", plaintiff.as_str(), defendant.as_str()))
        }
        (None, plaintiff, defendant) => owned(plaintiff).or_else(|| owned(defendant)),
    }
}

/// The name by which searches find a party: of an organization, its name; of a person, the last name or else the first name.
fn surname(party: &Party) -> Option<&str> {
    let last_name = party.last_name.as_ref().or(party.first_name.as_ref()).map(Text::as_str);
    match party.kind {
        Some(PartyKind::Individual) => last_name,
        _ => party.organization_name.as_ref().map(Text::as_str).or(last_name),
    }
}
