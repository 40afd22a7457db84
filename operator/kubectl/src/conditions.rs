//! The text about a reason in this version's `docs/reference/conditions.md`.

/// The path of the page, for the last line of a check.
pub(crate) const PAGE: &str = "/docs/reference/conditions.html";

/// The section about `reason` as one line of plain text; `None`: the page has no such section.
pub(crate) fn about(reason: &str) -> Option<String> {
    let document = include_str!("../../../docs/reference/conditions.md");
    let (_, rest) = document.split_once(&format!("\n### {reason}\n"))?;
    let section = rest.split("\n#").next()?;
    let words = section.lines().filter(|line| !line.starts_with("```")).flat_map(str::split_whitespace);
    // The labels of its parts are bold on the page.
    Some(words.collect::<Vec<_>>().join(" ").replace("**", ""))
}

/// The path of the section about `reason`.
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
            let fix = about(reason.as_str()).unwrap_or_default();
            assert!(
                fix.contains(" Look: ") && fix.contains(" Do: ") && !fix.contains("**"),
                "{reason}: {fix}"
            );
        }
        assert_eq!(about("Nothing"), None);
    }
}
