//! The schedule in memory, on a clock that the suite advances.

use std::time::Duration;

use docket_program::clock::{Clock, ManualClock};
use docket_schedule::Shares;
use docket_schedule::memory::MemorySchedule;
use jiff::Timestamp;

use crate::contract::{self, contract_suite};

struct Rig {
    time: ManualClock,
    schedule: MemorySchedule,
}

impl Rig {
    fn with(shares: Shares) -> Self {
        let time = ManualClock::new(Timestamp::UNIX_EPOCH);
        let schedule = MemorySchedule::new(Clock::Manual(time.clone()), shares);
        Self { time, schedule }
    }
}

impl contract::Rig for Rig {
    type Schedule = MemorySchedule;

    fn schedule(&self) -> &MemorySchedule {
        &self.schedule
    }

    async fn advance(&self, time: Duration) {
        self.time.advance(time);
    }
}

contract_suite!(Rig::with);
