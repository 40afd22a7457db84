//! Faults of the operator's surroundings: a pass that is cut off after each of its writes, watches that miss something, calls that fail. The
//! objects end as they would have without.

mod calls;
mod kills;
mod leaders;
mod settled;
mod watches;
