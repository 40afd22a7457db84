//! Who is concerned by a change.
