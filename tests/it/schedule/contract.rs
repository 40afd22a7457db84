//! What every schedule must do.

use crate::rig::Rig;

docket::contract_suite!(Rig::new());
