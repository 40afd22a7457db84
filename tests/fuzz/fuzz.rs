//! libFuzzer with one of the targets: the one that `DOCKET_FUZZ_TARGET` names. `tests/fuzz/run` builds and starts it.
#![no_main]

use std::process::exit;
use std::sync::LazyLock;

use docket_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

#[expect(clippy::disallowed_methods, reason = "the arguments are libFuzzer's")]
static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("DOCKET_FUZZ_TARGET").unwrap_or_default();
    TARGETS.into_iter().find(|target| target.name == name).unwrap_or_else(|| {
        let names = TARGETS.map(|target| target.name).join(", ");
        eprintln!("DOCKET_FUZZ_TARGET is {name:?}; it must be one of: {names}");
        exit(2)
    })
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));
