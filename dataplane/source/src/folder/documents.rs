//! Parses the text of a YAML file into its documents.

use std::io::Cursor;

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, MergeKeyPolicy, NonFiniteFloatPolicy, Options};

/// The text of a file is not YAML throughout.
#[derive(Debug)]
pub(super) struct NotYaml {
    /// The number of the document with the error, from 1.
    pub(super) document: usize,
    /// The parser's message, with line and column.
    pub(super) message: String,
}

/// The documents of a file in order, without empty ones; or the first error.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, NotYaml> {
    let mut reader = Cursor::new(text);
    let mut documents = Vec::new();
    for document in serde_saphyr::read_with_options(&mut reader, options()) {
        let document =
            document.map_err(|error| NotYaml { document: documents.len() + 1, message: message(&error) })?;
        documents.push(document);
    }
    Ok(documents)
}

/// Parses like `kubectl`: `yes` and `on` are booleans, `<<` merges. It refuses some things that other parsers accept:
/// duplicate keys, numbers that JSON does not have, and tags (`!x`), which are usually texts without quotes.
fn options() -> Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Merge,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        reject_unsupported_tags: true,
        // The library's own limits for depth and size apply too. Aliases are for repeating a few lines.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
        with_snippet: false,
    }
}

/// Returns the library's message if it is a fixed text. Other messages could quote a scalar, which may be a secret,
/// so a fixed text replaces them.
fn message(error: &Error) -> String {
    let what = match error {
        Error::AliasError { error, .. } => return message(error),
        Error::ExternalMessage { .. }
        | Error::Eof { .. }
        | Error::Unexpected { .. }
        | Error::UnknownAnchor { .. }
        | Error::MergeValueNotMapOrSeqOfMaps { .. }
        | Error::ContainerEndMismatch { .. } => return error.to_string(),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("{key:?} is given twice"),
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::Budget { .. } => "too large, too deep or too many aliases".to_owned(),
        _ => "not plain YAML; put texts in quotes".to_owned(),
    };
    let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    what + &place.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_keep_their_order_without_empty_ones() {
        let text = "# head\n---\n---\na: 1\n---\nnull\n---\n\"b\"\n...\n";
        assert_eq!(parse(text).unwrap(), [json!({"a": 1}), json!("b")]);
        assert_eq!(parse("").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn lines_that_are_repeated_by_alias_or_merged_are_read() {
        let text = "a: &a {b: 1, c: 2}\nd:\n  <<: *a\n  e: 3\nf: [*a]\n";
        let a = json!({"b": 1, "c": 2});
        assert_eq!(parse(text).unwrap(), [json!({"a": a, "d": {"b": 1, "c": 2, "e": 3}, "f": [a]})]);
    }

    #[test]
    fn broken_yaml_is_reported_with_document_line_and_column() {
        for (text, document, expected) in [
            (
                "a: 1\n---\nb:\n  c: 2\n d: 3\n",
                2,
                "while parsing a block mapping, did not find expected key at line 5, column 2",
            ),
            ("a: 1\nb: {}\na: 2\n", 1, "\"a\" is given twice at line 3, column 1"),
            ("a: 1e999\n", 1, "not plain YAML; put texts in quotes at line 1, column 4"),
            ("a: *b\n", 1, "alias references unknown anchor at line 1, column 4"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.document, error.message.as_str()), (document, expected), "{text}");
        }
    }

    #[test]
    fn aliases_and_depth_have_limits() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..9 {
            let last = format!("*a{},", level - 1).repeat(10);
            bomb += &format!("a{level}: &a{level} [{last}]\n");
        }
        for text in [bomb, "- ".repeat(1000)] {
            let message = parse(&text).unwrap_err().message;
            assert!(message.starts_with("too large, too deep or too many aliases at line "), "{message}");
        }
    }

    #[test]
    fn error_quotes_no_value() {
        for text in [
            "a: \"hunter2\n",
            "a: *hunter2\n",
            "a: !hunter2\n",
            "a: !hunter2 b\n",
            "a: %hunter2\n",
            "a: hunter2: b\n",
            "a: \"\\hunter2\"\n",
            "a: !!int hunter2\n",
            "a: !!float hunter2\n",
            "a: !!bool hunter2\n",
            "a: !!binary hunter2\n",
            "a: |hunter2\n",
            "a: [hunter2\n",
            "a:\n\tb: hunter2\n",
            "<<: hunter2\n",
            "? [hunter2]\n: b\n",
            "a: @hunter2",
            "a: 'hunter2",
            "a: hunter2\n b: c\n",
            "a: !!map hunter2",
            "a: b\n%hunter2 c\n---\n",
        ] {
            let message = parse(text).expect_err(text).message;
            assert!(!message.contains("hunter2"), "{text}: {message}");
        }
    }
}
