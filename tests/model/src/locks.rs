//! The order of locks. Two transactions lock the rows of the same deliveries one after the other: one stores ends, the other renews leases.

use std::fmt;

/// The number of rows.
const ROWS: u8 = 2;

/// A transaction locks its next row, or commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step(pub u8);

/// The step in words.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.0 == 0 { "stores ends" } else { "renews leases" };
        write!(f, "the transaction that {what} locks its next row, or commits")
    }
}

/// How many rows each of the two transactions has locked; more than all: it has committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Locks([u8; 2]);

impl Locks {
    /// The row that a transaction locks as its `step`th. `in_order`: both lock the rows in the order of their ids.
    fn row(transaction: usize, step: u8, in_order: bool) -> u8 {
        if transaction == 0 || in_order { step } else { ROWS - 1 - step }
    }

    /// Whether a transaction holds the lock of a row.
    fn holds(self, transaction: usize, row: u8, in_order: bool) -> bool {
        let locked = self.0[transaction];
        locked <= ROWS && (0..locked).any(|step| Self::row(transaction, step, in_order) == row)
    }

    /// The steps that can follow, each with the next state.
    pub fn next(&self, in_order: bool) -> Vec<(Step, Self)> {
        let step = |transaction: usize| {
            let locked = self.0[transaction];
            let has_committed = locked > ROWS;
            let waits = locked < ROWS && {
                let row = Self::row(transaction, locked, in_order);
                self.holds(1 - transaction, row, in_order)
            };
            let mut next = *self;
            next.0[transaction] += 1;
            let name = Step(u8::try_from(transaction).unwrap_or_default());
            (!has_committed && !waits).then_some((name, next))
        };
        [0, 1].into_iter().filter_map(step).collect()
    }

    /// Whether transactions are open and all of them wait.
    pub fn is_deadlock(&self, in_order: bool) -> bool {
        self.0.iter().any(|locked| *locked <= ROWS) && self.next(in_order).is_empty()
    }
}
