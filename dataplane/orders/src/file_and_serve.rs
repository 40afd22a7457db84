//! FileAndServe: file, then serve the stamped copies. Export makes one court work order and one process work
//! order per servee.

use crate::choices::{AttemptWindow, DocumentPurpose, FilingMethod, ProofForm};
use crate::field::{REQUIRED, Rules, require};
use crate::list::List;
use crate::number::Int;
use crate::parts::{Case, Court, Document};
use crate::problem::{Path, Problems};
use crate::servee::{Servee, due_in_time};
use crate::text::{Email, Text};
use crate::when::Date;

choice! {
    /// When serving may begin.
    pub enum ServeAfter { Filed, Submitted, Now }
}

part! {
    /// Someone to be served electronically, beside physical service.
    pub struct EService {
        /// Full name.
        req name: Text<100>,
        /// E-mail address.
        req email: Email,
        /// The party the person stands for.
        opt party_name: Text<200>,
    }
}

order! {
    /// An order to file papers and serve them.
    pub struct FileAndServeOrder (attorney req, documents req 1) {
        /// Where to file.
        req court: Court,
        /// In which case.
        req case: Case,
        /// How to file.
        req filing_method: FilingMethod,
        /// Limitation or court deadline; not after lastDayToServe if serving waits for the filing.
        opt last_day_to_file: Date,
        /// Stamped copies to return.
        opt conformed_copies: Int<0, 20>,
        /// Filed with a waiver of fees.
        opt fee_waiver: bool,
        /// Heard the same day.
        opt ex_parte: bool,
        /// Whom to serve, 1 to 50.
        req servees: List<Servee, 1, 50>,
        /// Last day service counts; dueBy may not be after it.
        opt last_day_to_serve: Date,
        /// Attempts before giving up, on different days and times.
        def minimum_attempts: Int<1, 10> = Int::<1, 10>::new(3),
        /// When to try.
        opt attempt_windows: List<AttemptWindow, 0, 4>,
        /// Service on a Sunday is allowed.
        def sunday_service: bool = true,
        /// Form of the proof; chosen from the documents if absent.
        opt proof_form: ProofForm,
        /// File the proof with the court.
        opt file_proof: bool,
        /// Have the proof notarized.
        opt notarize_proof: bool,
        /// When serving may begin; Filed waits for the conformed copies.
        def serve_after: ServeAfter = ServeAfter::Filed,
        /// Electronic service beside physical service.
        opt e_service_contacts: List<EService, 0, 50>,
    }
}

impl Rules for FileAndServeOrder {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        due_in_time(&self.due_by, self.last_day_to_serve, at, problems);
    }

    /// Each document says what it is for; at least one is to be filed and one to be served.
    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        use DocumentPurpose::{File, FileAndServe, Serve};
        let documents: &[Document] = self.documents.as_deref().unwrap_or_default();
        if documents.is_empty() {
            return; // reported already
        }
        at.key("documents", |at| {
            for (index, document) in documents.iter().enumerate() {
                at.index(index, |at| require(&document.purpose, "purpose", "for FileAndServe", at, problems));
            }
            let unknown = documents.iter().any(|document| document.purpose.is_none());
            let any = |purpose| {
                documents.iter().any(|d| d.purpose == Some(purpose) || d.purpose == Some(FileAndServe))
            };
            for (purpose, verb) in [(File, "file"), (Serve, "serve")] {
                if !unknown && !any(purpose) {
                    problems
                        .push(at, format!("{REQUIRED} for FileAndServe: at least one document to {verb}"));
                }
            }
        });
    }
}
