//! Where the answers come from: a tenant's database, or the data plane.

use std::fmt;

use docket_crds::EventCode;
use docket_domain::resend::Aside;
use serde_json::Value;

use crate::arguments::{DeadLetters, FilterArguments, Traced};

/// A command has found a problem: it ends with the exit code 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found(pub String);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Found {}

/// A page of a list.
#[derive(Debug)]
pub struct Page<C> {
    /// The items, newest first. There may be none although another page follows.
    pub items: Vec<Value>,
    /// Where the next page begins; `None`: this page is the last.
    pub next: Option<C>,
}

/// What answers the questions about the deliveries of a webhook or a tenant. Each answer has the fields of `/WebhookLogs`.
pub trait Answers {
    /// Why there is no answer.
    type Error: From<Found> + fmt::Display;
    /// The beginning of a page.
    type Cursor;

    /// A page of at most `size` deliveries, newest first.
    fn deliveries(
        &mut self,
        filter: &FilterArguments,
        size: usize,
        cursor: Option<Self::Cursor>,
    ) -> impl Future<Output = Result<Page<Self::Cursor>, Self::Error>>;

    /// An order, an event or a delivery with all attempts.
    fn trace(&mut self, what: Traced, id: &str) -> impl Future<Output = Result<Value, Self::Error>>;

    /// How many dead letters [`Self::resend`] would queue.
    fn preview(
        &mut self,
        letters: &DeadLetters,
        per_second: i64,
    ) -> impl Future<Output = Result<Value, Self::Error>>;

    /// Queues dead letters again: a bulk resend, with its `resendId`.
    fn resend(
        &mut self,
        letters: &DeadLetters,
        per_second: i64,
    ) -> impl Future<Output = Result<Value, Self::Error>>;

    /// The progress of a bulk resend.
    fn progress(&mut self, resend_id: &str) -> impl Future<Output = Result<Value, Self::Error>>;

    /// Stops a bulk resend.
    fn stop(&mut self, resend_id: &str) -> impl Future<Output = Result<Value, Self::Error>>;

    /// How many dead letters [`Self::set_aside`] would change. `endedBefore` is the time of the preview.
    fn preview_aside(
        &mut self,
        letters: &DeadLetters,
        aside: Aside,
    ) -> impl Future<Output = Result<Value, Self::Error>>;

    /// Sets dead letters aside, or undoes that: how many were `changed`.
    fn set_aside(
        &mut self,
        letters: &DeadLetters,
        aside: Aside,
    ) -> impl Future<Output = Result<Value, Self::Error>>;

    /// Sends a test event: the `deliveryId`.
    fn test(&mut self, event: Option<EventCode>) -> impl Future<Output = Result<Value, Self::Error>>;

    /// The name of the webhook, for people.
    fn webhook(&self) -> String;

    /// The command of this program with these words, for the webhook.
    fn command(&self, words: &str) -> String;
}
