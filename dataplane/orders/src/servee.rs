//! People to be served, for Process and FileAndServe.

use crate::choices::ServiceMethod;
use crate::field::{Field, REQUIRED, Rules};
use crate::list::List;
use crate::parts::{Address, AdvanceFee, Description, Party};
use crate::problem::{Path, Problems};
use crate::text::Text;
use crate::when::{Date, DateTime, in_order};

part! {
    ruled
    /// Someone to be served.
    pub struct Servee {
        /// Who it is. Required at export unless fictitiousName is given, which also stands for the names of the party.
        own party: Party,
        /// Where to try, 1 to 5; home and work are usual.
        req addresses: List<Address, 1, 5>,
        /// How to serve.
        def service_method: ServiceMethod = ServiceMethod::AnyLawful,
        /// Substituted service may be used.
        opt allow_sub_service: bool,
        /// The name in the papers when the real one was unknown: `Doe 1`.
        opt fictitious_name: Text<100>,
        /// Serve the occupants too (prejudgment claim).
        opt occupants: bool,
        /// What the person looks like.
        opt description: Description,
        /// When to find the person.
        opt best_times: Text<200>,
        /// Employer.
        opt employer: Text<100>,
        /// Fee a witness gets with the papers.
        opt witness_fee: AdvanceFee,
        /// Trace and bill if the address is bad.
        opt skip_trace: bool,
        /// Wait at the address.
        opt stakeout: bool,
    }
}

impl Rules for Servee {
    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        at.key("party", |at| match (&self.party, &self.fictitious_name) {
            (Some(party), Some(fictitious)) if !party.is_named() => {
                let (last_name, organization_name) = (Some(fictitious.clone()), Some(fictitious.widened()));
                Party { last_name, organization_name, ..party.clone() }.missing(at, problems);
            }
            (Some(party), _) => party.missing(at, problems),
            (None, Some(_)) => {}
            (None, None) => problems.push(at, format!("{REQUIRED} unless fictitiousName is given")),
        });
    }
}

impl Servee {
    /// The servee's first address, in one line.
    pub fn first_address(&self) -> Option<String> {
        self.addresses.as_ref().and_then(|addresses| addresses.first()).map(Address::in_one_line)
    }

    /// The party's name, else the fictitious name; empty if the draft has neither.
    pub fn display_name(&self) -> String {
        let name = self.party.as_ref().filter(|party| party.is_named()).map(Party::display_name);
        let fictitious = || self.fictitious_name.as_ref().map(|name| name.as_str().to_owned());
        name.or_else(fictitious).unwrap_or_default()
    }
}

/// Refuses a `dueBy` after `lastDayToServe`: service would come too late to count. [`DateTime::day`] defines the day
/// of `dueBy`.
pub(crate) fn due_in_time(
    due_by: &Option<DateTime>,
    last_day_to_serve: Option<Date>,
    at: &mut Path,
    problems: &mut Problems,
) {
    let due = due_by.as_ref().map(DateTime::day);
    in_order(due, ("dueBy", "lastDayToServe"), last_day_to_serve, at, problems);
}
