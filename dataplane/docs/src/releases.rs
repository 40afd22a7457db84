//! A page for each release: what `CHANGELOG.md` says of it. On the site, the changelog itself lists these pages.

/// The file that has the changes of all releases, the newest first.
pub(crate) const CHANGELOG: &str = "CHANGELOG.md";

/// The path of the page of a version, beside the changelog: so the links of both lead to the same files.
fn path(version: &str) -> String {
    format!("changes-{version}.md")
}

/// The version and the rest of each second heading, with the text below the heading.
fn releases(changelog: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    changelog.split("\n## ").skip(1).map(|release| {
        let (heading, text) = release.split_once('\n').unwrap_or((release, ""));
        let (version, rest) = heading.split_once(' ').unwrap_or((heading, ""));
        (version, rest.trim_start_matches("- "), text)
    })
}

/// Whether the page of a release has this path.
pub(crate) fn has(changelog: &str, page: &str) -> bool {
    let version = page.strip_prefix("changes-").and_then(|rest| rest.strip_suffix(".md"));
    version.is_some_and(|version| releases(changelog).any(|(other, ..)| other == version))
}

/// The changelog with a link to the page of each release in place of its changes.
pub(crate) fn index(changelog: &str) -> String {
    let (begin, _) = changelog.split_once("\n## ").unwrap_or((changelog, ""));
    let lines = releases(changelog).map(|(version, date, _)| match date {
        "" => format!("- [{version}]({})\n", path(version)),
        date => format!("- [{version}]({}), {date}\n", path(version)),
    });
    format!("{begin}\n{}", lines.collect::<String>())
}

/// The path and the Markdown of the page of each release.
pub(crate) fn pages(changelog: &str) -> Vec<(String, String)> {
    let page = |(version, date, text): (&str, &str, &str)| {
        let text = text.replace("\n### ", "\n## ");
        let date = if date.is_empty() { String::new() } else { format!("Date: {date}. ") };
        (
            path(version),
            format!("# Changes in {version}\n\n{date}See also [the other releases]({CHANGELOG}).\n{text}"),
        )
    };
    releases(changelog).map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "# Changelog\n\nAll changes.\n\n## 0.2.0\n\n### Added\n\n- [A](docs/a.md)\n\n## 0.1.0 - 2026-11-25\n\nFirst.\n";

    #[test]
    fn changelog_becomes_a_list_of_releases_and_a_page_for_each() {
        let list = "- [0.2.0](changes-0.2.0.md)\n- [0.1.0](changes-0.1.0.md), 2026-11-25\n";
        assert_eq!(index(SAMPLE), format!("# Changelog\n\nAll changes.\n\n{list}"));
        let begin = |version| format!("# Changes in {version}\n\n");
        let page = |path: &str, text: String| (path.to_owned(), text);
        let expected = [
            page(
                "changes-0.2.0.md",
                begin("0.2.0")
                    + "See also [the other releases](CHANGELOG.md).\n\n## Added\n\n- [A](docs/a.md)\n",
            ),
            page(
                "changes-0.1.0.md",
                begin("0.1.0") + "Date: 2026-11-25. See also [the other releases](CHANGELOG.md).\n\nFirst.\n",
            ),
        ];
        assert_eq!(pages(SAMPLE), expected);
        assert!(has(SAMPLE, "changes-0.2.0.md") && !has(SAMPLE, "changes-0.3.0.md"));
    }

    #[test]
    fn changelog_without_a_release_lists_none() {
        assert_eq!((index("# Changelog\n"), pages("# Changelog\n")), ("# Changelog\n\n".into(), vec![]));
    }
}
