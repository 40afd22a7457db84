//! A tenant of a run, as its clients know it.

use docket_tests::server::Client;

/// A tenant.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The URL of its database, past the proxy.
    pub(crate) url: String,
    /// A text that its orders contain, and nothing of another tenant.
    pub(crate) canary: String,
    pub(crate) client: Client,
    pub(crate) webhooks: Vec<String>,
}

/// The numbers of the canaries that a text contains.
pub(crate) fn found<'a>(canaries: impl Iterator<Item = &'a str>, text: &str) -> Vec<usize> {
    canaries.enumerate().filter(|(_, canary)| text.contains(*canary)).map(|(number, _)| number).collect()
}
