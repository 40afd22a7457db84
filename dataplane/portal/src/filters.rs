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
