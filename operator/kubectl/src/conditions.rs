//! What `docs/reference/conditions.md` says about a reason: the page of this very version.

/// The page, for the last line of what is wrong.
pub(crate) const PAGE: &str = "/docs/reference/conditions.html";

/// The text of the section of `reason` on one line, without the marks of Markdown; `None`: no such section.
pub(crate) fn about(reason: &str) -> Option<String> {
    let document = include_str!("../../../docs/reference/conditions.md");
    let (_, rest) = document.split_once(&format!("\n### {reason}\n"))?;
    let section = rest.split("\n#").next()?;
    let words = section.lines().filter(|line| !line.starts_with("```")).flat_map(str::split_whitespace);
    Some(words.collect::<Vec<_>>().join(" "))
}

/// The address of the section.
pub(crate) fn page(reason: &str) -> String {
    format!("{PAGE}#{}", reason.to_lowercase())
}

#[cfg(test)]
mod tests {
    use docket_crds::ReasonCode;

    use super::*;

    #[test]
    fn every_reason_has_a_fix() {
        for reason in ReasonCode::ALL {
            assert!(about(reason.as_str()).is_some_and(|fix| fix.len() > 20), "{reason}");
        }
        assert_eq!(about("Nothing"), None);
    }
}
