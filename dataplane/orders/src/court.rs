//! Court: a runner or e-filer at the court: filing, research, copies, courtesy copies.

use crate::choices::FilingMethod;
use crate::field::{Rules, require};
use crate::number::Int;
use crate::parts::{Address, Case, Court};
use crate::problem::{Path, Problems};
use crate::text::{RecordNumber, Text};
use crate::when::{Date, DateTime, in_order};

choice! {
    /// What to do at the court.
    pub enum CourtTask { File, Issue, Lodge, CourtesyCopy, Research, CopyRequest, PickUp, Other }

    /// How papers come back.
    pub enum ReturnMethod { Email, Mail, Messenger, HoldForPickup }
}

impl CourtTask {
    /// Whether papers are handed in. Then the order needs documents and a filing method.
    pub fn files_papers(self) -> bool {
        matches!(self, Self::File | Self::Issue | Self::Lodge)
    }

    /// Whether the court is to find, copy or fetch something. Then the order must say what.
    pub fn asks_for_something(self) -> bool {
        matches!(self, Self::Research | Self::CopyRequest | Self::PickUp)
    }
}

order! {
    /// An order for the court: filing, research, copies.
    pub struct CourtOrder (attorney req, documents opt 0) {
        /// What to do.
        req court_task: CourtTask,
        /// Where.
        req court: Court,
        /// In which case.
        req case: Case,
        /// How to file. Required at export for File, Issue and Lodge, as is one document.
        opt filing_method: FilingMethod,
        /// Limitation or court deadline; for File, Issue and Lodge dueBy may not be after it.
        opt last_day_to_file: Date,
        /// Stamped copies to return.
        opt conformed_copies: Int<0, 20>,
        /// Certified copies to return.
        opt certified_copies: Int<0, 20>,
        /// Filed with a waiver of fees.
        opt fee_waiver: bool,
        /// Heard the same day.
        opt ex_parte: bool,
        /// What to find, copy or fetch. Required at export for Research, CopyRequest and PickUp.
        opt request: Text<2000>,
        /// Transaction number of the e-filing, for a CourtesyCopy.
        opt court_transaction_number: RecordNumber<40>,
        /// How papers come back.
        opt return_method: ReturnMethod,
        /// Where papers come back to.
        opt return_to: Address,
    }
}

impl Rules for CourtOrder {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        if self.court_task.is_some_and(CourtTask::files_papers) {
            let due = self.due_by.as_ref().map(DateTime::day);
            in_order(due, ("dueBy", "lastDayToFile"), self.last_day_to_file, at, problems);
        }
    }

    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        let Some(task) = self.court_task else { return };
        if task.files_papers() {
            let condition = "for File, Issue and Lodge";
            require(&self.filing_method, "filingMethod", condition, at, problems);
            let documents = self.documents.as_ref().filter(|documents| !documents.is_empty());
            require(&documents, "documents", "for File, Issue and Lodge (at least 1)", at, problems);
        }
        if task.asks_for_something() {
            require(&self.request, "request", "for Research, CopyRequest and PickUp", at, problems);
        }
    }
}
