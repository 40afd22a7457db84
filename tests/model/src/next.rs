//! The protocol: which step may follow a state, and what it changes. Each step of a store is one transaction or one script.

use crate::action::Action;
use crate::guard::Guard;
use crate::invariant::Invariant;
use crate::state::{
    BACKOFF, DELIVERIES, Entry, GRACE, LEASE, MAX_ATTEMPTS, Place, RowLease, Save, State, Task,
};
use crate::world::World;

/// `None` unless the condition holds.
fn when(condition: bool) -> Option<()> {
    condition.then_some(())
}

impl World {
    /// Returns the state after a step; `None`: the step can't follow.
    pub fn next(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.apply(&mut next, action)?;
        next.forget_ended();
        Some(next)
    }

    /// Returns the steps that can follow, each with the next state.
    pub fn actions(&self, state: &State, all: &[Action]) -> Vec<(Action, State)> {
        all.iter().filter_map(|action| Some((*action, self.next(state, *action)?))).collect()
    }

    /// The deliveries that the current save stores.
    pub fn saved(&self, state: &State) -> std::ops::Range<usize> {
        match self.is_keyed {
            true => usize::from(state.is_repeated)..usize::from(state.is_repeated) + 1,
            false => 0..self.deliveries,
        }
    }

    fn apply(&self, state: &mut State, action: Action) -> Option<()> {
        let faults = self.faults;
        match action {
            Action::Announce { hand_off } => {
                when(!(hand_off && self.is_keyed))?;
                self.announce(state, hand_off, true)
            }
            Action::AnnounceLost => {
                when(faults.schedule)?;
                self.announce(state, false, false)
            }
            Action::Commit => self.commit(state, true),
            Action::CommitUnanswered => {
                when(faults.unanswered)?;
                self.commit(state, false)
            }
            Action::Refuse => self.refuse(state),
            Action::Repeat => {
                when(self.is_keyed && !state.is_repeated && state.save == Save::Over)?;
                (state.is_repeated, state.is_refused, state.save) = (true, false, Save::Ready);
                Some(())
            }
            Action::Claim(task, delivery) => {
                let (place, delivery) = (usize::from(task), usize::from(delivery));
                when(delivery < self.deliveries && place < DELIVERIES + self.workers)?;
                when(state.tasks[place] == Task::Idle)?;
                claim(state, delivery, Some(task))?;
                state.tasks[place] = Task::Claimed(u8::try_from(delivery).ok()?);
                Some(())
            }
            Action::ClaimUnanswered(delivery) => {
                when(faults.schedule)?;
                claim(state, delivery.into(), None)
            }
            Action::Begin(task) => self.begin(state, task, true),
            Action::BeginUnanswered(task) => {
                when(faults.unanswered && state.is_served)?;
                self.begin(state, task, false)
            }
            Action::GiveBack(task) => {
                when(faults.long_attempts || !state.is_served)?;
                give_back(state, task)
            }
            Action::Post(task, succeeds) => self.post(state, task, succeeds),
            Action::Finish(task) => {
                let delivery = ended(state, task)?;
                let again = self.finish(state, task)?;
                state.tasks[usize::from(task)] = Task::Settling { delivery, again };
                Some(())
            }
            Action::FinishUnanswered(task) => {
                when(faults.unanswered)?;
                self.finish_unanswered(state, task)
            }
            Action::GiveUp(task) => {
                when(faults.unanswered)?;
                let delivery = ended(state, task)?;
                state.tasks[usize::from(task)] = Task::Settling { delivery, again: Some(LEASE) };
                Some(())
            }
            Action::Settle(task) => settle(state, task, true),
            Action::SettleLost(task) => {
                when(faults.schedule)?;
                settle(state, task, false)
            }
            Action::Renew(task) => {
                when(faults.long_attempts)?;
                renew(state, task)
            }
            Action::Crash(task) => {
                when(faults.crashes)?;
                crash(state, task)
            }
            Action::Put(delivery) => put(state, delivery.into(), true, true),
            Action::PutUnanswered(delivery) => {
                when(faults.schedule)?;
                put(state, delivery.into(), true, false)
            }
            Action::PutLost(delivery) => {
                when(faults.schedule || faults.crashes)?;
                put(state, delivery.into(), false, true)
            }
            Action::Sweep => {
                when(self.has(Guard::Sweep))?;
                sweep(state);
                Some(())
            }
            Action::TickDatabase => {
                tick_database(state);
                Some(())
            }
            Action::TickSchedule => {
                when(faults.slow_commits || !matches!(state.save, Save::Announced { .. }))?;
                tick_schedule(state);
                Some(())
            }
            Action::SetBack => {
                when(faults.clock)?;
                set_back(state)
            }
            Action::LoseIndex => {
                when(faults.schedule)?;
                state.index = Default::default();
                Some(())
            }
            Action::SaveIndex => {
                when(faults.schedule)?;
                state.snapshot = Some(state.index);
                Some(())
            }
            Action::RestoreIndex => {
                when(faults.schedule)?;
                state.index = state.snapshot?;
                Some(())
            }
            Action::DeleteWebhook => {
                when(faults.webhook && state.is_served)?;
                state.is_served = false;
                Some(())
            }
            Action::DeclareWebhook => {
                when(!state.is_served)?;
                state.is_served = true;
                Some(())
            }
            Action::RenderOtherwise => {
                when(faults.rendering && !state.renders_otherwise)?;
                state.renders_otherwise = true;
                Some(())
            }
        }
    }

