//! What every schedule must do.

use crate::rig::Rig;

docket_schedule::contract_suite!(Rig::new());
