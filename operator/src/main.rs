//! The binary `docket-operator`: a match over its commands.

fn main() {}
