//! The command `licenses` of both programs.

use std::io::{ErrorKind, Result, Write};

/// Docket's own licence, then the licences of everything else in the image.
const TEXT: &str =
    concat!(include_str!("../../../LICENSE"), "\n", include_str!("../../../licenses/third-party.txt"));

/// Prints the licences. If the reader closes the pipe early, as `head` does, this is no error.
pub fn print(mut out: impl Write) -> Result<()> {
    match out.write_all(TEXT.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that is gone.
    struct Gone(ErrorKind);

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whole_text_is_printed_unless_the_reader_has_enough() {
        let mut printed = Vec::new();
        print(&mut printed).expect("it takes all");
        assert!(printed == TEXT.as_bytes());
        assert!(print(Gone(ErrorKind::BrokenPipe)).is_ok());
        assert!(print(Gone(ErrorKind::StorageFull)).is_err());
    }

    #[test]
    fn text_begins_with_the_license_of_docket_and_names_every_part() {
        assert!(TEXT.trim_start().starts_with("Apache License\n"));
        for part in ["\ntokio 1.", "\nwebpki-roots 1.", "SQLite (", "Swagger UI (", "The GNU C library:\n"] {
            assert!(TEXT.contains(part), "{part}");
        }
    }
}
