//! Fuzz targets: the readers of what comes from outside, and what holds for every input.
//!
//! A target is a function that takes any bytes and panics if what it reads breaks a rule. `tests/fuzz/run` builds the program
//! `fuzz` with coverage counters and lets libFuzzer search for such bytes. The test of this crate gives each target the inputs
//! that are kept in `tests/fuzz/corpus/<target>`.

mod targets;

/// A secret that seeds contain where a reader must not repeat it. It has a character that no name of a field has.
pub const SECRET: &str = "hunter!2";

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target, and of its folder in the corpus.
    pub name: &'static str,
    /// Panics if the input breaks a rule.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 11] = [
    Target { name: "answer", run: targets::answer::run },
    Target { name: "body", run: targets::body::run },
    Target { name: "bundle", run: targets::bundle::run },
    Target { name: "client", run: targets::client::run },
    Target { name: "cursor", run: targets::cursor::run },
    Target { name: "database_url", run: targets::database_url::run },
    Target { name: "query", run: targets::query::run },
    Target { name: "redis_url", run: targets::redis_url::run },
    Target { name: "signature", run: targets::signature::run },
    Target { name: "token", run: targets::token::run },
    Target { name: "yaml", run: targets::yaml::run },
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn kept_inputs_break_no_rule() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        for target in TARGETS {
            let folder = corpus.join(target.name);
            let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let mut count = 0;
            for file in files {
                let file = file.expect("a readable folder").path();
                println!("{}", file.display());
                (target.run)(&fs::read(file).expect("a readable file"));
                count += 1;
            }
            assert!(count > 0, "{}: no input is kept", target.name);
        }
        fs::remove_dir_all(&*targets::yaml::FOLDER).expect("a folder of this process");
    }
}
