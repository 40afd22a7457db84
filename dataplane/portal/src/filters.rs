//! What a form or a link has sent.

use crate::href;
use crate::page::Section;

/// The filters as they were sent: parameters of `/WebhookLogs/Search` and their values.
#[derive(Debug, Clone, Default)]
pub struct Filters(pub Vec<(String, String)>);

impl Filters {
    /// The value of a parameter; empty if the user did not send it.
    pub fn value(&self, name: &str) -> &str {
        self.0.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// A link to the page of a section that continues at this cursor, with the same filters.
    pub(crate) fn at(&self, section: Section, cursor: &str) -> String {
        let kept = self.0.iter().filter(|(name, _)| name != "cursor");
        let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
        href(section.path(), kept.chain([("cursor", cursor)]))
    }

    /// Whether the user has chosen anything.
    pub(crate) fn is_any(&self) -> bool {
        self.0.iter().any(|(name, _)| name != "cursor" && name != "pageSize")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_to_another_page_keeps_the_filters_and_replaces_the_cursor() {
        let filters = |pairs: &[(&str, &str)]| {
            Filters(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let sent = filters(&[("status", "Failed"), ("cursor", "old"), ("webhook", "a/b")]);
        assert_eq!(sent.at(Section::Logs, "new"), "/portal/logs?status=Failed&webhook=a%2Fb&cursor=new");
        assert_eq!(sent.at(Section::Logs, ""), "/portal/logs?status=Failed&webhook=a%2Fb");
        assert_eq!((sent.value("webhook"), sent.value("event")), ("a/b", ""));
        assert!(sent.is_any() && !filters(&[("cursor", "c"), ("pageSize", "5")]).is_any());
    }
}
