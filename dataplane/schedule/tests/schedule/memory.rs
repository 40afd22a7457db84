//! The schedule in memory, on a clock that the suite advances.

use std::time::Duration;

use docket_program::clock::{Clock, ManualClock};
use docket_schedule::{Schedule, Shares};
use jiff::Timestamp;

use crate::contract::{self, contract_suite};

struct Rig {
    time: ManualClock,
    schedule: Schedule,
}

impl Rig {
    fn with(shares: Shares) -> Self {
        let time = ManualClock::new(Timestamp::UNIX_EPOCH);
        let schedule = Schedule::in_memory(Clock::Manual(time.clone()), shares);
        Self { time, schedule }
    }
}

impl contract::Rig for Rig {
    fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    async fn advance(&self, time: Duration) {
        self.time.advance(time);
    }
}

contract_suite!(Rig::with);