    fn announce(&self, state: &mut State, hand_off: bool, arrives: bool) -> Option<()> {
        when(state.save == Save::Ready)?;
        state.save = Save::Announced { hand_off };
        for place in self.saved(state) {
            let delivery = u8::try_from(place).ok()?;
            if hand_off {
                state.index[place] = Entry::Claimed { holder: Some(delivery), left: LEASE };
                state.tasks[place] = match self.has(Guard::ConfirmedCommit) {
                    true => Task::Claimed(delivery),
                    false => Task::Begun { delivery, attempt: 1 },
                };
            } else if arrives && self.has(Guard::Announcement) && state.index[place] == Entry::Absent {
                state.index[place] = Entry::Waiting(LEASE);
            }
        }
        Some(())
    }

    fn commit(&self, state: &mut State, is_answered: bool) -> Option<()> {
        let Save::Announced { hand_off } = state.save else { return None };
        state.save = Save::Over;
        state.is_acknowledged |= is_answered;
        let has_key = self.is_keyed && state.is_repeated && state.rows[0].place.is_stored();
        if has_key && self.has(Guard::UniqueKey) {
            // The delivery of the first publication is scheduled again.
            let row = state.rows[0];
            if is_answered && row.place == Place::Queue {
                state.puts[0] = Some(row.due);
            }
            return Some(());
        }
        for place in self.saved(state) {
            let row = &mut state.rows[place];
            if !hand_off {
                row.place = Place::Queue;
                if is_answered {
                    state.puts[place] = Some(0);
                }
                continue;
            }
            let holder = u8::try_from(place).ok()?;
            row.place = Place::HandOff;
            row.attempts = u8::from(self.has(Guard::CountFirst));
            row.lease = Some(RowLease { holder: Some(holder), left: LEASE });
            let task = &mut state.tasks[place];
            match task {
                Task::Claimed(_) if is_answered => *task = Task::Begun { delivery: holder, attempt: 1 },
                Task::Claimed(_) => *task = Task::Idle,
                _ => {}
            }
        }
        Some(())
    }

    fn refuse(&self, state: &mut State) -> Option<()> {
        when(matches!(state.save, Save::Announced { .. }))?;
        (state.save, state.is_refused) = (Save::Over, true);
        for place in self.saved(state) {
            if let Task::Claimed(delivery) = state.tasks[place] {
                state.tasks[place] = Task::Settling { delivery, again: None };
            }
            if !self.has(Guard::OneTransaction) {
                state.rows[place].place = Place::Queue;
            }
        }
        Some(())
    }

    fn begin(&self, state: &mut State, task: u8, is_answered: bool) -> Option<()> {
        let place = usize::from(task);
        when(place >= DELIVERIES)?;
        let Task::Claimed(delivery) = state.tasks[place] else { return None };
        if !state.is_served {
            state.tasks[place] = Task::Settling { delivery, again: None };
            return Some(());
        }
        let row = &mut state.rows[usize::from(delivery)];
        let is_free = row.place == Place::Queue
            && (row.attempts < MAX_ATTEMPTS || !self.has(Guard::AttemptLimit))
            && (row.due == 0 || !self.has(Guard::DueTime))
            && (row.lease.is_none() || !self.has(Guard::Lease));
        let again = if is_free {
            if row.lease.is_some_and(|lease| lease.left > 0) {
                state.broken = Some(Invariant::OneAttemptAtATime);
            }
            if row.due > 0 {
                state.broken = Some(Invariant::NoAttemptIsEarly);
            }
            let attempt = row.attempts + 1;
            if self.has(Guard::CountFirst) {
                row.attempts = attempt;
            }
            row.lease = Some(RowLease { holder: Some(task), left: LEASE });
            if is_answered {
                state.tasks[place] = Task::Begun { delivery, attempt };
                return Some(());
            }
            None
        } else {
            end_lost(state, delivery.into())
        };
        // Without a response the worker tries again a little later.
        let again = if is_answered { again } else { Some(LEASE) };
        state.tasks[place] = Task::Settling { delivery, again };
        Some(())
    }

