//! Process: service of papers. Export makes one process work order per servee.

use crate::choices::{AttemptWindow, ProofForm};
use crate::field::{Rules, require};
use crate::list::List;
use crate::number::Int;
use crate::parts::{Case, Court};
use crate::problem::{Path, Problems};
use crate::servee::{Servee, due_in_time};
use crate::when::Date;

order! {
    /// An order to serve papers.
    pub struct ProcessOrder (attorney req, documents req 1) {
        /// Required at export unless preLitigation.
        opt court: Court,
        /// Required at export unless preLitigation.
        opt case: Case,
        /// A notice served before a case exists.
        opt pre_litigation: bool,
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
    }
}

impl Rules for ProcessOrder {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        due_in_time(&self.due_by, self.last_day_to_serve, at, problems);
    }

    fn conditional(&self, at: &mut Path, problems: &mut Problems) {
        if self.pre_litigation != Some(true) {
            require(&self.court, "court", "unless preLitigation is true", at, problems);
            require(&self.case, "case", "unless preLitigation is true", at, problems);
        }
    }
}
