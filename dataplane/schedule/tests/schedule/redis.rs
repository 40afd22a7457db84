//! The contract of the schedule on Redis.

use crate::contract::contract_suite;
use crate::rig::Rig;

contract_suite!(Rig::with);