    fn post(&self, state: &mut State, task: u8, succeeds: bool) -> Option<()> {
        let task = &mut state.tasks[usize::from(task)];
        let Task::Begun { delivery, attempt } = *task else { return None };
        when(state.is_served)?;
        *task = Task::Ended { delivery, attempt, succeeded: succeeds, again: false, is_stored: false };
        let received = &mut state.received[usize::from(delivery)];
        received.posts += 1;
        let bytes = state.renders_otherwise && !self.has(Guard::StoredBytes);
        if *received.bytes.get_or_insert(bytes) != bytes {
            state.broken = Some(Invariant::SameBytes);
        }
        Some(())
    }

    /// Stores an end. Returns the ticks until the delivery is due again.
    fn finish(&self, state: &mut State, task: u8) -> Option<Option<i8>> {
        let Task::Ended { delivery, attempt, succeeded, again, is_stored } = state.tasks[usize::from(task)]
        else {
            return None;
        };
        if usize::from(task) < DELIVERIES && (!succeeded || again) {
            state.queue_hand_offs();
        }
        let row = &mut state.rows[usize::from(delivery)];
        let is_held = row.lease.is_some_and(|lease| lease.holder == Some(task));
        let is_stale = !is_held && !self.has(Guard::Token) && row.place.is_unfinished();
        if is_stale {
            state.broken = Some(Invariant::OnlyTheHolderFinishes);
        }
        if !is_held && !is_stale && !is_stored {
            return Some(Some(LEASE));
        }
        let is_last = attempt >= MAX_ATTEMPTS && self.has(Guard::AttemptLimit);
        if is_held || is_stale {
            if !self.has(Guard::CountFirst) {
                row.attempts += 1;
            }
            match (succeeded, is_last) {
                (true, _) => row.end(Place::Succeeded),
                (false, true) => row.end(Place::DeadLetter),
                (false, false) => (row.due, row.lease) = (BACKOFF, None),
            }
        }
        Some((!succeeded && !is_last).then_some(BACKOFF))
    }

    fn finish_unanswered(&self, state: &mut State, task: u8) -> Option<()> {
        let delivery = ended(state, task)?;
        let lease = state.rows[usize::from(delivery)].lease;
        let is_held = lease.is_some_and(|lease| lease.holder == Some(task));
        self.finish(state, task)?;
        if let Task::Ended { again, is_stored, .. } = &mut state.tasks[usize::from(task)] {
            *again = true;
            *is_stored |= is_held;
        }
        Some(())
    }
}

/// The delivery of a task whose POST has ended.
fn ended(state: &State, task: u8) -> Option<u8> {
    let Task::Ended { delivery, .. } = state.tasks[usize::from(task)] else { return None };
    Some(delivery)
}

/// Ends the attempt of a delivery that could not begin, if its worker was lost. Returns the ticks until the delivery is due again.
fn end_lost(state: &mut State, delivery: usize) -> Option<i8> {
    state.queue_hand_offs();
    let row = &mut state.rows[delivery];
    when(row.place == Place::Queue)?;
    let is_last = row.attempts >= MAX_ATTEMPTS;
    if let Some(lease) = row.lease {
        // The real end of a fifth attempt may come late.
        let is_lost = lease.left <= if is_last { -1 } else { 0 };
        if is_lost && is_last {
            row.end(Place::DeadLetter);
            return None;
        }
        if is_lost {
            row.due = if row.has_lost { BACKOFF } else { 0 };
            (row.has_lost, row.lease) = (true, None);
        }
    }
    let free = row.lease.map_or(0, |lease| lease.left + i8::from(is_last));
    Some(row.due.max(free).max(0))
}

fn give_back(state: &mut State, task: u8) -> Option<()> {
    let Task::Begun { delivery, .. } = state.tasks[usize::from(task)] else { return None };
    if usize::from(task) < DELIVERIES {
        state.queue_hand_offs();
    }
    let row = &mut state.rows[usize::from(delivery)];
    if row.lease.is_some_and(|lease| lease.holder == Some(task)) {
        row.attempts -= 1;
        row.lease = None;
    }
    let again = state.is_served.then_some(0);
    state.tasks[usize::from(task)] = Task::Settling { delivery, again };
    Some(())
}

