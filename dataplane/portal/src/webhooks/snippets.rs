//! The functions that verify a delivery, in each language of the documentation.

use maud::{Markup, html};

/// The page of the documentation with the functions, which the suite runs.
const PAGE: &str = include_str!("../../../../docs/webhooks/verify.md");

/// The languages: the name for people, and the name of their code blocks.
const LANGUAGES: [(&str, &str); 8] = [
    ("Python", "python"),
    ("JavaScript (Node.js)", "javascript"),
    ("Go", "go"),
    ("Rust", "rust"),
    ("Java", "java"),
    ("C#", "csharp"),
    ("PHP", "php"),
    ("Ruby", "ruby"),
];

/// The first code block of this language in a page; `None`: the page has none.
fn block<'a>(page: &'a str, language: &str) -> Option<&'a str> {
    let (_, after) = page.split_once(&format!("\n```{language}\n"))?;
    after.split_once("\n```").map(|(code, _)| code)
}

/// The function of each language that verifies with one secret.
pub(super) fn all() -> Markup {
    folded(|language| block(PAGE, language).map(str::to_owned))
}

/// The functions of each language that verify with either of two secrets.
pub(super) fn of_two_secrets() -> Markup {
    folded(|language| {
        let (one, either) = (block(PAGE, language)?, block(PAGE, &format!("{language} rotation"))?);
        Some(format!("{one}\n\n{either}"))
    })
}

/// The code of each language, folded, with a button that copies it.
fn folded(code: impl Fn(&str) -> Option<String>) -> Markup {
    html! {
        @for (name, language) in LANGUAGES {
            @if let Some(code) = code(language) {
                details {
                    summary { (name) }
                    pre { (code) }
                    (crate::parts::copy(&format!("the code in {name}")))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_has_the_function_of_the_page() {
        for (name, language) in LANGUAGES {
            let code = block(PAGE, language).unwrap_or_else(|| panic!("no code in {name}"));
            assert!(code.to_lowercase().contains("verify(") && !code.contains("```"), "{name}: {code}");
        }
        let text = all().into_string();
        assert_eq!(text.matches("data-copy").count(), LANGUAGES.len());
        assert!(text.contains("hmac.new(secret, body, hashlib.sha256)"), "{text}");
        assert!(!text.contains("verify_either"), "{text}");
    }

    #[test]
    fn code_for_a_rotation_has_both_functions_of_each_language() {
        for (name, language) in LANGUAGES {
            let either =
                block(PAGE, &format!("{language} rotation")).unwrap_or_else(|| panic!("no code in {name}"));
            let either = either.to_lowercase().replace('$', "");
            assert!(
                either.contains("verify(first, body") && either.contains("verify(second, body"),
                "{name}: {either}"
            );
        }
        let text = of_two_secrets().into_string();
        assert_eq!(text.matches("data-copy").count(), LANGUAGES.len());
        assert!(text.contains("hmac.new(secret, body, hashlib.sha256)"), "{text}");
        assert!(text.contains("verify(first, body, signature) or verify(second"), "{text}");
    }

    #[test]
    fn block_ends_at_its_fence() {
        let page = "text\n```go\na\n\nb\n```\n```rust\nc\n```\n";
        assert_eq!(block(page, "go"), Some("a\n\nb"));
        assert_eq!(block(page, "rust"), Some("c"));
        assert_eq!(block(page, "php"), None);
    }
}