fn renew(state: &mut State, task: u8) -> Option<()> {
    let of_task = state.tasks[usize::from(task)];
    when(of_task.has_token())?;
    if usize::from(task) < DELIVERIES {
        state.queue_hand_offs();
    }
    let delivery = of_task.delivery()?;
    if let Some(lease) = state.rows[delivery].lease.as_mut().filter(|lease| lease.holder == Some(task)) {
        lease.left = LEASE;
    }
    if state.index[delivery].is_held_by(task) {
        state.index[delivery] = Entry::Claimed { holder: Some(task), left: LEASE };
    }
    Some(())
}

/// The hand-offs are of one process with the save.
fn crash(state: &mut State, task: u8) -> Option<()> {
    let place = usize::from(task);
    if place >= DELIVERIES {
        when(state.tasks[place] != Task::Idle)?;
        state.tasks[place] = Task::Idle;
        return Some(());
    }
    let is_saving = matches!(state.save, Save::Announced { .. });
    when(place == 0 && (is_saving || state.tasks[..DELIVERIES].iter().any(|task| *task != Task::Idle)))?;
    state.tasks[..DELIVERIES].fill(Task::Idle);
    if is_saving {
        state.save = Save::Over;
    }
    Some(())
}

fn claim(state: &mut State, delivery: usize, holder: Option<u8>) -> Option<()> {
    when(state.index[delivery].is_due())?;
    for entry in state.index.iter_mut().filter(|entry| entry.is_due()) {
        *entry = Entry::Waiting(0);
    }
    state.index[delivery] = Entry::Claimed { holder, left: LEASE };
    Some(())
}

fn settle(state: &mut State, task: u8, arrives: bool) -> Option<()> {
    let Task::Settling { delivery, again } = state.tasks[usize::from(task)] else { return None };
    let entry = &mut state.index[usize::from(delivery)];
    if arrives && entry.is_held_by(task) {
        *entry = again.map_or(Entry::Absent, Entry::Waiting);
    }
    state.tasks[usize::from(task)] = Task::Idle;
    Some(())
}

fn put(state: &mut State, delivery: usize, arrives: bool, is_done: bool) -> Option<()> {
    let wait = state.puts[delivery]?;
    if arrives && !matches!(state.index[delivery], Entry::Claimed { .. }) {
        state.index[delivery] = Entry::Waiting(wait);
    }
    if is_done {
        state.puts[delivery] = None;
    }
    Some(())
}

fn sweep(state: &mut State) {
    state.queue_hand_offs();
    let is_queued = state.rows.iter().any(|row| row.place == Place::Queue);
    match (state.is_served, state.missing) {
        (true, _) => state.missing = None,
        (false, None) if is_queued => state.missing = Some(GRACE),
        (false, _) => {}
    }
    for (row, put) in state.rows.iter_mut().zip(&mut state.puts) {
        if row.place != Place::Queue {
            continue;
        }
        if state.is_served {
            *put = Some(row.due);
        } else if state.missing == Some(0) && row.lease.is_none_or(|lease| lease.left <= 0) {
            row.end(Place::DeadLetter);
        }
    }
}

fn tick_database(state: &mut State) {
    for row in &mut state.rows {
        row.due = (row.due - 1).max(0);
        if let Some(lease) = &mut row.lease {
            lease.left = (lease.left - 1).max(-1);
        }
    }
    state.missing = state.missing.map(|left| (left - 1).max(0));
}

fn tick_schedule(state: &mut State) {
    let snapshot = state.snapshot.iter_mut().flatten();
    for entry in state.index.iter_mut().chain(snapshot) {
        if let Entry::Waiting(left) | Entry::Claimed { left, .. } = entry {
            *left = (*left - 1).max(0);
        }
    }
}

/// Happens only while no time is more than a tick away, so that there are few states.
fn set_back(state: &mut State) -> Option<()> {
    let is_near = state.rows.iter().all(|row| row.due <= 1 && row.lease.is_none_or(|lease| lease.left <= 1));
    when(is_near && state.missing.is_none())?;
    for row in state.rows.iter_mut().filter(|row| row.place.is_unfinished()) {
        row.due += 1;
        if let Some(lease) = &mut row.lease {
            lease.left += 1;
        }
    }
    Some(())
}
